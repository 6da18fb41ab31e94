"""Read the HTML within a Markdown file: tables, headings, lists and links become Markdown's, other tags are dropped.

Word processors export tables as HTML, and contracts mark each defined term (``<span>``): a page shows no tags.
"""

from __future__ import annotations

import re

from shared_core.documents.loaders.extracted import CELL_GAP, LINE_GAP, LOWERED, RAISED, TextRun, join_runs, one_line
from shared_core.documents.loaders.html_marks import LISTS, ItemMarks
from shared_core.documents.loaders.named_rows import Table
from shared_core.support.regex import lazy_regex

_INLINE = frozenset(
    """a abbr b bdi big cite code dfn em font i ins kbd label mark picture q samp small span strong sub sup tt u var
    wbr img source input""".split()
)
_BLOCKS = frozenset(
    """article aside blockquote br caption center dd details div dl dt figcaption figure footer header hr li main nav ol
    p pre section summary table tbody td tfoot th thead tr ul""".split()
)
_PLAIN = frozenset("br hr wbr".split())  # without attributes or end; "<source>" is a placeholder
_ITEMS = LISTS | {"li"}
INLINE_CODE = r"(?<!`)(?P<ticks>`+)(?!`)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)"
_INDENTED = r"(?:\A|(?<=\n\n)|(?<=\n\r\n))(?:[ ]{4}|\t)[^\n]*+(?>(?:\n(?:[ ]{4}|\t)[^\n]*+)*)"


def _pieces(indented: str) -> re.Pattern[str]:
    return re.compile(
        rf"""(?P<kept>^[ \t]*(?P<fence>`{{3,}}(?=[^`\n]*$)|~{{3,}}).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*\r?$|\Z)
        | {INLINE_CODE} | <!--.*?(?:-->|\Z))
        | (?P<indented>{indented})
        | (?:^[ \t]++)?(?P<table><table\b[^<>]*>(?>(?:(?!</?table\b).)*)</table\s*>)
        | <%(?P<template>(?>(?:(?!%>).)*))%>
        | (?:^[ \t]++)?
          <(?P<unseen>script|style|iframe|video|del|s|strike)\b[^<>]*>(?>(?:(?!</?(?P=unseen)\b).)*)</(?P=unseen)\s*>
        | [ \t]*<h(?P<level>[1-6])\b[^<>]*>(?P<heading>(?>(?:(?!</?h[1-6]\b).)*))</h(?P=level)\s*>
        | <su(?P<raised>[bp])>(?P<digits>[\d+−–-]{{1,6}})</su[bp]>
        | (?P<indent>^[ \t]++)?<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]*+)(?P<rest>(?:[\s/][^<>]*+)?)>""",
        re.MULTILINE | re.DOTALL | re.VERBOSE | re.IGNORECASE,
    )


