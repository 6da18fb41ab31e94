"""Find tables without drawn rules: columns of short pieces that stand above one another, with names above values."""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from shared_core.documents.loaders.pdf_cells import (
    BESIDE,
    LEAST_ROWS,
    MOST_COLUMNS,
    Cell,
    Extent,
    Part,
    Piece,
    Table,
    at_gaps,
    fill,
    has_values,
    is_table,
    join_wrapped,
    joined_text,
    pieces_of,
    visual_rows,
    without_notes,
)
from shared_core.documents.loaders.table_cells import is_amount
from shared_core.support.regex import lazy_regex

_PROSE_LETTERS, _PROSE_LINES = 25, 3
_LEAST_VALUES = 3  # beside what is their label rather than prose
_PROSE_WORDS = 4
_PROSE_SHARE = 0.6  # of its characters are letters
NEXT_ROW = 2.8  # font sizes between rows
_MOST_NAMES = 5  # lines of names above values
_BELOW_RULE = 5.0  # the same where a rule is drawn between them
_FULL = 0.7  # of the most cells a row has: rows that show where the columns are
_OVER = 0.2  # font sizes that a cell may stand over the next column
_CROSSING = 0.4  # of the rows with a cell that spans columns, at most
_VALUE_ROWS = 0.6
_MIDDLE = 0.05  # of the width that a title may be out of the middle
_TITLES = 2  # times that rows are parted by titles within titles
_NUMBERED = lazy_regex(r"\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]")


def find_aligned(free: Sequence[Part], rules: Sequence[float]) -> Iterator[Table]:
    """Yield the tables among lines of none yet whose columns are known from where their cells stand only.

    Below ``rules``, the heights of drawn lines, values may be further from their names.
    """
    parts = [part for part in free if not part.line.fixed]
    prose = _prose(_without_labels(parts))
    numbers = {part.number for part in prose}
    rows = [pieces_of(row) for row in visual_rows([part for part in parts if part.number not in numbers])]
    for stretch in _stretches(rows, prose, sorted(rules)):
        yield from _tables(stretch)


def _tables(stretch: Sequence[_Row], depth: int = _TITLES) -> Iterator[Table]:
    """Yield the tables of rows that follow one another; several if they are parted by titles in the middle."""
    ways = [stretch, [[half for piece in row for half in at_gaps(piece)] for row in stretch]]
    ways += [[_with_numbers(row) for row in rows] for rows in ways]
    for by_values, some in ((False, ways[:2]), (False, ways[2:]), (True, ways)):
        if tables := [table for rows in some if (table := _table(rows, by_values=by_values)) is not None]:
            yield max(tables, key=lambda table: len(table.bounds))
            return
    for own in _between_titles(stretch) if depth else ():
        yield from _tables(own, depth - 1)


def _with_numbers(row: _Row) -> _Row:
    """Return a row whose label begins with its number: "4." is none of a column's values."""
    if len(row) < 2 or not _NUMBERED.fullmatch(joined_text(row[0].parts)) or is_amount(joined_text(row[1].parts)):
        return row
    return [Piece(row[0].parts + row[1].parts, row[0].x0, row[1].x1), *row[2:]]


def _between_titles(stretch: Sequence[_Row]) -> list[list[_Row]]:
    """Return the rows between titles in the middle; none if there is no such title."""
    left = min(row[0].x0 for row in stretch)
    right = max(row[-1].x1 for row in stretch)

    def is_title(row: _Row) -> bool:
        middle = (row[0].x0 + row[-1].x1) / 2
        return len(row) == 1 and abs(middle - (left + right) / 2) <= _MIDDLE * (right - left)

    parts = [list(rows) for titles, rows in itertools.groupby(stretch, is_title) if not titles]
    return parts if sum(map(len, parts)) < len(stretch) else []


def _without_labels(parts: Sequence[Part]) -> list[Part]:
    """Return the lines without the rows of values with their labels in letters of the same size."""
    labels = {
        part.number
        for row in visual_rows(parts)
        if sum(is_amount(part.line.text) and part.line.size == row[0].line.size for part in row) >= _LEAST_VALUES
        for part in row
    }
    return [part for part in parts if part.number not in labels]


