"""Lists of words that reader and critic compare texts with, read from ``word_lists.toml`` once."""

from __future__ import annotations

import tomllib
from importlib import resources

_LISTS = tomllib.loads(resources.files("shared_core.reading").joinpath("word_lists.toml").read_text("utf-8"))


def word_list(name: str) -> frozenset[str]:
    """Return the words of a list.

    >>> "january" in word_list("dates")
    True
    """
    return frozenset(_LISTS[name].split())
