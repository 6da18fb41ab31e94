"""Read providers' answers into one form, ``Reply``, from foreign values of any shape.

Nothing in here raises on odd values: what cannot be read is unknown (``None``, NaN, 0).
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.lm.base import FinishReason
from shared_core.lm.chat.layout import without_halves
from shared_core.types import Usage

_LENGTH = frozenset({
    "length", "max_tokens", "max_output_tokens", "max_token", "max_length", "model_length", "token_limit",
    "model_context_window_exceeded", "incomplete",
})  # fmt: skip
_WITHHELD = frozenset({
    "content_filter", "content_filtered", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "guardrail_intervened", "error_toxic", "image_safety", "model_armor", "sensitive",
})  # fmt: skip
_BROKEN = frozenset({
    "error", "abort", "aborted", "cancelled", "canceled", "timeout", "network_error", "insufficient_system_resource",
})  # fmt: skip
_TOOLS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_SEQUENCE = frozenset({"stop_sequence"})
_REASONS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")
_LONGEST_REASON = 64
_PROMPT = (
    "prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count", "inputTokens", "promptTokenCount",
)  # fmt: skip
_GENERATED = (
    "completion_tokens", "output_tokens", "candidates_token_count", "eval_count", "outputTokens",
    "candidatesTokenCount",
)  # fmt: skip
_CACHED = ("cached_tokens", "cache_read", "cache_read_input_tokens", "cached_content_token_count")
_DETAILS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")
_THOUGHT_BLOCKS = ("thinking", "reasoning", "redacted_thinking", "reasoning_content", "thought")
_TOOL_BLOCKS = ("tool_use", "tool_call", "function_call", "server_tool_use")
_LARGEST = 1e-6
"""A log-probability may be above 0 by that much, by rounding."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Generated tokens, in order.

    Attributes:
        texts: of each token (T,), or ``None`` where they are not known.
        logprobs: (T,) natural log, NaN where unknown.
    """

    texts: tuple[str, ...] | None
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A provider's answer, in one form for all of them.

    Attributes:
        text: what the model said; ``None`` if there is no text at all (a refusal, a tool call).
        reason: why it ended, in the provider's word, lower case; empty if it does not say.
        stop: the stop string that ended it, where the provider says so.
        thought: the provider gave the model's thoughts apart from the text.
        refusal: the model's words of refusal.
        tokens: generated tokens, where they were asked for and came.
        usage: tokens as the provider counted them.
        sent: the text that the model was to continue, where a template made it other than ``Outgoing.text``.
        shows_all: whatever was generated is in the text or in the other fields: an empty text hides no thoughts.
    """

    text: str | None
    reason: str = ""
    stop: str | None = None
    thought: bool = False
    called_tool: bool = False
    refusal: str = ""
    tokens: Tokens | None = None
    usage: Usage = Usage(calls=1)
    sent: str = ""
    shows_all: bool = False

    @property
    def cut_off(self) -> bool:
        """Whether it ended at the token limit."""
        return self.reason in _LENGTH

    @property
    def withheld(self) -> bool:
        """Whether the provider kept the answer back."""
        return self.reason in _WITHHELD

    @property
    def broken(self) -> bool:
        """Whether the provider failed before the answer was whole."""
        return self.reason in _BROKEN

    @property
    def wants_tool(self) -> bool:
        """Whether it ended to call a tool."""
        return self.called_tool or self.reason in _TOOLS

    @property
    def finish(self) -> FinishReason:
        """The reason it ended, as a ``FinishReason``."""
        if self.cut_off:
            return "length"
        return "stop" if self.stop is not None or self.reason in _SEQUENCE else "eos"


def get(value: object, key: str | int) -> Any:
    """Return a member of a mapping, a sequence or an object; ``None`` if there is none or reading it fails."""
    try:
        if isinstance(value, Mapping):
            return value.get(key)
        if isinstance(key, int):
            return value[key] if isinstance(value, (list, tuple)) and -len(value) <= key < len(value) else None
        return getattr(value, key, None)
    except Exception:  # a property of somebody else's class
        return None


def find_reason(*sources: object) -> str:
    """Return why a reply ended, in lower case, from the first source that has a reason; empty if none has."""
    for source in sources:
        for name in _REASONS:
            said = get(source, name)
            said = get(said, "name") or said  # an enumeration
            if isinstance(said, str) and 0 < len(said) <= _LONGEST_REASON:
                return without_halves(said).rpartition(".")[2].lower()
        why = get(get(source, "incomplete_details"), "reason")  # OpenAI's Responses
        if isinstance(why, str) and len(why) <= _LONGEST_REASON:
            return without_halves(why).lower()
    return ""


