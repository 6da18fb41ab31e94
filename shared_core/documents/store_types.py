"""The values around ``DocumentIndex``: its settings, its report, and what it needs of a vector store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field

from shared_core.documents.chunking import MAX_CHARS, OVERLAP
from shared_core.documents.load import MAX_FILE_BYTES, Failure
from shared_core.documents.loaders.limits import MAX_SECONDS
from shared_core.settings import Settings
from shared_core.types import Passage


class IndexSettings(Settings):
    """How documents are read and cut. An index remembers them; only those given anew replace the remembered ones."""

    max_chars: int = Field(MAX_CHARS, ge=100, le=20_000, description="Of a passage, in code points.")
    overlap: int = Field(OVERLAP, ge=0, le=10, description="Sentences repeated where a paragraph had to be cut.")
    text_column: str | None = Field(None, description="Of tables; None looks for one of the usual names.")
    encoding: str | None = Field(None, description="Of text files that are not UTF-8; None refuses them.")
    max_file_bytes: int = Field(MAX_FILE_BYTES, ge=1, description="Larger files are refused.")
    max_file_seconds: float = Field(
        MAX_SECONDS, gt=0, le=86_400, description="Reading a file is given up after so long."
    )


class PassageSet(Protocol):
    """Passages that can be listed, added and deleted by id."""

    def ids(self) -> Iterable[str]:
        """Ids of all passages."""
        ...

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages; one with a known id replaces the old one."""
        ...

    def delete(self, ids: Iterable[str]) -> None:
        """Delete passages; unknown ids do nothing."""
        ...


class VectorStore(PassageSet, Protocol):
    """The dense side: a retriever whose passages can be listed, added and deleted by id."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """The ``k`` nearest passages."""
        ...


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an update is: ``done`` of ``total`` files (``reading``) or passages (``embedding``)."""

    phase: str
    done: int
    total: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an update did.

    Attributes:
        added, changed, deleted, unchanged: sources.
        failed: files, or parts of files, that could not be indexed. A file indexed before keeps its former state.
        missing: given paths that do not exist (each is in ``failed`` too).
        skipped: files in folders passed over because their format is not known.
        skipped_endings: how many of each ending (``.xlsx``), and folders of other programs (``node_modules/``).
        passages: in the index now.
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
        """Plain values, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        failed = [failure._asdict() for failure in self.failed]
        return {**plain, "failed": failed, "skipped_endings": dict(self.skipped_endings)}


@dataclass(frozen=True)
class IndexStats:
    """Figures of an index; ``megabytes`` is its folder's size on disk."""

    documents: int
    passages: int
    characters: int
    embedder: str
    megabytes: float
