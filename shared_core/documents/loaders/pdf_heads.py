"""Find the names of the columns of tables on a PDF's pages.

Names stand above values, on several lines or above several columns. A name that may belong to another column is worse
than none, so a table in which some are not plain has none.
"""

from __future__ import annotations

import itertools
import re
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared_core.documents.loaders.pdf_cells import CLOSE, Cell, Extent, Table, distance, visual_rows
from shared_core.documents.loaders.table_cells import is_amount, is_year
from shared_core.support.regex import lazy_regex

_NAME_LETTERS = 90
_CENTRED = 0.12  # of the width of the columns that a name is in the middle of
_PLAINLY = 0.5  # of another distance
_NEAR = 0.3  # of the distance to the next column that a name above one may be out of its middle
_MOST_ALONE = 6  # columns with names of their own beside groups
_MOST_HEADS = 5  # lines of names
_FIELD = lazy_regex(r"\w ?[:：] ?[^\W\d]")  # "Sex: male"
_DIGITS, _LETTERS = lazy_regex(r"\d+"), lazy_regex(r"[^\W\d_]+")
_CODE = lazy_regex(r"(?=\S*a)(?=\S*0)\S{2,9}")  # letters and digits of one word, each run as one
_LEAST_CODES, _MOSTLY = 4, 0.6  # cells of a column; of its cells
_LEAST_RECURRING, _FEW_WORDS = 3, 0.25  # columns and rows of words that recur; their number, of the cells
_COLUMN_NUMBER = lazy_regex(r"\(?(\d{1,2})\)?(?:\s*=.*)?")


class Heads(NamedTuple):
    """The names above the values of a table.

    Attributes:
        names: of its columns; none if they are not plain.
        captions: how many of these are a caption rather than names.
    """

    names: list[str]
    rows: int = 0
    captions: int = 0


def find_heads(table: Table) -> Heads:
    """Return the names of a table's columns.

    Names stand above values, or are bold above what is not. Each column with values has one, and most of them differ.
    """
    rows, columns = table.rows, len(table.bounds)
    numbered = next((i for i, row in enumerate(rows[: _MOST_HEADS + 1]) if i and _are_numbers(row)), 0)
    heads = table.heads or numbered or _head_rows(rows)
    if not 0 < heads < len(rows):
        return Heads([])
    full = max(range(heads), key=lambda i: (len(rows[i]), i))
    bounds, below = _widened(table.bounds, rows[full]), {cell.column: cell.text for cell in rows[full]}
    repeated = len(set(below.values())) < len(below)
    texts: list[list[str]] = [[] for _ in range(columns)]
    captions = 0
    for i, row in enumerate(rows[:heads]):
        wide = any(cell.columns > 1 for cell in row)
        if i == full:
            spans = None if wide and not table.ruled else _drawn_spans(row)
        elif table.ruled and (wide or (not repeated and all(_is_inside(cell, table.bounds) for cell in row))):
            spans = _drawn_spans(row)
        else:
            spans = _spans(row, bounds, below, above=i < full)
        if i < full and any(_FIELD.search(cell.text) for cell in row):  # a form above the table
            spans = None
        if spans is None and (i >= full or (row[0].column and not table.heads)):
            return Heads([])
        if spans is None:  # it begins above the labels
            captions, texts = i + 1, [[] for _ in range(columns)]
            continue
        for cell, span in zip(row, spans, strict=True):
            for column in span:
                texts[column].append(cell.text)
    names = [_joined_names(text) for text in texts]
    used = {cell.column for row in rows[heads:] for cell in row if cell.column}
    for column in used:
        if not names[column] and column + 1 < columns and column + 1 not in used:  # in the middle of a wide column
            names[column], names[column + 1] = names[column + 1], ""
    given = [name for name in names if name]
    alike = len(given) - len(set(given))
    several = any(len(visual_rows(cell.parts)) > 1 for cell in rows[full])  # one line may stand for more columns
    doubtful = alike and (captions or (several and heads == 1) or 2 * alike >= len(given)) and not table.heads
    fit = all(names[column] for column in used) and len(given) > 1 and not doubtful
    fit = fit and max(map(len, given)) <= _NAME_LETTERS
    return Heads(names, heads + (bool(numbered) and not table.heads), captions) if fit else Heads([])


