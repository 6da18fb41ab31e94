"""Sentences, citation index, grammars, offset resolution, quote alignment."""
