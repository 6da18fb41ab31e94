"""``SelfReflectTool``: a query engine of ours as a tool of agents, whose abstentions are marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.tools import QueryEngineTool, ToolMetadata, ToolOutput

from llamaindex_selfreflect._response import NAMESPACE, SelfReflectResponse
from shared_core.errors import InputError, QuestionError
from shared_core.pipelines.decision.wording import NO_ANSWER, TOOL_DESCRIPTION, TOOL_NAME, tool_text


class _Marking(BaseQueryEngine):
    """A query engine whose abstentions begin with ``NO ANSWER`` and hold nothing that could be read as evidence."""

    def __init__(self, inner: BaseQueryEngine, nearest: bool) -> None:
        super().__init__(callback_manager=inner.callback_manager)
        self._inner, self._nearest = inner, nearest

    def query(self, str_or_query_bundle: QueryType) -> Any:
        """Answer a question."""
        return self._marked(self._inner.query(str_or_query_bundle))

    async def aquery(self, str_or_query_bundle: QueryType) -> Any:
        """``query`` without blocking the event loop."""
        return self._marked(await self._inner.aquery(str_or_query_bundle))

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The inner engine's."""
        return self._inner.retrieve(query_bundle)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> Any:
        """Answer from these nodes."""
        return self._marked(self._inner.synthesize(query_bundle, nodes, additional_source_nodes))

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> Any:
        """``synthesize`` without blocking the event loop."""
        return self._marked(await self._inner.asynthesize(query_bundle, nodes, additional_source_nodes))

    def _query(self, query_bundle: QueryBundle) -> Any:
        return self.query(query_bundle)

    async def _aquery(self, query_bundle: QueryBundle) -> Any:
        return await self.aquery(query_bundle)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self._inner}

    def _marked(self, response: Any) -> Any:
        if not isinstance(response, SelfReflectResponse) or response.answer is None or not response.abstained:
            return response
        text = tool_text(response.answer, nearest=self._nearest)
        if self._nearest:
            return SelfReflectResponse(text, response.source_nodes, response.metadata, response.answer)
        ours = {NAMESPACE: (response.metadata or {}).get(NAMESPACE)}
        return SelfReflectResponse(text, [], ours, response.answer)


class SelfReflectTool(QueryEngineTool):
    """A ``QueryEngineTool`` whose result begins with ``NO ANSWER`` where the engine abstains, and quotes nothing then.

    So does that of an empty question. Engines of LlamaIndex over several tools (``SubQuestionQueryEngine``,
    ``RouterQueryEngine``) ask ``query_engine``, which answers as the tool does: an abstention has no quotes and no
    nodes, so that none is written into an answer.

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

    @property
    def query_engine(self) -> BaseQueryEngine:
        """The query engine, with abstentions worded as the tool's result."""
        return _Marking(self._query_engine, self._nearest)

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
