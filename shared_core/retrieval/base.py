"""Interfaces of retrievers and embedders."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from shared_core.errors import InputError, PassageError, QuestionError
from shared_core.support.pickling import Portable
from shared_core.types import MetadataValue, Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
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


def check_query(query: str) -> str:
    """Strip white space from a query, which may be empty; QuestionError if it is not a string."""
    if not isinstance(query, str):
        raise QuestionError(f"A query must be a string, not {type(query).__name__}.", hint="Pass the question as text.")
    return query.strip()


def find_each(queries: Sequence[str], find: Callable[[list[str]], Iterable[list[T]]]) -> list[list[T]]:
    """Call ``find`` once, with the queries that are not blank; nothing is found for the others."""
    texts = [check_query(q) for q in queries]
    asked = [i for i, text in enumerate(texts) if text]
    out: list[list[T]] = [[] for _ in texts]
    if asked:
        for i, found in zip(asked, find([texts[i] for i in asked])):
            out[i] = found
    return out


def check_k(k: int) -> int:
    """Return ``k``; InputError if it is not a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}.", hint="Ask for at least one passage.")
    return k


def collect(passages: Iterable[Passage]) -> dict[str, Passage]:
    """Collect passages by id, in order, without scores; a passage given twice is kept once.

    PassageError for what is no passage or cannot be stored (nested metadata, invalid Unicode), or two of one id.
    """
    if isinstance(passages, Passage | str | Mapping):
        raise PassageError(
            f"Expected several passages, not one {type(passages).__name__}.", hint="Pass a list: add([passage])."
        )
    out: dict[str, Passage] = {}
    for passage in passages:
        if not isinstance(passage, Passage):
            raise PassageError(
                f"Expected a Passage, not {type(passage).__name__}.",
                hint="Create one: Passage(id=..., text=..., title=..., metadata=...).",
            )
        _check_storable(passage)
        plain = passage if passage.score is None else passage.with_score(None)
        if out.setdefault(plain.id, plain) != plain:
            raise PassageError(
                f"Two different passages share the id {plain.id!r}.",
                hint="Give each passage a unique id; to replace a passage, add the new one in a later call.",
            )
    return out


def collect_ids(ids: Iterable[str]) -> list[str]:
    """List ids without repetitions; InputError for a single string, which is probably a mistake."""
    if isinstance(ids, str):
        raise InputError(f"Expected several ids, not the string {ids!r}.", hint=f"Pass a list: [{ids!r}].")
    out = list(dict.fromkeys(ids))
    if not all(isinstance(i, str) for i in out):
        raise InputError("Ids of passages are strings.")
    return out


def _check_storable(passage: Passage) -> None:
    for part in (passage.id, passage.text, passage.title):
        _check_unicode(part, passage)
    for key, value in passage.metadata.items():
        if not isinstance(key, str) or not key or key.startswith(("chroma:", "selfreflect:")):
            raise PassageError(
                f"Metadata of passage {passage.id!r} has the key {key!r}, which cannot be stored.",
                hint="Keys are non-empty strings that do not start with 'chroma:' or 'selfreflect:'.",
            )
        if not isinstance(value, str | int | float | bool | type(None)):
            raise PassageError(
                f"Metadata {key!r} of passage {passage.id!r} is a {type(value).__name__}.",
                hint="Metadata values are strings, numbers, booleans or None; join lists into one string.",
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise PassageError(f"Metadata {key!r} of passage {passage.id!r} does not fit 64 bits.")
        for text in (key, value):
            if isinstance(text, str):
                _check_unicode(text, passage)


def _check_unicode(text: str, passage: Passage) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PassageError(
            f"Passage {passage.id!r} holds text that is not valid Unicode: {error}.",
            hint="Read the file with errors='replace', or remove lone surrogates.",
        ) from error


def searched_text(passage: Passage) -> str:
    """Return what lexical search finds a passage by: its title, the headings above it and its text.

    "What changed in 2.1?" asks for parts whose own heading is only "Compiler". A passage that holds a heading has its
    words twice, and so comes before the others below it.
    """
    return f"{passage.title}\n{passage.metadata.get('section') or ''}\n{passage.text}"


def batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Split items into lists of at most ``size``."""
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def absent(value: MetadataValue) -> bool:
    """Whether filters treat a value as absent: None and numbers that are not finite."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))
