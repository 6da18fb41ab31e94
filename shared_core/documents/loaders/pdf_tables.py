"""Find the tables on a PDF's pages.

A PDF has no tables, only letters and lines at places. Cells are known from drawn rules, or from columns of short pieces
that stand above one another with the names above values. What is not plainly a table stays as it is.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shared_core.documents.loaders.pdf_cells import (
    Cell,
    Part,
    Table,
    fill,
    has_values,
    is_amount,
    join_wrapped,
    joined_text,
    visual_rows,
)
from shared_core.documents.loaders.pdf_lines import CELL_GAP, MIDDLE, Line
from shared_core.documents.loaders.pdf_rules import Rules, grids

_SAME_PLACE = 3.5  # points between rules that bound the same column or row
_MOST_ROWS, _MOST_COLUMNS = 400, 40
_CELL_LETTERS = 600  # a longer cell belongs to the page's layout
_FILLED = 0.4  # of its cells are filled in a table, at least
_PROSE_LETTERS, _PROSE_LINES = 25, 3
_PROSE_WORDS = 4
_PROSE_SHARE = 0.6  # of its characters are letters
_LEAST_ROWS = 3  # of several cells, in a table without rules
NEXT_ROW = 2.8  # font sizes between rows
_FULL = 0.7  # of the most cells a row has: rows that show where the columns are
_CROSSING = 0.4  # of the rows with a cell that spans columns, at most
_VALUE_ROWS = 0.6
_TITLE_LETTERS = 50
_LONGEST_REPEATED = 80  # letters of a cell that spans rows and is written in each
_BESIDE = 0.15  # of the rows have a cell in which pieces stand apart from one another
_LABELLED = 0.7  # of the rows with values in a box without rules between them have a label

_Box = tuple[int, int]  # row and column between rules


def find_tables(lines: Sequence[Line], rules: Rules) -> list[Table]:
    """Return the tables of a page from top to bottom: those with rules first found, others of the lines that are left.

    Args:
        lines: of the page, cut between cells.
        rules: drawn on it.
    """
    turned = lines[0].turned if lines else 0
    free = [Part(i, line) for i, line in enumerate(lines) if line.turned == turned]
    tables: list[Table] = []
    for grid in sorted(grids(rules.turned(turned)), key=lambda grid: len(grid.horizontal) * len(grid.vertical)):
        table = _ruled(free, grid)
        if table is not None:
            tables.append(table)
            own = table.lines
            free = [part for part in free if part.number not in own]
    tables += _aligned(free)
    for table in tables:
        table.top = max(lines[i].y for i in table.lines)
    return sorted(tables, key=lambda table: -table.top)


# --- tables with rules ---------------------------------------------------------------------------------------------


def _ruled(free: Iterable[Part], grid: Rules) -> Table | None:
    """Return the table whose cells are bounded by rules; ``None`` if the boxes hold something else."""
    left, right = min(rule.start for rule in grid.horizontal), max(rule.end for rule in grid.horizontal)
    bottom, top = min(rule.start for rule in grid.vertical), max(rule.end for rule in grid.vertical)
    xs = _places([left, right, *(rule.at for rule in grid.vertical)])
    ys = _places([bottom, top, *(rule.at for rule in grid.horizontal)])[::-1]
    if not (2 < len(xs) <= _MOST_COLUMNS + 1 and 2 < len(ys) <= _MOST_ROWS + 1):
        return None
    slots: dict[_Box, list[Part]] = defaultdict(list)
    for part in free:
        x, y = (part.line.x0 + part.line.x1) / 2, part.line.y + MIDDLE * part.line.size
        if xs[0] < x < xs[-1] and ys[-1] < y < ys[0]:
            slots[bisect_left(ys, -y, key=lambda place: -place) - 1, bisect_left(xs, x) - 1].append(part)
    if not slots:
        return None
    used = sorted({column for _, column in slots})  # others are the room between double rules, or empty
    rows = [split for row in _boxed_rows(slots, _owners(grid, xs, ys), used, ys) for split in _split(row)]
    for cell in itertools.chain.from_iterable(rows):
        fill(cell)
    rows = _without_notes(join_wrapped(rows, ruled=True), len(used))
    beside = sum(any(map(_has_columns, row)) for row in rows)
    bounds = [(xs[column], xs[column + 1]) for column in used]
    return Table(rows, bounds, True) if _is_table(rows, len(used)) and beside <= _BESIDE * len(rows) else None


def _boxed_rows(
    slots: Mapping[_Box, list[Part]], owners: Mapping[_Box, _Box], used: Sequence[int], ys: Sequence[float]
) -> list[list[Cell]]:
    """Return the cells of each row of boxes.

    Args:
        slots: the lines in each box.
        owners: the box in which the cell of each begins.
        used: the numbers of the columns with text.
        ys: where the rows begin, and the last one ends.
    """
    places = {column: number for number, column in enumerate(used)}
    extents: dict[_Box, set[int]] = defaultdict(set)
    ends: dict[_Box, int] = {}
    shares: dict[_Box, dict[int, list[Part]]] = defaultdict(dict)
    for (row, column), owner in owners.items():
        extents[owner].add(column)
        ends[owner] = max(row, ends.get(owner, row))
        if own := slots.get((row, column)):
            shares[owner].setdefault(column, []).extend(own)
    rows: dict[int, list[Cell]] = defaultdict(list)
    for owner, share in sorted(shares.items()):
        parts = list(itertools.chain.from_iterable(share.values()))
        if len(share) > 1 and len(visual_rows(parts)) < len(parts):  # no rule is drawn between what are several cells
            rows[owner[0]] += [Cell(places[column], 1, own) for column, own in sorted(share.items())]
        else:
            spanned = [places[column] for column in extents[owner] if column in places]
            cell = Cell(min(spanned), max(spanned) - min(spanned) + 1, parts)
            if ends[owner] > owner[0] and sum(len(part.line.text) for part in parts) <= _LONGEST_REPEATED:
                cell.bottom = ys[ends[owner] + 1]
            rows[owner[0]].append(cell)
    return [row for _, row in sorted(rows.items())]


def _has_columns(cell: Cell) -> bool:
    """Return whether values stand side by side in a cell, as in columns between which no rule is drawn."""
    for row in visual_rows(cell.parts):
        values = [piece for piece in _pieces(row) if is_amount(joined_text(piece.parts))]
        if len(values) > 1:
            return True
    return False


def _places(values: Sequence[float]) -> list[float]:
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= _SAME_PLACE:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [statistics.mean(group) for group in groups]


def _owners(grid: Rules, xs: Sequence[float], ys: Sequence[float]) -> dict[_Box, _Box]:
    """Return for each box of the grid the upper left box of its cell: boxes without a rule between them are one."""
    before = [[rule for rule in grid.vertical if abs(rule.at - x) <= _SAME_PLACE] for x in xs]
    above = [[rule for rule in grid.horizontal if abs(rule.at - y) <= _SAME_PLACE] for y in ys]
    owners: dict[_Box, _Box] = {}
    for row in range(len(ys) - 1):
        y = (ys[row] + ys[row + 1]) / 2
        for column in range(len(xs) - 1):
            x = (xs[column] + xs[column + 1]) / 2
            if column and not any(rule.start <= y <= rule.end for rule in before[column]):
                owners[row, column] = owners[row, column - 1]
            elif row and not any(rule.start <= x <= rule.end for rule in above[row]):
                owners[row, column] = owners[row - 1, column]
            else:
                owners[row, column] = (row, column)
    return owners


def _split(row: list[Cell]) -> list[list[Cell]]:
    """Return the rows between two rules: several if some of their lines have values, and most of these labels.

    Lines of words are rows if there are three or more with as many cells, which cells with several lines seldom have.
    """
    visual = visual_rows([part for cell in row for part in cell.parts])
    if len(visual) < 2 or len(row) < 2:
        return [row]
    rows = [
        [
            Cell(cell.column, cell.columns, own)
            for cell in row
            if (own := [part for part in cell.parts if part in level])
        ]
        for level in visual
    ]
    valued = sum(any(is_amount(joined_text(cell.parts)) for cell in level if cell.column) for level in rows)
    labelled = sum(not level[0].column for level in rows)
    full = len(row) >= _LEAST_ROWS <= len(rows) and all(len(level) == len(row) for level in rows)
    return rows if full or (valued > 1 and labelled >= _LABELLED * valued) else [row]


def _without_notes(rows: Sequence[list[Cell]], columns: int) -> list[list[Cell]]:
    """Return the rows without titles above and notes below them, which stay on the page as they are."""
    inner = [
        i
        for i, row in enumerate(rows)
        if len(row) > 1 and not any(2 * c.columns >= max(columns, 4) and len(c.text) > _TITLE_LETTERS for c in row)
    ]
    return list(rows[inner[0] : inner[-1] + 1]) if inner else []


def _is_table(rows: Sequence[Sequence[Cell]], columns: int) -> bool:
    filled = sum(cell.columns for row in rows for cell in row)
    return bool(rows) and (
        columns > 1
        and len(rows) > 1
        and filled >= _FILLED * columns * len(rows)
        and max(len(cell.text) for row in rows for cell in row) <= _CELL_LETTERS
        and sum(len(row) > 1 for row in rows) > 1
    )


# --- tables without ------------------------------------------------------------------------------------------------


def _aligned(free: Sequence[Part]) -> Iterator[Table]:
    """Yield the tables whose columns are known from where their cells stand only."""
    parts = [part for part in free if not part.line.fixed]
    prose = _prose(parts)
    numbers = {part.number for part in prose}
    rows = [_pieces(row) for row in visual_rows([part for part in parts if part.number not in numbers])]
    for stretch in _stretches(rows, prose):
        finer = [[half for piece in row for half in _at_gaps(piece)] for row in stretch]
        tables = [table for rows in (stretch, finer) if (table := _table(rows)) is not None]
        if tables:
            yield max(tables, key=lambda table: len(table.bounds))


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


@dataclass(slots=True)
class _Piece:
    """Lines that stand together in a row, from ``x0`` to ``x1``."""

    parts: list[Part]
    x0: float
    x1: float

    @property
    def size(self) -> float:
        return self.parts[0].line.size


def _pieces(row: Sequence[Part]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for part in row:
        line = part.line
        if pieces and line.x0 - pieces[-1].x1 < CELL_GAP * line.size:
            pieces[-1].parts.append(part)
            pieces[-1].x1 = max(pieces[-1].x1, line.x1)
        else:
            pieces.append(_Piece([part], line.x0, line.x1))
    return pieces


_Row = list[_Piece]


def _stretches(rows: Sequence[_Row], prose: Sequence[Part]) -> Iterator[list[_Row]]:
    """Yield the rows that follow one another closely, without running text or a wide title between them."""
    stretch: list[_Row] = []
    for row in rows:
        if stretch and not _follows(stretch[-1], row, prose):
            yield from _without_titles(stretch)
            stretch = []
        stretch.append(row)
    yield from _without_titles(stretch)


def _follows(last: _Row, row: _Row, prose: Sequence[Part]) -> bool:
    top, bottom = last[0].parts[0].line.y, row[0].parts[0].line.y
    if top - bottom > NEXT_ROW * max(last[0].size, row[0].size):
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


def _table(stretch: Sequence[_Row]) -> Table | None:
    if sum(len(row) > 1 for row in stretch) < _LEAST_ROWS:
        return None
    bounds = _columns(stretch)
    if len(bounds) < 2:
        return None
    cut = [[half for piece in pieces for half in _cut(piece, bounds)] for pieces in stretch]
    rows = [_cells(pieces, bounds) for pieces in cut]
    beside = sum(len(row) < len(pieces) for row, pieces in zip(rows, cut, strict=True))
    if beside > _BESIDE * len(rows):
        return None
    rows = _without_notes(join_wrapped(rows, ruled=False), len(bounds))
    crossing = sum(any(cell.columns > 1 for cell in row) for row in rows)
    if not _is_table(rows, len(bounds)) or crossing > _CROSSING * len(rows):
        return None
    values = sum(map(has_values, rows))
    if values < max(2, _VALUE_ROWS * sum(len(row) > 1 for row in rows) - 2):
        return None
    return Table(rows, bounds, False)


def _cells(pieces: Sequence[_Piece], bounds: Sequence[tuple[float, float]]) -> list[Cell]:
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


def _cut(piece: _Piece, bounds: Sequence[tuple[float, float]]) -> Iterator[_Piece]:
    """Yield the pieces of one that holds several cells, if their values stand as close as words do elsewhere."""
    first, last = _span(piece, bounds)
    if first == last or len(piece.parts) > 1 or not piece.parts[0].line.gaps:
        yield piece
        return
    halves: list[_Piece] = []
    for half in _at_gaps(piece):
        same = halves and _span(halves[-1], bounds)[1] == _span(half, bounds)[0]
        if same:
            halves[-1] = _rejoined(halves[-1], half)
        else:
            halves.append(half)
    whole = all(len(set(_span(half, bounds))) == 1 for half in halves)
    yield from halves if whole else [piece]


def _at_gaps(piece: _Piece) -> list[_Piece]:
    """Return the pieces of one between the gaps that are wider than most spaces."""
    number, line = piece.parts[0]
    words = line.text.split(" ")
    if len(piece.parts) > 1 or not line.gaps or line.gaps[-1][0] >= len(words):
        return [piece]
    begins = [0, *(at for at, _, _ in line.gaps)]
    ends = [*(at for at, _, _ in line.gaps), len(words)]
    lefts = [line.x0, *(right for _, _, right in line.gaps)]
    rights = [*(left for _, left, _ in line.gaps), line.x1]
    pieces: list[_Piece] = []
    for a, b, x0, x1 in zip(begins, ends, lefts, rights, strict=True):
        broken = line.broken and b == len(words)
        cut = replace(line, text=" ".join(words[a:b]), x0=x0, x1=x1, broken=broken, gaps=())
        pieces.append(_Piece([Part(number, cut)], x0, x1))
    return pieces


def _rejoined(left: _Piece, right: _Piece) -> _Piece:
    (number, a), (_, b) = left.parts[0], right.parts[0]
    return _Piece([Part(number, replace(a, text=f"{a.text} {b.text}", x1=b.x1, broken=b.broken))], left.x0, right.x1)


def _columns(stretch: Sequence[_Row]) -> list[tuple[float, float]]:
    """Return where the columns begin and end, by the rows with most cells; none if these do not agree."""
    most = max(map(len, stretch))
    full = [row for row in stretch if len(row) >= max(2, _FULL * most)]
    if len(full) < 2:
        return []
    size = statistics.median(piece.size for row in full for piece in row)
    columns: list[tuple[float, float]] = []
    for x0, x1 in sorted((piece.x0, piece.x1) for row in full for piece in row):
        if columns and x0 < columns[-1][1] + 0.2 * size:
            columns[-1] = columns[-1][0], max(columns[-1][1], x1)
        else:
            columns.append((x0, x1))
    usual = statistics.median_high(map(len, full))
    return columns if _FULL * usual <= len(columns) <= _MOST_COLUMNS and len(columns) <= most + 2 else []


def _span(piece: _Piece, bounds: Sequence[tuple[float, float]]) -> tuple[int, int]:
    over = [i for i, (x0, x1) in enumerate(bounds) if piece.x0 < x1 and x0 < piece.x1]
    if over:
        return over[0], over[-1]
    middle = (piece.x0 + piece.x1) / 2
    nearest = min(range(len(bounds)), key=lambda i: abs(sum(bounds[i]) / 2 - middle))
    return nearest, nearest
