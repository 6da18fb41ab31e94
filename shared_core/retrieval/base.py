"""Interfaces of retrievers and embedders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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
