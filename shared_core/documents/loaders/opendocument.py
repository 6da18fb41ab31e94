"""Read OpenDocument files (ODT, ODP, ODS; ISO/IEC 26300): text and slides become HTML, sheets become tables.

Both forms are read, the zip archive and the flat XML file (``.fodt``). Left out are headers and footers, comments,
speaker notes, tables of contents, and deleted, struck-out and hidden text; notes come last.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared_core.documents.loaders.extracted import (
    Budget,
    Extracted,
    damaged,
    given_title,
    hidden_parts,
    join_pages,
    one_line,
    protected,
    title_of_text,
    too_much,
    without_surrogates,
)
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.numbering import Counters, Level, attribute, to_int
from shared_core.documents.loaders.office import Archive, parse_xml
from shared_core.documents.loaders.rows import MAX_CELLS
from shared_core.documents.loaders.sheets import Sheet, read_sheets
from shared_core.support.regex import lazy_regex

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_BODIES = {"odt": "text", "odp": "presentation", "ods": "spreadsheet"}
_UNREAD = frozenset(
    """annotation annotation-end tracked-changes notes table-of-content illustration-index table-index object-index
    user-index alphabetical-index bibliography forms sequence-decls variable-decls user-field-decls settings
    event-listeners desc title ruby-text note-citation shapes""".split()
)
_PLACEHOLDERS = frozenset(("footer", "header", "date-time", "page-number"))
_OUTLINE = "\0outline"
_FORMATS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_BLOCKS = {"p": "p", "list": "ul", "list-item": "li", "list-header": "li", "section": "div", "text-box": "div"}
_PARAGRAPHS = lazy_regex(r"</?(?:p|div)>|<br />")
_WITH_WORDS = frozenset("p h span a meta meta-field ruby ruby-base".split())
_SPACES = lazy_regex(r"[ \t\r\n]+")
_TIME = lazy_regex(r"\d:\d\d")
_NUMBER = lazy_regex(r"%([1-9])%")
_MAX_PARENTS = 20  # of styles
_MAX_REPEATED = 1_000  # rows or cells that are repeated, of those with text


def read_opendocument(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a text (``odt``), a presentation (``odp``), whose slides are pages, or a workbook (``ods``).

    DocumentError if it is damaged, protected by a password, or beyond the limits of time, size and cells.
    """
    file = _File(kind, data, budget)
    body = file.root.find(f"{{*}}body/{{*}}{_BODIES[kind]}")
    if body is None:
        raise damaged(kind.upper(), ValueError(f"it has no {_BODIES[kind]}"))
    if kind == "ods":
        found = read_sheets(_sheets(body, file), budget)
    else:
        parts = body.findall("{*}page") if kind == "odp" else [body]
        found = join_pages(_read_part(part, file, budget) for part in parts)
    title = file.title or ("" if kind == "ods" else title_of_text(found))
    problems = (*found.problems, *hidden_parts(file.hidden, "slide"))
    pages = found.pages if kind == "odp" else ()
    return Extracted(found.text, title, found.headings, found.segments, problems, pages)


