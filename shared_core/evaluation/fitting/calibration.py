"""Calibrating an engine's confidence on questions with known answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.calibration.calibration import Calibration, Method, fit_calibration, held_out
from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import Progress, ask_each, digest_of
from shared_core.evaluation.fitting.enough import require_enough
from shared_core.evaluation.fitting.seen import digests_of
from shared_core.evaluation.judging import Record, judge
from shared_core.evaluation.runner import Evaluation
from shared_core.evaluation.summary import metrics
from shared_core.support.run_log import RunLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_core.facades.engine import SelfReflectEngine

PLATT_BELOW = 200
"""Fewer questions than this are fitted with Platt's two parameters, more with isotonic regression."""


@dataclass(frozen=True)
class CalibrationRun:
    """A fitted calibration and the run it was fitted on."""

    calibration: Calibration
    evaluation: Evaluation

    def summary(self) -> str:
        """What was fitted and how much it helps, in a line each."""
        c, metrics = self.calibration, self.calibration.metrics
        lines = [f"{c.method} on {c.n} questions, {c.positives} answered right, {c.unknown} of unknown confidence"]
        lines += [f"{name}: {metrics[name]:.3f}" for name in sorted(metrics)]
        return "\n".join(lines)

    def plot(self, folder: str | Path) -> list[Path]:
        """Reliability, risk–coverage and target accuracy of the questions, each held out of the fit that rates it."""
        from shared_core.evaluation import plots

        rows = self.held_out()
        if rows is None:
            return []
        folder = Path(folder)
        sure, right = [math.nan if p is None else p for p, _ in rows], [float(y) for _, y in rows]
        return [
            *draw_held_out(rows, folder),
            plots.target_accuracy(
                sure, right, folder / "target_accuracy.png", title=f"What a target accuracy gives{OUT_OF_FOLD}"
            ),
        ]

    def held_out(self) -> HeldOut | None:
        """(probability, whether it was right) of each question, by a fit without it: what the figures are of.

        The probability is ``None`` where the confidence is unknown; ``None`` for all where none can be held out.
        """
        rows = judged_rows(self.evaluation.records)
        found = held_out(
            [score for score, _ in rows],
            [right for _, right in rows],
            method=self.calibration.method,
            increasing=self.calibration.increasing,
        )
        return None if found is None else [(p, right) for p, (_, right) in zip(found, rows, strict=True)]


HeldOut = list[tuple[float | None, bool]]
"""(probability by a fit without this row, whether the event held) of each row."""
OUT_OF_FOLD = " (out of fold)"
"""Stands in titles of plots whose rows were held out."""


def draw_held_out(rows: HeldOut | None, folder: Path, name: str = "") -> list[Path]:
    """Reliability and risk–coverage of rows that were held out; nothing where none were.

    The reliability is over the rows of known score, as the printed figures are; the others come last in the ranking.
    """
    from shared_core.evaluation import plots

    if rows is None:
        return []
    told, before = (f": {name}", f"{name}_") if name else ("", "")
    known = [(p, float(right)) for p, right in rows if p is not None]
    sure, right = [math.nan if p is None else p for p, _ in rows], [float(y) for _, y in rows]
    return [
        plots.reliability(
            [p for p, _ in known],
            [y for _, y in known],
            folder / f"{before}reliability.png",
            title=f"Reliability{told}{OUT_OF_FOLD}",
        ),
        plots.risk_coverage(
            sure, right, folder / f"{before}risk_coverage.png", title=f"Risk–coverage{told}{OUT_OF_FOLD}"
        ),
    ]


def judged_rows(records: Sequence[Record]) -> list[tuple[float, bool]]:
    """(confidence, whether it was right) of the questions that were answered and can be judged; NaN for unknown."""
    rows = [r for r in records if r.correct is not None and not r.error]
    return [(math.nan if r.confidence is None else r.confidence, bool(r.correct)) for r in rows]


def calibrate_confidence(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    *,
    method: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    kept: RunLog | None = None,
) -> CalibrationRun:
    """Answer every question once and fit its confidence to whether what is shown is a right answer.

    Args:
        engine: without a confidence calibration of its own.
        questions: answerable ones with answers, and unanswerable ones (which no quote answers).
        method: ``isotonic``, ``platt``, or ``auto`` (isotonic from 200 judgeable questions on).
        progress: told after every batch.
        kept: what was asked before is taken from there, and what is asked now is put there.

    Raises:
        InputError: unknown method, or the engine is calibrated already.
        CalibrationInputError: too few questions, all unanswerable, every confidence unknown, or all right or all wrong.
    """
    if method not in ("auto", "isotonic", "platt"):
        raise InputError(f"Unknown method {method!r}.", hint="auto, isotonic or platt")
    if engine.settings.calibration is not None:
        raise InputError("This engine has a calibration already.", hint="Calibrate with settings without one.")
    require_enough("confidence", questions)
    result = _evaluate(engine, questions, kept or RunLog(), progress)
    rows = judged_rows(result.records)
    if not rows:
        raise CalibrationError(f"Every question failed; the first one: {result.records[0].error}")
    chosen: Method = "platt" if method == "platt" or (method == "auto" and len(rows) < PLATT_BELOW) else "isotonic"
    calibration = fit_calibration(
        [score for score, _ in rows],
        [right for _, right in rows],
        bound_to=engine.calibration_binding,
        method=chosen,
        increasing=True,
        event="the answer shown is right",
        questions=digests_of(q for q in questions if q.judgeable),
    )
    return CalibrationRun(calibration, result)


TOGETHER = 16
"""Questions asked at once."""


def _evaluate(
    engine: SelfReflectEngine, questions: Sequence[Question], kept: RunLog, progress: Progress | None
) -> Evaluation:
    """As ``evaluate``, with the records kept as they come."""

    def ask(batch: Sequence[Question]) -> list[Record | Exception]:
        answers = engine.answer_many([q.question for q in batch])
        judged = [judge(q, a) for q, a in zip(batch, answers, strict=True)]
        return [_Failed(r) if r.error else r for r in judged]

    found = ask_each(
        questions, ask, kept=kept, part=f"confidence {digest_of(engine)}", dump=asdict, load=_record, together=TOGETHER,
        progress=progress,
    )  # fmt: skip
    records = [r.record if isinstance(r, _Failed) else r for r in found]
    sound = [r for r in records if isinstance(r, Record)]
    return Evaluation(metrics(sound), tuple(sound))


class _Failed(Exception):
    """A question that failed: its record is not kept, it is asked again."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.error)
        self.record = record


def _record(row: dict[str, Any]) -> Record:
    return Record(**{**row, "answers": tuple(row["answers"])})
