"""Objects that go from process to process: what cannot travel, or need not, is left behind and made anew there.

Processes of a pool, Ray, Spark and Streamlit's caches pickle what they are given; pydantic and LangChain copy deeply.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")

_LOCKS: Mapping[type, str] = {
    type(threading.Lock()): "Lock",
    type(threading.RLock()): "RLock",
    threading.local: "local",
}


class Portable:
    """Mixed in: locks are new in a copy, and what is loaded at first use is loaded there at first use.

    A class names in ``_left_behind`` what it loads or keeps for speed; these are ``None`` until then.
    """

    _left_behind: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        left = {k: _LOCKS[type(v)] for k, v in self.__dict__.items() if type(v) in _LOCKS}
        kept = {k: v for k, v in self.__dict__.items() if k not in left and k not in self._left_behind}
        return {"kept": kept, "locks": left}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = self.__getstate__()
        made.__setstate__({**state, "kept": {k: copied(v, memo) for k, v in state["kept"].items()}})
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["kept"])
        self.__dict__.update({name: getattr(threading, kind)() for name, kind in state["locks"].items()})
        self.__dict__.update(dict.fromkeys(self._left_behind))


def copied(value: T, memo: dict[int, Any]) -> T:
    """Copy somebody else's object deeply, by a pickle where it can be pickled only: pydantic copies locks of clients.

    Raises:
        TypeError: it can be neither, and is named.
    """
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        try:
            made: T = pickle.loads(pickle.dumps(value))
        except Exception:  # whatever its own code raises
            raise TypeError(f"A {type(value).__name__} cannot be copied: {error}") from error
        memo[id(value)] = made
        return made


class Remade:
    """Mixed in: a pickle holds the arguments that the object was made of, and makes it of them again.

    For what stands for a server, a folder or a model's weights, which another process opens for itself. An argument
    that cannot be pickled says so. ``shared_by_copies``: a deep copy within the process is the object itself.

    ``_tied_to()`` says what ties an object to its process, where that is so: it is then neither pickled nor copied.
    """

    shared_by_copies: ClassVar[bool] = False

    _made_of: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments."""
        made = super().__new__(cls)
        made._made_of = args, kwargs
        return made

    def _tied_to(self) -> str:
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        self._refuse("pickled")
        args, kwargs = self._made_of
        return _remake, (type(self), args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if self.shared_by_copies:
            return self
        self._refuse("copied")
        args, kwargs = self._made_of
        return type(self)(*args, **kwargs)

    def _refuse(self, what: str) -> None:
        if tied := self._tied_to():
            raise TypeError(f"A {type(self).__name__} in {tied} cannot be {what}: give it a folder or a server.")


def _remake(kind: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    return kind(*args, **kwargs)
