"""Find the question in an input: a text, a query, a message, a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, CitationBlock, ImageBlock, MessageRole, TextBlock
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.schema import QueryBundle

from shared_core.conversation.condense import check_template
from shared_core.conversation.turns import Asked, Condense, Role, Turn, find_question
from shared_core.errors import QuestionError, SettingsError

Question = str | QueryBundle | ChatMessage | Sequence[ChatMessage] | Mapping[str, Any]
"""A text, a ``QueryBundle``, a ``ChatMessage``, a list of them, or ``{"messages": […]}``."""

_EACH = "Give ChatMessage(…) each, or {'role': 'user', 'content': '…'}."

_ROLES: Mapping[MessageRole, Role] = {
    MessageRole.USER: "user",
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


@dataclass
class AskedBundle(QueryBundle):
    """A query that was found in a conversation, with its history."""

    asked: Asked | None = None


def as_bundle(question: Question) -> QueryBundle:
    """Convert a question to a query bundle of LlamaIndex.

    Raises:
        QuestionError: the messages hold none, or it is nothing of all this.
    """
    if isinstance(question, QueryBundle):
        return question
    if isinstance(question, str):
        return QueryBundle(question)
    if isinstance(question, Mapping) and "messages" in question:
        question = question["messages"]
    messages = [question] if isinstance(question, ChatMessage) else question
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise QuestionError(
            f"A question must be text or messages, not a {type(question).__name__}.",
            hint="engine.query('…'), a QueryBundle, a ChatMessage, a list of them, or {'messages': […]}.",
        )
    asked = find_question([_turn(m) for m in as_messages(messages)])
    return AskedBundle(asked.question, asked=asked)


def asked_of(bundle: QueryBundle) -> Asked:
    """Return the question of a query bundle."""
    return (isinstance(bundle, AskedBundle) and bundle.asked) or Asked(bundle.query_str)


def as_messages(messages: object) -> list[ChatMessage]:
    """Convert the messages of a conversation, oldest first; QuestionError if they are none."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise QuestionError(f"A conversation is a list of messages, not a {type(messages).__name__}.", hint=_EACH)
    return [as_message(m) for m in messages]


def as_message(message: object) -> ChatMessage:
    """Convert a message: a ``ChatMessage``, or a dict with its fields or as OpenAI writes it.

    Raises:
        QuestionError: it is none.
    """
    if isinstance(message, ChatMessage):
        return message
    if not isinstance(message, Mapping):
        raise QuestionError(f"A conversation is made of messages, not of {type(message).__name__}.", hint=_EACH)
    fields = {str(name): value for name, value in message.items()}
    content = fields.get("content")
    if isinstance(content, list):
        fields["content"] = [_block(part) for part in content]
    elif content is not None and not isinstance(content, str):
        raise QuestionError(f"A message's content is text, not a {type(content).__name__}.", hint=_EACH)
    try:
        return ChatMessage(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise QuestionError(f"This is no message of LlamaIndex: {place}: {first['msg']}.", hint=_EACH) from error


def _block(part: object) -> object:
    """Convert a part of a content as OpenAI writes it to a block; any other is returned as it is."""
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        return part
    if part["type"] in ("text", "input_text"):
        return TextBlock(text=str(part.get("text") or ""))
    return ImageBlock()  # what is no text is not read, only counted


def _turn(message: ChatMessage) -> Turn:
    texts = [b.text for b in message.blocks if isinstance(b, TextBlock)]
    others = sum(not isinstance(b, (TextBlock, CitationBlock)) for b in message.blocks)
    abstained = bool(message.additional_kwargs.get("abstained"))
    return Turn(_ROLES.get(message.role, "assistant"), "\n".join(texts), others, abstained)


def condensing(given: bool | str | BasePromptTemplate | None, lm: object) -> tuple[Condense, str]:
    """Return how follow-ups become full questions, and the template for it.

    Raises:
        SettingsError: a template has other fields, or there is no language model for it.
    """
    if given is None or given == "auto" or given is False:
        return given if given is False else "auto", ""
    if lm is None:
        raise SettingsError("Condensing with a model needs a language model.", hint="Give llm=…, or condense='auto'.")
    if given is True:
        return True, ""
    return True, check_template(given if isinstance(given, str) else given.get_template())
