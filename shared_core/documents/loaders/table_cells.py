"""Tell what the cells of any format's tables hold: values or words, names of columns in two rows, names of groups.

"Day: Monday; Opens: 8:15" is no answer in a table of a pool's and a gym's hours, unless it is read below, or with, the
name of its group. Groups are recognised where they are needed: where rows of different groups begin alike, and those
of one group do not. Otherwise cells are more likely to be empty because something is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import chain, pairwise

from shared_core.documents.loaders.extracted import one_line
from shared_core.support.regex import lazy_regex

_VALUE = lazy_regex(
    r"(?=.*\d)[-+–−<>≤≥~±]?[^\w\s]{0,2}\s?[\d.,:/’' \-–−+()%‰°$€£¥]+\s?[^\w\s]{0,2}|TRUE|FALSE|-+|#[\w/?!]+"
)
_UNIT = r"(?:(?!(?:st|nd|rd|th)\b)[°º]?[^\W\d]{1,4}\.?[²³]?|\w{4,7}s\b)(?:/\w{1,6})?"
_MEASURE = lazy_regex(
    rf"[-+–−<>≤≥~±]?[$€£¥]?\s?\d[\d.,]*(?:\s?[-–]\s?\d[\d.,]*)?\s?{_UNIT}(?:\s?\d[\d.,]*(?:\s?{_UNIT})?)?"
)
_YEAR = lazy_regex(r"(?:19|20)\d\d(?:[/–-]\d{2,4})?[*†‡]{0,3}")


def is_value(cell: str) -> bool:
    """Return whether a cell holds a number, a date, an amount or a sign in place of one, rather than words.

    >>> [is_value(cell) for cell in ("1,140", "£3.50", "12–14", "-", "12 May", "Oil")]
    [True, True, True, True, False, False]
    """
    return _VALUE.fullmatch(cell) is not None


def is_amount(cell: str) -> bool:
    """Return whether a cell holds a value, which may have a unit; the name of a column may be like that, too.

    >>> [is_amount(cell) for cell in ("50 °C", "3 h 35", "30 min", "2 months", "5th", "7 Sisters Road")]
    [True, True, True, True, False, False]
    """
    return is_value(cell) or _MEASURE.fullmatch(cell) is not None


def is_year(cell: str) -> bool:
    """Return whether a cell is a year (``1998``, ``2004/05``), which may be a column's name."""
    return _YEAR.fullmatch(cell) is not None


_DIGIT = lazy_regex(r"\d")