def _prose(parts: Sequence[Part]) -> list[Part]:
    """Return the lines of running text: long ones of words, of which at least three stand below one another."""
    long = sorted((part for part in parts if _is_wordy(part.line.text)), key=lambda part: -part.line.y)
    below: dict[int, Part] = {}
    for at, (i, line) in enumerate(long):
        for other in long[at + 1 : at + 40]:
            down = line.y - other.line.y
            if down > 2 * line.size:
                break
            if down > 0.8 * line.size and abs(line.x0 - other.line.x0) < 2 * line.size:
                below[i] = other
                break
    found: dict[int, Part] = {}
    for part in long:
        chain = [part]
        while chain[-1].number in below and len(chain) < _PROSE_LINES:
            chain.append(below[chain[-1].number])
        if len(chain) == _PROSE_LINES:
            found.update((one.number, one) for one in chain)
    return list(found.values())


def _is_wordy(text: str) -> bool:
    words = text.split()
    return (
        len(text) >= _PROSE_LETTERS
        and len(words) >= _PROSE_WORDS
        and sum(map(str.isalpha, text)) >= _PROSE_SHARE * sum(map(len, words))
    )


_Row = list[Piece]


def _stretches(rows: Sequence[_Row], prose: Sequence[Part], rules: Sequence[float]) -> Iterator[list[_Row]]:
    """Yield the rows that follow one another closely, without running text or a wide title between them."""
    stretch: list[_Row] = []
    for row in rows:
        names = _has_mostly_values(row) and not any(map(_has_mostly_values, stretch[-_MOST_NAMES:]))
        if stretch and not _follows(stretch[-1], row, prose, rules if names else ()):
            yield from _without_titles(stretch)
            stretch = []
        stretch.append(row)
    yield from _without_titles(stretch)


def _follows(last: _Row, row: _Row, prose: Sequence[Part], rules: Sequence[float]) -> bool:
    top, bottom = last[0].parts[0].line.y, row[0].parts[0].line.y
    ruled = bisect_left(rules, bottom) < bisect_left(rules, top)
    if top - bottom > (_BELOW_RULE if ruled else NEXT_ROW) * max(last[0].size, row[0].size):
        return False
    left, right = min(last[0].x0, row[0].x0), max(last[-1].x1, row[-1].x1)
    return not any(bottom <= line.y <= top and line.x0 < right and left < line.x1 for _, line in prose)


def _without_titles(stretch: list[_Row]) -> Iterator[list[_Row]]:
    """Yield the parts of a stretch between single pieces as wide as half of it."""
    several = [row for row in stretch if len(row) > 1]
    if not several:
        return
    width = max(row[-1].x1 for row in several) - min(row[0].x0 for row in several)
    for wide, rows in itertools.groupby(stretch, lambda row: len(row) == 1 and row[0].x1 - row[0].x0 > width / 2):
        if not wide:
            yield list(rows)


def _table(stretch: Sequence[_Row], *, by_values: bool = False) -> Table | None:
    if sum(len(row) > 1 for row in stretch) < LEAST_ROWS:
        return None
    bounds = _columns(stretch, by_values=by_values)
    if len(bounds) < 2:
        return None
    cut = [[half for piece in pieces for half in _cut(piece, bounds)] for pieces in stretch]
    rows = [cells_of(pieces, bounds) for pieces in cut]
    beside = sum(len(row) < len(pieces) for row, pieces in zip(rows, cut, strict=True))
    if beside > BESIDE * len(rows):
        return None
    rows = without_notes(join_wrapped(rows, ruled=False), len(bounds))
    if _has_labels_at_both_sides(rows, len(bounds)):
        for row in rows:
            if row[-1].column == len(bounds) - 1:
                row[0].parts += row.pop().parts
        bounds = bounds[:-1]
    crossing = sum(any(cell.columns > 1 for cell in row) for row in rows)
    if not is_table(rows, len(bounds)) or crossing > _CROSSING * len(rows):
        return None
    values = sum(map(has_values, rows))
    if values < max(2, _VALUE_ROWS * sum(len(row) > 1 for row in rows) - 2):
        return None
    return Table(rows, bounds, False)


