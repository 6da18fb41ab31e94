"""The lab as a tutorial: what the model knows, and one question through every pipeline, with the truth beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.checkpoint import load_lab_model
from shared_core.lab.questions import Question
from shared_core.lab.recall import MeasuredAnswer, measure_answers
from shared_core.lab.setup import LabSetup, lab_calibrations, lab_settings
from shared_core.lab.world import World
from shared_core.settings import PipelineName
from shared_core.types import Answer

__all__ = ["Tour"]


@dataclass
class Tour:
    """What there is to see.

    Args:
        model: folder of a checkpoint; the shipped one if not given.
        seed: of the choice of questions.

    Raises:
        ModelLoadError: there is no model.
        MissingDependencyError: torch or transformers is not installed.
    """

    model: Path | None = None
    seed: int = 0
    _engines: dict[PipelineName, SelfReflectEngine] = field(default_factory=dict, repr=False)

    @cached_property
    def lab(self) -> LabSetup:
        """World, documents and model."""
        return LabSetup(World(0), load_lab_model(self.model), self.seed)

    def recalled(self, count: int = 3) -> tuple[list[MeasuredAnswer], list[MeasuredAnswer]]:
        """Questions about facts that the model was trained on, and about others, answered from memory with Gram."""
        sides = [
            measure_answers(self.lab, self.lab.questions(("single",), count, "test", known=known, name="tour"))
            for known in (True, False)
        ]
        return sides[0], sides[1]

    def question(self, *, known: bool) -> Question:
        """A question about one fact."""
        return self.lab.questions(("single",), 1, "test", known=known, name="tour")[0]

    def invented(self) -> Question:
        """A question about somebody who does not exist."""
        return self.lab.questions(("invented",), 1, "test", name="tour")[0]

    def answer(self, pipeline: PipelineName, question: Question) -> Answer:
        """A pipeline's answer, calibrated where that was done for the model."""
        if pipeline not in self._engines:
            self._engines[pipeline] = self.lab.engine(lab_settings(pipeline), lab_calibrations(pipeline, self.model))
        return self._engines[pipeline].answer(question.text)

    def story(self, answer: Answer) -> Iterator[str]:
        """What was decided on the way, in a line each: the gate, re-ranking, verdicts, the search, what was kept."""
        told = {"gate", "retrieve", "rerank", "segment", "path", "search", "confidence", "keep"}
        for decision in answer.trace:
            if decision.kind in told:
                why = f" ({decision.reason})" if decision.reason else ""
                yield f"{decision.kind}: {decision.outcome}{why}"
