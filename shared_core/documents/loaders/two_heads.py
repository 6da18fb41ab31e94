"""Join the names of columns that are given in two rows: "Pitch" above "Yards" and "Metres"."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shared_core.documents.loaders.cell_values import is_value, is_year
from shared_core.support.regex import lazy_regex

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
