"""Values around ``DocumentIndex``: its settings, reports, and the interface of a vector store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field, field_validator

from shared_core.documents.chunking import MAX_CHARS, OVERLAP
from shared_core.documents.load import MAX_FILE_BYTES, Failure
from shared_core.documents.loaders.extracted import MAX_SECONDS
from shared_core.settings import Settings
from shared_core.types import Passage


class IndexSettings(Settings):
    """Settings of an index: how documents are read and cut, and where vectors live.

    An index remembers its settings; only those that are set again replace the remembered ones.

    >>> IndexSettings(vectors="chroma:http://127.0.0.1:8000").vectors
    'chroma:http://127.0.0.1:8000'
    """

    max_chars: int = Field(MAX_CHARS, ge=100, le=20_000, description="Longest passage, in code points.")
    overlap: int = Field(OVERLAP, ge=0, le=10, description="Sentences repeated where a paragraph has to be cut.")
    text_column: str | None = Field(
        None, description="Text column of tables; None looks for one of the usual column names."
    )
    encoding: str | None = Field(None, description="Encoding of text files that are not UTF-8; None refuses them.")
    max_file_bytes: int = Field(MAX_FILE_BYTES, ge=1, description="Refuse files larger than this many bytes.")
    max_file_seconds: float = Field(
        MAX_SECONDS, gt=0, le=86_400, description="Stop reading a file after this many seconds."
    )
    vectors: str = Field(
        "index",
        description="Where dense vectors live: index (in the index's own file), chroma (embedded, in the index's "
        "folder), chroma:URL (on a Chroma server) or none (BM25 only).",
    )

    @field_validator("vectors")
    @classmethod
    def _known_place(cls, place: str) -> str:
        if place not in ("index", "chroma", "none") and not place.startswith(("chroma:http://", "chroma:https://")):
            raise ValueError("must be index, chroma, chroma:http://HOST:PORT or none")
        return place


class PassageSet(Protocol):
    """A set of passages that can be listed, added to and deleted from by id."""

    def ids(self) -> Iterable[str]:
        """Ids of all passages."""

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages; a passage with a known id replaces the old one."""

    def delete(self, ids: Iterable[str]) -> None:
        """Delete passages; unknown ids are ignored."""


class VectorStore(PassageSet, Protocol):
    """A dense retriever whose passages can be listed, added and deleted by id."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """Find the ``k`` nearest passages."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Progress of an update: ``done`` of ``total`` files (phase ``reading``) or passages (phase ``embedding``)."""

    phase: str
    done: int
    total: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Outcome of an update.

    Attributes:
        added, changed, deleted, unchanged: sources.
        failed: files, or parts of files, that could not be indexed. A file indexed before keeps its former state, but
            not one that is empty now (it is in ``deleted`` too).
        missing: given paths that do not exist (each is in ``failed`` too).
        skipped: number of files in folders that were skipped because their format is unknown.
        skipped_endings: how many of each ending (``.xls``), and skipped folders of other programs (``node_modules/``).
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()
    skipped: int = 0
    passages: int = 0
    skipped_endings: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, ready for JSON."""
        values = dataclasses.asdict(self).items()
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values}
        failed = [failure._asdict() for failure in self.failed]
        return {**plain, "failed": failed, "skipped_endings": dict(self.skipped_endings)}


@dataclass(frozen=True)
class IndexStats:
    """Size of an index; ``megabytes`` is its folder's size on disk."""

    documents: int
    passages: int
    characters: int
    embedder: str
    megabytes: float