def _has_labels_at_both_sides(rows: Sequence[Sequence[Cell]], columns: int) -> bool:
    last = [row for row in rows if row[-1].column == columns - 1 > 1]
    if any(len(row) == 1 for row in last):  # a cell by itself is no label
        return False
    return len(last) >= LEAST_ROWS and all(row[0].text == row[-1].text for row in last)


def cells_of(pieces: Sequence[Piece], bounds: Sequence[Extent]) -> list[Cell]:
    """Return the cells of a row: its pieces by the columns above which they stand."""
    row: list[Cell] = []
    for piece in pieces:
        first, last = _span(piece, bounds)
        if row and first < row[-1].column + row[-1].columns:
            row[-1].parts += piece.parts
            row[-1].columns = max(row[-1].columns, last - row[-1].column + 1)
        else:
            row.append(Cell(first, last - first + 1, list(piece.parts)))
    for cell in row:
        fill(cell)
    return row


def _cut(piece: Piece, bounds: Sequence[Extent]) -> Iterator[Piece]:
    """Yield the pieces of one that holds several cells, if their values stand as close as words do elsewhere."""
    first, last = _span(piece, bounds)
    if first == last or len(piece.parts) > 1 or not piece.parts[0].line.gaps:
        yield piece
        return
    halves: list[Piece] = []
    for half in at_gaps(piece):
        same = halves and _span(halves[-1], bounds)[1] == _span(half, bounds)[0]
        if same:
            halves[-1] = _rejoined(halves[-1], half)
        else:
            halves.append(half)
    whole = all(len(set(_span(half, bounds))) == 1 for half in halves)
    yield from halves if whole else [piece]


def _rejoined(left: Piece, right: Piece) -> Piece:
    (number, a), (_, b) = left.parts[0], right.parts[0]
    return Piece([Part(number, replace(a, text=f"{a.text} {b.text}", x1=b.x1, broken=b.broken))], left.x0, right.x1)


def _columns(stretch: Sequence[_Row], *, by_values: bool) -> list[Extent]:
    """Return where the columns begin and end, by the rows with most cells; none if these do not agree.

    Names may stand closer to one another than the values below them: ``by_values`` leaves out the rows of names.
    """
    most = max(map(len, stretch))
    full = [row for row in stretch if len(row) >= max(2, _FULL * most)]
    if len(full) < 2:
        return []
    if by_values:
        full = [row for row in full if len(row) == most and _has_mostly_values(row)]
        if len(full) < LEAST_ROWS:
            return []
    size = statistics.median(piece.size for row in full for piece in row)
    columns: list[Extent] = []
    for x0, x1 in sorted((piece.x0, piece.x1) for row in full for piece in row):
        if columns and x0 < columns[-1][1] + 0.2 * size:
            columns[-1] = columns[-1][0], max(columns[-1][1], x1)
        else:
            columns.append((x0, x1))
    usual = statistics.median_high(map(len, full))
    return columns if _FULL * usual <= len(columns) <= MOST_COLUMNS and len(columns) <= most + 2 else []


def _has_mostly_values(row: _Row) -> bool:
    return 2 * sum(is_amount(joined_text(piece.parts)) for piece in row) >= len(row)


def _span(piece: Piece, bounds: Sequence[Extent]) -> tuple[int, int]:
    for slack in (_OVER * piece.size, 0.0):
        over = [i for i, (x0, x1) in enumerate(bounds) if piece.x0 < x1 - slack and x0 + slack < piece.x1]
        if over:
            return over[0], over[-1]
    middle = (piece.x0 + piece.x1) / 2
    nearest = min(range(len(bounds)), key=lambda i: abs(sum(bounds[i]) / 2 - middle))
    return nearest, nearest
