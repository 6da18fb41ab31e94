"""The reward of RLOO: the expected utility of a sampled answer, judged by the pipeline's parts.

An answer is cut into claims, each claim is judged once, by the passages or by self-evaluation, and the expected utility
of the whole answer over the spread of utilities is its reward. Who judges is an engine of its own, the model as it was
before training for instance: a model that judged itself while it learns would learn to believe itself. For the same
reason what it writes in training is no source to judge claims by; those are the candidates of the search.

An unknown reward is ``None``, and TRL leaves such an answer out of the step. It is not 0: that is
what abstaining is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared_core.abstention import claim_key, expected_utility, split_claims
from shared_core.errors import GenerationError, InputError, LanguageModelError, LimitError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.research.asking import spoken
from shared_core.pipelines.research.claims import Candidate, Part, Splits, split
from shared_core.pipelines.research.search import Search, judge_claims, whole_sentences
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Flow
from shared_core.training.research.rows import Prompted, spread
from shared_core.types import Claim

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine


@dataclass(frozen=True, slots=True)
class Sampled:
    """An answer to judge: its row, its text, and whether the model ended it (else it was cut off)."""

    source: str
    text: str
    ended: bool = True


@dataclass
class UtilityReward:
    """Reward function for sampled answers; remembers judged claims from step to step.

    Args:
        engine: of the pipeline ``research``, whose model splits and judges; its target accuracy is ρ*.
        rows: that answers are sampled for; a claim judged in the search is not judged again.
        scale: what a utility is divided by; the standard deviation of the rows' utilities if not given.

    Attributes:
        unknown: answers so far whose reward is unknown.
        judged: claims so far that the engine was asked about.

    Raises:
        InputError: another pipeline, rows with and without passages, or two of one id.
    """

    engine: SelfReflectEngine
    rows: Sequence[Prompted]
    scale: float | None = None
    unknown: int = 0
    judged: int = 0
    _states: dict[str, Search] = field(default_factory=dict, repr=False)
    _rows: dict[str, Prompted] = field(default_factory=dict, repr=False)
    _problem: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        settings = self.engine.settings
        if settings.pipeline != "research":
            raise InputError("The reward needs an engine of the pipeline research.")
        closed = settings.research.closed_book
        if any(bool(row.passages) == closed for row in self.rows):
            raise InputError(
                "The rows are of searches from passages, and the reward is closed book."
                if closed
                else "The rows are of closed-book searches, and the reward is by passages.",
                hint="research.closed_book must be as it was when the rows were made.",
            )
        self._rows = {row.source: row for row in self.rows}
        if len(self._rows) < len(self.rows):
            raise InputError("Two rows have the same source.", hint="Give the rows of one run of research-data.")
        if self.scale is None:
            self.scale = spread([utility for row in self.rows for _, utility in row.candidates])

    def __call__(self, answers: Sequence[Sampled]) -> list[float | None]:
        """Compute the reward of each answer, in order; ``None`` where it is unknown.

        Raises:
            GenerationError: every one is unknown.
            SelfReflectError: what would fail at every answer (a capability that the judge lacks, …).
        """
        grouped: dict[str, list[int]] = {}
        for i, answer in enumerate(answers):
            grouped.setdefault(answer.source, []).append(i)
        todo = [self._told(source, [answers[i] for i in places]) for source, places in grouped.items()]
        settings = self.engine.settings
        found: list[float | None] = [None] * len(answers)
        for places, result in zip(
            grouped.values(), flows.run_many(todo, self.engine.resources, deadline=settings.deadline)
        ):
            if isinstance(result, (LanguageModelError, LimitError)):
                self._problem = str(result)
                continue
            if isinstance(result, Exception):
                raise result
            for i, utility in zip(places, result):
                found[i] = None if utility is None else utility / (self.scale or 1.0)
        silent = sum(reward is None for reward in found)
        self.unknown += silent
        if answers and silent == len(answers):
            raise GenerationError(
                f"Not one of {silent} answers could be judged: {self._problem or 'no probability could be read'}.",
                hint="Check the judge: its replies must state whole numbers from 0 to 100, or use "
                "research.published.evaluation=logits.",
            )
        return found

    def _told(self, source: str, answers: Sequence[Sampled]) -> Flow[list[float | None]]:
        state, row = self._state(source), self._rows[source]
        state.run = run = QuestionRun(self.engine.settings, self.engine.context)
        texts = [whole_sentences(spoken(a.text).strip(), cut=not a.ended) for a in answers]
        texts = ["" if claim_key(t) == claim_key(row.abstention) else t for t in texts]
        candidates = yield from split(row.question, texts, 1, state.splits, run)
        new = state.cache.missing(claim for c in candidates for claim in c.claims)
        self.judged += len(new)
        yield from judge_claims(state, new)
        worth = [self._utility(state, candidate) for candidate in candidates]
        if run.trace.limit is not None:
            self._problem = str(run.trace.limit)
        lost = [claim for claim in new if _is_unknown(state, claim)]
        state.cache.forget(lost)  # asked again when it is written again
        for claim in lost:
            state.claims.pop(claim_key(claim), None)
        return worth

    def _utility(self, state: Search, candidate: Candidate) -> float | None:
        if any(_is_unknown(state, claim) for claim in candidate.claims):
            return None
        return expected_utility(state.probabilities(candidate), state.target)

    def _state(self, source: str) -> Search:
        """Restore the judged claims of a row, and the sentences that its search wrote."""
        if source not in self._states:
            row = self._rows[source]
            run = QuestionRun(self.engine.settings, self.engine.context)
            state = Search(row.question, run, row.passages, splits=Splits())
            for text, p in row.known.items():
                if p is not None:
                    state.cache.add(text, p)
                    state.claims[claim_key(text)] = Claim(text, p)
            written = [text for text, _ in row.candidates if claim_key(text) != claim_key(row.abstention)]
            state.candidates = _sentences(written)
            self._states[source] = state
        return self._states[source]


def _sentences(texts: Sequence[str]) -> list[Candidate]:
    return [Candidate(t, tuple(Part(s.start, s.end, (s.text,)) for s in split_claims(t))) for t in texts]


def _is_unknown(state: Search, claim: str) -> bool:
    """Return whether a claim could not be judged; one that no sentence is about counts as unsupported."""
    judged = state.claims.get(claim_key(claim))
    if judged is None or judged.support is not None:
        return judged is None
    return state.options.closed_book or bool(judged.citations)
