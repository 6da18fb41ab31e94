"""Engines over the lab's world: settings that suit so small a model, and what was fitted for it on the tuning split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shared_core.calibration import io as calibration_io
from shared_core.calibration.stack import AnyCalibration
from shared_core.lab.checkpoint import CHECKPOINT
from shared_core.settings import PipelineName, SeakrSettings, SelfReflectSettings

__all__ = ["PIPELINES", "calibration_file", "lab_calibrations", "lab_settings"]

PIPELINES: tuple[PipelineName, ...] = ("composed", "self_rag", "seakr", "reclaim", "research")


def lab_settings(pipeline: PipelineName, *, target_accuracy: float = 0.5) -> SelfReflectSettings:
    """Fewer samples, steps and candidates than the papers': the lab's answers are a few words long.

    The composed pipeline ranks passages by how sure the model is with each: reader and critic were not made for this
    prose. From memory it answers nothing: on the tuning split that was worth less than reading.

    Raises:
        SettingsError: there is no such pipeline, or the target is outside (0, 1).
    """
    settings = SelfReflectSettings(
        pipeline=pipeline,
        target_accuracy=target_accuracy,
        top_k=4,
        seakr=SeakrSettings(samples=10, max_step_tokens=40, max_steps=4),
    )
    if pipeline == "composed":
        seakr = settings.seakr.replace(estimator="perplexity", multi_hop=False)
        settings = settings.replace(rerank="uncertainty", seakr=seakr)
    return settings.replace(
        research=settings.research.replace(samples=4, rounds=2, max_tokens=64),
        self_rag=settings.self_rag.replace(max_depth=2),
        reclaim=settings.reclaim.replace(max_pairs=3),
    )


def calibration_file(pipeline: PipelineName, folder: Path | None = None) -> Path:
    """Where the calibrations of a pipeline lie: beside the model they were fitted for."""
    return (folder or CHECKPOINT) / f"calibration_{pipeline}.json"


def lab_calibrations(pipeline: PipelineName, folder: Path | None = None) -> Mapping[str, AnyCalibration]:
    """What was fitted for ``lab_settings(pipeline)`` and the shipped model; empty where nothing was.

    Raises:
        CalibrationError: the file cannot be read.
    """
    path = calibration_file(pipeline, folder)
    return calibration_io.load(path) if path.is_file() else {}
