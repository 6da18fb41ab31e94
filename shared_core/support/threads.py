"""Calls in threads that nobody has to wait for.

A thread that hangs cannot be ended. Those of ``concurrent.futures`` (and so of ``asyncio.to_thread``) are waited for
when the loop or the interpreter ends, for as long as it takes; these are daemons, and are left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run_within(seconds: float, call: Callable[[], None]) -> bool:
    """Run ``call`` in a thread, in a copy of the caller's context, and wait so many seconds for its end at most.

    Returns:
        Whether it has ended; otherwise it is left to itself.

    Raises:
        Whatever the call raises in that time.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            context.run(call)
        except BaseException as error:  # the caller's, whatever it is
            raised.append(error)

    context = contextvars.copy_context()
    thread = _start(work)
    thread.join(seconds)
    if raised:
        raise raised[0]
    return not thread.is_alive()


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``asyncio.to_thread`` by a daemon: a call that hangs and was given up does not keep the loop from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(call, *args, **kwargs)
        except BaseException as error:  # the caller's, whatever it is
            _tell(loop, future, error=error)
        else:
            _tell(loop, future, result)

    _start(work)
    return await future


def _start(work: Callable[[], None]) -> threading.Thread:
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
