"""Tables of office documents as text: row by row, with the names of the columns where a first row gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.documents.loaders.base import one_line

_LEAST_COLUMNS, _LEAST_ROWS = 3, 2
LONGEST_NAME = 40
_DIGIT = re.compile(r"\d")


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """The table, a line for each row that has text.

    "Name: Mill; Built: 1871" where the first row names the columns, so that a row can be searched, read and quoted
    alone; cells by tab elsewhere. Word documents seldom say which rows are headers. A first row is taken for one if all
    rows are as wide as it is, three columns at least; its cells are short, differ and have no digits; and some column
    has digits in each row below.

    Args:
        rows: cells, top to bottom.
    """
    some = [[one_line(cell) for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if not _has_header(some):
        return "\n".join("\t".join(row).rstrip("\t") for row in some)
    names, *body = some
    return "\n".join("; ".join(f"{name}: {cell}" for name, cell in zip(names, row) if cell) for row in body)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    if len(rows) <= _LEAST_ROWS or len(rows[0]) < _LEAST_COLUMNS or len({len(row) for row in rows}) > 1:
        return False
    names, *body = rows
    if len(set(names)) < len(names) or any(not 0 < len(n) <= LONGEST_NAME or _DIGIT.search(n) for n in names):
        return False
    return any(all(_DIGIT.search(row[i]) for row in body) for i in range(len(names)))
