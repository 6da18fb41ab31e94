"""What OpenAI-compatible servers answer, in all the shapes in use, as samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shared_core.errors import ResponseError
from shared_core.lm.base import FinishReason, Sample, SamplingParams
from shared_core.lm.neutralise import restore
from shared_core.types import Usage

ID_PREFIX = "token_id:"
"""How vLLM names a token when asked to name tokens by id."""


@dataclass(frozen=True, slots=True)
class Position:
    """One generated (or echoed) token: its text, log-probability (NaN if unknown) and its rivals'."""

    token: str
    logprob: float
    top: Mapping[str, float]
    offset: int | None = None


def choices(answer: Mapping[str, Any], url: str) -> list[Mapping[str, Any]]:
    """The choices of an answer, in the order of their index; ResponseError if there are none."""
    found = answer.get("choices")
    valid = [c for c in found if isinstance(c, Mapping)] if isinstance(found, list) else []
    if not valid:
        raise ResponseError(
            f"{url} answered without any choice.", hint="The server failed without saying so; look at its log."
        )
    if all(isinstance(c.get("index"), int) for c in valid):
        valid.sort(key=lambda c: int(c["index"]))
    return valid


def text(choice: Mapping[str, Any], url: str) -> str:
    """The text of a choice; ResponseError if it has none."""
    message = choice.get("message")
    found = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if isinstance(found, list):  # content parts
        parts = [p.get("text") for p in found if isinstance(p, Mapping)]
        found = "".join(p for p in parts if isinstance(p, str)) if parts else None
    if isinstance(found, str):
        return found
    refusal = message.get("refusal") if isinstance(message, Mapping) else None
    if isinstance(refusal, str) and refusal:
        raise ResponseError(f"{url}: the model refused to answer.", hint="Another model or wording may help.")
    reason = choice.get("finish_reason")
    hint = (
        "A reasoning model may have used up max_tokens before it began to answer: raise max_tokens."
        if reason == "length"
        else "A content filter or a tool call can cause this."
    )
    raise ResponseError(f"{url} answered without text (finish_reason {reason!r}).", hint=hint)


def positions(choice: Mapping[str, Any]) -> list[Position] | None:
    """The token log-probabilities of a choice; ``None`` if the server gave none that can be read."""
    found = choice.get("logprobs")
    if not isinstance(found, Mapping):
        return None
    content = found.get("content")
    if isinstance(content, list):
        return [_chat_position(c) for c in content if isinstance(c, Mapping)] or None
    tokens, logprobs = found.get("tokens"), found.get("token_logprobs")
    if not isinstance(logprobs, list) or not logprobs:
        return None
    tokens = tokens if isinstance(tokens, list) and len(tokens) == len(logprobs) else [""] * len(logprobs)
    tops, offsets = _aligned(found.get("top_logprobs"), logprobs), _aligned(found.get("text_offset"), logprobs)
    return [
        Position(str(token), _number(logprob), _mapping(top), offset if isinstance(offset, int) else None)
        for token, logprob, top, offset in zip(tokens, logprobs, tops, offsets)
    ]


def sample(
    choice: Mapping[str, Any],
    params: SamplingParams,
    url: str,
    *,
    verdicts: Sequence[str] = (),
    restored: bool = False,
) -> Sample:
    """A choice as a sample.

    Args:
        choice: of the answer.
        params: what was asked for.
        url: for errors.
        verdicts: how the server names each verdict's token (text, or ``token_id:…``).
        restored: control strings were neutralised in the prompt, so they are restored in the text.

    Raises:
        ResponseError: the choice has no text.
    """
    content = text(choice, url)
    if restored:
        content = restore(content)
    content, finish, stop = _finish(choice, params, content)
    at = positions(choice)
    ids = choice.get("token_ids")
    by_id = bool(at) and all(p.token.startswith(ID_PREFIX) for p in at or ())
    if by_id and not isinstance(ids, list):
        ids = [int(p.token[len(ID_PREFIX) :]) for p in at or ()]
    return Sample(
        text=content,
        token_ids=tuple(i for i in ids if isinstance(i, int)) if isinstance(ids, list) else (),
        finish_reason=finish,
        stop=stop,
        logprobs=tuple(p.logprob for p in at) if at is not None and params.logprobs else None,
        tokens=tuple(p.token for p in at) if at is not None and not by_id else None,
        verdict_logprobs=verdict_matrix(at, verdicts) if verdicts else None,
    )


def verdict_matrix(at: Sequence[Position] | None, verdicts: Sequence[str]) -> np.ndarray:
    """(T, V) log-probabilities of the verdict tokens; NaN where the server did not say."""
    rows = [[p.top.get(v, p.logprob if p.token == v else math.nan) for v in verdicts] for p in at or ()]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(verdicts))


def usage(answer: Mapping[str, Any]) -> Usage:
    """Tokens as the server counted them; 0 where it did not."""
    found = answer.get("usage")
    found = found if isinstance(found, Mapping) else {}
    details = found.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(
        calls=1,
        prompt_tokens=_count(found.get("prompt_tokens")),
        generated_tokens=_count(found.get("completion_tokens")),
        cached_tokens=_count(cached),
    )


def prompt_logprobs(choice: Mapping[str, Any], ids: Sequence[int]) -> list[float] | None:
    """vLLM's log-probability of each prompt token given those before it (NaN for the first); ``None`` if not there."""
    found = choice.get("prompt_logprobs")
    if not isinstance(found, list) or len(found) != len(ids):
        return None
    values = []
    for entry, token_id in zip(found, ids):
        token = entry.get(str(token_id)) if isinstance(entry, Mapping) else None
        values.append(_number(token.get("logprob")) if isinstance(token, Mapping) else math.nan)
    return values


def _finish(choice: Mapping[str, Any], params: SamplingParams, content: str) -> tuple[str, FinishReason, str | None]:
    reason, said = choice.get("finish_reason"), choice.get("stop_reason")
    stop = said if isinstance(said, str) and said in params.stop else None
    if stop is None and not (params.include_stop and reason == "stop" and "stop_reason" in choice):
        places = [(content.find(s), s) for s in params.stop if s in content]
        if places:  # a server that does not know stop strings went past one
            start, stop = min(places)
            return content[: start + len(stop) if params.include_stop else start], "stop", stop
    if stop is not None:
        return content, "stop", stop
    if reason == "length":
        return content, "length", None
    if params.grammar is not None:
        return content, "grammar", None
    # Without stop_reason nobody knows whether a stop string or the end of the sequence was met.
    return content, "stop" if params.stop and "stop_reason" not in choice else "eos", None


def _chat_position(entry: Mapping[str, Any]) -> Position:
    tops = entry.get("top_logprobs")
    named = {
        str(t["token"]): _number(t.get("logprob"))
        for t in (tops if isinstance(tops, list) else ())
        if isinstance(t, Mapping) and "token" in t
    }
    return Position(str(entry.get("token", "")), _number(entry.get("logprob")), named)


def _aligned(values: object, like: Sequence[Any]) -> Sequence[Any]:
    return values if isinstance(values, list) and len(values) == len(like) else [None] * len(like)


def _mapping(value: object) -> dict[str, float]:
    return {str(k): _number(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
