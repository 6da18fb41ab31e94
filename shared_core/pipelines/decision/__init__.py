"""Decide on weighed claims: keep or abstain, the reason for it, and the wording."""
