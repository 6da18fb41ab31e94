"""Language models by what they can do: the protocol and one file per backend.

Backends are loaded when first used: ``TransformersLM``, ``VLLM``, ``OpenAICompatibleLM``, ``ScriptedLM``; so is
``TracingLM``, which records what another one reads and writes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Capture,
    Generate,
    Generation,
    Grammar,
    HiddenStates,
    LanguageModel,
    Part,
    Prompt,
    Sample,
    SamplingParams,
    Score,
    Scores,
    States,
    TokenIds,
    require,
)

if TYPE_CHECKING:
    from shared_core.lm.openai import OpenAICompatibleLM
    from shared_core.lm.scripted import ScriptedLM
    from shared_core.lm.tracing import TracingLM
    from shared_core.lm.transformers import TransformersLM
    from shared_core.lm.vllm import VLLM

__all__ = [
    "VLLM",
    "BaseLanguageModel",
    "Capabilities",
    "Capture",
    "Generate",
    "Generation",
    "Grammar",
    "HiddenStates",
    "LanguageModel",
    "OpenAICompatibleLM",
    "Part",
    "Prompt",
    "Sample",
    "SamplingParams",
    "Score",
    "Scores",
    "ScriptedLM",
    "States",
    "TokenIds",
    "TracingLM",
    "TransformersLM",
    "require",
]

_HOME = {
    "OpenAICompatibleLM": "shared_core.lm.openai",
    "ScriptedLM": "shared_core.lm.scripted",
    "TracingLM": "shared_core.lm.tracing",
    "TransformersLM": "shared_core.lm.transformers",
    "VLLM": "shared_core.lm.vllm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
