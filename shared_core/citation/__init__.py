"""Sentences, citation index, grammars, offset resolution, quote alignment, where a quote stands."""

from shared_core.citation.align import align_quote
from shared_core.citation.facts import Comparison, Mismatch, compare_claim
from shared_core.citation.grammar import AnswerFormat
from shared_core.citation.index import CitationIndex
from shared_core.citation.places import Place, find_place
from shared_core.citation.sentences import SentenceSplitter, ends_sentence, split_sentences

__all__ = [
    "AnswerFormat", "CitationIndex", "Comparison", "Mismatch", "Place", "SentenceSplitter", "align_quote",
    "compare_claim", "ends_sentence", "find_place", "split_sentences",
]  # fmt: skip
