"""Recognise text that gets no passages: tables of contents, indexes, lists of links into the page, single words.

Only text that cannot answer a question is left out, and only if its form is unmistakable: lines that end in a page
number after leaders or under such a heading, lists of nothing but links into the same page. The document itself keeps
it.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
_LEADERS = re.compile(r"(?:\.{3,}|…+|(?:[.·]\s+){3,}[.·]?)\s*(?:\d{1,4}|[ivxlc]{1,7})\s*\Z", re.IGNORECASE)
_PAGE_BEHIND = re.compile(r"\S[\s.,…]+(?:\d{1,4}(?:[,;–-]\s*\d{1,4})*|[ivxlc]{1,7})\s*\Z")
_LINK_LINE = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\[[^\]]+\]\(#[^)]*\)\s*\Z")
_LISTING = re.compile(
    r"(?:\d+[.)]?\s+)?"
    r"(?:(?:table of )?contents|(?:list|table) of (?:figures|tables|illustrations)|(?:general |subject )?index)",
    re.IGNORECASE,
)
_DIRECTIVE = re.compile(
    r"^\.\. (?:contents|toctree|sectnum|index)::[^\n]*\n(?:(?:[ \t]+[^\n]*|[ \t]*)(?:\n|\Z))*", re.MULTILINE
)
_MOST = 0.6
_LINKS = 3
_LEAST_WORDS = 2
_LAST_LATIN = "\u024f"


def is_listing_title(label: str) -> bool:
    """Return whether a heading is that of a table of contents, of figures, or of an index.

    >>> is_listing_title("List of figures")
    True
    """
    return _LISTING.fullmatch(label.strip(" .:#")) is not None


def is_listing(paragraph: str, *, titled: bool) -> bool:
    """Return whether a paragraph is part of a table of contents or an index.

    Args:
        paragraph: its text.
        titled: whether it is under such a heading; then a number at the end of its lines is enough.
    """
    lines = [line for line in paragraph.splitlines() if line.strip()]
    if not lines:
        return False
    shape = _PAGE_BEHIND if titled else _LEADERS
    numbered = sum(1 for line in lines if shape.search(line[-200:]))
    links = sum(1 for line in lines if _LINK_LINE.fullmatch(line[:1000]))
    return numbered >= _MOST * len(lines) or (links == len(lines) and (titled or links >= _LINKS))


def directives(text: str) -> list[tuple[int, int]]:
    """Return the ranges of reStructuredText directives that generate tables of contents and indexes."""
    return [match.span() for match in _DIRECTIVE.finditer(text)]


def is_single_word(text: str) -> bool:
    """Return whether a passage has fewer than two words; never in scripts that may not separate words by spaces."""
    if any(letter > _LAST_LATIN and letter.isalpha() for letter in text):
        return False
    return len(_WORD.findall(text)) < _LEAST_WORDS
