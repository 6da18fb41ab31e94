"""``SelfReflectRerank``: re-ranks the nodes of any retriever by what helps to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from llama_index.core.bridge.pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    field_serializer,
    model_validator,
)
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from pydantic import ModelWrapValidatorHandler

from llamaindex_selfreflect._events import dispatcher
from llamaindex_selfreflect._nodes import (
    annotate,
    distinct,
    own_text,
    passage_of,
    without_abstentions,
    without_class_name,
)
from llamaindex_selfreflect.llm import as_language_model
from shared_core.errors import InputError
from shared_core.facades.arguments import as_settings, check_count, in_words_of
from shared_core.facades.reranker import WITH_MODEL, RerankMethod, SelfReflectReranker
from shared_core.lm.base import LanguageModel
from shared_core.pipelines.rerank import Ranked
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder
from shared_core.settings import SelfReflectSettings
from shared_core.types import MetadataValue, Passage

_SHAPING = ("method", "settings", "model", "device")
"""Fields that the re-ranker is made of; the others are looked at when nodes are ranked."""


class SelfReflectRerank(BaseNodePostprocessor):
    """Returns the best nodes first, at most ``top_n``: copies whose metadata gives the reason for their rank.

    >>> from llama_index.core.schema import NodeWithScore, TextNode
    >>> texts = ("The sea is cold.", "The lamp of Vessen was lit in 1871.")
    >>> nodes = [NodeWithScore(node=TextNode(text=text)) for text in texts]
    >>> SelfReflectRerank(top_n=1).postprocess_nodes(nodes, query_str="When was the lamp lit?")[0].node.text
    'The lamp of Vessen was lit in 1871.'

    Metadata added (hidden from models and embeddings): ``selfreflect_reason``; ``selfreflect_probability`` that the
    node answers and ``selfreflect_quote``, its best sentence, if the method has them; with ``keep_retrieval_score`` the
    old score as ``retrieval_score``. Scores are comparable within one result only. Nodes that are
    our own abstentions (responses to sub-questions), and repetitions of a node, are left out.

    Fields can be set later; a value that cannot work is refused then, as on creation.

    Args:
        llm: an ``LLM`` of LlamaIndex, a backend of ``shared_core.lm`` or ``"settings"``; ``uncertainty`` and
            ``relevance`` use it.
        model: name or path of a transformers model, in place of ``llm``.
        top_n: nodes to return at most, at least 1.
        method: ``reading``: by the best quote that the embedded reader finds; ``critic``: by the probability that the
            node alone answers (neither needs a model); ``uncertainty``: by the model's certainty about its answer given
            each node (SeaKR), ``settings.seakr.samples`` samples each; ``relevance``: by the model's verdict on each
            node's relevance (Self-RAG), one token each.
        device: for ``model``: ``cpu``, ``cuda``, … or ``None`` for the best there is.
        keep_retrieval_score: put the score a node came with into its metadata.
        metadata_mode: metadata put before a node's text when it is judged.
        settings: ``settings.seakr`` says how to measure uncertainty.
        reader, judge, embedder: as for ``SelfReflectReranker``.
        callback_manager: of LlamaIndex; a query engine gives its own.

    Raises:
        InputError: top_n below 1, llm and model both given, or llm is no model.
        SettingsError: unknown method, or one that needs a model and there is none.
        ModelLoadError: there is no model of that name.
    """

    model_config = ConfigDict(protected_namespaces=())

    model: str | None = Field(default=None, description="Name or path of a transformers model.")
    top_n: int = Field(default=5, description="Nodes to return at most.")
    method: RerankMethod = Field(default="reading", description="What nodes are ranked by.")
    device: str | None = Field(default=None, description="Device of the model.")
    keep_retrieval_score: bool = Field(default=False, description="Keep the retrieval score in metadata.")
    metadata_mode: MetadataMode = Field(default=MetadataMode.EMBED, description="Metadata shown with the text.")
    settings: SelfReflectSettings | None = Field(default=None, description="Of the engine.")

    _make: partial[SelfReflectReranker] = PrivateAttr()
    _reranker: SelfReflectReranker = PrivateAttr()

    # LlamaIndex's own leave out what cannot be pickled, silently: a model or reader that was given would be lost.
    __getstate__ = BaseModel.__getstate__
    __setstate__ = BaseModel.__setstate__

    @model_validator(mode="wrap")
    @classmethod
    def _from_plain(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return handler(without_class_name(data))  # not "before": this one comes before the constructor is called

    def __init__(
        self,
        llm: object = None,
        model: str | None = None,
        top_n: int = 5,
        method: RerankMethod = "reading",
        device: str | None = None,
        keep_retrieval_score: bool = False,
        metadata_mode: MetadataMode = MetadataMode.EMBED,
        settings: SelfReflectSettings | Mapping[str, Any] | None = None,
        *,
        reader: Reader | None = None,
        judge: SupportScorer | None = None,
        embedder: Embedder | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        check_count("top_n", top_n)
        if llm is not None and model is not None:
            raise InputError("Both llm and model are given.", hint="Give one of them.")
        make = partial(_make, as_language_model(llm), reader=reader, judge=judge, embedder=embedder)
        own = None if settings is None else as_settings(settings)
        with in_words_of(self, lm="llm"):
            reranker = make(method=method, settings=own, model=model, device=device)
        super().__init__(
            callback_manager=callback_manager or CallbackManager([]),
            model=model,
            top_n=top_n,
            method=method,
            device=device,
            keep_retrieval_score=keep_retrieval_score,
            metadata_mode=metadata_mode,
            settings=own,
        )
        self._make, self._reranker = make, reranker

    def __setattr__(self, name: str, value: Any) -> None:
        (value,) = self._changed({name: value}).values()
        super().__setattr__(name, value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other fields; what cannot work is refused."""
        copied = super().model_copy(deep=deep)
        for name, value in copied._changed(update or {}).items():
            BaseNodePostprocessor.__setattr__(copied, name, value)
        return copied

    def _changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check new values of fields, and make the re-ranker anew where they shape it."""
        found = dict(values)
        if "top_n" in found:
            check_count("top_n", found["top_n"])
        if found.get("settings") is not None:
            found["settings"] = as_settings(found["settings"])
        shaping = {n: found[n] for n in _SHAPING if n in found and getattr(self, n) != found[n]}
        if shaping:
            with in_words_of(self, lm="llm"):
                self._reranker = self._make(**{n: getattr(self, n) for n in _SHAPING} | shaping)
        return found

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first query, raising what that would raise.

        An LLM is asked at most for its abilities (one token, for log-probabilities).
        """
        self._reranker.warm_up()
        return self

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "SelfReflectRerank"

    @field_serializer("settings")
    def _plain_settings(self, settings: SelfReflectSettings | None) -> dict[str, Any] | None:
        return None if settings is None else settings.model_dump(mode="json")

    @dispatcher.span
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = _required(query_bundle)
        if not (nodes := distinct(without_abstentions(nodes))):
            return []
        with self._told(nodes, query) as order:
            return order(self._reranker.rerank(query.query_str, self._passages(nodes)))

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = _required(query_bundle)
        if not (nodes := distinct(without_abstentions(nodes))):
            return []
        with self._told(nodes, query) as order:
            return order(await self._reranker.arerank(query.query_str, self._passages(nodes)))

    @contextmanager
    def _told(
        self, nodes: list[NodeWithScore], query: QueryBundle
    ) -> Iterator[Callable[[Sequence[Ranked]], list[NodeWithScore]]]:
        """Emit LlamaIndex's events around a re-ranking; yields the function that makes the nodes of its result."""
        name = self._reranker.model_name or f"selfreflect-{self.method}"
        dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=self.top_n, model_name=name))
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query.query_str,
            EventPayload.TOP_K: self.top_n,
        }
        best: list[NodeWithScore] = []

        def order(ranked: Sequence[Ranked]) -> list[NodeWithScore]:
            best.extend(self._order(nodes, ranked))
            event.on_end(payload={EventPayload.NODES: best})
            return best

        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield order
        dispatcher.event(ReRankEndEvent(nodes=best))

    def _passages(self, nodes: Sequence[NodeWithScore]) -> list[Passage]:
        """One for each node that has text, its id the node's place: nodes of one id stay apart."""
        texts = [(i, n, n.node.get_content(metadata_mode=self.metadata_mode)) for i, n in enumerate(nodes)]
        return [passage_of(n, str(i), text) for i, n, text in texts if own_text(n.node).strip()]

    def _order(self, nodes: Sequence[NodeWithScore], ranked: Sequence[Ranked]) -> list[NodeWithScore]:
        places = [int(r.passage.id) for r in ranked]
        best = [self._annotate(nodes[i], r.score, _notes(r)) for i, r in zip(places, ranked)]
        # Nodes without text (images) cannot be judged: last, in their order.
        floor = min((r.score for r in ranked), default=0.0)
        rest = [n for i, n in enumerate(nodes) if i not in set(places)]
        unread: dict[str, MetadataValue] = {"selfreflect_reason": "has no text to judge"}
        best += [self._annotate(n, floor - 1.0 - i, unread) for i, n in enumerate(rest)]
        return best[: self.top_n]

    def _annotate(self, node: NodeWithScore, score: float, notes: dict[str, MetadataValue]) -> NodeWithScore:
        kept: dict[str, MetadataValue] = {"retrieval_score": node.score} if self.keep_retrieval_score else {}
        return annotate(node, score, {**notes, **kept})


def _required(query: QueryBundle | None) -> QueryBundle:
    if query is None:
        raise InputError("Re-ranking needs the query.", hint="postprocess_nodes(nodes, query_str=…)")
    return query


def _notes(ranked: Ranked) -> dict[str, MetadataValue]:
    notes: dict[str, MetadataValue] = {"selfreflect_reason": ranked.reason}
    if ranked.probability is not None:
        notes["selfreflect_probability"] = ranked.probability
    if ranked.quote is not None:
        notes["selfreflect_quote"] = ranked.quote.text
    return notes


def _make(
    lm: LanguageModel | None,
    *,
    method: RerankMethod,
    settings: SelfReflectSettings | None,
    model: str | None,
    device: str | None,
    **parts: Any,
) -> SelfReflectReranker:
    """Make the re-ranker of these fields; a ``model`` is loaded only where the method asks one."""
    if model is not None and method in WITH_MODEL:
        from shared_core.lm.transformers import TransformersLM

        lm = TransformersLM(model, device=device)
    return SelfReflectReranker(lm, settings, method=method, **parts)
