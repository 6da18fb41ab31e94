"""Read plain text, Markdown, reStructuredText, source files and notebooks: the text is the file, unchanged."""

from __future__ import annotations

import json
import re

from shared_core.documents.loaders.extracted import (
    Extracted,
    Heading,
    Segment,
    decode,
    first_line_title,
    one_line,
    without_surrogates,
)

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t\r\n]|$)")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})[ \t]*\r?$")
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
# Header fields, as in mail and package metadata: a name and a value, which may go on in indented lines.
_FIELDS = re.compile(r"(?:[A-Za-z][\w-]*+:[ \t][^\n]*+\n(?:[ \t]++[^\n]*+\n)*+){3,}+(?=\r?\n)")
_FIELD_TITLE = re.compile(r"^(?:title|subject|name)[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_RST_RULE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}")
MAX_NOTEBOOK_CHARACTERS = 32 * 2**20
_BLOCK_START = re.compile(r"[ \t]*([-*+>|#]|\d+[.)])")


def load_text(data: bytes, fallback: str | None) -> Extracted:
    """Read a plain text file."""
    text = decode(data, fallback=fallback)
    return Extracted(text, first_line_title(text))


def load_code(data: bytes, fallback: str | None) -> Extracted:
    """Read a source file, a configuration or a log: it has no title but its name."""
    return Extracted(decode(data, fallback=fallback))


def load_rst(data: bytes, fallback: str | None) -> Extracted:
    """Read a reStructuredText file: its source, with section titles (underlined, or also overlined) as headings."""
    text = decode(data, fallback=fallback)
    headings = tuple(_rst_headings(text))
    return Extracted(text, headings[0].label if headings else first_line_title(text), headings)


def _rst_headings(text: str) -> list[Heading]:
    """Find section titles. As in docutils, levels follow the order in which underline characters are first used."""
    lines: list[tuple[int, str]] = []
    position = 0
    for line in text.split("\n"):
        lines.append((position, line.rstrip()))
        position += len(line) + 1
    styles: list[str] = []
    headings: list[Heading] = []
    for i in range(1, len(lines)):
        (start, title), (under, rule) = lines[i - 1], lines[i]
        if not _RST_RULE.fullmatch(rule) or not title.strip() or _RST_RULE.fullmatch(title):
            continue
        over = i >= 2 and lines[i - 2][1] == rule
        blank_above = i < 2 or not lines[i - 2][1]
        if not (over or (blank_above and title == title.lstrip())) or len(rule) < len(title.strip()):
            continue
        style = rule[0] * (2 if over else 1)
        if style not in styles:
            styles.append(style)
        first = lines[i - 2][0] if over else start
        headings.append(Heading(first, under + len(rule), styles.index(style) + 1, one_line(title)))
    return headings


def load_notebook(data: bytes, fallback: str | None) -> Extracted | None:
    """Read a Jupyter notebook: the sources of its cells in order, with headings of Markdown cells, without outputs.

    Returns ``None`` if the file is not a notebook.
    """
    text = decode(data, fallback=fallback)
    try:
        notebook = json.loads(text) if len(text) <= MAX_NOTEBOOK_CHARACTERS else None
        cells = notebook["cells"] if isinstance(notebook, dict) else None
        sources = [(cell.get("cell_type"), _source(cell.get("source", ""))) for cell in cells or ()]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    if not sources:
        return None
    pieces: list[str] = []
    headings: list[Heading] = []
    length = 0
    for kind, source in sources:
        if not source.strip():
            continue
        source = without_surrogates(source)
        length += 2 if pieces else 0
        found = _markdown_headings(source, 0) if kind == "markdown" else []
        headings += [Heading(h.start + length, h.end + length, h.level, h.label) for h in found]
        pieces.append(source)
        length += len(source)
    return Extracted("\n\n".join(pieces), headings[0].label if headings else "", tuple(headings))


def _source(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def load_markdown(data: bytes, fallback: str | None) -> Extracted:
    """Read a Markdown file: its source, with ATX and setext headings (not those within fenced code).

    Its title comes from the front matter or header fields, else from the first heading of level 1, or any heading with
    which the text begins.
    """
    text = decode(data, fallback=fallback)
    body = _front_matter_end(text)
    fields = _FIELDS.match(text)
    headings = tuple(_markdown_headings(text, fields.end() if fields else body))
    named = _FIELD_TITLE.search(fields.group()) if fields else _FRONT_TITLE.search(text[:body]) if body else None
    title = one_line(named.group(1)).strip("\"'") if named else ""
    first = next((h for h in headings if h.level == 1 or not text[body : h.start].strip()), None)
    segments = (Segment(body, len(text)),) if body else ()
    return Extracted(text, title or (first.label if first else ""), headings, segments)


def _front_matter_end(text: str) -> int:
    """Return where the text begins after a YAML block between two ``---`` lines at the top; 0 without one."""
    if not re.match(r"---[ \t]*\r?\n", text):
        return 0
    end = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.MULTILINE).search(text, text.index("\n") + 1)
    return end.end() if end and ":" in text[: end.start()] else 0


def _markdown_headings(text: str, position: int) -> list[Heading]:
    headings: list[Heading] = []
    fence = ""
    fresh = True  # the next line begins a paragraph
    candidate: tuple[int, int] | None = None  # a paragraph of one line, which an underline would make a heading
    while position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        line = text[position:stop]
        end = position + len(line.rstrip())
        opened = _FENCE.match(line)
        was_candidate, candidate = candidate, None
        if fence:
            if opened and opened.group(1).startswith(fence) and not line[opened.end() :].strip():
                fence = ""
        elif opened:
            fence, fresh = opened.group(1), True
        elif atx := _ATX.match(line):
            label, fresh = _without_closing_marks(line[atx.end() :].strip()), True
            if label:
                headings.append(Heading(position, end, len(atx.group(1)), one_line(label)))
        elif was_candidate and (underline := _SETEXT.match(line)):
            level, fresh = (1 if underline.group(1)[0] == "=" else 2), True
            headings.append(Heading(was_candidate[0], end, level, one_line(text[slice(*was_candidate)])))
        elif not line.strip():
            fresh = True
        else:
            # A list item, a quotation or a table row cannot be underlined into a heading.
            candidate = (position, stop) if fresh and not _BLOCK_START.match(line) else None
            fresh = False
        position = stop + 1
    return headings


def _without_closing_marks(label: str) -> str:
    stripped = label.rstrip("#")
    if not stripped:
        return ""
    return stripped.rstrip() if stripped[-1] in " \t" else label
