"""Map failures of providers' clients and servers to our error tree, in one place.

| what happened | error |
|---|---|
| 401, 402, 403; 408, time-outs; 409, 425, 429; 5xx; no connection; 404 of an address | BackendUnavailableError |
| 404 of a model | ModelLoadError |
| the prompt is too long, in any wording; 413 | ContextOverflowError |
| a filter withholds the answer (400, 403) | EmptyReplyError |
| any other refusal (400, 422, …) | LanguageModelError |
| anything else that a client raises | GenerationError |
"""

from __future__ import annotations

import pickle
import pkgutil
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from shared_core.errors import (
    BackendUnavailableError,
    ContextOverflowError,
    EmptyReplyError,
    GenerationError,
    LanguageModelError,
    ModelLoadError,
    SelfReflectError,
)
from shared_core.lm.chat.overflow import context_overflow, detail
from shared_core.lm.chat.reply import get
from shared_core.lm.chat.secrets import Secrets
from shared_core.support.regex import lazy_regex

TRANSIENT = frozenset({408, 409, 425, 429, *range(500, 600)}) - {501, 505}
"""Statuses at which trying again may help; those of a proxy before the server (Cloudflare's 520 to 530) among them."""

_REFUSED = frozenset({401, 402, 403})
_DEEPEST = 6
_KEY_HINT = "Is the key right, and may it use this model?"
_FILTER_HINT = "Another model or wording may help."
_NAME_HINT = "Check the model's name."
_BUSY_HINT = "Try later, with a lower max_concurrency, or raise the limit at the provider."
_BROKEN_HINT = "Try later, or look at the server's log."
_DOWN_HINT = "Is it running, and the address right?"
_SLOW_HINT = "Give it more time (timeout=), or ask for fewer tokens or samples."
_GRPC = {
    "INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
    "DEADLINE_EXCEEDED": 408, "RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503,
}  # fmt: skip
# Names of classes, for clients whose errors carry no status.
_BY_NAME: tuple[tuple[re.Pattern[str], int | str], ...] = tuple(
    (lazy_regex(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (r"context.?(?:overflow|window|length)|prompt.?too.?long", "overflow"),
        (r"time.?d?.?out|deadline.?exceeded", "slow"),
        (r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl|quota", 429),
        (r"authentication|unauthori[sz]ed|unauthenticated|invalid.?api.?key", 401),
        (r"permission.?denied|forbidden|access.?denied", 403),
        (r"model.?not.?found", "model"),
        (r"bad.?request|invalid.?request|unprocessable", 400),
        (r"service.?unavailable|overloaded|internal.?server|server.?error|bad.?gateway|model.?api.?error", 503),
        (r"connect|remote.?protocol|network.?error|unreachable|unavailable|name.?resolution", "down"),
    )
)
_IN_TEXT = lazy_regex(
    r"(?:error code|status(?:[_ ]code)?|http(?:/\d(?:\.\d)?)?|response)['\"]?\s*[:=(]?\s*([45]\d\d)\b", re.IGNORECASE
)
_NO_MODEL = lazy_regex(
    r"model.{0,120}?(?:not[ _]found|does(?: not|n't) exist|not exist|unknown)|model_not_found|"
    r"(?:no such|unknown|invalid|could not find) model|not a valid model",
    re.IGNORECASE | re.DOTALL,
)
_FILTERED = lazy_regex(  # Azure, OpenAI, OpenRouter
    r"content_filter|content management policy|content_policy_violation|responsibleaipolicyviolation|"
    r"(?:input|prompt|request) was flagged",
    re.IGNORECASE,
)
_NO_TEMPLATE = lazy_regex(
    r"chat[_ ]template.{0,80}?(?:is not set|not set|missing|undefined|no longer allowed)|"
    r"(?:no|not have a|without a|does not have a) (?:default )?chat[_ ]template|"
    r"does not support (?:chat|chat completions)|not a chat model",
    re.IGNORECASE | re.DOTALL,
)

_NOT_TAKEN = lazy_regex(
    r"unexpected keyword|unsupported|not support|does ?n[o']t support|not permitted|not allowed|unrecognized|"
    r"unknown|deprecated|extra inputs|extra fields|only the default|cannot both|not available",
    re.IGNORECASE,
)


def status_error(
    who: str,
    status: int,
    body: object,
    secrets: Secrets,
    *,
    key_hint: str = _KEY_HINT,
    model_hint: str = _NAME_HINT,
    address_hint: str = _DOWN_HINT,
) -> LanguageModelError:
    """Return the error for an HTTP status.

    Args:
        who: refuses or fails, as it begins a sentence: an address, or the name of a model.
        status: 300 or more.
        body: what was answered (parsed JSON, or text).
        secrets: kept out of the text.
        key_hint, model_hint, address_hint: what to do about a key that is refused, a model that is not there, an
            address where nothing is.
    """
    said = secrets.strip(detail(body))
    overflow = None if status in _REFUSED or status == 429 or status == 404 else context_overflow(body)
    if overflow is None and status == 413:
        overflow = ContextOverflowError(said=said)
    if overflow is not None:
        return _scrubbed(overflow, secrets)
    if status in (400, 403) and _FILTERED.search(f"{said} {get(body, 'code')}"):
        return EmptyReplyError(f"{who} withheld its answer ({status}): {said}", hint=_FILTER_HINT)
    if status in _REFUSED:
        return BackendUnavailableError(f"{who} refuses access ({status}): {said}", hint=key_hint)
    if status == 404 or (status == 400 and _NO_MODEL.search(said)):
        if _NO_MODEL.search(said):
            return ModelLoadError(f"{who}: there is no such model ({status}): {said}", hint=model_hint)
        return BackendUnavailableError(f"{who}: there is nothing at that address ({status}): {said}", hint=address_hint)
    if status == 408:
        return BackendUnavailableError(f"{who} did not answer in time ({status}): {said}", hint=_SLOW_HINT)
    if status == 429:
        return BackendUnavailableError(f"{who} accepts no more requests for now ({status}): {said}", hint=_BUSY_HINT)
    if status in TRANSIENT or status >= 500:
        return BackendUnavailableError(f"{who} is overloaded or broken ({status}): {said}", hint=_BROKEN_HINT)
    return LanguageModelError(f"{who} refuses the request ({status}): {said}")


def timeout_error(who: str, seconds: float | None, said: str = "") -> BackendUnavailableError:
    """Return the error for an answer that did not come within ``seconds``."""
    within = "in time" if seconds is None else f"within {seconds:g} s"
    return BackendUnavailableError(f"{who} did not answer {within}{': ' if said else '.'}{said}", hint=_SLOW_HINT)


def connection_error(who: str, said: str) -> BackendUnavailableError:
    """Return the error for a connection that could not be made or broke off."""
    inside = who[:1].lower() + who[1:]
    return BackendUnavailableError(f"There is no connection to {inside}: {said}", hint=_DOWN_HINT)


def provider_error(error: BaseException, who: str, secrets: Secrets) -> LanguageModelError:
    """Convert an exception of a provider's client to one of ours that is an instance of its class too.

    The client's own error is its cause, unless its text (or that of what caused it) holds a secret: a traceback would
    show it. Errors of this tree come back as they are, other errors of ours as LanguageModelError.
    """
    if isinstance(error, LanguageModelError):
        return error
    if isinstance(error, SelfReflectError):
        return LanguageModelError(error.message, hint=error.hint)
    found = _classified(error, who, secrets)
    clean = all(secrets.hide(_text(e)) == _text(e) for e in _chain(error))
    found.__cause__ = error if clean and not isinstance(error, (StopIteration, StopAsyncIteration)) else None
    held = getattr(error, "__dict__", {})
    return as_both(found, error, {k: secrets.hide_in(v) for k, v in held.items() if not k.startswith("__")})


def _classified(error: BaseException, who: str, secrets: Secrets) -> LanguageModelError:
    kind = type(error).__name__
    said = secrets.strip(_text(error), 300)
    described = f"{kind}: {said}" if said else kind
    for cause in _chain(error):
        status = _status(cause)
        if status is not None:
            body = get(cause, "body")
            return status_error(who, status, body if isinstance(body, Mapping) else _text(cause), secrets)
    meaning = next((m for e in _chain(error) for p, m in _BY_NAME if p.search(_names(e))), None)
    overflow = None if meaning in (429, 401, 403) else context_overflow(_text(error))
    if overflow is not None or meaning == "overflow":
        return _scrubbed(overflow or ContextOverflowError(said=said), secrets)
    in_text = _IN_TEXT.search(_text(error))
    if meaning is None and in_text is not None:
        meaning = int(in_text[1])
    if isinstance(meaning, int):
        return status_error(who, meaning, described, secrets)
    if meaning == "slow" or isinstance(error, TimeoutError):
        return timeout_error(who, None, described)
    if meaning == "model":
        return ModelLoadError(f"{who}: there is no such model: {described}", hint=_NAME_HINT)
    if meaning == "down" or isinstance(error, ConnectionError):
        return connection_error(who, described)
    return GenerationError(f"{who} failed: {described}", hint="Does the model answer by itself, outside of the engine?")


def _scrubbed(overflow: ContextOverflowError, secrets: Secrets) -> ContextOverflowError:
    overflow.message = secrets.strip(overflow.message)
    overflow.args = (overflow.message,)
    return overflow


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Return the error and its causes: wrappers often leave the status on the error they wrap."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < _DEEPEST:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _names(error: BaseException) -> str:
    """Return the names of its classes, for errors whose name says what they are."""
    return " ".join(c.__name__ for c in type(error).__mro__ if c not in (Exception, BaseException, object, OSError))


def _status(error: BaseException) -> int | None:
    response = get(error, "response")
    for source, name in (
        *((error, n) for n in ("status_code", "http_status", "status", "code")),
        *((response, n) for n in ("status_code", "status")),
        (get(response, "ResponseMetadata"), "HTTPStatusCode"),
    ):
        status = _as_status(get(source, name))
        if status is not None:
            return status
    return None


def _as_status(value: Any) -> int | None:
    if callable(value) and not isinstance(value, type):  # grpc: error.code()
        try:
            value = value()
        except Exception:
            return None
    value = _GRPC.get(str(getattr(value, "name", "")), value)
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
        return int(value)
    return None


def _text(error: BaseException) -> str:
    try:
        return str(error)[:20_000]
    except Exception:
        return "an error that cannot be shown"


def needs_chat_template(error: BaseException) -> bool:
    """Return whether a model refuses a chat for lack of a template: a base model, which can complete text."""
    return _NO_TEMPLATE.search(_text(error)) is not None


def refused_options(error: Exception, sent: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the options that an error refuses, so that the call may do without them.

    Args:
        sent: the call's options, each with the names that providers have for it.
    """
    text = _text(error)
    if not (isinstance(error, TypeError) or _NOT_TAKEN.search(text)):
        return set()
    return {o for o, names in sent.items() if re.search(rf"(?<![A-Za-z])(?:{'|'.join(names)})(?![A-Za-z])", text)}


E = TypeVar("E", bound=SelfReflectError)

_NEVER = (StopIteration, StopAsyncIteration)  # thrown into a generator they would end it
_PLAIN = (Exception, BaseException)
_MADE: dict[tuple[type, type], type[SelfReflectError] | None] = {}
"""One class for each pair, so that two errors of a kind are of one class."""


def as_both(error: E, original: BaseException, state: dict[str, Any] | None = None) -> E:
    """Return ``error``, or an equal one that is an instance of ``type(original)`` too.

    Who has filtered on a provider's exceptions (``with_retry(retry_if_exception_type=(openai.RateLimitError,))``,
    ``except anthropic.APIStatusError``) goes on catching them through our engines, and who catches ours does too.

    Its text, hint and fields are ``error``'s; what else ``original`` holds (``status_code``, ``response``, …) is on it
    as well. It can be pickled; where the provider's class cannot be found again, ``error``'s class is left.

    Args:
        original: the provider's. A class that cannot be a base beside ours is left out: then ``error`` itself.
        state: what of ``original`` to take over, by default all of its attributes.
    """
    kind = type(original)
    made = None if isinstance(original, SelfReflectError) else _class_of_both(type(error), kind)
    if made is None:
        return error
    try:
        both = made.__new__(made, error.message)
    except Exception:  # a class that must be made of other arguments
        return error
    both.args = (error.message,)
    taken = getattr(original, "__dict__", {}) if state is None else state
    both.__dict__.update({**taken, **error.__dict__})
    both.__cause__ = error.__cause__
    return cast("E", both)  # a subclass of type(error)


def _class_of_both(ours: type[SelfReflectError], theirs: type[BaseException]) -> type[SelfReflectError] | None:
    if (ours, theirs) not in _MADE:
        _MADE[ours, theirs] = _make_class(ours, theirs)
    return _MADE[ours, theirs]


def _make_class(ours: type[SelfReflectError], theirs: type[BaseException]) -> type[SelfReflectError] | None:
    if not issubclass(theirs, Exception) or issubclass(theirs, _NEVER) or theirs in _PLAIN or issubclass(ours, theirs):
        return None

    def fill(namespace: dict[str, Any]) -> None:
        namespace |= {
            "__module__": ours.__module__,
            "__doc__": f"{ours.__name__}, and {theirs.__module__}.{theirs.__qualname__}.",
            "__reduce__": _reduce,
            "__reduce_ex__": lambda error, protocol: _reduce(error),
            "__repr__": lambda error: f"{ours.__name__}({error.message!r})",
            "_pair": (ours, theirs),
        }
        # A property of that name on the provider's class would hide our field.
        namespace |= {name: _own_field(name) for name in ("message", "hint", "needed", "available")}

    try:
        made: type[SelfReflectError] = types.new_class(ours.__name__, (ours, theirs), {}, fill)
    except TypeError:  # a final class, another metaclass, a layout that does not fit
        return None
    made.__qualname__ = ours.__qualname__
    return made


def _own_field(name: str) -> property:
    """Make a field kept on the object itself, whatever the object's classes define under its name."""

    def read(error: Any) -> Any:
        if name not in error.__dict__:
            raise AttributeError(name)
        return error.__dict__[name]

    def write(error: Any, value: object) -> None:
        error.__dict__[name] = value

    return property(read, write)


def _reduce(error: Any) -> tuple[Any, ...]:
    ours, theirs = type(error)._pair
    state = {k: v for k, v in error.__dict__.items() if _can_be_pickled(v)}
    return _remade, (ours, theirs.__module__, theirs.__qualname__, error.args, state)


def _remade(ours: type[SelfReflectError], module: str, name: str, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    try:
        theirs = pkgutil.resolve_name(f"{module}:{name}")
    except (ImportError, AttributeError, ValueError):  # gone, or made within a function
        theirs = None
    made = _class_of_both(ours, theirs) if isinstance(theirs, type) and issubclass(theirs, Exception) else None
    error = (made or ours).__new__(made or ours, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return False
    return True
