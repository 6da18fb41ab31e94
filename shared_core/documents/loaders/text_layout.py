"""Find the headings and tables of plain text that only its layout shows: numbers, capitals, columns set with spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from shared_core.documents.loaders.cell_values import is_amount, is_value, is_year
from shared_core.documents.loaders.extracted import Heading, Segment, one_line
from shared_core.documents.loaders.named_rows import replace_tables
from shared_core.support.regex import lazy_regex

_LEAST_HEADINGS = 3
_LEAST_ROWS = 3  # with the head
_LEAST_COLUMNS = 3  # of two columns, the first may be terms
_ALIGNED = 2  # characters that a cell may begin or end beside its column's name
# "4. Treasurer's report" at the margin, with an empty line above and text below.
_SECTION = lazy_regex(
    r"(?:\A|(?<=\n\n)|(?<=\n\r\n))(\d{1,2})\.[ \t]{1,4}(?=[^\W\d_])"
    r"([^\n]{2,70}[^\s.,;:?!](?:[ ]?(?:\.\.\.|…))?)[ \t]*(?=\r?\n)"
)
# "ABOUT APPOINTMENTS", alike, or "PART 2: APPOINTMENTS": what else stands before a colon may be a field.
_CAPITALS = lazy_regex(
    r"(?:\A|(?<=\n\n)|(?<=\n\r\n))(?=[^\n]*[A-Z]{3})((?:[A-Z]{3,12} (?:\d{1,3}|[A-Z]|[IVX]{1,5}):[ ])?"
    r"[A-Z0-9][A-Z0-9 ,&/'’()-]{2,58}[A-Z0-9)])[ \t]*(?=\r?\n)"
)
# A title, and its authors: "M. Halvorsen, T. Adeyemi" or "Mona Halvorsen and Tom Adeyemi".
_NAME = r"(?:(?:[A-Z]\.[ -]?){1,3}|[A-Z][\w'’-]+ (?:[A-Z]\. ){0,2})[A-Z][\w'’-]+"
_PAPER = lazy_regex(
    r"(?:\A\s*|(?<=\n\n)|(?<=\n\r\n))([A-Z][^\n]{20,200}[^\s.,;:!])[ \t]*\r?\n[ \t]*\r?\n"
    rf"{_NAME}(?:, {_NAME}){{0,30}}(?:,? (?:and|&) {_NAME})?(?=[ \t]*\r?\n[ \t]*\r?\n[^\n]{{100}})"
)
_ITEM = lazy_regex(r"\s*(?:\d{1,3}[.)]|[-*+•])\s")
_BLOCK = lazy_regex(r"(?:^(?=[^\n]{3,200}$)[ \t]*+\S++(?>(?: \S++)*)(?: {2,}|\t)[^\n]*+(?:\n|\Z)){3,}", re.MULTILINE)
_CELL = lazy_regex(r"\S+(?: \S+)*")
_TITLE_LINES = lazy_regex(r"\s*((?:[^\W_][^\n]{2,70}[^\s.?!;:,](?:[ \t\r]*\n)){2,6})[ \t\r]*\n")
_MOST_TITLE_LINES = 3
_FIELD = lazy_regex(r"[^\s:]{2,20}:\s")
_YEAR = lazy_regex(r"\b(?:19|20)\d\d\b")


def find_numbered_sections(text: str) -> list[Heading]:
    """Find headings numbered 1, 2, 3, … with text below each, as minutes and handbooks have them.

    Items of a list have no text of their own below them, so a list is none, even with empty lines between its items.

    >>> minutes = "1. Welcome\\n\\nThe Chair opened.\\n\\n2. Rents\\n\\nNo change.\\n\\n3. Rats\\n\\nNone seen.\\n"
    >>> [heading.label for heading in find_numbered_sections(minutes)]
    ['1. Welcome', '2. Rents', '3. Rats']
    >>> find_numbered_sections("1. Open the tap\\n\\n2. Wait\\n\\n3. Close it\\n")
    []
    """
    found = list(_SECTION.finditer(text))
    if [int(m[1]) for m in found] != list(range(1, len(found) + 1)):
        return []
    return _sections(text, found)


def find_capital_headings(text: str) -> list[Heading]:
    """Find headings in capital letters, at least three, with text below."""
    return _sections(text, list(_CAPITALS.finditer(text)))


def _sections(text: str, found: Sequence[re.Match[str]]) -> list[Heading]:
    if len(found) < _LEAST_HEADINGS:
        return []
    ends = [*(m.start() for m in found[1:]), len(text)]
    bodies = [text[m.end() : end] for m, end in zip(found, ends)]
    if not all(any(map(str.islower, body)) for body in bodies[:-1]):  # a list, or a text all in capitals
        return []
    return [Heading(m.start(), m.end(), 1, one_line(m[0])) for m in found]


def first_lines_title(text: str) -> str:
    """Return the two or three short lines that a text begins with as its title; empty if it begins otherwise.

    Of a longer head it is what stands above its fields and dates.

    >>> first_lines_title("Linden Street Dental Practice\\nFrequently asked questions\\n\\nHow do I book?\\n")
    'Linden Street Dental Practice – Frequently asked questions'
    >>> first_lines_title("Voices of the Moor\\nInterview 9: Ada Pym\\nMay 2019\\nInterviewer: Bo\\n\\nBO: Hi")
    'Voices of the Moor – Interview 9: Ada Pym'
    >>> first_lines_title("From: Ann\\nTo: Bo\\n\\nHi!")
    ''
    """
    match = _TITLE_LINES.match(text)
    written = match[1].splitlines() if match else []
    lines = [one_line(line) for line in written]
    if not lines or any(_ITEM.match(line) for line in lines):
        return ""
    if not all(line[0].isupper() and "  " not in line.strip() for line in written):
        return ""
    fields = [i for i, line in enumerate(lines) if _FIELD.match(line)]
    if len(lines) > _MOST_TITLE_LINES:
        fields += [i for i, line in enumerate(lines) if i and _YEAR.search(line)]
    elif not fields:
        return " – ".join(lines)
    return " – ".join(lines[: min(fields)]) if fields and min(fields) <= _MOST_TITLE_LINES else ""


def find_papers(text: str) -> tuple[Segment, ...]:
    """Return the papers that a text holds one after the other, each with its title above a line of authors.

    None if there are less than two, or something else stands above the first.

    >>> told = "\\n\\nIda Holm, Bo Lund\\n\\n" + "It is so. " * 20
    >>> [paper.title for paper in find_papers(f"The eel in our harbours{told}\\n\\nThe gull in our harbours{told}")]
    ['The eel in our harbours', 'The gull in our harbours']
    """
    found = list(_PAPER.finditer(text))
    if len(found) < 2 or found[0].start():
        return ()
    ends = [*(m.start() for m in found[1:]), len(text)]
    return tuple(Segment(m.start(), end, one_line(m[1])) for m, end in zip(found, ends))


def name_rows(text: str) -> str:
    """Write the rows of tables that are set with spaces or tabs with their columns' names: "Group: Foxes; Fee: £38".

    Tables have a row of names, without values but years, three columns or more, and cells below their names.

    >>> print(name_rows("Group   Half day  Full day\\nFoxes   £38       £62\\nOwls    £36       £60").strip())
    Group: Foxes; Half day: £38; Full day: £62
    Group: Owls; Half day: £36; Full day: £60
    """
    return replace_tables(text, _BLOCK.finditer(text), lambda block: _rows(block[0]))[0]


class _Span(NamedTuple):
    start: int
    end: int
    text: str


def _rows(block: str) -> list[list[str]]:
    """Return the cells of a block's lines, the names of its columns first; none if it is no table."""
    head, *body = [
        [_Span(m.start(), m.end(), m[0]) for m in _CELL.finditer(line.expandtabs())] for line in block.splitlines()
    ]
    if not all(_is_name(cell.text) for cell in head):
        return []
    firsts = [line[0] for line in body]
    if all(first.end < head[0].start for first in firsts):  # the first column has no name
        head.insert(0, _Span(min(f.start for f in firsts), max(f.end for f in firsts), ""))
    if len(head) < _LEAST_COLUMNS or len(body) + 1 < _LEAST_ROWS:
        return []
    rows = [[cell.text for cell in head]]
    for line in body:
        placed = [_column(cell, head) for cell in line]
        if None in placed or len({*placed}) < len(placed) or _ITEM.match(line[0].text + " "):
            return []
        cells = dict(zip(placed, (cell.text for cell in line)))
        rows.append([cells.get(i, "") for i in range(len(head))])
    filled = sum(bool(cell) for row in rows[1:] for cell in row)
    has_values = any(is_amount(cell) for row in rows[1:] for cell in row[1:])
    return rows if has_values and 4 * filled >= 3 * len(head) * len(body) else []


def _is_name(cell: str) -> bool:
    return is_year(cell) or (not is_value(cell) and cell[:1].isalpha() and len(cell) <= 40)


def _column(cell: _Span, head: Sequence[_Span]) -> int | None:
    """Return the column that a cell begins or ends with, or is the only one above it; ``None`` if that is unclear."""
    near = [i for i, name in enumerate(head) if _distance(cell, name) <= _ALIGNED]
    above = [i for i, name in enumerate(head) if cell.start < name.end and name.start < cell.end]
    if len(near) == 1:
        return near[0]
    return above[0] if len(above) == 1 and not near else None


def _distance(cell: _Span, name: _Span) -> int:
    return min(abs(cell.start - name.start), abs(cell.end - name.end))
