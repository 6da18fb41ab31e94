"""Errors as providers' clients raise them, and what they must become."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import openai

from shared_core.errors import BackendUnavailableError, ContextOverflowError, LanguageModelError, ModelLoadError

KEY = "sk-live-4f9a8b7c6d5e"


@dataclass(frozen=True)
class Refusal:
    """What a server says, the SDK's exception for it, and ours."""

    status: int
    message: str
    raised: type[openai.APIStatusError]
    ours: type[LanguageModelError]
    code: str = ""
    words: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    def error(self) -> openai.APIStatusError:
        headers = {"retry-after": "7"}
        response: Any = SimpleNamespace(status_code=self.status, headers=headers, request=None)
        body = {"message": self.message, "code": self.code}
        return self.raised(f"Error code: {self.status} - {body}", response=response, body=body)


REFUSALS: dict[str, Refusal] = {
    "401": Refusal(401, f"Incorrect API key provided: {KEY}.", openai.AuthenticationError, BackendUnavailableError,
                   "invalid_api_key", "refuses access (401)"),
    "403": Refusal(403, "Country not supported", openai.PermissionDeniedError, BackendUnavailableError,
                   words="refuses access (403)"),
    "404 model": Refusal(404, "The model `x` does not exist", openai.NotFoundError, ModelLoadError, "model_not_found",
                         "there is no such model"),
    "404 address": Refusal(404, "Not Found", openai.NotFoundError, BackendUnavailableError,
                           words="nothing at that address"),
    "408": Refusal(408, "Request timed out", openai.APIStatusError, BackendUnavailableError, words="in time"),
    "413": Refusal(413, "Payload Too Large", openai.APIStatusError, ContextOverflowError, words="do not fit"),
    "422": Refusal(422, "temperature must be a number", openai.UnprocessableEntityError, LanguageModelError,
                   words="refuses the request (422)"),
    "429": Refusal(429, "Rate limit reached on tokens per min (TPM): Limit 30000, Requested 40000",
                   openai.RateLimitError, BackendUnavailableError, "rate_limit_exceeded", "no more requests for now"),
    "429 quota": Refusal(429, "You exceeded your current quota", openai.RateLimitError, BackendUnavailableError,
                         "insufficient_quota", "no more requests for now"),
    "500": Refusal(500, "The server had an error", openai.InternalServerError, BackendUnavailableError,
                   words="overloaded or broken (500)"),
    "503": Refusal(503, "Overloaded", openai.InternalServerError, BackendUnavailableError,
                   words="overloaded or broken (503)"),
    "529": Refusal(529, "Overloaded", openai.InternalServerError, BackendUnavailableError, words="(529)"),
    "400 overflow": Refusal(
        400, "This model's maximum context length is 100 tokens. However, your messages resulted in 140 tokens.",
        openai.BadRequestError, ContextOverflowError, "context_length_exceeded", "40 more than"),
    "400 overflow without figures": Refusal(
        400, "Your input exceeds the context window of this model.", openai.BadRequestError, ContextOverflowError,
        "context_length_exceeded", "do not fit"),
}  # fmt: skip


class Throttled(Exception):
    """As botocore's ClientError: the status lies in a mapping."""

    def __init__(self) -> None:
        super().__init__("An error occurred (ThrottlingException) when calling the InvokeModel operation")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": 429}}


class RpcCode:
    name = "UNAUTHENTICATED"


class RpcError(Exception):
    """As grpc's: a method tells the code."""

    def code(self) -> RpcCode:
        return RpcCode()


class ServerRefusal(Exception):
    """As google.genai's, with a property where we keep a field."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self._text = text

    @property
    def message(self) -> str:
        return self._text


class RateLimitError(Exception):
    """Tells what it is by its name alone."""


@cache
def named(name: str) -> type[Exception]:
    """Another class that does, of this name."""
    return type(name, (Exception,), {})


def wrapped() -> ValueError:
    """As integrations wrap their client's error: the status is left with the cause."""
    try:
        raise REFUSALS["429"].error()
    except openai.APIStatusError as cause:
        try:
            raise ValueError("Error raised by the inference API") from cause
        except ValueError as error:
            return error


OTHERS: dict[str, tuple[Any, type[LanguageModelError]]] = {
    "connection refused": (lambda: ConnectionRefusedError(111, "Connection refused"), BackendUnavailableError),
    "connection reset": (lambda: ConnectionResetError("reset by peer"), BackendUnavailableError),
    "time-out": (lambda: TimeoutError("timed out"), BackendUnavailableError),
    "openai's time-out": (lambda: openai.APITimeoutError(request=None), BackendUnavailableError),  # type: ignore[arg-type]
    "openai's connection": (lambda: openai.APIConnectionError(request=None), BackendUnavailableError),  # type: ignore[arg-type]
    "by name: rate": (lambda: RateLimitError("slow down"), BackendUnavailableError),
    "by name: connection": (lambda: named("APIConnectionError")("no route"), BackendUnavailableError),
    "by name: key": (lambda: named("AuthenticationError")("bad key"), BackendUnavailableError),
    "by name: 5xx": (lambda: named("ServiceUnavailable")("later"), BackendUnavailableError),
    "by name: overflow": (lambda: named("ContextWindowExceededError")("too much"), ContextOverflowError),
    "by a mapping": (Throttled, BackendUnavailableError),
    "by a method": (lambda: RpcError("denied"), BackendUnavailableError),
    "by a code": (lambda: ServerRefusal(503, "The model is overloaded."), BackendUnavailableError),
    "wrapped": (wrapped, BackendUnavailableError),
    "in the text": (lambda: ValueError("HTTP 503: no healthy upstream"), BackendUnavailableError),
    "overflow in the text": (lambda: ValueError("prompt is too long: 140 tokens > 100 maximum"), ContextOverflowError),
    "anything else": (lambda: ZeroDivisionError("division by zero"), LanguageModelError),
    "StopIteration": (lambda: StopIteration(), LanguageModelError),
    "an odd one": (lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), LanguageModelError),
}
