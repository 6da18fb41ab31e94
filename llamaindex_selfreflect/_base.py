"""What both query engines share: one question through the engine, told of in LlamaIndex's ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from llama_index.core import Settings
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.utils import print_text

from llamaindex_selfreflect._events import SelfReflectAnswerEvent, SelfReflectDecisionEvent, dispatcher
from llamaindex_selfreflect._response import SelfReflectResponse, astream_response, respond, stream_response
from llamaindex_selfreflect._sources import GivenNodes, NodeSource, fit_settings, framework_retriever
from llamaindex_selfreflect.llm import as_language_model
from shared_core.engine import SelfReflectEngine
from shared_core.errors import InputError
from shared_core.lm.base import LanguageModel
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.settings import PipelineName, SelfReflectSettings
from shared_core.types import Answer, Decided, Event, Finished
from shared_core.uncertainty.calibration import Calibration

OnAbstain = Literal["say", "show", "raise", "fallback"]


class ReflectiveQueryEngine(BaseQueryEngine):
    """Base of the query engines; see ``SelfReflectQueryEngine`` for the arguments."""

    def __init__(
        self,
        retriever: BaseRetriever | Retriever,
        *,
        llm: object = None,
        settings: SelfReflectSettings | None = None,
        node_postprocessors: Sequence[BaseNodePostprocessor] | None = None,
        callback_manager: CallbackManager | None = None,
        streaming: bool = False,
        verbose: bool = False,
        target_accuracy: float | None = None,
        pipeline: PipelineName | None = None,
        on_abstain: OnAbstain | None = None,
        reader: Reader | None = None,
        judge: SupportScorer | None = None,
        embedder: Embedder | None = None,
        models: Mapping[str, object] | None = None,
        calibrations: Mapping[str, Calibration] | None = None,
    ) -> None:
        lm = as_language_model(llm)
        self.settings = self._settings(
            settings, lm, target_accuracy=target_accuracy, pipeline=pipeline, on_abstain=on_abstain
        )
        self.streaming = streaming
        self.verbose = verbose
        self._retriever = framework_retriever(retriever, self.settings)
        self._node_postprocessors = list(node_postprocessors or [])
        manager = callback_manager or Settings.callback_manager
        for postprocessor in self._node_postprocessors:
            postprocessor.callback_manager = manager
        super().__init__(callback_manager=manager)
        # Models, reader and calibrations are put together once; each question gets an engine over its own source.
        self._shared = SelfReflectEngine(
            self._source(None),
            lm,
            fit_settings(self.settings, self._retriever),
            reader=reader,
            judge=judge,
            embedder=embedder,
            models={role: as_language_model(model) for role, model in (models or {}).items()},  # type: ignore[misc]
            calibrations=calibrations,
        )

    def _settings(
        self, settings: SelfReflectSettings | None, lm: LanguageModel | None, **shortcuts: Any
    ) -> SelfReflectSettings:
        if settings is not None and not isinstance(settings, SelfReflectSettings):
            raise InputError(f"settings must be SelfReflectSettings, not {type(settings).__name__}.")
        given = {name: value for name, value in shortcuts.items() if value is not None}
        return (settings if settings is not None else SelfReflectSettings()).replace(**given)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}  # the engine's prompts are parts of its formats, not templates

    # --- LlamaIndex's doors ------------------------------------------------------------------------------------

    @property
    def retriever(self) -> BaseRetriever:
        """The retriever."""
        return self._retriever

    def with_retriever(self, retriever: BaseRetriever | Retriever) -> Self:
        """The same query engine over another retriever."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._retriever = framework_retriever(retriever, self.settings)
        return copy

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What the retriever finds and the postprocessors leave."""
        bundle = _bundle(query_bundle)
        return self._source(bundle).nodes(bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """``retrieve`` without blocking the event loop."""
        bundle = _bundle(query_bundle)
        return await self._source(bundle).anodes(bundle)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """Answer from these nodes, all of which are read; no retrieval."""
        source = GivenNodes(nodes, self._split)
        answer = self._ask(self._engine(source, width=len(source)), _bundle(query_bundle).query_str)
        return self._wrap(respond(answer, source.book, additional_source_nodes or ()))

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """``synthesize`` without blocking the event loop."""
        source = GivenNodes(nodes, self._split)
        answer = await self._aask(self._engine(source, width=len(source)), _bundle(query_bundle).query_str)
        return self._awrap(respond(answer, source.book, additional_source_nodes or ()))

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self.callback_manager.event(
            CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}
        ) as event:
            source = self._source(query_bundle)
            answer = self._ask(self._engine(source), query_bundle.query_str)
            response = self._wrap(respond(answer, source.book))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self.callback_manager.event(
            CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}
        ) as event:
            source = self._source(query_bundle)
            answer = await self._aask(self._engine(source), query_bundle.query_str)
            response = self._awrap(respond(answer, source.book))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    # --- one question ------------------------------------------------------------------------------------------

    def _split(self, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        """The nodes to read, from those retrieved."""
        return nodes

    def _source(self, bundle: QueryBundle | None) -> NodeSource:
        return NodeSource(
            self._retriever,
            self._node_postprocessors,
            bundle=bundle,
            split=self._split,
            callback_manager=self.callback_manager,
        )

    def _engine(self, source: NodeSource | GivenNodes, *, width: int | None = None) -> SelfReflectEngine:
        """An engine for one question: its passages' nodes are in ``source``. Models are shared with the others."""
        settings = fit_settings(self.settings, self._retriever)
        if width is not None:
            settings = settings.replace(top_k=max(1, width))
        return self._shared.over(source, settings)

    def _ask(self, engine: SelfReflectEngine, question: str) -> Answer:
        answer: Answer | None = None
        for event in engine.stream(question):
            answer = self._tell(event) or answer
        return _require_answer(answer)

    async def _aask(self, engine: SelfReflectEngine, question: str) -> Answer:
        answer: Answer | None = None
        async for event in engine.astream(question):
            answer = self._tell(event) or answer
        return _require_answer(answer)

    def _tell(self, event: Event) -> Answer | None:
        """Tell LlamaIndex of a decision or the answer; return the answer."""
        if isinstance(event, Decided):
            decision = event.decision
            dispatcher.event(SelfReflectDecisionEvent.of(decision))
            if self.verbose:
                reason = f" ({decision.reason})" if decision.reason else ""
                print_text(f"{decision.kind}: {decision.outcome}{reason}\n", color="llama_blue")
        if not isinstance(event, Finished):
            return None
        dispatcher.event(SelfReflectAnswerEvent.of(event.answer))
        return event.answer

    def _wrap(self, whole: SelfReflectResponse) -> RESPONSE_TYPE:
        return stream_response(whole) if self.streaming else whole

    def _awrap(self, whole: SelfReflectResponse) -> RESPONSE_TYPE:
        return astream_response(whole) if self.streaming else whole


def _bundle(query: QueryBundle | str) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query


def _require_answer(answer: Answer | None) -> Answer:
    assert answer is not None, "the engine's stream ends with Finished"
    return answer


def refuse_template(**given: object) -> None:
    """InputError for the first of the arguments that stands for a response synthesizer of LlamaIndex."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(
                f"{name} has no effect here: the engine writes its answers itself, claim by claim from quotes.",
                hint=f"Leave {name} out; choose how answers are written with pipeline=… or settings=….",
            )
