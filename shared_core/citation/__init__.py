"""Sentences, citation index, grammars, offset resolution, quote alignment."""

from shared_core.citation.sentences import SentenceSplitter, split_sentences

__all__ = ["SentenceSplitter", "split_sentences"]
