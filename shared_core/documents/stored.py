"""Retrievers over an index, reading from its manifest; only the vectors are held in memory.

FTS5 keeps the words and finds the places of each; BM25 is computed here, because FTS5's own ``bm25()`` fixes
k1 = 1.2 and b = .75, adds word pairs as words of their own (four times the size on disk), and ranks the right passage
first less often (docs/retrieval.md). Scores equal those of ``BM25Retriever`` over the same passages.

A query reads the lengths of all passages once, then only the places of its words. Two words are adjacent where their
places differ by one, so pairs need no index.
"""

from __future__ import annotations

import logging
import math
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shared_core.documents.manifest import RESTORE, Manifest, words_of
from shared_core.errors import IndexCorruptedError, SelfReflectError
from shared_core.retrieval.base import (
    Embedder,
    RankedRetriever,
    Ranking,
    Retriever,
    Where,
    batches,
    check_k,
    check_query,
    collect_ids,
    find_each,
)
from shared_core.retrieval.bm25 import DIGITS, K1, NAMES, PHRASES, B, Query, pairs_of
from shared_core.retrieval.dense import embed_checked
from shared_core.retrieval.filters import Predicate, compile_filter
from shared_core.retrieval.hybrid import HybridRetriever
from shared_core.retrieval.vectors import Coded, VectorTable, highest
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LOG = logging.getLogger(__name__)
_FILTERED = 500  # passages whose metadata are read and filtered at a time
_PLACE_BITS = 20  # of the position within a passage, which has at most 20,000 characters
_PLACES = f'SELECT group_concat((doc << {_PLACE_BITS}) + "offset") FROM places WHERE term = ?'


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
        kept = pending if keep is None else self._filtered(pending, k, keep)
        names = self._manifest.ids_at([row for row, _ in kept[:k]])
        return [(names[row], score) for row, score in kept[:k] if row in names]

    def _filtered(self, ranked: list[tuple[int, float]], k: int, keep: Predicate) -> list[tuple[int, float]]:
        """Return at least ``k`` of the rows whose metadata pass, if there are so many."""
        kept: list[tuple[int, float]] = []
        for some in batches(ranked, _FILTERED):
            known = self._manifest.metadata_at([row for row, _ in some])
            kept += [(row, score) for row, score in some if row in known and keep(known[row])]
            if len(kept) >= k:
                break
        return kept


class OpensRetriever(Protocol):
    """An index: the number of its updates by this object, a new retriever, and calls while no update can begin."""

    @property
    def updates(self) -> int:
        """Number of updates that this object has made."""

    def retriever(self) -> IndexRetriever:
        """Open a retriever over its current content."""

    def unless_updating(self, read: Callable[[], None]) -> None:
        """Call ``read`` while no update can begin; leave it where one is under way."""


