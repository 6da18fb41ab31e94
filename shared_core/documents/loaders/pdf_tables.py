"""Find the tables on a PDF's pages, and write their rows with the names of their columns.

A PDF has no tables, only letters and lines at places. Cells are known from drawn rules, or from columns of short pieces
that stand above one another with the names above values. What is not plainly a table stays as it is.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shared_core.documents.loaders.extracted import grouped
from shared_core.documents.loaders.pdf_booktabs import find_booktabs
from shared_core.documents.loaders.pdf_cells import (
    BESIDE,
    LEAST_ROWS,
    MOST_COLUMNS,
    Cell,
    Extent,
    Part,
    Table,
    distance,
    fill,
    has_values,
    is_table,
    join_wrapped,
    joined_text,
    pieces_of,
    visual_rows,
    without_notes,
)
from shared_core.documents.loaders.pdf_columns import NEXT_ROW, find_aligned
from shared_core.documents.loaders.pdf_heads import find_heads
from shared_core.documents.loaders.pdf_lines import MIDDLE, Line
from shared_core.documents.loaders.pdf_rules import Rules, grids
from shared_core.documents.loaders.table_cells import is_amount

_SAME_PLACE = 3.5  # points between rules that bound the same column or row
_MOST_ROWS = 400
_LONGEST_REPEATED = 80  # letters of a cell that spans rows and is written in each
_ONE_LINE = 0.7  # font sizes between a label and its values
_LABEL_LETTERS, _LABEL_GAP = 60, 12  # of a label before the rules; font sizes to them
_LABELLED = 0.7  # of the rows with values in a box without rules between them have a label

_Box = tuple[int, int]  # row and column between rules


def find_tables(lines: Sequence[Line], rules: Rules) -> list[Table]:
    """Return the tables of a page from top to bottom: those with rules first found, others of the lines that are left.

    The lines are cut between cells.
    """
    turned = lines[0].turned if lines else 0
    free = [Part(i, line) for i, line in enumerate(lines) if line.turned == turned]
    aside = [Part(i, line) for i, line in enumerate(lines) if (line.turned - turned) % 2]
    tables: list[Table] = []
    for grid in sorted(grids(rules.turned(turned)), key=lambda grid: len(grid.horizontal) * len(grid.vertical)):
        table = _ruled(free, aside, grid)
        if table is not None:
            tables.append(table)
            own = table.lines
            free, aside = ([part for part in parts if part.number not in own] for parts in (free, aside))
    for table in find_booktabs(free, rules.turned(turned)):
        own = table.lines
        if own <= {part.number for part in free}:
            tables.append(table)
            free = [part for part in free if part.number not in own]
    tables += find_aligned(free, [rule.at for rule in rules.turned(turned).horizontal])
    for table in tables:
        table.top = max(part.line.y for row in table.rows for cell in row for part in cell.parts)
    return sorted(tables, key=lambda table: -table.top)


def _ruled(free: Iterable[Part], aside: Iterable[Part], grid: Rules) -> Table | None:
    """Return the table whose cells are bounded by rules; ``None`` if the boxes hold something else.

    Args:
        free: lines of no table yet.
        aside: lines that run up or down the page, as names above narrow columns do.
        grid: rules that cross.
    """
    left, right = min(rule.start for rule in grid.horizontal), max(rule.end for rule in grid.horizontal)
    bottom, top = min(rule.start for rule in grid.vertical), max(rule.end for rule in grid.vertical)
    xs = _places([left, right, *(rule.at for rule in grid.vertical)])
    ys = _places([bottom, top, *(rule.at for rule in grid.horizontal)])[::-1]
    if not (2 < len(xs) <= MOST_COLUMNS + 1 and 2 < len(ys) <= _MOST_ROWS + 1):
        return None
    slots = _slots(free, xs, ys)
    if not slots:
        return None
    turned = next(iter(slots.values()))[0].line.turned
    for box, upright in _slots([_upright(part, turned) for part in aside], xs, ys).items():
        slots[box] += _one_below_another(upright, turned)
    used = sorted({column for _, column in slots})  # others are the room between double rules, or empty
    rows = [split for row in _boxed_rows(slots, _owners(grid, xs, ys), used, ys) for split in _split(row)]
    for cell in itertools.chain.from_iterable(rows):
        fill(cell)
    bounds = [(xs[column], xs[column + 1]) for column in used]
    if labels := _labels_before(rows, free, xs[0]):
        rows = [_with_label(row, label) for row, label in zip(rows, labels, strict=True)]
        bounds = [(min(label.line.x0 for label in labels if label), xs[0]), *bounds]
    rows = without_notes(join_wrapped(rows, ruled=True), len(bounds))
    beside = sum(any(map(_has_columns, row)) for row in rows)
    return Table(rows, bounds, True) if is_table(rows, len(bounds)) and beside <= BESIDE * len(rows) else None


def _slots(parts: Iterable[Part], xs: Sequence[float], ys: Sequence[float]) -> dict[_Box, list[Part]]:
    """Return the lines in each box between rules at ``xs`` and, from the top, ``ys``."""
    slots: dict[_Box, list[Part]] = defaultdict(list)
    for part in parts:
        x, y = (part.line.x0 + part.line.x1) / 2, part.line.y + MIDDLE * part.line.size
        if xs[0] < x < xs[-1] and ys[-1] < y < ys[0]:
            slots[bisect_left(ys, -y, key=lambda place: -place) - 1, bisect_left(xs, x) - 1].append(part)
    return slots


def _upright(part: Part, turned: int) -> Part:
    """Return a line that runs up or down as a narrow one in the middle of where it stands."""
    line = part.line
    up = _runs_up(line, turned)
    x, y = -up * (line.y + MIDDLE * line.size), up * (line.x0 + line.x1) / 2 - MIDDLE * line.size
    return Part(part.number, replace(line, x0=x - line.size / 2, x1=x + line.size / 2, y=y, gaps=()))


def _one_below_another(parts: Sequence[Part], turned: int) -> list[Part]:
    """Return such lines of one cell in the order in which they are read, below one another."""
    ordered = sorted(parts, key=lambda part: _runs_up(part.line, turned) * part.line.x0)
    return [
        Part(number, replace(line, y=line.y - i * line.size, turned=turned)) for i, (number, line) in enumerate(ordered)
    ]


def _runs_up(line: Line, turned: int) -> int:
    """Return 1 for a line that runs up among others that are ``turned``, -1 for one that runs down."""
    return 1 if (line.turned - turned) % 4 == 1 else -1


def _labels_before(rows: Sequence[Sequence[Cell]], free: Iterable[Part], left: float) -> list[Part | None]:
    """Return the label of each row that stands before the rules.

    None if not most rows with values have one, or if they have labels of their own: then it is a text beside them.
    """
    before = visual_rows([part for part in free if part.line.x1 <= left and len(part.line.text) <= _LABEL_LETTERS])
    alone = [row[0] for row in before if len(row) == 1 and any(map(str.isalpha, row[0].line.text))]
    labels: list[Part | None] = []
    rows_with_values = bare = 0
    for row in rows:
        valued = has_values([replace(cell, column=1) for cell in row])
        rows_with_values += valued
        bare += valued and is_amount(row[0].text)
        height = max(part.line.y for part in row[0].parts)
        near = (one for one in alone if abs(one.line.y - height) <= _ONE_LINE * one.line.size) if valued else ()
        labels.append(next((one for one in near if left - one.line.x1 < _LABEL_GAP * one.line.size), None))
    least = max(LEAST_ROWS, _LABELLED * rows_with_values)
    return labels if min(bare, sum(map(bool, labels))) >= least else []


def _with_label(row: Sequence[Cell], label: Part | None) -> list[Cell]:
    """Return a row with a label as its first cell."""
    moved = [replace(cell, column=cell.column + 1) for cell in row]
    if label is None:
        return moved
    first = Cell(0, 1, [label])
    fill(first)
    return [first, *moved]


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
        values = [piece for piece in pieces_of(row) if is_amount(joined_text(piece.parts))]
        if len(values) > 1:
            return True
    return False


def _places(values: Sequence[float]) -> list[float]:
    groups = grouped(sorted(values), lambda group, value: value - group[-1] <= _SAME_PLACE)
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
    if len(beside := [cell for cell in row if len(visual_rows(cell.parts)) > 1]) == len(row) - 1:
        label = next(cell for cell in row if cell not in beside)
        stacked = [[cell for cell in level if cell.column != label.column] for level in rows]
        if not label.column and len(rows) >= LEAST_ROWS <= len(beside) and _are_full(stacked, len(beside)):
            bottom = min(part.line.y for cell in beside for part in cell.parts) - 1
            return [[replace(label, bottom=bottom), *stacked[0]], *stacked[1:]]
    full = len(row) >= LEAST_ROWS <= len(rows) and all(len(level) == len(row) for level in rows)
    return rows if full or (valued > 1 and labelled >= _LABELLED * valued) else [row]


def _are_full(rows: Sequence[Sequence[Cell]], cells: int) -> bool:
    """Return whether nearly all of the rows beside a label that spans them are full, and most have values."""
    full = [row for row in rows if len(row) == cells]
    valued = sum(any(is_amount(joined_text(cell.parts)) for cell in row) for row in full)
    return len(full) >= len(rows) - 1 and 2 * valued > len(rows) and all(len(row) in (0, cells) for row in rows)


_LINES_ABOVE = 5  # of a page, above a table that goes on from the page before: its running head
_SAME_COLUMNS = 8.0  # points that a table on the next page may be shifted
_PLAIN = 0.8  # of the rows, and of their cells


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a table's columns, for its rows on the next page."""

    names: Sequence[str]
    bounds: Sequence[Extent]

    def fit(self, table: Table) -> bool:
        """Whether a table goes on with this one: its columns are there, and its first row holds values, not names."""
        return (
            len(self.bounds) == len(table.bounds)
            and has_values(table.rows[0])
            and all(
                abs(a0 - b0) <= _SAME_COLUMNS or abs(a1 - b1) <= _SAME_COLUMNS
                for (a0, a1), (b0, b1) in zip(self.bounds, table.bounds, strict=True)
            )
        )


