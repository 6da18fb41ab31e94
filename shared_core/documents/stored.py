"""Retrievers over an index, reading from its manifest; only the vectors are held in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shared_core.documents.lexical import StoredWords
from shared_core.documents.manifest import RESTORE, Manifest
from shared_core.errors import IndexCorruptedError
from shared_core.retrieval.base import (
    Embedder,
    RankedRetriever,
    Ranking,
    Retriever,
    Where,
    check_k,
    check_query,
    collect_ids,
)
from shared_core.retrieval.dense import embed_checked
from shared_core.retrieval.filters import Predicate, compile_filter
from shared_core.retrieval.hybrid import HybridRetriever
from shared_core.retrieval.vectors import Coded, VectorTable
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FILTERED = 500  # passages whose metadata are read and filtered at a time


class _Stored(RankedRetriever):
    """Base of both retrievers: finds passages as rows of a manifest's snapshot."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def __len__(self) -> int:
        return self._manifest.counts()[1]

    def ids(self) -> list[str]:
        """Ids of all passages, in the order in which they were indexed."""
        return [str(row[0]) for row in self._manifest.rows("SELECT id FROM passages ORDER BY row")]

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Read the passages of these ids, in that order; unknown ids are left out."""
        wanted = collect_ids(ids)
        rows = self._manifest.rows_of(wanted)
        found = self._manifest.passages_at(sorted(rows.values()))  # neighbours share a block of text
        return [found[rows[i]] for i in wanted if i in rows and rows[i] in found]

    def _first(self, ranked: Iterable[tuple[int, float]], k: int, keep: Predicate | None) -> Ranking:
        """Cut a ranking of rows to the first ``k`` whose metadata pass, and name the passages."""
        pending = list(ranked)
        kept = pending[:k] if keep is None else []
        for first in range(0, 0 if keep is None else len(pending), _FILTERED):
            some = pending[first : first + _FILTERED]
            known = self._manifest.metadata_at([row for row, _ in some])
            kept += [(row, score) for row, score in some if row in known and keep is not None and keep(known[row])]
            if len(kept) >= k:
                break
        names = self._manifest.ids_at([row for row, _ in kept[:k]])
        return [(names[row], score) for row, score in kept[:k] if row in names]


class OpensRetriever(Protocol):
    """An index."""

    def retriever(self) -> HybridRetriever:
        """Open a retriever over its current content."""
        ...


class IndexRetriever(HybridRetriever):
    """A hybrid retriever over a snapshot of an index. A pickled copy opens the index anew and sees its content then."""

    def __init__(self, index: OpensRetriever, retrievers: Sequence[Retriever]) -> None:
        super().__init__(retrievers=retrievers)
        self._index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._index,)


def _open_again(index: OpensRetriever) -> HybridRetriever:
    return index.retriever()


class StoredBM25(_Stored):
    """BM25 over the words in a manifest; finds the same as ``BM25Retriever`` over the same passages."""

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(manifest)
        self._words = StoredWords(manifest)

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k, keep = check_k(k), compile_filter(where)
        out: list[Ranking] = []
        for query in queries:
            rows, scores = self._words.rank(check_query(query))
            end = k if keep is None else len(rows)
            out.append(self._first(zip(rows[:end].tolist(), scores[:end].tolist()), k, keep))
        return out


class StoredVectors(_Stored):
    """Exact cosine to the nearest sentence of each passage; vectors are read into memory at the first query.

    Args:
        manifest: a snapshot.
        embedder: returns the embedder of queries; called at the first query.
    """

    def __init__(self, manifest: Manifest, embedder: Callable[[], Embedder]) -> None:
        super().__init__(manifest)
        self._embedder = embedder
        self._lock = threading.Lock()
        self._table: VectorTable[int] | None = None

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k, keep = check_k(k), compile_filter(where)
        texts = [check_query(q) for q in queries]
        asked = [i for i, text in enumerate(texts) if text]
        out: list[Ranking] = [[] for _ in texts]
        if not asked:
            return out
        vectors = embed_checked(self._embedder(), [texts[i] for i in asked])  # (queries, d)
        table = self._loaded(vectors)
        found = table.nearest(vectors, k if keep is None else None)
        for i, ranked in zip(asked, found):
            out[i] = self._first(ranked, k, keep)
        return out

    def _loaded(self, query: NDArray[np.float32]) -> VectorTable[int]:
        with self._lock:
            if self._table is None:
                self._table = read_vectors(self._manifest, query.shape[1])
            return self._table


def read_vectors(manifest: Manifest, dimension: int) -> VectorTable[int]:
    """Read all vectors of a manifest, by row.

    Raises:
        IndexCorruptedError: they do not have this dimension.
    """
    size = int(manifest.rows("SELECT total(length(data)) FROM vectors")[0][0])
    table: VectorTable[int] = VectorTable(dimension, size // (dimension + 4))
    try:
        table.put((row, Coded.from_bytes(data, dimension)) for row, data in manifest.each_vector())
    except (ValueError, TypeError) as error:
        raise IndexCorruptedError(f"The vectors in the index are damaged: {error}.", hint=RESTORE) from error
    return table
