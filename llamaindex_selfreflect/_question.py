"""Find the question in an input: a text, a query, a message, a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, CitationBlock, MessageRole, TextBlock
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.schema import QueryBundle

from shared_core.conversation.condense import check_template
from shared_core.conversation.turns import Asked, Condense, Role, Turn, find_question
from shared_core.errors import QuestionError, SettingsError

Question = str | QueryBundle | ChatMessage | Sequence[ChatMessage] | Mapping[str, Any]
"""A text, a ``QueryBundle``, a ``ChatMessage``, a list of them, or ``{"messages": […]}``."""

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
    asked = find_question([_turn(m) for m in messages])
    return AskedBundle(asked.question, asked=asked)


def asked_of(bundle: QueryBundle) -> Asked:
    """Return the question of a query bundle."""
    return (isinstance(bundle, AskedBundle) and bundle.asked) or Asked(bundle.query_str)


def _turn(message: object) -> Turn:
    if isinstance(message, Mapping):
        message = ChatMessage(**message)
    if not isinstance(message, ChatMessage):
        raise QuestionError(
            f"A conversation is made of messages, not of {type(message).__name__}.", hint="Give ChatMessage(…) each."
        )
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