def _are_numbers(row: Sequence[Cell]) -> bool:
    """Return whether a row numbers the columns: "(1)", "2 = 3 + 4", "(3)"."""
    found = [_COLUMN_NUMBER.fullmatch(cell.text) for cell in row]
    return len(row) > 2 and [match and int(match[1]) for match in found] == [*range(1, len(row) + 1)]


def _drawn_spans(row: Sequence[Cell]) -> list[range]:
    return [range(cell.column, cell.column + cell.columns) for cell in row]


def _joined_names(names: Sequence[str]) -> str:
    """Join the lines of a column's name, from the top; one that the next begins with is left out."""
    kept = [name for name, below in itertools.zip_longest(names, names[1:], fillvalue="") if not _begins(below, name)]
    return " ".join(dict.fromkeys(kept)).rstrip(" :")


def _begins(longer: str, name: str) -> bool:
    return longer.casefold().startswith(name.casefold() + " ")


def _spans(
    row: Sequence[Cell], bounds: Sequence[Extent], below: Mapping[int, str], *, above: bool
) -> list[range] | None:
    """Return which columns each name of a row stands for that has fewer names than there are columns.

    Names in the middle above several columns are theirs, as are names at the left of several if names below are
    repeated. Otherwise each is the beginning of the name of the column with which it is aligned. ``None`` if neither is
    so, since a wrong name is worse than none.

    Args:
        row: of names.
        bounds: where the columns begin and end.
        below: the names of the fullest row, by column.
        above: the row is above that one, not a further line of it.
    """
    first = [range(1)] if row[0].column == 0 else []
    edges = [_edges(cell) for cell in row[len(first) :]]
    if not edges:
        return first
    size = row[0].parts[0].line.size
    aligned = [_aligned_column(edge, bounds, size) for edge in edges]
    names = [cell.text for cell in row[len(first) :]]
    distinct = len(set(names)) == len(names)
    repeated = len(set(below.values())) < len(below)
    groups = None
    if distinct and (above or (len(edges) == 1 and aligned[0] is None)):  # one below may be of all: "in thousands"
        groups = _centred(edges, bounds, 1, repeated) or (_centred(edges, bounds, 0, repeated) if not first else None)
    elif above and not distinct and (even := _even_groups(len(names), below, len(bounds))):
        nearer = _are_nearer(edges, aligned, even, bounds)
        groups = None if nearer or not _are_centred(edges, bounds, even) else even
    if groups is None and repeated and distinct and above:
        groups = _between(edges, bounds, below)
    if groups is not None and None not in aligned and not repeated:
        return None if any(len(group) > 1 for group in groups) else first + groups
    if groups is not None:
        return first + groups
    starts = [next((i for i, (x0, _) in enumerate(bounds) if abs(x0 - left) <= size), None) for left, _ in edges]
    if repeated and distinct and above and None not in starts and len(starts) > 1:
        known = [start for start in starts if start is not None]
        return first + [range(a, b) for a, b in itertools.pairwise([*known, len(bounds)])]
    return first + [range(i, i + 1) for i in aligned if i is not None] if None not in aligned else None


def _even_groups(names: int, below: Mapping[int, str], columns: int) -> list[range]:
    """Return as many columns for each name if the names below recur with them; none if they do not."""
    each, rest = divmod(columns - 1, names)
    found = [below.get(column, "") for column in range(1, columns)]
    recur = not rest and each > 1 and found == found[:each] * names
    return [range(start, start + each) for start in range(1, columns, each)] if recur else []


