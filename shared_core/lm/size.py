"""Tell from a model's weights or name how large it is, for what to expect of it before it has replied to anything."""

from __future__ import annotations

from typing import Literal

from shared_core.lm.base import LanguageModel
from shared_core.support.regex import lazy_regex

Size = Literal["large", "medium"]
"""``large``: from 30 billion parameters, and providers' large ones; ``medium``: from 7 billion, and their small."""
_LARGE, _MEDIUM = 30.0, 7.0  # billions of parameters
_PARAMETERS = lazy_regex(r"(?<![a-z0-9.])(?:(\d{1,2})x)?(\d{1,4}(?:\.\d+)?)b(?![a-z0-9])")
"""``8b`` in "llama3.1:8b" and "Qwen2.5-7B-Instruct", ``8x7b`` in "mixtral-8x7b"."""
_UNTRAINED = lazy_regex(r"(?<![a-z])(?:base|pretrained|pt)(?![a-z])")
"""In names of models that were not trained to follow instructions."""
_HOSTED = lazy_regex(
    r"(?<![a-z0-9])(?:(?:chat)?gpt-(?:[4-9]|3\.5)|o[1345](?=-|\Z)|claude-|gemini-|command-(?:r|a)|grok-\d"
    r"|mistral-(?:large|medium|small)|deepseek-(?:chat|reasoner|v\d|r\d)(?!-distill)|nova-(?:pro|premier|lite|micro)|qwen-(?:max|plus|turbo)"
    r"|kimi-k\d|glm-[4-9]|minimax-m\d)"
)
"""Families that are known under a name without their size."""
_SMALLER = lazy_regex(r"(?<![a-z])(?:mini|nano|micro|lite|flash|haiku|small|turbo|instant|r7b)(?![a-z])")
"""In names of a family's small models."""
_DEFAULT_TAGS = lazy_regex(
    r"(?:(llama3\.3|mixtral)|llama3(?:\.1)?|mistral(?:-nemo)?|magistral|qwen(?:2\.5|3)|phi4|gemma2|gpt-oss)(?::latest)?"
)
"""Ollama's names without a size, which it takes for models of 7 to 24 billion parameters (the first group: 47, 70)."""


def size_of(model: LanguageModel) -> Size | None:
    """Return how large a model is, by its weights where they are at hand, else by its name.

    ``None`` for smaller ones, for those not trained to follow instructions, and where nothing is known.

    >>> from shared_core.lm.scripted import ScriptedLM
    >>> [size_of(ScriptedLM("", name=name)) for name in ("Llama-3.3-70B-Instruct", "gpt-4o-mini", "my model")]
    ['large', 'medium', None]
    """
    weights = _count_parameters(model)
    return _size_of_name(model.name) if weights is None else _size(weights)


def _count_parameters(model: LanguageModel) -> float | None:
    """Return the parameters of a model of transformers in billions; ``None`` of any other."""
    weights, tokenizer = getattr(model, "model", None), getattr(model, "tokenizer", None)
    count = getattr(weights, "num_parameters", None)
    if not callable(count):
        return None
    return float(count()) / 1e9 if getattr(tokenizer, "chat_template", None) else 0.0  # without one: not instructed


def _size_of_name(name: str) -> Size | None:
    plain = name.lower().rstrip("/").rsplit("/", 1)[-1]
    if _UNTRAINED.search(plain):
        return None
    stated = [float(count or 1) * float(size) for count, size in _PARAMETERS.findall(plain)]
    if stated:
        return _size(max(stated))
    if default := _DEFAULT_TAGS.fullmatch(plain):
        return "large" if default[1] else "medium"
    if not _HOSTED.search(plain):
        return None
    return "medium" if _SMALLER.search(plain) else "large"


def _size(billions: float) -> Size | None:
    return "large" if billions >= _LARGE else "medium" if billions >= _MEDIUM else None
