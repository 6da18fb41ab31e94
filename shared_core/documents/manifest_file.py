"""The manifest's file: its tables, opening and checking it, bringing an earlier version's up to date."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import uuid
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared_core.documents.scan import INDEX_MARK
from shared_core.errors import IndexCorruptedError, IndexMissingError, SelfReflectError, StoreError

APPLICATION_ID = 0x53524658
SCHEMA_VERSION = 2
TEXT_BLOCK = 32_768
"""Code points of a text that are compressed together: a passage is read without the rest of its file."""
_TABLES = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # AUTOINCREMENT: an id is never used again, so that a reader cannot take one file's passages for another's.
    "files": """CREATE TABLE files (
        id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL UNIQUE, location TEXT NOT NULL,
        content_hash TEXT NOT NULL, config_hash TEXT NOT NULL, title TEXT NOT NULL, format TEXT NOT NULL,
        characters INTEGER NOT NULL, problems TEXT NOT NULL)""",
    "texts": """CREATE TABLE texts (
        id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, start INTEGER NOT NULL,
        text BLOB NOT NULL)""",
    # block: where the passage's words are; NULL as long as they are nowhere.
    "passages": """CREATE TABLE passages (
        row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, start INTEGER NOT NULL, stop INTEGER NOT NULL,
        title TEXT NOT NULL, metadata TEXT NOT NULL, block INTEGER)""",
    # Of a passage's sentences (``vectors.Coded``).
    "vectors": """CREATE TABLE vectors (
        row INTEGER PRIMARY KEY REFERENCES passages ON DELETE CASCADE, data BLOB NOT NULL)""",
    # Words of some thousand passages (``lexical``). A passage that is gone stays in its block until that is made anew.
    "blocks": "CREATE TABLE blocks (id INTEGER PRIMARY KEY AUTOINCREMENT, rows BLOB NOT NULL, lengths BLOB NOT NULL)",
    "postings": """CREATE TABLE postings (
        block INTEGER NOT NULL REFERENCES blocks ON DELETE CASCADE, word TEXT NOT NULL, places BLOB NOT NULL,
        PRIMARY KEY (block, word)) WITHOUT ROWID""",
    # Passages that are gone from here and may still be in the vector store.
    "retired": "CREATE TABLE retired (id TEXT PRIMARY KEY)",
}
_INDEXES = (
    "CREATE UNIQUE INDEX texts_of_file ON texts (file_id, start)",
    "CREATE INDEX passages_of_file ON passages (file_id, start)",
    "CREATE INDEX passages_of_block ON passages (block)",
)
_CHECKED = ("meta", "files", "passages", "blocks")
_NOT_CORRUPT = ("locked", "busy", "readonly", "read-only", "unable to open", "full", "interrupted", "disk i/o error")
RESTORE = "Restore the index from a copy, or delete its folder and run `selfreflect index` again."


def create(folder: Path) -> None:
    """Make an empty manifest in ``folder``: complete under its name, or not there at all; readable by its owner only.

    Raises:
        StoreError: the folder cannot be written to.
    """
    temporary = folder / f"{INDEX_MARK}.{uuid.uuid4().hex}.new"
    try:
        # Other files that SQLite makes beside it get the same rights.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(temporary)
        connection.execute("PRAGMA page_size = 16384")  # vectors and postings leave less room unused in larger pages
        write_schema(connection)
        connection.close()
        os.replace(temporary, folder / INDEX_MARK)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"No index can be made in {folder}: {error}.",
            hint="Check that the folder can be written to and that the disk is not full.",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_schema(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty database."""
    connection.executescript(
        f"BEGIN; {'; '.join((*_TABLES.values(), *_INDEXES))};"
        f"INSERT INTO meta VALUES ('identity', '{uuid.uuid4().hex[:16]}');"
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def open_file(folder: Path, *, update: bool = False, trust: bool = False) -> sqlite3.Connection:
    """Open the manifest in ``folder`` and check it; one that cannot be written to is opened for reading.

    Args:
        folder: of the index.
        update: check it page by page, and bring it up to date if an earlier version made it.
        trust: it was checked a moment ago.

    Raises:
        IndexMissingError: there is none.
        IndexCorruptedError: it is damaged or no manifest. Nothing is changed or deleted.
        StoreError: it is of another version, or cannot be opened (permissions, another program's lock).
    """
    path = folder / INDEX_MARK
    if not path.is_file():
        if (folder / "chroma").is_dir():
            raise IndexCorruptedError(f"The index {folder} has vectors but no {INDEX_MARK}.", hint=RESTORE)
        raise IndexMissingError(
            f"There is no index in {folder}.", hint=f"Make one: selfreflect index DOCUMENTS --index {folder}"
        )
    with translated(str(folder)):
        connection = _connect(path)
        try:
            if not trust:
                _verify(connection, folder, update=update)
            return prepared(connection)
        except BaseException:
            connection.close()
            raise


def prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection with the settings all of ours have."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA busy_timeout = 10000")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError:  # of a file that cannot be written to the journal is as it is
        return connection
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def writable(folder: Path) -> bool:
    """Whether an index there can be written to."""
    mark = folder / INDEX_MARK
    return os.access(folder, os.W_OK) and (not mark.exists() or os.access(mark, os.W_OK))


class _OfCopy(sqlite3.Connection):
    """Of a class of our own, so that its end can be noticed and the copy removed."""


