"""English auxiliary verbs, as alternatives of regular expressions."""

BE = "is|are|was|were"
DO = "do|does|did"
HAVE = "has|have|had"
MODALS = "can|could|may|must|should|will|would"
"""But for "shall" and "might", which some patterns leave out."""
AUXILIARIES = f"{BE}|{DO}|{HAVE}|{MODALS}"
