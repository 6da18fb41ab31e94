"""Ask an engine questions and judge its answers."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.judging import Record, judge
from shared_core.evaluation.overlap import warn_fitted_on
from shared_core.evaluation.summary import TARGETS, metrics
from shared_core.support.files import replace_file
from shared_core.types import Answer

__all__ = ["TARGETS", "AnswersMany", "Evaluation", "Progress", "Record", "evaluate", "judge", "metrics"]

Progress = Callable[[int, int], None]
"""``progress(done, total)`` after every batch."""


class AnswersMany(Protocol):
    """System to evaluate: a ``SelfReflectEngine``, or anything else that answers a batch."""

    def answer_many(self, questions: Sequence[str], /) -> Sequence[Answer | Exception]:
        """Return an ``Answer``, or an error in its place, for each question in order."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Records and metrics of a run.

    >>> Evaluation({"accuracy": 0.5}, ()).to_dict()["metrics"]
    {'accuracy': 0.5}

    Attributes:
        metrics: metrics by name; NaN if undefined for these questions (no gold answers, one class, …).
        records: one per question, in order.
        fitted_on: by purpose, how many of the questions an applied calibration was fitted on.
    """

    metrics: Mapping[str, float]
    records: tuple[Record, ...] = field(repr=False)
    fitted_on: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold; NaN becomes ``None``."""
        metrics = {k: (v if math.isfinite(v) else None) for k, v in self.metrics.items()}
        return {"metrics": metrics, "fitted_on": dict(self.fitted_on), "records": [asdict(r) for r in self.records]}

    def write(self, path: str | Path) -> Path:
        """Write metrics and records as JSON, atomically; InputError if the file cannot be written."""
        path = Path(path)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False)
        try:
            with replace_file(path) as file:
                file.write(text + "\n")
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
        return path

    def judgements(self) -> tuple[list[float], list[float]]:
        """Return (confidences, correctness) of the questions without error that can be judged."""
        rows = [r for r in self.records if r.correct is not None and not r.error]
        return [math.nan if r.confidence is None else r.confidence for r in rows], [
            float(bool(r.correct)) for r in rows
        ]

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw risk–coverage, reliability and target-accuracy plots into a folder; none if nothing can be judged."""
        from shared_core.evaluation import plots

        sure, right = self.judgements()
        if not right:
            return []
        folder = Path(folder)
        return [
            plots.risk_coverage(sure, right, folder / "risk_coverage.png"),
            plots.reliability(sure, right, folder / "reliability.png"),
            plots.target_accuracy(sure, right, folder / "target_accuracy.png"),
        ]


def evaluate(
    engine: AnswersMany,
    questions: Sequence[Question],
    *,
    batch_size: int = 16,
    targets: Sequence[float] = TARGETS,
    progress: Progress | None = None,
) -> Evaluation:
    """Ask all questions in batches, judge the answers, and compute the table of metrics.

    Questions that one of the engine's calibrations was fitted on draw a warning.

    Args:
        engine: system to ask; an error in place of an answer counts against that question only.
        questions: see ``read_questions``.
        batch_size: questions asked at once.
        targets: target accuracies ρ* at which accuracy and coverage are given.
        progress: called as ``progress(done, total)`` after every batch.

    Raises:
        InputError: no questions, or the engine does not answer each one.
        SettingsError: a batch size below 1 or a ρ* outside (0, 1).
    """
    if not questions:
        raise InputError("There are no questions to ask.")
    if batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, not {batch_size!r}.")
    for rho in targets:
        if not 0.0 < rho < 1.0:
            raise SettingsError(f"A target accuracy must be above 0 and below 1, not {rho!r}.")
    seen = warn_fitted_on(engine, questions)
    records: list[Record] = []
    for start in range(0, len(questions), batch_size):
        batch = questions[start : start + batch_size]
        began = time.perf_counter()
        answers = engine.answer_many([q.question for q in batch])
        seconds = (time.perf_counter() - began) / len(batch)
        if len(answers) != len(batch):
            raise InputError(f"The engine gave {len(answers)} answers to {len(batch)} questions.")
        records += [judge(q, a, seconds) for q, a in zip(batch, answers)]
        if progress is not None:
            progress(len(records), len(questions))
    return Evaluation(metrics(records, targets), tuple(records), seen)
