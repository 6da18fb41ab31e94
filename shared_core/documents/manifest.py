"""The manifest: what an index holds, in one SQLite file. It is the truth; the rows in Chroma are derived from it.

A file's text, its passages and its hash change together in one transaction, so at any moment each file is there in its
old state or its new one. Passages are stored as offsets into the text: they cannot disagree with it. Their sentence
vectors and their words lie beside them, go when they go, and are added by steps of their own (``store``, ``lexical``).
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core.documents import manifest_file
from shared_core.documents.loaders.extracted import Problem
from shared_core.documents.manifest_file import RESTORE, TEXT_BLOCK, put_text, translated, unpack
from shared_core.errors import IndexCorruptedError, InputError
from shared_core.types import Passage

_MANY = 500  # values in one statement: older SQLite takes 999
_Kept = tuple[int, int | None, bytes | None]  # row, block, vectors


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What the manifest knows of a file without opening its text."""

    source: str
    location: str
    content_hash: str
    config_hash: str
    title: str = ""
    format: str = "text"
    characters: int = 0
    problems: tuple[Problem, ...] = ()


class Manifest:
    """The open manifest. Safe to use from several threads; writers of other processes are kept out by a lock."""

    def __init__(self, connection: sqlite3.Connection, where: str, folder: Path | None = None) -> None:
        self._connection = connection
        self._where = where
        self._folder = folder
        self._lock = threading.RLock()

    @classmethod
    def in_memory(cls) -> Manifest:
        """A manifest that ends with the process."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        manifest_file.write_schema(connection)
        return cls(manifest_file.prepared(connection), "memory")

    @classmethod
    def create(cls, folder: Path) -> None:
        """Make an empty manifest in ``folder``; see ``manifest_file.create``."""
        manifest_file.create(folder)

    @classmethod
    def open(cls, folder: Path, *, update: bool = False) -> Manifest:
        """Open the manifest in ``folder`` and check it; arguments and errors as ``manifest_file.open_file``."""
        return cls(manifest_file.open_file(folder, update=update), str(folder), folder)

    def snapshot(self) -> Manifest:
        """The same content for a reader of its own, which sees no later changes."""
        if self._folder is None:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            with self._lock, translated(self._where):
                self._connection.backup(connection)
            return Manifest(connection, self._where)
        copy = Manifest(manifest_file.open_file(self._folder, trust=True), self._where, self._folder)
        with translated(self._where):
            # A transaction that has read something sees the file as it was then, until it ends.
            copy._connection.execute("BEGIN")
            copy._connection.execute("SELECT count(*) FROM meta").fetchone()
        return copy

    def close(self) -> None:
        """Close the file; using the manifest afterwards raises StoreError."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, for changes that are made all together or not at all."""
        with self._lock, translated(self._where), self._connection:
            yield self._connection

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with self._lock, translated(self._where):
            return self._connection.execute(query, values).fetchall()

    # --- settings of the index ---------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        """A stored setting."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def store(self, key: str, value: str | None) -> None:
        """Store a setting if it is another than before; ``None`` forgets it."""
        if self.get(key) == value:
            return
        with self.transaction() as connection:
            if value is None:
                connection.execute("DELETE FROM meta WHERE key = ?", (key,))
            else:
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def identity(self) -> str:
        """Made at random when the index was; 16 hexadecimal digits."""
        identity = self.get("identity")
        if not identity:
            raise IndexCorruptedError(f"The index {self._where} has lost its identity.", hint=RESTORE)
        return identity

    # --- files ------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, FileRecord]:
        """All files by source, in order of source."""
        rows = self.rows(
            "SELECT source, location, content_hash, config_hash, title, format, characters, problems "
            "FROM files ORDER BY source"
        )
        return {str(row[0]): _record(row, self._where) for row in rows}

    def put(self, record: FileRecord, text: str, passages: Iterable[Passage]) -> None:
        """Add a file or replace its former state, all in one transaction.

        Passages that are the same as before keep their vectors and words.
        """
        rows = [(p.id, p.metadata["start"], p.metadata["end"], p.title, _dump(p)) for p in passages]
        with self.transaction() as connection:
            kept = _kept(connection, record.source, {row[0] for row in rows})
            _retire(connection, record.source)
            cursor = connection.execute(
                "INSERT INTO files (source, location, content_hash, config_hash, title, format, characters, problems) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(record.source, record.location, record.content_hash, record.config_hash, record.title),
                    *(record.format, record.characters, json.dumps(record.problems)),
                ),
            )
            file_id = int(cursor.lastrowid or 0)
            put_text(connection, file_id, text)
            connection.executemany(
                "INSERT INTO passages (row, block, id, file_id, start, stop, title, metadata) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                ((*kept.get(r[0], (None, None, None))[:2], r[0], file_id, *r[1:]) for r in rows),
            )
            connection.executemany(
                "INSERT INTO vectors VALUES (?, ?)",
                ((row, data) for row, _, data in kept.values() if data is not None),
            )
            connection.executemany("DELETE FROM retired WHERE id = ?", ((r[0],) for r in rows))

    def touch(self, source: str, location: str) -> None:
        """Note where an unchanged file lies now."""
        with self.transaction() as connection:
            connection.execute("UPDATE files SET location = ? WHERE source = ?", (location, source))

    def remove(self, source: str) -> None:
        """Take a file out."""
        with self.transaction() as connection:
            _retire(connection, source)

    def text(self, source: str) -> str:
        """A file's text; InputError if the index has no such file."""
        pieces = self.rows(
            "SELECT text FROM texts JOIN files ON files.id = file_id WHERE source = ? ORDER BY texts.start", (source,)
        )
        if not pieces:
            raise InputError(
                f"The index has no document {source!r}.", hint="Sources are paths relative to the indexed folder."
            )
        return "".join(unpack(piece[0]) for piece in pieces)

    # --- passages ---------------------------------------------------------------------------------------------

    def passages(self, only: Collection[str] | None = None) -> Iterator[Passage]:
        """Passages in order of source and start; with ``only``, those of these ids. Few are in memory at a time."""
        for (file_id,) in self.rows("SELECT id FROM files ORDER BY source"):
            found = self.rows("SELECT row, id FROM passages WHERE file_id = ? ORDER BY start, id", (file_id,))
            wanted = [int(row) for row, identifier in found if only is None or identifier in only]
            for first in range(0, len(wanted), _MANY):
                yield from self.passages_at(wanted[first : first + _MANY]).values()

    def passages_at(self, rows: Sequence[int]) -> dict[int, Passage]:
        """The passages of these rows, by row, in that order; those that are gone are left out."""
        out: dict[int, Passage] = {}
        for first in range(0, len(rows), _MANY):
            out.update(self._some_passages(rows[first : first + _MANY]))
        return out

    def _some_passages(self, rows: Sequence[int]) -> dict[int, Passage]:
        marks = ", ".join("?" * len(rows))
        with self._lock:  # passages and their texts are of the same state of the index
            found = {
                row[0]: row[1:]
                for row in self.rows(
                    f"SELECT row, id, file_id, start, stop, title, metadata FROM passages WHERE row IN ({marks})", rows
                )
            }
            texts = _Texts(self)
            out: dict[int, Passage] = {}
            for row in rows:
                if row not in found:
                    continue
                identifier, file_id, start, stop, title, metadata = found[row]
                try:
                    text = texts.cut(int(file_id), int(start), int(stop))
                    out[row] = Passage(str(identifier), text, str(title), json.loads(metadata))
                except (ValueError, TypeError) as error:
                    raise IndexCorruptedError(
                        f"A passage in the index {self._where} is damaged.", hint=RESTORE
                    ) from error
        return out

    def metadata_at(self, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The metadata of the passages of these rows."""
        out: dict[int, dict[str, Any]] = {}
        for first in range(0, len(rows), _MANY):
            some = rows[first : first + _MANY]
            marks = ", ".join("?" * len(some))
            for row, metadata in self.rows(f"SELECT row, metadata FROM passages WHERE row IN ({marks})", some):
                try:
                    out[int(row)] = json.loads(metadata)
                except (ValueError, TypeError) as error:
                    raise IndexCorruptedError(
                        f"A passage in the index {self._where} is damaged.", hint=RESTORE
                    ) from error
        return out

    def ids_at(self, rows: Sequence[int]) -> dict[int, str]:
        """The ids of the passages of these rows."""
        out: dict[int, str] = {}
        for first in range(0, len(rows), _MANY):
            some = rows[first : first + _MANY]
            marks = ", ".join("?" * len(some))
            out.update(self.rows(f"SELECT row, id FROM passages WHERE row IN ({marks})", some))
        return out

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of the passages of these ids."""
        out: dict[str, int] = {}
        for first in range(0, len(ids), _MANY):
            some = ids[first : first + _MANY]
            marks = ", ".join("?" * len(some))
            out.update(self.rows(f"SELECT id, row FROM passages WHERE id IN ({marks})", some))
        return out

    def passage_ids(self) -> set[str]:
        """Ids of all passages."""
        return {str(row[0]) for row in self.rows("SELECT id FROM passages")}

    def counts(self) -> tuple[int, int, int]:
        """(files, passages, characters)."""
        rows = self.rows("SELECT (SELECT count(*) FROM passages), count(*), total(characters) FROM files")
        passages, files, characters = rows[0]
        return int(files), int(passages), int(characters)

    def retired(self) -> set[str]:
        """Ids that the vector store may still hold and should not."""
        return {str(row[0]) for row in self.rows("SELECT id FROM retired")}

    def forget_retired(self, ids: Iterable[str]) -> None:
        """The vector store no longer holds these."""
        with self.transaction() as connection:
            connection.executemany("DELETE FROM retired WHERE id = ?", ((i,) for i in ids))

    # --- vectors ----------------------------------------------------------------------------------------------

    def put_vectors(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Store the vectors of passages, by id; those of passages that are gone are dropped."""
        with self.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO vectors SELECT row, ? FROM passages WHERE id = ?",
                ((data, identifier) for identifier, data in vectors),
            )

    def drop_vectors(self) -> None:
        """Forget all vectors."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM vectors")

    def without_vectors(self) -> set[str]:
        """Ids of passages that have no vectors yet."""
        return {
            str(row[0])
            for row in self.rows(
                "SELECT id FROM passages WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.row = passages.row)"
            )
        }

    def each_vector(self) -> Iterator[tuple[int, bytes]]:
        """Rows and their vectors, in order of rows; the file stays locked for other threads meanwhile."""
        with self._lock, translated(self._where):
            yield from self._connection.execute("SELECT row, data FROM vectors ORDER BY row")


class _Texts:
    """Slices of texts; a piece is unpacked once, and the last few are kept."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._pieces: dict[tuple[int, int], str] = {}

    def cut(self, file_id: int, start: int, stop: int) -> str:
        """``text[start:stop]`` of a file; ValueError if it has no such place."""
        first = start - start % TEXT_BLOCK
        text = "".join(self._piece(file_id, at) for at in range(first, max(stop, first + 1), TEXT_BLOCK))
        if stop - first > len(text):
            raise ValueError(f"the text of file {file_id} ends before {stop}")
        return text[start - first : stop - first]

    def _piece(self, file_id: int, start: int) -> str:
        key = file_id, start
        if key not in self._pieces:
            rows = self._manifest.rows("SELECT text FROM texts WHERE file_id = ? AND start = ?", key)
            if len(self._pieces) >= 64:
                self._pieces.clear()
            self._pieces[key] = unpack(rows[0][0]) if rows else ""
        return self._pieces[key]


def _kept(connection: sqlite3.Connection, source: str, ids: set[str]) -> dict[str, _Kept]:
    """Row, block and vectors of those passages of a file that it will have again."""
    found = connection.execute(
        "SELECT p.id, p.row, p.block, v.data FROM passages p JOIN files f ON f.id = p.file_id "
        "LEFT JOIN vectors v ON v.row = p.row WHERE f.source = ?",
        (source,),
    )
    return {identifier: (row, block, data) for identifier, row, block, data in found if identifier in ids}


def _retire(connection: sqlite3.Connection, source: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO retired SELECT p.id FROM passages p JOIN files f ON f.id = p.file_id WHERE f.source = ?",
        (source,),
    )
    connection.execute("DELETE FROM files WHERE source = ?", (source,))  # texts and passages go with it


def _dump(passage: Passage) -> str:
    return json.dumps(dict(passage.metadata), ensure_ascii=False)


def _record(row: tuple[Any, ...], where: str) -> FileRecord:
    source, location, content_hash, config_hash, title, format_, characters, problems = map(str, row)
    try:
        found = tuple(Problem(*entry) for entry in json.loads(problems))
        return FileRecord(source, location, content_hash, config_hash, title, format_, int(characters), found)
    except (ValueError, TypeError) as error:
        raise IndexCorruptedError(f"The entry of {source!r} in the index {where} is damaged.", hint=RESTORE) from error
