"""``SelfReflectRetriever``: retrieves only if the model is uncertain about its own answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle

from llamaindex_selfreflect._events import SelfReflectDecisionEvent, dispatcher
from llamaindex_selfreflect._nodes import annotate
from llamaindex_selfreflect._sources import NodeSource, fit_settings, framework_retriever
from llamaindex_selfreflect.llm import as_language_model
from llamaindex_selfreflect.postprocessor import SelfReflectRerank
from shared_core.errors import InputError
from shared_core.facades.arguments import as_settings, in_words_of
from shared_core.facades.assembly import has_default_models
from shared_core.facades.gated_retriever import GatedResult, GatedRetriever, usual_gate
from shared_core.reading.base import SupportScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.settings import GateName, SelfReflectSettings
from shared_core.types import Decision


class SelfReflectRetriever(BaseRetriever):
    """Any retriever behind a gate (SeaKR, FLARE): if the model knows, no nodes are returned.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> shelf = BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")])
    >>> [node.node.text for node in SelfReflectRetriever(shelf).retrieve("lamp of Vessen")]
    ['The lamp of Vessen was lit in 1871.']

    An empty result then means "not needed", not "nothing found": ``last_decision`` (of the latest call; for concurrent
    ones listen to ``SelfReflectDecisionEvent``) says which. Nodes are copies whose metadata says why they were
    retrieved: ``selfreflect_gate``, ``selfreflect_reason``, ``selfreflect_uncertainty``, ``selfreflect_query``.

    The gate needs a threshold for the model (``selfreflect calibrate gate``, or ``seakr.threshold``). Without one, or
    without a model, it always retrieves; nodes then are ranked by the quotes that the embedded reader finds.

    Args:
        retriever: of LlamaIndex, or one of ``shared_core.retrieval``.
        llm: an ``LLM`` of LlamaIndex, a backend of ``shared_core.lm`` or ``"settings"``; not needed for ``always``.
        gate: ``uncertainty``, ``flare``, ``dragin`` or ``always``; see ``shared_core.GatedRetriever``.
            Not given, ``uncertainty`` with an ``llm`` and ``always`` without.
        settings: ``settings.seakr`` configures the estimator; ``settings.calibration`` may contain the threshold.
        rerank: applied to the retrieved nodes; ``True`` by reading, ``False`` never; by default by reading where the
            gate has not asked a model.
        judge, embedder: for estimators that compare meanings.
        callback_manager: ``Settings.callback_manager`` by default.
        verbose: as for every retriever of LlamaIndex.

    Raises:
        InputError: ``retriever`` cannot retrieve, or ``llm`` is not a language model.
        SettingsError: unknown gate, or one that needs a model and there is none.
    """

    def __init__(
        self,
        retriever: BaseRetriever | Retriever,
        *,
        llm: object = None,
        gate: GateName | None = None,
        settings: SelfReflectSettings | Mapping[str, Any] | None = None,
        rerank: SelfReflectRerank | bool | None = None,
        judge: SupportScorer | None = None,
        embedder: Embedder | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        if rerank is not None and not isinstance(rerank, (SelfReflectRerank, bool)):
            raise InputError(f"rerank must be a SelfReflectRerank, True or False, not {type(rerank).__name__}.")
        with in_words_of(self, lm="llm"):
            lm = as_language_model(llm)
            given = as_settings(settings)
            self._retriever = framework_retriever(retriever, given)
            self.last_result: GatedResult | None = None
            # Model and calibrations are put together once; each query gets a gate over its own source.
            self._shared = GatedRetriever(
                self._source(None),
                lm,
                fit_settings(given, self._retriever),
                gate=usual_gate(lm) if gate is None else gate,
                judge=judge,
                embedder=embedder,
            )
            if rerank is None and not has_default_models():
                rerank = False  # gates work without the extra that the reader needs
            made = rerank if isinstance(rerank, SelfReflectRerank) else SelfReflectRerank(top_n=self.settings.top_k)
            self.rerank = None if rerank is False else made
            self._ranks_always = rerank is not None
        super().__init__(callback_manager=callback_manager or Settings.callback_manager, verbose=verbose)

    # What the gate is made of can be read, not set: another gate is another retriever.

    @property
    def retriever(self) -> BaseRetriever:
        """The retriever behind the gate."""
        return self._retriever

    @property
    def settings(self) -> SelfReflectSettings:
        """The settings, with the retriever's own number of nodes unless ``top_k`` was set."""
        return self._shared.settings

    @property
    def gate(self) -> GateName:
        """Name of the gate."""
        return self._shared.gate

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first query, raising what that would raise.

        Sends one query to the retriever, and asks an LLM at most for its abilities (one token, for log-probabilities).
        """
        self._shared.over(self._source(None)).warm_up()
        if self.rerank is not None:
            self.rerank.warm_up()
        return self

    @property
    def last_decision(self) -> Decision | None:
        """The gate's decision at the latest call; ``None`` before the first call and with ``always``."""
        trace = self.last_result.trace if self.last_result is not None else ()
        return next((d for d in trace if d.kind == "gate"), None)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        source = self._source(query_bundle)
        with in_words_of(self, lm="llm"):
            result = self._shared.over(source).ask(query_bundle.query_str, self.settings.top_k)
        nodes, rerank = self._nodes(result, source), self._rerank_of(result)
        return nodes if rerank is None else rerank.postprocess_nodes(nodes, query_bundle)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        source = self._source(query_bundle)
        with in_words_of(self, lm="llm"):
            result = await self._shared.over(source).aask(query_bundle.query_str, self.settings.top_k)
        nodes, rerank = self._nodes(result, source), self._rerank_of(result)
        return nodes if rerank is None else await rerank.apostprocess_nodes(nodes, query_bundle)

    def _rerank_of(self, result: GatedResult) -> SelfReflectRerank | None:
        """Return what ranks a result: by default nothing where the gate asked the model."""
        return self.rerank if self._ranks_always or not result.measured else None

    def _source(self, bundle: QueryBundle | None) -> NodeSource:
        return NodeSource(self._retriever, bundle=bundle)

    def _nodes(self, result: GatedResult, source: NodeSource) -> list[NodeWithScore]:
        self.last_result = result
        for decision in result.trace:
            dispatcher.event(SelfReflectDecisionEvent.of(decision))
        found = [
            annotate(
                source.book.node(p.id), p.score, {k: v for k, v in p.metadata.items() if k.startswith("selfreflect_")}
            )
            for p in result.passages
        ]
        unread = [annotate(node, node.score, {}) for node in source.book.unread.values()]
        return [*found, *unread][: self.settings.top_k]
