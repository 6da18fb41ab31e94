"""Read workbooks (XLSX; through office-oxide): each sheet as a CSV file is read, below its name."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared_core.documents.loaders.extracted import (
    Extracted,
    Heading,
    Problem,
    Segment,
    damaged,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.office import Archive
from shared_core.documents.loaders.tables import load_csv
from shared_core.errors import DocumentError

_PARTED = "\n\n"
_GENERIC = re.compile(r"(?:sheet|tabelle|feuil|hoja|foglio|blad|ark|planilha)\s?\d*", re.IGNORECASE)
_SHOWN_AS_TEXT = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]')  # of a number format: words, colours, locales
_MINUTE, _DAY = 60, 24 * 60 * 60  # seconds
_DIGITS = 15  # that spreadsheets keep and show


def read_workbook(data: bytes, budget: Budget) -> Extracted:
    """Read a workbook: of each sheet its rows with the names of their columns, as ``load_csv`` reads them.

    Values are those that were stored, as the workbook shows them: dates and times, percentages, currencies. Hidden
    sheets and formulas without a stored value are left out and reported. ``sheet`` in a row's metadata is its sheet.

    Raises:
        DocumentError: damaged, protected by a password, in an older format, without text, or beyond the limits.
    """
    import office_oxide

    archive = Archive(data, "XLSX", budget)
    try:
        workbook = json.loads(office_oxide.Document.from_bytes(archive.copy(), "xlsx").to_ir_json())
    except office_oxide.OfficeOxideError as error:
        raise damaged(archive.kind, error) from error
    sheets: list[Mapping[str, Any]] = workbook["sections"]
    shown = [sheet for sheet in sheets if not sheet.get("hidden")]
    read = [(one_line(without_surrogates(sheet.get("title") or "")), _read_sheet(sheet, budget)) for sheet in shown]
    found = _join([(name, part) for name, part in read if part.text.strip()])
    hidden = len(sheets) - len(shown)
    said = "1 hidden sheet is" if hidden == 1 else f"{hidden} hidden sheets are"
    problem = Problem(f"{said} not read", "To have them read, show them.")
    return replace(found, title=archive.title(), problems=(*found.problems, *((problem,) if hidden else ())))


def _join(sheets: Sequence[tuple[str, Extracted]]) -> Extracted:
    """Join sheets below headings with their names; a single one needs none that programs give by themselves."""
    pieces: list[str] = []
    headings: list[Heading] = []
    segments: list[Segment] = []
    problems: list[Problem] = []
    length = 0
    for name, sheet in sheets:
        if name and not (len(sheets) == 1 and _GENERIC.fullmatch(name)):
            headings.append(Heading(length, length + len(name), 1, name))
            pieces.append(name)
            length += len(name) + len(_PARTED)
        for part in sheet.segments or (Segment(0, len(sheet.text)),):
            metadata = {"sheet": name, **part.metadata}
            segments.append(replace(part, start=part.start + length, end=part.end + length, metadata=metadata))
        problems += [problem._replace(message=f"sheet {name!r}: {problem.message}") for problem in sheet.problems]
        pieces.append(sheet.text)
        length += len(sheet.text) + len(_PARTED)
    return Extracted(_PARTED.join(pieces), headings=tuple(headings), segments=tuple(segments), problems=tuple(problems))


def _read_sheet(sheet: Mapping[str, Any], budget: Budget) -> Extracted:
    unknown: list[str] = []
    rows = [[_value(cell, unknown) for cell in row] for row in _rows(sheet)]
    rows = [row for row in rows if any(row)]
    if any(sum(map(bool, row)) > 1 for row in rows):
        written = io.StringIO(newline="")
        csv.writer(written).writerows(rows)
        try:
            found = load_csv(written.getvalue(), None, budget, delimiter=",")
        except DocumentError:  # no table: figures without words, or a form
            found = Extracted("\n".join("\t".join(filter(None, row)) for row in rows))
    else:
        found = Extracted(_PARTED.join(cell for row in rows for cell in row if cell))
    if not unknown:
        return found
    formulas = "1 formula has" if len(unknown) == 1 else f"{len(unknown)} formulas have"
    problem = Problem(f"{formulas} no stored value", "Open the workbook in a spreadsheet program and save it.")
    return replace(found, problems=(*found.problems, problem))


def _rows(sheet: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the cells of each row, one for each column: cells that span several are followed by empty ones."""
    for element in sheet["elements"]:
        if element["type"] != "table":
            yield [{"content": [element]}]
            continue
        for row in element["rows"]:
            yield [cell for given in row["cells"] for cell in (given, *[{}] * (given.get("col_span", 1) - 1))]


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
        return _moment(text, float(number), _SHOWN_AS_TEXT.sub("", str(cell.get("number_format", ""))).lower())
    return f"{number:.{_DIGITS}g}" if text == repr(float(number)) else text  # 0.1 + 0.2 is shown as 0.3


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a cell: a line break is a space."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield part["text"]
        else:
            yield "".join(_texts(part.get("content")))


def _moment(date: str, days: float, shown: str) -> str:
    """Return a date, a time or both, as its format shows them; ``[h]:mm`` counts hours beyond a day."""
    if "h" not in shown and "s" not in shown:
        return date
    seconds = round(days * _DAY)
    counted = "[h" in shown
    dated = not counted and ("y" in shown or "d" in shown)
    rest = seconds if counted else seconds % _DAY
    hours, minutes = divmod(rest // _MINUTE, 60)
    time = f"{hours:02}:{minutes:02}" + (f":{rest % _MINUTE:02}" if rest % _MINUTE else "")
    return f"{date[:10]} {time}" if dated else time
