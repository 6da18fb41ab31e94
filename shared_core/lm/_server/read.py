"""Read the answers of OpenAI-compatible servers, in all shapes in use: whole ones, streamed ones, and their samples."""

from __future__ import annotations

import dataclasses
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from shared_core.errors import EmptyReplyError, ResponseError
from shared_core.lm.base import Alternative, Sample, SamplingParams
from shared_core.lm.chat.layout import Outgoing, without_halves
from shared_core.lm.chat.read import Kept, kept_tokens, read_reply, unclear
from shared_core.lm.chat.reply import Reply, Tokens, find_reason, find_usage, read_content, read_logprob
from shared_core.support.regex import lazy_regex
from shared_core.types import Usage

ID_PREFIX = "token_id:"
"""How vLLM names a token when asked to name tokens by id."""
_THOUGHTS = ("reasoning_content", "reasoning")
_BLANKS, _VOCABULARY = lazy_regex(r"[\s\ufffd]+"), lazy_regex("[ĠĊ▁]")
_CONTROL = lazy_regex(r"(?:\s|<[^<>]*>|\[[^\[\]]*\])*")


@dataclass(frozen=True, slots=True)
class Position:
    """A generated (or echoed) token: its text, its log-probability (NaN if unknown) and those of its rivals."""

    token: str
    logprob: float
    top: Mapping[str, float]
    offset: int | None = None


def choices(answer: Mapping[str, Any], url: str) -> list[Mapping[str, Any]]:
    """Return the choices of an answer in the order of their index; ResponseError if there are none."""
    valid = _choices(answer)
    if not valid:
        raise ResponseError(
            f"{url} answered without any choice.", hint="The server failed without saying so; look at its log."
        )
    if all(isinstance(c.get("index"), int) for c in valid):
        valid.sort(key=lambda c: int(c["index"]))
    return valid


def _choices(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = answer.get("choices")
    return [c for c in found if isinstance(c, Mapping)] if isinstance(found, list) else []


def error_within(answer: Mapping[str, Any]) -> object:
    """Return what a server says went wrong in an answer of 200, its choices included; nothing if all went well."""
    inner = _choices(answer)
    said = next((e for e in (answer.get("error"), *(c.get("error") for c in inner)) if e), None)
    ends = (reply(c, ()) for c in inner)
    return said or next((f"the answer ended with {e.reason!r}" for e in ends if e.broken), None)


def text(choice: Mapping[str, Any], url: str) -> str:
    """Return the raw text of a choice; EmptyReplyError if it has none."""
    found = reply(choice, ()).text
    if found is None:
        raise EmptyReplyError(f"{url} answered without text.")
    return found


def text_or_thoughts(choice: Mapping[str, Any]) -> str:
    """Return the raw text of a choice; of a model that had not yet done with thinking, its thoughts so far."""
    message = choice.get("message")
    inner = message if isinstance(message, Mapping) else {}
    said = (reply(choice, ()).text, *(inner.get(name) for name in _THOUGHTS))
    return next((text for text in said if isinstance(text, str) and text), "")


def reply(choice: Mapping[str, Any], stops: Sequence[str]) -> Reply:
    """Convert a choice to the form common to all providers; ``stops`` are the requested stop strings."""
    message = choice.get("message")
    inner = message if isinstance(message, Mapping) else {}
    content = read_content(inner.get("content") if message is not None else choice.get("text"))
    said, refusal = choice.get("stop_reason"), inner.get("refusal")
    return Reply(
        text=content.text,
        reason=find_reason({"finish_reason": choice.get("finish_reason")}),
        stop=said if isinstance(said, str) and said in stops else None,
        thought=content.thought or any(inner.get(name) for name in _THOUGHTS),
        called_tool=content.called_tool or bool(inner.get("tool_calls")) or bool(inner.get("function_call")),
        refusal=refusal if isinstance(refusal, str) else "",
        # Completions have no place for thoughts, and vLLM, which gives ids, tells those that it takes out of a chat.
        # Such a text is empty where the tokens are half a character.
        shows_all=message is None or bool(choice.get("token_ids")),
    )


def positions(choice: Mapping[str, Any]) -> list[Position] | None:
    """Read the token log-probabilities of a choice; ``None`` if there are none that can be read."""
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
        Position(_token(token), read_logprob(logprob), _mapping(top), offset if isinstance(offset, int) else None)
        for token, logprob, top, offset in zip(tokens, logprobs, tops, offsets)
    ]


