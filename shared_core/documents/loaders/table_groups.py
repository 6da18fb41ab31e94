"""Find the groups of a table's rows: names or labels in rows of their own, and names only in a group's first row.

"Day: Monday; Opens: 8:15" is no answer in a table of a pool's and a gym's hours, unless it is read below, or with, the
name of its group. Both are recognised where they are needed: where rows of different groups begin alike, and those
of one group do not. Otherwise cells are more likely to be empty because something is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain, pairwise

from shared_core.documents.loaders.extracted import one_line
from shared_core.support.regex import lazy_regex

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
