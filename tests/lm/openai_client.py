"""Clients of the imitated server, and what they are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared_core.errors import CapabilityError
from shared_core.lm.base import Generate, Generation, Prompt, SamplingParams
from shared_core.lm.openai import OpenAICompatibleLM
from tests.openai_server import FakeServer

KEY = "sk-test-9b1f/secret+key=="
RAW = Prompt.trusted("What colour is the sky?")
CHAT = Prompt.trusted("What colour is the sky?", role="user")
PLAIN = frozenset({"chat", "completions", "logprobs"})

Connect = Callable[..., OpenAICompatibleLM]
Serve = Callable[..., tuple[FakeServer, OpenAICompatibleLM]]


def one(lm: OpenAICompatibleLM, prompt: Prompt = RAW, **params: Any) -> Any:
    return lm.generate([Generate(prompt, SamplingParams(**params))])[0]


def lacking(result: Any) -> str:
    """The capability for whose lack a request was refused, with a way out."""
    assert isinstance(result, CapabilityError), result
    assert result.hint
    return result.capability


def text_of(result: Any) -> str:
    assert isinstance(result, Generation), result
    return result.text
