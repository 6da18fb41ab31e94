"""From weighed claims to what is shown: the decision, its reasons and its wording."""
