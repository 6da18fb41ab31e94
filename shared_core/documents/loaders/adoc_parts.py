"""Parts of AsciiDoc's blocks as HTML: inline marks, and tables.

Cells are found by their separators, columns by ``cols`` or by the first row's line.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared_core.support.regex import lazy_regex

CHARACTERS: Mapping[str, str] = {
    "empty": "", "blank": "", "sp": " ", "nbsp": " ", "zwsp": "", "wj": "", "apos": "'", "quot": '"', "lsquo": "‘",
    "rsquo": "’", "ldquo": "“", "rdquo": "”", "deg": "°", "plus": "+", "brvbar": "¦", "vbar": "|", "amp": "&",
    "lt": "<", "gt": ">", "startsb": "[", "endsb": "]", "caret": "^", "asterisk": "*", "tilde": "~", "backslash": "\\",
    "backtick": "`", "two-colons": "::", "two-semicolons": ";;", "cpp": "C++", "pp": "++", "cxx": "C++",
}  # fmt: skip
"""Attributes that stand for characters (Asciidoctor's intrinsic attributes)."""
_ATTRIBUTE = lazy_regex(r"(?<!\\)\{([\w][\w-]*)\}")
_ESCAPED = lazy_regex(r"\\(?=\{[\w-]+\})")
_MOST = 800  # characters of what is marked

_INLINE = lazy_regex(
    rf"""
    \\(?P<escaped>\*\*?|__?|``?|\#\#?|\+|\^|~|<<|\(\(|\[\[|->|--|(?:[a-z][\w+.-]{{0,40}}:(?=\S{{0,300}}\[)|https?:))
    | \+\+\+(?P<raw>.{{1,{_MOST}}}?)\+\+\+ | \+\+(?P<literal>.{{1,{_MOST}}}?)\+\+
    | \bpass:[a-z,]*\[(?P<passed>.{{0,{_MOST}}}?)\]
    | (?P<quote>["'])`(?=\S)(?P<quoted>.{{1,{_MOST}}}?)(?<=\S)`(?P=quote)
    | (?P<role>\[[\w .\#%-]{{1,60}}\](?=(?:\*|_|`|\#)\S))
    | ``(?P<mono2>.{{1,{_MOST}}}?)`` | (?<![\w;:`}}])`(?=\S)(?P<mono>[^`]{{1,{_MOST}}}?)(?<=\S)`(?!\w)
    | (?:https?|ftp|irc)://[^\s\[\]<>"]+(?:\[(?P<named>[^\]]{{0,{_MOST}}})\])?
    | \{{[\w-]{{1,60}}\}}[^\s\[\]]{{0,300}}\[(?P<elsewhere>[^\]]{{1,{_MOST}}})\]
    | \b(?P<macro>[a-z][a-z0-9_-]{{0,40}}):(?!:)(?P<target>[^\s\[\]]{{0,300}})\[(?P<text>(?:\\\]|[^\]]){{0,{_MOST}}})\]
    | <<(?P<reference>[^<>,]{{1,200}})(?:,[ ]*(?P<label>[^<>]{{1,300}}))?>>
    | \*\*(?P<bold2>.{{1,{_MOST}}}?)\*\* | (?<![\w;:}}*])\*(?=\S)(?P<bold>.{{1,{_MOST}}}?)(?<=\S)\*(?!\w)
    | __(?P<slanted2>.{{1,{_MOST}}}?)__ | (?<![\w;:}}_])_(?=\S)(?P<slanted>.{{1,{_MOST}}}?)(?<=\S)_(?!\w)
    | \#\#(?P<mark2>.{{1,{_MOST}}}?)\#\# | (?<![\w;:}}\#&])\#(?=\S)(?P<mark>.{{1,{_MOST}}}?)(?<=\S)\#(?!\w)
    | \^(?P<raised>[^\s^]{{1,60}})\^ | ~(?P<lowered>[^\s~]{{1,60}})~
    | (?<![\w+])\+(?=\S)(?P<plus>[^+\n]{{1,{_MOST}}}?)(?<=\S)\+(?![\w+])
    | \(\(\([^()]{{1,300}}\)\)\) | \(\((?P<index>[^()]{{1,300}})\)\)
    | \[\[[\w:.,\ -]{{1,120}}\]\]
    | (?P<broken>[ ]\+(?=\n|\Z))
    | (?P<dash>(?<=\w)--(?=\w)|(?<=[ ])--(?=[ ]))
    | \((?P<sign>C|R|TM)\)
    """,
    re.VERBOSE | re.DOTALL,
)
_TAGS = {"bold": "b", "bold2": "b", "slanted": "i", "slanted2": "i", "raised": "sup", "lowered": "sub"}
_SIGNS = {"C": "©", "R": "®", "TM": "™"}
_UNSEEN = frozenset(("image", "icon", "anchor", "indexterm", "video", "audio"))
FORMULAS = frozenset(("stem", "latexmath", "asciimath"))
_NAMED = lazy_regex(r'\A"((?:[^"\\]|\\.)*)"(?:,.*)?\Z|,[ ]*(?:\w[\w-]*=|role|window).*\Z', re.DOTALL)


def inline(text: str, attributes: Mapping[str, str]) -> str:
    """Return a text, its lines separated by line breaks, with inline marks as HTML.

    ``attributes`` are values by name; names without one stay as they are written.
    """
    for _ in range(3):  # values may have attributes
        replaced = _ATTRIBUTE.sub(lambda name: attributes.get(name[1].lower(), name[0]), text)
        if replaced == text or len(replaced) > 10 * len(text) + 10_000:
            break
        text = replaced
    return _marked(_ESCAPED.sub("", text), 0)


def _marked(text: str, depth: int) -> str:
    out, at = [], 0
    for match in _INLINE.finditer(text) if depth < 8 else ():
        out += [html.escape(text[at : match.start()], quote=False), _shown(match, depth + 1)]
        at = match.end()
    out.append(html.escape(text[at:], quote=False))
    return "".join(out)


def _shown(match: re.Match[str], depth: int) -> str:
    """Return the HTML of what one mark stands for."""
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    for name, tag in _TAGS.items():
        if name in found:
            return f"<{tag}>{_marked(found[name], depth)}</{tag}>"
    for name in ("mono", "mono2"):
        if name in found:
            inner = found[name]
            literal = len(inner) > 2 and inner[0] == inner[-1] == "+"
            return f"<code>{html.escape(inner[1:-1]) if literal else _marked(inner, depth)}</code>"
    for name in ("escaped", "literal", "passed", "plus"):
        if name in found:
            return html.escape(found[name], quote=False)
    if "raw" in found:
        return html.escape(html.unescape(re.sub(r"<[^<>]*>", "", found["raw"])), quote=False)
    if "quoted" in found:
        left, right = "“”" if found["quote"] == '"' else "‘’"
        return left + _marked(found["quoted"], depth) + right
    for name in ("mark", "mark2", "index", "label"):
        if name in found:
            return _marked(found[name], depth)
    if "elsewhere" in found:  # a link to what an attribute of another file says
        return _marked(_link_text(found["elsewhere"]), depth)
    if "reference" in found:
        return html.escape(_readable(found["reference"]))
    if "macro" in found:
        return _macro(found["macro"], found["target"], found["text"].replace("\\]", "]"), depth)
    if "broken" in found:
        return "<br>"
    if "dash" in found:
        return "—"
    if "sign" in found:
        return _SIGNS[found["sign"]]
    if match[0].startswith(("http", "ftp", "irc")):
        label = _link_text(found.get("named", ""))
        return _marked(label, depth) if label else html.escape(match[0].partition("[")[0])
    return ""  # the role of what follows, an index term or an anchor


def _macro(name: str, target: str, text: str, depth: int) -> str:
    if name in _UNSEEN:
        return ""
    if name in FORMULAS:
        return html.escape(text, quote=False)
    if name in ("footnote", "footnoteref"):
        return f" ({_marked(text, depth)})" if text else ""
    if name == "menu":
        return html.escape(" > ".join([target, *re.split(r"\s*>\s*", text)]) if text else target)
    if name in ("link", "xref", "mailto", "kbd", "btn"):
        return _marked(_link_text(text), depth) or html.escape(_readable(target) if name == "xref" else target)
    if text.isdigit() and target:  # "linkgit:git-add[1]"
        return html.escape(f"{target}({text})")
    return _marked(_link_text(text), depth) or html.escape(target)


def _link_text(text: str) -> str:
    """Return what a link shows, without its attributes."""
    match = _NAMED.search(text)
    if match:
        text = match[1] if match[1] is not None else text[: match.start()]
    return text.strip().removesuffix("^")


def _readable(target: str) -> str:
    """Return the name of what is referred to: "pages/install.adoc#_from_source" as "from source"."""
    last = target.rpartition("#")[2] or target.rpartition("/")[2].removesuffix(".adoc").rstrip("#")
    last = last.removesuffix(".adoc").rpartition("/")[2]
    return last.strip("_").replace("_", " ") if last.startswith("_") or " " not in last else last


_COLUMNS = lazy_regex(r"""\bcols\s*=\s*(?:"([^"]*)"|'([^']*)'|([^,\s]+))""")
_HEADER = lazy_regex(r"%\w*[%\w]*header|\boption[s]?\s*=\s*[\"']?[\w, ]*\bheader|\bopts\s*=\s*[\"']?[\w, ]*\bheader")
_NO_HEADER = lazy_regex(r"%noheader|\bnoheader\b")
_FORMAT = lazy_regex(r"\bformat\s*=\s*[\"']?(csv|dsv|tsv|psv)")
_SEPARATOR = lazy_regex(r"\bseparator\s*=\s*[\"']?([^\s\"',])")
_SPECIFICATION = lazy_regex(r"(?:(?<=\s)|\A)(?:(\d+)\*)?(?:(\d+)?(?:\.(\d+))?\+)?(?:[<^>]|\.[<^>])*([adehlmsv])?\Z")
_MOST_CELLS = 500  # columns, or rows of a cell, at most


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
    headed = _HEADER.search(table.attributes) is not None
    if not headed and len(table.lines) > 1 and not table.lines[1].strip():  # an empty line below the first
        headed = bool(table.lines[0].strip()) and not _NO_HEADER.search(table.attributes)
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
        styles += [style[1] if style else ""] * min(int(times[1]) if times else 1, _MOST_CELLS)
    return styles[:_MOST_CELLS]


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
        repeated = min(int(times or 1), _MOST_CELLS)
        cell = _Cell(part, style or "", min(int(columns or 1), _MOST_CELLS), min(int(rows or 1), _MOST_CELLS))
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
    counts = (("colspan", cell.columns), ("rowspan", cell.rows))
    spans = "".join(f' {name}="{count}"' for name, count in counts if count > 1)
    tag = "th" if head or cell.style == "h" else "td"
    return f"<{tag}{spans}>{shown}</{tag}>"
