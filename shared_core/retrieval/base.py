"""What every retriever is to the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from shared_core.types import MetadataValue, Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Where = Mapping[str, MetadataValue | Mapping[str, Any] | Sequence[Any]]
"""A metadata filter in Chroma's language: ``{"lang": "en"}``, ``{"year": {"$gte": 1990}}``, ``{"$and": [...]}``;
operators ``$eq $ne $gt $gte $lt $lte $in $nin`` and ``$and $or``."""


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
