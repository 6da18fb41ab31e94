"""Sentences, citation index, grammars, offset resolution, quote alignment."""

from shared_core.citation.align import align_quote
from shared_core.citation.grammar import AnswerFormat
from shared_core.citation.index import CitationIndex
from shared_core.citation.sentences import SentenceSplitter, split_sentences

__all__ = ["AnswerFormat", "CitationIndex", "SentenceSplitter", "align_quote", "split_sentences"]
