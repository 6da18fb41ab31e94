"""The setting of all measurements: world, retriever, model, questions with known answers, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.lab.judge import TruthJudge
from shared_core.evaluation.dataset import Question as Asked
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.facts import Split
from shared_core.lab.questions import UNANSWERABLE, Question
from shared_core.lab.setup import CHECKPOINT, LabSetup, is_right
from shared_core.types import Answer, Passage

Figures = dict[str, float]
"""Figure → number; NaN where it is not defined."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of questions. The half-width of a share's interval is about .10 with 100 questions, .05 with 400.

    Attributes:
        fit: questions to fit calibrations on.
        estimators: questions for known against unknown facts, and for right against wrong answers.
        gate, rerank, verdicts, quotes, compare, unanswerable, attack, check: questions (or rows) of each part.
        biographies: entities of each tier to write about.
        judged: questions of each kind for which the critic compares samples (in pairs, which takes minutes).
        cost: questions on which each estimator is timed.
        confidence: questions for the error of the composed confidence: with 100, even a perfect one seems off by .05.
        tuned: questions to search for training rows.
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
        """Return counts that show that everything runs, and rough figures."""
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
        """Draw a mixture like users' questions: most about one fact, some yes/no or two-hop, a quarter unanswerable."""
        unanswerable = count // 4
        rest = count - unanswerable
        some = rest // 8
        return [
            *self.questions(("single",), rest - 2 * some, split),
            *self.questions(("yes_no",), some, split),
            *self.questions(("two_hop",), some, split),
            *self.questions(UNANSWERABLE, unanswerable, split),
        ]

    def singles(self, count: int, split: Split, name: str = "") -> list[Question]:
        """Draw questions about one fact: half about facts that the model was trained on, then half about others."""
        halves = (self.questions(("single",), count // 2, split, known=known, name=name) for known in (True, False))
        return [question for half in halves for question in half]

    def gold(self, question: Question) -> list[Passage]:
        """Return one passage for each fact that a question takes."""
        return [self.world.passage(places[0]) for places in question.passages if places]


def as_asked(questions: Sequence[Question]) -> list[Asked]:
    """Convert questions for evaluation and calibration."""
    return [
        Asked(q.id, q.text, q.answers, q.answerable, {"kind": q.kind, "tier": q.tier, "known": q.known})
        for q in questions
    ]


def shown(answer: Answer) -> str:
    """Return the short answer if there is one, else the kept claims; "" for an abstention."""
    if answer.abstained:
        return ""
    short = next((c.short_answer for c in answer.kept_claims if c.short_answer), "")
    return short or " ".join(c.text for c in answer.kept_claims) or answer.text


def worth(text: str, question: Question, target: float = 0.5) -> float:
    """Return the utility of a shown text: 1 if right, -ρ*/(1-ρ*) if wrong, 0 for abstention (Piché et al.)."""
    if not text:
        return 0.0
    return 1.0 if is_right(text, question) else -target / (1 - target)


def answers_of(engine: SelfReflectEngine, questions: Sequence[Question], together: int = 8) -> list[Answer]:
    """Answer each question; raise if one fails."""
    found: list[Answer] = []
    for start in range(0, len(questions), together):
        for result in engine.answer_many([q.text for q in questions[start : start + together]]):
            if isinstance(result, Exception):
                raise result
            found.append(result)
    return found


def mean(values: Iterable[float | bool]) -> float:
    """Return the mean; NaN for no values."""
    numbers = [float(v) for v in values]
    return sum(numbers) / len(numbers) if numbers else float("nan")
