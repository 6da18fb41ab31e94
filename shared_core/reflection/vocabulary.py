"""The reflection tokens of one model: their ids, and what a generation says by them. It knows no model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.reflection.scores import verdict_mapping
from shared_core.reflection.tokens import (
    PARAGRAPH_TOKENS,
    REFLECTION_TOKENS,
    RELEASED_IDS,
    RELEVANCE_TOKENS,
    RETRIEVAL_TOKENS,
    SUPPORT_TOKENS,
    UTILITY_TOKENS,
    reflection_ids,
)

VERDICT_TOKENS = RETRIEVAL_TOKENS + RELEVANCE_TOKENS + UTILITY_TOKENS + SUPPORT_TOKENS
"""The thirteen that are verdicts: all but the two that enclose a passage."""


@dataclass(frozen=True, slots=True)
class ReflectionVocabulary:
    """Ids of the reflection tokens in a model's vocabulary: all fifteen, no two alike.

    Attributes:
        ids: by token.

    >>> vocabulary = ReflectionVocabulary.released()
    >>> len(vocabulary.verdicts)
    13
    """

    ids: Mapping[str, int]

    def __post_init__(self) -> None:
        """Refuse a vocabulary that lacks a token or has two of one id; keep a read-only copy."""
        object.__setattr__(self, "ids", MappingProxyType(reflection_ids(dict(self.ids))))

    def __hash__(self) -> int:
        return hash(self.of(REFLECTION_TOKENS))

    @classmethod
    def released(cls) -> Self:
        """That of the released 7B and 13B checkpoints."""
        return cls(RELEASED_IDS)

    @classmethod
    def of_lookup(cls, found: Sequence[int | None]) -> Self | None:
        """From the ids that a model's tokenizer gives for ``REFLECTION_TOKENS``, in that order.

        Returns:
            ``None`` if it lacks one, or has two of one id: what the model's verdicts are is unknown then.

        Raises:
            InputError: these are not as many as there are tokens.
        """
        if len(found) != len(REFLECTION_TOKENS):
            raise InputError(f"There are {len(REFLECTION_TOKENS)} reflection tokens and {len(found)} ids.")
        try:
            return cls({t: i for t, i in zip(REFLECTION_TOKENS, found) if i is not None})
        except InputError:
            return None

    def of(self, tokens: Iterable[str]) -> tuple[int, ...]:
        """Ids of tokens, in their order."""
        return tuple(self.ids[t] for t in tokens)

    @property
    def verdicts(self) -> tuple[int, ...]:
        """Ids of ``VERDICT_TOKENS``: whose log-probabilities to ask a model for."""
        return self.of(VERDICT_TOKENS)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Ids that end a segment where a model generates them.

        Those of the decision what comes next; of utility, which is said at an answer's end; and of passages, which no
        model writes itself.
        """
        return self.of(RETRIEVAL_TOKENS + UTILITY_TOKENS + PARAGRAPH_TOKENS)

    def token_of(self, token_id: int) -> str | None:
        """The reflection token of that id, ``None`` if it is none."""
        return next((t for t, i in self.ids.items() if i == token_id), None)

    def rows(self, verdict_logprobs: Iterable[ArrayLike] | None, tokens: int) -> list[dict[str, float]]:
        """The verdicts' log-probabilities by token at each of so many generated positions.

        Args:
            verdict_logprobs: (T, 13) in the order of ``VERDICT_TOKENS``, NaN where unknown.
            tokens: T.

        Returns:
            An empty mapping for each position where nothing is known.

        Raises:
            InputError: the shape does not fit.
        """
        if verdict_logprobs is None:
            return [{} for _ in range(tokens)]
        found = [verdict_mapping(row, VERDICT_TOKENS) for row in verdict_logprobs]
        if len(found) != tokens:
            raise InputError(f"There are verdicts at {len(found)} positions of {tokens}.")
        return found


def group_logprobs(row: Mapping[str, float], group: Sequence[str]) -> dict[str, float]:
    """Read one group's log-probabilities at a position; empty if they cannot be trusted.

    A token that is not in the row is impossible there; NaN or +inf among them makes all of it unknown, and so do tokens
    none of which is possible.
    """
    found = {t: float(row[t]) for t in group if t in row}
    if any(math.isnan(v) or v == math.inf for v in found.values()) or not any(map(math.isfinite, found.values())):
        return {}
    return found
