"""The lab's shipped model, engines over its world, their calibrations, and questions asked and measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.calibration import io as calibration_io
from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import ModelLoadError
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.facts import Split
from shared_core.lab.names import Dice
from shared_core.lab.questions import Question, QuestionKind
from shared_core.lab.world import World
from shared_core.lm.base import LanguageModel, Prompt
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, demonstrations, step_prompt
from shared_core.retrieval import BM25Retriever
from shared_core.runtime.flow import run
from shared_core.settings import PipelineName, SeakrSettings, SelfReflectSettings
from shared_core.types import Passage
from shared_core.uncertainty import final_answer, is_answer

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

PIPELINES: tuple[PipelineName, ...] = ("composed", "self_rag", "seakr", "reclaim", "research")


def lab_settings(pipeline: PipelineName) -> SelfReflectSettings:
    """Return settings with fewer samples, steps and candidates than the papers': the lab's answers are a few words.

    The composed pipeline ranks passages by how sure the model is with each, since reader and critic were not trained
    on this prose. It answers nothing from memory: on the tuning split that was worth less than reading. SeaKR does, as
    in the paper.
    """
    settings = SelfReflectSettings(
        pipeline=pipeline,
        target_accuracy=0.5,
        top_k=4,
        seakr=SeakrSettings(samples=10, max_step_tokens=40, max_steps=4),
    )
    if pipeline == "composed":
        seakr = settings.seakr.replace(estimator="perplexity", multi_hop=False)
        settings = settings.replace(rerank="uncertainty", seakr=seakr)
    return settings.replace(
        allow_answers_without_citation=pipeline == "seakr",
        research=settings.research.replace(samples=4, rounds=2, max_tokens=64),
        self_rag=settings.self_rag.replace(max_depth=2),
        reclaim=settings.reclaim.replace(max_pairs=3),
    )


def calibration_file(pipeline: PipelineName, folder: Path | None = None) -> Path:
    """Return the path of a pipeline's calibrations, which lie beside the model they were fitted for."""
    return (folder or CHECKPOINT) / f"calibration_{pipeline}.json"


def lab_calibrations(pipeline: PipelineName, folder: Path | None = None) -> Mapping[str, AnyCalibration]:
    """Load the calibrations fitted for ``lab_settings(pipeline)`` and a model; empty if there are none.

    CalibrationError if the file cannot be read.
    """
    path = calibration_file(pipeline, folder)
    return calibration_io.load(path) if path.is_file() else {}


@dataclass
class LabSetup:
    """A world, a model, and engines over the world's documents.

    Attributes:
        lm: the lab's model, or another one.
        seed: seed of the choice of questions (the world's own seed fixes which questions there are).
    """

    world: World
    lm: LanguageModel
    seed: int = 0

    @cached_property
    def retriever(self) -> BM25Retriever:
        """A retriever over all documents of the world."""
        return BM25Retriever(self.world.documents())

    @cached_property
    def _first(self) -> SelfReflectEngine:
        return SelfReflectEngine(self.retriever, self.lm, SelfReflectSettings(), calibrations={})

    def engine(
        self, settings: SelfReflectSettings, calibrations: Mapping[str, AnyCalibration] | None = None
    ) -> SelfReflectEngine:
        """Return an engine over the world's documents; all engines share one reader and one critic."""
        return self._first.over(self.retriever, settings, calibrations=calibrations or {})

    def questions(
        self, kinds: Iterable[QuestionKind], count: int, split: Split, *, known: bool | None = None, name: str = ""
    ) -> list[Question]:
        """Draw up to ``count`` questions, the same number of each kind.

        Args:
            count: how many to draw; fewer are returned if the world has fewer.
            known: whether the model was trained on the facts they take; both if ``None``.
            name: name of the draw: another name gives another choice.
        """
        kinds = tuple(kinds)
        found: list[Question] = []
        for place, kind in enumerate(kinds):
            share = count // len(kinds) + (place < count % len(kinds))
            pool = [q for q in self.world.questions(kind=kind, split=split) if known in (None, q.known)]
            found += Dice("measure", self.seed, split, kind, str(known), name).sample(pool, share)
        return found


CARD = "lab.json"
"""Name of the file beside the weights that records data, settings and losses."""
CHECKPOINT = Path(__file__).parent / "weights"
"""Folder of the shipped model."""


