"""The same words for the same mistake, whichever facade or plug-in it is made with; and in the user's own names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from shared_core.errors import ArgumentError, InputError, OptionError, SelfReflectError, did_you_mean
from shared_core.settings import SelfReflectSettings

E = TypeVar("E", bound=BaseException)


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
