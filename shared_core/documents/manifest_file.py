"""The SQLite file of a manifest: its schema and rows, how it is opened and checked, and what its errors mean."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import uuid
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from shared_core.documents.loaders.extracted import Problem
from shared_core.documents.scan import INDEX_MARK
from shared_core.errors import IndexCorruptedError, SelfReflectError, StoreError
from shared_core.retrieval.tokenizer import Tokenizer

APPLICATION_ID = 0x53524658
SCHEMA_VERSION = 4
"""Raise it also when ``words_of`` changes: the words of indexes made before no longer fit."""
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
RESTORE = "Restore the index from a backup, or delete its folder and run `selfreflect index` again."
_TEXT_BLOCK = 32_768  # code points compressed together, so that a passage is read without the rest of its file
_MANY = 500  # values in one statement; older SQLite versions allow 999
# ``ascii`` splits at ASCII punctuation and spaces only, so words of ours joined by spaces come out unchanged.
# AUTOINCREMENT: an id is never used again, so readers cannot mistake a new file or passage for a deleted one.
_SCHEMA = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE files (
        id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL UNIQUE, location TEXT NOT NULL,
        content_hash TEXT NOT NULL, config_hash TEXT NOT NULL, title TEXT NOT NULL, format TEXT NOT NULL,
        characters INTEGER NOT NULL, problems TEXT NOT NULL);
    CREATE TABLE texts (
        id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, start INTEGER NOT NULL,
        text BLOB NOT NULL);
    CREATE TABLE passages (
        row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, start INTEGER NOT NULL, stop INTEGER NOT NULL,
        title TEXT NOT NULL, metadata TEXT NOT NULL, words INTEGER);
    CREATE TABLE vectors (row INTEGER PRIMARY KEY REFERENCES passages ON DELETE CASCADE, data BLOB NOT NULL);
    CREATE TABLE retired (id TEXT PRIMARY KEY);
    CREATE UNIQUE INDEX texts_of_file ON texts (file_id, start);
    CREATE INDEX passages_of_file ON passages (file_id, start);
    CREATE VIRTUAL TABLE words USING fts5(word, content='', tokenize='ascii');
    CREATE VIRTUAL TABLE places USING fts5vocab(words, 'instance');
"""
_CHECKED = ("meta", "files", "passages")  # read in full by every reader
_HELD = "Check permissions, and that no other program holds the file."
_UNUSABLE = (  # signs in SQLite's message of a file that is not damaged; what is wrong; what to do about it
    (
        ("full", "disk i/o"),
        "cannot be written: {}",
        "Free some disk space, then run the same command again. Finished work is kept.",
    ),
    (
        ("readonly", "read-only"),
        "cannot be written: {}",
        "Check permissions. It can still be searched; to change it, copy it.",
    ),
    (
        ("no such module",),
        "cannot be used: this Python's SQLite was built without FTS5",
        "Use a Python whose sqlite3 has FTS5, such as the builds of python.org, conda or uv.",
    ),
    (("locked", "busy", "unable to open", "interrupted"), "cannot be used: {}", _HELD),
)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Properties of an indexed file that are known without opening its text."""

    source: str
    location: str
    content_hash: str
    config_hash: str
    title: str = ""
    format: str = "text"
    characters: int = 0
    problems: tuple[Problem, ...] = ()


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer:
    return Tokenizer()


def words_of(text: str) -> list[str]:
    """Split a text into the words under which a passage is found.

    FTS5 would cut options (``-S``) at their dashes and fold their case, so they are in full-width letters.
    """
    return [word.translate(_WIDE) if word[0] == "-" else word for word in _tokenizer()(text)]


def _kept(connection: sqlite3.Connection, source: str, ids: set[str]) -> dict[str, tuple[int, int, bytes | None]]:
    """Row, number of words and vectors of those passages of a file that it will have again."""
    found = connection.execute(
        "SELECT p.id, p.row, p.words, v.data FROM passages p JOIN files f ON f.id = p.file_id "
        "LEFT JOIN vectors v ON v.row = p.row WHERE f.source = ?",
        (source,),
    )
    return {identifier: (row, words, data) for identifier, row, words, data in found if identifier in ids}


def _retire(connection: sqlite3.Connection, source: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO retired SELECT p.id FROM passages p JOIN files f ON f.id = p.file_id WHERE f.source = ?",
        (source,),
    )
    connection.execute("DELETE FROM files WHERE source = ?", (source,))  # cascades to texts, passages and vectors


def _record(row: tuple[Any, ...], where: str) -> FileRecord:
    source, location, content_hash, config_hash, title, format_, characters, problems = map(str, row)
    try:
        found = tuple(Problem(*entry) for entry in json.loads(problems))
        return FileRecord(source, location, content_hash, config_hash, title, format_, int(characters), found)
    except (ValueError, TypeError) as error:
        raise IndexCorruptedError(f"The entry of {source!r} in the index {where} is damaged.", hint=RESTORE) from error


def _unpack(packed: bytes) -> str:
    try:
        return zlib.decompress(packed).decode()
    except (zlib.error, UnicodeError, TypeError) as error:
        raise IndexCorruptedError("A text in the index is damaged.", hint=RESTORE) from error


def _write_schema(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN; {_SCHEMA}"
        f"INSERT INTO meta VALUES ('identity', '{uuid.uuid4().hex[:16]}');"
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Set the options that all our connections have."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA busy_timeout = 10000")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError:  # a read-only file keeps its journal mode
        return connection
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def writable(folder: Path) -> bool:
    """Whether this process may write to an index in ``folder``."""
    mark = folder / INDEX_MARK
    return os.access(folder, os.W_OK) and (not mark.exists() or os.access(mark, os.W_OK))


def _identity_of(folder: Path) -> tuple[int, ...]:
    """Return numbers by which the folder's file is known from one that was put in its place; empty if there is none."""
    mark = folder / INDEX_MARK
    files = [mark] if writable(folder) else [mark, mark.with_name(f"{mark.name}-wal")]
    found = [file.stat() for file in files if file.exists()]
    if writable(folder):
        return tuple(stat.st_ino for stat in found)
    return tuple(number for stat in found for number in (stat.st_ino, stat.st_size, stat.st_mtime_ns))


