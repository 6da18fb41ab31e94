"""Read manual pages that ``man`` has set as text: their sections, and their terms with what is indented below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from shared_core.documents.loaders.extracted import TERM_LEVEL, Extracted, Heading, one_line
from shared_core.support.regex import lazy_regex

_HEAD = lazy_regex(
    r"\s*(\w[\w.:+@-]*\(\d\w*\))(?:[ \t]+(?:\S[^\n]*[ \t])?\1[ \t\r]*\n|[ \t\r]*\n\s*(?=NAME[ \t\r]*\n))", re.IGNORECASE
)
_OVERSTRUCK = lazy_regex(r"[^\n]\x08|\x1b\[[0-9;]*m")  # bold and underlined letters, as on a line printer
_HYPHEN = lazy_regex(r"(?<=[^\W\d_])‐\n([ ]+)(\S+)[ ]*")  # a word set on two lines
_HEADING_LINE = lazy_regex(r"^ {0,3}\S[^\n]*\n(?=[ ]*\S)", re.MULTILINE)
_CAPITAL = lazy_regex(r"[A-Z]{2}")
_SHORT_TERM = lazy_regex(r"(--?[A-Za-z0-9?](?:\S| (?! ))*)[ ]{2,}\S")  # with its definition in the same line
_NO_TERM = lazy_regex(r"(?:[•·*+$#>%]|\(?\w{1,2}[.)])[ ]|\W+$")  # an item, or a command to type
_LONGEST_TERM = 62  # of a line of its own
_USUAL_WIDTH = 7  # columns of a term in front of its definition
_SUBSECTION = 3  # columns


class _Line(NamedTuple):
    start: int
    indent: int  # in columns; 0 also if the line is empty
    text: str

    def is_heading(self) -> bool:
        named = self.indent or _CAPITAL.search(self.text) or self.text.istitle()
        return bool(self.text) and self.indent <= _SUBSECTION and bool(named)


_NONE = _Line(0, 0, "")


def is_manual_text(text: str) -> bool:
    """Return whether a text begins with a manual page's head.

    >>> is_manual_text("WINCH(1)      Dock Manual      WINCH(1)\\n\\nNAME\\n       winch - haul a rope\\n")
    True
    >>> is_manual_text("WINCH(1) is a manual page.\\n")
    False
    """
    return _HEAD.match(_OVERSTRUCK.sub("", text[:1000])) is not None


def load_manual_text(text: str) -> Extracted:
    """Read a manual page as ``man winch`` prints it; tabs become spaces, and words set on two lines are joined.

    Lines at the margin and at column 3 are headings. A line with a more indented one directly below it is a term, and
    heads what is indented below it.
    """
    text = _OVERSTRUCK.sub("", text).replace("\r\n", "\n").expandtabs()
    head = _HEAD.match(text)
    name = head[1].lower() if head else ""
    text = text[head.end() if head else 0 :].strip("\n")
    body, _, foot = text.rpartition("\n")
    if name and foot.rstrip().lower().endswith(name):
        text = body
    text = _HEADING_LINE.sub(r"\g<0>\n", _HYPHEN.sub(r"\2\n\1", text.rstrip() + "\n"))
    return Extracted(text, name, tuple(_headings(list(_lines(text)))))


def _lines(text: str) -> Iterator[_Line]:
    position = 0
    for line in text.splitlines(keepends=True):
        yield _Line(position, len(line) - len(line.lstrip(" ")) if line.strip() else 0, line.rstrip().lstrip(" "))
        position += len(line)


def _headings(lines: list[_Line]) -> Iterator[Heading]:
    """Yield headings and terms; a heading without a label where the definition of a list's last term ends."""
    terms: list[int] = []  # the indents of the terms whose definitions are open
    section, last = "", -1  # last: the line of the last term
    for at, line in enumerate(lines):
        start = line.start + line.indent
        if line.is_heading():
            yield Heading(start, start + len(line.text), 2 if line.indent else 1, one_line(line.text))
            terms, section = [], line.text.upper()
        elif line.text and section != "SYNOPSIS":
            was_open = bool(terms)
            terms = [indent for indent in terms if indent < line.indent]
            above, below = lines[at - 1] if at else _NONE, lines[at + 1] if at + 1 < len(lines) else _NONE
            named = last == at - 1 and above.indent == line.indent
            begins = not above.text or above.is_heading() or above.indent > line.indent or named
            if begins and (term := _term(line, below, named=named)):
                yield Heading(start, start + len(term), TERM_LEVEL + min(len(terms), 1), one_line(term))
                terms.append(line.indent)
                last = at
            elif was_open and not terms:
                yield Heading(start, start, TERM_LEVEL, "")


def _term(line: _Line, below: _Line, *, named: bool) -> str:
    """Return the term that a line begins with or consists of; empty if there is none.

    Its definition is indented more: it is in the same line (``-x     Do not …``), in those below, or in both.

    Args:
        named: the line above is a term, of which this one can be another name.
    """
    text, column = line.text, below.indent - line.indent if below.text else 0
    if _NO_TERM.match(text):
        return ""
    if short := _SHORT_TERM.match(text):
        return short[1]
    for width in (column, _USUAL_WIDTH):  # in front of its definition
        term, apart = text[:width].rstrip(), text[max(width - 2, 0) : width].isspace()
        tight = width >= _USUAL_WIDTH and text[width - 1 : width] == " " and text[width : width + 1].isupper()
        if any(map(str.isalnum, term)) and " " not in term and (apart or tight) and text[width : width + 1].strip():
            return term
    ends = text.endswith("...") or text[-1] not in ".:;,"
    alone = column > 1 and len(text) <= _LONGEST_TERM and "  " not in text
    return text if alone and ends and (not named or text[0] == "-") else ""