def with_tables(pages: Sequence[Sequence[Line]], rules: Sequence[Rules]) -> list[list[Line]]:
    """Return each page's lines, in the order of the file, with one for each row of a table in the table's place."""
    found: list[list[Line]] = []
    number, names = 0, None
    for lines, drawn in zip(pages, rules, strict=True):
        rows: dict[int, list[Line]] = {}
        taken: set[int] = set()
        last = 0.0  # where the table before ends
        for table in join_heads(find_tables(lines, drawn)):
            above = sum(line.y > table.top for i, line in enumerate(lines) if i not in taken)
            goes_on = (
                last - table.top <= NEXT_ROW * table.rows[0][0].parts[0].line.size if taken else above <= _LINES_ABOVE
            )
            number += 1
            written, names = _written(table, number, names if goes_on else None)
            last = min(part.line.y for cell in table.rows[-1] for part in cell.parts)
            if written:
                own = table.lines
                rows[min(own)] = written
                taken |= own
        if lines and not rows:
            names = None
        found.append([row for i, line in enumerate(lines) for row in rows.get(i, [] if i in taken else [line])])
    return found


def join_heads(tables: Sequence[Table]) -> list[Table]:
    """Join tables of which the upper one is the head of the lower: each of its columns is above one of that."""
    found: list[Table] = []
    for table in tables:
        last = found[-1] if found else None
        places = _places_below(last, table) if last is not None and not find_heads(table).rows else []
        near = last and distance(last.rows[-1], table.rows[0]) <= NEXT_ROW * table.rows[0][0].parts[0].line.size
        if last is None or not places or not near or any(map(has_values, last.rows)):
            found.append(table)
            continue
        for cell in itertools.chain.from_iterable(last.rows):
            end = places[cell.column + cell.columns - 1]
            cell.column = places[cell.column]
            cell.columns = end - cell.column + 1
        found[-1] = replace(table, rows=last.rows + table.rows, top=last.top)
    return found


