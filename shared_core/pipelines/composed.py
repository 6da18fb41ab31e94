"""The engine's default: the parts of the four systems that the model at hand allows for."""

from __future__ import annotations

from shared_core.flow import Flow
from shared_core.pipelines.common import Context
from shared_core.pipelines.extractive import extractive
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer


def composed(question: str, settings: SelfReflectSettings, context: Context) -> Flow[Answer]:
    """Without a language model: quote. With one: write each claim after a quote (``reclaim``)."""
    return extractive(question, settings, context)
