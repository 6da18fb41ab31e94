"""The embedder that comes with the ``offline`` extra, for LangChain's vector stores."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from shared_core.facades.assembly import default_embedder
from shared_core.retrieval.base import Embedder


class MiniLMEmbeddings(Embeddings):
    """all-MiniLM-L6-v2 from the hub's cache or the package of the ``offline`` extra: no server, no key.

    >>> len(MiniLMEmbeddings().embed_query("lamp"))
    384

    Args:
        embedder: another embedder of ours.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder: Embedder = embedder if embedder is not None else default_embedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a unit vector (384 values) per text."""
        if not texts:
            return []
        rows: list[list[float]] = self._embedder.embed(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of a query."""
        return self.embed_documents([text])[0]
