"""CSV, TSV, JSON Lines and JSON: what cannot be read in a row or a line costs that row, not the file."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import threading
from collections.abc import Iterator, Sequence

from shared_core.documents.loaders.base import Extracted, Problem, decode, one_line
from shared_core.documents.loaders.limits import Budget, too_much
from shared_core.documents.loaders.rows import TEXT_COLUMNS, Row, rows_as_text
from shared_core.errors import DocumentError
from shared_core.types import MetadataValue

MAX_CELLS = 5_000_000
MAX_LINE_CHARACTERS = 8 * 2**20
"""Of JSON: parsed values take up to fifty times their length in memory."""

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 20
_REREAD = 3  # times its length a file may be read over where quotes are never closed
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})$")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][-+]?\d{1,3})?$")
_field_limit = threading.Lock()


def load_csv(
    data: bytes, fallback: str | None, text_column: str | None, budget: Budget, *, delimiter: str | None
) -> Extracted:
    """A table with a header line; ``row`` counts data rows from 1.

    Columns all of whose values are plain numbers become numbers, so that filters can compare them. A row whose quotes
    are broken is left out and named with its line.

    Raises:
        DocumentError: no header, no words in it, no row that can be read, more than five million cells, or the time
            is used up.
    """
    text = decode(data, fallback=fallback)
    _allow_long_fields(len(text))
    delimiter = delimiter or _delimiter(text)
    header: list[str] | None = None
    records: list[tuple[int, list[str]]] = []
    problems: list[Problem] = []
    cells = number = 0
    for line, record in _records(text, delimiter, budget):
        if record is None:
            if header is None:
                raise DocumentError(
                    f"line {line}: the header cannot be parsed: a quote is not closed, or stands within a field.",
                    hint="Put fields with quotes, delimiters or line breaks in double quotes, quotes in them doubled.",
                )
            number += 1
            problems.append(
                Problem(
                    f"row {number} (line {line}) cannot be parsed and was left out: its quotes are broken",
                    "A field that holds a quote, a delimiter or a line break must stand in double quotes, with quotes "
                    "inside it doubled.",
                )
            )
        elif header is None:
            header = [one_line(name) for name in record]
        elif any(record):
            number += 1
            cells += len(record)
            if cells > MAX_CELLS:
                raise too_much("cells", cells, MAX_CELLS)
            records.append((number, record))
            if len(record) > len(header):
                what = f"row {number} has {len(record)} fields, the header {len(header)}; the extra ones were left out"
                problems.append(Problem(what, "Quote it."))
    columns = _typed_columns(header or [], [record for _, record in records])
    rows = [
        (n, {name: columns[name][i] for name in columns if i < len(columns[name])}) for i, (n, _) in enumerate(records)
    ]
    return rows_as_text(rows, header or [], text_column, problems, "row", dict(records))


def _records(text: str, delimiter: str, budget: Budget) -> Iterator[tuple[int, list[str] | None]]:
    """(number of its first line, fields) of each record; ``None`` for one that cannot be parsed, which then is taken to
    be that one line."""
    lines = list(io.StringIO(text, newline=""))
    position = reread = 0
    while position < len(lines):
        start = position
        taken = iter(range(start, len(lines)))
        reader = csv.reader((lines[i] for i in taken), delimiter=delimiter, strict=True)
        try:
            while True:
                begin = start + reader.line_num
                if begin % 1000 == 0:
                    budget.check()
                record = next(reader, None)
                if record is None:
                    return
                if record:
                    yield begin + 1, record
        except csv.Error:
            reread += sum(len(lines[i]) for i in range(begin, start + reader.line_num))
            yield begin + 1, None
            position = begin + 1
        if reread > _REREAD * len(text) + 10_000:
            raise DocumentError(
                f"line {position}: too many quotes are not closed.", hint="Save the table anew, as CSV in UTF-8."
            )


def load_jsonl(data: bytes, fallback: str | None, text_column: str | None, budget: Budget) -> Extracted:
    """One JSON object per line; ``row`` is the line's number. A malformed line is left out and named.

    Raises:
        DocumentError: no line can be used, there is no text column, or the time is used up.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    columns: dict[str, None] = {}
    cells = 0
    for number, line in enumerate(io.StringIO(decode(data, fallback=fallback)), 1):
        if number % 1000 == 0:
            budget.check()
        if not line.strip():
            continue
        value, problem = _json(line)
        if problem:
            problems.append(Problem(f"line {number} {problem}", "Each line must be one JSON object."))
            continue
        if not isinstance(value, dict):
            problems.append(Problem(f"line {number} is not a JSON object", 'Wrap it: {"text": …}'))
            continue
        cells += len(value)
        if cells > MAX_CELLS:
            raise too_much("values", cells, MAX_CELLS)
        columns.update(dict.fromkeys(value))
        rows.append((number, value))
    if not rows and problems:
        raise DocumentError(f"No line can be used; {problems[0].message}.", hint=problems[0].hint)
    return rows_as_text(rows, list(columns), text_column, problems, "line")


def load_json(data: bytes, fallback: str | None, text_column: str | None) -> Extracted | None:
    """A JSON file that is a list of objects with a text column, as a table; ``None`` for any other, which is a text.

    Raises:
        DocumentError: the user named a text column, and the list has none of that name.
    """
    text = decode(data, fallback=fallback)
    value = _json(text)[0] if text.lstrip().startswith("[") else None
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        return None
    columns = list(dict.fromkeys(name for entry in value for name in entry))
    known = {name.lower() for name in columns} & set(TEXT_COLUMNS)
    if text_column is None and not known:
        return None
    return rows_as_text(list(enumerate(value, 1)), columns, text_column, [], "entry")


def _json(text: str) -> tuple[object, str]:
    """(the value, what is wrong with it)."""
    if len(text) > MAX_LINE_CHARACTERS:
        return None, f"has {len(text):,} characters, more than {MAX_LINE_CHARACTERS:,}"
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        return None, f"is not valid JSON: {getattr(error, 'msg', '') or 'too deeply nested or too long a number'}"


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
    """The one of ``, ; tab |`` that parts most of the first lines into as many fields as the header, and into more."""
    lines = list(itertools.islice((line for line in io.StringIO(text) if line.strip()), _SAMPLE_LINES))
    if not lines:
        return ","
    scores: dict[str, tuple[int, int]] = {}
    for delimiter in _DELIMITERS:
        counts = [len(next(csv.reader([line], delimiter=delimiter), [])) for line in lines]
        agree = sum(count == counts[0] for count in counts)
        scores[delimiter] = (agree, counts[0]) if counts[0] > 1 else (0, 0)
    return max(_DELIMITERS, key=lambda delimiter: scores[delimiter])


def _allow_long_fields(characters: int) -> None:
    # The csv module's limit is one for the whole process (131,072 by default): raise it, never lower it.
    with _field_limit:
        csv.field_size_limit(max(csv.field_size_limit(), characters + 1))
