"""Name the columns in each row of a table, if its header cells (``<th>``) or its first row give the names.

"Flag: -v; Meaning: verbose" can be found, read and quoted alone. Office documents and many pages do not mark header
rows. A first row is taken for one if all rows are as wide as it is, at least three columns; its cells are short, differ
and have no digits; and some column has digits in each row below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared_core.documents.loaders.extracted import one_line
from shared_core.documents.loaders.html_zones import TextRun

CELLS = frozenset(("td", "th"))
CELL_LETTERS = 600  # a longer cell belongs to the page's layout rather than to a table
LONGEST_NAME = 40  # characters of a column's name
_LEAST_COLUMNS, _LEAST_ROWS = 2, 2
_LEAST_UNMARKED = 3  # columns, and rows, of a table whose header row is not marked
_DIGIT = re.compile(r"\d")


class _Cell:
    """A cell with the runs ``runs[first:end]``."""

    __slots__ = ("end", "first", "header", "wide")

    def __init__(self, first: int, header: bool, wide: bool) -> None:
        self.first = self.end = first
        self.header, self.wide = header, wide


class _Table:
    __slots__ = ("first", "holds_tables", "rows")

    def __init__(self, first: int) -> None:
        self.first, self.holds_tables = first, False
        self.rows: list[list[_Cell]] = []


class Tables:
    """The tables that are open at a point of a page. The page's reader reports their elements in order."""

    def __init__(self) -> None:
        self._open: list[_Table] = []

    def start(self, tag: str, attributes: Mapping[str, str], runs: Sequence[TextRun]) -> None:
        """Handle the start of ``<table>``, ``<tr>``, ``<th>`` or ``<td>``; other elements are ignored."""
        if tag == "table":
            if self._open:
                self._open[-1].holds_tables = True
            self._open.append(_Table(len(runs)))
        elif self._open and tag == "tr":
            self._open[-1].rows.append([])
        elif self._open and tag in CELLS and self._open[-1].rows:
            wide = attributes.get("colspan", "1").strip() not in {"", "1"}
            self._open[-1].rows[-1].append(_Cell(len(runs), tag == "th", wide))

    def end(self, tag: str, runs: list[TextRun]) -> None:
        """Handle the end of an element. At a table's end the names of its columns are added to its rows in ``runs``."""
        if not self._open:
            return
        rows = self._open[-1].rows
        if tag in CELLS and rows and rows[-1]:
            rows[-1][-1].end = len(runs)
        elif tag == "table":
            table = self._open.pop()
            if not table.holds_tables:
                _name_cells(table, runs)


def _name_cells(table: _Table, runs: list[TextRun]) -> None:
    rows = [row for row in table.rows if any(cell.end > cell.first for cell in row)]
    names = _column_names(rows, runs)
    if not names:
        return
    named = [_can_name(row, len(names), runs) for row in rows[1:]]
    if not any(named):
        return
    prefixes: dict[int, str] = {}
    for row in (row for row, fits in zip(rows[1:], named) if fits):
        filled = [(name, cell.first) for name, cell in zip(names, row) if cell.end > cell.first]
        for i, (name, first) in enumerate(filled):
            prefixes[first] = ("; " if i else "") + (f"{name}: " if name else "")
    start, stop = rows[0][0].first, rows[0][-1].end
    gap = runs[start].gap
    out = []
    # If some row could not take the names, the row of names stays, so that nothing is lost.
    dropped = range(start, stop) if all(named) else range(0)
    for i in range(table.first, len(runs)):
        if i in dropped:
            continue
        run = runs[i]
        if dropped and i == stop:
            run.gap = max(run.gap, gap)
        if text := prefixes.get(i):
            out.append(TextRun(0 if text.startswith("; ") else run.gap, text, run.zone, None, 0, 0, False))
            run.gap = 0
        out.append(run)
    runs[table.first :] = out


def _column_names(rows: Sequence[Sequence[_Cell]], runs: Sequence[TextRun]) -> list[str]:
    """Return the names of the columns; none if the first row does not give them, or the second is a header as well."""
    if len(rows) < _LEAST_ROWS or len(rows[0]) < _LEAST_COLUMNS or any(cell.wide for cell in rows[0]):
        return []
    names = _texts(rows[0], runs)
    marked = all(cell.header for cell in rows[0])
    if all(cell.header for cell in rows[1]) or not (marked or _names_columns(names, rows[1:], runs)):
        return []
    given = [name for name in names if name]
    return names if given and len(set(given)) == len(given) and max(map(len, given)) <= LONGEST_NAME else []


def _names_columns(names: Sequence[str], body: Sequence[Sequence[_Cell]], runs: Sequence[TextRun]) -> bool:
    """Return whether an unmarked first row is one of names."""
    if len(names) < _LEAST_UNMARKED or len(body) + 1 < _LEAST_UNMARKED or any(len(r) != len(names) for r in body):
        return False
    if "" in names or any(map(_DIGIT.search, names)):
        return False
    texts = [_texts(row, runs) for row in body]
    return any(all(_DIGIT.search(row[i]) for row in texts) for i in range(len(names)))


def _texts(row: Sequence[_Cell], runs: Sequence[TextRun]) -> list[str]:
    return [one_line("".join(run.text for run in runs[cell.first : cell.end])) for cell in row]


def _can_name(row: Sequence[_Cell], columns: int, runs: Sequence[TextRun]) -> bool:
    """Return whether a row has one plain cell for each column."""
    if len(row) != columns or any(cell.wide for cell in row):
        return False
    for cell in row:
        inside = runs[cell.first : cell.end]
        if sum(len(run.text) for run in inside) > CELL_LETTERS or any(r.level or r.preformatted for r in inside):
            return False
    return True
