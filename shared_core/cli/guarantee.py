"""``selfreflect calibrate --guarantee``: what may be promised of the answers to questions like these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from shared_core.cli.console import err, out
from shared_core.cli.progress import question_progress
from shared_core.settings import GuaranteeName, SelfReflectSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared_core.calibration.stack import AnyCalibration
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.fitting.claim_labels import ClaimLabels
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.support.run_log import RunLog


def write_claims(labels: ClaimLabels, path: Path | None) -> None:
    """Write the questions with their claims and labels, if there are any and a file is named, and say so."""
    if path is None or not labels.seen:
        return
    from shared_core.training.rows import write_json_lines

    write_json_lines(labels.rows(), path)
    out.print(f"claims: {path} (correct the labels, then calibrate with it)", markup=False, highlight=False)


def calibrate_guarantee_command(
    kind: str,
    rows: list[Question],
    build: Callable[[SelfReflectSettings], SelfReflectEngine],
    settings: SelfReflectSettings,
    output: Path,
    kept: Mapping[str, AnyCalibration],
    claims: Path | None = None,
    asked: RunLog | None = None,
) -> None:
    """Fit it on all the questions and write it beside what the file holds, which the answers were found with.

    Args:
        kind: of guarantee; refused with SettingsError if there is none of that name.
        rows: the questions.
        build: makes the engine of these settings.
        settings: the configuration that it is for.
        output: the file.
        kept: the file's other calibrations.
        claims: also write the questions with the claims that answers made and their labels, to be corrected.
        asked: what was asked before is taken from there, and what is asked now is put there.
    """
    from shared_core.calibration import io as calibration_io
    from shared_core.evaluation.fitting.claim_labels import ClaimLabels
    from shared_core.evaluation.fitting.guarantee_calibration import calibrate_guarantee

    wanted = cast(GuaranteeName, settings.replace(guarantee=kind).guarantee)
    others = {name: c for name, c in kept.items() if name != calibration_io.GUARANTEE}
    labels = ClaimLabels(rows)
    engine = build(settings.replace(calibration=output) if others else settings)
    try:
        with question_progress(err, len(rows), "Calibrating: guarantee") as progress:
            fitted = calibrate_guarantee(engine, rows, wanted, label=labels, progress=progress, kept=asked)
    finally:  # what was claimed is worth having, too, where it was not enough
        write_claims(labels, claims)
    out.print(fitted.summary(), markup=False, highlight=False)
    out.print(labels.summary(), markup=False, highlight=False)
    calibration_io.save(output, {**others, calibration_io.GUARANTEE: fitted.calibration})
    out.print(f"written: {output}", markup=False, highlight=False)
