"""Read CSV and TSV tables. A row that cannot be read costs that row, not the file."""

from __future__ import annotations

import csv
import io
import itertools
import threading
from collections.abc import Iterator, Sequence

from shared_core.documents.loaders.extracted import Budget, Extracted, Problem, one_line, too_much
from shared_core.documents.loaders.rows import MAX_CELLS, TEXT_COLUMNS, as_text, below
from shared_core.documents.loaders.table_cells import join_heads, split_groups
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex
from shared_core.types import MetadataValue

_DELIMITERS = (",", ";", "\t", "|")
_QUOTING = "Put fields with quotes, delimiters or line breaks in double quotes, and double the quotes in them."
_SAMPLE_LINES = 20
_MAX_ABOVE = 10
_REREAD = 3  # times its length that a file may be read over because of quotes that are never closed
_INTEGER = lazy_regex(r"-?(0|[1-9]\d{0,17})$")
_NUMBER = lazy_regex(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][-+]?\d{1,3})?$")
_DIGIT = lazy_regex(r"\d")
_BEGINS_NUMBER = lazy_regex(r"[<>~≈±+−-]?[ ]?[.,]?\d")
_LONGEST_UNIT = 12  # characters
_field_limit = threading.Lock()


def load_csv(text: str, text_column: str | None, budget: Budget, *, delimiter: str | None) -> Extracted:
    """Read a table with a header line; ``row`` counts data rows from 1, and what stands above the header is text.

    Columns that hold nothing but plain numbers become numbers, so that filters can compare them. A row with broken
    quotes is left out and reported with its line.

    Raises:
        DocumentError: no header, no words in it, no row that can be read, more than five million cells, or the time
            is used up.
    """
    with _field_limit:  # one for the whole process (131,072 by default): raise it, never lower it
        csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
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
    table = as_text(rows, header, text_column, problems, "row", dict(records), groups)
    return below("\n".join(filter(None, preface)), table)


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
    if below and (joined := join_heads(header, below, spanned, [record for _, record in records[1:]])):
        names = [*joined]
        records = [(number - 1, record) for number, record in records[1:]]
    elif below and _are_units(below, [record for _, record in records[1:]]):
        names = [f"{name} ({unit})" if unit else name for name, unit in zip(names, below)]
        records = [(number - 1, record) for number, record in records[1:]]
    named: list[str] = []
    for i, name in enumerate(names):
        earlier = names[:i].count(name) if name else 0
        named.append(f"column {i + 1}" if name is None else f"{name} ({earlier + 1})" if earlier else name)
    return named, records


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
    for pattern, kind in ((_INTEGER, int), (_NUMBER, float)):
        if filled and all(pattern.match(v) for v in filled):
            return (kind(v) if v else None for v in values)
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
