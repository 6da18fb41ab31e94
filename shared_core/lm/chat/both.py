"""Errors that belong to our tree and to the provider's at once.

Who has filtered on a provider's exceptions (``with_retry(retry_if_exception_type=(openai.RateLimitError,))``,
``except anthropic.APIStatusError``) goes on catching them through our engines, and who catches ours does too.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import types
from typing import Any, TypeVar

from shared_core.errors import SelfReflectError

E = TypeVar("E", bound=SelfReflectError)

_NEVER = (StopIteration, StopAsyncIteration)  # thrown into a generator they would end it
_PLAIN = (Exception, BaseException)
_MADE: dict[tuple[type, type], type[SelfReflectError] | None] = {}
"""One class for each pair, so that two errors of a kind are of one class."""


def as_both(error: E, original: BaseException, state: dict[str, Any] | None = None) -> E:
    """Return ``error``, or an equal one that is an instance of ``type(original)`` too.

    Its text, hint and fields are ``error``'s; what else ``original`` holds (``status_code``, ``response``, …) is on it
    as well. It can be pickled; where the provider's class cannot be found again, ``error``'s class is left.

    Args:
        error: ours.
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
    return both  # type: ignore[return-value]  # a subclass of type(error)


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
        namespace |= {name: _Field(name) for name in ("message", "hint", "needed", "available")}

    try:
        made: type[SelfReflectError] = types.new_class(ours.__name__, (ours, theirs), {}, fill)
    except TypeError:  # a final class, another metaclass, a layout that does not fit
        return None
    made.__qualname__ = ours.__qualname__
    return made


class _Field:
    """A field kept on the object itself, whatever the object's classes define under its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        try:
            return owner.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, owner: Any, value: object) -> None:
        owner.__dict__[self._name] = value


def _reduce(error: Any) -> tuple[Any, ...]:
    ours, theirs = type(error)._pair
    state = {k: v for k, v in error.__dict__.items() if _can_be_pickled(v)}
    return _remade, (ours, theirs.__module__, theirs.__qualname__, error.args, state)


def _remade(ours: type[SelfReflectError], module: str, name: str, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    theirs = _found(module, name)
    made = _class_of_both(ours, theirs) if isinstance(theirs, type) and issubclass(theirs, Exception) else None
    error = (made or ours).__new__(made or ours, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def _found(module: str, name: str) -> object:
    try:
        found: object = sys.modules.get(module) or importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return False
    return True
