"""``SelfReflectRetriever``: any retriever, asked only when needed, its documents re-ranked by what answers."""

from __future__ import annotations

from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_selfreflect import _events
from langchain_selfreflect._caller import Caller, calling
from langchain_selfreflect._fields import (
    AnyModel,
    AnyRetriever,
    Count,
    Gate,
    Logprobs,
    Made,
    Method,
    OurEmbedder,
    OurJudge,
    OurReader,
    ReflectSettings,
    Strict,
)
from langchain_selfreflect._retrieval import as_retriever, usual_k, with_usual_k
from langchain_selfreflect.documents import annotate, to_documents
from langchain_selfreflect.lm import as_language_model
from shared_core.facades.arguments import check_count, in_words_of
from shared_core.facades.assembly import has_default_models
from shared_core.facades.gated_retriever import GatedResult, GatedRetriever, usual_gate
from shared_core.facades.reranker import RerankMethod, SelfReflectReranker
from shared_core.pipelines.rerank import Ranked
from shared_core.settings import SelfReflectSettings


class SelfReflectRetriever(Strict, BaseRetriever):
    """Wraps a retriever with a gate (SeaKR, FLARE) and a re-ranker, both optional.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871.")
    >>> SelfReflectRetriever(retriever=BM25Retriever([lamp])).invoke("When was the lamp of Vessen lit?")[0].id
    'lamp'

    With an ``llm`` and a threshold for it (``selfreflect calibrate gate``, or ``seakr.threshold``) it retrieves only if
    the model is uncertain about its own answer; an empty list means that the model is certain. Without either it always
    retrieves, and ranks by the quotes that the embedded reader finds.

    Documents are copies whose metadata says why they were retrieved: ``selfreflect_gate``, ``selfreflect_reason``,
    ``selfreflect_uncertainty``, ``selfreflect_query``; with re-ranking also ``relevance_score``,
    ``selfreflect_rank_reason``, ``selfreflect_probability`` and ``selfreflect_best_sentence``. Decisions are dispatched
    as custom events, also for an empty list.

    Raises:
        SettingsError: an argument is unknown or wrong, or the gate or re-ranking needs an ``llm``; on creation.
        InputError: ``retriever`` cannot retrieve, or ``llm`` is not a language model; on creation.
        QuestionError: the query is empty; when asked.
        OptionError: ``k`` of a call is no whole number above 0; when asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: AnyRetriever = Field(
        description="A LangChain retriever (or runnable from text to documents), or one of ours."
    )
    gate: Gate | None = Field(
        default=None, description="When to retrieve; by default uncertainty with an llm, always without."
    )
    rerank: bool | Method | None = Field(
        default=None,
        description="Re-ranking method (True: reading); by default reading where the gate has not asked a model.",
    )
    k: Count | None = Field(
        default=None,
        description="Documents to return; by default ``settings.top_k`` if set, else the retriever's own number.",
    )
    llm: AnyModel | None = Field(default=None, description="A LangChain chat model, one of our backends, or none.")
    settings: ReflectSettings = Field(default_factory=SelfReflectSettings)
    logprobs: Logprobs = Field(default="auto", description="See LangChainLM.")
    reader: OurReader | None = Field(
        default=None, description="An extractive reader of ours instead of the shipped one."
    )
    judge: OurJudge | None = Field(default=None, description="Compares meanings for estimators that need it.")
    embedder: OurEmbedder | None = Field(default=None, description="An embedder of ours instead of the shipped one.")

    _made: Made[tuple[GatedRetriever, SelfReflectReranker | None]] = PrivateAttr(default_factory=Made)

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a configuration that cannot work, without calling a model."""
        self._make(probe=False)

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first query, raising what that would raise.

        Sends one query to the retriever, and may probe a chat model once for log-probabilities.
        """
        gated, reranker = self._made.get(self, self._make)
        with in_words_of(self, lm="llm"):
            gated.warm_up()
            if reranker is not None:
                reranker.warm_up()
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config = RunnableConfig(callbacks=run_manager.get_child())
        with in_words_of(self, lm="llm"), calling(Caller(config)) as caller:
            gated, reranker = self._made.get(self, self._make)
            found = gated.ask(query, self._to_fetch(k, reranker))
            for made in found.trace:
                _events.tell(made, config)
            ranked = reranker.rerank(query, found.passages) if reranker and self._ranks(found) else None
        return self._documents(found, ranked, k, caller)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config = RunnableConfig(callbacks=run_manager.get_child())
        with in_words_of(self, lm="llm"), calling(Caller(config)) as caller:
            gated, reranker = await self._made.aget(self, self._make)
            found = await gated.aask(query, self._to_fetch(k, reranker))
            for made in found.trace:
                await _events.atell(made, config)
            ranked = await reranker.arerank(query, found.passages) if reranker and self._ranks(found) else None
        return self._documents(found, ranked, k, caller)

    def _make(self, *, probe: bool = True) -> tuple[GatedRetriever, SelfReflectReranker | None]:
        with in_words_of(self, lm="llm"):
            if self.k is not None:
                check_count("k", self.k)
            lm = as_language_model(self.llm, logprobs=self.logprobs if probe else False)
            gated = GatedRetriever(
                as_retriever(self.retriever, self.settings),
                lm,
                self.settings,
                gate=self.gate or usual_gate(lm),
                judge=self.judge,
                embedder=self.embedder,
            )
            method = self._method()
            if method is None:
                return gated, None
            reranker = SelfReflectReranker(
                lm, self.settings, method=method, reader=self.reader, judge=self.judge, embedder=self.embedder
            )
            return gated, reranker

    def _method(self) -> RerankMethod | None:
        if self.rerank is None:  # a model of one's own works without the extra that the reader needs
            can_read = self.llm is None or self.reader is not None or has_default_models()
            return "reading" if can_read else None
        return "reading" if self.rerank is True else self.rerank or None

    def _ranks(self, found: GatedResult) -> bool:
        """Whether to re-rank: if asked to, else where the gate did nothing and a model would make this no better."""
        return bool(found.passages) and (self.rerank is not None or not found.measured)

    @property
    def usual_k(self) -> int:
        """Number of documents it returns at most, unless a call says otherwise."""
        return self._wanted(None)

    def _wanted(self, k: int | None) -> int:
        """Return the number of documents: of the call, this retriever, its settings or the inner retriever."""
        if k is not None:
            return check_count("k", k)
        return self.k or with_usual_k(self.settings, self.retriever).top_k

    def _to_fetch(self, k: int | None, reranker: object) -> int:
        """Return the number of documents to retrieve: more if they are re-ranked."""
        wanted = self._wanted(k)
        return max(wanted, usual_k(self.retriever) or self.settings.top_k) if reranker else wanted

    def _documents(
        self, found: GatedResult, ranked: list[Ranked] | None, k: int | None, caller: Caller
    ) -> list[Document]:
        if ranked is None:
            documents = to_documents(found.passages, caller.documents)
        else:
            documents = [
                annotate(d, selfreflect_rank_reason=r.reason, **rank_notes(r))
                for d, r in zip(to_documents((r.passage for r in ranked), caller.documents), ranked, strict=True)
            ]
        # What has no text (an image) cannot be judged: last, in its order.
        unread = [annotate(d) for d in caller.documents.values() if not d.page_content.strip()]
        return [*documents, *unread][: self._wanted(k)]


def rank_notes(ranked: Ranked) -> dict[str, Any]:
    """Convert a re-ranking result to metadata."""
    return {
        "relevance_score": ranked.score,
        "selfreflect_probability": ranked.probability,
        "selfreflect_best_sentence": ranked.quote.text if ranked.quote is not None else None,
    }
