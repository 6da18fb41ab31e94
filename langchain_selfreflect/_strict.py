"""What the pydantic classes of this plugin share: unknown or wrong arguments are refused with our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from shared_core.errors import SelfReflectError, SettingsError
from shared_core.facades.arguments import as_settings, missing_argument, unknown_argument
from shared_core.settings import SelfReflectSettings

T = TypeVar("T")


class Made(Generic[T]):
    """What was made of an object's fields, until one of them changes; neither copied nor pickled with the object."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Any, ...], T] | None = None

    def get(self, owner: BaseModel, make: Callable[[], T]) -> T:
        """What ``make`` makes of the fields as they are now."""
        fields = tuple(getattr(owner, name) for name in type(owner).model_fields)
        kept = self._kept
        if kept is not None and all(a is b for a, b in zip(kept[0], fields)):
            return kept[1]
        made = make()
        self._kept = (fields, made)
        return made

    async def aget(self, owner: BaseModel, make: Callable[[], T]) -> T:
        """``get``; making may read files and ask a chat model what it can do, so that happens in a thread."""
        if self._kept is None:
            return await asyncio.to_thread(self.get, owner, make)
        return self.get(owner, make)

    def __deepcopy__(self, memo: object) -> Made[T]:
        return Made()

    def __copy__(self) -> Made[T]:
        return Made()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Made, ())


class Strict:
    """Mixed in before a pydantic class: what it refuses is one of our errors, in the words of the other plug-in.

    A class says in ``_make`` what it makes of its fields. That happens when the object is made too, without a call of
    any model, so that what cannot work is refused then.
    """

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _refusal(type(self), error) from error


def _refusal(cls: type, error: ValidationError) -> SelfReflectError:
    for found in error.errors():
        ours = found.get("ctx", {}).get("error")
        if isinstance(ours, SelfReflectError):
            return ours
    known = sorted(cls.model_fields) if issubclass(cls, BaseModel) else []
    for found in error.errors():
        if len(found["loc"]) == 1 and found["type"] == "extra_forbidden":
            return unknown_argument(str(found["loc"][0]), known, cls.__name__)
        if len(found["loc"]) == 1 and found["type"] == "missing":
            return missing_argument(str(found["loc"][0]), cls.__name__)
    problems = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()]
    return SettingsError(f"{cls.__name__} cannot be made: " + "; ".join(problems), hint=f"It takes: {', '.join(known)}")


def _settings(given: object) -> SelfReflectSettings:
    return as_settings(given, from_dict=True)


ReflectSettings = Annotated[SelfReflectSettings, BeforeValidator(_settings)]
"""``SelfReflectSettings``, a dict of their values, or ``None`` for the defaults."""
