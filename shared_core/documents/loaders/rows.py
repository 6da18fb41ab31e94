"""Write rows of tables as text with the names of their columns.

A table's text column becomes the text, row by row, with the other columns as metadata. A table without one (prices,
people, stock) becomes one line per row: "article: Hammer; price: 17.50".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Extracted,
    Heading,
    Problem,
    Segment,
    join_texts,
    one_line,
    without_surrogates,
)
from shared_core.errors import DocumentError
from shared_core.types import MetadataValue

TEXT_COLUMNS = tuple(
    """text content body passage paragraph document context article page_content description abstract summary answer
    message comment review""".split()
)
"""Names of columns that hold the text; the first one present is used (case does not matter)."""

TITLE_COLUMNS = ("title", "name", "heading", "headline", "subject", "question")
RESERVED = frozenset("source start end page page_end page_label page_end_label page_break row rows section cut".split())
"""Metadata names of our own: a column of that name becomes ``column_NAME``."""

MAX_CELLS = 5_000_000
SHORT = 80
"""Characters: if the median value of a column is shorter, its values are cells rather than texts."""

_OFTEN_A_CELL = frozenset(("article", "document", "description", "abstract", "summary", "answer"))
_STORE_PREFIXES = ("chroma:", "selfreflect:")  # reserved by vector stores
_ROW_BREAK = "\n\n"
_MAX_INTEGER = 2**63
_MAX_PROBLEMS = 20
_TITLE_CHARACTERS = 200

Row = tuple[int, Mapping[str, Any]]
"""Number (CSV: of the data row; JSON Lines: of the line) and values."""


def as_text(
    rows: Sequence[Row],
    columns: Sequence[str],
    text_column: str | None,
    problems: list[Problem],
    unit: str,
    written: Mapping[int, Sequence[str]] | None = None,
    groups: Mapping[int, str] | None = None,
) -> Extracted:
    """Return the text of a table's text column, row by row; whole rows if it has no such column.

    Args:
        rows: numbers and values.
        columns: names in the order of the file.
        text_column: named by the user; ``None`` looks for one of ``TEXT_COLUMNS``.
        problems: found so far.
        unit: what a row's number counts (``row``, ``line``, ``entry``).
        written: the cells of each row as the file has them, by the row's number, in the order of ``columns``.
        groups: names of groups of rows, by the number of the first row.

    Raises:
        DocumentError: no rows, neither a text column nor words anywhere, or no text in the column.
    """
    if not rows:
        raise DocumentError("The table holds no rows.", hint="It needs a header with a text column, and rows.")
    whole_rows = text_column is None and has_no_texts(rows, columns)
    column = None if whole_rows else _find_text_column(columns, text_column)
    title_column = _first_named([c for c in columns if c != column], TITLE_COLUMNS)
    pieces: list[str] = []
    headings: list[Heading] = []
    segments: list[Segment] = []
    without: list[int] = []
    length = 0
    for number, values in rows:
        if group := (groups or {}).get(number):
            headings.append(Heading(length, length + len(group), TERM_LEVEL, group))
            pieces.append(group)
            length += len(group) + len(_ROW_BREAK)
        if column is None:
            cells = dict(zip(columns, written[number])) if written and number in written else values
            text = row_text(cells)
        else:
            text = without_surrogates(value) if isinstance(value := values.get(column), str) else ""
        if not text.strip():
            without.append(number)
            continue
        title = _row_title(values, title_column)
        left_out = {column, title_column if title else None} if column is not None else set()
        metadata = {**_metadata(values, left_out), "row": number}
        segments.append(Segment(length, length + len(text), title, metadata))
        pieces.append(text)
        length += len(text) + len(_ROW_BREAK)
    if column is not None and not segments:
        raise DocumentError(f"Column {column!r} holds no text in any row.", hint="Name another: --text-column NAME.")
    if column is not None and without:
        what = f"{len(without)} rows have no text in column {column!r} (the first: {unit} {without[0]})"
        problems.append(Problem(what, "Fill it."))
    if column is None:  # whoever compares rows has to know whether there are more
        segments = [replace(s, metadata={**s.metadata, "rows": len(segments)}) for s in segments]
    text = _ROW_BREAK.join(pieces)
    if headings:
        headings.append(Heading(len(text), len(text), TERM_LEVEL, ""))
    return Extracted(text, "", tuple(headings), tuple(segments), _shortened(problems))


def has_no_texts(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Return whether no column holds texts but some hold words, so that a row makes sense only as a whole."""
    known = _first_named(columns, TEXT_COLUMNS)
    if known is None:
        return any(any(map(str.isalpha, v)) for _, row in rows for v in row.values() if isinstance(v, str))
    lengths = sorted(len(v) for _, row in rows if isinstance(v := row.get(known), str) and v.strip())
    if not lengths or len(columns) == 1:
        return False
    mostly_empty = 2 * len(lengths) < len(rows)  # then what the rows say is in their other cells
    return mostly_empty or (known.lower() in _OFTEN_A_CELL and lengths[len(lengths) // 2] < SHORT)


def _first_named(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the column with the first of these names that one has; case does not matter."""
    return next((column for name in names for column in columns if column.lower() == name), None)


def _find_text_column(columns: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted in columns:
        return wanted
    if (found := _first_named(columns, (wanted.lower(),) if wanted else TEXT_COLUMNS)) is not None:
        return found
    shown = ", ".join(repr(c) for c in columns[:20]) or "none"
    raise DocumentError(
        f"There is no text column{f' {wanted!r}' if wanted else ''}; the columns are: {shown}.",
        hint="Name the column that holds the text: --text-column NAME.",
    )


def row_text(cells: Mapping[str, Any]) -> str:
    """Write a row as "name: value; name: value", without the empty ones."""
    flat = {name: _flat(value) for name, value in cells.items() if name}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in flat.items()}
    lines = {name: one_line(value) for name, value in texts.items() if flat[name] is not None}
    return "; ".join(f"{without_surrogates(name)}: {value}" for name, value in lines.items() if value)


def _row_title(values: Mapping[str, Any], column: str | None) -> str:
    title = values.get(column) if column else None
    return "" if title is None else one_line(without_surrogates(str(title)))[:_TITLE_CHARACTERS]


def _shortened(problems: list[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= _MAX_PROBLEMS:
        return tuple(problems)
    more = Problem(f"… and {len(problems) - _MAX_PROBLEMS} more problems like these", problems[-1].hint)
    return (*problems[:_MAX_PROBLEMS], more)


def _metadata(values: Mapping[str, Any], left_out: set[str | None]) -> dict[str, MetadataValue]:
    result: dict[str, MetadataValue] = {}
    for name, value in values.items():
        flat = _flat(value) if name and name not in left_out else None
        if flat is not None and flat != "":
            key = without_surrogates(name)
            result[f"column_{key}" if key in RESERVED or key.startswith(_STORE_PREFIXES) else key] = flat
    return result


def _flat(value: Any) -> MetadataValue:
    """Convert a value for a vector store: nested ones to JSON, numbers beyond 64 bits to text, NaN to ``None``."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return without_surrogates(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def below(text: str, table: Extracted) -> Extracted:
    """Return a table with a text above it."""
    return join_texts((Extracted(text, segments=(Segment(0, len(text)),)), table)) if text else table
