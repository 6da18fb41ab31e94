"""Read configuration (YAML, TOML, INI), JSON and notebooks: tables of objects, else text with a section for each block.

A line that cannot be read costs that line, not the file.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Budget,
    Extracted,
    Heading,
    Problem,
    join_texts,
    too_much,
    without_surrogates,
)
from shared_core.documents.loaders.rows import MAX_CELLS, SHORT, TEXT_COLUMNS, Row, as_text, below, has_words, row_text
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex

# A line of YAML or JSON with nothing but the name of a block, and what opens it.
_OPENER = lazy_regex(
    r"""(?:["']?(?P<name>/[^\s"':\[\]#]{0,119}|[^\s"':{}\[\]#-][^"':{}\[\]#]{0,59})["']?[ ]*:(?:[ ]+|(?=[{\[])|\Z))?
        (?:[{\[]|&[\w-]+)?[ ]*(?:\#.*)?""",
    re.VERBOSE,
)
# The first line of a block in a list, or in braces, that gives its name.
_NAMED = lazy_regex(
    r"""(?P<item>-[ ]+)?["']?(?:\w*[_-])?(?:name|id|title)["']?[ ]*:[ ]*
        ["']?(?P<name>[^\s"',{}\[\]][^"'\n{}\[\]]{0,59}?)["']?,?""",
    re.VERBOSE,
)
_SECTION = lazy_regex(r"^\[{1,2}([^\W\d_][^\[\]\n]{0,79})\]{1,2}[ \t]*(?=\r?$)", re.MULTILINE)
_DEEPEST, _LONGEST_CONFIG = 9, 2**20
_LARGE = 800  # characters of a block that passages would cut anywhere


def load_config(text: str) -> Extracted:
    """Read YAML, TOML or another configuration: the file, with a section for each of several blocks side by side."""
    begins = [Heading(*m.span(), TERM_LEVEL, m[1].strip(" \t\"'")) for m in _SECTION.finditer(text)]
    return Extracted(text, headings=tuple(begins or block_headings(text)))


class _Row(NamedTuple):
    """A line that is no comment; ``start`` is that of the comment above it.

    ``name`` is that of a block it opens; ``names`` the one that it gives to the block around it.
    """

    indent: int
    start: int
    end: int
    name: str | None
    names: str


def block_headings(text: str) -> list[Heading]:
    """Return headings for blocks of indented YAML or JSON beside which stand only blocks, such as those of two hosts.

    Else a host's port would be in one passage with its neighbour's. Blocks that no passage can hold are divided as
    well. Labels are paths: ``services.web``.
    """
    rows = list(_rows_of(text)) if len(text) <= _LONGEST_CONFIG else []
    first = int(len(rows) > 1 and rows[0].name == "" and rows[0].indent < rows[1].indent)  # JSON's outermost brace
    blocks = list(_alike(rows, first, len(rows), "", 0)) if rows else []
    starts = {rows[a].start for a, _, _ in blocks}
    found = [Heading(rows[a].start, rows[a].start, TERM_LEVEL, label) for a, _, label in blocks if label]
    ends = {rows[b].start for _, b, _ in blocks if b < len(rows)} - starts
    return sorted([*found, *(Heading(end, end, TERM_LEVEL, "") for end in ends)])


def _rows_of(text: str) -> Iterator[_Row]:
    position, above = 0, -1
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        bare = line.strip()
        if bare.startswith("#"):
            above = start if above < 0 else above
        elif not bare.strip("{}[], ") and not bare.startswith(("{", "[")):  # empty, or the end of blocks
            above = -1
        else:
            opens = _OPENER.fullmatch(bare)
            named = _NAMED.fullmatch(bare)
            name = (opens["name"] or "") if opens else named["name"] if named and named["item"] else None
            begin = start + len(line) - len(line.lstrip())
            indent = begin - start + bare.startswith("- ")  # a list may stand right below the name of its block
            names = named["name"] if named else ""
            yield _Row(indent, begin if above < 0 else above, start + len(line.rstrip()), name, names)
            above = -1


def _parts(rows: Sequence[_Row], first: int, last: int) -> tuple[list[tuple[int, int]], bool]:
    """Return the parts of a block, and whether all of them are blocks."""
    least = min(row.indent for row in rows[first:last])
    parts = list(pairwise([*(i for i in range(first, last) if rows[i].indent == least), last]))
    return parts, all(rows[a].name is not None and b > a + 1 for a, b in parts)


def _alike(rows: Sequence[_Row], first: int, last: int, path: str, depth: int) -> Iterator[tuple[int, int, str]]:
    """Yield (first row, end, path) of blocks beside which stand only blocks, and of the parts of large blocks."""
    parts, alike = _parts(rows, first, last)
    divided = len(parts) > 1 and (alike or _is_large(rows, first, last))
    single = -1  # the first of the settings between two blocks
    for a, b in parts:
        if rows[a].name is None or b == a + 1:
            single = a if single < 0 else single
            continue
        if divided and path and single >= 0:
            yield single, a, path
        single = -1
        label = ".".join(filter(None, (path, rows[a].name or rows[a + 1].names)))
        deeper = depth < _DEEPEST and (_parts(rows, a + 1, b)[1] or _is_large(rows, a, b))
        inner = list(_alike(rows, a + 1, b, label, depth + 1)) if deeper else []
        begin = inner[0][0] if inner else b
        if divided and (not inner or any(row.name is None for row in rows[a + 1 : begin])):
            yield a, begin, label
        yield from inner
    if divided and path and single >= 0:
        yield single, last, path


def _is_large(rows: Sequence[_Row], first: int, last: int) -> bool:
    return rows[last - 1].end - rows[first].start > _LARGE


MAX_LINE_CHARACTERS = 8 * 2**20
"""Of JSON: parsed values take up to fifty times their length in memory."""

_JSON_BREAK = lazy_regex(  # strings and lists of numbers stay whole
    r'"(?>(?:[^"\\]|\\.)*)"|\[[^\[\]{}"]*+\]|\{\s*+\}|(?P<at>(?P<open>[{\[,])[ \t]*|(?P<close>[}\]]))'
)
_DEEPEST_INDENT = 40  # spaces before a value
_ESCAPE = lazy_regex(r"\x1b\[[0-9;]*[A-Za-z]")
_OBJECT = lazy_regex(r"\[?<[^\n]*>\]?")  # "<Figure size 640x480 with 1 Axes>"
MAX_NOTEBOOK_CHARACTERS = 32 * 2**20


def load_jsonl(text: str, text_column: str | None, budget: Budget) -> Extracted:
    """Read one JSON object per line; ``row`` is the line's number. A malformed line is left out and reported.

    DocumentError if no line can be used, there is no text column, or the time is used up.
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
    return as_text(rows, _columns(rows), text_column, problems, "line")


def load_json(text: str, text_column: str | None) -> Extracted | None:
    """Read a JSON file that is a list of objects as a table, as JSON Lines are; ``None`` for any other JSON.

    So is an object that holds two or more of them in a list, and else only single values, which are a text of their
    own. Without a text column they must be two or more, with words in their values; DocumentError if the user named one
    and the list has none of that name.
    """
    value, beside = _listed(_json(text)[0])
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        return None
    rows = list(enumerate(value, 1))
    columns = _columns(rows)
    has_texts = text_column is not None or not {name.lower() for name in columns}.isdisjoint(TEXT_COLUMNS)
    if not has_texts and (len(rows) < 2 or not has_words(rows)):
        return None
    return below(row_text(beside), as_text(rows, columns, text_column, [], "entry"))


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
    if not (len(text) < SHORT or "\n" in text.strip() or _json(text)[1]):
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
        return f"{opens or ''}\n{' ' * min(depth, _DEEPEST_INDENT)}{closes or ''}"

    return _JSON_BREAK.sub(part, text)


def _json(text: str) -> tuple[object, str]:
    """Return the value and, if there is none, the reason."""
    if len(text) > MAX_LINE_CHARACTERS:
        return None, f"has {len(text):,} characters, more than {MAX_LINE_CHARACTERS:,}"
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        return None, f"is not valid JSON: {getattr(error, 'msg', '') or 'too deeply nested or too long a number'}"


def load_notebook(text: str) -> Extracted | None:
    """Read a Jupyter notebook: its cells in order, with headings of Markdown cells and with what code printed.

    Returns ``None`` if the file is not a notebook.
    """
    try:
        notebook = json.loads(text) if len(text) <= MAX_NOTEBOOK_CHARACTERS else None
        cells = notebook["cells"] if isinstance(notebook, dict) else None
        sources = [part for cell in cells or () for part in _cell(cell)]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    if not sources:
        return None
    from shared_core.documents.loaders.markdown import read_markdown  # which reads HTML, too

    parts: list[Extracted] = []
    for kind, source in sources:
        if source.strip():
            text, headings = without_surrogates(source), list[Heading]()
            if kind == "markdown":
                text, headings = read_markdown(text)
            parts.append(Extracted(text, headings=tuple(headings)))
    found = join_texts(parts)
    return replace(found, title=found.headings[0].label if found.headings else "")


def _cell(cell: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of a cell's source and of its outputs, without pictures and traces of errors."""
    yield str(cell.get("cell_type")), _source(cell.get("source", ""))
    for output in cell.get("outputs") or ():
        said = _source(output.get("text") or (output.get("data") or {}).get("text/plain") or "")
        said = _ESCAPE.sub("", said).strip("\r\n")
        if not _OBJECT.fullmatch(said):
            yield "output", said


def _source(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)
