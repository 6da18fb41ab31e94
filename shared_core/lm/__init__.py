"""Language models by what they can do: the protocol and one file per backend.

Backends are loaded when first used: ``TransformersLM``, ``VLLM``, ``OpenAICompatibleLM``, ``ScriptedLM``; so is
``TracingLM``, which records what another one reads and writes, and ``load_small_model``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
)
from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from shared_core.lm.openai import OpenAICompatibleLM
    from shared_core.lm.scripted import ScriptedLM
    from shared_core.lm.small import load_small_model
    from shared_core.lm.tracing import TracingLM
    from shared_core.lm.transformers import TransformersLM
    from shared_core.lm.vllm import VLLM

__all__ = [
    "VLLM", "BaseLanguageModel", "Capabilities", "Capture", "Generate", "Generation", "Grammar", "HiddenStates",
    "LanguageModel", "OpenAICompatibleLM", "Part", "Prompt", "Sample", "SamplingParams", "Score", "Scores",
    "ScriptedLM", "States", "TokenIds", "TracingLM", "TransformersLM", "load_small_model",
]  # fmt: skip

_HOME = {
    "OpenAICompatibleLM": "openai", "ScriptedLM": "scripted", "TracingLM": "tracing", "TransformersLM": "transformers",
    "VLLM": "vllm", "load_small_model": "small",
}  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME)
