"""The OpenAI-compatible endpoint: apps get checked answers by a changed base URL."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from shared_core.conversation import Turn, find_question
from shared_core.errors import OptionError
from shared_core.lm.chat.layout import without_halves
from shared_core.serve.leaving import while_there
from shared_core.serve.replies import Json, describe, read_error, sse, written
from shared_core.serve.service import Service
from shared_core.types import Answer, Event, Finished, TextDelta

MODEL = "selfreflect"
"""Name of the one model that is offered; requests may name any."""


class Message(BaseModel):
    """One message of a chat; unknown fields are ignored."""

    role: str
    content: str | list[dict[str, Any]] | None = None

    def turn(self) -> Turn:
        """Return the message as a turn: its text parts joined, other parts counted."""
        roles: dict[str, Literal["user", "assistant", "system", "tool"]] = {
            "user": "user", "assistant": "assistant", "tool": "tool", "function": "tool",
        }  # fmt: skip
        parts = [{"type": "text", "text": self.content}] if isinstance(self.content, str) else self.content or []
        texts = [str(p.get("text") or "") for p in parts if p.get("type") in ("text", "input_text")]
        return Turn(roles.get(self.role, "system"), without_halves("\n".join(texts)), len(parts) - len(texts))


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool | None = False


class ChatRequest(BaseModel):
    """Request for a chat completion; fields that have no effect here (``temperature``, ``stop``, …) are ignored."""

    messages: list[Message]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    function_call: str | dict[str, Any] | None = None
    modalities: list[str] | None = None

    def require_supported(self) -> None:
        """Raise OptionError for what would change the answer's form, and cannot be done."""
        if (self.n or 1) != 1:
            raise OptionError("n must be 1: there is one answer.", hint="Leave n out.")
        if (self.response_format or {}).get("type", "text") != "text":
            raise OptionError("Answers are text with quotes, not JSON.", hint="Leave response_format out.")
        if self.logprobs or self.top_logprobs:
            hint = "Leave logprobs out: each reply has selfreflect.confidence."
            raise OptionError("A checked answer has no log-probabilities of tokens.", hint=hint)
        forced = [choice for choice in (self.tool_choice, self.function_call) if choice not in (None, "auto", "none")]
        if forced:
            raise OptionError("No tool is called here, so none can be demanded.", hint='Use tool_choice="auto".')
        if set(self.modalities or ()) - {"text"}:
            raise OptionError("Answers are text only.", hint="Leave modalities out.")


def chat_router(service: Service) -> APIRouter:
    """Make the routes under ``/v1``."""
    router = APIRouter(prefix="/v1")
    offered = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": MODEL}

    @router.get("/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [offered]}

    @router.get("/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        if name != MODEL:
            raise HTTPException(404, f"There is one model here: {MODEL}.")
        return offered

    @router.post("/chat/completions")
    async def chat(body: ChatRequest, request: Request) -> Response:
        body.require_supported()
        asked = find_question([message.turn() for message in body.messages])
        if not body.stream:
            answer = asked.tell(await while_there(request, service.ask(asked, endpoint="chat")))
            return await written(lambda: Json(_completion(answer)))
        events = service.events(asked, endpoint="chat")
        # Nothing is sent before the first words: until then an error is an HTTP status, which clients retry by.
        first = await while_there(request, _first_words(events))
        usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return StreamingResponse(_chunks(first, events, usage), media_type="text/event-stream")

    return router


async def _first_words(events: AsyncGenerator[Event, None]) -> Event:
    return await anext(event async for event in events if isinstance(event, (TextDelta, Finished)))


def _head(kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}


def _usage(answer: Answer) -> dict[str, int]:
    used = answer.usage
    total = used.prompt_tokens + used.generated_tokens
    return {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.generated_tokens, "total_tokens": total}


def _extra(answer: Answer) -> dict[str, Any]:
    """Return what OpenAI's format has no place for: confidence, reason, claims and citations."""
    fields = ("abstained", "reason", "confidence", "calibrated")
    claims = [{"text": c.text, "support": c.support, "status": c.status} for c in answer.claims]
    cited = [source for source in describe(answer)["sources"] if source["number"] is not None]
    steps = {name: answer.metadata[name] for name in ("steps", "chosen") if name in answer.metadata}
    return {**{name: getattr(answer, name) for name in fields}, "claims": claims, "citations": cited, **steps}


def _completion(answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {**_head("chat.completion"), "choices": [choice], "usage": _usage(answer), "selfreflect": _extra(answer)}


async def _chunks(first: Event, events: AsyncGenerator[Event, None], usage: bool) -> AsyncGenerator[str, None]:
    head = _head("chat.completion.chunk")

    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return sse({**head, "choices": [choice], **more})

    def write(event: Event) -> str:
        if isinstance(event, TextDelta):
            return chunk({"content": event.text})
        if not isinstance(event, Finished):
            return ""
        last = chunk({}, "stop", selfreflect=_extra(event.answer))
        return last + (sse({**head, "choices": [], "usage": _usage(event.answer)}) if usage else "")

    async with aclosing(events):
        yield chunk({"role": "assistant", "content": ""})
        yield await written(lambda: write(first))
        try:
            async for event in events:
                if isinstance(event, Finished):
                    yield await written(partial(write, event))
                elif text := write(event):
                    yield text
        except Exception as error:
            yield sse(read_error(error)[1])
            return
    yield sse("[DONE]")
