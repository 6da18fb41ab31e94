"""A scripted model whose hidden states say how sure it is, for the tests of what goes by uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shared_core.errors import LanguageModelError
from shared_core.lm.base import Capabilities, Generate, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import Demonstration, SeakrSettings, SelfReflectSettings
from shared_core.types import Answer

DEMO = Demonstration("Q0?", ("S0.",), "A0")
HEAD = DEMO.render() + "\n\n"
WHITE = Capabilities(hidden_states=True, token_logprobs=True)
SURE, UNSURE = 0.01, 10.0
"""Lengths of the samples' orthogonal states: uncertainty rises with them, about 2·ln(length)."""

Reply = tuple[str, float] | LanguageModelError


def entries(answer: Answer, kind: str) -> list[Any]:
    """The decisions of a kind in an answer's trace."""
    return [d for d in answer.trace if d.kind == kind]


def body(request: Generate) -> str:
    """The prompt without the demonstration."""
    text = request.prompt.text
    assert text.startswith(HEAD)
    return text[len(HEAD) :]


def written(text: str, low: Mapping[str, float] | None = None, default: float = 0.99) -> Sample:
    """A greedy sample, one token a word, each of probability 0.99 unless ``low`` says otherwise."""
    words = text.split(" ")
    tokens = tuple(w if i == 0 else f" {w}" for i, w in enumerate(words))
    p = [(low or {}).get(w.strip(".,"), default) for w in words]
    return Sample(text, tokens=tokens, logprobs=tuple(math.log(x) if x > 0 else math.nan for x in p))


def states(k: int, level: float) -> np.ndarray:
    rows = np.eye(k, max(8, k + 1), dtype=np.float32)
    return rows * level if math.isfinite(level) else rows + level


def samples(text: str, k: int, level: float) -> list[Sample]:
    return [Sample(text, hidden_state=row, logprobs=(-level, -level)) for row in states(k, level)]


def scripted(
    reply: Callable[[str], Reply],
    low: Mapping[str, float] | None = None,
    capabilities: Capabilities = WHITE,
    **more: Any,
) -> ScriptedLM:
    """Replies with (text, level) to the prompt's body: the greedy text, or k samples as unsure as ``level``."""

    def answer(request: Generate) -> Any:
        if request.model == "judge":  # of the final answer
            return Sample("yes", logprobs=(-0.1,)) if request.params.logprobs else "90"
        found = reply(body(request))
        if isinstance(found, LanguageModelError):
            return found
        text, level = found
        if request.params.n == 1:
            return written(text, low)
        return samples(text, request.params.n, level)

    return ScriptedLM(answer, capabilities=capabilities, **more)


def made(
    pipeline: str = "seakr", *, on_overflow: str = "drop", target: float = 0.1, **seakr: Any
) -> SelfReflectSettings:
    values = {"samples": 4, "threshold": 0.0, "demonstrations": (DEMO,), **seakr}
    return SelfReflectSettings(
        pipeline=pipeline,
        on_overflow=on_overflow,
        target_accuracy=target,
        seakr=SeakrSettings(**SeakrSettings.upgrade(values)),
    )