class _File:
    """The content of a document with the styles that hide or raise text."""

    def __init__(self, kind: str, data: bytes, budget: Budget) -> None:
        self.kind, self.budget, self.hidden = kind, budget, 0
        self.unseen: set[str] = set()
        self.raised: dict[str, str] = {}
        if data.startswith(b"PK"):
            archive = Archive(data, kind.upper(), budget)
            if b"encryption-data" in archive.read("META-INF/manifest.xml"):
                raise protected(kind)
            roots = [archive.tree(name) for name in ("content.xml", "styles.xml", "meta.xml") if name in archive.names]
            if not roots or "content.xml" not in archive.names:
                raise damaged(kind.upper(), ValueError("it has no content.xml"))
        else:
            roots = [parse_xml(data, kind.upper())]
        self.root = roots[0]
        titles = (root.findtext(".//{http://purl.org/dc/elements/1.1/}title") for root in reversed(roots))
        self.title = given_title(next(filter(None, titles), ""))
        self.counters, self._lists, self._open = Counters(), dict[str, dict[int, Level]](), list[tuple[str, str]]()
        self._lists_of_styles: dict[str, str | None] = {}
        self._parents: dict[str, str] = {}
        self._last: dict[str, int] = {}  # how many lists of a style there were
        self._due: tuple[int, int | None] | None = None
        # The automatic styles of styles.xml are those of headers and footers, under names that the text has as well.
        for part in (*roots[0].iterfind("{*}automatic-styles"), *(p for r in roots for p in r.iterfind("{*}styles"))):
            for style in part.iter("{*}style"):
                self._learn(style)
            for style in part.iter("{*}list-style", "{*}outline-style"):
                name = _OUTLINE if _tag(style) == "outline-style" else attribute(style, "name")
                self._lists[name] = dict(map(_level, style))

    def _learn(self, style: Element) -> None:
        name = attribute(style, "name")
        lists = [str(value) for key, value in style.items() if str(key).endswith("}list-style-name")]
        self._lists_of_styles[name] = lists[0] if lists else None
        self._parents[name] = attribute(style, "parent-style-name")
        for properties in style:
            position = attribute(properties, "text-position").split(" ")[0]
            struck = {attribute(properties, f"text-line-through-{of}") for of in ("style", "type")} - {"", "none"}
            shown = attribute(properties, "display") not in ("none", "false")
            if struck or not shown or attribute(properties, "visibility") == "hidden":
                self.unseen.add(name)
            if position == "super" or position.rstrip("%").strip("0").isdigit():
                self.raised[name] = "sup"
            elif position == "sub" or position.startswith("-"):
                self.raised[name] = "sub"

    def open_list(self, list_: Element) -> None:
        """Enter a list: within another one it has that one's style unless it has its own, and its counts."""
        style = attribute(list_, "style-name") or (self._open[-1][0] if self._open else "")
        if self._open:
            counted = self._open[-1][1]
        else:
            on = attribute(list_, "continue-numbering") == "true" or attribute(list_, "continue-list")
            self._last[style] = self._last.get(style, 0) + (not on)
            counted = f"{style} {self._last[style]}"
        self._open.append((style, counted))

    def close_list(self) -> None:
        """Leave a list."""
        self._open.pop()
        self._due = None

    def begin_item(self, item: Element) -> None:
        """Enter an item: its first paragraph gets the number, at the level of the innermost list that begins there."""
        given = attribute(item, "start-value")
        self._due = (len(self._open) - 1, to_int(given, 1) if given else None)

    def number(self, paragraph: Element) -> str:
        """Count a paragraph or heading and return its number; empty if it has none, or a bullet."""
        due, self._due = self._due, None
        if self._open:
            style, counted = self._open[-1]
            found = due and self.counters.next(counted, self._lists.get(style, {}), *due)
        elif _tag(paragraph) == "h" and self._is_numbered(attribute(paragraph, "style-name")):
            level = to_int(attribute(paragraph, "outline-level"), 1) - 1
            found = self.counters.next(_OUTLINE, self._lists.get(_OUTLINE, {}), level)
        else:
            return ""
        return found or ""

    def _is_numbered(self, style: str) -> bool:
        """Return whether headings of a style are numbered: not if it, or the next one it is based on, names no list."""
        for _ in range(_MAX_PARENTS):
            if (given := self._lists_of_styles.get(style)) is not None or not style:
                return given != ""
            style = self._parents.get(style, "")
        return True


def _level(level: Element) -> tuple[int, Level]:
    """Return a level of a list's style: counted from 0, and how its numbers are written.

    LibreOffice writes the whole form (``%1%.%2%)``) beside what the standard has.
    """
    at = to_int(attribute(level, "level"), 1)
    kind = _FORMATS.get(attribute(level, "num-format"), "bullet")
    shown = min(max(to_int(attribute(level, "display-levels"), 1), 1), at)
    numbers = ".".join(f"%{number}" for number in range(at - shown + 1, at + 1))
    text = f"{attribute(level, 'num-prefix')}{numbers}{attribute(level, 'num-suffix')}"
    if given := attribute(level, "num-list-format"):
        text = _NUMBER.sub(r"%\1", given)
    return at - 1, Level(to_int(attribute(level, "start-value"), 1), kind, text)