def sample(
    choice: Mapping[str, Any],
    params: SamplingParams,
    url: str,
    *,
    verdicts: Sequence[str] = (),
    sent: Outgoing | None = None,
) -> Sample:
    """Convert a choice to a sample: its answer without thoughts, echo and fences, and the tokens of that.

    Args:
        verdicts: how the server names each verdict's token (text, or ``token_id:…``).
        sent: the prompt, where it went out as text.

    Raises:
        ResponseError: the choice has no answer.
        OnlyThoughts: it ended before the answer began.
    """
    at = positions(choice)
    answer = reply(choice, params.stop)
    if at is not None:
        answer = dataclasses.replace(answer, tokens=Tokens(None, tuple(p.logprob for p in at)))
    reading = read_reply(answer, params, sent, url)
    finish = reading.finish
    if finish == "eos" and params.stop and "stop_reason" not in choice:
        finish = "stop"  # nobody knows whether a stop string or the end of the sequence was met
    by_id = bool(at) and all(p.token.startswith(ID_PREFIX) for p in at or ())
    places = _places(at, reading.kept, by_id=by_id, thought_apart=answer.thought)
    ids = _ids(choice.get("token_ids"), at if by_id else None)
    kept = [at[i] for i in places] if at is not None and places is not None else None
    if answer.thought or not reading.kept.whole:
        ids = [ids[i] for i in places] if places is not None and at is not None and len(ids) == len(at) else []
    return Sample(
        text=reading.text,
        token_ids=tuple(ids),
        finish_reason=finish,
        stop=reading.stop,
        logprobs=tuple(p.logprob for p in kept) if kept is not None and params.logprobs else None,
        tokens=tuple(p.token for p in kept) if kept is not None and not by_id else None,
        verdict_logprobs=verdict_matrix(kept, verdicts) if verdicts else None,
        alternatives=_alternatives(kept, params.alternatives) if params.alternatives else None,
    )


def _alternatives(at: Sequence[Position] | None, most: int) -> tuple[tuple[Alternative, ...], ...] | None:
    """List the generated token at each position, then its rivals, most likely first; ``None`` if none are known."""
    if at is None:
        return None
    found = []
    for p in at:
        others = sorted((v, t) for t, v in p.top.items() if t != p.token and not math.isnan(v))
        rivals = (Alternative(without_halves(t), v) for v, t in others[::-1][: most - 1])
        found.append((Alternative(p.token, p.logprob), *rivals))
    return tuple(found)


def _places(at: Sequence[Position] | None, kept: Kept, *, by_id: bool, thought_apart: bool) -> list[int] | None:
    """Find the positions that make up the answer; ``None`` if that is not known, or they are of another text.

    Args:
        thought_apart: thoughts have a field of their own; most servers give their tokens too, before the answer's.
    """
    if at is None:
        return None
    texts = [p.token for p in at]
    if by_id or not any(texts):
        return None if thought_apart or not kept.whole else list(range(len(at)))
    found = kept_tokens(texts, kept)
    if found is None and thought_apart:
        return _behind_thoughts(texts, kept)
    if kept.whole and (found is not None or _may_be_of(texts, kept.raw)):
        return list(range(len(at)))
    return found


def _may_be_of(texts: Sequence[str], raw: str) -> bool:
    """Return whether tokens may be those of a text, if some are spelt otherwise or have lost their blanks.

    vLLM's completions spell tokens that are parts of a broken character as nothing, and the text shows U+FFFD for them.
    """
    joined = "".join(texts)
    if any(map(unclear, texts)) or _VOCABULARY.search(joined):
        return True
    return _BLANKS.sub("", joined).startswith(_BLANKS.sub("", raw))


def _behind_thoughts(texts: Sequence[str], kept: Kept) -> list[int] | None:
    """Find the tokens of an answer that stands last, with nothing but control tokens behind it."""
    before, raw, behind = "".join(texts).rpartition(kept.raw)
    if not raw or _CONTROL.fullmatch(behind) is None:
        return None
    ends = list(accumulate(map(len, texts)))
    first = bisect_right(ends, len(before))
    own = [texts[first][len(before) - ends[first] + len(texts[first]) :], *texts[first + 1 :]]
    return [first + i for i in kept_tokens(own, kept) or ()] or None


def _ids(value: object, at: Sequence[Position] | None) -> list[int]:
    """Read the ids of the generated tokens from their list or their names; empty if neither holds them."""
    if isinstance(value, list):
        return [i for i in value if type(i) is int]
    names = [p.token.removeprefix(ID_PREFIX) for p in at or ()]
    return [int(n) for n in names] if all(n.isascii() and n.isdecimal() and len(n) < 16 for n in names) else []


def verdict_matrix(at: Sequence[Position] | None, verdicts: Sequence[str]) -> np.ndarray:
    """Build the (T, V) log-probabilities of the verdict tokens; NaN where the server gave none."""
    rows = [[p.top.get(v, p.logprob if p.token == v else math.nan) for v in verdicts] for p in at or ()]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(verdicts))


