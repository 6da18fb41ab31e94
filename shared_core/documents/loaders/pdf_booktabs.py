"""Find tables with rules above, below and under their names only, as papers have them.

The rules are as wide as the table and tell which rows are names. Columns are known from the rows below, whose cells
may stand as close as words do.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from shared_core.documents.loaders.pdf_cells import (
    LEAST_ROWS,
    MOST_COLUMNS,
    Cell,
    Extent,
    Part,
    Piece,
    Table,
    at_gaps,
    distance,
    has_values,
    is_table,
    pieces_of,
    united,
    visual_rows,
)
from shared_core.documents.loaders.pdf_columns import cells_of
from shared_core.documents.loaders.pdf_heads import find_heads
from shared_core.documents.loaders.pdf_lines import MIDDLE
from shared_core.documents.loaders.pdf_rules import Rule, Rules
from shared_core.documents.loaders.table_cells import is_amount, is_year
from shared_core.support.regex import lazy_regex

_SAME_END = 3.0  # points between ends of rules of one table
_CLOSE = 1.6  # font sizes from names to the rule below them
_BESIDE = 3.0  # points that letters may stand out
_MOST_NAMES = 5  # lines of names
_MOST_RULES = 400  # of a page, each way
_DOUBLE = 5.0  # points between the two lines of a double rule
_NEXT_LINE, _NEXT_VALUE = 1.45, 2.2  # font sizes to a further line of a label, of values
_CENTRED = 0.12  # of the width between upright rules that a name may be out of the middle
_INDENT = 0.5  # font sizes: of a further line of a label
_BRACKETED = lazy_regex(r"\([^()]*\d[^()]*\)\S{0,3}|\[[^\[\]]*\d[^\[\]]*\]\S{0,3}")  # below an estimate: its error
_COLUMN_NUMBER = lazy_regex(r"\(\d{1,2}\)")
_NAME = lazy_regex(r"[^\W_]|[#%№]")
_SENTENCE = lazy_regex(r"\w{4,}\.\Z|\w[.;] \w+ \w+ ")  # "… of the lane."
_BULLET = lazy_regex(r"[•‣◦▪▸●■·\uf0b7\uf0a7]")
_CAPTION = lazy_regex(r"(?:table|tab\.|figure|fig\.|algorithm)\s*\d", re.IGNORECASE)

_Row = list[Piece]


def find_booktabs(free: Sequence[Part], rules: Rules) -> Iterator[Table]:
    """Yield the tables between horizontal rules of one width among lines of none yet."""
    if len(rules.horizontal) > _MOST_RULES or len(rules.vertical) > _MOST_RULES:  # a drawing
        return
    for group in _alike(free, rules):
        ways = [_Band(above, below, free) for above, below in itertools.pairwise(group)]
        bands = [band for band in ways if band.parts or band.above.at - band.below.at > _DOUBLE]
        for of_table, own in itertools.groupby(bands, lambda band: band.is_body):
            table = _table(list(own), rules) if of_table else None
            if table is not None:
                yield table


def _alike(free: Sequence[Part], rules: Rules) -> Iterator[list[Rule]]:
    """Yield three or more rules that begin and end at the same places, from the top.

    Where no rule is drawn above or below a table, rules between its columns reach as far, or names stand close above.
    """
    left = sorted(rules.horizontal, key=lambda rule: -rule.at)
    while left:
        first = left[0]
        same = [rule for rule in left if _are_alike(rule, first)]
        left = [rule for rule in left if rule not in same]
        between = [r for r in rules.vertical if first.start - _SAME_END <= r.at <= first.end + _SAME_END]
        crossing = [r for r in between if any(r.start - _SAME_END <= rule.at <= r.end + _SAME_END for rule in same)]
        top = max((rule.end for rule in crossing), default=first.at)
        bottom = min((rule.start for rule in crossing), default=same[-1].at)
        top = top if top > first.at + _DOUBLE else _top_of_names(first, free)
        found = [Rule(top, first.start, first.end)] * (top > first.at + _DOUBLE) + same
        found += [Rule(bottom, first.start, first.end)] * (bottom < same[-1].at - _DOUBLE)
        if len(found) > 2:
            yield found


def _are_alike(a: Rule, b: Rule) -> bool:
    return abs(a.start - b.start) <= _SAME_END and abs(a.end - b.end) <= _SAME_END


def _top_of_names(first: Rule, free: Sequence[Part]) -> float:
    """Return how far up the lines reach that stand close above a rule; the height of the rule if there are none."""
    inside = [p for p in free if first.start - _BESIDE <= p.line.x0 and p.line.x1 <= first.end + _BESIDE]
    top = first.at
    for row in reversed(visual_rows([part for part in inside if part.line.y > first.at])):
        line = row[0].line
        if line.y - top > _CLOSE * line.size or len(row) < 2:
            break
        top = line.y + line.size
    return top


class _Band:
    """The lines between two rules."""

    def __init__(self, above: Rule, below: Rule, free: Sequence[Part]) -> None:
        self.above, self.below = above, below
        between = [part for part in free if below.at < part.line.y + MIDDLE * part.line.size < above.at]
        left, right = above.start - _BESIDE, above.end + _BESIDE
        self.parts = [part for part in between if left <= part.line.x0 and part.line.x1 <= right]
        crossing = sum(part.line.x0 < right and left < part.line.x1 for part in between) - len(self.parts)
        self.rows: list[_Row] = [
            [half for piece in pieces_of(row) for half in at_gaps(piece)] for row in visual_rows(self.parts)
        ]
        self.is_clean = bool(self.rows) and crossing <= 0

    @property
    def is_body(self) -> bool:
        """Whether it holds rows of several cells, and no caption."""
        captions = any(_CAPTION.match(part.line.text) for part in self.parts)
        return self.is_clean and not captions and any(len(row) > 1 for row in self.rows)


def _table(bands: Sequence[_Band], rules: Rules) -> Table | None:
    """Return the table of which the first band, or two, hold names; ``None`` if it is not plain which is whose."""
    for heads in (1, 2):
        table = _named(bands[:heads], bands[heads:], rules) if len(bands) > heads else None
        if table is not None:
            return table
    return None


def _named(above: Sequence[_Band], bands: Sequence[_Band], rules: Rules) -> Table | None:
    """Return the table with the names of some bands above the rows of others."""
    named = [row for band in above for row in band.rows]
    if len(named) > _MOST_NAMES:
        return None
    rows = [row for band in bands for row in band.rows]
    bounds = _columns(rows)
    if not 1 < len(bounds) <= MOST_COLUMNS:
        return None
    names = [_with_drawn_spans(cells_of(row, bounds), above[-1].below, bounds, rules) for row in named]
    heads = _names_above(names, bounds)
    body = [*names[heads:], *_joined([cells_of(row, bounds) for row in rows])]
    full = sum(len(row) > 1 for row in body)
    if not heads or full < LEAST_ROWS - 1 or not is_table(body, len(bounds)):
        return None
    bullets = any(_BULLET.fullmatch(cell.text) for row in body for cell in row)
    if (len(bands) == len(rows) > 1 or bullets) and not any(map(has_values, body)):  # rules part all rows; lists
        return None
    table = Table([*names[:heads], *body], bounds, True, heads=heads)
    return table if find_heads(table).names else None


def _names_above(rows: Sequence[Sequence[Cell]], bounds: Sequence[Extent]) -> int:
    """Return how many of the rows above the second rule hold names: values below the fullest one are none."""
    full = max(range(len(rows)), key=lambda i: (len(rows[i]), i))
    named = [_are_names(row) for row in rows]
    doubtful = any(cell.columns > 1 and not _is_between(cell, bounds) for cell in rows[full])
    if doubtful or len(rows[full]) < 2 or not all(named[: full + 1]):
        return 0
    return next((i for i in range(full + 1, len(rows)) if not named[i]), len(rows))


def _are_names(row: Sequence[Cell]) -> bool:
    """Return whether a row may hold names: words, signs for a number, years and numbers of columns."""
    values = sum(is_amount(cell.text) and not is_year(cell.text) for cell in row)
    numbered = all(_COLUMN_NUMBER.fullmatch(cell.text) for cell in row)
    written = all(_NAME.search(cell.text) and not _SENTENCE.search(cell.text) for cell in row)
    return numbered or (written and not values)


def _is_between(cell: Cell, bounds: Sequence[Extent]) -> bool:
    """Return whether a name is above what is between columns: one above all of their middles may be several names."""
    left, right = min(part.line.x0 for part in cell.parts), max(part.line.x1 for part in cell.parts)
    own = bounds[cell.column : cell.column + cell.columns]
    return cell.drawn or not all(left < (x0 + x1) / 2 < right for x0, x1 in own)


def _columns(rows: Sequence[_Row]) -> list[Extent]:
    """Return where the columns begin and end: those of the fullest row, as wide as the pieces above one only."""
    fullest = max(rows, key=len)
    bounds = [(piece.x0, piece.x1) for piece in fullest]
    for row in rows:
        for piece in row if len(row) > 1 else ():  # a label of rows may be wider
            over = [i for i, (x0, x1) in enumerate(bounds) if piece.x0 < x1 and x0 < piece.x1]
            if len(over) == 1:
                (i,) = over
                bounds[i] = min(bounds[i][0], piece.x0), max(bounds[i][1], piece.x1)
            elif not over:
                bounds = sorted([*bounds, (piece.x0, piece.x1)])
    return _merged(bounds, rows)


def _merged(bounds: Sequence[Extent], rows: Sequence[_Row]) -> list[Extent]:
    """Join columns above one another, and those that more pieces stand across than begin in the second."""
    found: list[Extent] = []
    pieces = list(itertools.chain.from_iterable(rows))
    for x0, x1 in bounds:
        left, end = found[-1] if found else (x0, x0)
        across = sum(piece.x0 < end and x0 < piece.x1 for piece in pieces) if found else 0
        own = sum(x0 <= piece.x0 < x1 for piece in pieces)
        if x0 < end or across > own:
            found[-1] = left, max(end, x1)
        else:
            found.append((x0, x1))
    return found


def _with_drawn_spans(row: list[Cell], last: Rule, bounds: Sequence[Extent], rules: Rules) -> list[Cell]:
    """Return the names of a row, each across the columns that rules give to it.

    A short rule below a name is above its columns; a name in the middle between two upright rules, alone there, is that
    of all between them.
    """
    edges = [(min(part.line.x0 for part in cell.parts), max(part.line.x1 for part in cell.parts)) for cell in row]
    for cell, (left, right) in zip(row, edges, strict=True):
        y, size = min(part.line.y for part in cell.parts), cell.parts[0].line.size
        near = [r for r in rules.horizontal if max(last.at + 1, y - size) < r.at < y]
        own = [(r.start, r.end) for r in near if r.start <= left and right <= r.end and not _are_alike(r, last)]
        beside = [r.at for r in rules.vertical if r.start < y < r.end and last.start < r.at < last.end]
        begin = max((at for at in beside if at <= left), default=last.start)
        end = min((at for at in beside if at >= right), default=last.end)
        alone = sum(x0 < end and begin < x1 for x0, x1 in edges) == 1
        if not own and beside and alone and abs(begin + end - left - right) / 2 <= _CENTRED * (end - begin):
            own = [(begin, end)]
        inside = [i for i, (x0, x1) in enumerate(bounds) if own and own[0][0] <= (x0 + x1) / 2 <= own[0][1]]
        between = [i for i, ((_, a), (b, _)) in enumerate(itertools.pairwise(bounds)) if a < left and right < b]
        if between and between[0] and not inside:  # above neither of two columns, so above both
            inside = [between[0], between[0] + 1]
        if inside:
            cell.column, cell.columns, cell.drawn = inside[0], len(inside), True
    return row


def _joined(rows: Sequence[list[Cell]]) -> list[list[Cell]]:
    """Join rows that are lines of one: further lines of a label, and errors in brackets below estimates."""
    found: list[list[Cell]] = []
    for row in rows:
        if found and _goes_on(found[-1], row):
            found[-1] = united(found[-1], row)
        else:
            found.append(row)
    return found


def _goes_on(before: Sequence[Cell], row: Sequence[Cell]) -> bool:
    size, away = row[0].parts[0].line.size, distance(before, row)
    if before[0].column or any(cell.columns > 1 for cell in (*before, *row)):
        return False
    values = [cell for cell in row if cell.column]
    label = None if row[0].column else row[0]
    left = min(part.line.x0 for part in before[0].parts)
    further = label is None or label.text[:1].islower() or label.text[:1] == "("
    further = further or min(part.line.x0 for part in row[0].parts) > left + _INDENT * size
    if not values:
        return further and len(before) > 1 and away <= _NEXT_LINE * size
    filled = {cell.column for cell in before}
    if label is None and all(cell.text[:1].islower() and cell.column in filled for cell in values):
        return away <= _NEXT_LINE * size
    below = all(_BRACKETED.fullmatch(cell.text) and cell.column in filled for cell in values)
    return below and further and away <= _NEXT_VALUE * size
