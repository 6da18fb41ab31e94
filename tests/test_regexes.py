"""Regular expressions that all Pythons of 3.11 read alike.

Before 3.11.5 a possessive quantifier behind a group with a lookahead within ("(?:(?!x).)*+") never matches; an atomic
group ("(?>(?:(?!x).)*)") does. Debian 12 has Python 3.11.2.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\{?\d+,?\d*\}\}?)\+")
PACKAGES = "shared_core", "llamaindex_selfreflect", "langchain_selfreflect"
FILES = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


@pytest.mark.parametrize("place", sorted({p.parent.relative_to(ROOT).as_posix() for p in FILES}))
def test_no_group_has_a_possessive_quantifier(place: str) -> None:
    found = [
        f"{path.name}:{number}"
        for path in FILES
        if path.parent.relative_to(ROOT).as_posix() == place
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _POSSESSIVE_GROUP.search(line)
    ]
    assert not found, "write (?>(?:…)*) for (?:…)*+"
