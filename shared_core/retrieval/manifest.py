"""The manifest: what an index holds, in one SQLite file. It is the truth; vectors are derived from it.

A file's text, its passages and its hash change together in one transaction, so at any moment each file is there in its
old state or its new one. Passages are stored as offsets into the text: they cannot disagree with it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core.errors import IndexCorruptedError, IndexMissingError, InputError, SelfReflectError, StoreError
from shared_core.retrieval.loaders.base import Problem
from shared_core.retrieval.scan import INDEX_MARK
from shared_core.types import Passage

APPLICATION_ID = 0x53524658
SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
-- AUTOINCREMENT: an id is never used again, so that a reader cannot take one file's passages for another's.
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL UNIQUE, location TEXT NOT NULL,
    content_hash TEXT NOT NULL, config_hash TEXT NOT NULL, title TEXT NOT NULL, format TEXT NOT NULL,
    characters INTEGER NOT NULL,
    problems TEXT NOT NULL
);
CREATE TABLE texts (file_id INTEGER PRIMARY KEY REFERENCES files ON DELETE CASCADE, text BLOB NOT NULL);
CREATE TABLE passages (
    id TEXT PRIMARY KEY, file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, title TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX passages_of_file ON passages (file_id, start);
-- Passages that are gone from here and may still be in the vector store.
CREATE TABLE retired (id TEXT PRIMARY KEY);
"""
_NOT_CORRUPT = ("locked", "busy", "readonly", "read-only", "unable to open", "full", "interrupted")
_RESTORE = "Restore the index from a copy, or delete its folder and run `selfreflect index` again."


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

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self._connection = connection
        self._where = where
        self._lock = threading.RLock()

    @classmethod
    def in_memory(cls) -> Manifest:
        """A manifest that ends with the process."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        _write_schema(connection)
        return cls(_prepared(connection), "memory")

    @classmethod
    def create(cls, folder: Path) -> None:
        """Make an empty manifest in ``folder``: complete under its name, or not there at all."""
        temporary = folder / f"{INDEX_MARK}.{uuid.uuid4().hex}.new"
        try:
            connection = sqlite3.connect(temporary)
            _write_schema(connection)
            connection.close()
            os.replace(temporary, folder / INDEX_MARK)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"No index can be made in {folder}: {error}.", hint="Check that the folder can be written to."
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        """Open the manifest in ``folder`` and check it page by page.

        Raises:
            IndexMissingError: there is none.
            IndexCorruptedError: it is damaged or no manifest. Nothing is changed or deleted.
            StoreError: it is of a newer version, or cannot be opened (permissions, another program's lock).
        """
        path = folder / INDEX_MARK
        if not path.is_file():
            if (folder / "chroma").is_dir():
                raise IndexCorruptedError(f"The index {folder} has vectors but no {INDEX_MARK}.", hint=_RESTORE)
            raise IndexMissingError(
                f"There is no index in {folder}.", hint=f"Make one: selfreflect index DOCUMENTS --index {folder}"
            )
        with _translated(str(folder)):
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, check_same_thread=False)
            try:
                _verify(connection, folder)
                return cls(_prepared(connection), str(folder))
            except BaseException:
                connection.close()
                raise

    def close(self) -> None:
        """Close the file; using the manifest afterwards raises StoreError."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _translated(self._where), self._connection:
            yield self._connection

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock, _translated(self._where):
            return self._connection.execute(query, values).fetchall()

    # --- settings of the index ---------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        """A stored setting."""
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def store(self, key: str, value: str) -> None:
        """Store a setting."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def identity(self) -> str:
        """Made at random when the index was; 16 hexadecimal digits."""
        identity = self.get("identity")
        if not identity:
            raise IndexCorruptedError(f"The index {self._where} has lost its identity.", hint=_RESTORE)
        return identity

    # --- files ------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, FileRecord]:
        """All files by source, in order of source."""
        rows = self._rows(
            "SELECT source, location, content_hash, config_hash, title, format, characters, problems "
            "FROM files ORDER BY source"
        )
        return {str(row[0]): _record(row, self._where) for row in rows}

    def put(self, record: FileRecord, text: str, passages: Iterable[Passage]) -> None:
        """Add a file or replace its former state, all in one transaction."""
        rows = [(p.id, p.metadata["start"], p.metadata["end"], p.title, _dump(p)) for p in passages]
        blob = zlib.compress(text.encode(), 6)
        with self._transaction() as connection:
            _retire(connection, record.source)
            cursor = connection.execute(
                "INSERT INTO files (source, location, content_hash, config_hash, title, format, characters, problems) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(record.source, record.location, record.content_hash, record.config_hash, record.title),
                    *(record.format, record.characters, json.dumps(record.problems)),
                ),
            )
            connection.execute("INSERT INTO texts VALUES (?, ?)", (cursor.lastrowid, blob))
            connection.executemany(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)", ((r[0], cursor.lastrowid, *r[1:]) for r in rows)
            )
            connection.executemany("DELETE FROM retired WHERE id = ?", ((r[0],) for r in rows))

    def touch(self, source: str, location: str) -> None:
        """Note where an unchanged file lies now."""
        with self._transaction() as connection:
            connection.execute("UPDATE files SET location = ? WHERE source = ?", (location, source))

    def remove(self, source: str) -> None:
        """Take a file out."""
        with self._transaction() as connection:
            _retire(connection, source)

    def text(self, source: str) -> str:
        """A file's text; InputError if the index has no such file."""
        rows = self._rows("SELECT text FROM texts JOIN files ON files.id = file_id WHERE source = ?", (source,))
        if not rows:
            raise InputError(
                f"The index has no document {source!r}.", hint="Sources are paths relative to the indexed folder."
            )
        return self._unpack(rows[0][0])

    def _unpack(self, blob: bytes) -> str:
        try:
            return zlib.decompress(blob).decode()
        except (zlib.error, UnicodeError, TypeError) as error:
            raise IndexCorruptedError(f"A text in the index {self._where} is damaged.", hint=_RESTORE) from error

    # --- passages ---------------------------------------------------------------------------------------------

    def passages(self, only: Collection[str] | None = None) -> Iterator[Passage]:
        """Passages in order of source and start; with ``only``, those of these ids. One file is in memory at a time."""
        for file_id, _ in self._rows("SELECT id, source FROM files ORDER BY source"):
            rows = self._rows(
                "SELECT id, start, stop, title, metadata FROM passages WHERE file_id = ? ORDER BY start, id", (file_id,)
            )
            wanted = rows if only is None else [row for row in rows if row[0] in only]
            packed = self._rows("SELECT text FROM texts WHERE file_id = ?", (file_id,)) if wanted else []
            if not packed:  # nothing wanted, or the file was replaced meanwhile
                continue
            text = self._unpack(packed[0][0])
            for identifier, start, stop, title, metadata in wanted:
                try:
                    yield Passage(str(identifier), text[int(start) : int(stop)], str(title), json.loads(metadata))
                except (ValueError, TypeError) as error:
                    raise IndexCorruptedError(
                        f"A passage in the index {self._where} is damaged.", hint=_RESTORE
                    ) from error

    def passage_ids(self) -> set[str]:
        """Ids of all passages."""
        return {str(row[0]) for row in self._rows("SELECT id FROM passages")}

    def counts(self) -> tuple[int, int, int]:
        """(files, passages, characters)."""
        rows = self._rows("SELECT (SELECT count(*) FROM passages), count(*), total(characters) FROM files")
        passages, files, characters = rows[0]
        return int(files), int(passages), int(characters)

    def retired(self) -> set[str]:
        """Ids that the vector store may still hold and should not."""
        return {str(row[0]) for row in self._rows("SELECT id FROM retired")}

    def forget_retired(self, ids: Iterable[str]) -> None:
        """The vector store no longer holds these."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM retired WHERE id = ?", ((i,) for i in ids))


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
        raise IndexCorruptedError(f"The entry of {source!r} in the index {where} is damaged.", hint=_RESTORE) from error


def _write_schema(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN; {_SCHEMA} INSERT INTO meta VALUES ('identity', '{uuid.uuid4().hex[:16]}');"
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA busy_timeout = 10000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _verify(connection: sqlite3.Connection, folder: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise IndexCorruptedError(f"{folder / INDEX_MARK} is not a manifest of an index.", hint=_RESTORE)
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"The index {folder} has format {version}, this program reads format {SCHEMA_VERSION}.",
            hint="Use the program's version that made it, or index the documents again into another folder.",
        )
    result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if result != "ok":
        raise IndexCorruptedError(f"The index {folder} is damaged: {result}.", hint=_RESTORE)


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """SQLite's errors as ours: is the file damaged, or can it only not be used now?"""
    try:
        yield
    except SelfReflectError:
        raise
    except sqlite3.DatabaseError as error:
        message = str(error).lower()
        if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)) or any(
            word in message for word in _NOT_CORRUPT
        ):
            raise StoreError(
                f"The index {where} cannot be used: {error}.",
                hint="Check permissions and free space, and that no other program holds the file.",
            ) from error
        raise IndexCorruptedError(f"The index {where} is damaged: {error}.", hint=_RESTORE) from error
