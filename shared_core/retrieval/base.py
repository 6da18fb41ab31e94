"""What every retriever is to the rest."""

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
"""Ids of passages with their scores, best first. A retriever may offer ``rank_many(queries, k, where)``, a ranking
for each query, beside ``get(ids)``: what fuses several long lists then reads only the passages it keeps."""


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for a query, best first, with ``Passage.score`` set; at most ``k``, fewer if fewer match."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """The ``k`` best passages for ``query``."""
        ...


@runtime_checkable
class Index(Retriever, Protocol):
    """A retriever that passages can be added to."""

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages; one with a known id replaces the old one."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """Model name; an index is bound to it."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), d) float32, rows of unit norm."""
        ...


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """What an embedder makes of one passage.

    Attributes:
        sentences: (n, d) float32, n ≥ 1, rows of unit norm: what a query is compared to, the nearest counts.
        spans: of each, half-open code points of the passage's text; empty where that is not known.
        whole: (d,) float32 of unit norm, for stores that hold one vector a passage.
    """

    sentences: NDArray[np.float32]
    spans: tuple[tuple[int, int], ...]
    whole: NDArray[np.float32]


@runtime_checkable
class PassageEmbedder(Embedder, Protocol):
    """An embedder that sees a passage's sentences in their context; retrievers use it where an embedder is one.

    Others are given each sentence and the whole passage as texts of their own.
    """

    def embed_passages(self, passages: Sequence[Passage]) -> Sequence[PassageVectors]:
        """One for each passage, in order; vectors of the same space as ``embed``'s."""
        ...
