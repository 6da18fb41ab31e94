"""Regular expressions that all Pythons of 3.11 read alike, and that are right though nobody uses them.

Before 3.11.5 a possessive quantifier behind a group with a lookahead within ("(?:(?!x).)*+") never matches; an atomic
group ("(?>(?:(?!x).)*)") does. Debian 12 has Python 3.11.2.
"""

from __future__ import annotations

import gc
import importlib
import re
from pathlib import Path

import pytest

from shared_core.support.regex import lazy_regex

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


def test_every_pattern_compiles() -> None:
    for path in FILES:
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    lazy = type(lazy_regex(""))
    patterns = [p for p in gc.get_objects() if type(p) is lazy]
    assert len(patterns) > 1000
    for pattern in patterns:
        re.compile(pattern.pattern, pattern.flags)


def test_a_lazy_pattern_is_used_like_a_compiled_one() -> None:
    word = lazy_regex(r"(?P<first>[a-z])(\w*)", re.IGNORECASE)
    assert word.groups == 2
    assert word.groupindex == {"first": 1}
    assert word.flags == re.compile("", re.IGNORECASE).flags
    assert [m[0] for m in word.finditer("Oats and rye")] == ["Oats", "and", "rye"]
    assert word.sub(r"\1.", "Oats and rye", count=2) == "O. a. rye"
    assert word.split("1 ox 2")[0] == "1 "
    assert word.fullmatch("two words") is None
    assert word.match("?") is None
    assert word.search("Oats", 1, 3)
    assert repr(lazy_regex("a+")) == "re.compile('a+')"
    assert lazy_regex(rb"\d").findall(b"1 2") == [b"1", b"2"]


def test_a_wrong_pattern_is_refused_when_it_is_used() -> None:
    wrong = lazy_regex("(")
    with pytest.raises(re.error):
        wrong.search("text")
