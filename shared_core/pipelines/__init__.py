"""The pipelines, as flows: each a function of (question, run) that returns ``Flow[Answer]``."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from shared_core.errors import SettingsError
from shared_core.flow import Flow
from shared_core.pipelines.common import Context, Run
from shared_core.types import Answer

__all__ = ["PIPELINES", "Context", "Pipeline", "Run", "load_pipeline"]

Pipeline = Callable[[str, Run], Flow[Answer]]

PIPELINES: dict[str, str] = {
    "composed": "shared_core.pipelines.composed:composed",
    "reclaim": "shared_core.pipelines.reclaim.loop:reclaim",
    "seakr": "shared_core.pipelines.seakr.loop:seakr",
}
"""Where each pipeline is, by its name in the settings."""


def load_pipeline(name: str) -> Pipeline:
    """The pipeline of that name; SettingsError if this version has none."""
    if name not in PIPELINES:
        raise SettingsError(
            f"The pipeline {name!r} is not in this version.", hint=f"There are: {', '.join(sorted(PIPELINES))}."
        )
    module, function = PIPELINES[name].split(":")
    pipeline: Pipeline = getattr(importlib.import_module(module), function)
    return pipeline