def _tag(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _read_part(part: Element, file: _File, budget: Budget) -> Extracted:
    """Read a text or a slide; nothing of a hidden slide, which keeps its number."""
    if attribute(part, "style-name") in file.unseen:
        file.hidden += 1
        return Extracted("")
    notes: list[str] = []
    written = "".join(_write_children(part, file, notes))
    return read_html(f"<main>{written}{''.join(notes)}</main>", budget, spaces=True)


def _write_children(element: Element, file: _File, notes: list[str]) -> Iterator[str]:
    """Yield the HTML of what an element holds, its own text first."""
    words = _tag(element) in _WITH_WORDS  # elsewhere there is only the layout of the XML
    if words and element.text:
        yield html.escape(_SPACES.sub(" ", element.text), quote=False)
    for child in element:
        yield from _write(child, file, notes)
        if words and child.tail:
            yield html.escape(_SPACES.sub(" ", child.tail), quote=False)


def _write(element: Element, file: _File, notes: list[str]) -> Iterator[str]:
    name = _tag(element)
    style = attribute(element, "style-name")
    hidden = name in ("hidden-text", "hidden-paragraph") and attribute(element, "is-hidden") == "true"
    if name in _UNREAD or style in file.unseen or hidden or attribute(element, "display") == "none":
        return
    file.budget.check()
    if name == "s":
        yield " " * min(to_int(attribute(element, "c"), 1), 1_000)
    elif name == "tab":
        yield "\t"
    elif name == "line-break":
        yield "<br />"
    elif name == "note":
        for note in element.iterfind("{*}note-body"):
            own: list[str] = []
            notes.append(f"<div>{''.join(_write_children(note, file, own))}</div>")
            notes += own
    elif name == "table":
        yield f"<table>{''.join(_write_rows(element, file, notes))}</table>"
    else:
        if name == "list":
            file.open_list(element)
        yield from _wrapped(element, name, style, file, notes)
        if name == "list":
            file.close_list()


def _wrapped(element: Element, name: str, style: str, file: _File, notes: list[str]) -> Iterator[str]:
    """Yield an element whose content counts, within the HTML element that it stands for, if any."""
    tag = _BLOCKS.get(name, "")
    if name == "h":
        tag = f"h{min(max(to_int(attribute(element, 'outline-level'), 1), 1), 6)}"
    elif name == "frame":
        given = attribute(element, "class")
        if given in _PLACEHOLDERS:
            return
        tag = "h1" if given == "title" else "div"
    elif name == "span":
        tag = file.raised.get(style, "")
    elif name == "list-item":
        file.begin_item(element)
    number = file.number(element) if name in ("p", "h") else ""
    content = "".join(_write_children(element, file, notes))
    if number and content.strip():
        content = f"{html.escape(number, quote=False)} {content}"
    if name == "frame" and tag == "h1":  # one line, though in paragraphs
        content = _PARAGRAPHS.sub(" ", content).strip()
    yield f"<{tag}>{content}</{tag}>" if tag else content


def _write_rows(table: Element, file: _File, notes: list[str]) -> Iterator[str]:
    for row, is_header in _rows(table):
        tag = "th" if is_header else "td"
        cells = []
        for cell in row.iterfind("{*}table-cell"):
            spans = "".join(
                f' {of}span="{number}"'
                for of, key in (("col", "number-columns-spanned"), ("row", "number-rows-spanned"))
                if 1 < (number := to_int(attribute(cell, key), 1)) < 1_000
            )
            written = f"<{tag}{spans}>{''.join(_write_children(cell, file, notes))}</{tag}>"
            cells.append(written * min(to_int(attribute(cell, "number-columns-repeated"), 1), _MAX_REPEATED))
        yield f"<tr>{''.join(cells)}</tr>"


def _rows(table: Element, is_header: bool = False) -> Iterator[tuple[Element, bool]]:
    """Yield the rows of a table, within groups too, and whether each is of its head."""
    for child in table:
        name = _tag(child)
        if name == "table-row":
            yield child, is_header
        elif name in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(child, is_header or name == "table-header-rows")


def _sheets(body: Element, file: _File) -> Iterator[Sheet]:
    cells = 0
    for table in body.iterfind("{*}table"):
        rows: list[list[str]] = []
        hidden = attribute(table, "style-name") in file.unseen
        for row, _ in _rows(table):
            file.budget.check()
            values = [] if hidden else _values(row, file)
            times = min(to_int(attribute(row, "number-rows-repeated"), 1), _MAX_REPEATED)
            cells += len(values) * times
            if cells > MAX_CELLS:
                raise too_much("cells", cells, MAX_CELLS)
            rows += [values] * times
        yield Sheet(attribute(table, "name"), hidden, rows)


def _values(row: Element, file: _File) -> list[str]:
    """Return what the cells of a row show, without the empty ones at its end."""
    values: list[str] = []
    empty = 0
    for cell in row:
        name = _tag(cell)
        if name not in ("table-cell", "covered-table-cell"):
            continue
        date = attribute(cell, "date-value")
        paragraphs = ("".join(_write_children(p, file, [])) for p in cell.iterfind("{*}p"))
        text = html.unescape(" ".join(paragraphs).replace("<br />", " "))
        if date and text.strip():  # as in other workbooks: 3/4/2026 would be another day for other readers
            text = f"{date[:10]} {date[11:16] if _TIME.search(text) else ''}"
        text = one_line(without_surrogates(text))
        times = to_int(attribute(cell, "number-columns-repeated"), 1)
        if not text or name == "covered-table-cell":
            empty += times
            continue
        values += [""] * min(empty, _MAX_REPEATED)
        values += [text] * min(times, _MAX_REPEATED)
        empty = 0
    return values
