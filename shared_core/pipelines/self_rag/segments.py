"""Parts of a search for an answer: steps, jobs, written segments and how they are judged, and their writer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shared_core.citation import split_sentences
from shared_core.lm.base import Sample
from shared_core.reflection import (
    RELEVANCE_TOKENS,
    SUPPORT_TOKENS,
    UTILITY_TOKENS,
    Path,
    Segment,
    critique_score,
    group_logprobs,
    plain_relevance_score,
    plain_support_score,
    plain_usefulness_score,
    relevance_score,
    segment_score,
    support_score,
    usefulness_score,
)
from shared_core.runtime.flow import Flow
from shared_core.settings import SelfRagSettings
from shared_core.types import Critique, Passage

Move = Literal["retrieve", "continue", "none", "end"]
"""What comes next on a path: a segment from passages looked up for it, one more from the passage of the last one, one
without any passage, or nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decision about what comes next.

    Attributes:
        move: what it is.
        probability: that retrieving is wanted, among the alternatives, in [0, 1]; ``None`` where unknown.
        reason: why, for people.
    """

    move: Move
    probability: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """Record of a segment.

    Attributes:
        text: as a reader should see it.
        move: how it was begun.
        passage: what it was written from.
        token_ids: as generated, up to its end; empty where text is all there is.
        next: what the model wants after it; ``None`` where that has to be asked.
        fully: P(the passage fully supports it), in [0, 1]; ``None`` if not judged. Partial support counts nothing.
        useful: P(it is useful for the question: a rating of 4 or 5), in [0, 1]; ``None`` if not judged.
        irrelevant: its writer says that the passage has nothing to do with it.
    """

    text: str
    move: Move
    passage: Passage | None = None
    token_ids: tuple[int, ...] = ()
    next: Step | None = None
    fully: float | None = None
    useful: float | None = None
    irrelevant: bool = False


WrittenSegment = Segment[Written]
WrittenPath = Path[Written]


@dataclass(frozen=True, slots=True)
class Job:
    """A segment to be written behind ``path``."""

    path: WrittenPath
    move: Move
    passage: Passage | None = None


class Writer(Protocol):
    """Writes and judges the segments of one question's answer."""

    @property
    def by(self) -> str:
        """Name the judge: ``reflection tokens``, or ``prompted critic`` and how it is read."""
        ...

    @property
    def declined(self) -> bool:
        """Whether the model said that no passage helps: then that nothing was written is an answer."""
        ...

    def begin(self) -> Flow[Step]:
        """Write the beginning of the answer."""
        ...

    def ask_next(self, paths: Sequence[WrittenPath]) -> Flow[list[Step]]:
        """Write the next segment of each path."""
        ...

    def write(self, jobs: Sequence[Job]) -> Flow[list[WrittenSegment | None]]:
        """A judged segment for each job, all in one batch; ``None`` where nothing came of it."""
        ...


# --- judging ---------------------------------------------------------------------------------------------------------


_USEFUL = UTILITY_TOKENS[3:]


@dataclass(frozen=True, slots=True)
class Judged:
    """A segment's critique, and what of it is a probability.

    Attributes:
        critique: each part in its own range, and their weighted sum: what a search compares.
        fully: P(fully supported); half of a partial support is a score and no probability, so it counts nothing here.
        useful: P(a rating of 4 or 5).
    """

    critique: Critique
    fully: float | None = None
    useful: float | None = None


def weights_of(options: SelfRagSettings) -> tuple[float, float, float]:
    """Weights of relevance, support and usefulness: the soft constraints."""
    return (options.weight_relevance, options.weight_support, options.weight_usefulness)


def judge_rows(row: Mapping[str, float], options: SelfRagSettings) -> Judged:
    """The critique by what is known of each group's verdicts; a group that the mapping does not hold was not judged.

    Args:
        row: log-probabilities by reflection token, of all groups together.
        options: weights, and the form of the scores (``scores``).
    """
    # Each group on its own: scores are normalised within it (section 3.3), as mass on other tokens is no verdict.
    relevant, support, utility = (
        group_logprobs(row, group) for group in (RELEVANCE_TOKENS, SUPPORT_TOKENS, UTILITY_TOKENS)
    )
    published = options.published.scores == "published"
    parts = (
        (relevance_score if published else plain_relevance_score)(relevant) if relevant else None,
        (support_score if published else plain_support_score)(support) if support else None,
        (usefulness_score if published else plain_usefulness_score)(utility) if utility else None,
    )
    critique = Critique(*parts, score=critique_score(*parts, weights_of(options)))
    return Judged(critique, plain_support_score(support) if support else None, _share(utility))


def _share(utility: Mapping[str, float]) -> float | None:
    """P(a rating of 4 or 5) among the ratings."""
    if not utility:
        return None
    # Shifted by the largest, so that exp cannot underflow for all of them.
    top = max(utility.values())
    shares = {t: math.exp(v - top) for t, v in utility.items()}
    return min(1.0, sum(shares.get(t, 0.0) for t in _USEFUL) / sum(shares.values()))


def score_of(judged: Judged, sample: Sample, tokens: int, options: SelfRagSettings) -> float:
    """A segment's score: its critique, and how likely its first so many tokens are, where that counts and is known."""
    form = options.published.sequence
    if form == "none" or sample.logprobs is None:
        return segment_score(judged.critique.score)
    return segment_score(judged.critique.score, float(sum(sample.logprobs[:tokens])), tokens, form)


def whole_sentences(text: str) -> str:
    """The text up to its last complete sentence: what a limit cut off is none."""
    whole = split_sentences(text)[:-1]
    return text[: whole[-1][1]] if whole else ""
