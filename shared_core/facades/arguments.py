"""The same words for the same mistake, whichever facade or plug-in it is made with; and in the user's own names."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from shared_core.errors import ArgumentError, InputError, OptionError, SelfReflectError, did_you_mean
from shared_core.settings import SelfReflectSettings

E = TypeVar("E", bound=BaseException)
P = ParamSpec("P")
R = TypeVar("R")


def no_retriever(given: object, hint: str) -> InputError:
    """Something that cannot retrieve was given for a retriever."""
    return InputError(f"{type(given).__name__} is no retriever.", hint=hint)


def no_language_model(given: object, hint: str) -> InputError:
    """Something else was given for a language model."""
    return InputError(f"{type(given).__name__} is no language model.", hint=hint)


def unknown_argument(name: str, known: Iterable[str], owner: str) -> ArgumentError:
    """``owner`` (a class or function) was given an argument that it does not know."""
    names = sorted(known)
    return ArgumentError(
        f"There is no argument {name!r}.", hint=f"{did_you_mean(name, names)}{owner} takes: {', '.join(names)}."
    )


def missing_argument(name: str, owner: str) -> ArgumentError:
    """``owner`` (a class or function) was not given an argument that it needs."""
    return ArgumentError(f"The argument {name!r} is missing.", hint=f"{owner}({name}=…)")


def checks_names(call: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a method: arguments that it does not know or lacks are an ArgumentError instead of a TypeError.

    The signature stays the method's own, for people, type checkers and ``inspect``.
    """
    parameters = list(inspect.signature(call).parameters.values())
    named = [p for p in parameters[1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known = {p.name for p in named}
    needed = [p.name for p in named if p.default is p.empty]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @functools.wraps(call)
    def checked(*given: P.args, **options: P.kwargs) -> R:
        unknown = [] if open_ended else [name for name in options if name not in known]
        by_place = {p.name for p in named[: len(given) - 1]}
        missing = [name for name in needed if name not in options and name not in by_place]
        if unknown or missing:
            owner = _owner(call, given[0]) if given else call.__name__
            raise unknown_argument(unknown[0], known, owner) if unknown else missing_argument(missing[0], owner)
        return call(*given, **options)

    return checked


def _owner(call: Callable[..., object], first: object) -> str:
    cls = first if isinstance(first, type) else type(first)
    return cls.__name__ if call.__name__ == "__init__" else f"{cls.__name__}.{call.__name__}"


def unreachable_filter(hint: str) -> OptionError:
    """``settings.where`` was set for a retriever of a framework, which has no form for it."""
    return OptionError("settings.where cannot reach a retriever of another framework.", hint=hint)


def check_count(name: str, value: object) -> int:
    """``value``, if it is a whole number and at least 1; OptionError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name} must be a whole number, at least 1, not {value!r}.", hint=f"{name}=5, for example.")
    return value


def as_settings(given: object, *, from_dict: bool = False) -> SelfReflectSettings:
    """Settings as they are, or the defaults for ``None``; of a dict where one may be read (serialised objects).

    Raises:
        InputError: it is something else.
        SettingsError: a value of the dict cannot be used.
    """
    if given is None:
        return SelfReflectSettings()
    if isinstance(given, SelfReflectSettings):
        return given
    if from_dict and isinstance(given, Mapping):
        return SelfReflectSettings(**given)
    raise InputError(f"settings must be SelfReflectSettings, not {type(given).__name__}.")


@contextmanager
def in_words_of(owner: object, **names: str) -> Iterator[None]:
    """Errors raised within speak of the user's own class and arguments, not of the engine's.

    Args:
        owner: what the user made; its class is named where ``SelfReflectEngine`` would be.
        names: what the engine's arguments are called there (``lm="llm"``).
    """
    try:
        yield
    except SelfReflectError as error:
        reword(error, owner, **names)
        raise


def reword(error: E, owner: object, **names: str) -> E:
    """The error, in the words of ``in_words_of``; any other exception as it is."""
    if isinstance(error, SelfReflectError):
        error.message, error.hint = (_in_words(text, owner, names) for text in (error.message, error.hint))
    return error


def _in_words(text: str, owner: object, names: Mapping[str, str]) -> str:
    text = text.replace("SelfReflectEngine(", f"{type(owner).__name__}(")
    for ours, theirs in names.items():
        text = re.sub(rf"\b{ours}=", f"{theirs}=", text)
    return text
