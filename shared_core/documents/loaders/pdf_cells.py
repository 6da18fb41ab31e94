"""Cells of tables on a PDF's pages: their lines, their text, and rows that are lines of one."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared_core.documents.loaders.extracted import grouped
from shared_core.documents.loaders.pdf_layout import join_row
from shared_core.documents.loaders.pdf_lines import CELL_GAP, Line
from shared_core.documents.loaders.table_cells import is_amount
from shared_core.support.regex import lazy_regex

_ONE_LINE = 0.7  # font sizes between base lines that belong to one row
_NEXT_LINE = 1.45  # font sizes between lines of a cell
CLOSE = 0.85  # of the usual distance between rows: lines of one row
_MUCH_CLOSER = 0.67  # the same where rules part the rows
_CELL_LETTERS = 600  # a longer cell belongs to the page's layout
_FILLED = 0.4  # of its cells are filled in a table, at least
_TITLE_LETTERS = 50
LEAST_ROWS = 3  # of several cells, in a table without rules
BESIDE = 0.15  # of the rows have a cell in which pieces stand apart from one another
MOST_COLUMNS = 40
_LEADER = lazy_regex(r"(?<=[^\s.…_])(?:\s*[.…_]){3,}\Z")  # from a label to its value


Extent = tuple[float, float]
"""Where something begins and ends on a page from left to right, in points."""


class Part(NamedTuple):
    """A line, or a piece of the line with this number on its page."""

    number: int
    line: Line


@dataclass(slots=True)
class Cell:
    """A cell: its first column, how many it spans, and its lines.

    ``bottom`` is the height in points to which it spans rows; endless if it is in one. ``drawn``: a rule below it tells
    how many columns it spans.
    """

    column: int
    columns: int
    parts: list[Part]
    text: str = ""
    bold: bool = False
    bottom: float = float("inf")
    drawn: bool = False

    def spans(self, row: Sequence[Cell]) -> bool:
        """Return whether it reaches down to a row below the one in which it begins."""
        return all(part.line.y > self.bottom for cell in row for part in cell.parts)


@dataclass(slots=True)
class Table:
    """A table on a page: its rows of filled cells from the top, and where its columns begin and end, in points.

    ``heads`` is the number of rows with names, if rules tell it.
    """

    rows: list[list[Cell]]
    bounds: list[Extent]
    ruled: bool
    top: float = 0.0
    heads: int = 0

    @property
    def lines(self) -> set[int]:
        """The numbers of its lines on the page."""
        return {part.number for row in self.rows for cell in row for part in cell.parts}


def visual_rows(parts: Iterable[Part]) -> list[list[Part]]:
    """Return lines at the same height together, from the top, each row from left to right."""

    def joins(row: list[Part], part: Part) -> bool:
        first, line = row[0].line, part.line
        return first.y - line.y <= _ONE_LINE * min(line.size, first.size)

    rows = grouped(sorted(parts, key=lambda part: -part.line.y), joins)
    return [sorted(row, key=lambda part: part.line.x0) for row in rows]


def join_wrapped(rows: Sequence[list[Cell]], *, ruled: bool) -> list[list[Cell]]:
    """Join rows that are lines of one: those without values of their own, close to the one above or below.

    Rows above the first with values are left: they may be names. Rows of a table with rules must be much closer.
    """
    begin = next((i for i, row in enumerate(rows) if has_values(row)), len(rows))
    usual = [distance(a, b) for a, b in itertools.pairwise(rows[begin:]) if has_values(a) and has_values(b)]
    close = (_MUCH_CLOSER if ruled else CLOSE) * statistics.median(usual) if usual else 0.0
    found = list(rows[: begin + 1])
    for row in rows[begin + 1 :]:
        if _belongs(found[-1], row, close, ruled=ruled):
            found[-1] = united(found[-1], row)
        else:
            found.append(row)
    return found


def _belongs(before: Sequence[Cell], row: Sequence[Cell], close: float, *, ruled: bool) -> bool:
    """Return whether two rows are one of which some cells have several lines."""
    away = distance(before, row)
    spans = any(cell.columns > 1 for cell in (*before, *row))
    if spans or away > _NEXT_LINE * row[0].parts[0].line.size or (has_values(before) and has_values(row)):
        return False
    filled = {cell.column for cell in before}
    goes_on = not ruled and row[0].column == 0 and row[0].text[:1].islower()
    if has_values(row):  # the label begins above its values
        return len(before) == 1 and not before[0].column and (goes_on or (away < close and bool(row[0].column)))
    within = all(cell.column in filled for cell in row) and len(row) < max(2, len(before))
    return within and (away < close or goes_on or (bool(row[0].column) and not ruled))


def has_values(row: Sequence[Cell]) -> bool:
    """Return whether a cell of a row holds a value, but for the first column, which holds labels."""
    return any(is_amount(cell.text) for cell in row if cell.column)


def distance(before: Sequence[Cell], row: Sequence[Cell]) -> float:
    """Return how far the first line of a row is below the last of the one before, in points."""
    return min(p.line.y for cell in before for p in cell.parts) - max(p.line.y for cell in row for p in cell.parts)


def united(before: Sequence[Cell], row: Sequence[Cell]) -> list[Cell]:
    """Return one row of two, the lines of each column's cells together."""
    cells = {cell.column: cell for cell in before}
    for cell in row:
        known = cells.setdefault(cell.column, cell)
        if known is not cell:
            known.parts += cell.parts
            fill(known)
    return [cells[column] for column in sorted(cells)]


