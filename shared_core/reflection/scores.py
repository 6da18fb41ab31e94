"""Self-RAG's scores from the distribution over critique tokens (Asai et al. 2023, section 3.3 and eq. 8).

Each score takes a mapping from token to natural-log probability, at the position where the critique token was
generated; tokens of other groups in it are ignored, and so is a shift common to all. What is not known:

- an empty mapping: no such token was generated. The score is 0.0.
- a token that is not in the mapping (not among those reported, or -inf) has probability 0; if none of the group has
  any, nothing tells them apart, and each counts the same (relevance and support 0.5, usefulness 0).
- NaN or +inf: the distribution cannot be trusted. The score is 0.0, never a confident one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.reflection.tokens import (
    FULLY_SUPPORTED,
    PARAGRAPH_TOKENS,
    PARTIALLY_SUPPORTED,
    REFLECTION_TOKENS,
    RELEASED_IDS,
    RELEVANCE_TOKENS,
    RELEVANT,
    RETRIEVAL_TOKENS,
    SUPPORT_TOKENS,
    UTILITY_TOKENS,
    reflection_ids,
    strip_reflection_tokens,
)

LogProbs = Mapping[str, float]

UTILITY_WEIGHTS = (-1.0, -0.5, 0.0, 0.5, 1.0)


class CritiqueWeights(NamedTuple):
    """Weights of the parts of a critique (defaults of the paper's runs).

    >>> critique_score(relevance=1.0, support=0.5, usefulness=None, weights=CritiqueWeights(support=2.0))
    2.0
    """

    relevance: float = 1.0
    support: float = 1.0
    usefulness: float = 0.5


# --- whether to retrieve -------------------------------------------------------------------------------------------


def retrieval_probability(logp_retrieval: float, logp_no_retrieval: float) -> float:
    """``p(Retrieval) / (p(Retrieval) + p(No Retrieval))``, eq. 8, in probability space, of natural-log probabilities.

    Where it is unknown (NaN, +inf, or neither is possible: both -inf) 1.0: when in doubt, look it up.
    """
    r, n = float(logp_retrieval), float(logp_no_retrieval)
    if math.isnan(r) or math.isnan(n) or math.inf in (r, n) or r == n == -math.inf:
        return 1.0
    return 1.0 / (1.0 + math.exp(n - r)) if r >= n else math.exp(r - n) / (1.0 + math.exp(r - n))


def should_retrieve(probability: float, threshold: float = 0.2) -> bool:
    """Whether to retrieve: ``probability > threshold``; always at a threshold of 0 (citations required) or for NaN.

    InputError if the threshold is not in [0, 1].
    """
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold must be in [0, 1], not {threshold!r}.")
    return math.isnan(probability) or threshold == 0 or probability > threshold


# --- one score for each kind of critique ---------------------------------------------------------------------------


def relevance_score(logprobs: LogProbs) -> float:
    """``p(Relevant) / (p(Relevant) + p(Irrelevant))``, at the first generated position; in [0, 1].

    The paper's plain form ``s^G``, the share of the best token, is the same.
    """
    return _expected(logprobs, RELEVANCE_TOKENS, {RELEVANT: 1.0})


def support_score(logprobs: LogProbs) -> float:
    """``(p(Fully) + 0.5 p(Partially)) / (p(Fully) + p(Partially) + p(No support))``; in [0, 1].

    Read at the first support token; 0 if there is none.
    """
    return _expected(logprobs, SUPPORT_TOKENS, {FULLY_SUPPORTED: 1.0, PARTIALLY_SUPPORTED: 0.5})


def usefulness_score(logprobs: LogProbs) -> float:
    """``Σ wᵢ p(Utility:i) / Σ p(Utility:i)``, w = (-1, -0.5, 0, 0.5, 1); in [-1, 1].

    Read at the first utility token; 0 if there is none.
    """
    return _expected(logprobs, UTILITY_TOKENS, dict(zip(UTILITY_TOKENS, UTILITY_WEIGHTS)))


def plain_support_score(logprobs: LogProbs) -> float:
    """The plain form ``s^G`` of support: ``p(Fully) / Σ p``; partial support counts nothing. In [0, 1]."""
    return _expected(logprobs, SUPPORT_TOKENS, {FULLY_SUPPORTED: 1.0})


def plain_usefulness_score(logprobs: LogProbs) -> float:
    """The plain form ``s^G`` of usefulness: ``p(Utility:5) / Σ p``. In [0, 1]."""
    return _expected(logprobs, UTILITY_TOKENS, {UTILITY_TOKENS[-1]: 1.0})


def useful_probability(logprobs: LogProbs) -> float:
    """P(a rating of 4 or 5) among the ratings. In [0, 1]."""
    return _expected(logprobs, UTILITY_TOKENS, dict.fromkeys(UTILITY_TOKENS[3:], 1.0))


def _expected(logprobs: LogProbs, group: Sequence[str], worth: Mapping[str, float]) -> float:
    """Expected worth of the group's token under the distribution restricted to the group."""
    if not logprobs:
        return 0.0
    values = [float(logprobs.get(t, -math.inf)) for t in group]
    if any(math.isnan(v) or v == math.inf for v in values):
        return 0.0
    top = max(values)
    if top == -math.inf:
        values, top = [0.0] * len(group), 0.0
    shares = [math.exp(v - top) for v in values]
    return sum(s * worth.get(t, 0.0) for s, t in zip(shares, group)) / sum(shares)


# --- putting scores together ---------------------------------------------------------------------------------------


def critique_score(
    relevance: float | None,
    support: float | None,
    usefulness: float | None,
    weights: Sequence[float] | Mapping[str, float] = CritiqueWeights(),
) -> float:
    """``w_rel · relevance + w_sup · support + w_use · usefulness``.

    Args:
        relevance, support, usefulness: a part that was not judged (``None``) or is not finite adds nothing.
        weights: three numbers in that order, or a mapping with (some of) those names; the rest keep their defaults.

    Raises:
        InputError: weights of another form, or not finite.
    """
    w = _weights(weights)
    parts = (relevance, support, usefulness)
    return sum(a * p for a, p in zip(w, parts) if p is not None and math.isfinite(p)) + 0.0


def sequence_score(cumulative_logprob: float, tokens: int, form: Literal["published", "paper"] = "published") -> float:
    """Score the likelihood of a segment's text: ``exp(log p / tokens)`` (published code) or ``log p`` (paper, eq. 4).

    Unknown (no tokens, NaN, above 0 beyond rounding) is the least likely: 0, or -inf in the paper's form.
    """
    unknown = tokens < 1 or math.isnan(cumulative_logprob) or cumulative_logprob > 1e-3 * max(tokens, 1)
    if form == "paper":
        return -math.inf if unknown else min(cumulative_logprob, 0.0)
    return 0.0 if unknown else math.exp(min(cumulative_logprob, 0.0) / tokens)


def segment_score(
    critique: float,
    cumulative_logprob: float | None = None,
    tokens: int = 0,
    form: Literal["published", "paper"] = "published",
) -> float:
    """Score f of a segment: its critique score, plus ``sequence_score`` where its log-probability is given."""
    return critique + (0.0 if cumulative_logprob is None else sequence_score(cumulative_logprob, tokens, form))


@dataclass(frozen=True, slots=True)
class AnswerTotal:
    """One answer of a closed set with the scores of all paths that gave it.

    >>> aggregate_answers(["A", "B", "A"], [0.2, 0.3, 0.4])[0].paths
    (0, 2)
    """

    answer: str
    score: float
    paths: tuple[int, ...]


def aggregate_answers(texts: Sequence[str], scores: Sequence[float]) -> tuple[AnswerTotal, ...]:
    """Closed sets (multiple choice, fact verification): add up the scores of the paths with the same answer string.

    Args:
        texts: of the paths; reflection tokens are stripped, empty answers left out.
        scores: of the paths; one that is not finite adds nothing.

    Returns:
        Best first, ties in order of first appearance; empty if no path gave an answer.

    Raises:
        InputError: the two differ in length.
    """
    if len(texts) != len(scores):
        raise InputError(f"There are {len(texts)} texts and {len(scores)} scores.")
    found: dict[str, tuple[float, tuple[int, ...]]] = {}
    for i, (text, score) in enumerate(zip(texts, scores)):
        answer = strip_reflection_tokens(text)
        if answer:
            total, paths = found.get(answer, (0.0, ()))
            found[answer] = (total + (score if math.isfinite(score) else 0.0), (*paths, i))
    totals = (AnswerTotal(a, total, paths) for a, (total, paths) in found.items())
    return tuple(sorted(totals, key=lambda t: -t.score))


# --- reading verdicts off a generation -----------------------------------------------------------------------------


def verdict_mapping(row: ArrayLike, names: Sequence[str]) -> dict[str, float]:
    """One position's log-probabilities by token; what the server did not say (NaN) is left out.

    InputError if there are not as many values as names.
    """
    values = np.asarray(row, dtype=np.float64)
    if values.shape != (len(names),):
        raise InputError(f"There are {len(names)} verdict tokens and values of shape {values.shape}.")
    return {n: float(v) for n, v in zip(names, values) if not math.isnan(v)}


def first_position(token_ids: Sequence[int], group_ids: Iterable[int]) -> int | None:
    """Find where a token of the group was first generated, by id, never by searching text; ``None`` if nowhere."""
    wanted = set(group_ids)
    return next((i for i, token in enumerate(token_ids) if token in wanted), None)


def _weights(weights: Sequence[float] | Mapping[str, float]) -> CritiqueWeights:
    try:
        made = CritiqueWeights(**weights) if isinstance(weights, Mapping) else CritiqueWeights(*weights)
        made = CritiqueWeights(*(float(w) for w in made))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Not the weights of a critique: {weights!r}.", hint="(relevance, support, usefulness)"
        ) from error
    if (not isinstance(weights, Mapping) and len(weights) != 3) or not all(map(math.isfinite, made)):
        raise InputError(f"Weights must be three finite numbers, not {weights!r}.", hint="(1.0, 1.0, 0.5)")
    return made


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
        """From the ids that a tokenizer gives for ``REFLECTION_TOKENS``, in that order; InputError for more or fewer.

        ``None`` if it lacks one, or has two of one id: what the model's verdicts are is unknown then.
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
