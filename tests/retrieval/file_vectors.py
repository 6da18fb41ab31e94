"""A vector store in a file for the tests of the index, and a program that is killed while it indexes.

``python -m tests.retrieval.file_vectors INDEX DOCS SEED``: brings INDEX up to date with DOCS again and again, each time
in a process of its own that is killed (SIGKILL), first at every place where something is written, then at random
moments; after each death it checks that the index can be read and that each file is there whole. Prints the number of
deaths.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from shared_core.documents.manifest import Manifest
from shared_core.documents.scan import INDEX_MARK
from shared_core.documents.store import DocumentIndex
from shared_core.types import Passage


class FileVectors:
    """Keeps passages in SQLite, each in a transaction of its own: a killed ``add`` leaves half a batch behind."""

    def __init__(self, path: Path, on_write: Callable[[], None] = lambda: None) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        # A killed process loses nothing by it, only a power cut would.
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("CREATE TABLE IF NOT EXISTS passages (id TEXT PRIMARY KEY, passage TEXT)")
        self.on_write = on_write
        self.added: list[str] = []
        self.deleted: list[str] = []

    def ids(self) -> list[str]:
        return [row[0] for row in self.connection.execute("SELECT id FROM passages")]

    def add(self, passages: Iterable[Passage]) -> None:
        for passage in passages:
            self.on_write()
            row = (passage.id, json.dumps(passage.to_dict()))
            self.connection.execute("INSERT OR REPLACE INTO passages VALUES (?, ?)", row)
            self.added.append(passage.id)

    def delete(self, ids: Iterable[str]) -> None:
        for identifier in ids:
            self.on_write()
            self.connection.execute("DELETE FROM passages WHERE id = ?", (identifier,))
            self.deleted.append(identifier)

    def passages(self) -> list[Passage]:
        rows = self.connection.execute("SELECT passage FROM passages ORDER BY id")
        return [Passage.from_dict(json.loads(row[0])) for row in rows]

    def retrieve(self, query: str, k: int = 5) -> list[Passage]:
        wanted = set(query.lower().split())
        scored = [(len(wanted & set(p.text.lower().split())), p) for p in self.passages()]
        return [p.with_score(s) for s, p in sorted(scored, key=lambda pair: -pair[0])[:k] if s]


def execute(index: Path, statement: str) -> list[Any]:
    """Run a statement on an index's file and return its rows."""
    with closing(sqlite3.connect(index / INDEX_MARK)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        return connection.execute(statement).fetchall()


def place(passage: Passage) -> slice:
    """Where a passage is in its document's text."""
    return slice(int(str(passage.metadata["start"])), int(str(passage.metadata["end"])))


def state(index: Path) -> dict[str, str]:
    """Digest of each document in the index; an AssertionError if a passage is not its document's slice."""
    with DocumentIndex(index, dense=False) as opened:
        digests = {}
        for source in opened.sources():
            digests[source] = hashlib.sha256(opened.document_text(source).encode()).hexdigest()
        for passage in opened.passages():
            assert opened.document_text(str(passage.metadata["source"]))[place(passage)] == passage.text
    return digests


def _update(index: Path, docs: Path, on_write: Callable[[], None]) -> None:
    for name in ("put", "remove", "forget_retired", "store", "create"):
        _watch(Manifest, name, on_write)
    with DocumentIndex(index, store=FileVectors(index.parent / "vectors.db", on_write)) as opened:
        opened.update(docs)


def _watch(owner: Any, name: str, on_write: Callable[[], None]) -> None:
    real = getattr(owner, name)

    def watched(*args: Any) -> Any:
        on_write()
        result = real(*args)
        on_write()
        return result

    setattr(owner, name, watched)


def _die_at(countdown: int) -> Callable[[], None]:
    left = [countdown]

    def on_write() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_write


def _in_a_process(index: Path, docs: Path, on_write: Callable[[], None], kill_after: float | None) -> bool:
    """Whether the update came to its end."""
    child = os.fork()
    if child == 0:
        try:
            _update(index, docs, on_write)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "an update failed instead of being killed"
    return not os.WIFSIGNALED(status)


def main(index: Path, docs: Path, seed: int) -> None:
    chance = random.Random(seed)
    allowed: dict[str, set[str]] = {}
    deaths = 0
    for generation in range(3):
        _rewrite(docs, generation, chance)
        for path in docs.iterdir():
            allowed.setdefault(path.name, set()).add(hashlib.sha256(path.read_bytes()).hexdigest())
        countdown = 1
        while True:
            # Each life gets a little further than the one before, by places first, by the clock later.
            by_clock = generation == 2 and countdown < 15
            finished = _in_a_process(
                index,
                docs,
                (lambda: time.sleep(0.002)) if by_clock else _die_at(countdown if countdown < 25 else countdown * 2),
                chance.uniform(0, 0.15) if by_clock else None,
            )
            deaths += not finished
            if (index / INDEX_MARK).exists():
                for source, digest in state(index).items():
                    assert digest in allowed[source], f"{source} is neither old nor new"
            countdown += 1
            if finished and not by_clock:
                break
    print(deaths)


def _rewrite(docs: Path, generation: int, chance: random.Random) -> None:
    for number in range(8):
        path = docs / f"d{number}.txt"
        if generation and chance.random() < 0.25:
            path.unlink(missing_ok=True)
        elif not generation or chance.random() < 0.6:
            path.write_text(
                "\n\n".join(f"Fact {i} of {number} is {chance.random()}. " + "So it is said. " * 30 for i in range(3))
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
