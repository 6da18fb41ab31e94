"""Comparisons of systems on the same questions."""
