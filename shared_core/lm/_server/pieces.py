"""Hand the pieces of a text from the private loop that receives them to a caller on a thread or loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
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
