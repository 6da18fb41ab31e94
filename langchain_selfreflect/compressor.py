"""``SelfReflectCompressor`` re-ranks anybody's documents; ``CompressionRetriever`` is a retriever with it behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_selfreflect._caller import Caller, calling
from langchain_selfreflect._fields import (
    AnyModel,
    Count,
    Logprobs,
    Made,
    Method,
    OurEmbedder,
    OurJudge,
    OurReader,
    ReflectSettings,
    Strict,
)
from langchain_selfreflect._retrieval import takes_k, usual_k
from langchain_selfreflect.documents import annotate, to_passages
from langchain_selfreflect.lm import as_language_model
from langchain_selfreflect.retriever import rank_notes
from shared_core.facades.arguments import check_count, in_words_of
from shared_core.facades.reranker import SelfReflectReranker
from shared_core.pipelines.rerank import Ranked
from shared_core.settings import SelfReflectSettings


class SelfReflectCompressor(Strict, BaseDocumentCompressor):
    """Keeps the ``top_n`` documents that help most to answer.

    >>> from langchain_core.documents import Document
    >>> shelf = [Document("The sea is cold."), Document("The lamp of Vessen was lit in 1871.")]
    >>> SelfReflectCompressor(top_n=1).compress_documents(shelf, "When was the lamp lit?")[0].page_content
    'The lamp of Vessen was lit in 1871.'

    ``method="reading"`` ranks by the best sentence that the embedded reader finds (no model needed),
    ``method="uncertainty"`` by the model's certainty about its answer given each document (SeaKR; needs ``llm``),
    ``method="relevance"`` by the model's verdict on each document's relevance (Self-RAG; needs ``llm``).

    Documents are copied; metadata gets ``relevance_score`` (higher is better; comparable within one call only),
    ``selfreflect_reason`` and, if the method has them, ``selfreflect_probability`` and
    ``selfreflect_best_sentence``. Duplicates are removed.

    Raises:
        SettingsError: an argument is unknown or wrong, or the method needs an ``llm``; on creation.
        InputError: ``llm`` is not a language model; on creation.
        QuestionError: the query is empty; when asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    method: Method = Field(default="reading", description="Ranking method.")
    llm: AnyModel | None = Field(default=None, description="A LangChain chat model, one of our backends, or none.")
    top_n: Count | None = Field(default=3, description="Documents to keep; None keeps all, in their new order.")
    settings: ReflectSettings = Field(default_factory=SelfReflectSettings)
    logprobs: Logprobs = Field(default="auto", description="See LangChainLM.")
    reader: OurReader | None = Field(
        default=None, description="An extractive reader of ours instead of the shipped one."
    )
    judge: OurJudge | None = Field(default=None, description="Compares meanings for estimators that need it.")
    embedder: OurEmbedder | None = Field(default=None, description="An embedder of ours instead of the shipped one.")

    _made: Made[SelfReflectReranker] = PrivateAttr(default_factory=Made)

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a configuration that cannot work, without calling a model."""
        self._make(probe=False)

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first query, raising what that would raise."""
        with in_words_of(self, lm="llm"):
            self._made.get(self, self._make).warm_up()
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return the best documents, best first."""
        with in_words_of(self, lm="llm"), calling(_caller(callbacks)) as caller:
            passages = to_passages(documents, caller.documents)
            ranked = self._made.get(self, self._make).rerank(query, passages, self.top_n)
        return _documents(ranked, caller)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """``compress_documents`` without blocking the event loop."""
        with in_words_of(self, lm="llm"), calling(_caller(callbacks)) as caller:
            passages = to_passages(documents, caller.documents)
            reranker = await self._made.aget(self, self._make)
            ranked = await reranker.arerank(query, passages, self.top_n)
        return _documents(ranked, caller)

    def _make(self, *, probe: bool = True) -> SelfReflectReranker:
        with in_words_of(self, lm="llm"):
            if self.top_n is not None:
                check_count("top_n", self.top_n)
            return SelfReflectReranker(
                as_language_model(self.llm, logprobs=self.logprobs if probe else False),
                self.settings,
                method=self.method,
                reader=self.reader,
                judge=self.judge,
                embedder=self.embedder,
            )


def _caller(callbacks: Callbacks | None) -> Caller:
    return Caller() if callbacks is None else Caller(RunnableConfig(callbacks=callbacks))


def _documents(ranked: Sequence[Ranked], caller: Caller) -> list[Document]:
    return [
        annotate(caller.documents[r.passage.id], selfreflect_reason=r.reason, **rank_notes(r)) for r in ranked
    ]  # fmt: skip


class CompressionRetriever(Strict, BaseRetriever):
    """A retriever followed by a compressor, for apps without ``langchain_classic``.

    >>> from langchain_selfreflect import SelfReflectRetriever
    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871.")
    >>> shelf = SelfReflectRetriever(retriever=BM25Retriever([lamp]))
    >>> best = CompressionRetriever(base_retriever=shelf, base_compressor=SelfReflectCompressor(top_n=1))
    >>> best.invoke("When was the lamp lit?")[0].id
    'lamp'

    Takes the two arguments of the ``ContextualCompressionRetriever`` there; any ``BaseDocumentCompressor`` will do.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    base_retriever: Runnable[str, list[Document]]
    base_compressor: BaseDocumentCompressor

    @property
    def k(self) -> int | None:
        """Maximum number of documents, if known."""
        found = getattr(self.base_compressor, "top_n", None)
        return found if isinstance(found, int) else usual_k(self.base_retriever)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config = RunnableConfig(callbacks=run_manager.get_child())
        found = self.base_retriever.invoke(query, config, **self._keywords(k))
        if not found:
            return []
        return list(self.base_compressor.compress_documents(found, query, callbacks=run_manager.get_child()))[:k]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config = RunnableConfig(callbacks=run_manager.get_child())
        found = await self.base_retriever.ainvoke(query, config, **self._keywords(k, is_async=True))
        if not found:
            return []
        kept = await self.base_compressor.acompress_documents(found, query, callbacks=run_manager.get_child())
        return list(kept)[:k]

    def _keywords(self, k: int | None, *, is_async: bool = False) -> dict[str, Any]:
        """Return more than ``k`` if the retriever returns more, so that the compressor can choose."""
        if k is None:
            return {}
        least = max(check_count("k", k), usual_k(self.base_retriever) or 1)
        return {"k": least} if takes_k(self.base_retriever, is_async=is_async) else {}