def _are_nearer(
    edges: Sequence[Extent], aligned: Sequence[int | None], groups: Sequence[range], bounds: Sequence[Extent]
) -> bool:
    """Return whether names are plainly nearer to the middles of single columns than to those of their groups."""

    def away(spans: Sequence[range]) -> float:
        ends = [(bounds[span[0]][0], bounds[span[-1]][1]) for span in spans]
        return sum(abs(x0 + x1 - a - b) / 2 for (x0, x1), (a, b) in zip(edges, ends, strict=True))

    single = [range(i, i + 1) for i in aligned if i is not None]
    return len(single) == len(edges) and away(single) < _PLAINLY * away(groups)


def _between(edges: Sequence[Extent], bounds: Sequence[Extent], below: Mapping[int, str]) -> list[range] | None:
    """Return the columns in the middle of which names stand, beside columns that have a name of their own only."""
    often = Counter(below.values())
    alone = {column for column in range(len(bounds)) if often[below.get(column, "")] <= 1}
    outside = [(a, b) for a in range(_MOST_ALONE + 1) for b in range(_MOST_ALONE + 1 - a)]
    free = [(1 + a, len(bounds) - b) for a, b in sorted(outside, key=sum)]
    free = [(a, b) for a, b in free if alone.issuperset([*range(1, a), *range(b, len(bounds))])]
    ways = (_centred(edges, bounds[:b], a, True) for a, b in free)
    return next((way for way in ways if way and _recur(way, below)), None)


def _recur(groups: Sequence[range], below: Mapping[int, str]) -> bool:
    """Return whether one of two groups of several columns has all of the other one's names."""
    found = [{below.get(column, "") for column in group} for group in groups if len(group) > 1]
    return any(a <= b or b <= a for a, b in itertools.combinations(found, 2))


def _widened(bounds: Sequence[Extent], names: Sequence[Cell]) -> list[Extent]:
    """Return where columns begin and end with their names, which may be wider than the values below them."""
    wider = list(bounds)
    for cell in names:
        if cell.columns == 1:
            (x0, x1), (left, right) = wider[cell.column], _edges(cell)
            wider[cell.column] = min(x0, left), max(x1, right)
    return wider


def _is_inside(cell: Cell, bounds: Sequence[Extent]) -> bool:
    left, right = _edges(cell)
    return bounds[cell.column][0] <= left and right <= bounds[cell.column][1]


def _edges(cell: Cell) -> Extent:
    return min(part.line.x0 for part in cell.parts), max(part.line.x1 for part in cell.parts)


def _centred(edges: Sequence[Extent], bounds: Sequence[Extent], begin: int, repeated: bool) -> list[range] | None:
    """Return the columns from ``begin`` on in the middle of which each name stands; ``None`` if some does not.

    Names below that are ``repeated`` show that there are groups: these may then be of very different widths.
    """
    if not edges or len(edges) > len(bounds) - begin:
        return None
    middles = [(x0 + x1) / 2 for x0, x1 in edges]
    ways = [_nearest(middles, bounds, begin)] + ([_divided(middles, bounds, begin)] if repeated else [])
    return next((groups for groups in ways if _are_centred(edges, bounds, groups)), None)


def _are_centred(edges: Sequence[Extent], bounds: Sequence[Extent], groups: Sequence[range]) -> bool:
    """Return whether each name is in the middle of its columns, or near enough to the only one."""
    middles = [(x0 + x1) / 2 for x0, x1 in bounds]
    for (x0, x1), group in zip(edges, groups, strict=True):
        if not group:
            return False
        left, right = bounds[group[0]][0], bounds[group[-1]][1]
        away = abs((left + right - x0 - x1) / 2)
        if len(group) == 1 and x0 < right and left < x1:
            side = group[0] + (1 if x0 + x1 > left + right else -1)
            if 0 <= side < len(middles) and away <= _NEAR * abs(middles[group[0]] - middles[side]):
                continue
        if away > _CENTRED * (right - left):
            return False
    return True


