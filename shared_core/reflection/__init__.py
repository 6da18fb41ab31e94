"""Self-RAG: reflection tokens, critique scores, segment beam search. Pure functions; no model."""

from __future__ import annotations

from shared_core.reflection.scores import (
    UTILITY_WEIGHTS,
    VERDICT_TOKENS,
    AnswerTotal,
    CritiqueWeights,
    ReflectionVocabulary,
    aggregate_answers,
    critique_score,
    first_position,
    group_logprobs,
    plain_support_score,
    plain_usefulness_score,
    relevance_score,
    retrieval_probability,
    segment_score,
    sequence_score,
    should_retrieve,
    support_score,
    useful_probability,
    usefulness_score,
    verdict_mapping,
)
from shared_core.reflection.segment_beam import Beam, Path, Segment
from shared_core.reflection.tokens import (
    REFLECTION_TOKENS,
    RELEASED_IDS,
    RELEVANCE_TOKENS,
    RETRIEVAL_TOKENS,
    SUPPORT_TOKENS,
    TOKEN_GROUPS,
    UTILITY_TOKENS,
    reflection_ids,
    strip_reflection_tokens,
)

__all__ = [
    "REFLECTION_TOKENS", "RELEASED_IDS", "RELEVANCE_TOKENS", "RETRIEVAL_TOKENS", "SUPPORT_TOKENS", "TOKEN_GROUPS",
    "UTILITY_TOKENS", "UTILITY_WEIGHTS", "VERDICT_TOKENS", "AnswerTotal", "Beam", "CritiqueWeights", "Path",
    "ReflectionVocabulary", "Segment", "aggregate_answers", "critique_score", "first_position", "group_logprobs",
    "plain_support_score", "plain_usefulness_score", "reflection_ids", "relevance_score",
    "retrieval_probability", "segment_score", "sequence_score", "should_retrieve", "strip_reflection_tokens",
    "support_score", "useful_probability", "usefulness_score", "verdict_mapping",
]  # fmt: skip
