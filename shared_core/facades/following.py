"""The engine over the present state of its index, which other processes may change."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Protocol

from shared_core.errors import SelfReflectError
from shared_core.facades.engine import SelfReflectEngine
from shared_core.retrieval.base import Retriever
from shared_core.support.threads import in_thread

_LOG = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two looks at the index


class Index(Protocol):
    """A ``DocumentIndex``."""

    def retriever(self) -> Retriever:
        """Open a retriever over a snapshot, with the snapshot's ``index_version``."""
        ...

    def version(self) -> str:
        """Name the present content."""
        ...

    def changes(self) -> tuple[int, ...]:
        """Return numbers that differ once anybody has changed the index."""
        ...

    def is_written_to(self) -> bool:
        """Whether an update is under way."""
        ...


class Current:
    """An engine that reads from a snapshot of an index; the snapshot (``engine``) is replaced once the index changed.

    Who holds the engine keeps its snapshot. While an update is under way the former snapshot is read on, and so it is
    where the index cannot be opened. Only an engine over a retriever of the index itself (``index.retriever()``)
    follows it: one of your own is left alone.
    """

    def __init__(self, engine: SelfReflectEngine, index: Index | None) -> None:
        self.engine, self._index = engine, index
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._seen: tuple[int, ...] = ()
        self._failure = ""
        self._current = True

    async def follow(self) -> SelfReflectEngine:
        """Return the engine over the index as it is now, or was a second ago."""
        if self._index is not None and time.monotonic() >= self._next_look:
            await in_thread(self.look)
        return self.engine

    def look(self) -> None:
        """Replace the snapshot if the index has changed; leave it where another thread is at it."""
        if self._index is None or not self._lock.acquire(blocking=False):
            return
        try:
            self._next_look = time.monotonic() + _EVERY
            self._look(self._index)
            self._failure = ""
        except SelfReflectError as error:
            self._current = False
            if error.message != self._failure:  # once, not each second
                _LOG.warning("The index cannot be read anew; its former content is still searched: %s", error.message)
            self._failure = error.message
        finally:
            self._lock.release()

    def reopen(self) -> None:
        """Take a new snapshot, whatever the engine's retriever was."""
        assert self._index is not None
        with self._lock:
            self._replace(self._index)

    def state(self) -> dict[str, Any]:
        """Describe which version of the index answers, and whether that is its newest one."""
        retriever = self.engine.resources.retriever
        return {"version": _version_of(retriever), "current": self._current}

    def _look(self, index: Index) -> None:
        held = _version_of(self.engine.resources.retriever)
        if held is None or (seen := index.changes()) == self._seen:
            return
        if held == index.version():
            self._seen, self._current = seen, True
        elif index.is_written_to():  # its passages would have no vectors yet
            self._current = False
        else:
            self._replace(index)

    def _replace(self, index: Index) -> None:
        retriever = index.retriever()
        retriever.retrieve("ready?", 1)  # reads the vectors now, not at somebody's question
        self.engine = self.engine.over(retriever)
        self._current = True


def _version_of(retriever: object) -> str | None:
    """Return the version that an index's own retriever reads."""
    version = getattr(retriever, "index_version", None)
    return version if isinstance(version, str) else None
