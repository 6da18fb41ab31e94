"""Read workbooks (XLSX, through office-oxide): each sheet as a CSV file is read, below its name."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from shared_core.documents.loaders.csv_tables import above_header, load_csv
from shared_core.documents.loaders.extracted import (
    Budget,
    Extracted,
    Heading,
    Problem,
    Segment,
    damaged,
    hidden_parts,
    join_texts,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.office import Archive
from shared_core.documents.loaders.table_cells import NAMED, is_value, is_year
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex

_PARTED = "\n\n"
_GENERIC = lazy_regex(r"(?:sheet|tabelle|feuil|hoja|foglio|blad|ark|planilha)\s?\d*", re.IGNORECASE)
_SHOWN_AS_TEXT = lazy_regex(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]')  # of a number format: words, colours, locales
_TABLE_LEVEL = 2  # below the names of sheets
_HEAD_WITHIN = 20  # rows
_LONGEST_HEADING = 100  # characters
_LONGEST_NAME = 80
_LEAST_BESIDE = 3  # names in a row of which the last ends in a colon
_SHORTEST_NOTE = 50
_DIGIT = lazy_regex(r"\d")
_SENTENCE = lazy_regex(r"\s.*\.\Z")  # not "Sno."
_MINUTE, _DAY = 60, 24 * 60 * 60  # seconds
_DIGITS = 15  # that spreadsheets keep and show
_DELIMITERS = (",", ";", "\t", "|")


class Sheet(NamedTuple):
    """A sheet: its name, whether it is hidden, its rows, and how many formulas have no stored value."""

    name: str
    hidden: bool
    rows: Iterable[Sequence[str]]
    unknown: Sequence[str] = ()


def read_xlsx(data: bytes, budget: Budget) -> Extracted:
    """Read a workbook: of each sheet its rows with the names of their columns, as CSV files are.

    Values are those that were stored, as the workbook shows them: dates and times, percentages, currencies. Hidden
    sheets and formulas without a stored value are left out and reported. ``sheet`` in a row's metadata is its sheet.
    DocumentError if it is damaged, protected, in an older format, without text, or beyond the limits.
    """
    import office_oxide

    archive = Archive(data, "XLSX", budget)
    try:
        workbook = json.loads(office_oxide.Document.from_bytes(archive.copy(), "xlsx").to_ir_json())
    except office_oxide.OfficeOxideError as error:
        raise damaged(archive.kind, error) from error
    found = read_sheets(map(_sheet, workbook["sections"]), budget)
    return replace(found, title=archive.title())


def read_csv(text: str, text_column: str | None, budget: Budget, *, delimiter: str | None) -> Extracted:
    """Read a CSV file as ``load_csv`` does; one that was exported from a sheet, with empty rows, as sheets are read."""
    for sign in [delimiter] if delimiter else _DELIMITERS:
        empty = re.search(rf"^(?:{re.escape(sign)})+\r?$", text, re.MULTILINE)
        if empty is None or text_column is not None or above_header(text, None, [sign]) is not None:
            continue
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=sign, strict=True) if row]
        except csv.Error:
            continue
        whole = len(set(map(len, rows))) == 1 and not any("\n" in cell for row in rows for cell in row)
        rows = [[one_line(without_surrogates(cell)) for cell in row] for row in rows]
        if whole and len(list(_blocks(rows))) > 1:
            return _read_rows(rows, budget)
    return load_csv(text, text_column, budget, delimiter=delimiter)


def _sheet(section: Mapping[str, Any]) -> Sheet:
    unknown: list[str] = []
    rows = _with_group_names([(row, [_value(cell, unknown) for cell in row]) for row in _rows(section)])
    return Sheet(section.get("title") or "", bool(section.get("hidden")), rows, unknown)


def read_sheets(sheets: Iterable[Sheet], budget: Budget) -> Extracted:
    """Read sheets below headings with their names, each as a CSV file is read; hidden ones are reported."""
    read: list[tuple[str, Extracted]] = []
    hidden = 0
    for sheet in sheets:
        if sheet.hidden:
            hidden += 1
            continue
        found = _read_rows(sheet.rows, budget)
        if number := len(sheet.unknown):
            formulas = "1 formula has" if number == 1 else f"{number} formulas have"
            problem = Problem(f"{formulas} no stored value", "Open the workbook in a spreadsheet program and save it.")
            found = replace(found, problems=(*found.problems, problem))
        if found.text.strip():
            read.append((one_line(without_surrogates(sheet.name)), found))
    joined = _join(read)
    return replace(joined, problems=(*joined.problems, *hidden_parts(hidden, "sheet")))


def _join(sheets: Sequence[tuple[str, Extracted]]) -> Extracted:
    """Join sheets below headings with their names; a single one needs none that programs give by themselves."""
    parts: list[Extracted] = []
    for name, sheet in sheets:
        if name and not (len(sheets) == 1 and _GENERIC.fullmatch(name)):
            parts.append(Extracted(name, headings=(Heading(0, len(name), 1, name),)))
        whole = (Segment(0, len(sheet.text)),)
        segments = tuple(replace(s, metadata={"sheet": name, **s.metadata}) for s in sheet.segments or whole)
        problems = tuple(problem._replace(message=f"sheet {name!r}: {problem.message}") for problem in sheet.problems)
        parts.append(replace(sheet, segments=segments, problems=problems))
    return _combine(parts)


def _read_rows(rows: Iterable[Sequence[str]], budget: Budget) -> Extracted:
    """Read the rows of a sheet: its tables, as CSV files are read, and the text above, between and below them.

    A single filled cell above a table is its heading.
    """
    parts: list[Extracted] = []
    for above, table in _tables([list(row) for row in rows]):
        heading = _heading(above) if table else ""
        text = _PARTED.join(_written(row) for row in (above[:-1] if heading else above))
        if text.strip():
            parts.append(Extracted(text))
        if heading:
            length = len(heading)
            spoken = (Segment(0, length),) if _DIGIT.search(heading) else ()  # such as the date from which it holds
            parts.append(Extracted(heading, headings=(Heading(0, length, _TABLE_LEVEL, heading),), segments=spoken))
        if table:
            notes = list(itertools.takewhile(_is_note, reversed(table)))[::-1]
            parts.append(_read_table(table[: len(table) - len(notes)], budget))
            if notes:
                parts.append(Extracted(_PARTED.join(map(_written, notes))))
    return parts[0] if len(parts) == 1 else _combine(parts)


def _combine(parts: Sequence[Extracted]) -> Extracted:
    """Join parts; one without headings and segments of its own is a segment."""
    return join_texts(
        part if part.headings or part.segments else replace(part, segments=(Segment(0, len(part.text)),))
        for part in parts
    )


def _tables(rows: Sequence[list[str]]) -> Iterator[tuple[list[list[str]], list[list[str]]]]:
    """Yield the tables of a sheet, each with its head first, and the rows above each; last, rows below without one.

    Rows behind an empty one that have no head of their own go on with the table before if they fill as many columns.
    """
    above: list[list[str]] = []
    table: list[list[str]] = []
    for block in _blocks(rows):
        head = _head(block)
        if head is None and table and max(map(_filled, block)) > 1:
            table += block
            continue
        if table:
            yield above, table
            above, table = [], []
        if head is None:
            above += block
        else:
            above, table = above + block[:head], block[head:]
    if above or table:
        yield above, table


def _blocks(rows: Sequence[list[str]]) -> Iterator[list[list[str]]]:
    """Yield the stretches of rows between empty ones."""
    for filled, block in itertools.groupby(rows, key=any):
        if filled:
            yield list(block)


def _head(block: Sequence[Sequence[str]]) -> int | None:
    """Return which row of a stretch has the names of the columns, if one has.

    It fills at least half as many cells as any row, two or more, and more than each above it, all of them with words
    (or years); columns of half the names or more have values. One above it with names that span its columns belongs to
    it. Behind it comes a row, or an empty one.
    """
    width = max(map(_filled, block))
    most = 0
    for at, row in enumerate(block[:_HEAD_WITHIN]):
        if 0 < at == len(block) - 1:
            return None
        cells = [cell for cell in row if cell]
        if len(cells) > max(1, most) and 2 * len(cells) >= width and _are_names(cells) and _are_used(block, at):
            return at - 1 if at and _spans(block[at - 1]) else at
        most = max(most, len(cells))
    return None


def _spans(row: Sequence[str]) -> bool:
    cells = [cell for cell in row if cell]
    return not row[0] and len(cells) > 1 and all(is_year(cell) or not is_value(cell) for cell in cells)


def _are_names(cells: Sequence[str]) -> bool:
    """Return whether the filled cells of a row may be names; a label before its value ends in a colon, too."""
    years = [is_year(cell) for cell in cells]
    labels = [cell.endswith(":") for cell in cells]
    if any(labels) and (any(labels[:-1]) or len(cells) < _LEAST_BESIDE):
        return False
    if any(len(cell) > _LONGEST_NAME or _SENTENCE.search(cell) for cell in cells):
        return False
    return not all(years) and all(year or not is_value(cell) for cell, year in zip(cells, years))


def _are_used(block: Sequence[Sequence[str]], head: int) -> bool:
    """Return whether rows below have values in the columns of half the names or more; names by themselves may."""
    named = {at for at, cell in enumerate(block[head]) if cell}
    used = {at for row in block[head + 1 :] for at, cell in enumerate(row) if cell}
    return head == len(block) - 1 or 2 * len(named & used) >= len(named)


def _is_note(row: Sequence[str]) -> bool:
    """Return whether a row at the end of a table is a note on it: a single long cell, the first one."""
    return len(row[0]) >= _SHORTEST_NOTE and _filled(row) == 1


def _filled(row: Sequence[str]) -> int:
    return sum(map(bool, row))


def _heading(above: Sequence[Sequence[str]]) -> str:
    """Return the last row above a table if it is a heading: a single short cell that is no sentence."""
    last = [cell for cell in above[-1] if cell] if above else []
    if len(last) != 1 or len(last[0]) > _LONGEST_HEADING or last[0].endswith(".") or is_value(last[0]):
        return ""
    return last[0]


def _written(row: Sequence[str]) -> str:
    """Return a row that is in no table: a label and its value, or its cells."""
    cells = [cell for cell in row if cell]
    return ": ".join((cells[0].rstrip(" :"), cells[1])) if len(cells) == 2 else "\t".join(cells)


def _read_table(rows: Sequence[Sequence[str]], budget: Budget) -> Extracted:
    filled = [any(cells) for cells in itertools.zip_longest(*rows, fillvalue="")]
    written = io.StringIO(newline="")
    width = len(filled)
    firsts = {row[0] for row in rows if _filled(row) > 1}  # what begins a row with other cells names no group
    for row in rows:
        marked = [f"{NAMED}{cell}" if isinstance(cell, _GroupName) and cell not in firsts else cell for cell in row]
        csv.writer(written).writerow(itertools.compress([*marked, *[""] * (width - len(row))], filled))
    try:
        return load_csv(written.getvalue(), None, budget, delimiter=",")
    except DocumentError:  # figures without words
        names, *others = rows
        texts: list[str] = []
        for row in others:
            cells = [(name, cell) for name, cell in itertools.zip_longest(names, row, fillvalue="") if cell]
            texts.append("; ".join(f"{name}: {cell}" if name else cell for name, cell in cells))
        return Extracted(_PARTED.join(texts) if texts else _written(names))


def _rows(sheet: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the cells of each row, one for each column: cells that span several are followed by empty ones."""
    for element in sheet["elements"]:
        if element["type"] != "table":
            yield [{"content": [element]}]
            continue
        for row in element["rows"]:
            yield [cell for given in row["cells"] for cell in (given, *[{}] * (given.get("col_span", 1) - 1))]


