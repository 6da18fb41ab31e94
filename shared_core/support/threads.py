"""Threads that nobody has to wait for: calls in them, many calls at once, and event loops of our own.

A thread that hangs in somebody else's code cannot be ended, only left behind. Those of ``concurrent.futures`` (and so
of ``asyncio.to_thread``) are waited for when the loop or the interpreter ends, for as long as it takes; these are
daemons.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

FATAL = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What is no failure of a call, and is never made one."""

_GIVEN_UP: contextvars.ContextVar[tuple[threading.Event, ...]] = contextvars.ContextVar("given up", default=())


def given_up() -> bool:
    """Return whether nobody waits any more for a call that this runs in, so that it may as well end."""
    return any(event.is_set() for event in _GIVEN_UP.get())


def _watched() -> tuple[contextvars.Context, threading.Event]:
    """Copy the caller's context, with an event that tells what runs in the copy that it was given up."""
    context, event = contextvars.copy_context(), threading.Event()
    context.run(_GIVEN_UP.set, (*_GIVEN_UP.get(), event))
    return context, event


def run_within(seconds: float, call: Callable[[], None]) -> bool:
    """Run ``call`` in a thread, in a copy of the caller's context, and return whether it ended within so many seconds.

    If not, it is left to itself, and may learn that by ``given_up``. What it raises in that time is raised here.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            context.run(call)
        except BaseException as error:  # the caller's, whatever it is
            raised.append(error)

    context, over = _watched()
    thread = _start_daemon(work)
    try:
        thread.join(seconds)
    finally:  # also where the waiting is interrupted
        if thread.is_alive():
            over.set()
    if raised:
        raise raised[0]
    return not thread.is_alive()


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``asyncio.to_thread`` by a daemon: a call that hangs and was given up does not keep the loop from ending.

    Cancelling gives the call up (``given_up``).
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context, over = _watched()

    def work() -> None:
        try:
            result = context.run(call, *args, **kwargs)
        except BaseException as error:  # the caller's, whatever it is
            _tell(loop, future, error=error)
        else:
            _tell(loop, future, result)

    _start_daemon(work)
    try:
        return await future
    except asyncio.CancelledError:
        over.set()
        raise


def _start_daemon(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="selfreflect-call", daemon=True)
    thread.start()
    return thread


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[T],
    result: T | None = None,
    error: BaseException | None = None,
) -> None:
    def settle() -> None:
        if future.done():  # given up
            return
        if isinstance(error, StopIteration):  # which no future takes
            future.set_exception(RuntimeError(repr(error)))
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # T may be None

    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(settle)


# --- many calls at once ----------------------------------------------------------------------------------------------


def call_all(
    calls: Sequence[Callable[[], T]], *, at_once: int, seconds: float | None = None
) -> list[T | BaseException]:
    """Run the calls and return results in order; a call that raises gives its exception, one that hangs a TimeoutError.

    Each call runs in a thread, in a copy of the caller's context. An interrupt begins no further ones.

    Args:
        at_once: how many run at the same time, at least 1.
        seconds: for each call, from when it begins; ``None`` for no limit.
    """
    if not calls:
        return []
    return _Batch(calls, seconds).run(min(at_once, len(calls)))


async def acall_all(
    calls: Sequence[Callable[[], Awaitable[T]]], *, at_once: int, seconds: float | None = None
) -> list[T | BaseException]:
    """Run coroutines as ``call_all`` runs calls; cancelling it cancels them."""
    slots = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[T]]) -> T | BaseException:
        async with slots:
            try:
                async with asyncio.timeout(seconds):
                    return await call()
            except (*FATAL, asyncio.CancelledError):
                raise
            except BaseException as error:  # clients written in other languages raise such too
                return error

    return list(await asyncio.gather(*map(one, calls)))


class _Batch(Generic[T]):
    def __init__(self, calls: Sequence[Callable[[], T]], seconds: float | None) -> None:
        self._calls = [(contextvars.copy_context(), call) for call in calls]
        self._seconds = seconds
        self._results: dict[int, T | BaseException] = {}
        self._ends: dict[int, float] = {}  # of calls under way
        self._next = 0
        self._stopped = False
        self._changed = threading.Condition()

    def run(self, at_once: int) -> list[T | BaseException]:
        for _ in range(at_once):
            _start_daemon(self._work)
        try:
            with self._changed:
                while len(self._results) < len(self._calls):
                    self._changed.wait(self._until_the_next_end())
                    self._give_up()
        finally:
            with self._changed:
                self._stopped = True
        for result in self._results.values():
            if isinstance(result, FATAL):
                raise result
        return [self._results[i] for i in range(len(self._calls))]

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._stopped or self._next >= len(self._calls):
                    return
                i = self._next
                self._next += 1
                if self._seconds is not None:
                    self._ends[i] = time.monotonic() + self._seconds
                    self._changed.notify()  # there is a new end to wait for
            context, call = self._calls[i]
            outcome: T | BaseException
            try:
                outcome = context.run(call)
            except BaseException as error:
                outcome = error
            with self._changed:
                given_up = i in self._results
                if not given_up:
                    self._results[i] = outcome
                    self._ends.pop(i, None)
                    self._changed.notify()
            if given_up:  # another thread has taken this one's place
                return

    def _until_the_next_end(self) -> float | None:
        return max(0.0, min(self._ends.values()) - time.monotonic()) if self._ends else None

    def _give_up(self) -> None:
        now = time.monotonic()
        for i in [i for i, end in self._ends.items() if end <= now]:
            del self._ends[i]
            self._results[i] = TimeoutError(f"no answer within {self._seconds:g} s")
            _start_daemon(self._work)


# --- an event loop in its own thread ---------------------------------------------------------------------------------


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
