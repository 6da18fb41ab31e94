"""Other names that documents may have for what a question names: "puncture" for a flat tyre, "return" for give back."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources

from shared_core.support.regex import lazy_regex

_LISTS = tomllib.loads(resources.files("shared_core.retrieval").joinpath("other_names.toml").read_text("utf-8"))


def _names_of(lines: str) -> dict[str, tuple[str, ...]]:
    """Map each name of a list to the others of its lines."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines.strip().splitlines():
        asked, _, held = line.partition(" > ")
        names = tuple(asked.split(", "))
        for name in names:
            others = held.split(", ") if held else names
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *(other for other in others if other != name))))
    return found


ALIKE: Mapping[str, tuple[str, ...]] = _names_of(_LISTS["alike"])
"""For each name in small letters other names of the same thing, by which it may be read; "*" is up to three words."""
_NEAR = _names_of(_LISTS["near"])


def _pattern_of(name: str) -> re.Pattern[str]:
    """Match a name with each of its words in a regular form."""
    words = [r"(?:[\w'-]+ ){0,3}" if word == "*" else rf"{re.escape(word)}{_ENDING} " for word in name.split()]
    return lazy_regex(rf"{''.join(words).removesuffix(' ')}(?![\w-])")


_ENDING = "(?:e?s|e?d|ing)?"
_WORD = lazy_regex(r"(?<![\w'-])[\w'&-]+")
_SOUGHT = _names_of(f"{_LISTS['alike'].strip()}\n{_LISTS['near'].strip()}")
_BEGUN: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
"""For each first word of names all that begin so, the longest first."""
for _name in sorted(_SOUGHT, key=len, reverse=True):
    _BEGUN.setdefault(_name.split()[0], []).append((_name, _pattern_of(_name)))


def other_names(query: str) -> list[str]:
    """Return other names of what a query in English names, which the documents may have.

    >>> other_names("Is a flat tyre covered?"), other_names("Can I give the backpack back?")
    (['flat tire', 'puncture'], ['return', 'returned', 'rucksack'])
    """
    text = query.casefold().replace("’", "'")
    found: dict[str, None] = {}
    end = 0
    for word in _WORD.finditer(text):
        begun = (one for first in _forms(word[0]) for one in _BEGUN.get(first, ()))
        matched = ((name, pattern.match(text, word.start())) for name, pattern in begun)
        name, match = next(((name, match) for name, match in matched if match), ("", None))
        if match is None or word.start() < end:
            continue
        found |= dict.fromkeys(other.replace(" *", "") for other in _SOUGHT[name])
        if "*" not in name:
            end = match.end()  # of "flat tyre" nothing else is named
    return list(found)


def _forms(word: str) -> list[str]:
    """Return a word, and what it may be a regular form of: "fixed", "fix" and "fixe"."""
    return [word, *(word.removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing") if word.endswith(ending))]
