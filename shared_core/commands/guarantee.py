"""``selfreflect calibrate --guarantee``: what may be promised of the answers to questions like these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from shared_core.commands.console import err, out
from shared_core.commands.progress import question_progress
from shared_core.settings import GuaranteeName, SelfReflectSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared_core.engine import SelfReflectEngine
    from shared_core.evaluation.dataset import Question
    from shared_core.uncertainty.stack import AnyCalibration


def calibrate_guarantee_command(
    kind: str,
    rows: list[Question],
    build: Callable[[SelfReflectSettings], SelfReflectEngine],
    settings: SelfReflectSettings,
    output: Path,
    kept: Mapping[str, AnyCalibration],
) -> None:
    """Fit it on all the questions and write it beside what the file holds, which the answers were found with.

    Args:
        kind: of guarantee; refused with SettingsError if there is none of that name.
        rows: the questions.
        build: makes the engine of these settings.
        settings: the configuration that it is for.
        output: the file.
        kept: the file's other calibrations.
    """
    from shared_core import calibration_io
    from shared_core.evaluation.guarantee_calibration import calibrate_guarantee

    wanted = cast(GuaranteeName, settings.replace(guarantee=kind).guarantee)
    others = {name: c for name, c in kept.items() if name != calibration_io.GUARANTEE}
    engine = build(settings.replace(calibration=output) if others else settings)
    with question_progress(err, len(rows), "Calibrating: guarantee") as progress:
        fitted = calibrate_guarantee(engine, rows, wanted, progress=progress)
    out.print(fitted.summary(), markup=False, highlight=False)
    calibration_io.save(output, {**others, calibration_io.GUARANTEE: fitted.calibration})
    out.print(f"written: {output}", markup=False, highlight=False)
