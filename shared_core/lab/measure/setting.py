"""Where everything is measured: a world, its documents in a retriever, the model, questions with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from shared_core.calibration.stack import AnyCalibration
from shared_core.evaluation.dataset import Question as Asked
from shared_core.evaluation.metrics.answers import contains_answer
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.checkpoint import CHECKPOINT
from shared_core.lab.dice import Dice
from shared_core.lab.facts import Split
from shared_core.lab.judge import TruthJudge
from shared_core.lab.questions import UNANSWERABLE, Question, QuestionKind
from shared_core.lab.world import World
from shared_core.lm.base import LanguageModel
from shared_core.retrieval import BM25Retriever
from shared_core.settings import SelfReflectSettings
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
class Lab:
    """The setting.

    Attributes:
        world: whose documents are searched, and which knows what is true.
        lm: the lab's model, or another one.
        seed: of the choice of questions; the world's own seed fixes what there is to ask.
        checkpoint: where the model lies, for trainings that begin with it.
    """

    world: World
    lm: LanguageModel
    seed: int = 0
    checkpoint: Path = CHECKPOINT
    _first: SelfReflectEngine | None = field(default=None, repr=False)

    @cached_property
    def retriever(self) -> BM25Retriever:
        """Over all documents of the world."""
        return BM25Retriever(self.world.documents())

    @cached_property
    def judge(self) -> TruthJudge:
        """Tells true claims from false ones."""
        return TruthJudge(self.world)

    def engine(
        self,
        settings: SelfReflectSettings,
        calibrations: Mapping[str, AnyCalibration] | None = None,
        *,
        lm: LanguageModel | None = None,
    ) -> SelfReflectEngine:
        """An engine over the world's documents; reader and critic are loaded once for all of them."""
        if lm is not None:
            return SelfReflectEngine(self.retriever, lm, settings, calibrations=calibrations or {})
        if self._first is None:
            self._first = SelfReflectEngine(self.retriever, self.lm, SelfReflectSettings(), calibrations={})
        return self._first.over(self.retriever, settings, calibrations=calibrations or {})

    # --- questions ---------------------------------------------------------------------------------------------

    def questions(
        self, kinds: Iterable[QuestionKind], count: int, split: Split, *, known: bool | None = None, name: str = ""
    ) -> list[Question]:
        """So many questions (or all there are) of some kinds, each kind alike, drawn by the lab's seed."""
        kinds = tuple(kinds)
        found: list[Question] = []
        for place, kind in enumerate(kinds):
            share = count // len(kinds) + (place < count % len(kinds))
            pool = [q for q in self.world.questions(kind=kind, split=split) if known in (None, q.known)]
            found += Dice("measure", self.seed, split, kind, str(known), name).sample(pool, share)
        return found

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


def is_right(text: str, question: Question) -> bool:
    """Whether a text gives an accepted answer; never for a question that has none.

    Yes and no are words that stand in many sentences: there the text has to begin with the right one.
    """
    if not question.answers or not text:
        return False
    if question.answers[0] in ("yes", "no"):
        return text.strip().lower().startswith(question.answers[0])
    return contains_answer(text, question.answers)


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