def fill(cell: Cell) -> None:
    """Set a cell's text from its lines, without the dots that lead to the next, and whether it is bold."""
    cell.text = _LEADER.sub("", joined_text(cell.parts))
    cell.bold = all(part.line.bold for part in cell.parts)


def joined_text(parts: Sequence[Part]) -> str:
    """Return the text of a cell, its lines joined; a word divided at the end of one is whole."""
    text = ""
    for row in visual_rows(parts):
        line = join_row([part.line for part in row])
        written = line.text.replace("\t", " ")
        if text.endswith("\xad"):
            text = text[:-1] + ("" if written[:1].islower() else "-") + written
        else:
            between = "" if text.endswith("-") and written[:1].isalnum() else " "
            text = f"{text}{between}{written}".strip()
        if line.broken:
            text += "\xad"
    return text.rstrip("\xad")


def without_notes(rows: Sequence[list[Cell]], columns: int) -> list[list[Cell]]:
    """Return the rows without titles above and notes below them, which stay on the page as they are."""
    inner = [
        i
        for i, row in enumerate(rows)
        if len(row) > 1 and not any(2 * c.columns >= max(columns, 4) and len(c.text) > _TITLE_LETTERS for c in row)
    ]
    return list(rows[inner[0] : inner[-1] + 1]) if inner else []


def is_table(rows: Sequence[Sequence[Cell]], columns: int) -> bool:
    """Return whether rows of cells are filled enough, and cells short enough, for a table rather than a layout."""
    filled = sum(cell.columns for row in rows for cell in row)
    return bool(rows) and (
        columns > 1
        and len(rows) > 1
        and filled >= _FILLED * columns * len(rows)
        and max(len(cell.text) for row in rows for cell in row) <= _CELL_LETTERS
        and sum(len(row) > 1 for row in rows) > 1
    )


@dataclass(slots=True)
class Piece:
    """Lines that stand together in a row, from ``x0`` to ``x1``."""

    parts: list[Part]
    x0: float
    x1: float

    @property
    def size(self) -> float:
        """Its font size in points."""
        return self.parts[0].line.size


def pieces_of(row: Sequence[Part]) -> list[Piece]:
    """Join the lines of a row that stand together, from left to right."""
    pieces: list[Piece] = []
    for part in row:
        line = part.line
        if pieces and line.x0 - pieces[-1].x1 < CELL_GAP * line.size:
            pieces[-1].parts.append(part)
            pieces[-1].x1 = max(pieces[-1].x1, line.x1)
        else:
            pieces.append(Piece([part], line.x0, line.x1))
    return pieces


def at_gaps(piece: Piece) -> list[Piece]:
    """Return the pieces of one between the gaps that are wider than most spaces."""
    number, line = piece.parts[0]
    words = line.text.split(" ")
    if len(piece.parts) > 1 or not line.gaps or line.gaps[-1][0] >= len(words):
        return [piece]
    begins = [0, *(at for at, _, _ in line.gaps)]
    ends = [*(at for at, _, _ in line.gaps), len(words)]
    lefts = [line.x0, *(right for _, _, right in line.gaps)]
    rights = [*(left for _, left, _ in line.gaps), line.x1]
    pieces: list[Piece] = []
    for a, b, x0, x1 in zip(begins, ends, lefts, rights, strict=True):
        broken = line.broken and b == len(words)
        cut = replace(line, text=" ".join(words[a:b]), x0=x0, x1=x1, broken=broken, gaps=())
        pieces.append(Piece([Part(number, cut)], x0, x1))
    return pieces