def find_usage(*sources: object) -> Usage:
    """Return the provider's token counts, each from the first source that has it; 0 where none does."""
    details = [get(s, d) for s in sources for d in _DETAILS]
    return Usage(
        calls=1,
        prompt_tokens=_first_count(sources, _PROMPT),
        generated_tokens=_first_count(sources, _GENERATED),
        cached_tokens=_first_count((*sources, *details), _CACHED),
    )


@dataclass(frozen=True, slots=True)
class Content:
    """The parts of a message's content.

    Attributes:
        text: all of its text; ``None`` if it holds none that could be read.
        thought: it holds thoughts apart from the text.
        called_tool: it holds a call of a tool.
    """

    text: str | None
    thought: bool = False
    called_tool: bool = False


def read_content(content: object) -> Content:
    """Read a message's content: a string, or a list of strings and blocks of which the textual ones count."""
    if isinstance(content, str):
        return Content(without_halves(content))
    if isinstance(content, Mapping) or (content is not None and isinstance(get(content, "text"), str)):
        content = [content]
    if not isinstance(content, (list, tuple)):
        return Content(None)
    kinds = [str(_kind(block)) for block in content]
    texts = list(_texts(content, kinds))
    return Content(
        without_halves("".join(texts)) if texts else None,
        thought=any(k in _THOUGHT_BLOCKS for k in kinds),
        called_tool=any(k in _TOOL_BLOCKS for k in kinds),
    )


def read_logprob(value: object) -> float:
    """Return a natural-log probability; NaN for anything impossible: not a number, not finite, above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        return math.nan
    return min(0.0, number) if math.isfinite(number) and number <= _LARGEST else math.nan


def read_count(value: object) -> int:
    """Return a number of tokens; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53 else 0


def tokens_of(texts: Sequence[object], logprobs: Sequence[object], pieces: Sequence[object] = ()) -> Tokens | None:
    """Build tokens from a provider's lists; ``None`` if no log-probability among them is readable.

    Args:
        texts: of each token, where known.
        pieces: bytes of each token (lists of numbers), where known. A character of several tokens has its bytes
            spread over them; it goes to the last of them.
    """
    values = tuple(read_logprob(v) for v in logprobs)
    if not values or all(math.isnan(v) for v in values):
        return None
    joined = _texts_of_bytes(pieces) if len(pieces) == len(values) else None
    if joined is None and len(texts) == len(values) and all(isinstance(t, str) for t in texts):
        joined = tuple(without_halves(str(t)) for t in texts)
    return Tokens(joined, values)


def read_tokens(logprobs: object) -> Tokens | None:
    """Read tokens in OpenAI's forms: a chat's ``content``, a completion's ``tokens`` and ``token_logprobs``, a list."""
    content = get(logprobs, "content")
    content = logprobs if content is None else content
    if isinstance(content, (list, tuple)):
        entries = [c for c in content if c is not None]
        if not entries or any(isinstance(c, (str, int, float, list, tuple)) for c in entries):
            return None
        columns = ([get(c, name) for c in entries] for name in ("token", "logprob", "bytes"))
        return tokens_of(*columns)
    tokens, values = get(logprobs, "tokens"), get(logprobs, "token_logprobs")
    if not isinstance(values, (list, tuple)):
        return None
    return tokens_of(tokens if isinstance(tokens, (list, tuple)) else (), values)


def _texts_of_bytes(pieces: Sequence[object]) -> tuple[str, ...] | None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    texts: list[str] = []
    for piece in pieces:
        if not isinstance(piece, (list, tuple, bytes)):
            return None
        try:
            texts.append(decoder.decode(bytes(piece)))
        except (TypeError, ValueError, OverflowError):
            return None
    return tuple(texts)


def _kind(block: object) -> object:
    kind = get(block, "type") or get(block, "block_type")
    return get(kind, "value") or kind or ""


def _texts(blocks: Sequence[object], kinds: Sequence[str]) -> Iterator[str]:
    for block, kind in zip(blocks, kinds):
        if isinstance(block, str):
            yield block
        elif kind not in _THOUGHT_BLOCKS and kind not in _TOOL_BLOCKS:
            text = get(block, "text")
            if isinstance(text, str):
                yield text


def _first_count(sources: Sequence[object], names: Sequence[str]) -> int:
    for source in sources:
        for name in names:
            found = read_count(get(source, name))
            if found:
                return found
    return 0