class _GroupName(str):
    """The text of a cell that is alone in its row, and bold or across several columns."""


def _with_group_names(rows: Sequence[tuple[Sequence[Mapping[str, Any]], list[str]]]) -> list[list[str]]:
    """Return the texts of rows; those of a single cell are marked if it is wide, or bold and other rows are not."""
    found = [(row, texts, [i for i, text in enumerate(texts) if text]) for row, texts in rows if any(texts)]
    bold = [_is_bold(row[filled[0]]) for row, _, filled in found]
    others = [is_bold for is_bold, (_, _, filled) in zip(bold, found) if len(filled) > 1]
    usual = 2 * sum(others) >= len(others)
    for is_bold, (row, texts, filled) in zip(bold, found):
        at = filled[0]
        if len(filled) == 1 and (row[at].get("col_span", 1) > 1 or (is_bold and not usual)):
            texts[at] = _GroupName(texts[at])
    return [texts for _, texts in rows]


def _is_bold(part: Mapping[str, Any]) -> bool:
    """Return whether some text of a cell is bold."""
    content = part.get("content")
    return bool(part.get("bold")) or (isinstance(content, list) and any(map(_is_bold, content)))


def _value(cell: Mapping[str, Any], unknown: list[str]) -> str:
    """Return what a cell shows; ``unknown`` gets formulas without a stored value."""
    text = one_line(without_surrogates(" ".join(_texts(cell.get("content", ())))))
    kind, number = cell.get("data_type"), cell.get("raw_number")
    if cell.get("formula") and kind is None and text.startswith("="):
        unknown.append(text)
        return ""
    if number is None or kind not in ("date", "number"):
        return text
    if kind == "date":
        return moment(text, float(number), str(cell.get("number_format", "")))
    return f"{number:.{_DIGITS}g}" if text == repr(float(number)) else text  # 0.1 + 0.2 is shown as 0.3


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a cell: a line break is a space."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield part["text"]
        else:
            yield "".join(_texts(part.get("content")))


def moment(date: str, days: float, form: str) -> str:
    """Return a date, a time or both, as a number's format shows them; ``[h]:mm`` counts hours beyond a day."""
    shown = _SHOWN_AS_TEXT.sub("", form).lower()
    if "h" not in shown and "s" not in shown:
        return date
    seconds = round(days * _DAY)
    counted = "[h" in shown
    dated = not counted and ("y" in shown or "d" in shown)
    rest = seconds if counted else seconds % _DAY
    hours, minutes = divmod(rest // _MINUTE, 60)
    time = f"{hours:02}:{minutes:02}" + (f":{rest % _MINUTE:02}" if rest % _MINUTE else "")
    return f"{date[:10]} {time}" if dated else time
