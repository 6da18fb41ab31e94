"""Log-probabilities of the tokens that were generated, from what a provider returns through LlamaIndex.

LlamaIndex passes on, for each position, the list of the most probable tokens, and does not mark which one was
generated. The raw reply of OpenAI's API says it; elsewhere it is worked out from the text, if that is possible
without guessing.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import LogProb

Tokens = tuple[tuple[str, ...], tuple[float, ...]]
"""Texts and log-probabilities; the texts joined are the reply."""


def generated_tokens(text: str, top: Sequence[Sequence[LogProb]] | None, raw: object) -> Tokens | None:
    """The tokens of ``text`` with their log-probabilities; ``None`` where they are missing or cannot be told."""
    exact = _from_raw(raw)
    if exact is None:
        return _from_top(text, top) if top else None
    tokens, values = exact
    if len(tokens) > 1 and "".join(tokens[:-1]) == text:  # the token that ended the reply is no part of it
        return tokens[:-1], values[:-1]
    return exact if "".join(tokens) == text else None


def get(value: object, key: str | int) -> Any:
    """A member of a mapping, a sequence or an object; ``None`` if there is none."""
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(key, int):
        return value[key] if isinstance(value, (list, tuple)) and len(value) > key else None
    return getattr(value, key, None)


def _from_raw(raw: object) -> Tokens | None:
    """From ``choices[0].logprobs.content`` of a chat reply, or ``.tokens`` and ``.token_logprobs`` of a completion."""
    logprobs = get(get(get(raw, "choices"), 0), "logprobs")
    content = get(logprobs, "content")
    if isinstance(content, (list, tuple)) and content:
        tokens, values = _texts(content), [get(c, "logprob") for c in content]
    else:
        tokens, values = get(logprobs, "tokens"), get(logprobs, "token_logprobs")
    return _checked(tokens, values)


def _texts(content: Sequence[object]) -> list[Any]:
    """Texts of tokens. A character of several tokens has its bytes spread over them; it goes to the last."""
    pieces = [get(c, "bytes") for c in content]
    if not all(isinstance(p, (list, tuple)) for p in pieces):
        return [get(c, "token") for c in content]
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return [decoder.decode(bytes(p)) for p in pieces]


def _checked(tokens: object, values: object) -> Tokens | None:
    if not isinstance(tokens, (list, tuple)) or not isinstance(values, (list, tuple)) or len(tokens) != len(values):
        return None
    if not tokens or not all(isinstance(t, str) for t in tokens):
        return None
    if not all(isinstance(v, (int, float)) and math.isfinite(v) and v <= 1e-6 for v in values):
        return None
    return tuple(tokens), tuple(min(0.0, float(v)) for v in values)


def _from_top(text: str, top: Sequence[Sequence[LogProb]]) -> Tokens | None:
    """The one way to read ``text`` through the lists, one token of each; ``None`` if there is none or more than one."""
    # ways[i][place]: number of ways (at most 2) to reach that place of the text with the first i lists
    ways: list[dict[int, int]] = [{0: 1}]
    for position in top:
        reached: dict[int, int] = {}
        for place, count in ways[-1].items():
            for token in {entry.token for entry in position}:
                if token and text.startswith(token, place):
                    end = place + len(token)
                    reached[end] = min(2, reached.get(end, 0) + count)
        ways.append(reached)
    if ways[-1].get(len(text)) != 1:
        return None
    tokens, values, place = [], [], len(text)
    for i in range(len(top), 0, -1):
        entry = _ending(top[i - 1], text, place, ways[i - 1])
        tokens.append(entry.token)
        values.append(entry.logprob)
        place -= len(entry.token)
    return _checked(tokens[::-1], values[::-1])


def _ending(position: Sequence[LogProb], text: str, end: int, before: Mapping[int, int]) -> LogProb:
    """The entry that leads to ``end`` from a place that can be reached; there is exactly one."""
    for entry in position:
        start = end - len(entry.token)
        if entry.token and start in before and text.startswith(entry.token, start):
            return entry
    raise AssertionError("a reached place has a way to it")
