"""Base classes of retrievers that rank ids first and read only the passages that are returned."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from shared_core.retrieval.base import Ranking, Where
from shared_core.retrieval.checks import collect_ids
from shared_core.support.pickling import Portable
from shared_core.types import Passage


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
