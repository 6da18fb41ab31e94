"""The ASGI application: the page, the JSON API, metrics and health."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from importlib.resources import files as package_files
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.cors import CORSMiddleware

from shared_core.errors import SelfReflectError
from shared_core.facades.engine import SelfReflectEngine
from shared_core.serve.leaving import while_there
from shared_core.serve.limits import Guard, Limits
from shared_core.serve.openai_chat import chat_router
from shared_core.serve.replies import Json, Text, describe, event_data, failure, read_error, sse, written
from shared_core.serve.service import Service
from shared_core.types import Event, Finished

if TYPE_CHECKING:
    from shared_core.documents.store import DocumentIndex

_JSON_HINT = "Send a JSON object in UTF-8."
_TYPE_HINT = "Its header must be Content-Type: application/json."


class Ask(BaseModel, extra="forbid"):
    """A question, its target accuracy if not the server's, and whether its events are streamed."""

    question: Text
    target_accuracy: float | None = None
    stream: bool = False


class Check(BaseModel, extra="forbid"):
    """An answer to check, and the question that it answers, if any."""

    answer: Text
    question: Text = ""
    target_accuracy: float | None = None


class Search(BaseModel, extra="forbid"):
    """Words to search for, and how many passages."""

    query: Text
    k: Annotated[int, Field(ge=1, le=100)] = 5


def create_app(
    engine: SelfReflectEngine,
    index: DocumentIndex | None = None,
    limits: Limits | None = None,
    *,
    hosts: Sequence[str] = (),
) -> FastAPI:
    """Make the ASGI application.

    Args:
        index: the index it reads from, for uploads; ``None`` turns them off.
        limits: key, origins, sizes and times.
        hosts: names under which the server may be addressed; empty allows all. A server on this machine alone that
            asks for no key needs it against DNS rebinding.
    """
    limits = limits or Limits()
    service = Service(engine, index, limits)
    app = FastAPI(title="selfreflect", docs_url=None, redoc_url=None)  # their pages load scripts from elsewhere
    app.add_middleware(Guard, limits=limits, hosts=hosts)
    if limits.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=limits.cors, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    app.add_exception_handler(Exception, _report)
    app.add_exception_handler(SelfReflectError, _report)
    app.add_exception_handler(RequestValidationError, _report_invalid)
    app.add_exception_handler(StarletteHTTPException, _report)
    app.include_router(_pages(service))
    app.include_router(_api(service))
    app.include_router(chat_router(service))
    return app


def _pages(service: Service) -> APIRouter:
    page = package_files("shared_core.serve").joinpath("page.html").read_text("utf-8")
    security = {"content-security-policy": content_security_policy(page), "x-frame-options": "DENY"}
    router = APIRouter()

    @router.get("/")
    async def root() -> Response:
        return HTMLResponse(page, headers=security)

    @router.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    return router


def _api(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api")

    @router.get("/health")
    def health() -> dict[str, Any]:
        return service.health()

    @router.get("/documents")
    def documents() -> list[str]:
        return service.documents()

    @router.post("/ask")
    async def ask(body: Ask, request: Request) -> Response:
        if not body.stream:
            answer = await while_there(request, service.ask(body.question, body.target_accuracy))
            return await written(lambda: Json(describe(answer)))
        events = service.events(body.question, body.target_accuracy)
        first = await while_there(request, _first(events))  # errors until then have a status of their own
        return StreamingResponse(_stream(first, events), media_type="text/event-stream")

    @router.post("/check")
    async def check(body: Check, request: Request) -> Response:
        work = service.check(body.answer, body.question, body.target_accuracy)
        answer = await while_there(request, work)
        return await written(lambda: Json(describe(answer)))

    @router.post("/search")
    async def search(body: Search, request: Request) -> Response:
        return JSONResponse({"passages": await while_there(request, service.search(body.query, body.k))})

    @router.post("/upload")
    async def upload(files: list[UploadFile]) -> Response:
        if not service.limits.max_upload:
            raise HTTPException(403, "This server takes no uploads.")
        report = await service.upload([(file.filename or "", file.file) for file in files])
        return JSONResponse(report.to_dict())

    return router


async def _first(events: AsyncGenerator[Event, None]) -> Event:
    return await anext(events)


async def _stream(first: Event, events: AsyncGenerator[Event, None]) -> AsyncGenerator[str, None]:
    async def write(event: Event) -> str:
        if isinstance(event, Finished):
            return await written(lambda: sse(event_data(event), event.kind))
        return sse(event_data(event), event.kind)

    async with aclosing(events):
        yield await write(first)
        try:
            async for event in events:
                yield await write(event)
        except Exception as error:
            yield sse(read_error(error)[1], "error")


async def _report(request: Request, error: Exception) -> Response:
    if isinstance(error, StarletteHTTPException):
        return failure(error.status_code, str(error.detail), headers=dict(error.headers or {}))
    status, body = read_error(error)
    return JSONResponse(body, status)


async def _report_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return failure(400, f"The body is not valid JSON (at character {first['loc'][-1]}).", hint=_JSON_HINT)
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    if first["type"] == "extra_forbidden":
        return failure(400, f"There is no field {where[:100]!r}.", hint="Check its spelling, or leave it out.")
    if not where:
        return failure(400, "The body is not read as a JSON object.", hint=f"{_JSON_HINT} {_TYPE_HINT}")
    return failure(400, f"{where}: {first['msg']}.")


def content_security_policy(page: str) -> str:
    """Return the policy that allows a page its own script and style, by their hashes, and nothing from elsewhere."""

    def digests(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found)
        return " ".join(f"'sha256-{value}'" for value in hashes)

    return (
        f"default-src 'none'; script-src {digests('script')}; style-src {digests('style')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