def _places_below(above: Table, table: Table) -> list[int]:
    """Return for each column of a table the one below it; none if some has none of its own."""
    places = [[i for i, (a, b) in enumerate(table.bounds) if a < x1 and x0 < b] for x0, x1 in above.bounds]
    own = [place[0] for place in places if len(place) == 1]
    return own if len(own) == len(places) and own == sorted(set(own)) else []


def _written(table: Table, number: int, above: _Names | None) -> tuple[list[Line], _Names | None]:
    """Return a line for each row of a table and the names of its columns; no lines if they are not known.

    ``number`` counts the tables of the document; ``above`` has the names of the one that ends the page before.
    """
    names, heads, captions = find_heads(table)
    known = _Names(names, table.bounds) if names else None
    if known is None and above is not None and above.fit(table):
        known, heads, captions = above, 0, 0
    if known is None and not _is_plain(table):
        return [], None
    found: list[Line] = []
    body = table.rows[heads:]
    used = {cell.column for row in body for cell in row}
    unused = known is not None and any(name and column not in used for column, name in enumerate(known.names))
    wide = any(len(row) > 1 and any(cell.columns > 1 for cell in row) for row in body) and not table.heads
    begin = 0 if unused or wide else heads
    spanning: dict[int, Cell] = {}
    for at, row in enumerate(table.rows):
        if captions <= at < begin:
            continue
        first = [part.line for cell in row for part in cell.parts]
        own = {cell.column for cell in row}
        spanning = {column: cell for column, cell in spanning.items() if column not in own and cell.spans(row)}
        whole = sorted([*row, *spanning.values()], key=lambda cell: cell.column)
        spanning |= {cell.column: cell for cell in row if at >= heads}
        label = len(whole) == 1 and not row[0].column
        used_names = known.names if known and at >= heads else []
        line = replace(
            max(first, key=lambda line: line.y), text=_row_text(whole, used_names, known=table.heads > 0),
            x0=min(line.x0 for line in first), x1=max(line.x1 for line in first), broken=False,
            bold=all(line.bold for line in first), table=-number if label else number,
        )  # fmt: skip
        found.append(line)
    return found, known


