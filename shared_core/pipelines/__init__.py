"""Pipelines: functions of (question, run) that return ``Flow[Answer]``, one for each paper and the composed default."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import get_args

from shared_core.errors import SettingsError
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.runtime.flow import Flow
from shared_core.settings import PipelineName
from shared_core.types import Answer

__all__ = ["PIPELINES", "Abilities", "Pipeline", "QuestionRun", "load_pipeline"]

Pipeline = Callable[[str, QuestionRun], Flow[Answer]]

PIPELINES: dict[str, str] = {
    name: f"shared_core.pipelines.{'composed' if name == 'composed' else f'{name}.loop'}:{name}"
    for name in get_args(PipelineName)
}
"""The module and function of each pipeline, loaded when it is first used."""


def load_pipeline(name: str) -> Pipeline:
    """Import a pipeline by its name; raises SettingsError if this version has none of that name."""
    if name not in PIPELINES:
        raise SettingsError(
            f"The pipeline {name!r} is not in this version.", hint=f"There are: {', '.join(sorted(PIPELINES))}."
        )
    module, function = PIPELINES[name].split(":")
    pipeline: Pipeline = getattr(importlib.import_module(module), function)
    return pipeline
