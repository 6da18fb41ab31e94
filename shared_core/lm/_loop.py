"""An event loop in its own thread, on which sync and async methods run alike, and pieces handed over from it."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runner of coroutines on one private event loop. Safe from several threads and from several other loops.

    The thread starts at the first call and ends with ``close`` or when the object is collected.

    Args:
        cleanup: runs on the loop at its end; must not hold on to the owner of this object.
    """

    def __init__(self, name: str, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._name, self._cleanup = name, cleanup
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine and return its result; blocks. An interrupt cancels it."""
        future = self.submit(work)
        try:
            result: T = future.result()
            return result
        except BaseException:
            future.cancel()
            raise

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine without blocking the caller's loop; cancelling the caller cancels it."""
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Stop the loop, cancelling what still runs on it, and wait for its cleanup."""
        with self._lock:
            loop, self._loop, self.closed = self._loop, None, True
        if loop is not None and self._thread is not None:
            _stop(loop)
            self._thread.join(5)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine and return its future, which cancels it."""
        with self._lock:
            if self.closed:
                work.close()
                raise RuntimeError("This loop is closed.")
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop, self._cleanup), name=self._name, daemon=True)
                self._thread.start()
                weakref.finalize(self, _stop, loop)
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _serve(loop: asyncio.AbstractEventLoop, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(cleanup())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


Begin = Callable[[Callable[[str], None]], "Future[T]"]
"""Starts the work; it calls its argument with each piece."""


def hear(begin: Begin[T]) -> Generator[str, None, T]:
    """Yield the pieces and return the work's result; leaving early cancels the work."""
    pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    work = begin(pieces.put)
    work.add_done_callback(lambda _: pieces.put(None))
    try:
        while (piece := pieces.get()) is not None:
            yield piece
        return work.result()
    finally:
        work.cancel()


async def ahear(begin: Begin[T]) -> AsyncGenerator[str | T, None]:
    """Yield the pieces, then the work's result, without blocking the event loop; leaving early cancels the work."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(piece: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop has ended
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    work = begin(tell)
    work.add_done_callback(lambda _: tell(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        yield work.result()
    finally:
        work.cancel()
