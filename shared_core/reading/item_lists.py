"""Find the lists of a text, numbered or with bullets, and its blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from shared_core.support.regex import lazy_regex
from shared_core.types import Span

_ITEM = lazy_regex(
    r"(?P<indent>[ \t]*)(?:(?:step )?(?P<number>\d{1,3})[.):]|(?P<letter>[a-z])[.)]|(?P<bullet>[-*+•‣◦▪●○–]))"
    r"[ \t]+(?=\S)",
    re.IGNORECASE,
)
_HEADING = lazy_regex(r"(?P<level>#{1,6})[ \t]+(?P<title>.+)")
_FENCE = lazy_regex(r"[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)")
_NO_CODE = lazy_regex(
    r"\{(?!(?:code|sourcecode|parsed-literal|prompt)\b)|(?:math|mermaid|plantuml|dot)\b", re.IGNORECASE
)
"""What follows the fence of a directive of Markdown (MyST), or of a picture."""
_LEAST = 2
"""Items of a list at least; one that begins with "9." goes on from another text, one at the end goes on in another."""

Kind = Literal["number", "letter", "bullet", "code"]


@dataclass(slots=True)
class ItemList:
    """A list in a text, or a block of code.

    Attributes:
        kind: how its items are marked; ``code`` for a block of code between fences.
        start, end: from its first item's mark to the end of its last item, code points; of code, without the fences.
        lead: where the paragraph right above it begins; ``start`` if there is none.
        headings: those above it in the text, the innermost one last.
        first: the number of its first item, from 1 for letters; 0 if its items have none.
    """

    kind: Kind
    start: int
    end: int
    lead: int
    headings: tuple[str, ...]
    first: int = 0

    @property
    def heading(self) -> str:
        """The innermost heading in the text, "" if there is none."""
        return self.headings[-1] if self.headings else ""


@dataclass(slots=True)
class _Open:
    """A list that is being read, with the indent of its marks and the number and count of its items."""

    found: ItemList
    indent: int
    number: int
    items: int = 1


@lru_cache(maxsize=512)
def lists_of(text: str) -> tuple[ItemList, ...]:
    """Find the lists of a text: items of one kind with one indent, each with what is indented below it.

    >>> [(found.kind, found.heading) for found in lists_of("## Reset\\n\\n1. Press.\\n2. Wait.\\n\\nDone.")]
    [('number', 'Reset')]
    """
    return tuple(_lists(text))


def first_number(text: str) -> int:
    """Return the number of the item that a text begins with, from 1 for letters; 0 if it has none."""
    item = _ITEM.match(text)
    return _number(item) if item else 0


def write_quote(text: str, quote: Span) -> str:
    """Return a quote of a text in one line, or of a list with a line for each item.

    Code, and what begins with a heading or comment, keep their own lines.

    >>> text = "Do this:\\n\\n1. Press\\n   the button.\\n2. Wait."
    >>> write_quote(text, Span("p", 10, len(text), text[10:])).splitlines()
    ['1. Press the button.', '2. Wait.']
    """
    own = quote.text.startswith("#")
    if own or any(one.kind == "code" and one.start <= quote.start and quote.end <= one.end for one in lists_of(text)):
        return "\n".join(line.rstrip() for line in quote.text.splitlines() if line.strip())
    lines = re.finditer(r"^.*$", quote.text, re.MULTILINE) if lists_of(quote.text) else ()
    starts = [line.start() for line in lines if line.start() and _ITEM.match(line[0])]
    parts = [quote.text[a:b] for a, b in pairwise([0, *starts, len(quote.text)])]
    return "\n".join(" ".join(part.split()) for part in parts)


def _lists(text: str) -> Iterator[ItemList]:
    headings: tuple[tuple[int, str], ...] = ()  # each with its level
    paragraph = -1  # where the paragraph that the last line belongs to begins
    now: _Open | None = None
    code: ItemList | None = None
    fence, blank, at = "", True, 0
    for line in text.splitlines(keepends=True):
        begin, at = at, at + len(line)
        end = begin + len(line.rstrip())
        depth = len(line) - len(line.lstrip())
        mark = _FENCE.match(line)
        if fence:
            if mark and mark["fence"].startswith(fence):
                fence = ""
            elif code and line.strip():
                code.start, code.end = min(code.start, begin), end
            if not fence and code:
                yield from [code] if code.end else []
                code = None
            if now:
                now.found.end = max(end, now.found.end)
        elif not line.strip():
            blank = True
            continue
        elif mark:
            fence = mark["fence"]
            if now and depth <= now.indent:
                yield from _closed(now)
                now = None
            lead = paragraph if paragraph >= 0 else begin
            is_code = not now and _NO_CODE.match(mark["info"]) is None
            code = ItemList("code", len(text), 0, lead, _titles(headings)) if is_code else None
            paragraph = -1
        elif now and (_continues(now, line) or depth > now.indent or not (blank or _begins_block(line))):
            now.found.end = end
        else:
            yield from _closed(now)
            now = _opened(line, begin, paragraph, _titles(headings))
            heading = _HEADING.match(line)
            if now:
                paragraph = -1
            elif heading:
                level = len(heading["level"])
                headings = (*((k, title) for k, title in headings if k < level), (level, heading["title"].strip()))
                paragraph = -1
            elif blank or paragraph < 0:
                paragraph = begin
        blank = False
    yield from _closed(now, at_end=True)


def _closed(now: _Open | None, *, at_end: bool = False) -> Iterator[ItemList]:
    if now is not None and (now.items >= _LEAST or (now.found.kind == "number" and (now.found.first > 1 or at_end))):
        yield now.found


def _opened(line: str, begin: int, paragraph: int, headings: tuple[str, ...]) -> _Open | None:
    """Return the list that a line begins, if it is an item."""
    item = _ITEM.match(line)
    if item is None:
        return None
    indent, number = len(item["indent"]), _number(item)
    start, end = begin + indent, begin + len(line.rstrip())
    found = ItemList(_kind(item), start, end, paragraph if paragraph >= 0 else start, headings, number)
    return _Open(found, indent, number)


def _continues(now: _Open, line: str) -> bool:
    """Count a line as the next item of a list if it is: "3." behind "2.", or "1." throughout, as Markdown allows."""
    item = _ITEM.match(line)
    if item is None or len(item["indent"]) != now.indent or _kind(item) != now.found.kind:
        return False
    number = _number(item)
    if number and number not in (now.number, now.number + 1):
        return False
    now.items, now.number = now.items + 1, number
    return True


def _begins_block(line: str) -> bool:
    return _HEADING.match(line) is not None or _ITEM.match(line) is not None


def _titles(headings: tuple[tuple[int, str], ...]) -> tuple[str, ...]:
    return tuple(title for _, title in headings)


def _kind(item: re.Match[str]) -> Kind:
    return "number" if item["number"] else "letter" if item["letter"] else "bullet"


def _number(item: re.Match[str]) -> int:
    return int(item["number"]) if item["number"] else ord(item["letter"].lower()) - 96 if item["letter"] else 0
