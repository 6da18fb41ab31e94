"""Convert configuration to text with a section for each of its blocks: YAML, JSON, TOML, INI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from shared_core.documents.loaders.extracted import TERM_LEVEL, Extracted, Heading
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