def _connect(path: Path) -> sqlite3.Connection:
    if writable(path.parent):
        return sqlite3.connect(_uri(path, "mode=rw"), uri=True, check_same_thread=False)
    journal = path.with_name(path.name + "-wal")
    if not journal.exists() or not journal.stat().st_size:
        # Nobody is writing, and SQLite need not make files of its own beside it, which it could not.
        return sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True, check_same_thread=False)
    # What a killed writer left in its journal belongs to the index: read a copy that takes it in.
    copy = Path(tempfile.mkdtemp(prefix="selfreflect-"))
    try:
        for file in (path, journal):
            shutil.copyfile(file, copy / file.name)
        connection = sqlite3.connect(
            _uri(copy / path.name, "mode=rw"), uri=True, check_same_thread=False, factory=_OfCopy
        )
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    weakref.finalize(connection, shutil.rmtree, copy, ignore_errors=True)
    return connection


def _uri(path: Path, options: str) -> str:
    return f"{path.resolve().as_uri()}?{options}"


def _verify(connection: sqlite3.Connection, folder: Path, *, update: bool) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise IndexCorruptedError(f"{folder / INDEX_MARK} is not a manifest of an index.", hint=RESTORE)
    if version == 1 and not update:
        raise StoreError(
            f"The index {folder} was made by an earlier version of this program.",
            hint=f"Bring it up to date with the same documents: selfreflect index DOCUMENTS --index {folder} "
            "(texts are kept, vectors are computed anew).",
        )
    if version not in (1, SCHEMA_VERSION):
        raise StoreError(
            f"The index {folder} has format {version}, this program reads format {SCHEMA_VERSION}.",
            hint="Use the program's version that made it, or index the documents again into another folder.",
        )
    # Reading looks at all of these tables anyhow; of the large ones SQLite checks the pages it reads.
    for check in ("1",) if update or version == 1 else _CHECKED:
        result = connection.execute(f"PRAGMA quick_check({check})").fetchone()[0]
        if result != "ok":
            raise IndexCorruptedError(f"The index {folder} is damaged: {result}.", hint=RESTORE)
    if version == 1:
        _upgrade(connection)


def _upgrade(connection: sqlite3.Connection) -> None:
    """Format 1, which had whole texts in one piece and its vectors in Chroma only, to 2, in one transaction."""
    files = [row[0] for row in connection.execute("SELECT file_id FROM texts ORDER BY file_id")]
    dense = connection.execute("SELECT 1 FROM meta WHERE key = 'embedder'").fetchone() is not None
    connection.execute("PRAGMA foreign_keys = OFF")  # does nothing within a transaction
    usual, connection.isolation_level = connection.isolation_level, None
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("DROP INDEX passages_of_file")
        connection.execute("ALTER TABLE texts RENAME TO old_texts")
        connection.execute("ALTER TABLE passages RENAME TO old_passages")
        for name in ("texts", "passages", "vectors", "blocks", "postings"):
            connection.execute(_TABLES[name])
        for index in _INDEXES:
            connection.execute(index)
        connection.execute(
            "INSERT INTO passages (id, file_id, start, stop, title, metadata) "
            "SELECT id, file_id, start, stop, title, metadata FROM old_passages ORDER BY file_id, start, id"
        )
        for file in files:
            packed = connection.execute("SELECT text FROM old_texts WHERE file_id = ?", (file,)).fetchone()[0]
            put_text(connection, file, unpack(packed))
        connection.execute("DROP TABLE old_passages")
        connection.execute("DROP TABLE old_texts")
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('dense', ?)", ("own" if dense else "none",))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('outdated_vectors', '1')")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    finally:
        connection.isolation_level = usual


def unpack(packed: bytes) -> str:
    """A stored piece of text; IndexCorruptedError if it is damaged."""
    try:
        return zlib.decompress(packed).decode()
    except (zlib.error, UnicodeError, TypeError) as error:
        raise IndexCorruptedError("A text in the index is damaged.", hint=RESTORE) from error


def put_text(connection: sqlite3.Connection, file_id: int, text: str) -> None:
    """Store a file's text in its pieces."""
    connection.executemany(
        "INSERT INTO texts (file_id, start, text) VALUES (?, ?, ?)",
        (
            (file_id, start, zlib.compress(text[start : start + TEXT_BLOCK].encode(), 6))
            for start in range(0, max(1, len(text)), TEXT_BLOCK)
        ),
    )


@contextmanager
def translated(where: str) -> Iterator[None]:
    """SQLite's errors as ours: is the file damaged, or can it only not be used now?"""
    try:
        yield
    except SelfReflectError:
        raise
    except sqlite3.DatabaseError as error:
        message = str(error).lower()
        if "full" in message or "disk i/o" in message:
            raise StoreError(
                f"The index {where} cannot be written: {error}.",
                hint="Free some space on its disk, then run the same command again. What was indexed is kept.",
            ) from error
        if "readonly" in message or "read-only" in message:
            raise StoreError(
                f"The index {where} cannot be written: {error}.",
                hint="It can be asked as it is; to change it, copy it.",
            ) from error
        if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)) or any(
            word in message for word in _NOT_CORRUPT
        ):
            raise StoreError(
                f"The index {where} cannot be used: {error}.",
                hint="Check permissions, and that no other program holds the file.",
            ) from error
        raise IndexCorruptedError(f"The index {where} is damaged: {error}.", hint=RESTORE) from error