def _nearest(middles: Sequence[float], bounds: Sequence[Extent], begin: int) -> list[range]:
    """Return for each name the columns from ``begin`` on that are nearer to its middle than to another one's."""
    owners = [min(range(len(middles)), key=lambda i: abs(middles[i] - (x0 + x1) / 2)) for x0, x1 in bounds[begin:]]
    starts = [begin + bisect_left(owners, i) for i in range(len(middles))]
    return [range(a, b) for a, b in itertools.pairwise([*starts, len(bounds)])]


def _divided(middles: Sequence[float], bounds: Sequence[Extent], begin: int) -> list[range]:
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


def _aligned_column(edge: Extent, bounds: Sequence[Extent], size: float) -> int | None:
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
    dated, shapes, coded = _columns_of_years(rows), _shapes_of_names(rows), _columns_of_codes(rows)
    above = itertools.takewhile(lambda row: not any(_is_code(cell, coded) for cell in row), rows[: _MOST_HEADS + 1])
    named = sum(1 for _ in itertools.takewhile(lambda row: _are_names(row, dated, shapes), above))
    bold = sum(1 for _ in itertools.takewhile(lambda row: all(cell.bold for cell in row), rows))
    if 0 < bold <= named and bold < len(rows):
        spans = len(rows[bold - 1]) > 1 and any(cell.columns > 1 for cell in rows[bold - 1])
        heads = bold + (spans and bold < named)  # below names above several columns are those of each
    elif named == len(rows) or named > _MOST_HEADS:
        return int(_is_above_recurring(rows))
    else:
        heads = _head_lines(rows, named)
    while heads and len(rows[heads - 1]) == 1 and not rows[heads - 1][0].column:  # the label of the first rows
        heads -= 1
    return heads


def _is_above_recurring(rows: Sequence[Sequence[Cell]]) -> bool:
    """Return whether the first row names columns of few words that recur: "yes", "no", "partially"."""
    names = [cell.text.casefold() for cell in rows[0]]
    below = [[cell.text.casefold() for cell in row if cell.column] for row in rows[1:]]
    words = Counter(itertools.chain.from_iterable(below))
    return (
        len(names) == len(set(names)) == max(map(len, rows)) >= _LEAST_RECURRING
        and len(below) >= _LEAST_RECURRING
        and len(words) <= _FEW_WORDS * words.total()
        and not words.keys() & set(names)
    )


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


def _columns_of_codes(rows: Sequence[Sequence[Cell]]) -> dict[int, str]:
    """Return the columns of which most cells are codes of one form, such as "NP004", with that form."""
    forms: dict[int, Counter[str]] = defaultdict(Counter)
    for cell in itertools.chain.from_iterable(rows):
        forms[cell.column][_form(cell.text)] += 1
    usual = {column: found.most_common(1)[0] for column, found in forms.items()}
    return {
        column: form
        for column, (form, times) in usual.items()
        if _CODE.fullmatch(form) and times >= max(_LEAST_CODES, _MOSTLY * forms[column].total())
    }


def _is_code(cell: Cell, coded: Mapping[int, str]) -> bool:
    """Return whether a cell is a code like those in its column, which none of the names above them is."""
    return coded.get(cell.column) == _form(cell.text)


def _form(text: str) -> str:
    """Return a text with one letter for each word and one digit for each number."""
    return _LETTERS.sub("a", _DIGITS.sub("0", text))


def _are_names(row: Sequence[Cell], dated: set[int], shapes: set[str]) -> bool:
    """Return whether a row has no values; a year is a name above other values, and so are the ``shapes``."""
    cells = [cell for cell in row if cell.column or not is_year(cell.text)]
    return not any(
        is_amount(cell.text) and _shape(cell.text) not in shapes and (not is_year(cell.text) or cell.column in dated)
        for cell in cells
    )
