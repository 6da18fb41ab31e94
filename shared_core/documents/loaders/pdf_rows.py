"""Write the rows of tables on a PDF's pages with the names of their columns.

Names stand above values, on several lines or above several columns. A name that may belong to another column is worse
than none, so a table in which some are not plain keeps its rows as they are.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared_core.documents.loaders.named_rows import is_year
from shared_core.documents.loaders.pdf_cells import CLOSE, Cell, Table, distance, has_values, is_amount, visual_rows
from shared_core.documents.loaders.pdf_columns import NEXT_ROW
from shared_core.documents.loaders.pdf_lines import Line
from shared_core.documents.loaders.pdf_rules import Rules
from shared_core.documents.loaders.pdf_tables import find_tables

_NAME_LETTERS = 90
_CENTRED = 0.12  # of the width of the columns that a name stands in the middle of
_MOST_ALONE = 6  # columns with names of their own beside groups
_MOST_HEADS = 5  # lines of names
_LINES_ABOVE = 5  # of a page, above a table that goes on from the page before: its running head
_SAME_COLUMNS = 8.0  # points that a table on the next page may be shifted
_FIELD = re.compile(r"\w ?[:：] ?[^\W\d]")  # "Sex: male"
_COLUMN_NUMBER = re.compile(r"\(?(\d{1,2})\)?(?:\s*=.*)?")
_PLAIN = 0.8  # of the rows, and of their cells


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a table's columns, for its rows on the next page."""

    names: Sequence[str]
    bounds: Sequence[tuple[float, float]]

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
    """Return the lines of each page with a line for each row of a table, in place of the first line of the table.

    Args:
        pages: lines of each page, in the order of the file.
        rules: of each page.
    """
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
        places = _places_below(last, table) if last is not None and not _heads(table).rows else []
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

    Args:
        table: to write.
        number: of the table in its document.
        above: the names of a table that ends the page before.
    """
    names, heads, captions = _heads(table)
    known = _Names(names, table.bounds) if names else None
    if known is None and above is not None and above.fit(table):
        known, heads, captions = above, 0, 0
    if known is None and not _is_plain(table):
        return [], None
    found: list[Line] = []
    body = table.rows[heads:]
    used = {cell.column for row in body for cell in row}
    unused = known is not None and any(name and column not in used for column, name in enumerate(known.names))
    begin = 0 if unused or any(len(row) > 1 and any(cell.columns > 1 for cell in row) for row in body) else heads
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
        line = replace(
            max(first, key=lambda line: line.y), text=_row_text(whole, known.names if known and at >= heads else []),
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


def _row_text(row: Sequence[Cell], names: Sequence[str]) -> str:
    if len(row) == 1 or any(cell.columns > 1 for cell in row) or not names:
        texts = [cell.text for cell in row]
        return texts[0] if len(row) == 1 else "\t".join(texts)
    return "; ".join(f"{names[cell.column]}: {cell.text}" if names[cell.column] else cell.text for cell in row)


class _Heads(NamedTuple):
    """The names of a table's columns, none if they are not plain, the number of rows above the values, and how many of
    these are a caption rather than names."""

    names: list[str]
    rows: int = 0
    captions: int = 0


def _heads(table: Table) -> _Heads:
    """Return the names of a table's columns.

    Names stand above values, or are bold above what is not. Each column with values has one, and most of them differ.
    """
    rows, columns = table.rows, len(table.bounds)
    numbered = next((i for i, row in enumerate(rows[: _MOST_HEADS + 1]) if i and _are_numbers(row)), 0)
    heads = numbered or _head_rows(rows)
    if not 0 < heads < len(rows):
        return _Heads([])
    full = max(range(heads), key=lambda i: (len(rows[i]), i))
    repeated = len({cell.text for cell in rows[full]}) < len(rows[full])
    texts: list[list[str]] = [[] for _ in range(columns)]
    captions = 0
    bounds = _widened(table.bounds, rows[full])
    lowest = Counter(cell.text for cell in rows[full])
    alone = set(range(columns)) - {cell.column for cell in rows[full] if lowest[cell.text] > 1}
    for i, row in enumerate(rows[:heads]):
        wide = any(cell.columns > 1 for cell in row)
        if i == full:
            spans = None if wide and not table.ruled else _drawn_spans(row)
        elif table.ruled and (wide or (not repeated and all(_is_inside(cell, table.bounds) for cell in row))):
            spans = _drawn_spans(row)
        else:
            spans = _spans(row, bounds, alone=alone, repeated=repeated, above=i < full)
        if i < full and any(_FIELD.search(cell.text) for cell in row):  # a form above the table
            spans = None
        if spans is None and (i >= full or row[0].column):
            return _Heads([])
        if spans is None:  # it begins above the labels
            captions, texts = i + 1, [[] for _ in range(columns)]
            continue
        for cell, span in zip(row, spans, strict=True):
            for column in span:
                texts[column].append(cell.text)
    names = [" ".join(dict.fromkeys(text)).rstrip(" :") for text in texts]
    used = {cell.column for row in rows[heads:] for cell in row if cell.column}
    for column in used:
        if not names[column] and column + 1 < columns and column + 1 not in used:  # in the middle of a wide column
            names[column], names[column + 1] = names[column + 1], ""
    given = [name for name in names if name]
    alike = len(given) - len(set(given))
    several = any(len(visual_rows(cell.parts)) > 1 for cell in rows[full])  # one line may stand for more columns
    doubtful = alike and (captions or (several and heads == 1))
    fit = all(names[column] for column in used) and 2 * alike < len(given) > 1 and not doubtful
    fit = fit and max(map(len, given)) <= _NAME_LETTERS
    return _Heads(names, heads + bool(numbered), captions) if fit else _Heads([])


def _are_numbers(row: Sequence[Cell]) -> bool:
    """Return whether a row numbers the columns: "(1)", "2 = 3 + 4", "(3)"."""
    found = [_COLUMN_NUMBER.fullmatch(cell.text) for cell in row]
    return len(row) > 2 and [match and int(match[1]) for match in found] == [*range(1, len(row) + 1)]


def _drawn_spans(row: Sequence[Cell]) -> list[range]:
    return [range(cell.column, cell.column + cell.columns) for cell in row]


def _spans(
    row: Sequence[Cell], bounds: Sequence[tuple[float, float]], *, alone: set[int], repeated: bool, above: bool
) -> list[range] | None:
    """Return which columns each name of a row stands for that has fewer names than there are columns.

    Names in the middle above several columns are theirs; columns that have a name of their own (``alone``) may stand
    beside these. So are names at the left of several if names below are ``repeated``; but not lines that are not
    ``above`` other names, nor those that are alike. Otherwise each is the beginning of the name of the column with
    which it is aligned. ``None`` if neither is so, since a wrong name is worse than none.
    """
    first = [range(1)] if row[0].column == 0 else []
    edges = [_edges(cell) for cell in row[len(first) :]]
    if not edges:
        return first
    size = row[0].parts[0].line.size
    aligned = [_aligned_column(edge, bounds, size) for edge in edges]
    distinct = above and len({cell.text for cell in row}) == len(row)
    groups = _centred(edges, bounds, 1) or (_centred(edges, bounds, 0) if not first else None) if distinct else None
    if groups is None and repeated and distinct:  # columns with a name of their own may stand before and behind them
        outside = [(a, b) for a in range(_MOST_ALONE + 1) for b in range(_MOST_ALONE + 1 - a)]
        free = [(1 + a, len(bounds) - b) for a, b in sorted(outside, key=sum)]
        free = [(a, b) for a, b in free if alone.issuperset([*range(1, a), *range(b, len(bounds))])]
        ways = (_centred(edges, bounds[:b], a) for a, b in free)
        groups = next((way for way in ways if way and max(map(len, way)) > 1), None)
    if groups is not None and None not in aligned and not repeated:
        return None if any(len(group) > 1 for group in groups) else first + groups
    if groups is not None:
        return first + groups
    starts = [next((i for i, (x0, _) in enumerate(bounds) if abs(x0 - left) <= size), None) for left, _ in edges]
    if repeated and distinct and None not in starts:
        known = [start for start in starts if start is not None]
        return first + [range(a, b) for a, b in itertools.pairwise([*known, len(bounds)])]
    return first + [range(i, i + 1) for i in aligned if i is not None] if None not in aligned else None


def _widened(bounds: Sequence[tuple[float, float]], names: Sequence[Cell]) -> list[tuple[float, float]]:
    """Return where columns begin and end with their names, which may be wider than the values below them."""
    wider = list(bounds)
    for cell in names:
        if cell.columns == 1:
            (x0, x1), (left, right) = wider[cell.column], _edges(cell)
            wider[cell.column] = min(x0, left), max(x1, right)
    return wider


def _is_inside(cell: Cell, bounds: Sequence[tuple[float, float]]) -> bool:
    left, right = _edges(cell)
    return bounds[cell.column][0] <= left and right <= bounds[cell.column][1]


def _edges(cell: Cell) -> tuple[float, float]:
    return min(part.line.x0 for part in cell.parts), max(part.line.x1 for part in cell.parts)


def _centred(
    edges: Sequence[tuple[float, float]], bounds: Sequence[tuple[float, float]], begin: int
) -> list[range] | None:
    """Return the columns from ``begin`` on in the middle of which each name stands; ``None`` if some does not."""
    if not edges or len(edges) > len(bounds) - begin:
        return None
    groups = _divided([(x0 + x1) / 2 for x0, x1 in edges], bounds, begin)
    for (x0, x1), group in zip(edges, groups, strict=True):
        left, right = bounds[group[0]][0], bounds[group[-1]][1]
        near = abs((left + right - x0 - x1) / 2) <= _CENTRED * (right - left)
        over = len(group) == 1 and x0 < right and left < x1
        if not near and not over:
            return None
    return groups


def _divided(middles: Sequence[float], bounds: Sequence[tuple[float, float]], begin: int) -> list[range]:
    """Divide the columns from ``begin`` on into ranges whose middles are nearest to those given, all in all."""
    best: dict[int, tuple[float, list[range]]] = {begin: (0.0, [])}
    for number, middle in enumerate(middles, 1):
        last = len(bounds) - (len(middles) - number)
        following: dict[int, tuple[float, list[range]]] = {}
        for start, (away, groups) in best.items():
            for end in range(start + 1, last + 1):
                total = away + abs((bounds[start][0] + bounds[end - 1][1]) / 2 - middle)
                if end not in following or total < following[end][0]:
                    following[end] = total, [*groups, range(start, end)]
        best = following
    return best[len(bounds)][1]


def _aligned_column(edge: tuple[float, float], bounds: Sequence[tuple[float, float]], size: float) -> int | None:
    """Return the only column that a name overlaps and with which it is aligned."""
    over = [i for i, (x0, x1) in enumerate(bounds) if edge[0] < x1 + size and x0 - size < edge[1]]
    if len(over) != 1:
        over = [i for i, (x0, x1) in enumerate(bounds) if edge[0] < x1 and x0 < edge[1]]
    if len(over) != 1:
        return None
    (x0, x1), (left, right) = bounds[over[0]], edge
    near = min(abs(x0 - left), abs(x1 - right), abs(x0 + x1 - left - right) / 2)
    return over[0] if near <= size or (x0 - 1 <= left and right <= x1 + 1) else None


def _head_rows(rows: Sequence[Sequence[Cell]]) -> int:
    """Return how many rows at the top hold names: bold ones, or those above the first with values."""
    dated, shapes = _columns_of_years(rows), _shapes_of_names(rows)
    named = sum(1 for _ in itertools.takewhile(lambda row: _are_names(row, dated, shapes), rows[: _MOST_HEADS + 1]))
    bold = sum(1 for _ in itertools.takewhile(lambda row: all(cell.bold for cell in row), rows))
    if 0 < bold <= named and bold < len(rows):
        spans = len(rows[bold - 1]) > 1 and any(cell.columns > 1 for cell in rows[bold - 1])
        heads = bold + (spans and bold < named)  # below names above several columns are those of each
    elif named == len(rows) or named > _MOST_HEADS:
        return 0
    else:
        heads = _head_lines(rows, named)
    while heads and len(rows[heads - 1]) == 1 and not rows[heads - 1][0].column:  # the label of the first rows
        heads -= 1
    return heads


def _head_lines(rows: Sequence[Sequence[Cell]], named: int) -> int:
    """Return how many of the rows above the first with values hold names.

    A second row with a label and as many cells is data in words, unless it goes on with those above: its cells begin
    with small letters, or it is closer than rows are.
    """
    most = max(map(len, rows[:named]), default=0)
    full = [i for i, row in enumerate(rows[:named]) if len(row) == most and not row[0].column]
    usual = [distance(a, b) for a, b in itertools.pairwise(rows[named:]) if len(a) > 1 and len(b) > 1]
    close = CLOSE * statistics.median(usual) if usual else 0.0
    return next(
        (
            b
            for a, b in itertools.pairwise(full)
            if most > 1 and distance(rows[a], rows[b]) > close and not all(cell.text[0].islower() for cell in rows[b])
        ),
        named,
    )


def _shapes_of_names(rows: Sequence[Sequence[Cell]]) -> set[str]:
    """Return the forms of values in the first row that none below has, such as dates above amounts: these are names."""
    values = [cell.text for cell in rows[0] if cell.column and is_amount(cell.text)]
    shapes = set(map(_shape, values))
    below = {_shape(cell.text) for row in rows[1:] for cell in row if cell.column and is_amount(cell.text)}
    alike = len(shapes) == 1 or all(any(map(str.isalpha, shape)) for shape in shapes)  # "28 Day", "2 Year"
    names = len(set(values)) == len(values) > 1 and alike and any(map(str.isdigit, values[0]))
    return shapes - below if names and below else set()


def _shape(text: str) -> str:
    return re.sub(r"\d+(?:,\d{3})*", "0", text).lstrip("+-−–")


def _columns_of_years(rows: Sequence[Sequence[Cell]]) -> set[int]:
    """Return the columns whose values are years, so that a year does not name them."""
    years: Counter[int] = Counter()
    for cell in itertools.chain.from_iterable(rows):
        if is_amount(cell.text):
            years[cell.column] += 1 if is_year(cell.text) else -1
    return {column for column, more in years.items() if more > 0}


def _are_names(row: Sequence[Cell], dated: set[int], shapes: set[str]) -> bool:
    """Return whether a row has no values; a year is a name above other values, and so are the ``shapes``."""
    cells = [cell for cell in row if cell.column or not is_year(cell.text)]
    return not any(
        is_amount(cell.text) and _shape(cell.text) not in shapes and (not is_year(cell.text) or cell.column in dated)
        for cell in cells
    )