def join_heads(
    header: Sequence[str], below: Sequence[str], spanned: Collection[int], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Return the names of columns if the row below the header has those of the columns that its cells span; else none.

    >>> join_heads(["Age", "Pitch", "", "Ball"], ["", "Yards", "Metres", ""], [2], [["6", "30", "27", "3"]])
    ['Age', 'Pitch Yards', 'Pitch Metres', 'Ball']
    >>> join_heads(["Age", "Pitch", "", "Ball"], ["", "30", "27", "3"], [2], [["6", "30", "27", "3"]])
    []

    Args:
        header: the names in the first row.
        below: as many cells of the second row.
        spanned: columns with values and without a name in the header.
        rows: the cells below both.
    """
    if not spanned or not _is_second_head(header, below, sorted(spanned), rows):
        return []
    names, upper = [], ""
    for above, name in zip(header, below):
        upper = above or upper
        names.append(f"{upper} {name}".strip())
    return names


def _is_second_head(
    header: Sequence[str], below: Sequence[str], spanned: Sequence[int], rows: Sequence[Sequence[str]]
) -> bool:
    """Return whether a row has the names of columns that the header's cells span.

    The column of the rows' names has one of its own in the header, or else below it: then all columns have one there,
    none of them a number, and the rows below have numbers in a column that is spanned.
    """
    if any(is_value(name) and not is_year(name) for name in below):
        return False
    if header[0]:
        return not below[0] and all(below[i] and below[i - 1] for i in spanned)
    if not any(header) or not all(name or not above for name, above in zip(below, header)):
        return False
    if not all(below[i] for i in spanned) or any(_DIGIT.search(name) for name in below):
        return False
    return have_numbers(rows, spanned[1:])


def have_numbers(rows: Sequence[Sequence[str]], columns: Collection[int]) -> bool:
    """Return whether all values in one of the columns have digits."""
    values = ([row[i] for row in rows if i < len(row) and row[i].strip()] for i in columns)
    return any(cells and all(map(_DIGIT.search, cells)) for cells in values)


_LEAST_GROUPS = 2
_LABEL = lazy_regex(r"([^\W\d_][^:]{0,39}):(?: +|\Z)")
NAMED = "\ue000"
"""Put before a cell of a sheet that is set as the name of a group: bold, or across columns."""


def group_names(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return which of the rows below a table's names of columns name the group below: only the first cell is filled.

    >>> sorted(group_names([("Pool", ""), ("Monday", "9:00"), ("Gym", ""), ("Monday", "8:15")]))
    [0, 2]
    >>> group_names([("Anna", ""), ("Ben", "555 0123"), ("Carl", ""), ("Dora", "555 0199")])
    set()
    """
    alone = [bool(row) and bool(row[0]) and not any(row[1:]) for row in rows]
    found = [i for i, lone in enumerate(alone) if lone]
    if len(found) < _LEAST_GROUPS or found[0] != 0 or not all(row and row[0] for row in rows):
        return set()
    bounds = [*found, len(rows)]
    groups = [[row[0] for row in rows[start + 1 : end]] for start, end in pairwise(bounds)]
    names = {rows[i][0] for i in found}
    return set(found) if all(groups) and names.isdisjoint(chain(*groups)) and _recur(groups) else set()


def labelled_groups(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return which rows name the group below by labels and values, as reports do: "Region: North", "Boats: sail".

    They have the same labels, and the first row is one; other rows, more than these, have other cells.

    >>> north, south, trips = ("Port: Ost", "Boats:", "sail"), ("Port: Tarn", "", "Boats: oar"), [("Auk", "4", "")] * 2
    >>> sorted(labelled_groups([north, *trips, south, *trips])), labelled_groups([*trips, north, *trips, south])
    ([0, 3], set())
    """
    found = {i: labels for i, row in enumerate(rows) if (labels := _labels(row))}
    bounds = [*found, len(rows)]
    if len(found) < _LEAST_GROUPS or bounds[0] or 2 * len(found) >= len(rows) or len(set(found.values())) > 1:
        return set()
    return set(found) if all(end - start > 1 for start, end in pairwise(bounds)) else set()


def _labels(row: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of a row with nothing but labels and their values, in a cell each or side by side."""
    labels: list[str] = []
    due = False  # a value for the label before
    for cell in filter(None, row):
        match = _LABEL.match(cell)
        if due == (match is not None):
            return ()
        if match:
            labels.append(match[1])
            due = match.end() == len(cell)
        else:
            due = False
    return () if due else tuple(labels)


def first_of_group(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return for each row the one whose first cell it shares: its own, or one above if its cell is left empty.

    >>> first_of_group([("Pool", "Monday"), ("", "Tuesday"), ("Gym", "Monday"), ("", "Tuesday")])
    [0, 0, 2, 2]
    >>> first_of_group([("Pool", "Monday"), ("", "Holidays"), ("Gym", "Sundays")])
    [0, 1, 2]
    """
    own = list(range(len(rows)))
    if not rows or not all(len(row) > 1 and row[1] for row in rows) or not rows[0][0]:
        return own
    found = [i for i, row in enumerate(rows) if row[0]]
    bounds = [*found, len(rows)]
    groups = [[row[1] for row in rows[start:end]] for start, end in pairwise(bounds)]
    if len(found) in (1, len(rows)) or not _recur(groups):
        return own
    return [start for start, end in pairwise(bounds) for _ in range(start, end)]


def split_groups(
    columns: Sequence[int], records: Sequence[tuple[int, list[str]]]
) -> tuple[list[tuple[int, list[str]]], dict[int, str]]:
    """Take the names of groups out of a table's rows, and write a group's first cell into each of its rows.

    Return the other rows, and the groups' names by the number of the first row below.

    Args:
        columns: places of those with names.
        records: number and cells of each row below the names; names of groups may have ``NAMED`` before them.
    """
    rows = [[one_line(record[i]) if i < len(record) else "" for i in columns] for _, record in records]
    marked = {i for i, row in enumerate(rows) if row and row[0].startswith(NAMED) and not any(row[1:])}
    rows = [[cell.removeprefix(NAMED) for cell in row] for row in rows]
    last = max((i for i in range(len(rows)) if i not in marked), default=0)
    names = {i for i in marked if i < last} or group_names(rows) or labelled_groups(rows)
    kept = [i for i in range(len(records)) if i not in names]
    out = []
    for i, first in zip(kept, first_of_group([rows[i] for i in kept])):
        number, record = records[i]
        record = [cell.removeprefix(NAMED) for cell in record]
        if rows[i] and rows[i][0] != (shared := rows[kept[first]][0]):
            record = [shared if place == columns[0] else cell for place, cell in enumerate(record)]
        out.append((number, record))
    groups: dict[int, str] = {}
    for i in sorted(names):
        below = kept[bisect_right(kept, i)]  # behind a name within another one
        name = ", ".join(filter(None, rows[i])).replace(":, ", ": ")
        groups[records[below][0]] = ": ".join(filter(None, (groups.get(records[below][0]), name)))
    return out, groups


def _recur(groups: Sequence[Sequence[str]]) -> bool:
    """Return whether some value is in several groups, and none twice in one."""
    every = sum(len(set(group)) for group in groups)
    return every == sum(map(len, groups)) and every > len(set().union(*groups))
