"""Limits of the server: who may ask, how much at once, and how long."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared_core.serve.replies import failure

_PUBLIC = ("/", "/api/health")
_SECURITY = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
_FORM = 65_536  # bytes of a multipart form around its files


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the server.

    >>> Limits(timeout=20).parallel
    8

    Attributes:
        key: needed by every request but the page and ``/api/health``; ``None`` asks for none.
        cors: origins of other pages that may call the API (``https://app.example``), or ``*``.
        max_upload: bytes of one upload, all its files together; 0 turns uploads off.
        max_body: bytes of any other request.
        max_question: characters of a question.
        timeout: seconds of a request, waiting included. Then the engine answers with what it has, or abstains.
        parallel: requests worked on at the same time.
        waiting: further requests that wait; more are refused (503).
    """

    key: str | None = None
    cors: tuple[str, ...] = ()
    max_upload: int = 100_000_000
    max_body: int = 2_000_000
    max_question: int = 4_000
    timeout: float = 60.0
    parallel: int = 8
    waiting: int = 128


class Gate:
    """Lets ``limits.parallel`` requests in at a time; others wait, and are refused if too many wait or for too long."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.parallel)
        self.inside = 0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[float]:
        """Wait for a place, and yield the seconds left of the request's time; HTTPException 503 if there is none."""
        start = time.monotonic()
        if self.inside >= self._limits.parallel + self._limits.waiting:
            raise _busy("too many requests are waiting")
        self.inside += 1
        try:
            try:
                async with asyncio.timeout(self._limits.timeout):
                    await self._free.acquire()
            except TimeoutError:
                raise _busy("other requests took all its time") from None
            try:
                yield max(0.05, self._limits.timeout - (time.monotonic() - start))
            finally:
                self._free.release()
        finally:
            self.inside -= 1


def _busy(why: str) -> HTTPException:
    return HTTPException(503, f"The server is busy: {why}. Try again in a few seconds.", headers={"retry-after": "5"})


class Guard:
    """ASGI middleware: refuses foreign hosts, origins and keys, and bodies that are too large, before reading them."""

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Sequence[str] = ()) -> None:
        self._app, self._limits, self._hosts = app, limits, list(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = _path_within(scope)
        largest = self._limits.max_upload + _FORM if path == "/api/upload" else self._limits.max_body
        seen = 0

        async def receive_limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > largest:  # of a body that did not give its length
                raise HTTPException(413, _too_large(largest))
            return message

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = await self._wrong_host(scope, receive) or self._refusal(path, Headers(scope=scope), largest)
        if refusal is not None:
            await refusal(scope, receive, send_secured)
        else:
            await self._app(scope, receive_limited, send_secured)

    async def _wrong_host(self, scope: Scope, receive: Receive) -> JSONResponse | None:
        """Return the refusal of a request to another name than the server's; ``None`` for others."""
        known = not self._hosts

        async def accept(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal known
            known = True

        async def ignore(message: Message) -> None:  # Starlette's own refusal, which is plain text
            return

        if not known:
            await TrustedHostMiddleware(accept, self._hosts, www_redirect=False)(scope, receive, ignore)
        if known:
            return None
        given = Headers(scope=scope).get("host", "")
        names = f"Address it as {' or '.join(self._hosts)}."
        return failure(400, f"This server does not answer to the name {given[:200]!r}.", hint=names)

    def _refusal(self, path: str, headers: Headers, largest: int) -> JSONResponse | None:
        """Return the response to a request that is refused; ``None`` for others."""
        origin = headers.get("origin")
        if origin and not {origin, "*"} & set(self._limits.cors) and _host_of(origin) != headers.get("host"):
            allow = "Start it with --cors ORIGIN to allow that."
            return failure(403, f"Pages of {origin[:200]} may not ask this server.", hint=allow)
        if self._limits.key is not None and path not in _PUBLIC and not self._knows_key(headers, self._limits.key):
            return failure(401, "The API key is missing or wrong.", hint="Send it as Authorization: Bearer KEY.")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return failure(400, "Content-Length is not a number.")
        if int(length[:20]) > largest:
            return failure(413, _too_large(largest))
        return None

    def _knows_key(self, headers: Headers, key: str) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip(" \t") if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        wanted = key.encode("utf-8", "surrogateescape")  # as the environment held it
        # Headers are bytes, which Starlette reads as Latin-1. Most clients send UTF-8, browsers Latin-1.
        return any(secrets.compare_digest(given.encode(sent_as), wanted) for sent_as in ("latin-1", "utf-8"))


def _path_within(scope: Scope) -> str:
    """Return the path as this application's routes have it: without that under which it is mounted in another one."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    inside = path.startswith(f"{root}/") or path == root
    return path[len(root) :] or "/" if inside else path


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # such as "http://["
        return ""


def _too_large(largest: int) -> str:
    return f"The request is larger than {largest / 1e6:g} MB. Send less, or start the server with a larger limit."
