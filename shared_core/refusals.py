"""The root of the error tree and the refusals that frozen values raise about themselves.

They live apart from ``errors``, which has the whole tree, because ``types`` raises them and ``errors`` knows ``types``.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SelfReflectError(Exception):
    """Base of every error this project raises on purpose.

    Args:
        message: what happened, and to what.
        hint: what the reader can do about it; shown on its own line.
    """

    __module__ = "shared_core.errors"  # where everybody finds it

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Message and hint, as a person should read them."""
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle as a call with their ``args``; subclasses take others (``CapabilityError``).
        return (_restore, (type(self), self.args), self.__dict__)


def _restore(kind: type[SelfReflectError], args: tuple[object, ...]) -> SelfReflectError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean NAME? `` with the known name that is most like this one; empty if none is like it."""
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}? " if near else ""


class InputError(SelfReflectError, ValueError):
    """An argument cannot be used."""

    __module__ = "shared_core.errors"


class PassageError(InputError):
    """A passage is malformed, or two different passages share an id."""

    __module__ = "shared_core.errors"
