"""Run many calls of a provider's client at once, each with a time limit, in threads or on an event loop.

A thread that hangs in somebody else's client cannot be ended, only left behind. So these are daemon threads, which
neither keep the process alive nor the others from going on (``concurrent.futures`` waits for its own at exit).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared_core.lm.chat.failures import FATAL

T = TypeVar("T")


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
            self._start()
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

    def _start(self) -> None:
        threading.Thread(target=self._work, name="selfreflect-call", daemon=True).start()

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
            self._start()
