"""``MiniLMEmbedding``: the embedder we ship, for LlamaIndex's indexes."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import BaseModel, PrivateAttr, model_validator
from llama_index.core.callbacks import CallbackManager
from llama_index.core.storage.kvstore.types import BaseKVStore
from pydantic import ModelWrapValidatorHandler

from llamaindex_selfreflect._nodes import without_class_name
from shared_core.facades.assembly import default_embedder
from shared_core.retrieval.base import Embedder


class MiniLMEmbedding(BaseEmbedding):
    """Embeddings of 384 dimensions by all-MiniLM-L6-v2, without a download (``shared_core.retrieval.embedding``).

    >>> len(MiniLMEmbedding().get_text_embedding("lamp"))
    384

    Args:
        embedder: another embedder of ours.
        embed_batch_size: texts per batch, at least 1.
        callback_manager: of LlamaIndex.
        num_workers: of LlamaIndex, for async calls.
        embeddings_cache: a key-value store of LlamaIndex that keeps vectors.
        model_name: of serialised objects; the embedder's own name holds.
    """

    _embedder: Embedder = PrivateAttr()

    # LlamaIndex's own leave out what cannot be pickled, silently: an embedder that was given would be lost.
    __getstate__ = BaseModel.__getstate__
    __setstate__ = BaseModel.__setstate__

    @model_validator(mode="wrap")
    @classmethod
    def _from_plain(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return handler(without_class_name(data))  # not "before": this one comes before the constructor is called

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        embed_batch_size: int = 64,
        callback_manager: CallbackManager | None = None,
        num_workers: int | None = None,
        embeddings_cache: BaseKVStore | None = None,
        model_name: str | None = None,
    ) -> None:
        embedder = embedder if embedder is not None else default_embedder()
        super().__init__(
            model_name=embedder.name,
            embed_batch_size=embed_batch_size,
            callback_manager=callback_manager or CallbackManager([]),
            num_workers=num_workers,
            embeddings_cache=embeddings_cache,
        )
        self._embedder = embedder

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "MiniLMEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed(texts).tolist()
        return vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embeddings([query])[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._aget_text_embeddings([query]))[0]
