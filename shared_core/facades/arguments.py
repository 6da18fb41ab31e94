"""Errors about arguments, worded alike in all facades and plug-ins and naming the user's own arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from shared_core.errors import ArgumentError, InputError, OptionError, SelfReflectError, did_you_mean
from shared_core.settings import SelfReflectSettings

E = TypeVar("E", bound=BaseException)

READ_ALL = 1000
"""Maximum passages to read if neither the settings nor a framework's retriever limit them."""


def no_retriever(given: object, hint: str) -> InputError:
    """Create the error for a retriever that cannot retrieve."""
    return InputError(f"{type(given).__name__} is not a retriever.", hint=hint)


def no_language_model(given: object, hint: str) -> InputError:
    """Create the error for an object that is not a language model."""
    return InputError(f"{type(given).__name__} is not a language model.", hint=hint)


def unknown_argument(name: str, known: Iterable[str], owner: str) -> ArgumentError:
    """Create the error for an argument that ``owner`` (a class or function) does not have."""
    names = sorted(known)
    if name in SelfReflectSettings.model_fields and "settings" in names:
        return ArgumentError(
            f"There is no argument {name!r}; it is a setting.", hint=f"settings=SelfReflectSettings({name}=…)"
        )
    return ArgumentError(
        f"There is no argument {name!r}.", hint=f"{did_you_mean(name, names)}{owner} takes: {', '.join(names)}."
    )


def missing_argument(name: str, owner: str) -> ArgumentError:
    """Create the error for a missing argument of ``owner`` (a class or function)."""
    return ArgumentError(f"The argument {name!r} is missing.", hint=f"{owner}({name}=…)")


def unreachable_filter(hint: str) -> OptionError:
    """Create the error for ``settings.where`` with a framework's retriever, which has no such argument."""
    return OptionError("settings.where cannot be passed to a retriever of a framework.", hint=hint)


def check_count(name: str, value: object) -> int:
    """Return ``value`` if it is a whole number and at least 1; OptionError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name} must be a whole number, at least 1, not {value!r}.", hint=f"{name}=5, for example.")
    return value


def as_settings(given: object) -> SelfReflectSettings:
    """Return settings unchanged, the defaults for ``None``, or settings made of a mapping of their values.

    Raises:
        InputError: it has another type.
        SettingsError: a value of the mapping is invalid, or there is no setting of that name.
    """
    if given is None:
        return SelfReflectSettings()
    if isinstance(given, SelfReflectSettings):
        return given
    if isinstance(given, Mapping):
        return SelfReflectSettings(**given)
    raise InputError(
        f"settings must be SelfReflectSettings, or a dict of their values, not {type(given).__name__}.",
        hint="settings=SelfReflectSettings(top_k=5), for example.",
    )


SHORTCUTS = ("target_accuracy", "pipeline", "on_abstain", "guarantee", "abstain_text", "deadline", "style")
"""Options of the plug-ins that set the setting of the same name; ``style`` that of ``settings.reclaim``."""


def set_shortcuts(settings: SelfReflectSettings, values: Mapping[str, object]) -> SelfReflectSettings:
    """Return settings changed by those of ``SHORTCUTS`` that are not ``None``; SettingsError if one is out of range."""
    given = {name: value for name in SHORTCUTS if (value := values.get(name)) is not None}
    style = given.pop("style", None)
    if style is not None:
        given["reclaim"] = settings.reclaim.replace(style=style)
    return settings.replace(**given) if given else settings


@contextmanager
def in_words_of(owner: object, **names: str) -> Iterator[None]:
    """Reword errors raised within the block so that they name the user's class and arguments, not the engine's.

    The class of ``owner`` replaces ``SelfReflectEngine``, and ``names`` the engine's arguments (``lm="llm"``).
    """
    try:
        yield
    except SelfReflectError as error:
        reword(error, owner, **names)
        raise


def reword(error: E, owner: object, **names: str) -> E:
    """Reword an error as ``in_words_of`` does; return any other exception unchanged."""
    if isinstance(error, SelfReflectError):
        error.message, error.hint = (_in_words(text, owner, names) for text in (error.message, error.hint))
    return error


def _in_words(text: str, owner: object, names: Mapping[str, str]) -> str:
    text = text.replace("SelfReflectEngine(", f"{type(owner).__name__}(")
    for ours, theirs in names.items():
        text = re.sub(rf"\b{ours}=", f"{theirs}=", text)
    return text
