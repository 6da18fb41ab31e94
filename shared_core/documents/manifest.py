"""The manifest: everything an index knows, in one SQLite file.

A file's text, its passages, their words and the file's hash change together in one transaction, so at any moment each
file is there in its old state or in its new one. Passages are stored as offsets into the text, so they cannot disagree
with it. Sentence vectors lie beside the passages and are added by a later step (``store``).

Words are kept in an FTS5 table, which ``stored`` reads through FTS5's vocabulary table. The table stores no content,
and SQLite before 3.43 cannot delete from such a table. Words of deleted passages therefore stay until they are the
larger part, when the table is filled anew; readers skip them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared_core.documents.manifest_file import (
    _MANY,
    _TEXT_BLOCK,
    RESTORE,
    FileRecord,
    _connect,
    _identity_of,
    _kept,
    _prepared,
    _record,
    _retire,
    _unpack,
    _verify,
    _write_schema,
    translated,
    words_of,
    writable,
)
from shared_core.documents.scan import INDEX_MARK
from shared_core.errors import IndexCorruptedError, IndexMissingError, InputError, StoreError
from shared_core.retrieval.base import batches, searched_text
from shared_core.types import Passage

__all__ = ["RESTORE", "FileRecord", "Manifest", "words_of", "writable"]


class Manifest:
    """The open manifest. Safe to use from several threads; a lock file keeps other processes from writing."""

    def __init__(self, connection: sqlite3.Connection, where: str, folder: Path | None = None) -> None:
        self._connection = connection
        self._where = where
        self._folder = folder
        self._opened_file = _identity_of(folder) if folder is not None else ()
        self._lock = threading.RLock()

    @classmethod
    def in_memory(cls) -> Manifest:
        """Make a manifest that ends with the process."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        with translated("memory"):
            _write_schema(connection)
            return cls(_prepared(connection), "memory")

    @classmethod
    def create(cls, folder: Path) -> None:
        """Write an empty manifest into ``folder``, whole or not at all, readable by its owner only.

        StoreError if the folder cannot be written to.
        """
        temporary = folder / f"{INDEX_MARK}.{uuid.uuid4().hex}.new"
        try:
            # SQLite gives the journal files that it makes later the same permissions.
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with translated(str(folder)):
                connection = sqlite3.connect(temporary)
                connection.execute("PRAGMA page_size = 16384")  # vectors waste less space in larger pages
                _write_schema(connection)
                connection.close()
            os.replace(temporary, folder / INDEX_MARK)
        except OSError as error:
            raise StoreError(
                f"The index cannot be created in {folder}: {error}.",
                hint="Check that the folder is writable and that the disk is not full.",
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def open(cls, folder: Path, *, update: bool = False, trust: bool = False) -> Manifest:
        """Open the manifest in ``folder`` and check it; without write permission it is opened for reading.

        Args:
            update: check every page.
            trust: skip the checks because they were made a moment ago.

        Raises:
            IndexMissingError: there is none.
            IndexCorruptedError: the file is damaged or not a manifest. Nothing is changed or deleted.
            StoreError: it has another format, or cannot be opened (permissions, another program's lock).
        """
        path = folder / INDEX_MARK
        if not path.is_file():
            if (folder / "chroma").is_dir():
                raise IndexCorruptedError(f"The index {folder} has vectors but no {INDEX_MARK}.", hint=RESTORE)
            raise IndexMissingError(
                f"There is no index in {folder}.", hint=f"Create one: selfreflect index DOCUMENTS --index {folder}"
            )
        with translated(str(folder)):
            connection = _connect(path)
            try:
                if not trust:
                    _verify(connection, folder, update=update)
                return cls(_prepared(connection), str(folder), folder)
            except BaseException:
                connection.close()
                raise

    def snapshot(self) -> Manifest:
        """Open the same content for a reader of its own, which sees no later changes."""
        if self._folder is None:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            with self._lock, translated(self._where):
                self._connection.backup(connection)
            return Manifest(connection, self._where)
        copy = Manifest.open(self._folder, trust=True)
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
        """Yield the connection for changes that are made all together or not at all."""
        with self._lock, translated(self._where), self._connection:
            yield self._connection

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query and fetch all its rows."""
        with self._lock, translated(self._where):
            return self._connection.execute(query, values).fetchall()

    def _rows_in(self, query: str, keys: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Run a query that ends in ``IN``, a batch of keys at a time."""
        for some in batches(keys, _MANY):
            yield from self.rows(f"{query} ({', '.join('?' * len(some))})", some)

    def _ids(self, query: str) -> set[str]:
        return {str(row[0]) for row in self.rows(query)}

    # --- settings of the index ---------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        """Read a stored setting."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def store(self, key: str, value: str | None) -> None:
        """Store a setting if it differs from the stored one; ``None`` deletes it."""
        if self.get(key) == value:
            return
        with self.transaction() as connection:
            if value is None:
                connection.execute("DELETE FROM meta WHERE key = ?", (key,))
            else:
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def identity(self) -> str:
        """Sixteen hexadecimal digits, drawn at random when the index was created."""
        identity = self.get("identity")
        if not identity:
            raise IndexCorruptedError(f"The index {self._where} has lost its identity.", hint=RESTORE)
        return identity

    def changes(self) -> tuple[int, ...]:
        """Return numbers that differ once anybody has changed the file since the last call; cheap."""
        (seen,) = self.rows("PRAGMA data_version")[0]  # of other connections' changes
        return int(seen), self._connection.total_changes, *self._opened_file

    def replaced(self) -> bool:
        """Whether this reads another file than the one that is in the folder now.

        Without write permission it is read as if it never changed, so there any change of it counts.
        """
        return self._folder is not None and self._opened_file != _identity_of(self._folder)

    @property
    def version(self) -> str:
        """Twelve hexadecimal digits that name the content: others after every change of a document."""
        # Each file put has a new number, and a removal leaves fewer files; vectors come and go by themselves.
        query = (
            "SELECT (SELECT max(seq) FROM sqlite_sequence WHERE name = 'files'), (SELECT count(*) FROM files), "
            "(SELECT count(*) FROM vectors)"
        )
        named = (self.rows(query), self.identity, self.get("settings"), self.get("embedder"))
        return hashlib.sha256(repr(named).encode()).hexdigest()[:12]

    # --- files ------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, FileRecord]:
        """List all files by source, in order of source."""
        rows = self.rows(
            "SELECT source, location, content_hash, config_hash, title, format, characters, problems FROM files "
            "ORDER BY source"
        )
        return {str(row[0]): _record(row, self._where) for row in rows}

    def put(self, record: FileRecord, text: str, passages: Iterable[Passage]) -> None:
        """Add a file or replace its former state, in one transaction.

        Passages that did not change keep their row, words and vectors.
        """
        new = list(passages)
        with self.transaction() as connection:
            kept = _kept(connection, record.source, {p.id for p in new})
            words = {p.id: words_of(searched_text(p)) for p in new}
            _retire(connection, record.source)
            columns = "source, location, content_hash, config_hash, title, format, characters, problems"
            of_file = (
                *(record.source, record.location, record.content_hash, record.config_hash, record.title),
                *(record.format, record.characters, json.dumps(record.problems)),
            )
            cursor = connection.execute(f"INSERT INTO files ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", of_file)
            file_id = int(cursor.lastrowid or 0)
            blocks = (
                (file_id, start, zlib.compress(text[start : start + _TEXT_BLOCK].encode(), 6))
                for start in range(0, max(1, len(text)), _TEXT_BLOCK)
            )
            connection.executemany("INSERT INTO texts (file_id, start, text) VALUES (?, ?, ?)", blocks)
            for p in new:
                count = len(words[p.id])
                row, known, vectors = kept.get(p.id) or (None, None, None)
                row = row if known == count else None  # its words were made by an earlier version
                values = (
                    *(row, p.id, file_id, p.metadata["start"], p.metadata["end"], p.title),
                    *(json.dumps(dict(p.metadata), ensure_ascii=False), count),
                )
                columns = "row, id, file_id, start, stop, title, metadata, words"
                query = f"INSERT INTO passages ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                made = connection.execute(query, values).lastrowid
                if row is None:
                    connection.execute("INSERT INTO words (rowid, word) VALUES (?, ?)", (made, " ".join(words[p.id])))
                if vectors is not None:
                    connection.execute("INSERT INTO vectors VALUES (?, ?)", (made, vectors))
            connection.executemany("DELETE FROM retired WHERE id = ?", ((p.id,) for p in new))

    def touch(self, source: str, location: str) -> None:
        """Record the new location of an unchanged file."""
        with self.transaction() as connection:
            connection.execute("UPDATE files SET location = ? WHERE source = ?", (location, source))

    def remove(self, source: str) -> None:
        """Delete a file with its text and passages."""
        with self.transaction() as connection:
            _retire(connection, source)

    def text(self, source: str) -> str:
        """Read a file's text; InputError if the index has no such file."""
        query = "SELECT text FROM texts JOIN files ON files.id = file_id WHERE source = ? ORDER BY texts.start"
        blocks = self.rows(query, (source,))
        if not blocks:
            hint = "Sources are paths relative to the indexed folder."
            raise InputError(f"The index has no document {source!r}.", hint=hint)
        return "".join(_unpack(block[0]) for block in blocks)

    # --- passages ---------------------------------------------------------------------------------------------

    def passages(self, only: Collection[str] | None = None) -> Iterator[Passage]:
        """Iterate over passages by source and start, or over those with the given ids; few are in memory at a time."""
        for (file_id,) in self.rows("SELECT id FROM files ORDER BY source"):
            found = self.rows("SELECT row, id FROM passages WHERE file_id = ? ORDER BY start, id", (file_id,))
            wanted = [int(row) for row, identifier in found if only is None or identifier in only]
            for some in batches(wanted, _MANY):
                yield from self.passages_at(some).values()

    def passages_at(self, rows: Sequence[int]) -> dict[int, Passage]:
        """Read the passages of these rows, by row and in that order; unknown rows are left out."""
        blocks: dict[tuple[int, int], str] = {}  # neighbouring passages share a block of text

        def cut(file_id: int, start: int, stop: int) -> str:
            first = start - start % _TEXT_BLOCK
            text = ""
            for at in range(first, max(stop, first + 1), _TEXT_BLOCK):
                if (file_id, at) not in blocks:
                    if len(blocks) >= 64:  # a few megabytes
                        blocks.clear()
                    found = self.rows("SELECT text FROM texts WHERE file_id = ? AND start = ?", (file_id, at))
                    blocks[file_id, at] = _unpack(found[0][0]) if found else ""
                text += blocks[file_id, at]
            if stop - first > len(text):
                raise ValueError(f"the text of file {file_id} ends before {stop}")
            return text[start - first : stop - first]

        with self._lock, self._damage_noticed():  # the lock: passages and texts are of the same state
            query = "SELECT row, id, file_id, start, stop, title, metadata FROM passages WHERE row IN"
            found = {row[0]: row[1:] for row in self._rows_in(query, rows)}
            out: dict[int, Passage] = {}
            for row in filter(found.__contains__, rows):
                identifier, file_id, start, stop, title, metadata = found[row]
                out[row] = Passage(str(identifier), cut(file_id, start, stop), str(title), json.loads(metadata))
            return out

    def metadata_at(self, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Read the metadata of the passages of these rows."""
        with self._damage_noticed():
            found = self._rows_in("SELECT row, metadata FROM passages WHERE row IN", rows)
            return {int(row): json.loads(metadata) for row, metadata in found}

    def ids_at(self, rows: Sequence[int]) -> dict[int, str]:
        """Look up the ids of the passages of these rows."""
        return dict(self._rows_in("SELECT row, id FROM passages WHERE row IN", rows))

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Look up the rows of the passages of these ids."""
        return dict(self._rows_in("SELECT id, row FROM passages WHERE id IN", ids))

    def passage_ids(self) -> set[str]:
        """Ids of all passages."""
        return self._ids("SELECT id FROM passages")

    def counts(self) -> tuple[int, int, int]:
        """Count files, passages and characters."""
        rows = self.rows("SELECT (SELECT count(*) FROM passages), count(*), total(characters) FROM files")
        passages, files, characters = rows[0]
        return int(files), int(passages), int(characters)

    def retired(self) -> set[str]:
        """Ids of deleted passages that a vector store outside may still hold."""
        return self._ids("SELECT id FROM retired")

    def forget_retired(self) -> None:
        """Note that no vector store holds deleted passages any more."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM retired")

    @contextmanager
    def _damage_noticed(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError) as error:
            raise IndexCorruptedError(f"A passage in the index {self._where} is damaged.", hint=RESTORE) from error

    # --- vectors ----------------------------------------------------------------------------------------------

    def put_vectors(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Store the vectors of passages, by id; vectors of unknown passages are dropped."""
        with self.transaction() as connection:
            query = "INSERT OR REPLACE INTO vectors SELECT row, ? FROM passages WHERE id = ?"
            connection.executemany(query, ((data, identifier) for identifier, data in vectors))

    def drop_vectors(self) -> None:
        """Delete all vectors."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM vectors")

    def without_vectors(self) -> set[str]:
        """Ids of passages that have no vectors yet."""
        known = "SELECT 1 FROM vectors WHERE vectors.row = passages.row"
        return self._ids(f"SELECT id FROM passages WHERE NOT EXISTS ({known})")

    def each_vector(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over (row, vectors) in order of rows; other threads wait meanwhile."""
        with self._lock, translated(self._where):
            yield from self._connection.execute("SELECT row, data FROM vectors ORDER BY row")

    # --- words ------------------------------------------------------------------------------------------------

    def tidy_words(self) -> None:
        """Fill the table of words anew if most of its rows belong to deleted passages."""
        if self.rows("SELECT count(*) FROM words")[0][0] > 2 * self.counts()[1]:
            with self.transaction() as connection:
                connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
                rows = [int(row) for (row,) in connection.execute("SELECT row FROM passages ORDER BY row")]
                for some in batches(rows, _MANY):
                    for row, passage in self.passages_at(some).items():
                        values = row, " ".join(words_of(searched_text(passage)))
                        connection.execute("INSERT INTO words (rowid, word) VALUES (?, ?)", values)
