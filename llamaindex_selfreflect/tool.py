"""``SelfReflectTool``: a query engine of ours as a tool of agents, whose abstentions are marked."""

from __future__ import annotations

from typing import Any

from llama_index.core.tools import QueryEngineTool, ToolMetadata, ToolOutput

from llamaindex_selfreflect._base import ReflectiveQueryEngine
from llamaindex_selfreflect._response import SelfReflectResponse
from shared_core.pipelines.decision.wording import tool_text

_DESCRIPTION = (
    "Answers a question from the documents, with quotes. A result that begins with NO ANSWER means that the documents "
    "do not answer the question."
)


class SelfReflectTool(QueryEngineTool):
    """A ``QueryEngineTool`` whose result begins with ``NO ANSWER`` where the engine abstains, and quotes nothing then.

    >>> from llamaindex_selfreflect import SelfReflectQueryEngine
    >>> from shared_core.retrieval import BM25Retriever
    >>> SelfReflectTool(SelfReflectQueryEngine(BM25Retriever())).call("Who?").content
    'NO ANSWER: No passage of the documents matches the question.'

    Args:
        query_engine: of ours.
        name, description: for the agent's model.
        nearest: keep the nearest quotes that an abstention shows.
    """

    def __init__(
        self,
        query_engine: ReflectiveQueryEngine,
        name: str = "ask_documents",
        description: str = _DESCRIPTION,
        *,
        nearest: bool = False,
    ) -> None:
        super().__init__(query_engine, ToolMetadata(name=name, description=description))
        self._nearest = nearest

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Answer the question."""
        return self._marked(super().call(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """``call`` without blocking the event loop."""
        return self._marked(await super().acall(*args, **kwargs))

    def _marked(self, output: ToolOutput) -> ToolOutput:
        response = output.raw_output
        if not isinstance(response, SelfReflectResponse) or response.answer is None:
            return output
        return ToolOutput(
            content=tool_text(response.answer, nearest=self._nearest),
            tool_name=output.tool_name,
            raw_input=output.raw_input,
            raw_output=response,
        )
