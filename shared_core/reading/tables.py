"""Find the tables that passages hold, and whether all rows of each were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared_core.reading.cells import EMPTY, Range, cells_at
from shared_core.reading.places import place_of
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_LINE = lazy_regex(r"[^\n]+")
_APART = 2
"""Characters of what may be between two passages that one table runs through."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row of a table: where it is in its passage, the cell that names it, and the value of each named cell."""

    passage: int
    start: int
    end: int
    key: Range
    cells: Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one table, in the order in which passages hold them.

    Attributes:
        rows: those that passages overlap by are in it twice.
        is_whole: none is missing, as far as passages tell; ``False`` where that is unknown.
    """

    rows: tuple[Row, ...]
    is_whole: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns that have a value in some row."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.cells))


@dataclass(slots=True)
class _Part:
    """Rows that stand together, and whether the table may begin before or go on behind them, in another passage."""

    place: tuple[str, str]
    rows: list[Row]
    start: int
    end: int
    open: tuple[bool, bool]

    @property
    def names(self) -> set[str]:
        return {name for row in self.rows for name in row.cells}


def find_tables(passages: Sequence[Passage]) -> list[Table]:
    """Find the tables of two rows or more.

    A passage that is a row says how many the table has (``rows`` in its metadata); one of several lines, whether the
    text goes on in another (``cut``).

    >>> text = "Open today\\nTeam: Ashford; Won: 9\\nTeam: Bexley; Won: 11"
    >>> [(table.columns, table.is_whole) for table in find_tables([Passage("p", text)])]
    [(('Team', 'Won'), True)]
    """
    alone: dict[tuple[str, str], list[_Part]] = {}
    parts: dict[tuple[str, str], list[_Part]] = {}
    for number, passage in enumerate(passages):
        if "row" in passage.metadata:
            for part in _parts_of(number, passage):
                found = alone.setdefault((part.place[0], part.place[1].rpartition(" > ")[0]), [])
                same = next((one for one in found if len(one.names & part.names) > 1), None)
                if same is None:
                    found.append(part)
                else:
                    same.rows += part.rows
        else:
            for part in _parts_of(number, passage):
                parts.setdefault(part.place, []).append(part)
    tables = [_of_single_rows(part.rows, passages) for found in alone.values() for part in found]
    tables += [table for found in parts.values() for table in _joined(sorted(found, key=lambda part: part.start))]
    return [table for table in tables if len(table.rows) > 1]


def _of_single_rows(rows: Sequence[Row], passages: Sequence[Passage]) -> Table:
    numbers = {passages[row.passage].metadata["row"] for row in rows}
    return Table(tuple(rows), len(numbers) == passages[rows[0].passage].metadata.get("rows"))


def _joined(parts: Sequence[_Part]) -> Iterator[Table]:
    """Join the parts of each table."""
    while parts:
        first, *parts = parts
        last, rows = first, [*first.rows]
        while parts and last.open[1] and parts[0].open[0] and parts[0].start <= last.end + _APART:
            last, *parts = parts
            rows += last.rows
        yield Table(tuple(rows), not (first.open[0] or last.open[1]))


def _parts_of(number: int, passage: Passage) -> Iterator[_Part]:
    """Find the runs of rows in a passage."""
    whole = "row" in passage.metadata
    lines = [(0, len(passage.text))] if whole else [line.span() for line in _LINE.finditer(passage.text)]
    start = passage.metadata.get("start")
    at = start if isinstance(start, int) else 0
    cut = passage.metadata.get("cut")
    rows: list[Row] = []
    for i, (first, last) in enumerate([*lines, (0, 0)]):
        row = _row_at(number, passage, first, last)
        if row is not None:
            rows.append(row)
        elif rows:
            goes_on = cut in ("start", "both") and not passage.text[: rows[0].start].strip()
            yield _Part(
                place_of(passage),
                rows,
                at + rows[0].start,
                at + rows[-1].end,
                (goes_on, cut in ("end", "both") and i == len(lines)),
            )
            rows = []


def _row_at(number: int, passage: Passage, start: int, end: int) -> Row | None:
    found = cells_at(passage, start, end) if start < end else None
    if found is None:
        return None
    key, cells = found
    values = {passage.text[slice(*name)].strip(): trim(passage.text, value) for name, value in cells}
    filled = {name: value for name, value in values.items() if not EMPTY.fullmatch(passage.text[slice(*value)])}
    return Row(number, start, end, trim(passage.text, key), filled)


def trim(text: str, place: Range) -> Range:
    """Return a range without white space and semicolons at its ends."""
    value = text[slice(*place)]
    start = place[0] + len(value) - len(value.lstrip("; \t\n"))
    return start, max(start, place[0] + len(value.rstrip("; \t\n")))