def load_lab_model(folder: str | Path | None = None, *, device: str | None = None) -> TransformersLM:
    """Load the lab's model as a white-box backend: grammars, log-probabilities, hidden states, verdicts.

    Args:
        folder: a checkpoint that ``python -m benchmarks.lab.train`` wrote; the shipped one if not given.
        device: for instance ``cuda``; by default the CPU, which is as fast for so small a model.

    Raises:
        ModelLoadError: the folder holds no lab model.
        MissingDependencyError: torch or transformers is not installed.
    """
    from shared_core.lm.transformers import TransformersLM

    path = Path(folder) if folder is not None else CHECKPOINT
    if not (path / "config.json").is_file() or not (path / CARD).is_file():
        raise ModelLoadError(
            f"There is no lab model in {path}.",
            hint="Make one in a checkout of the project: python -m benchmarks.lab.train --out DIR --minutes 90",
        )
    return TransformersLM(str(path), device=device or "cpu", dtype="float32", name="lab")


# --- answers, measured -----------------------------------------------------------------------------------------------


_BATCH = 10
TOKENS, CHAIN_TOKENS = 32, 96
"""Most tokens of an answer, and of an answer with the steps that lead to it."""


@dataclass(frozen=True, slots=True)
class MeasuredAnswer:
    """A question with the model's answer and its uncertainty.

    Attributes:
        text: the answer; empty if the model said that it does not know.
        values: uncertainty by estimator, inf where it is unknown.
    """

    question: Question
    text: str
    values: dict[str, float]

    @property
    def right(self) -> bool:
        """Whether the answer is an accepted one."""
        return is_right(self.text, self.question)


def is_right(text: str, question: Question) -> bool:
    """Return whether a text holds an accepted answer; never true of a question without one.

    Yes and no are words of many sentences, so a text has to begin with the right one.
    """
    if not question.answers or not text:
        return False
    if question.answers[0] in ("yes", "no"):
        return text.strip().lower().startswith(question.answers[0])
    return contains_answer(text, question.answers)


def measure_answers(
    setup: LabSetup,
    questions: Sequence[Question],
    passages: Sequence[Sequence[Passage]] | None = None,
    also: Sequence[str] = (),
    options: SeakrSettings | None = None,
    *,
    stepwise: bool = False,
) -> list[MeasuredAnswer]:
    """Answer questions and measure how uncertain the model is.

    Args:
        passages: passages for each question; answers come from memory if not given.
        also: names of estimators to compute beside that of ``options``.
        options: estimator (Gram by default) and how to sample for it.
        stepwise: ask for the steps that lead to the answer, which are measured too.
    """
    engine = setup.engine(SelfReflectSettings(seakr=options or SeakrSettings()))
    chosen = choose_estimator(engine.settings, engine.context, also=also)
    prompt_of, limit = (_chain_prompt, CHAIN_TOKENS) if stepwise else (short_prompt, TOKENS)
    found = []
    for start in range(0, len(questions), _BATCH):
        some = questions[start : start + _BATCH]
        read = passages[start : start + _BATCH] if passages is not None else [()] * len(some)
        prompts = [prompt_of(q, p) for q, p in zip(some, read)]
        asked = [q.text for q in some]
        results = run(measure(prompts, chosen, stop=ANSWER_STOPS, max_tokens=limit, question=asked), engine.resources)
        found += [_measured(q, m, chosen.estimator.name, stepwise) for q, m in zip(some, results)]
    return found


def short_prompt(question: Question, passages: Sequence[Passage] = ()) -> Prompt:
    """Return the prompt that asks for an answer of a few words, from memory or from passages."""
    return step_prompt(question.text, (), passages, demonstrations("simple"), ANSWER_LEAD)


def _chain_prompt(question: Question, passages: Sequence[Passage] = ()) -> Prompt:
    """Return the prompt that asks for an answer step by step."""
    return step_prompt(question.text, (), passages, demonstrations(SeakrSettings().published.task))


def _measured(question: Question, found: Measurement, name: str, stepwise: bool) -> MeasuredAnswer:
    # `final_answer` looks for "the answer is", which a short prompt ends with and the reply therefore lacks.
    text = final_answer(found.text if stepwise else f"the answer is {found.text}")
    known = text if text and is_answer(text) else ""
    return MeasuredAnswer(question, known, {name: found.uncertainty, **found.others})
