"""The two retrievers over an index of files, reading from its manifest: what they hold in memory is the vectors."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shared_core.documents.lexical import StoredWords
from shared_core.documents.manifest import Manifest
from shared_core.documents.manifest_file import RESTORE
from shared_core.errors import IndexCorruptedError
from shared_core.retrieval.base import Embedder, Ranking, Retriever, Where
from shared_core.retrieval.checks import check_k, check_query, collect_ids
from shared_core.retrieval.dense import embed_checked
from shared_core.retrieval.filters import Predicate, compile_filter
from shared_core.retrieval.hybrid import HybridRetriever
from shared_core.retrieval.vectors import Coded, VectorTable
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LOOK = 500  # passages whose metadata are looked at at a time


class _Stored(ABC):
    """What both have in common: passages are found as rows of the manifest."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def __len__(self) -> int:
        return self._manifest.counts()[1]

    def ids(self) -> list[str]:
        """Ids of all passages, in the order in which they were indexed."""
        return [str(row[0]) for row in self._manifest.rows("SELECT id FROM passages ORDER BY row")]

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """The passages of these ids, in that order; unknown ones are left out."""
        wanted = collect_ids(ids)
        rows = self._manifest.rows_of(wanted)
        found = self._manifest.passages_at(sorted(rows.values()))  # neighbours share a piece of text
        return [found[rows[i]] for i in wanted if i in rows and rows[i] in found]

    def retrieve(self, query: str, k: int = 5, where: Where | None = None) -> list[Passage]:
        """The best passages, best first, at most ``k``; arguments and errors as ``BM25Retriever.retrieve``."""
        return self.retrieve_many([query], k, where)[0]

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """``retrieve`` for each query."""
        ranked = self.rank_many(queries, k, where)
        known = {p.id: p for p in self.get({i for found in ranked for i, _ in found})}
        return [[known[i].with_score(score) for i, score in found if i in known] for found in ranked]

    @abstractmethod
    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """``retrieve_many`` with ids in place of passages."""

    def _named(self, ranked: Sequence[tuple[int, float]]) -> Ranking:
        names = self._manifest.ids_at([row for row, _ in ranked])
        return [(names[row], score) for row, score in ranked if row in names]

    def _kept(self, ranked: Iterable[tuple[int, float]], k: int, keep: Predicate | None) -> list[tuple[int, float]]:
        """The first ``k`` of a ranking whose metadata pass."""
        pending = list(ranked)
        if keep is None:
            return pending[:k]
        out: list[tuple[int, float]] = []
        for first in range(0, len(pending), _LOOK):
            some = pending[first : first + _LOOK]
            known = self._manifest.metadata_at([row for row, _ in some])
            out += [(row, score) for row, score in some if row in known and keep(known[row])]
            if len(out) >= k:
                break
        return out[:k]


class GivesRetriever(Protocol):
    """An index."""

    def retriever(self) -> HybridRetriever:
        """What searches it as it is now."""
        ...


class IndexRetriever(HybridRetriever):
    """A snapshot of an index. Another process, or a copy, opens the index for itself and sees it as it is then.

    Args:
        index: what it is of.
        retrievers: over the snapshot.
    """

    def __init__(self, index: GivesRetriever, retrievers: Sequence[Retriever]) -> None:
        super().__init__(retrievers=retrievers)
        self._index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._index,)


def _open_again(index: GivesRetriever) -> HybridRetriever:
    return index.retriever()


class StoredBM25(_Stored):
    """BM25 over the words in a manifest; finds what ``BM25Retriever`` over the same passages finds."""

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(manifest)
        self._words = StoredWords(manifest)

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """``retrieve_many`` with ids in place of passages."""
        k, keep = check_k(k), compile_filter(where)
        out: list[Ranking] = []
        for query in queries:
            rows, scores = self._words.rank(check_query(query))
            end = k if keep is None else len(rows)
            out.append(self._named(self._kept(zip(rows[:end].tolist(), scores[:end].tolist()), k, keep)))
        return out


class StoredVectors(_Stored):
    """Cosine to the nearest sentence of each passage, exact; the vectors are read into memory at the first query.

    Args:
        manifest: a snapshot.
        embedder: gives the embedder of queries, when it is needed.
    """

    def __init__(self, manifest: Manifest, embedder: Callable[[], Embedder]) -> None:
        super().__init__(manifest)
        self._embedder = embedder
        self._lock = threading.Lock()
        self._table: VectorTable[int] | None = None

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """``retrieve_many`` with ids in place of passages."""
        k, keep = check_k(k), compile_filter(where)
        texts = [check_query(q) for q in queries]
        asked = [i for i, text in enumerate(texts) if text]
        out: list[Ranking] = [[] for _ in texts]
        if not asked:
            return out
        vectors = embed_checked(self._embedder(), [texts[i] for i in asked])
        table = self._loaded(vectors)
        found = table.nearest(vectors, k if keep is None else None)
        for i, ranked in zip(asked, found):
            out[i] = self._named(self._kept(ranked, k, keep))
        return out

    def _loaded(self, query: NDArray[np.float32]) -> VectorTable[int]:
        with self._lock:
            if self._table is None:
                self._table = read_vectors(self._manifest, query.shape[1])
            return self._table


def read_vectors(manifest: Manifest, dimension: int) -> VectorTable[int]:
    """All vectors of a manifest, by row.

    Raises:
        IndexCorruptedError: they are not of this many numbers.
    """
    size = int(manifest.rows("SELECT total(length(data)) FROM vectors")[0][0])
    table: VectorTable[int] = VectorTable(dimension, size // (dimension + 4))
    try:
        table.put((row, Coded.from_bytes(data, dimension)) for row, data in manifest.each_vector())
    except (ValueError, TypeError) as error:
        raise IndexCorruptedError(f"The vectors in the index are damaged: {error}.", hint=RESTORE) from error
    return table
