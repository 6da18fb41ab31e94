"""What goes wrong in a provider's client, as our errors."""

from __future__ import annotations

import re

from shared_core.errors import (
    BackendUnavailableError,
    ContextOverflowError,
    GenerationError,
    LanguageModelError,
    SelfReflectError,
)

_UNAVAILABLE = re.compile(
    r"timeout|timedout|connect|unavailable|ratelimit|overloaded|internalserver|remoteprotocol|authentication|"
    r"permissiondenied",
    re.IGNORECASE,
)
_AVAILABLE_TOKENS = re.compile(r"maximum context length (?:is|of) (\d+)", re.IGNORECASE)
_NEEDED_TOKENS = re.compile(
    r"(?:requested|resulted in|contains|need(?:s|ed)?)(?: at least)? (\d+) (?:\w+ )?tokens", re.IGNORECASE
)
_SECRET = re.compile(r"\b(?:sk|pk|key|hf|gsk|xai)[-_][A-Za-z0-9_\-]{8,}|(?<=Bearer )\S+")


def as_language_model_error(error: Exception, name: str, secrets: tuple[str, ...] = ()) -> LanguageModelError:
    """The error of a provider's client as one of ours; secrets are left out of its text.

    Args:
        error: as raised by the client.
        name: of the model.
        secrets: strings that must not be shown, for instance the client's API key.
    """
    if isinstance(error, LanguageModelError):
        return error
    text = error.message if isinstance(error, SelfReflectError) else _without(str(error), secrets)
    kind = type(error).__name__
    found: LanguageModelError
    overflow = _overflow(text)
    if overflow is not None:
        found = overflow
    elif isinstance(error, (ConnectionError, TimeoutError)) or _UNAVAILABLE.search(kind):
        found = BackendUnavailableError(
            f"The language model {name!r} could not be reached: {kind}: {text}",
            hint="Is its server up, its key valid and its rate limit high enough?",
        )
    else:
        found = GenerationError(
            f"The language model {name!r} failed: {kind}: {text}", hint="Does llm.complete('Hello') work by itself?"
        )
    # The chain would print the client's own message, secrets included.
    found.__cause__ = None if text != str(error) else error
    return found


def _without(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if len(secret) > 3:
            text = text.replace(secret, "***")
    return _SECRET.sub("***", text)[:500]


def _overflow(text: str) -> ContextOverflowError | None:
    available, needed = _AVAILABLE_TOKENS.search(text), _NEEDED_TOKENS.search(text)
    if available is None or needed is None or int(needed[1]) <= int(available[1]):
        return None
    return ContextOverflowError(int(needed[1]), int(available[1]))
