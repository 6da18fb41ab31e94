"""From what an LLM of LlamaIndex returns to a ``Reply``."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse

from llamaindex_selfreflect._logprobs import tokens_from_top
from shared_core.errors import ResponseError
from shared_core.lm.chat import Reply, find_reason, find_usage, get, read_content, read_tokens

_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thinking_delta")
"""Where integrations put a model's thoughts beside its text."""


def read(answer: Any, who: str, *, sent: str, logprobs: bool) -> Reply:
    """Convert a model's reply to the common form of all providers.

    Args:
        answer: of ``chat`` or ``complete``.
        who: answered, for errors.
        sent: the text that was to be completed; empty for a chat.
        logprobs: they were asked for.

    Raises:
        ResponseError: it is neither a chat's answer nor a completion's.
    """
    if not isinstance(answer, (ChatResponse, CompletionResponse)):
        raise ResponseError(
            f"{who} gave a {type(answer).__name__}, not a message.", hint="Does llm.complete('Hello') work by itself?"
        )
    message = answer.message if isinstance(answer, ChatResponse) else None
    text = read_content(answer.text if isinstance(answer, CompletionResponse) else get(message, "content")).text
    blocks = read_content(get(message, "blocks"))
    if text is None and message is not None and not get(message, "blocks"):
        text = ""  # LlamaIndex makes no block of a reply that is empty
    choice, candidate = (get(get(answer.raw, name), 0) for name in ("choices", "candidates"))
    extra = (get(message, "additional_kwargs"), answer.additional_kwargs, get(choice, "message"))
    refusal = get(get(choice, "message"), "refusal")
    tokens = None
    if logprobs:
        tokens = read_tokens(get(choice, "logprobs")) or tokens_from_top(text or "", answer.logprobs)
    return Reply(
        text=text,
        reason=find_reason(choice, answer.raw, candidate, *extra),
        thought=blocks.thought or any(get(e, name) for e in extra for name in _THOUGHTS),
        called_tool=blocks.called_tool or any(get(e, "tool_calls") for e in extra),
        refusal=refusal if isinstance(refusal, str) else "",
        tokens=tokens,
        usage=find_usage(answer.additional_kwargs, get(answer.raw, "usage"), get(answer.raw, "usage_metadata"),
                         answer.raw),
        sent=sent,
    )  # fmt: skip