class IndexRetriever(HybridRetriever):
    """A hybrid retriever over the content of an index after the last update by that very object; safe in threads.

    What other objects or processes change it does not see. While an update is under way, and where the index cannot be
    read anew, the former content is searched. A pickled copy opens the index anew. ``index_version`` is that of the
    content that it reads (``DocumentIndex.version``).
    """

    def __init__(self, index: OpensRetriever, retrievers: Sequence[Retriever], version: str = "") -> None:
        super().__init__(retrievers=retrievers)
        self._index, self.index_version = index, version
        self._seen = index.updates
        self._following = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.methodcaller("retriever"), (self._index,)

    def __len__(self) -> int:
        self._follow()
        return super().__len__()

    def ids(self) -> list[str]:
        """Ids of all passages."""
        self._follow()
        return super().ids()

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages of these ids, in that order; unknown ids are left out."""
        self._follow()
        return super().get(ids)

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """Run ``retrieve`` for each query, searching for all of them together."""
        self._follow()
        held = HybridRetriever(retrievers=self.retrievers)  # one content for all that these queries read
        return held.retrieve_many(queries, k, where)

    def _follow(self) -> None:
        if self._seen == self._index.updates:
            return
        with self._following:
            if self._seen != self._index.updates:
                self._index.unless_updating(self._reopen)

    def _reopen(self) -> None:
        seen = self._index.updates
        try:
            fresh = self._index.retriever()
        except SelfReflectError as error:
            _LOG.warning("The index cannot be read anew; its former content is still searched: %s", error.message)
        else:
            self.retrievers, self.index_version = fresh.retrievers, fresh.index_version
        self._seen = seen


class StoredBM25(_Stored):
    """BM25 over the words that a manifest held when this was made; finds the same as ``BM25Retriever``."""

    def __init__(self, manifest: Manifest) -> None:
        import numpy as np

        super().__init__(manifest)
        # FTS5 still holds words of deleted passages; only rows listed here exist.
        found = manifest.rows("SELECT row, words FROM passages ORDER BY row")
        self._rows, self._lengths = np.array(found, np.int64).reshape(-1, 2).T  # both (N,)

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k, keep = check_k(k), compile_filter(where)
        out: list[Ranking] = []
        for query in queries:
            rows, scores = self._rank(check_query(query))
            end = k if keep is None else len(rows)
            out.append(self._first(zip(rows[:end].tolist(), scores[:end].tolist()), k, keep))
        return out

    def _rank(self, query: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows of passages that share a word with the query, best first, and their scores."""
        import numpy as np

        asked = Query.of(query, words_of, english=True)
        scores = np.zeros(len(self._rows))
        if not asked.words or not self._lengths.any():
            return np.empty(0, np.int64), np.empty(0)
        pairs = [(pairs_of(asked.words), PHRASES), (asked.pairs, NAMES)]
        every = [*asked.words, *asked.names, *(word for some, _ in pairs for pair in some for word in pair.split(" "))]
        places = {word: self._places(word) for word in dict.fromkeys(every)}
        for words, weight in ((asked.words, 1.0), (asked.names, NAMES)):
            self._add(scores, [places[word] for word in words], self._lengths, weight)
        if (self._lengths > 1).any():
            spare = np.maximum(self._lengths - 1, 0)  # n words have n - 1 pairs
            for some, weight in pairs:
                # places of a word right before one of the next word
                both = [(places[a], places[b] - 1) for a, b in (pair.split(" ") for pair in some)]
                self._add(scores, [np.intersect1d(a, b, assume_unique=True) for a, b in both], spare, weight)
        scores = np.round(scores, DIGITS)
        best = np.flatnonzero(scores > 0)
        best = best[highest(scores[best], None)]
        return self._rows[best], scores[best]

    def _add(
        self, scores: NDArray[np.float64], terms: Sequence[NDArray[np.int64]], lengths: NDArray[np.int64], weight: float
    ) -> None:
        """Add ``weight`` times each term's BM25 score (``bm25``) to the (N,) scores; a term is given by its places."""
        import numpy as np

        count, mean = len(self._rows), float(lengths.mean())
        for term in terms:
            rows, frequency = np.unique(term >> _PLACE_BITS, return_counts=True)
            at = np.minimum(np.searchsorted(self._rows, rows), count - 1)
            exists = self._rows[at] == rows
            at, frequency = at[exists], frequency[exists]
            idf = math.log(1 + (count - len(at) + 0.5) / (len(at) + 0.5))
            norm = K1 * (1 - B + B * lengths[at] / mean)
            scores[at] += weight * idf * frequency * (K1 + 1) / (frequency + norm)

    def _places(self, word: str) -> NDArray[np.int64]:
        """Places of a word as (row << 20) + position, ascending."""
        import numpy as np

        # One string parsed by numpy is twice as fast as a Python tuple for each place.
        joined = self._manifest.rows(_PLACES, (word,))[0][0]
        found: NDArray[np.int64] = np.fromstring(joined or "", np.int64, sep=",")
        return found


class StoredVectors(_Stored):
    """Exact cosine to the nearest sentence of each passage; vectors are read into memory at the first query."""

    def __init__(self, manifest: Manifest, embedder: Embedder) -> None:
        super().__init__(manifest)
        self._embedder = embedder
        self._lock = threading.Lock()
        self._table: VectorTable[int] | None = None

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k, keep = check_k(k), compile_filter(where)

        def nearest(texts: list[str]) -> list[Ranking]:
            vectors = embed_checked(self._embedder, texts)  # (queries, d)
            found = self._loaded(vectors.shape[1]).nearest(vectors, k if keep is None else None)
            return [self._first(ranked, k, keep) for ranked in found]

        return find_each(queries, nearest)

    def _loaded(self, dimension: int) -> VectorTable[int]:
        """Read all vectors, by row, at the first call; IndexCorruptedError if they do not have this dimension."""
        with self._lock:
            if self._table is None:
                size = int(self._manifest.rows("SELECT total(length(data)) FROM vectors")[0][0])
                table: VectorTable[int] = VectorTable(dimension, size // (dimension + 4))
                try:
                    table.put((row, Coded.from_bytes(data, dimension)) for row, data in self._manifest.each_vector())
                except (ValueError, TypeError) as error:
                    raise IndexCorruptedError(
                        f"The vectors in the index are damaged: {error}.", hint=RESTORE
                    ) from error
                self._table = table
            return self._table
