"""A dict that nobody changes, for the metadata of values that are shared."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyDict(dict[K, V]):
    """A dict that cannot be changed; unlike a mapping proxy it is pickled, copied deeply and written as JSON.

    >>> from dataclasses import asdict
    >>> from shared_core import Passage
    >>> asdict(Passage("a", "The lamp was lit.", metadata={"page": 3}))["metadata"]
    {'page': 3}
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("This metadata cannot be changed. Change a copy: dict(metadata).")

    __setitem__ = __delitem__ = _refuse
    __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
