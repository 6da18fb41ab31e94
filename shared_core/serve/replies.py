"""Replies of the server: answers, events and errors as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator
from starlette.concurrency import run_in_threadpool

from shared_core.citation import find_place
from shared_core.errors import (
    CalibrationError,
    ContextOverflowError,
    DeadlineError,
    InputError,
    LanguageModelError,
    RetrievalError,
    SelfReflectError,
    SettingsError,
    StoreError,
)
from shared_core.lm.chat.layout import without_halves
from shared_core.types import (
    Answer,
    ClaimSealed,
    Decided,
    Event,
    Finished,
    Passage,
    ReferenceSealed,
    Retrieved,
    Span,
    TextDelta,
    iter_spans,
)

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_BAD_INPUT = (InputError, SettingsError, CalibrationError, ContextOverflowError)
_TYPES = {401: "authentication_error", 403: "permission_error"}

Text = Annotated[str, BeforeValidator(lambda value: without_halves(value) if isinstance(value, str) else value)]
"""Text of a request. Each half of a surrogate pair, which no reply could hold, is U+FFFD: offsets stay as they are."""


def describe(answer: Answer) -> dict[str, Any]:
    """Convert an answer to plain values, with its ``sources``: every quote with its place in its document.

    Sources that the text cites as ``[1]`` come first and have this ``number``; those of claims left out have none.
    """
    cited = answer.numbered_spans()
    spans = dict.fromkeys([*cited, *iter_spans(answer.claims)])
    known = {p.id: p for p in answer.passages}
    sources = [
        {"number": n if n <= len(cited) else None, **place_of(known[s.passage_id], s)}
        for n, s in enumerate(spans, 1)
        if s.passage_id in known
    ]
    return {**answer.to_dict(), "sources": sources}


def place_of(passage: Passage, span: Span | None = None) -> dict[str, Any]:
    """Describe the place of a passage, or of a span of it: file, page, section; offsets in code points."""
    place = find_place(passage, span)
    own = span or Span(passage.id, 0, len(passage.text), passage.text)
    return {
        "passage_id": own.passage_id,
        "start": own.start,
        "end": own.end,
        "text": own.text,
        "document": place.document,
        "section": place.section,
        "offsets": place.offsets,
    }


async def written(make: Callable[[], T]) -> T:
    """Make a reply in another thread: that of a long answer takes long, and other requests go on meanwhile."""
    return await run_in_threadpool(make)


class Json(JSONResponse):
    """A reply that is written in steps."""

    def render(self, content: Any) -> bytes:
        """Write the body."""
        return dump(content).encode()


def dump(value: object, depth: int = 3) -> str:
    """Write JSON in steps: other threads run between two calls of ``json``, and none during a call.

    >>> dump({"claims": [{"text": "It is 3 °C.", "spans": []}], "left": None})
    '{"claims":[{"text":"It is 3 °C.","spans":[]}],"left":null}'
    """
    if depth and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return f"{{{','.join(f'{dump(k, 0)}:{dump(v, depth - 1)}' for k, v in value.items())}}}"
    if depth and isinstance(value, (list, tuple)):
        return f"[{','.join(dump(entry, depth - 1) for entry in value)}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def event_data(event: Event) -> dict[str, Any]:
    """Convert an event of a stream to plain values."""
    match event:
        case Retrieved(query=query, passages=passages):
            return {"query": query, "documents": [find_place(p).document for p in passages]}
        case Decided(decision=d):
            return {"kind": d.kind, "outcome": d.outcome, "reason": d.reason}
        case ReferenceSealed(citation=citation):
            return {"quote": " … ".join(span.text for span in citation.primary)}
        case ClaimSealed(claim=claim):
            return {"text": claim.text, "support": claim.support}
        case TextDelta(text=text):
            return {"text": text}
        case Finished(answer=answer):
            return describe(answer)
    return {}


def sse(data: object, event: str = "") -> str:
    """Write one server-sent event; data that are not text become JSON."""
    text = data if isinstance(data, str) else dump(data)
    return f"event: {event}\ndata: {text}\n\n" if event else f"data: {text}\n\n"


def read_error(error: Exception) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the body (OpenAI's, with a ``hint``) that describe an error.

    Errors that are not this project's own are logged, and shown without their text.
    """
    status = status_of(error)
    if isinstance(error, HTTPException):
        return status, _body(status, str(error.detail))
    if isinstance(error, SelfReflectError):
        return status, _body(status, error.message, code=type(error).__name__, hint=error.hint)
    _LOG.error("A request failed.", exc_info=error)
    return status, _body(status, "Something went wrong; the server's log says what.")


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, _BAD_INPUT):
        return 400
    if isinstance(error, DeadlineError):
        return 504
    if isinstance(error, (LanguageModelError, RetrievalError)):
        return 502  # whom we asked has failed
    return 503 if isinstance(error, StoreError) else 500


def failure(status: int, message: str, *, hint: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """Make the response to a request that is refused."""
    return JSONResponse(_body(status, message, hint=hint), status, headers)


def _body(status: int, message: str, *, code: str | None = None, hint: str = "") -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code, "hint": hint}}
