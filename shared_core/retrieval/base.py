"""Interfaces of retrievers and embedders."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from shared_core.retrieval.checks import collect_ids
from shared_core.support.pickling import Portable
from shared_core.types import MetadataValue, Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Where = Mapping[str, MetadataValue | Mapping[str, Any] | Sequence[Any]]
"""A metadata filter in Chroma's language: ``{"lang": "en"}``, ``{"year": {"$gte": 1990}}``, ``{"$and": [...]}``;
operators ``$eq $ne $gt $gte $lt $lte $in $nin`` and ``$and $or``."""

Ranking = list[tuple[str, float]]
"""Ids of passages with their scores, best first. A retriever may offer ``rank_many(queries, k, where)``, one ranking
a query, and ``get(ids)``: a hybrid then reads only those passages of several long lists that it returns."""


@runtime_checkable
class Retriever(Protocol):
    """Anything that finds passages for a query.

    >>> class Newest:
    ...     def __init__(self, passages):
    ...         self.passages = passages
    ...
    ...     def retrieve(self, query, k=5):
    ...         return [passage.with_score(1.0) for passage in self.passages[-k:]]
    >>> isinstance(Newest([]), Retriever)
    True
    """

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """Find the best passages, best first, at most ``k``, with ``Passage.score`` set."""
        ...


@runtime_checkable
class Index(Retriever, Protocol):
    """A retriever to which passages can be added.

    >>> from shared_core.retrieval import BM25Retriever
    >>> isinstance(BM25Retriever(), Index)
    True
    """

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages; a passage with a known id replaces the old one."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Anything that turns texts into unit vectors.

    >>> import numpy as np
    >>> class Lengths:
    ...     name = "lengths"
    ...
    ...     def embed(self, texts):
    ...         angles = np.array([len(text) for text in texts], np.float32)
    ...         return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> isinstance(Lengths(), Embedder)
    True
    """

    @property
    def name(self) -> str:
        """Model name; an index is bound to it."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts: (len(texts), d) float32, rows of unit norm."""
        ...


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """Vectors of one passage.

    Attributes:
        sentences: (n, d) float32, n ≥ 1, rows of unit norm. A query is compared with all, and the nearest counts.
        spans: half-open code points of each sentence in the passage's text; empty where unknown.
        whole: (d,) float32 of unit norm, for stores with one vector a passage.
    """

    sentences: NDArray[np.float32]
    spans: tuple[tuple[int, int], ...]
    whole: NDArray[np.float32]


@runtime_checkable
class PassageEmbedder(Embedder, Protocol):
    """An embedder that reads a passage's sentences in their context.

    Other embedders get each sentence and the whole passage as separate texts (``windows``).
    """

    def embed_passages(self, passages: Sequence[Passage]) -> Sequence[PassageVectors]:
        """Embed passages, in order, in the same space as ``embed``."""
        ...


class RankedRetriever(ABC):
    """A retriever made of ``rank_many`` and ``get``."""

    @abstractmethod
    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""

    @abstractmethod
    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages of these ids, in that order; unknown ids are left out."""

    def retrieve(self, query: str, k: int = 5, where: Where | None = None) -> list[Passage]:
        """Find the best passages, best first.

        Args:
            query: any text; an empty one finds nothing, nor does BM25 for one of stop words only.
            k: the most passages to return, ≥ 1; may exceed the number of passages.
            where: metadata filter in Chroma's language (``filters``).

        Returns:
            Passages with ``score`` set. BM25's is > 0 and unbounded; a dense retriever's is the cosine, in [-1, 1].

        Raises:
            InputError: k < 1, or an invalid filter.
            StoreError: the passages are stored elsewhere and could not be read.
        """
        return self.retrieve_many([query], k, where)[0]

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """Run ``retrieve`` for each query, searching for all of them together."""
        ranked = self.rank_many(queries, k, where)
        known = {p.id: p for p in self.get({i for found in ranked for i, _ in found})}
        return [[known[i].with_score(score) for i, score in found if i in known] for found in ranked]


class MemoryRetriever(RankedRetriever, Portable):
    """A retriever that holds its passages in memory.

    ``_passages`` is replaced, never changed, so readers need no lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passages: dict[str, Passage] = {}

    def __len__(self) -> int:
        return len(self._passages)

    def ids(self) -> list[str]:
        """Ids of all passages, in the order in which they were added."""
        return list(self._passages)

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages of these ids, in that order; unknown ids are left out."""
        known = self._passages
        return [known[i] for i in collect_ids(ids) if i in known]
