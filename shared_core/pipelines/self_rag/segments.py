"""Parts of a search for an answer: steps, jobs, batches of requests, written segments, their judgement and writer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shared_core.errors import ContextOverflowError, LanguageModelError
from shared_core.lm.base import Generation, Sample
from shared_core.pipelines.decision.question_run import QuestionRun, within_limits
from shared_core.reflection import (
    RELEVANCE_TOKENS,
    SUPPORT_TOKENS,
    UTILITY_TOKENS,
    Path,
    Segment,
    critique_score,
    group_logprobs,
    plain_support_score,
    plain_usefulness_score,
    relevance_score,
    retrieval_probability,
    segment_score,
    should_retrieve,
    support_score,
    useful_probability,
    usefulness_score,
)
from shared_core.reflection.tokens import NO_RETRIEVAL, RETRIEVAL
from shared_core.runtime.flow import Flow, Generate, LeafRequest
from shared_core.settings import SelfRagSettings
from shared_core.types import Critique, Passage

Move = Literal["retrieve", "continue", "none", "end"]
"""What comes next on a path: a segment from passages looked up for it, one more from the passage of the last one, one
without any passage, or nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decision about what comes next.

    Attributes:
        probability: that retrieving is wanted, among the alternatives, in [0, 1]; ``None`` where unknown.
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
Row = dict[str, float]
"""Log-probabilities by reflection token."""


def retrieval_step(row: Mapping[str, float], threshold: float) -> Step:
    """Decide whether to retrieve by the verdicts on it (eq. 8); what is unknown retrieves."""
    if not row:
        return Step("retrieve", None, "the model does not say whether it needs a passage")
    # A verdict that is missing among known ones has no mass worth reporting: probability 0.
    p = retrieval_probability(row.get(RETRIEVAL, -math.inf), row.get(NO_RETRIEVAL, -math.inf))
    return Step("retrieve" if should_retrieve(p, threshold) else "none", p, f"threshold {threshold:g}")


@dataclass(frozen=True, slots=True)
class Job:
    """A segment to be written behind ``path``."""

    path: WrittenPath
    move: Move
    passage: Passage | None = None

    def segment(
        self, written: Written, judged: Judged, score: float, *, contradicted: bool, last: bool = False
    ) -> WrittenSegment:
        """Return the segment that came of it."""
        passage_id = self.passage.id if self.passage is not None else None
        return Segment(written.text, score, written, passage_id, judged.critique, contradicted, last)


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


# --- judging -------------------------------------------------------------------------------------------------------


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
        relevance_score(relevant) if relevant else None,
        (support_score if published else plain_support_score)(support) if support else None,
        (usefulness_score if published else plain_usefulness_score)(utility) if utility else None,
    )
    critique = Critique(*parts, score=critique_score(*parts, weights_of(options)))
    fully = plain_support_score(support) if support else None
    return Judged(critique, fully, useful_probability(utility) if utility else None)


def score_of(judged: Judged, sample: Sample, tokens: int, options: SelfRagSettings) -> float:
    """A segment's score: its critique, and how likely its first so many tokens are, where that counts and is known."""
    form = options.published.sequence
    if form == "none" or sample.logprobs is None:
        return segment_score(judged.critique.score)
    return segment_score(judged.critique.score, float(sum(sample.logprobs[:tokens])), tokens, form)


def ask_all(requests: Sequence[LeafRequest], run: QuestionRun) -> Flow[list[object]]:
    """The results in order, errors of the model as values.

    Where a limit of the settings does not allow all of them, the rest has the limit's error for a result, and the run
    is marked as stopped (``run.trace.limit``).
    """
    if not requests:
        return []
    results, limit = yield from within_limits(requests)
    if limit is not None:
        yield run.stop(limit)
    return [*results, *[limit] * (len(requests) - len(results))]


def generate_all(
    requests: Sequence[Generate], run: QuestionRun, *, may_all_overflow: bool = False
) -> Flow[list[Generation | None]]:
    """Generate for each request; ``None`` if it failed, a limit was reached or the context was too short.

    Args:
        may_all_overflow: it is no error where not one prompt fits the context.

    Raises:
        LanguageModelError: every request failed, and not for its length: the model cannot be used now.
        ContextOverflowError: no prompt fits, or one does not and ``on_overflow`` is ``raise``.
    """
    results = yield from ask_all(requests, run)
    failed = [r for r in results if isinstance(r, LanguageModelError)]
    too_long = [r for r in failed if isinstance(r, ContextOverflowError)]
    if too_long:
        none_fits = len(too_long) == len(results) and not may_all_overflow
        if none_fits or run.settings.on_overflow == "raise":
            raise too_long[0]
        yield run.note("context", f"{len(too_long)} of {len(results)} prompts left out", too_long[0].message)
    others = [r for r in failed if not isinstance(r, ContextOverflowError)]
    if others and len(others) == len(results):
        raise others[0]
    if others:
        yield run.note("write", f"{len(others)} of {len(results)} failed", others[0].message)
    return [r if isinstance(r, Generation) else None for r in results]
