"""Exact dense search in memory; for an index that lasts, ``ChromaRetriever``."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared_core.errors import RetrievalError
from shared_core.retrieval.base import Embedder, Where
from shared_core.retrieval.checks import check_k, check_query, collect, collect_ids
from shared_core.retrieval.embedding import MiniLMEmbedder
from shared_core.retrieval.filters import Predicate, compile_filter
from shared_core.retrieval.windows import Granularity, check_granularity, windows
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_QUERY_BLOCK = 64


def embed_checked(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The embedder's vectors, checked: (len(texts), d) float32, finite.

    Raises:
        RetrievalError: it gave something else.
    """
    import numpy as np

    vectors: NDArray[np.float32] = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise RetrievalError(
            f"Embedder {embedder.name!r} gave shape {vectors.shape} for {len(texts)} texts.",
            hint="embed(texts) must return an array of shape (len(texts), d).",
        )
    if not np.isfinite(vectors).all():
        raise RetrievalError(
            f"Embedder {embedder.name!r} gave vectors that are not finite.", hint="Check its model and its precision."
        )
    return vectors


def embed_passages(
    embedder: Embedder, passages: Iterable[Passage], granularity: Granularity
) -> list[NDArray[np.float32]]:
    """For each passage the vectors of its windows, (windows, d)."""
    texts = [windows(p, granularity) for p in passages]
    if not texts:
        return []
    vectors = embed_checked(embedder, [t for group in texts for t in group])
    out: list[NDArray[np.float32]] = []
    start = 0
    for group in texts:
        out.append(vectors[start : start + len(group)])
        start += len(group)
    return out


@dataclass(frozen=True)
class _Matrix:
    passages: list[Passage]
    vectors: NDArray[np.float32]  # (all windows, d)
    starts: NDArray[np.int64]  # first window of each passage


class DenseRetriever:
    """Cosine similarity to the nearest sentence of each passage, exact, in memory. May be used from several threads.

    Args:
        passages: to start with.
        embedder: of passages and queries; ``None`` is MiniLM.
        granularity: a vector for each sentence, or for each passage (``windows``).

    Raises:
        PassageError, ModelLoadError, MissingDependencyError: as ``add``.
    """

    def __init__(
        self,
        passages: Iterable[Passage] = (),
        *,
        embedder: Embedder | None = None,
        granularity: Granularity = "sentence",
    ) -> None:
        self.granularity = check_granularity(granularity)
        self.embedder: Embedder = MiniLMEmbedder() if embedder is None else embedder
        self._lock = threading.Lock()
        self._passages: dict[str, Passage] = {}
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._matrix: _Matrix | None = None
        self.add(passages)

    def __len__(self) -> int:
        return len(self._passages)

    def ids(self) -> list[str]:
        """Ids of all passages, in the order they were added."""
        return list(self._passages)

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """The passages of these ids, in that order; unknown ones are left out."""
        known = self._passages
        return [known[i] for i in collect_ids(ids) if i in known]

    def add(self, passages: Iterable[Passage]) -> None:
        """Embed and add passages; one with a known id replaces the old one.

        Raises:
            PassageError: a passage that cannot be stored, or two that differ under one id. Nothing is added then.
            ModelLoadError, MissingDependencyError: there is no embedding model.
        """
        new = collect(passages)
        vectors = dict(zip(new, embed_passages(self.embedder, new.values(), self.granularity)))
        if not new:
            return
        with self._lock:
            self._passages = {**self._passages, **new}
            self._vectors.update(vectors)
            self._matrix = None

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the passages of these ids; unknown ids are ignored."""
        gone = set(collect_ids(ids))
        with self._lock:
            self._passages = {i: p for i, p in self._passages.items() if i not in gone}
            self._vectors = {i: v for i, v in self._vectors.items() if i not in gone}
            self._matrix = None

    def retrieve(self, query: str, k: int = 5, where: Where | None = None) -> list[Passage]:
        """The nearest passages, best first, at most ``k``; arguments and errors as ``BM25Retriever.retrieve``.

        Returns:
            Passages with ``score`` set: the cosine, in [-1, 1]. An empty query finds nothing.
        """
        return self.retrieve_many([query], k, where)[0]

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """``retrieve`` for each query, embedded together."""
        import numpy as np

        k = check_k(k)
        keep = compile_filter(where)
        texts = [check_query(q) for q in queries]
        asked = [i for i, text in enumerate(texts) if text]
        out: list[list[Passage]] = [[] for _ in texts]
        matrix = self._stacked()
        if not asked or matrix is None:
            return out
        embedded = embed_checked(self.embedder, [texts[i] for i in asked])
        for first in range(0, len(asked), _QUERY_BLOCK):
            cosines = embedded[first : first + _QUERY_BLOCK] @ matrix.vectors.T
            best = np.maximum.reduceat(cosines, matrix.starts, axis=1)
            for i, scores in zip(asked[first : first + _QUERY_BLOCK], best):
                out[i] = _top(matrix.passages, np.clip(scores, -1, 1), k, keep)
        return out

    def _stacked(self) -> _Matrix | None:
        import numpy as np

        with self._lock:
            if self._matrix is None and self._passages:
                groups = [self._vectors[i] for i in self._passages]
                starts = np.cumsum([0, *map(len, groups)])[:-1]
                self._matrix = _Matrix(list(self._passages.values()), np.concatenate(groups), starts)
            return self._matrix


def _top(passages: list[Passage], scores: NDArray[np.float32], k: int, keep: Predicate | None) -> list[Passage]:
    import numpy as np

    allowed = np.arange(len(passages)) if keep is None else np.flatnonzero([keep(p.metadata) for p in passages])
    if len(allowed) > k:
        bar = np.partition(scores[allowed], len(allowed) - k)[len(allowed) - k]
        allowed = allowed[scores[allowed] >= bar]
    order = allowed[np.argsort(-scores[allowed], kind="stable")][:k]
    return [passages[i].with_score(float(scores[i])) for i in order]
