"""From a chat model's message to a ``Sample``: text, end, token log-probabilities, usage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from shared_core.errors import ResponseError
from shared_core.lm.base import FinishReason, Sample, SamplingParams
from shared_core.lm.neutralise import MARK, restore
from shared_core.types import Usage

_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
_WITHHELD = frozenset({"content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content"})


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of a reply: natural-log probabilities (NaN where unreadable), texts where they join up to the reply."""

    logprobs: tuple[float, ...]
    texts: tuple[str, ...] | None


def sample(reply: Any, params: SamplingParams, *, restored: bool, name: str) -> Sample:
    """A reply as a sample: cut at the stop strings, control strings restored.

    Args:
        reply: a message, or the text of a model that gives text.
        params: what was asked for.
        restored: control strings were neutralised in the prompt, so they are restored in the text.
        name: of the model, for errors.

    Raises:
        ResponseError: the model gave no text, or withheld it.
    """
    text = _text(reply, name)
    reason = _reason(reply)
    if not text and reason in _LENGTH:
        raise ResponseError(
            f"{name} answered without text: it reached its limit of tokens.",
            hint="A reasoning model may have used up max_tokens before it began to answer: raise it.",
        )
    if reason in _WITHHELD:
        raise ResponseError(f"{name} withheld its answer ({reason}).", hint="Another model or wording may help.")
    place, stop = _first_stop(text, params.stop)
    end = len(text) if stop is None else place + (len(stop) if params.include_stop else 0)
    tokens = _cut(logprobs_of(reply, text), text, end) if params.logprobs else None
    kept = text[:end]
    return Sample(
        text=restore(kept) if restored else kept,
        finish_reason=_finish(stop, reason),
        stop=stop,
        logprobs=tokens.logprobs if tokens else None,
        # A restored text has other characters than the tokens it came in.
        tokens=tokens.texts if tokens and not (restored and MARK in kept) else None,
    )


def usage(reply: Any) -> Usage:
    """Tokens as the provider counted them; 0 where it did not."""
    found: Mapping[str, Any] = (reply.usage_metadata or {}) if isinstance(reply, AIMessage) else {}
    details = found.get("input_token_details") or {}
    return Usage(
        calls=1,
        prompt_tokens=_count(found.get("input_tokens")),
        generated_tokens=_count(found.get("output_tokens")),
        cached_tokens=_count(details.get("cache_read")),
    )


def logprobs_of(reply: Any, text: str) -> Tokens | None:
    """The token log-probabilities of a reply (OpenAI's form); ``None`` if it has none that can be read."""
    metadata = reply.response_metadata if isinstance(reply, BaseMessage) else {}
    found = metadata.get("logprobs")
    content = found.get("content") if isinstance(found, Mapping) else found
    if not isinstance(content, list) or not content or not all(isinstance(c, Mapping) for c in content):
        return None
    values = tuple(_number(c.get("logprob")) for c in content)
    if all(math.isnan(v) for v in values):
        return None
    return Tokens(values, _token_texts(content, text))


def _token_texts(content: list[Mapping[str, Any]], text: str) -> tuple[str, ...] | None:
    """The tokens' texts, ``None`` if they do not join up to the reply's (a token of half a character, for one)."""
    texts = tuple(str(c.get("token", "")) for c in content)
    if "".join(texts) == text:
        return texts
    pieces = [c.get("bytes") for c in content]
    if not all(isinstance(p, list) for p in pieces):
        return None
    try:
        raw = [bytes(p) for p in pieces if p is not None]
        whole = b"".join(raw).decode() == text
    except (ValueError, TypeError):
        return None
    # Bytes of a split character are shown with the token that completes it.
    return _at_characters(raw) if whole else None


def _at_characters(raw: list[bytes]) -> tuple[str, ...]:
    texts, pending = [], b""
    for piece in raw:
        pending += piece
        try:
            texts.append(pending.decode())
            pending = b""
        except UnicodeDecodeError:
            texts.append("")
    return tuple(texts)


def _cut(tokens: Tokens | None, text: str, end: int) -> Tokens | None:
    """The tokens of ``text[:end]``; ``None`` where it is not known which these are."""
    if tokens is None or end == len(text):
        return tokens
    if tokens.texts is None:
        return None
    count = length = 0
    for piece in tokens.texts:
        if length >= end:
            break
        length += len(piece)
        count += 1
    return Tokens(tokens.logprobs[:count], tokens.texts[:count])


def _text(reply: Any, name: str) -> str:
    if isinstance(reply, str):
        return reply
    if isinstance(reply, BaseMessage):
        return str(reply.text)
    raise ResponseError(
        f"{name} gave a {type(reply).__name__}, not a message.", hint="Give a chat model, without a parser behind it."
    )


def _first_stop(text: str, stops: tuple[str, ...]) -> tuple[int, str | None]:
    places = [(text.find(s), s) for s in stops if s in text]
    return min(places, default=(-1, None), key=lambda p: (p[0], -len(p[1] or "")))


def _reason(reply: Any) -> str:
    metadata = reply.response_metadata if isinstance(reply, BaseMessage) else {}
    for key in ("finish_reason", "stop_reason", "done_reason"):
        if isinstance(metadata.get(key), str):
            return str(metadata[key]).lower()
    return ""


def _finish(stop: str | None, reason: str) -> FinishReason:
    if stop is not None or reason == "stop_sequence":
        return "stop"
    return "length" if reason in _LENGTH else "eos"


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
