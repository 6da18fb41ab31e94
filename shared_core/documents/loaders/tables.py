"""Read CSV, TSV, JSON Lines and JSON tables; write rows as text with the names of their columns.

A table's text column becomes the text, row by row, with the other columns as metadata. A table without one (prices,
people, stock) becomes one line per row: "article: Hammer; price: 17.50". A row that cannot be read costs that row, not
the file.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared_core.documents.loaders.config import block_headings
from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Extracted,
    Heading,
    Problem,
    Segment,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.limits import Budget, too_much
from shared_core.documents.loaders.table_groups import split_groups
from shared_core.errors import DocumentError
from shared_core.types import MetadataValue

TEXT_COLUMNS = tuple(
    """text content body passage paragraph document context article page_content description abstract summary answer
    message comment review""".split()
)
"""Names of columns that hold the text; the first one present is used (case does not matter)."""

TITLE_COLUMNS = ("title", "name", "heading", "headline", "subject", "question")
RESERVED = frozenset("source start end page page_end page_label page_end_label page_break row section".split())
"""Metadata names of our own: a column of that name becomes ``column_NAME``."""

MAX_CELLS = 5_000_000
MAX_LINE_CHARACTERS = 8 * 2**20
"""Of JSON: parsed values take up to fifty times their length in memory."""

_DELIMITERS = (",", ";", "\t", "|")
_QUOTING = "Put fields with quotes, delimiters or line breaks in double quotes, and double the quotes in them."
_SAMPLE_LINES = 20
_MAX_ABOVE = 10
_REREAD = 3  # times its length that a file may be read over because of quotes that are never closed
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})$")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][-+]?\d{1,3})?$")
_OFTEN_A_CELL = frozenset(("article", "document", "description", "abstract", "summary", "answer"))
_DIGIT = re.compile(r"\d")
_BEGINS_NUMBER = re.compile(r"[<>~≈±+−-]?[ ]?[.,]?\d")
_LONGEST_UNIT = 12  # characters
_SHORT = 80  # characters: if the median value of a column is shorter, its values are cells rather than texts
_JSON_BREAK = re.compile(  # strings and lists of numbers stay whole
    r'"(?>(?:[^"\\]|\\.)*)"|\[[^\[\]{}"]*+\]|\{\s*+\}|(?P<at>(?P<open>[{\[,])[ \t]*|(?P<close>[}\]]))'
)
_DEEPEST = 40  # spaces before a value
_STORE_PREFIXES = ("chroma:", "selfreflect:")  # reserved by vector stores
_ROW_BREAK = "\n\n"
_MAX_INTEGER = 2**63
_MAX_PROBLEMS = 20
_TITLE_CHARACTERS = 200
_field_limit = threading.Lock()

Row = tuple[int, Mapping[str, Any]]  # number (CSV: of the data row; JSONL: of the line), values


# --- reading -------------------------------------------------------------------------------------------------------


def load_csv(text: str, text_column: str | None, budget: Budget, *, delimiter: str | None) -> Extracted:
    """Read a table with a header line; ``row`` counts data rows from 1, and what stands above the header is text.

    Columns that hold nothing but plain numbers become numbers, so that filters can compare them. A row with broken
    quotes is left out and reported with its line.

    Raises:
        DocumentError: no header, no words in it, no row that can be read, more than five million cells, or the time
            is used up.
    """
    _allow_long_fields(len(text))
    found = above_header(text, text_column, [delimiter] if delimiter else _DELIMITERS)
    above, delimiter = found or (0, delimiter or _delimiter(text))
    preface: list[str] = []
    header: list[str] | None = None
    records: list[tuple[int, list[str]]] = []
    problems: list[Problem] = []
    cells = number = 0
    for line, record in _records(text, delimiter, budget):
        if record is None:
            if header is None:
                raise DocumentError(
                    f"line {line}: the header cannot be parsed: a quote is not closed, or is within a field.",
                    hint=_QUOTING,
                )
            number += 1
            what = f"row {number} (line {line}) cannot be parsed and was left out: its quotes are broken"
            problems.append(Problem(what, _QUOTING))
        elif len(preface) < above:
            preface.append("; ".join(one_line(cell) for cell in record if cell.strip()))
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
                problems.append(Problem(what, "Quote fields that hold the delimiter."))
    header, records = _named_columns(header or [], records)
    records, groups = split_groups([i for i, name in enumerate(header) if name], records)
    columns = _typed_columns(header, [record for _, record in records])
    rows = [
        (n, {name: columns[name][i] for name in columns if i < len(columns[name])}) for i, (n, _) in enumerate(records)
    ]
    table = _as_text(rows, header, text_column, problems, "row", dict(records), groups)
    return _below("\n".join(filter(None, preface)), table)


def _below(text: str, table: Extracted) -> Extracted:
    """Return a table with a text above it."""
    if not text:
        return table
    length = len(text) + len(_ROW_BREAK)
    moved = (replace(row, start=row.start + length, end=row.end + length) for row in table.segments)
    headings = tuple(heading.moved(length) for heading in table.headings)
    whole = text + _ROW_BREAK + table.text
    return replace(table, text=whole, headings=headings, segments=(Segment(0, len(text)), *moved))


def _records(text: str, delimiter: str, budget: Budget) -> Iterator[tuple[int, list[str] | None]]:
    """Yield (number of its first line, fields) of each record; ``None`` for a line that cannot be parsed.

    After a broken record, reading starts again at the line below its first.
    """
    lines = list(io.StringIO(text, newline=""))
    position = reread = 0
    while position < len(lines):
        start = position
        reader = csv.reader((lines[i] for i in range(start, len(lines))), delimiter=delimiter, strict=True)
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
                f"line {position}: too many quotes are not closed.", hint="Export the table again, as CSV in UTF-8."
            )


def load_jsonl(text: str, text_column: str | None, budget: Budget) -> Extracted:
    """Read one JSON object per line; ``row`` is the line's number. A malformed line is left out and reported.

    Raises:
        DocumentError: no line can be used, there is no text column, or the time is used up.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    cells = 0
    for number, line in enumerate(io.StringIO(text), 1):
        if number % 1000 == 0:
            budget.check()
        if not line.strip():
            continue
        value, problem = _json(line)
        if problem:
            problems.append(Problem(f"line {number} {problem}", "Each line must be one JSON object."))
        elif not isinstance(value, dict):
            problems.append(Problem(f"line {number} is not a JSON object", 'Wrap it: {"text": …}'))
        else:
            cells += len(value)
            if cells > MAX_CELLS:
                raise too_much("values", cells, MAX_CELLS)
            rows.append((number, value))
    if not rows and problems:
        raise DocumentError(f"No line can be used; {problems[0].message}.", hint=problems[0].hint)
    return _as_text(rows, _columns(rows), text_column, problems, "line")