class _CopyConnection(sqlite3.Connection):
    """A connection that can be weakly referenced, so that the copy it reads is removed with it."""


def _connect(path: Path) -> sqlite3.Connection:
    if writable(path.parent):
        return sqlite3.connect(_uri(path, "mode=rw"), uri=True, check_same_thread=False)
    journal = path.with_name(path.name + "-wal")
    if not journal.exists() or not journal.stat().st_size:
        # Nobody is writing. ``immutable`` keeps SQLite from creating files beside it, which it may not.
        return sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True, check_same_thread=False)
    # The journal of a killed writer belongs to the index: read a copy that includes it.
    copy = Path(tempfile.mkdtemp(prefix="selfreflect-"))
    try:
        for file in (path, journal):
            shutil.copyfile(file, copy / file.name)
        connection = sqlite3.connect(
            _uri(copy / path.name, "mode=rw"), uri=True, check_same_thread=False, factory=_CopyConnection
        )
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    weakref.finalize(connection, shutil.rmtree, copy, ignore_errors=True)
    return connection


def _uri(path: Path, options: str) -> str:
    return f"{path.resolve().as_uri()}?{options}"


def _verify(connection: sqlite3.Connection, folder: Path, *, update: bool) -> None:
    """Check the file: every page for an update, else the tables that a reader reads in full."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application != APPLICATION_ID:
        raise IndexCorruptedError(f"{folder / INDEX_MARK} is not the manifest of an index.", hint=RESTORE)
    if version < SCHEMA_VERSION:
        raise StoreError(
            f"The index {folder} has format {version}, which is no longer read.",
            hint=f"Delete the folder, then index the documents again: selfreflect index DOCUMENTS --index {folder}",
        )
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"The index {folder} has format {version}; this version of selfreflect reads format {SCHEMA_VERSION}.",
            hint="Upgrade selfreflect, or index the documents again into another folder.",
        )
    # SQLite checks pages of the large tables as it reads them.
    for check in ("1",) if update else _CHECKED:
        result = connection.execute(f"PRAGMA quick_check({check})").fetchone()[0]
        if result != "ok":
            raise IndexCorruptedError(f"The index {folder} is damaged: {result}.", hint=RESTORE)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn SQLite's errors into ours, telling a damaged file from one that cannot be used now."""
    try:
        yield
    except SelfReflectError:
        raise
    except sqlite3.DatabaseError as error:
        message = str(error).lower()
        for signs, problem, hint in _UNUSABLE:
            if any(sign in message for sign in signs):
                raise StoreError(f"The index {where} {problem.format(error)}.", hint=hint) from error
        if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)):
            raise StoreError(f"The index {where} cannot be used: {error}.", hint=_HELD) from error
        raise IndexCorruptedError(f"The index {where} is damaged: {error}.", hint=RESTORE) from error