def usage(answer: Mapping[str, Any]) -> Usage:
    """Read the server's token counts; 0 where it gave none."""
    return find_usage(answer.get("usage"))


def prompt_logprobs(choice: Mapping[str, Any], ids: Sequence[int]) -> list[float] | None:
    """Read vLLM's log-probability of each prompt token (NaN for the first); ``None`` if they are missing."""
    found = choice.get("prompt_logprobs")
    if not isinstance(found, list) or len(found) != len(ids):
        return None
    values = []
    for entry, token_id in zip(found, ids):
        token = entry.get(str(token_id)) if isinstance(entry, Mapping) else None
        values.append(read_logprob(token.get("logprob")) if isinstance(token, Mapping) else math.nan)
    return values


def _chat_position(entry: Mapping[str, Any]) -> Position:
    tops = entry.get("top_logprobs")
    named: dict[str, float] = {}
    for top in tops if isinstance(tops, list) else ():
        if isinstance(top, Mapping) and isinstance(token := top.get("token"), str):
            value = read_logprob(top.get("logprob"))
            named[token] = max(value, named.get(token, -math.inf))  # several tokens may be shown as one text
    return Position(_token(entry.get("token")), read_logprob(entry.get("logprob")), named)


def _token(value: object) -> str:
    return without_halves(value) if isinstance(value, str) else ""


def _aligned(values: object, like: Sequence[Any]) -> Sequence[Any]:
    return values if isinstance(values, list) and len(values) == len(like) else [None] * len(like)


def _mapping(value: object) -> dict[str, float]:
    return {str(k): read_logprob(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


# --- streamed answers ------------------------------------------------------------------------------------------------


class Collected:
    """Answer that grows with each line of a stream.

    Args:
        heard: called with each piece of text.

    Attributes:
        ended: the server said that nothing follows.
        rest: lines that are no event, of a server that does not stream or fails: JSON, or a web page.
        error: what the server said went wrong in the middle.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._choices: dict[int, dict[str, Any]] = {}
        self._fields: dict[str, Any] = {}
        self.ended = False
        self.rest = ""
        self.error: object = None

    @property
    def whole(self) -> bool:
        """Whether every choice has come to its end."""
        ends = [c.get("finish_reason") is not None for c in self._choices.values()]
        return self.error is None and ((bool(ends) and all(ends)) or bool(self._plain()))

    def take(self, line: str) -> None:
        """Take the next line."""
        if not line.startswith("data:"):
            if line and not line.startswith((":", "event:", "id:", "retry:")):
                self.rest += line + "\n"
            return
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.ended = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = {"error": data} if data.startswith("{") else None  # a lost piece would be missing in the middle
        if not isinstance(event, Mapping):
            return
        if event.get("error"):
            self.error, self.ended, self.rest = event["error"], True, str(event["error"])
            return
        self._fields |= {k: v for k, v in event.items() if k != "choices" and v is not None}
        for choice in event.get("choices") or ():
            if isinstance(choice, Mapping):
                self._add(choice)

    def _add(self, piece: Mapping[str, Any]) -> None:
        index = piece.get("index")
        index = index if isinstance(index, int) else 0
        whole = self._choices.setdefault(index, {"index": index, "finish_reason": None})
        delta = piece.get("delta")
        if isinstance(delta, Mapping):
            message = whole.setdefault("message", {"role": "assistant", "content": [""]})
            said = delta.get("content")
            text = read_content(said).text
            for name in (*_THOUGHTS, "refusal"):
                if isinstance(delta.get(name), str):
                    message[name] = message.get(name, "") + delta[name]
            message["content"] += said if isinstance(said, list) else [said] * bool(said)
        else:
            text = piece.get("text")
            whole["text"] = whole.get("text", "") + (text if isinstance(text, str) else "")
        for name in ("finish_reason", "stop_reason"):
            if name in piece:
                whole[name] = piece[name] if piece[name] is not None else whole.get(name)
        if isinstance(piece.get("token_ids"), list):
            whole["token_ids"] = [*whole.get("token_ids", ()), *piece["token_ids"]]
        if isinstance(piece.get("logprobs"), Mapping):
            lists = whole.setdefault("logprobs", {})
            for name, values in piece["logprobs"].items():
                if isinstance(values, list):
                    lists[name] = [*lists.get(name, ()), *values]
        if isinstance(text, str) and text:
            self._heard(text)

    def answer(self) -> dict[str, Any]:
        """Return the whole answer."""
        return self._plain() or {**self._fields, "choices": [self._choices[i] for i in sorted(self._choices)]}

    def _plain(self) -> dict[str, Any]:
        """Return the answer of a server that does not stream, or nothing."""
        try:
            found = json.loads(self.rest) if self.rest and not self._choices else None
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and found.get("choices") else {}