def _is_plain(table: Table) -> bool:
    """Return whether a table without names has rules and hardly anything else than full rows, unlike a form."""
    rows = [row for row in table.rows if len(row) > 1]
    spans = sum(any(cell.columns > 1 for cell in row) for row in rows)
    filled = sum(map(len, rows))
    return (
        table.ruled
        and len(rows) >= _PLAIN * len(table.rows)
        and filled >= _PLAIN * len(rows) * len(table.bounds)
        and spans <= (1 - _PLAIN) * len(rows)
    )


def _row_text(row: Sequence[Cell], names: Sequence[str], *, known: bool) -> str:
    """Return the cells of a row with their names; ``known``: rules tell them, also those of a cell across columns."""
    if len(row) == 1 or not names or (not known and any(cell.columns > 1 for cell in row)):
        texts = [cell.text for cell in row]
        return texts[0] if len(row) == 1 else "\t".join(texts)
    shared = [_shared(names[cell.column : cell.column + cell.columns]) for cell in row]
    return "; ".join(f"{name}: {cell.text}" if name else cell.text for name, cell in zip(shared, row, strict=True))


def _shared(names: Sequence[str]) -> str:
    """Return the words with which all of some names begin."""
    words = itertools.takewhile(lambda some: len(set(some)) == 1, zip(*(name.split() for name in names), strict=False))
    return " ".join(some[0] for some in words)
