"""The lab as a tutorial: recall from memory, and one question through every pipeline, beside the true answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.questions import Question
from shared_core.lab.recall import MeasuredAnswer, measure_answers
from shared_core.lab.setup import LabSetup, lab_calibrations, lab_settings, load_lab_model
from shared_core.lab.world import World
from shared_core.settings import PipelineName
from shared_core.types import Answer


@dataclass
class Tour:
    """The questions and answers that ``selfreflect lab`` shows.

    Args:
        model: folder of a checkpoint; the shipped one if not given.
        seed: seed of the choice of questions.

    Raises:
        ModelLoadError: there is no model.
        MissingDependencyError: torch or transformers is not installed.

    Example::

        tour = Tour()
        question = tour.question(known=False)
        print(question.text, question.answers, tour.answer("self_rag", question))
    """

    model: Path | None = None
    seed: int = 0
    _engines: dict[PipelineName, SelfReflectEngine] = field(default_factory=dict, repr=False)

    @cached_property
    def lab(self) -> LabSetup:
        """The world of seed 0, its documents and the model."""
        return LabSetup(World(0), load_lab_model(self.model), self.seed)

    def recalled(self, count: int = 3) -> tuple[list[MeasuredAnswer], list[MeasuredAnswer]]:
        """Answer questions from memory and measure Gram: about facts the model was trained on, and about others."""
        sides = [
            measure_answers(self.lab, self.lab.questions(("single",), count, "test", known=known, name="tour"))
            for known in (True, False)
        ]
        return sides[0], sides[1]

    def question(self, *, known: bool) -> Question:
        """Return a question about one fact, which the model was trained on or not."""
        return self.lab.questions(("single",), 1, "test", known=known, name="tour")[0]

    def invented(self) -> Question:
        """Return a question about an invented name."""
        return self.lab.questions(("invented",), 1, "test", name="tour")[0]

    def answer(self, pipeline: PipelineName, question: Question) -> Answer:
        """Answer with a pipeline, calibrated if the model's folder holds a calibration for it."""
        if pipeline not in self._engines:
            self._engines[pipeline] = self.lab.engine(lab_settings(pipeline), lab_calibrations(pipeline, self.model))
        return self._engines[pipeline].answer(question.text)

    def story(self, answer: Answer) -> Iterator[str]:
        """Describe the decisions behind an answer, one line each: gate, re-ranking, verdicts, search, kept claims."""
        shown = {"gate", "retrieve", "rerank", "segment", "path", "search", "confidence", "keep"}
        for decision in answer.trace:
            if decision.kind in shown:
                why = f" ({decision.reason})" if decision.reason else ""
                yield f"{decision.kind}: {decision.outcome}{why}"
