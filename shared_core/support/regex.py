"""Compile regular expressions when they are first used: a question needs a fifth of the rules' 1,600."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast

_METHODS = "search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split"


class _LazyPattern(Generic[AnyStr]):
    """Stands for a compiled pattern; its methods are the compiled pattern's own once one of them was asked for."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of pickle, copy and the like
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))  # later calls do not come here
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return repr(re.compile(self.pattern, self._flags))


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used, with the methods and attributes of a compiled one.

    A wrong pattern raises ``re.error`` at its first use only. The functions of ``re`` do not take it: call its methods.

    >>> word = lazy_regex(r"\\w+")
    >>> word.pattern, word.findall("ferry at nine")
    ('\\\\w+', ['ferry', 'at', 'nine'])
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
