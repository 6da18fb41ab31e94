"""Where everything is measured: a world, its documents in a retriever, the model, questions with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.lab.judge import TruthJudge
from shared_core.evaluation.dataset import Question as Asked
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.checkpoint import CHECKPOINT
from shared_core.lab.facts import Split
from shared_core.lab.questions import UNANSWERABLE, Question
from shared_core.lab.recall import is_right
from shared_core.lab.setup import LabSetup
from shared_core.types import Answer, Passage

Figures = dict[str, float]
"""Figure → number; NaN where it is not defined for what was asked."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is asked. More narrows the intervals: a share of 100 questions is known to about ±.10, of 400 to ±.05.

    Attributes:
        fit: questions that calibrations are fitted on.
        estimators: questions for each of known against unknown and right against wrong.
        gate, rerank, verdicts, quotes, compare, unanswerable, attack, check: questions (or rows) of each part.
        biographies: entities of each tier that are written about.
        judged: questions of each kind on which the critic compares what samples mean (pairs of them: it takes minutes).
        cost: questions on which each estimator is timed by itself.
        confidence: questions on which the composed confidence is held against the truth: with 100, a perfect one seems
            to be off by .05.
        tuned: questions that are searched for rows to train on.
    """

    fit: int = 120
    estimators: int = 200
    gate: int = 200
    rerank: int = 60
    verdicts: int = 400
    quotes: int = 80
    compare: int = 96
    unanswerable: int = 80
    attack: int = 60
    check: int = 60
    biographies: int = 4
    judged: int = 40
    cost: int = 4
    confidence: int = 240
    tuned: int = 160

    @classmethod
    def quick(cls) -> Counts:
        """Enough to see that everything runs, and roughly how it goes."""
        return cls(80, 60, 60, 20, 100, 24, 48, 40, 20, 24, 2, judged=12, cost=1, confidence=48, tuned=24)


@dataclass
class Lab(LabSetup):
    """A world, a model and engines over the world's documents, with a judge of the truth.

    Attributes:
        checkpoint: folder of the model, for trainings that begin with it.
    """

    checkpoint: Path = CHECKPOINT

    @cached_property
    def judge(self) -> TruthJudge:
        """A judge that tells true claims from false ones."""
        return TruthJudge(self.world)

    def mixture(self, count: int, split: Split) -> list[Question]:
        """What users ask: mostly of one fact, some yes or no, some of two facts, and a quarter that has no answer."""
        hopeless = count // 4
        rest = count - hopeless
        some = rest // 8
        return [
            *self.questions(("single",), rest - 2 * some, split),
            *self.questions(("yes_no",), some, split),
            *self.questions(("two_hop",), some, split),
            *self.questions(UNANSWERABLE, hopeless, split),
        ]

    def gold(self, question: Question) -> list[Passage]:
        """One passage for each fact that it takes."""
        return [self.world.passage(places[0]) for places in question.passages if places]


def as_asked(questions: Sequence[Question]) -> list[Asked]:
    """The questions as evaluation and calibration take them."""
    return [
        Asked(q.id, q.text, q.answers, q.answerable, {"kind": q.kind, "tier": q.tier, "known": q.known})
        for q in questions
    ]


def shown(answer: Answer) -> str:
    """What an answer says: the short answer where there is one, else the kept claims; nothing for an abstention."""
    if answer.abstained:
        return ""
    short = next((c.short_answer for c in answer.kept_claims if c.short_answer), "")
    return short or " ".join(c.text for c in answer.kept_claims) or answer.text


def worth(text: str, question: Question, target: float = 0.5) -> float:
    """Utility of what was shown: 1 for a right answer, -ρ*/(1-ρ*) for a wrong one, 0 for silence (Piché et al.)."""
    if not text:
        return 0.0
    return 1.0 if is_right(text, question) else -target / (1 - target)


def answers_of(engine: SelfReflectEngine, questions: Sequence[Question], together: int = 8) -> list[Answer]:
    """An answer to each question; a question that failed raises."""
    found: list[Answer] = []
    for start in range(0, len(questions), together):
        for result in engine.answer_many([q.text for q in questions[start : start + together]]):
            if isinstance(result, Exception):
                raise result
            found.append(result)
    return found


def mean(values: Iterable[float | bool]) -> float:
    """The mean; NaN of nothing."""
    numbers = [float(v) for v in values]
    return sum(numbers) / len(numbers) if numbers else float("nan")
