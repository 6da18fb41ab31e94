"""Base class of both query engines: runs one question and emits LlamaIndex events."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Self, Unpack

from llama_index.core import Settings
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.utils import print_text

from llamaindex_selfreflect._events import SelfReflectAnswerEvent, SelfReflectDecisionEvent, dispatcher
from llamaindex_selfreflect._options import CallOptions, EngineOptions, require_known, spells_out
from llamaindex_selfreflect._question import Question, as_bundle, asked_of, condensing
from llamaindex_selfreflect._response import (
    SelfReflectAsyncStreamingResponse,
    SelfReflectResponse,
    SelfReflectStreamingResponse,
    respond,
)
from llamaindex_selfreflect._sources import GivenNodes, NodeSource, Split, fit_settings, framework_retriever, narrowed
from llamaindex_selfreflect.llm import as_language_model
from shared_core.conversation.turns import Asked
from shared_core.errors import InputError, SettingsError
from shared_core.facades.arguments import READ_ALL, as_settings, in_words_of, set_shortcuts
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import LanguageModel
from shared_core.pipelines.decision.wording import rename_markers
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.support.threads import in_thread
from shared_core.types import Answer, Decided, Decision, Event, Finished


class ReflectiveQueryEngine(BaseQueryEngine):
    """Base of the query engines; see ``SelfReflectQueryEngine`` for the arguments."""

    @spells_out(EngineOptions)
    def __init__(self, retriever: BaseRetriever | Retriever, **options: Unpack[EngineOptions]) -> None:
        require_known(options, type(self).__name__, "retriever")
        with in_words_of(self, lm="llm"):
            lm = as_language_model(options.get("llm"))
            self.settings = self._fit(set_shortcuts(as_settings(options.get("settings")), options), lm)
            self._condense, self._condense_prompt = condensing(options.get("condense"), lm)
            self.streaming = options.get("streaming", False)
            self.verbose = options.get("verbose", False)
            self.markers = options.get("markers") or "numbers"
            if self.markers not in ("numbers", "ids"):
                raise SettingsError(f"There are no markers={self.markers!r}.", hint="There are: numbers, ids.")
            self._retriever = framework_retriever(retriever, self.settings)
            self._node_postprocessors = _postprocessors(options.get("node_postprocessors"))
            manager = options.get("callback_manager") or Settings.callback_manager
            for postprocessor in self._node_postprocessors:
                postprocessor.callback_manager = manager
            super().__init__(callback_manager=manager)
            others = {role: as_language_model(model) for role, model in (options.get("models") or {}).items()}
            # Models, reader and calibrations are assembled once; each question gets an engine over its own source.
            self._shared = SelfReflectEngine(
                self._source(None),
                lm,
                fit_settings(self.settings, self._retriever),
                reader=options.get("reader"),
                judge=options.get("judge"),
                embedder=options.get("embedder"),
                models={role: model for role, model in others.items() if model is not None},
                calibrations=options.get("calibrations"),
            )

    def _fit(self, settings: SelfReflectSettings, lm: LanguageModel | None) -> SelfReflectSettings:
        """Replace settings that the user left alone by this engine's own defaults."""
        return settings

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first question, raising what that would raise.

        Sends one query to the retriever, and asks an LLM at most for its abilities (one token, for log-probabilities).
        Returns the query engine.
        """
        self._engine(self._source(None)).warm_up()
        return self

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}  # the engine's prompts are parts of its formats, not templates

    def _update_prompts(self, prompts: PromptDictType) -> None:
        refuse_template(**prompts)

    # --- LlamaIndex's interface ------------------------------------------------------------------------------------

    @property
    def engine(self) -> SelfReflectEngine:
        """The engine that answers, over this query engine's retriever: to calibrate it, or to measure its model."""
        return self._engine(self._source(None))

    @property
    def retriever(self) -> BaseRetriever:
        """The retriever."""
        return self._retriever

    def with_retriever(self, retriever: BaseRetriever | Retriever) -> Self:
        """Return the same query engine over another retriever."""
        return self._copy(_retriever=framework_retriever(retriever, self.settings))

    @spells_out(CallOptions)
    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Return the same query engine with other settings: for one call, one tool, one user.

        ``top_k`` is the number of nodes that are read, of those that a retriever of LlamaIndex finds. ``where`` reaches
        retrievers of ours; filters of others belong to the retriever.

        Raises:
            ArgumentError, SettingsError: an option is unknown or out of range.
            OptionError: ``where`` with a retriever of LlamaIndex.
        """
        require_known(options, f"{type(self).__name__}.with_options", listed=CallOptions)
        given = {name: value for name, value in options.items() if value is not None}
        with in_words_of(self, lm="llm"):
            return self._copy(settings=self.settings.replace(**given), _retriever=narrowed(self._retriever, given))

    def _copy(self, **changes: object) -> Self:
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__ | changes)
        return copy

    def retrieve(self, query_bundle: Question) -> list[NodeWithScore]:
        """Retrieve nodes and apply the postprocessors."""
        bundle = as_bundle(query_bundle)
        return self._source(bundle).nodes(bundle)

    async def aretrieve(self, query_bundle: Question) -> list[NodeWithScore]:
        """``retrieve`` without blocking the event loop."""
        bundle = as_bundle(query_bundle)
        return await self._source(bundle).anodes(bundle)

    def query(self, str_or_query_bundle: Question, **options: Unpack[CallOptions]) -> SelfReflectResponse:
        """Answer a question: a text, a ``QueryBundle``, a message, or a conversation (``{"messages": […]}`` too).

        The question of a conversation is the user's last message, and those before it are its history: a follow-up is
        made a full question, or declined (docs/conversation.md). ``options`` hold for this call (``with_options``).

        Raises:
            QuestionError: the input contains no question.
            AbstainedError: the engine abstains and ``on_abstain="raise"``.
        """
        if options:
            return self.with_options(**options).query(str_or_query_bundle)
        bundle = as_bundle(str_or_query_bundle)
        dispatcher.event(QueryStartEvent(query=bundle))
        with self.callback_manager.as_trace("query"):
            response = self._query(bundle)
        dispatcher.event(QueryEndEvent(query=bundle, response=response))
        return response

    async def aquery(self, str_or_query_bundle: Question, **options: Unpack[CallOptions]) -> SelfReflectResponse:
        """``query`` without blocking the event loop."""
        if options:
            return await self.with_options(**options).aquery(str_or_query_bundle)
        bundle = as_bundle(str_or_query_bundle)
        dispatcher.event(QueryStartEvent(query=bundle))
        with self.callback_manager.as_trace("query"):
            response = await self._aquery(bundle)
        dispatcher.event(QueryEndEvent(query=bundle, response=response))
        return response

    def synthesize(
        self,
        query_bundle: Question,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> SelfReflectResponse:
        """Answer from these nodes without retrieval.

        All nodes are read. With a calibration, which was fitted for ``top_k`` passages, only the best ``top_k`` nodes
        are read, and the trace says so.
        """
        source = GivenNodes(nodes, self._splitter())
        answer = self._ask(source, as_bundle(query_bundle))
        return self._wrap(respond(answer, source.book, additional_source_nodes or ()))

    async def asynthesize(
        self,
        query_bundle: Question,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> SelfReflectResponse:
        """``synthesize`` without blocking the event loop."""
        source = GivenNodes(nodes, self._splitter())
        answer = await self._aask(source, as_bundle(query_bundle))
        return self._awrap(respond(answer, source.book, additional_source_nodes or ()))

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> SelfReflectResponse:
        with self.callback_manager.event(
            CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}
        ) as event:
            source = self._source(query_bundle)
            answer = self._ask(source, query_bundle)
            response = self._wrap(respond(answer, source.book))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> SelfReflectResponse:
        with self.callback_manager.event(
            CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}
        ) as event:
            source = self._source(query_bundle)
            answer = await self._aask(source, query_bundle)
            response = self._awrap(respond(answer, source.book))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    # --- one question ------------------------------------------------------------------------------------------

    def _splitter(self) -> Split | None:
        """Return the function that splits retrieved nodes, if any."""
        return None

    def _source(self, bundle: QueryBundle | None) -> NodeSource:
        return NodeSource(
            self._retriever,
            self._node_postprocessors,
            bundle=bundle,
            split=self._splitter(),
            callback_manager=self.callback_manager,
        )

    def _engine(self, source: NodeSource | GivenNodes) -> SelfReflectEngine:
        """Create the engine of one question, over ``source``; models are shared."""
        settings = fit_settings(self.settings, self._retriever)
        calibrated = bool(self._shared.context.every_calibration)
        if isinstance(source, GivenNodes) and not calibrated:
            settings = settings.replace(top_k=max(1, len(source)))
        elif isinstance(source, NodeSource) and not calibrated and self._node_postprocessors:
            # They may add nodes to those that the retriever was asked for (PrevNextNodePostprocessor).
            settings = settings if "top_k" in self.settings.model_fields_set else settings.replace(top_k=READ_ALL)
        elif isinstance(source, GivenNodes) and len(source) > settings.top_k:
            left = f"the calibration holds for top_k={settings.top_k}"
            source.notes.append(Decision("nodes", f"the best {settings.top_k} of {len(source)} read", left, {}))
        return self._shared.over(source, settings)

    def _asked(self, bundle: QueryBundle) -> Asked:
        return dataclasses.replace(asked_of(bundle), condense=self._condense, prompt=self._condense_prompt)

    def _ask(self, source: NodeSource | GivenNodes, bundle: QueryBundle) -> Answer:
        asked = self._asked(bundle)
        answer: Answer | None = None
        with in_words_of(self, lm="llm"):
            self._tell_all([asked.note])
            for event in self._engine(source).stream(asked):
                answer = self._tell(event) or answer
        return self._finish(answer, asked, source)

    async def _aask(self, source: NodeSource | GivenNodes, bundle: QueryBundle) -> Answer:
        asked = self._asked(bundle)
        answer: Answer | None = None
        with in_words_of(self, lm="llm"):
            self._tell_all([asked.note])
            engine = await in_thread(self._engine, source)  # it may read the weights of a model
            async for event in engine.astream(asked):
                answer = self._tell(event) or answer
        return self._finish(answer, asked, source)

    def _finish(self, answer: Answer | None, asked: Asked, source: NodeSource | GivenNodes) -> Answer:
        """Put the plug-in's own notes at the head of the answer's trace."""
        assert answer is not None, "the engine's stream ends with Finished"
        self._tell_all(source.notes)
        answer = asked.tell(dataclasses.replace(answer, trace=(*source.notes, *answer.trace)))
        if self.markers == "ids":
            answer = rename_markers(
                answer, lambda span: f"{source.book.node(span.passage_id).node.node_id}:{span.start}"
            )
        dispatcher.event(SelfReflectAnswerEvent.of(answer))
        return answer

    def _tell_all(self, notes: Sequence[Decision | None]) -> None:
        for note in notes:
            if note is not None:
                self._tell(Decided(note))

    def _tell(self, event: Event) -> Answer | None:
        """Emit a decision as an event; return the answer of the last event."""
        if isinstance(event, Decided):
            decision = event.decision
            dispatcher.event(SelfReflectDecisionEvent.of(decision))
            if self.verbose:
                reason = f" ({decision.reason})" if decision.reason else ""
                print_text(f"{decision.kind}: {decision.outcome}{reason}\n", color="llama_blue")
        return event.answer if isinstance(event, Finished) else None

    def _wrap(self, whole: SelfReflectResponse) -> SelfReflectResponse:
        return SelfReflectStreamingResponse(whole) if self.streaming else whole

    def _awrap(self, whole: SelfReflectResponse) -> SelfReflectResponse:
        return SelfReflectAsyncStreamingResponse(whole) if self.streaming else whole


def _postprocessors(given: object) -> list[BaseNodePostprocessor]:
    """Return the postprocessors as a list; InputError if it is no list of them."""
    if given is None:
        return []
    # A single one iterates, too: over its fields.
    found: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    if not isinstance(given, Iterable) or not all(callable(getattr(p, "postprocess_nodes", None)) for p in found):
        kinds = [type(p).__name__ for p in found] if isinstance(given, (list, tuple)) else type(given).__name__
        raise InputError(
            f"node_postprocessors must be a list of node postprocessors of LlamaIndex, not {kinds}.",
            hint="node_postprocessors=[SelfReflectRerank(…)], for example.",
        )
    # It hides the best nodes in the middle and at the end for the sake of long prompts; passages are read best first.
    return [p for p in found if not isinstance(p, LongContextReorder)]


def refuse_template(**given: object) -> None:
    """Raise InputError for the first given argument that configures a response synthesizer of LlamaIndex."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(
                f"{name} has no effect here: the engine writes its answers itself, claim by claim from quotes.",
                hint=f"Leave {name} out; say how claims are to be worded with style=….",
            )
