"""``MiniLMEmbedding``: the embedder we ship, for LlamaIndex's indexes."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from shared_core.defaults import default_embedder
from shared_core.retrieval.base import Embedder


class MiniLMEmbedding(BaseEmbedding):
    """Vectors of 384 numbers from all-MiniLM-L6-v2, without a download (``shared_core.retrieval.embedding``).

    Args:
        embedder: another embedder of ours in its place.
        arguments: of ``BaseEmbedding`` (``embed_batch_size``, ``callback_manager``, …).
    """

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder | None = None, **arguments: Any) -> None:
        embedder = embedder if embedder is not None else default_embedder()
        super().__init__(**{"embed_batch_size": 64, **arguments, "model_name": embedder.name})
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
