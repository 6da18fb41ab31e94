"""Requests whose client leaves before the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import HTTPException, Request

T = TypeVar("T")
LEFT = 499
"""Status for the server's log of a request whose client has left: nobody reads it."""


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do the work and return its result, unless the client leaves: the work is cancelled then (HTTPException 499).

    The request's body has to be read before.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise HTTPException(LEFT, "The client has left.")
    finally:  # also where the server itself ends
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)  # a server that repeats itself must not hold up the others
