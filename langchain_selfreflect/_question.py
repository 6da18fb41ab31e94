"""Find the question in a chain's input: a text, a message, a conversation, a prompt, or a dict with one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.function import FunctionMessage
from langchain_core.prompt_values import PromptValue

from langchain_selfreflect._messages import NAMESPACE
from shared_core.conversation.turns import Asked, Role, Turn, find_question
from shared_core.errors import QuestionError

ChainInput = LanguageModelInput | BaseMessage | Mapping[str, Any]
"""A text, a message, a list of messages (or of what LangChain makes messages of), a ``PromptValue``, or a mapping: a
dict, the state of a graph."""

KEYS = ("question", "input", "query", "messages")
"""Where the question of a dict is looked for, after ``input_key``."""

_HISTORY = ("history", "chat_history")
"""Where the conversation before the question stands in a dict, or in ``messages``; a list of messages is one under any
name."""


def find_asked(given: object, input_key: str) -> Asked:
    """Return the question of the input, with a note about unread parts.

    Raises:
        QuestionError: there is no question in it.
    """
    if isinstance(given, str):
        return Asked(given)
    if isinstance(given, PromptValue):
        return find_question([_turn(m) for m in given.to_messages()])
    if isinstance(given, Mapping):
        return _of_dict(given, input_key)
    messages = [given] if isinstance(given, BaseMessage) else given
    if not isinstance(messages, Sequence) or isinstance(messages, bytes):
        raise QuestionError(
            f"The input must be a question, messages, or a dict that holds one, not a {type(given).__name__}.",
            hint=f"chain.invoke('…'), chain.invoke([HumanMessage('…')]), or chain.invoke({{{input_key!r}: '…'}}).",
        )
    return find_question([_turn(m) for m in _messages(messages)])


def _of_dict(given: Mapping[str, Any], input_key: str) -> Asked:
    keys = dict.fromkeys((input_key, *KEYS))
    present = [k for k in keys if k in given]
    # nothing beside a question is a form's unused field
    key = next((k for k in present if not _is_blank(given[k])), next(iter(present), None))
    if key is None:
        raise QuestionError(
            f"The input holds no question: its keys are {', '.join(map(repr, given)) or 'none'}.",
            hint=f"Use one of {', '.join(keys)}, or set input_key.",
        )
    value = given[key]
    before = [m for k, v in given.items() if k != key for m in _history(k, v)]
    if not before:
        return find_asked(value, input_key)
    if isinstance(value, Mapping):
        asked = find_asked(value, input_key)
        return asked if asked.history else replace(asked, history=tuple(map(_turn, _messages(before))))
    said: Sequence[Any] = [HumanMessage(value)] if isinstance(value, str) else _listed(value)
    return find_question([_turn(m) for m in _messages([*before, *said])])


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _history(key: str, value: object) -> Sequence[Any]:
    """Return the messages before the question that stand under a key; none under most keys.

    Raises:
        QuestionError: the key is one of a history, and its value is none.
    """
    if isinstance(value, (list, tuple)):
        is_history = key in (*_HISTORY, "messages") or all(isinstance(m, BaseMessage) for m in value)
        return value if is_history else ()
    if key not in _HISTORY or _is_blank(value):
        return ()
    if isinstance(value, (BaseMessage, PromptValue)):
        return _listed(value)
    raise QuestionError(
        f"{key} must be a list of messages, not a {type(value).__name__}.",
        hint=f"{{…, {key!r}: [HumanMessage('…'), AIMessage('…')]}}, or ('human', '…') and ('ai', '…') in the list.",
    )


def _listed(value: object) -> Sequence[Any]:
    if isinstance(value, PromptValue):
        return value.to_messages()
    return value if isinstance(value, (list, tuple)) else [value]


def _messages(given: Sequence[Any]) -> list[BaseMessage]:
    try:
        return convert_to_messages(given)
    # All of these come from there: unknown roles, kinds that it does not convert, missing keys, None for a message.
    except (ValueError, NotImplementedError, TypeError, LookupError, AttributeError) as error:
        said = next(iter(str(error).splitlines()), "")
        raise QuestionError(
            f"The input is no list of messages: {type(error).__name__}: {said}",
            hint="Give messages (HumanMessage('…')), or ('human', '…') each.",
        ) from error


def _turn(message: BaseMessage) -> Turn:
    content = message.content
    parts: Sequence[Any] = content if isinstance(content, list) else [content]
    texts = [t for t in map(_text, parts) if t is not None]
    ours = message.response_metadata.get(NAMESPACE)
    abstained = isinstance(ours, Mapping) and bool(ours.get("abstained"))
    return Turn(_role(message), "\n".join(texts), len(parts) - len(texts), abstained)


def messages_of(history: Sequence[Turn]) -> list[BaseMessage]:
    """Convert turns back to messages: the user's and the assistant's."""
    made = {"user": HumanMessage, "assistant": AIMessage}
    return [made[turn.role](turn.text) for turn in history if turn.role in made]


def _text(part: object) -> str | None:
    found = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") == "text" else part
    return found if isinstance(found, str) else None


def _role(message: BaseMessage) -> Role:
    if isinstance(message, (ToolMessage, FunctionMessage)):
        return "tool"
    if isinstance(message, SystemMessage):
        return "system"
    kind = message.type if message.type != "chat" else getattr(message, "role", "")
    return "user" if isinstance(message, HumanMessage) or kind in ("human", "user") else "assistant"