def load_json(text: str, text_column: str | None) -> Extracted | None:
    """Read a JSON file that is a list of objects as a table, as JSON Lines are; ``None`` for any other JSON.

    So is an object that holds two or more of them in a list, and else only single values, which are a text of their
    own. Without a text column they must be two or more, with words in their values.

    Raises:
        DocumentError: the user named a text column, and the list has none of that name.
    """
    value, beside = _listed(_json(text)[0])
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        return None
    rows = list(enumerate(value, 1))
    columns = _columns(rows)
    has_texts = text_column is not None or not {name.lower() for name in columns}.isdisjoint(TEXT_COLUMNS)
    if not has_texts and (len(rows) < 2 or not _has_no_texts(rows, columns)):
        return None
    return _below(_row_text(beside), _as_text(rows, columns, text_column, [], "entry"))


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for _, values in rows for name in values))


def _listed(value: object) -> tuple[object, dict[str, Any]]:
    """Return the list of objects that an object holds, and the values beside it; any other value as it is."""
    if not isinstance(value, dict):
        return value, {}
    nested = [name for name, entry in value.items() if isinstance(entry, dict | list)]
    entries = value[nested[0]] if len(nested) == 1 else None
    if not isinstance(entries, list) or len(entries) < 2:
        return value, {}
    return entries, {name: entry for name, entry in value.items() if name != nested[0]}


def load_other_json(text: str) -> Extracted:
    """Read JSON that is no table: the file, with sections; one without line breaks is broken after each value."""
    if not (len(text) < _SHORT or "\n" in text.strip() or _json(text)[1]):
        text = _broken(text)
    return Extracted(text, headings=tuple(block_headings(text)))


