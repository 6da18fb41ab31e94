"""``SelfReflectTool``: a query engine of ours as a tool of agents, whose abstentions are marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.tools import QueryEngineTool, ToolMetadata, ToolOutput

from llamaindex_selfreflect._response import SelfReflectResponse
from shared_core.errors import InputError, QuestionError
from shared_core.pipelines.decision.wording import NO_ANSWER, TOOL_DESCRIPTION, TOOL_NAME, tool_text


class SelfReflectTool(QueryEngineTool):
    """A ``QueryEngineTool`` whose result begins with ``NO ANSWER`` where the engine abstains, and quotes nothing then.

    So does that of an empty question.

    >>> from llamaindex_selfreflect import SelfReflectQueryEngine
    >>> from shared_core.retrieval import BM25Retriever
    >>> SelfReflectTool(SelfReflectQueryEngine(BM25Retriever())).call("Who?").content
    'NO ANSWER: No passage of the documents matches the question.'

    Args:
        query_engine: of ours, or one that passes on what ours returns.
        name, description: for the agent's model.
        nearest: keep the nearest quotes that an abstention shows.
        return_direct: the agent returns the result as its own.
        resolve_input_errors: as of ``QueryEngineTool``.

    Raises:
        InputError: ``query_engine`` is none.
    """

    def __init__(
        self,
        query_engine: BaseQueryEngine,
        name: str = TOOL_NAME,
        description: str = TOOL_DESCRIPTION,
        *,
        nearest: bool = False,
        return_direct: bool = False,
        resolve_input_errors: bool = True,
    ) -> None:
        if not isinstance(query_engine, BaseQueryEngine):
            raise InputError(
                f"A {type(query_engine).__name__} is no query engine.", hint="Give SelfReflectQueryEngine(…)."
            )
        metadata = ToolMetadata(name=name, description=description, return_direct=return_direct)
        super().__init__(query_engine, metadata, resolve_input_errors=resolve_input_errors)
        self._nearest = nearest

    @classmethod
    def from_defaults(
        cls,
        query_engine: BaseQueryEngine,
        name: str | None = None,
        description: str | None = None,
        return_direct: bool = False,
        resolve_input_errors: bool = True,
        *,
        nearest: bool = False,
    ) -> SelfReflectTool:
        """Create a tool with the arguments of ``QueryEngineTool.from_defaults``."""
        return cls(
            query_engine,
            name or TOOL_NAME,
            description or TOOL_DESCRIPTION,
            nearest=nearest,
            return_direct=return_direct,
            resolve_input_errors=resolve_input_errors,
        )

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Answer the question."""
        try:
            return self._marked(super().call(*args, **kwargs))
        except QuestionError as error:
            return self._refused(error, args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """``call`` without blocking the event loop."""
        try:
            return self._marked(await super().acall(*args, **kwargs))
        except QuestionError as error:
            return self._refused(error, args, kwargs)

    def _refused(self, error: QuestionError, args: Sequence[Any], kwargs: dict[str, Any]) -> ToolOutput:
        """Tell the agent's model what is wrong with its question, which an error would keep from it."""
        raw = {"args": args, "kwargs": kwargs}
        name = self.metadata.get_name()
        return ToolOutput(content=f"{NO_ANSWER}: {error.message}", tool_name=name, raw_input=raw, raw_output=None)

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