_PIECE, _WITHIN_LIST = _pieces(_INDENTED), _pieces("(?!)")
_ITEM = lazy_regex(r"[ \t]*(?:[-*+]|\w{1,4}[.)])[ \t]")
_OF_PICTURE = lazy_regex(r"\[\s*\]\([^()\s]+\)")
_ENDS = lazy_regex(r"</([A-Za-z][A-Za-z0-9]*)")
_ROW = lazy_regex(r"<(?:tr|thead)\b[^<>]*>((?>(?:(?!</?tr\b).)*))", re.DOTALL | re.IGNORECASE)
_CELL = lazy_regex(r"<(t[hd])\b([^<>]*)>((?>(?:(?!</?t[hdr]\b).)*))", re.DOTALL | re.IGNORECASE)
_BOLD = lazy_regex(r"\s*(?:<(strong|b)>[^<>]*</\1>|\*\*[^*\n]+\*\*)\s*", re.IGNORECASE)
_SPAN = lazy_regex(r"\b((?:col|row)span)\s*=\s*[\"']?(\d+)", re.IGNORECASE)
_ATTRIBUTE = lazy_regex(r"\b(href|start|type)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)


def without_html(text: str) -> str:
    """Return a Markdown text without its HTML; code, comments, and tags that are not HTML's stay.

    A tag without attributes that is never closed is a placeholder (``cp <source>``), unless it needs no end.

    >>> without_html('<b>Bees</b> of <a href="https://x.org">Ost</a>:<br>\\n<ul>\\n  <li>none <name></li>\\n</ul>')
    'Bees of [Ost](https://x.org):\\n\\n- none <name>\\n'
    """
    if "<" not in text:
        return text
    ends = {name.lower() for name in _ENDS.findall(text)}
    found = _PIECE.sub(_Page(ends).rewrite, text)
    return _OF_PICTURE.sub("", found) if "a" in ends else found


class _Page:
    """The lists and links that are open."""

    def __init__(self, ends: set[str]) -> None:
        self._ends = ends
        self._marks = ItemMarks()
        self._links: list[str] = []
        self._indented = (0, False)  # where the last indented lines ended, and whether they are a list's

    def rewrite(self, piece: re.Match[str]) -> str:
        """Return what stands for a piece of HTML."""
        if piece["kept"] is not None:
            return piece[0]
        if piece["indented"] is not None:
            return _WITHIN_LIST.sub(self.rewrite, piece[0]) if self._continues_list(piece) else piece[0]
        if piece["table"]:
            return f"\n\n{_write_table(piece['table'])}\n\n"
        if piece["level"]:
            return f"\n\n{'#' * int(piece['level'])} {one_line(without_html(piece['heading']))}\n\n"
        if piece["raised"]:
            apart = piece.string[piece.start() - 1 : piece.start()].isdigit()  # 10⁵, but H2O
            return piece["digits"].translate((RAISED if piece["raised"] in "pP" else LOWERED) if apart else {})
        return "" if piece["unseen"] or piece["template"] is not None else self._rewrite_tag(piece)

    def _rewrite_tag(self, piece: re.Match[str]) -> str:
        name, ends = piece["name"].lower(), bool(piece["end"])
        known = name in self._ends or name in _PLAIN or "=" in piece["rest"]
        if not known or name not in _INLINE | _BLOCKS:
            return piece[0]
        attributes = {m[1].lower(): m[2] or m[3] or m[4] or "" for m in _ATTRIBUTE.finditer(piece["rest"])}
        if name == "a":
            return (piece["indent"] or "") + (
                self._end_link() if ends else self._begin_link(attributes.get("href", ""))
            )
        if name in _INLINE:
            return piece["indent"] or ""
        if name in LISTS:
            if ends:
                self._marks.leave()
            else:
                self._marks.enter(name, attributes)
        if name == "li" and not ends:
            self._marks.begin({})
            line = piece.string.rfind("\n", 0, piece.start()) + 1
            return "\n" * (piece.start() > line) + self._marks.write("-")[:-1]
        return self._part(piece, name, ends)

    def _continues_list(self, piece: re.Match[str]) -> bool:
        """Return whether indented lines are a list's items or paragraphs, not code."""
        at, listed = self._indented
        if at == 0 or piece.string[at : piece.start()].strip():  # else as those before, with only empty lines between
            before = piece.string.rfind("\n\n", 0, max(0, piece.start() - 2)) + 1
            listed = any(map(_ITEM.match, piece.string[before : piece.start()].splitlines()))
        self._indented = piece.end(), listed or _ITEM.match(piece[0]) is not None
        return self._indented[1]

    @staticmethod
    def _part(piece: re.Match[str], name: str, ends: bool) -> str:
        """Part blocks that stand on one line."""
        text, at = piece.string, piece.end() if ends or name == "br" else piece.start() - 1
        if not 0 <= at < len(text) or text[at] in "\r\n" or (name in _ITEMS and (not ends or text[at] == "<")):
            return ""  # items begin lines of their own
        if name == "br":
            return " "
        if name in ("td", "th"):  # of a table that holds another one
            return "\t" * (ends and not text.startswith("</tr", at))
        return "\n" if name in ("tr", "li", "dt", "dd") else "\n\n"

    def _begin_link(self, target: str) -> str:
        target = "" if target.startswith("#") else target
        self._links.append(target)
        return "[" if target else ""

    def _end_link(self) -> str:
        target = self._links.pop() if self._links else ""
        return f"]({target})" if target else ""


def _write_table(table: str) -> str:
    """Write a table like Markdown's if its first row names the columns, by its tags or in bold; else a line a row."""
    rows = [_CELL.findall(row) for row in _ROW.findall(table)]
    rows = [row for row in rows if row]
    if not rows:
        return ""
    rows = [_name_of_group(row, len(rows[0])) or row for row in rows]
    named = all(tag.lower() == "th" or _BOLD.fullmatch(text) for tag, _, text in rows[0])
    plain = not any(_SPAN.search(attributes) for row in rows for _, attributes, _ in row)
    if named and plain and len(rows[0]) > 1 and len(rows) > 1:
        lines = ["".join(f"| {_text_of(text).replace('|', chr(92) + '|')} " for *_, text in row) + "|" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
    runs: list[TextRun] = []
    found = Table(0)
    for number, row in enumerate(rows):
        found.rows.append([])
        for place, (tag, attributes, text) in enumerate(row):
            kind = "th" if named and not number else tag.lower()
            found.start_cell(kind, {k.lower(): v for k, v in _SPAN.findall(attributes)}, len(runs))
            if cell := _text_of(text):
                runs.append(TextRun(CELL_GAP if place else LINE_GAP, cell))
            found.end_cell(len(runs))
    runs = found.named(runs, 0, 0) or runs
    return join_runs(runs, [True] * len(runs))[0]


def _name_of_group(row: list[tuple[str, str, str]], columns: int) -> list[tuple[str, str, str]]:
    """Return a row of one cell across all columns as Markdown's tables have it: bold, beside empty cells."""
    spans = [int(n) for _, attributes, _ in row for kind, n in _SPAN.findall(attributes) if kind.lower() == "colspan"]
    text = _text_of(row[0][2]).strip("*_ ")
    if len(row) > 1 or columns < 2 or spans != [columns] or not text:
        return []
    return [("td", "", f"**{text}**"), *[("td", "", "")] * (columns - 1)]


def _text_of(cell: str) -> str:
    return one_line(without_html(cell))