def _broken(text: str) -> str:
    """Break JSON after each value, indented by how deep it is."""
    depth = 0

    def part(match: re.Match[str]) -> str:
        nonlocal depth
        opens, closes = match["open"], match["close"]
        if not match["at"]:
            return match[0]
        depth += -1 if closes else opens != ","
        return f"{opens or ''}\n{' ' * min(depth, _DEEPEST)}{closes or ''}"

    return _JSON_BREAK.sub(part, text)


def _json(text: str) -> tuple[object, str]:
    """Return the value and, if there is none, the reason."""
    if len(text) > MAX_LINE_CHARACTERS:
        return None, f"has {len(text):,} characters, more than {MAX_LINE_CHARACTERS:,}"
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        return None, f"is not valid JSON: {getattr(error, 'msg', '') or 'too deeply nested or too long a number'}"


def _named_columns(
    header: list[str], records: list[tuple[int, list[str]]]
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Give every column with values a name of its own: a header of two rows is one, repeated names are numbered.

    The second one may have the units of the first: "Mass", "g".
    """
    filled = [i for i in range(len(header)) if any(i < len(record) and record[i].strip() for _, record in records)]
    if filled[:1] == [0] and [record[0] for _, record in records] == [str(i) for i in range(len(records))]:
        filled = filled[1:]  # a data frame's index
    names: list[str | None] = [name if name or i not in filled else None for i, name in enumerate(header)]
    below = [*map(one_line, records[0][1]), *[""] * len(header)][: len(header)] if len(records) > 1 else []
    spanned = [i for i, name in enumerate(names) if name is None]
    if spanned and below and _is_second_head(header, below, spanned, [record for _, record in records[1:]]):
        upper = ""
        for i, above in enumerate(header):
            upper = above or upper
            names[i] = f"{upper} {below[i]}".strip()
        records = [(number - 1, record) for number, record in records[1:]]
    elif below and _are_units(below, [record for _, record in records[1:]]):
        names = [f"{name} ({unit})" if unit else name for name, unit in zip(names, below)]
        records = [(number - 1, record) for number, record in records[1:]]
    named: list[str] = []
    for i, name in enumerate(names):
        earlier = names[:i].count(name) if name else 0
        named.append(f"column {i + 1}" if name is None else f"{name} ({earlier + 1})" if earlier else name)
    return named, records


def _is_second_head(
    header: Sequence[str], below: Sequence[str], spanned: Sequence[int], rows: Sequence[Sequence[str]]
) -> bool:
    """Return whether the first row has the names of columns that the header's cells span.

    The column of the rows' names has one of its own in the header, or else below it: then all columns have one there,
    none of them a number, and the rows below have numbers in a column that is spanned.
    """
    if header[0]:
        return not below[0] and all(below[i] and below[i - 1] for i in spanned)
    if not any(header) or not all(name or not above for name, above in zip(below, header)):
        return False
    if not all(below[i] for i in spanned) or any(_DIGIT.search(name) for name in below):
        return False
    values = [[row[i] for row in rows if i < len(row) and row[i].strip()] for i in spanned[1:]]
    return any(cells and all(map(_DIGIT.search, cells)) for cells in values)


def _are_units(below: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has units: short words, none for the rows' names, above nothing but numbers."""
    units = [(i, unit) for i, unit in enumerate(below) if unit]
    if below[0] or len({unit for _, unit in units}) < 2 or any(len(unit) > _LONGEST_UNIT for _, unit in units):
        return False
    if any(_DIGIT.match(unit) for _, unit in units):
        return False
    values = [[row[i].strip() for row in rows if i < len(row) and row[i].strip()] for i, _ in units]
    return all(cells and all(map(_BEGINS_NUMBER.match, cells)) for cells in values)


def _typed_columns(header: Sequence[str], records: Sequence[Sequence[str]]) -> dict[str, list[MetadataValue]]:
    columns: dict[str, list[MetadataValue]] = {}
    for i, name in enumerate(header):
        if name and name not in columns:
            columns[name] = list(_typed([record[i] if i < len(record) else "" for record in records]))
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
    """Return the delimiter that splits most of the first lines into as many fields as the header, and more than one."""
    lines = list(itertools.islice((line for line in io.StringIO(text, newline=None) if line.strip()), _SAMPLE_LINES))
    scores: dict[str, tuple[int, int]] = {}
    for delimiter in _DELIMITERS:
        counts = [len(_fields(line, delimiter)) for line in lines] or [0]
        scores[delimiter] = (sum(count == counts[0] for count in counts), counts[0]) if counts[0] > 1 else (0, 0)
    return max(_DELIMITERS, key=lambda delimiter: scores[delimiter])


def above_header(text: str, text_column: str | None, delimiters: Sequence[str]) -> tuple[int, str] | None:
    """Return how many lines with words stand above the header, and the delimiter; ``None`` if the table starts at once.

    Below them, all lines have the same number of fields, at least twice as many as each of them fills. One without an
    empty line below it is no name of a column: it has several words, and the next line is not prose.
    """
    given = [*itertools.islice(io.StringIO(text, newline=None), _SAMPLE_LINES), ""]
    lines = [(line, not below.strip()) for line, below in itertools.pairwise(given) if line.strip()]
    names = {*TEXT_COLUMNS, (text_column or "text").lower()}
    for delimiter in delimiters:  # each line has as many fields, the first one no empty ones: decimal commas are none
        rows = [_fields(line, delimiter) for line, _ in lines]
        if rows and len(rows[0]) > 1 and all(rows[0]) and all(len(row) == len(rows[0]) for row in rows):
            return None
    for delimiter in delimiters:
        rows = [_fields(line, delimiter) for line, _ in lines]
        filled = [[cell.strip().lower() for cell in row if cell.strip()] for row in rows]
        for above in range(1, min(_MAX_ABOVE, len(rows) - 2) + 1):
            line, apart = lines[above - 1]
            apart |= not filled[above - 1] or (" " in line.strip() and f"{delimiter} " not in lines[above][0])
            width = len(filled[above + _spans(rows[above])])
            short = all(2 * len(cells) <= width and names.isdisjoint(cells) for cells in filled[:above])
            short &= not any(map(_spans, rows[:above]))
            if width > 1 and apart and short and all(len(row) == width for row in rows[above:]):
                return above, delimiter
    return None


def _spans(row: Sequence[str]) -> bool:
    """Return whether a row has names that span columns, whose own names stand below: the rows' names have none."""
    return not row[0].strip() and sum(bool(cell.strip()) for cell in row) > 1


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _allow_long_fields(characters: int) -> None:
    # The csv module's limit is one for the whole process (131,072 by default): raise it, never lower it.
    with _field_limit:
        csv.field_size_limit(max(csv.field_size_limit(), characters + 1))


# --- rows as text --------------------------------------------------------------------------------------------------


def _as_text(
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
    whole_rows = text_column is None and _has_no_texts(rows, columns)
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
            text = _row_text(cells)
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
    text = _ROW_BREAK.join(pieces)
    if headings:
        headings.append(Heading(len(text), len(text), TERM_LEVEL, ""))
    return Extracted(text, "", tuple(headings), tuple(segments), _shortened(problems))


def _has_no_texts(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Return whether no column holds texts but some hold words, so that a row makes sense only as a whole."""
    known = _first_named(columns, TEXT_COLUMNS)
    if known is None:
        return any(any(map(str.isalpha, v)) for _, row in rows for v in row.values() if isinstance(v, str))
    lengths = sorted(len(v) for _, row in rows if isinstance(v := row.get(known), str) and v.strip())
    if not lengths or len(columns) == 1:
        return False
    mostly_empty = 2 * len(lengths) < len(rows)  # then what the rows say is in their other cells
    return mostly_empty or (known.lower() in _OFTEN_A_CELL and lengths[len(lengths) // 2] < _SHORT)


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


def _row_text(cells: Mapping[str, Any]) -> str:
    flat = {name: _flat(value) for name, value in cells.items() if name}
    told = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in flat.items()}
    shown = {name: one_line(value) for name, value in told.items() if flat[name] is not None}
    return "; ".join(f"{without_surrogates(name)}: {value}" for name, value in shown.items() if value)


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
