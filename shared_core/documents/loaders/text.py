"""Read plain text, reStructuredText, source files and notebooks: the text is the file, but for comments in markup."""

from __future__ import annotations

import json
import re

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Extracted,
    Heading,
    blanked,
    decode,
    first_line_title,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.markdown import read_markdown

_QUESTION = re.compile(
    r"(?:\A|\n[ \t]*\n)([ \t]*)(\d{1,3}[.)][ \t][^\n]*\S|(?:Q\d*[:.][ \t]+)?[A-Z][^\n]*\?)[ \t]*(?=\n)"
)
_LEAST_QUESTIONS = 3
_OPTION = re.compile(r"([ \t]*)(--?[A-Za-z?](?:[^\s]| (?! ))*)(?:(?: {2,}|\t)[^\s-]|[ \t]*\n\1[ \t]+[^\s-])")
_RST_RULE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}")
# What begins with two dots and is no note, citation, target, substitution or directive, and the indented lines below.
_RST_COMMENT = re.compile(
    r"(?:\A|(?<=\n\n)|(?<=\n\r\n))"
    r"(?:\.\.(?:[ \t]+(?!\[|_|\||[\w:.+-]+::)\S[^\n]*+|[ \t]*+\r?(?=\n[ \t]+\S))(?:\n|\Z)"
    r"(?:(?:[ \t]+[^\n]*+|\r?)\n|[ \t]+[^\n]*+\Z)*+)+"
)
MAX_NOTEBOOK_CHARACTERS = 32 * 2**20


def load_text(data: bytes, fallback: str | None) -> Extracted:
    """Read a plain text file; underlined titles, options that are explained and questions of an FAQ head sections."""
    text = decode(data, fallback=fallback)
    titles = _rst_headings(text)
    return Extracted(text, _title(text, titles), tuple(sorted([*titles, *_questions(text), *_options(text)])))


def _title(text: str, titles: list[Heading]) -> str:
    """Return the first title if it is above all others: not the newest release of a list of changes."""
    above = titles and all(heading.level > titles[0].level for heading in titles[1:])
    return titles[0].label if above else first_line_title(text)


def _questions(text: str) -> list[Heading]:
    """Find the questions of an FAQ: lines by themselves, at least three; if they are numbered, what else is so too."""
    lines = list(_QUESTION.finditer(text))
    asked = [m for m in lines if m[2].endswith("?")]
    if len(asked) < _LEAST_QUESTIONS:
        return []
    numbered = all(m[2][0].isdigit() for m in asked)
    indent = min(len(m[1]) for m in asked) + 1  # as for " 9." above "10."
    found = (m for m in lines if len(m[1]) <= indent and (m[2][0].isdigit() if numbered else m[2].endswith("?")))
    return [Heading(m.start(2), m.end(2), TERM_LEVEL, one_line(m[2])) for m in found]


def _options(text: str) -> list[Heading]:
    """Find the options that ``--help`` lists, with definitions beside or below them, and where their list ends."""
    found: list[Heading] = []
    indent, position = -1, 0  # indent: of the last option, whose definition is indented more; -1 outside a list
    for line in text.splitlines(keepends=True):
        start = position + len(line) - len(line.lstrip())
        if match := _OPTION.match(text, position):
            indent = start - position
            found.append(Heading(start, match.end(2), TERM_LEVEL, one_line(match[2])))
        elif line.strip() and start - position <= indent:
            indent = -1
            found.append(Heading(start, start, TERM_LEVEL, ""))
        position += len(line)
    return found


def load_code(data: bytes, fallback: str | None) -> Extracted:
    """Read a source file, a configuration or a log: it has no title but its name."""
    return Extracted(decode(data, fallback=fallback))


def load_rst(data: bytes, fallback: str | None) -> Extracted:
    """Read a reStructuredText file: its source without comments; section titles (underlined) are headings."""
    text = _RST_COMMENT.sub(lambda match: blanked(match[0]), decode(data, fallback=fallback))
    titles = _rst_headings(text)
    return Extracted(text, _title(text, titles), tuple(titles))


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
        found: list[Heading] = []
        if kind == "markdown":
            source, found = read_markdown(source)
        headings += [Heading(h.start + length, h.end + length, h.level, h.label) for h in found]
        pieces.append(source)
        length += len(source)
    return Extracted("\n\n".join(pieces), headings[0].label if headings else "", tuple(headings))


def _source(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)
