"""Write the rows of tables on a PDF's pages with the names of their columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared_core.documents.loaders.pdf_cells import Cell, Extent, Table, distance, has_values
from shared_core.documents.loaders.pdf_columns import NEXT_ROW
from shared_core.documents.loaders.pdf_heads import find_heads
from shared_core.documents.loaders.pdf_lines import Line
from shared_core.documents.loaders.pdf_rules import Rules
from shared_core.documents.loaders.pdf_tables import find_tables

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
