"""The chain as a tool of an agent."""

from __future__ import annotations

from typing import Any, Protocol

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool

from langchain_selfreflect._caller import Caller
from langchain_selfreflect._stream import find_answer
from langchain_selfreflect.documents import to_documents
from langchain_selfreflect.sourced import Asks
from shared_core.pipelines.decision.wording import tool_text
from shared_core.types import Answer

_DESCRIPTION = (
    "Answers a question from the documents, with quotes. A result that begins with NO ANSWER means that the documents "
    "do not answer the question."
)


class Named(Asks, Protocol):
    """Interface of ``SelfReflectChain`` that a tool needs."""

    def get_name(self) -> str:
        """Name of the runnable."""


def make_tool(chain: Named, name: str | None, description: str | None, *, nearest: bool) -> BaseTool:
    """Create a tool from a question to an answer; its artifact are the documents that the answer was made from.

    An abstention's result begins with ``NO ANSWER`` and has no documents.

    Args:
        chain: answers.
        name, description: for the agent's model; by default our own.
        nearest: keep the nearest quotes that an abstention shows.
    """

    def give(answer: Answer, caller: Caller) -> tuple[str, list[Document]]:
        found = [] if answer.abstained else to_documents(answer.passages, caller.documents)
        return tool_text(answer, nearest=nearest), found

    def ask(question: str, config: RunnableConfig) -> tuple[str, list[Document]]:
        caller = Caller(config)
        return give(find_answer(chain.events(question, caller)), caller)

    async def aask(question: str, config: RunnableConfig) -> tuple[str, list[Document]]:
        caller = Caller(config)
        return give(find_answer([event async for event in chain.aevents(question, caller)]), caller)

    made: Any = StructuredTool.from_function(
        ask,
        aask,
        name=name or "ask_documents",
        description=description or _DESCRIPTION,
        response_format="content_and_artifact",
    )
    tool: BaseTool = made
    return tool
