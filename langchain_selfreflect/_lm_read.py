"""From what a LangChain model returns to a ``Reply``."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from shared_core.errors import ResponseError
from shared_core.lm.chat import Reply, find_reason, find_usage, get, read_content, read_tokens

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Where integrations put a model's thoughts beside its text."""


def read(answer: Any, who: str) -> Reply:
    """Convert a model's reply to the common form of all providers.

    Args:
        answer: a message, or the text of a model that gives text.
        who: answered, for errors.

    Raises:
        ResponseError: it is neither, for instance what a parser made of one.
    """
    if isinstance(answer, str):
        return Reply(read_content(answer).text)
    if not isinstance(answer, BaseMessage):
        raise ResponseError(
            f"{who} gave a {type(answer).__name__}, not a message.",
            hint="Give a chat model, without a parser behind it.",
        )
    said, extra = answer.response_metadata, answer.additional_kwargs
    content = read_content(answer.content)
    refusal = get(extra, "refusal")
    stop = get(said, "stop_sequence")
    return Reply(
        text=content.text,
        reason=find_reason(said, extra),
        stop=stop if isinstance(stop, str) else None,
        thought=content.thought or any(get(extra, name) for name in _THOUGHTS),
        called_tool=content.called_tool or bool(get(answer, "tool_calls")) or bool(get(answer, "invalid_tool_calls")),
        refusal=refusal if isinstance(refusal, str) else "",
        tokens=read_tokens(get(said, "logprobs")),
        usage=find_usage(get(answer, "usage_metadata") if isinstance(answer, AIMessage) else None, get(said, "usage"),
                         get(said, "token_usage")),
    )  # fmt: skip
