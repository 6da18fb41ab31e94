"""HTTP to an OpenAI-compatible server: retries, limits, and errors of our tree without secrets in them.

The SDK's own retries are off, because they know no deadline over all attempts. Bodies are read as text and parsed
here, because what comes back may be HTML or cut off.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from shared_core.errors import ContextOverflowError, InputError, MissingDependencyError, ResponseError
from shared_core.lm._server.attempts import Deadline, Failure, retry_after, wait
from shared_core.lm._server.read import Collected, error_within
from shared_core.lm.chat.failures import TRANSIENT, connection_error, status_error, timeout_error
from shared_core.lm.chat.overflow import detail
from shared_core.lm.chat.secrets import Secrets, is_upgrade, origin_of, split_url

_NO_KEY = "none"


class Endpoint:
    """HTTP client of one server; arguments as ``OpenAICompatibleLM``.

    Credentials in the address are sent as basic authentication and appear nowhere else. With ``api-version`` in it the
    key is sent as ``api-key``. The environment is never read for a key: a key is for one server.

    Attributes:
        url: without credentials and query, for people.
        calls: requests answered so far.

    Raises:
        InputError: ``base_url`` is no usable HTTP address, or a number is out of range.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout: float = 120.0,
        max_retries: int = 4,
        max_concurrency: int = 8,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        for name, value, least in (
            ("timeout", timeout, 1e-3),
            ("max_retries", max_retries, 0),
            ("max_concurrency", max_concurrency, 1),
        ):
            if not value >= least:
                raise InputError(f"OpenAICompatibleLM: {name} must be at least {least}, not {value!r}.")
        self.url, user, password, version = split_url(base_url)
        api_key = (api_key or "").strip() or None  # a file's last line break, say
        for name, text in {"api_key": api_key or "", **(headers or {})}.items():
            if not (text.isascii() and text.isprintable()):
                raise InputError(f"OpenAICompatibleLM: {name} has characters that cannot be sent in an HTTP header.")
        self._origin = origin_of(self.url)
        login = f"{user}:{password}" if user or password else None
        self._headers = dict(headers or {})
        self._query: dict[str, object] = {} if version is None else {"api-version": version}
        if self._query and api_key is not None and not any(h.lower() == "api-key" for h in self._headers):
            self._headers["api-key"] = api_key  # Azure takes a key under that name alone
            api_key = None
        if login and api_key is None and not any(h.lower() == "authorization" for h in self._headers):
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._api_key = api_key
        self.secrets = Secrets(api_key, password, login, *self._headers.values())
        self._timeout, self._max_retries, self._max_concurrency = timeout, max_retries, max_concurrency
        self._client: Any = None
        self._slots: asyncio.Semaphore | None = None
        self._sleep = asyncio.sleep
        self.calls = 0
        self.lost = False  # a connection was refused or broken off: what answers next may be another server

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    @property
    def root(self) -> str:
        """The address without ``/v1``, where servers have their other endpoints."""
        return self.url.removesuffix("/v1")

    async def get(self, path: str, deadline: Deadline) -> dict[str, Any]:
        """Get the JSON object at ``path``; Failure otherwise."""
        return await self._retrying(deadline, self._attempt, "GET", path, None, deadline)

    async def post(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> dict[str, Any]:
        """Post ``body`` and return the JSON object of the answer; Failure otherwise."""
        return await self._retrying(deadline, self._attempt, "POST", path, body, deadline)

    async def stream(
        self, path: str, body: Mapping[str, Any], deadline: Deadline, heard: Callable[[str], None]
    ) -> dict[str, Any]:
        """Post ``body`` and return the answer put together from its pieces; cancelling ends it on the server too.

        It is not tried again once a piece has come.

        Raises:
            Failure: as ``post``; and the answer breaks off.
        """
        begun = False

        def hear(text: str) -> None:
            nonlocal begun
            begun = True
            heard(text)

        attempt = self._attempt_stream
        return await self._retrying(deadline, attempt, path, body, deadline, hear, begun=lambda: begun)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # --- attempts ----------------------------------------------------------------------------------------------

    async def _retrying(
        self,
        deadline: Deadline,
        attempt: Callable[..., Any],
        *arguments: Any,
        begun: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Attempt until it works; not again once an answer has ``begun``, or where there is no time left for it."""
        from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

        def out_of_time(state: RetryCallState) -> bool:
            return state.upcoming_sleep >= deadline.remaining

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, Failure) and e.transient and not begun()),
            stop=lambda state: stop_after_attempt(self._max_retries + 1)(state) or out_of_time(state),
            wait=wait,
            sleep=self._sleep,
            reraise=True,
        )
        answer: dict[str, Any] = await retrying(attempt, *arguments)
        return answer

    async def _attempt(self, method: str, path: str, body: Any, deadline: Deadline) -> dict[str, Any]:
        # The failure is raised outside of the handler, so that no exception that knows the request hangs on to it.
        try:
            text: str | Failure = await self._exchange(method, path, body, deadline)
        except Exception as error:
            text = self._failure(error, deadline, body or {})
        if isinstance(text, Failure):
            raise text
        self.calls += 1
        answer = self._parsed(text)
        if path.endswith(("/completions", "/models")) and (said := error_within(answer)):
            code = said.get("code") if isinstance(said, Mapping) else None
            status = code if type(code) is int and 400 <= code < 600 else 500
            if "unexpected endpoint" in detail(said).lower():  # LM Studio
                status = 404
            raise self._status_failure(status, said, {}, body or {})
        return answer

    async def _attempt_stream(
        self, path: str, body: Mapping[str, Any], deadline: Deadline, heard: Callable[[str], None]
    ) -> dict[str, Any]:
        failure: Failure | None = None
        found = Collected(heard)
        try:
            await self._receive(path, {**body, "stream": True}, deadline, found)
        except Exception as error:
            failure = error if isinstance(error, Failure) else self._failure(error, deadline, body)
        if failure is not None:
            raise failure
        self.calls += 1
        if not found.whole:
            said = self.secrets.strip(found.rest, 120)
            broken = ResponseError(
                f"{self.url} broke off in the middle of an answer{': ' + repr(said) if said else '.'}",
                hint="The server or a proxy before it has ended the stream; look at its log.",
            )
            raise Failure(broken, transient=True)
        return found.answer()

    async def _receive(self, path: str, body: Mapping[str, Any], deadline: Deadline, found: Collected) -> None:
        async with self._turn(deadline) as client:
            from openai import APIConnectionError, AsyncStream

            # Each piece has the time of an attempt: a long text that keeps coming is no failure.
            opening = client.post(path, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object])
            async with asyncio.timeout(self._timeout):
                response = (await opening).response
            try:
                lines = _lines(response.aiter_bytes())
                while not found.ended:
                    try:
                        async with asyncio.timeout(self._timeout):
                            line = await anext(lines, None)
                    except TimeoutError:
                        raise
                    except Exception as error:  # which class it is of depends on the SDK's HTTP client
                        raise APIConnectionError(request=response.request) from error
                    if line is None:
                        return
                    found.take(line)
            finally:
                await response.aclose()  # a server that is still writing sees that nobody listens

    async def _exchange(self, method: str, path: str, body: Any, deadline: Deadline) -> str:
        # The SDK's timeout is one of silence; a server that drips bytes needs one over all.
        async with self._turn(deadline) as client, asyncio.timeout(self._timeout):
            # As bytes: JSON is UTF-8, whatever the header says of it.
            if method == "GET":
                return _decoded(await client.get(path, cast_to=bytes))
            return _decoded(await client.post(path, cast_to=bytes, body=body))

    @asynccontextmanager
    async def _turn(self, deadline: Deadline) -> AsyncIterator[Any]:
        """Wait for a slot and give the client, both for as long as the deadline allows."""
        client = self._connected()
        assert self._slots is not None
        seconds = None if math.isinf(deadline.remaining) else deadline.remaining
        async with asyncio.timeout(seconds), self._slots:
            deadline.begin()
            yield client

    def _connected(self) -> Any:
        if self._client is None:
            try:
                from openai import AsyncOpenAI, DefaultAsyncHttpxClient
            except ImportError as error:
                raise MissingDependencyError("openai", extra="openai", purpose="A model server") from error
            self._client = AsyncOpenAI(
                base_url=self.url,
                api_key=self._api_key or _NO_KEY,  # the SDK wants one, and would else look in the environment
                timeout=self._timeout,
                max_retries=0,
                default_headers=self._headers,
                default_query=self._query,
                http_client=DefaultAsyncHttpxClient(event_hooks={"request": [self._keep_secrets]}),
            )
            self._slots = asyncio.Semaphore(self._max_concurrency)
        return self._client

    async def _keep_secrets(self, request: Any) -> None:
        """Remove secrets from a request to another host; called for each request, redirected ones too."""
        if request.headers.get("authorization") == f"Bearer {_NO_KEY}":  # Azure refuses it beside a good api-key
            request.headers.pop("authorization")
        to = origin_of(str(request.url))
        if to != self._origin and not is_upgrade(self._origin, to):
            for name in {"authorization", "cookie", "proxy-authorization", *(h.lower() for h in self._headers)}:
                request.headers.pop(name, None)

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return parsed
        if isinstance(parsed, list):
            return {"data": parsed}  # models at Together
        shown = self.secrets.strip(text, 120)
        if text.lstrip()[:1] == "<":
            error = ResponseError(
                f"{self.url} answered with a web page instead of JSON: {shown!r}",
                hint="base_url should be the address of the API; it usually ends in /v1.",
            )
            raise Failure(error)
        error = ResponseError(
            f"{self.url} answered with something that is not a complete JSON object: {shown!r}",
            hint="The server or a proxy before it cuts answers off; look at its log.",
        )
        raise Failure(error, transient=True)

    # --- failures ----------------------------------------------------------------------------------------------

    def _failure(self, error: Exception, deadline: Deadline, sent: Mapping[str, Any]) -> Failure:
        if isinstance(error, MissingDependencyError):
            raise error
        import openai

        if isinstance(error, openai.APIStatusError):
            failure = self._status_failure(error.status_code, error.body, error.response.headers, sent)
            if sent and getattr(error.request, "method", "") == "GET":  # most redirects lose what was sent
                to = self.secrets.strip(str(error.response.url))
                failure.error.hint = f"It redirects to {to}: give that server's address as base_url."
            return failure
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            if deadline.remaining <= 0:
                late = timeout_error(self.url, deadline.seconds, "its deadline is over")
                return Failure(late, transient=False)
            return Failure(timeout_error(self.url, self._timeout), transient=True)
        if isinstance(error, openai.APIConnectionError):
            self.lost = True
            why = self.secrets.strip(str(error.__cause__ or "") or type(error.__cause__ or error).__name__, 160)
            return Failure(connection_error(self.url, why), transient=True)
        shown = self.secrets.strip(f"{type(error).__name__}: {error}", 200)
        return Failure(ResponseError(f"{self.url} answered something that cannot be read: {shown}"))

    def _status_failure(
        self, status: int, body: object, headers: Mapping[str, str], sent: Mapping[str, Any]
    ) -> Failure:
        if status == 500 and _names_field(detail(body), sent):
            status = 422  # llama-cpp-python, and llama.cpp's own server
        error = status_error(
            self.url,
            status,
            body,
            self.secrets,
            key_hint="Give the server's key: api_key=, or OPENAI_API_KEY on the command line.",
            model_hint="Check the model's name (selfreflect doctor lists what the server has).",
            address_hint="Check that base_url ends in /v1 where the server wants it.",
        )
        code = body.get("code") if isinstance(body, Mapping) else None
        spent = code == "insufficient_quota" or "insufficient_quota" in detail(body)
        transient = status in TRANSIENT and not spent and not isinstance(error, ContextOverflowError)
        return Failure(error, status=status, transient=transient, retry_after=retry_after(headers))


def _decoded(raw: bytes) -> str:
    return raw.decode(json.detect_encoding(raw), "replace")


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the lines of a stream of events, which end in CR or LF alone: other breaks may stand within JSON."""
    rest = b""
    async for piece in pieces:
        *whole, rest = re.split(rb"[\r\n]", rest + piece)
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def _names_field(said: str, sent: Mapping[str, Any]) -> bool:
    """Return whether an error speaks of a field of the request, as validation does."""
    if "'loc': ('body'" in said:
        return True
    if sent.get("n", 1) > 1 and re.search(r"\bchoices?\b", said):  # llama.cpp: "Only one completion choice is allowed"
        return True
    optional = set(sent) - {"model", "prompt", "messages", "stop", "seed", "n"}  # words of any error's text
    return any(re.search(rf"\b{re.escape(name)}\b", said) for name in optional)
