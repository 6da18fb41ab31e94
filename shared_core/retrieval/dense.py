"""Embedding passages with any embedder, and exact dense search in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared_core.errors import RetrievalError
from shared_core.retrieval.base import (
    Embedder,
    MemoryRetriever,
    PassageEmbedder,
    PassageVectors,
    Ranking,
    Where,
    batches,
    check_k,
    collect,
    collect_ids,
    find_each,
)
from shared_core.retrieval.embedding import MiniLMEmbedder, windows
from shared_core.retrieval.filters import compile_filter
from shared_core.retrieval.vectors import Coded, VectorTable, encode
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 1_000  # passages embedded at a time: bounds memory


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of a passage: the coded ones that are searched, and the whole passage's, (d,) float32."""

    coded: Coded
    whole: NDArray[np.float32]


def embed_checked(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts and check the result: (len(texts), d) float32, finite; RetrievalError for anything else."""
    return _checked(embedder, embedder.embed(texts), len(texts), "texts")


def passage_vectors(embedder: Embedder, passages: Sequence[Passage]) -> list[PassageVectors]:
    """Embed passages and check the result; sentences are embedded in context if the embedder can do that.

    Spans are empty where it cannot. RetrievalError if it returned something other than vectors.
    """
    import numpy as np

    if not passages:
        return []
    if isinstance(embedder, PassageEmbedder):
        return _in_context(embedder, passages)
    texts = [windows(p) for p in passages]
    vectors = embed_checked(embedder, [t for group in texts for t in group])
    ends = np.cumsum([len(group) for group in texts])
    return [PassageVectors(own, (), own[-1]) for own in np.split(vectors, ends[:-1])]


def embed_passages(embedder: Embedder, passages: Sequence[Passage]) -> list[Embedded]:
    """Run ``passage_vectors`` and code the result for the search."""
    return [Embedded(encode(found.sentences), found.whole) for found in passage_vectors(embedder, passages)]


def _in_context(embedder: PassageEmbedder, passages: Sequence[Passage]) -> list[PassageVectors]:
    found = embedder.embed_passages(passages)
    if len(found) != len(passages):
        raise RetrievalError(
            f"Embedder {embedder.name!r} returned vectors of {len(found)} passages, not of {len(passages)}.",
            hint="embed_passages(passages) must return one PassageVectors for each passage.",
        )
    out: list[PassageVectors] = []
    for one in found:
        whole = _checked(embedder, one.whole[None], 1, "passage")
        out.append(PassageVectors(_checked(embedder, one.sentences, None, "passage"), one.spans, whole[0]))
    return out


def _checked(embedder: Embedder, vectors: object, rows: int | None, what: str) -> NDArray[np.float32]:
    import numpy as np

    found: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)
    if found.ndim != 2 or not len(found) >= (rows is None) or rows not in (None, len(found)):
        raise RetrievalError(
            f"Embedder {embedder.name!r} returned shape {found.shape} for {rows or 1} {what}.",
            hint="embed(texts) must return an array of shape (len(texts), d).",
        )
    if not np.isfinite(found).all():
        raise RetrievalError(
            f"Embedder {embedder.name!r} returned vectors that are not finite.",
            hint="Check its model and its precision.",
        )
    return found


class DenseRetriever(MemoryRetriever):
    """Exact search in memory by the cosine to the nearest sentence of each passage. Safe to use from several threads.

    Vectors take one byte a number (``vectors``), so cosines are off by about 0.001. For an index that lasts, see
    ``DocumentIndex`` and ``ChromaRetriever``.

    ::

        retriever = DenseRetriever([Passage("a", "The ferry sails at nine."), Passage("b", "The museum is closed.")])
        retriever.retrieve("When does the boat leave?", k=1)

    Args:
        embedder: embedder of passages and queries; ``None`` is MiniLM.

    Raises:
        PassageError, ModelLoadError, MissingDependencyError: as ``add``.
    """

    def __init__(self, passages: Iterable[Passage] = (), *, embedder: Embedder | None = None) -> None:
        super().__init__()
        self.embedder: Embedder = MiniLMEmbedder() if embedder is None else embedder
        self._table: VectorTable[str] | None = None
        self.add(passages)

    def add(self, passages: Iterable[Passage]) -> None:
        """Embed and add passages; a passage with a known id replaces the old one.

        Raises:
            PassageError: a passage cannot be stored, or two different ones share an id. Nothing is added then.
            ModelLoadError, MissingDependencyError: there is no embedding model.
            RetrievalError: the embedder returned no vectors, or vectors of another dimension than before.
        """
        new = collect(passages)
        coded: list[Coded] = []
        for batch in batches(list(new.values()), _BATCH):
            coded += [one.coded for one in embed_passages(self.embedder, batch)]
        if not new:
            return
        with self._lock:
            if self._table is None:
                self._table = VectorTable(coded[0].codes.shape[1], sum(len(c.codes) for c in coded))
            if any(c.codes.shape[1] != self._table.dimension for c in coded):
                raise RetrievalError(
                    f"Embedder {self.embedder.name!r} returned vectors of another dimension than before.",
                    hint="Use one embedder for all passages.",
                )
            self._table.put(zip(new, coded))
            self._passages = {**self._passages, **new}

    def delete(self, ids: Iterable[str]) -> None:
        """Delete the passages of these ids, as the ``store`` of a ``DocumentIndex`` has to; unknown ids are ignored."""
        gone = set(collect_ids(ids))
        with self._lock:
            self._passages = {i: p for i, p in self._passages.items() if i not in gone}
            if self._table is not None:
                self._table.discard(gone)

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k, keep = check_k(k), compile_filter(where)
        table, known = self._table, self._passages

        def nearest(texts: list[str]) -> list[Ranking]:
            if table is None:
                return []
            allowed = None if keep is None else {i for i, p in known.items() if keep(p.metadata)}
            return table.nearest(embed_checked(self.embedder, texts), k, allowed)

        return find_each(queries, nearest)
