"""Rows with columns as a text, each row a part of its own: its text column, with the others as metadata, or, in tables
that have none (prices, people, stock), the whole row: "article: Hammer; price: 17.50".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from shared_core.documents.loaders.base import Extracted, Part, Problem, one_line, without_surrogates
from shared_core.errors import DocumentError
from shared_core.types import MetadataValue

TEXT_COLUMNS = (
    "text", "content", "body", "passage", "paragraph", "document", "context", "article", "page_content",
    "description", "abstract", "summary", "answer", "message", "comment", "review",
)  # fmt: skip
"""Names a text column is found by, the first present one wins (letter case does not matter)."""

_OFTEN_A_CELL = frozenset(("article", "document", "description", "abstract", "summary", "answer"))
_SHORT = 80  # characters of the middle one of a column's values: below, they are cells beside others, no texts
TITLE_COLUMNS = ("title", "name", "heading", "headline", "subject", "question")
RESERVED = frozenset(
    ("source", "start", "end", "page", "page_end", "page_label", "page_end_label", "page_break", "row", "section")
)
"""Metadata names of our own: a column of that name becomes ``column_NAME``."""

_STORE_PREFIXES = ("chroma:", "selfreflect:")  # vector stores keep such names to themselves
_ROW_BREAK = "\n\n"
_MAX_INTEGER = 2**63
_MAX_PROBLEMS = 20
_TITLE_CHARACTERS = 200

Row = tuple[int, Mapping[str, Any]]  # number (CSV: of the data row; JSONL: of the line), values


def rows_as_text(
    rows: Sequence[Row],
    columns: Sequence[str],
    text_column: str | None,
    problems: list[Problem],
    unit: str,
    written: Mapping[int, Sequence[str]] | None = None,
) -> Extracted:
    """The text of a table's text column, row by row; of a table without one, whole rows.

    Args:
        rows: numbers and values.
        columns: names in the order of the file.
        text_column: named by the user; ``None`` looks for one of ``TEXT_COLUMNS``.
        problems: found so far.
        unit: what a row's number counts (``row``, ``line``, ``entry``).
        written: by a row's number its cells as the file has them, in the order of ``columns``.

    Raises:
        DocumentError: no rows, neither a text column nor words anywhere, or no text in the column.
    """
    if not rows:
        raise DocumentError("The table holds no rows.", hint="It needs a header with a text column, and rows.")
    if text_column is None and _is_records(rows, columns):
        return _records(rows, columns, written or {}, problems)
    column = find_text_column(columns, text_column)
    title_column = next((c for name in TITLE_COLUMNS for c in columns if c.lower() == name and c != column), None)
    pieces: list[str] = []
    parts: list[Part] = []
    length = 0
    without: list[int] = []
    for number, values in rows:
        text = values.get(column)
        if not isinstance(text, str) or not text.strip():
            without.append(number)
            continue
        text = without_surrogates(text)
        if pieces:
            pieces.append(_ROW_BREAK)
            length += len(_ROW_BREAK)
        pieces.append(text)
        title = _row_title(values, title_column)
        metadata = _metadata(values, {column, title_column if title else None})
        parts.append(Part(length, length + len(text), title, {**metadata, "row": number}))
        length += len(text)
    if not parts:
        raise DocumentError(f"Column {column!r} holds no text in any row.", hint="Name another: --text-column NAME.")
    if without:
        problems.append(
            Problem(
                f"{len(without)} rows have no text in column {column!r} (the first: {unit} {without[0]})", "Fill it."
            )
        )
    return Extracted("".join(pieces), parts=tuple(parts), problems=_shortened(problems))


def _is_records(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Whether no column holds texts, but some hold words: each row says something only as a whole."""
    known = next((c for name in TEXT_COLUMNS for c in columns if c.lower() == name), None)
    if known is None:
        return any(any(c.isalpha() for c in str(v)) for _, row in rows for v in row.values() if isinstance(v, str))
    if known.lower() not in _OFTEN_A_CELL or len(columns) == 1:
        return False
    lengths = sorted(len(v) for _, row in rows if isinstance(v := row.get(known), str) and v.strip())
    return bool(lengths) and lengths[len(lengths) // 2] < _SHORT


def _records(
    rows: Sequence[Row], columns: Sequence[str], written: Mapping[int, Sequence[str]], problems: list[Problem]
) -> Extracted:
    """Each row in one line of names and values, empty ones left out; its columns are its metadata as well."""
    title_column = next((c for name in TITLE_COLUMNS for c in columns if c.lower() == name), None)
    pieces: list[str] = []
    parts: list[Part] = []
    length = 0
    for number, values in rows:
        cells = dict(zip(columns, written[number])) if number in written else values
        said = {name: one_line(without_surrogates(_shown(value))) for name, value in cells.items() if name}
        text = "; ".join(f"{without_surrogates(name)}: {value}" for name, value in said.items() if value)
        if not text:
            continue
        if pieces:
            pieces.append(_ROW_BREAK)
            length += len(_ROW_BREAK)
        pieces.append(text)
        metadata = {**_metadata(values, set()), "row": number}
        parts.append(Part(length, length + len(text), _row_title(values, title_column), metadata))
        length += len(text)
    return Extracted("".join(pieces), parts=tuple(parts), problems=_shortened(problems))


def _shown(value: Any) -> str:
    flat = _flat(value)
    return "" if flat is None else str(flat)


def find_text_column(columns: Sequence[str], wanted: str | None) -> str:
    """The column that holds the text; DocumentError if there is none of a known name."""
    if wanted is not None and wanted in columns:
        return wanted
    for name in (wanted.lower(),) if wanted else TEXT_COLUMNS:
        for column in columns:
            if column.lower() == name:
                return column
    shown = ", ".join(repr(c) for c in columns[:20]) or "none"
    raise DocumentError(
        f"There is no text column{f' {wanted!r}' if wanted else ''}; the columns are: {shown}.",
        hint="Name the column that holds the text: --text-column NAME.",
    )


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
        if name in left_out or not name:
            continue
        flat = _flat(value)
        if flat is not None and flat != "":
            key = without_surrogates(name)
            result[f"column_{key}" if key in RESERVED or key.startswith(_STORE_PREFIXES) else key] = flat
    return result


def _flat(value: Any) -> MetadataValue:
    """What a vector store can hold: nested values as JSON, numbers beyond 64 bits as text, NaN as nothing."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return without_surrogates(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
