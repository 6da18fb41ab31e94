"""Tables of AsciiDoc, as HTML: cells by their separators, columns by ``cols`` or by the first row's line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared_core.support.regex import lazy_regex

_COLUMNS = lazy_regex(r"""\bcols\s*=\s*(?:"([^"]*)"|'([^']*)'|([^,\s]+))""")
_HEADER = lazy_regex(r"%\w*[%\w]*header|\boption[s]?\s*=\s*[\"']?[\w, ]*\bheader|\bopts\s*=\s*[\"']?[\w, ]*\bheader")
_NO_HEADER = lazy_regex(r"%noheader|\bnoheader\b")
_FORMAT = lazy_regex(r"\bformat\s*=\s*[\"']?(csv|dsv|tsv|psv)")
_SEPARATOR = lazy_regex(r"\bseparator\s*=\s*[\"']?([^\s\"',])")
_SPECIFICATION = lazy_regex(r"(?:(?<=\s)|\A)(?:(\d+)\*)?(?:(\d+)?(?:\.(\d+))?\+)?(?:[<^>]|\.[<^>])*([adehlmsv])?\Z")
_MOST = 500  # columns, or rows of a cell, at most


class Table(NamedTuple):
    """The source of a table: the line that delimits it, the lines inside, its attributes, its title."""

    mark: str
    lines: Sequence[str]
    attributes: str
    title: str


@dataclass(slots=True)
class _Cell:
    text: str
    style: str = ""
    columns: int = 1
    rows: int = 1


def table_html(table: Table, inline: Callable[[str], str], blocks: Callable[[Sequence[str]], str]) -> str:
    """Return a table as HTML; ``inline`` makes that of a cell's text, ``blocks`` of the lines of a cell of blocks."""
    named = _FORMAT.search(table.attributes)
    form = named[1] if named else {",": "csv", ":": "dsv"}.get(table.mark[0], "psv")
    styles = _styles(table.attributes)
    if form == "psv":
        given = _SEPARATOR.search(table.attributes)
        cells, first = _cells(table.lines, given[1] if given else table.mark[0])
        rows = _rows(cells, len(styles) or first, styles)
    else:
        separator = {"csv": ",", "tsv": "\t", "dsv": ":"}[form]
        read = csv.reader(io.StringIO("\n".join(table.lines)), delimiter=separator)
        rows = [[_Cell(text.strip()) for text in row] for row in read if row]
    headed = _HEADER.search(table.attributes) is not None or (
        _is_head(table.lines) and not _NO_HEADER.search(table.attributes)
    )
    out = [f"<caption>{inline(table.title)}</caption>"] if table.title else []
    for number, row in enumerate(rows):
        shown = [_cell(cell, inline, blocks, head=headed and not number) for cell in row]
        out.append(f"<tr>{''.join(shown)}</tr>")
    return f"<table>{''.join(out)}</table>"


def _styles(attributes: str) -> list[str]:
    """Return the style of each column that ``cols`` names; empty without it."""
    match = _COLUMNS.search(attributes)
    if match is None:
        return []
    styles: list[str] = []
    for part in re.split(r"[,;]", next(filter(None, match.groups()), "")):
        times = re.match(r"\s*(\d+)\*", part)
        style = re.search(r"([adehlmsv])\s*\Z", part)
        styles += [style[1] if style else ""] * min(int(times[1]) if times else 1, _MOST)
    return styles[:_MOST]


def _is_head(lines: Sequence[str]) -> bool:
    """Return whether the first line is a head: it has text, and an empty line follows it."""
    return len(lines) > 1 and bool(lines[0].strip()) and not lines[1].strip()


def _cells(lines: Sequence[str], separator: str) -> tuple[list[_Cell], int]:
    """Return all cells, and how many the first line with any has."""
    text = "\n".join(lines)
    parts = re.split(rf"(?<!\\){re.escape(separator)}", text)
    cells: list[_Cell] = []
    before, first = parts[0], 0
    position = len(parts[0])
    line_end = len(text) - len(text.lstrip("\n")) + len(text.lstrip("\n").partition("\n")[0])
    for part in parts[1:]:
        match = _SPECIFICATION.search(before)
        times, columns, rows, style = match.groups() if match else (None, None, None, None)
        if match and cells:
            cells[-1].text = cells[-1].text[: match.start()] if match[0] else cells[-1].text
        repeated = min(int(times or 1), _MOST)
        cell = _Cell(part, style or "", min(int(columns or 1), _MOST), min(int(rows or 1), _MOST))
        cells += [replace(cell) for _ in range(repeated)]
        if position < line_end:
            first += cell.columns * repeated
        before, position = part, position + len(part) + 1
    for cell in cells:
        cell.text = cell.text.replace(f"\\{separator}", separator)
    return cells, first


def _rows(cells: Sequence[_Cell], width: int, styles: Sequence[str]) -> list[list[_Cell]]:
    """Divide cells into rows of so many columns, with room for cells that span rows from above."""
    rows: list[list[_Cell]] = []
    taken: dict[int, int] = {}  # columns taken in a row by cells of rows above
    row: list[_Cell] = []
    used = 0
    for cell in cells:
        while used == 0 and taken.get(len(rows), 0) >= max(width, 1):
            rows.append([])
        if not used:
            used = taken.pop(len(rows), 0)
        if not cell.style and used < len(styles):
            cell.style = styles[used]
        row.append(cell)
        used += cell.columns
        for below in range(1, cell.rows):
            taken[len(rows) + below] = taken.get(len(rows) + below, 0) + cell.columns
        if used >= width:
            rows.append(row)
            row, used = [], 0
    return [*rows, row] if row else rows


def _cell(cell: _Cell, inline: Callable[[str], str], blocks: Callable[[Sequence[str]], str], *, head: bool) -> str:
    text = cell.text.strip("\n")
    if cell.style == "a" and not head:
        shown = blocks(text.strip().split("\n"))
    else:
        shown = "<br>".join(inline(part.strip()) for part in re.split(r"\n\s*\n", text.strip()))
    spans = "".join(
        f' {name}="{count}"' for name, count in (("colspan", cell.columns), ("rowspan", cell.rows)) if count > 1
    )
    tag = "th" if head or cell.style == "h" else "td"
    return f"<{tag}{spans}>{shown}</{tag}>"
