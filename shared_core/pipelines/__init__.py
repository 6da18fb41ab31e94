"""The pipelines, as flows: each a function of (question, run) that returns ``Flow[Answer]``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import get_args

from shared_core.errors import SettingsError
from shared_core.pipelines.decision.abilities import Abilities
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.runtime.flow import Flow
from shared_core.settings import PipelineName
from shared_core.types import Answer

__all__ = ["PIPELINES", "Abilities", "Pipeline", "QuestionRun", "load_pipeline"]

Pipeline = Callable[[str, QuestionRun], Flow[Answer]]

PIPELINES: dict[str, str] = {
    name: f"shared_core.pipelines.{'composed' if name == 'composed' else f'{name}.loop'}:{name}"
    for name in get_args(PipelineName)
}
"""Where each pipeline of the settings is: the function of its name in the module ``loop`` of the room of its name."""


def load_pipeline(name: str) -> Pipeline:
    """The pipeline of that name; SettingsError if this version has none."""
    if name not in PIPELINES:
        raise SettingsError(
            f"The pipeline {name!r} is not in this version.", hint=f"There are: {', '.join(sorted(PIPELINES))}."
        )
    module, function = PIPELINES[name].split(":")
    pipeline: Pipeline = getattr(importlib.import_module(module), function)
    return pipeline
