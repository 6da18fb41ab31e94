"""What the pydantic classes of this plugin share: unknown or wrong arguments are refused with our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from shared_core.errors import SettingsError

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
    """Mixed in before a pydantic class: its ValidationError becomes a SettingsError that lists what there is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(*args, **kwargs)
        except ValidationError as error:
            raise _refusal(type(self), error) from error


def _refusal(cls: type, error: ValidationError) -> SettingsError:
    problems = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()]
    known = sorted(cls.model_fields) if issubclass(cls, BaseModel) else []
    return SettingsError(f"{cls.__name__} cannot be made: " + "; ".join(problems), hint=f"It takes: {', '.join(known)}")
