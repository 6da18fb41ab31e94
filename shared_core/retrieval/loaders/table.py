"""CSV, TSV and JSON Lines: each row with text is a part of its own, its other columns are metadata."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared_core.errors import DocumentError
from shared_core.retrieval.loaders.base import Extracted, Part, Problem, decode, one_line, without_surrogates
from shared_core.types import MetadataValue

TEXT_COLUMNS = (
    "text", "content", "body", "passage", "paragraph", "document", "context", "article", "page_content",
    "description", "abstract", "summary", "answer", "message", "comment", "review",
)  # fmt: skip
"""Names a text column is found by, the first present one wins (letter case does not matter)."""

TITLE_COLUMNS = ("title", "name", "heading", "headline", "subject")
RESERVED = frozenset(("source", "start", "end", "page", "row", "section"))
"""Metadata names of our own: a column of that name becomes ``column_NAME``."""

_STORE_PREFIXES = ("chroma:", "selfreflect:")  # vector stores keep such names to themselves

_ROW_BREAK = "\n\n"
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})$")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][-+]?\d{1,3})?$")
_MAX_INTEGER = 2**63
_MAX_PROBLEMS = 20
_TITLE_CHARACTERS = 200
_field_limit = threading.Lock()

Row = tuple[int, Mapping[str, Any]]  # number (CSV: of the data row; JSONL: of the line), values


def load_csv(data: bytes, fallback: str | None, text_column: str | None, *, delimiter: str | None) -> Extracted:
    """A table with a header line; ``row`` counts data rows from 1.

    Columns all of whose values are plain numbers become numbers, so that filters can compare them.

    Raises:
        DocumentError: no header, no text column, or broken quoting (with the line).
    """
    text = decode(data, fallback=fallback)
    _allow_long_fields(len(text))
    delimiter = delimiter or _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [one_line(name) for name in next(reader, [])]
        records = [(number, record) for number, record in enumerate((r for r in reader if r), 1) if any(record)]
    except csv.Error as error:
        raise DocumentError(
            f"line {reader.line_num}: the table cannot be parsed: {error}.",
            hint="A field that holds a quote, a delimiter or a line break must stand in double quotes, with quotes "
            "inside it doubled.",
        ) from error
    problems = [
        Problem(f"row {n} has {len(r)} fields, the header {len(header)}; the extra ones were left out", "Quote it.")
        for n, r in records
        if len(r) > len(header)
    ]
    columns = _typed_columns(header, [record for _, record in records])
    rows = [
        (n, {name: columns[name][i] for name in columns if i < len(columns[name])}) for i, (n, _) in enumerate(records)
    ]
    return _rows(rows, header, text_column, problems, "row")


def load_jsonl(data: bytes, fallback: str | None, text_column: str | None) -> Extracted:
    """One JSON object per line; ``row`` is the line's number. A malformed line is left out and named.

    Raises:
        DocumentError: no line can be used, or there is no text column.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    columns: dict[str, None] = {}
    for number, line in enumerate(io.StringIO(decode(data, fallback=fallback)), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            detail = getattr(error, "msg", "") or "too deeply nested or too long a number"
            problems.append(Problem(f"line {number} is not valid JSON: {detail}", "Each line must be one JSON object."))
            continue
        if not isinstance(value, dict):
            problems.append(Problem(f"line {number} is not a JSON object", 'Wrap it: {"text": …}'))
            continue
        columns.update(dict.fromkeys(value))
        rows.append((number, value))
    if not rows and problems:
        raise DocumentError(f"No line can be used; {problems[0].message}.", hint=problems[0].hint)
    return _rows(rows, list(columns), text_column, problems, "line")


def _rows(
    rows: Sequence[Row], columns: Sequence[str], text_column: str | None, problems: list[Problem], unit: str
) -> Extracted:
    if not rows:
        raise DocumentError("The table holds no rows.", hint="It needs a header with a text column, and rows.")
    column = _text_column(columns, text_column)
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


def _row_title(values: Mapping[str, Any], column: str | None) -> str:
    title = values.get(column) if column else None
    return "" if title is None else one_line(without_surrogates(str(title)))[:_TITLE_CHARACTERS]


def _shortened(problems: list[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= _MAX_PROBLEMS:
        return tuple(problems)
    more = Problem(f"… and {len(problems) - _MAX_PROBLEMS} more problems like these", problems[-1].hint)
    return (*problems[:_MAX_PROBLEMS], more)


def _text_column(columns: Sequence[str], wanted: str | None) -> str:
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


def _typed_columns(header: Sequence[str], records: Sequence[Sequence[str]]) -> dict[str, list[MetadataValue]]:
    columns: dict[str, list[MetadataValue]] = {}
    for i, name in enumerate(header):
        if name and name not in columns:
            values = [record[i] if i < len(record) else "" for record in records]
            columns[name] = list(_typed(values))
    return columns


def _typed(values: Sequence[str]) -> Iterator[MetadataValue]:
    filled = [v for v in values if v]
    # A leading zero or plus marks a code (a postcode, a telephone number), which must stay as it is written.
    if filled and all(_INTEGER.match(v) for v in filled):
        return (int(v) if v else None for v in values)
    if filled and all(_NUMBER.match(v) for v in filled):
        return (float(v) if v else None for v in values)
    return iter(values)


def _delimiter(text: str) -> str:
    """The one of ``, ; tab |`` that parts the header line into the most fields."""
    line = next((line for line in io.StringIO(text) if line.strip()), "")
    counts = {d: len(next(csv.reader([line], delimiter=d), [])) for d in (",", ";", "\t", "|")}
    return max(counts, key=lambda d: counts[d])


def _allow_long_fields(characters: int) -> None:
    # The csv module's limit is one for the whole process (131,072 by default): raise it, never lower it.
    with _field_limit:
        csv.field_size_limit(max(csv.field_size_limit(), characters + 1))
