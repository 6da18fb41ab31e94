"""Read Markdown: the file, but for tables, whose rows get the names of their columns (``named_rows``), and HTML.

Comments, struck-out text and directives of templates are replaced by spaces; tags are dropped, and
tables, headings, lists and links of HTML become Markdown's. A file that is mostly HTML is read as a web page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from html.entities import html5
from itertools import pairwise

from shared_core.documents.loaders.extracted import (
    CELL_GAP,
    LINE_GAP,
    LOWERED,
    RAISED,
    Budget,
    Extracted,
    Heading,
    Segment,
    TextRun,
    blanked,
    front_matter,
    join_runs,
    one_line,
)
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.markdown_blocks import without_boxes
from shared_core.documents.loaders.named_rows import Table, replace_tables
from shared_core.documents.loaders.numbering import LISTS, ItemMarks
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
            link = self._end_link() if ends else self._begin_link(attributes.get("href", ""))
            return (piece["indent"] or "") + link
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


_FENCE = lazy_regex(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_ATX = lazy_regex(r" {0,3}(#{1,6})(?=[ \t\r\n]|$)")
_SETEXT = lazy_regex(r" {0,3}(=+|-{2,})[ \t]*\r?$")
# Header fields, as in mail and package metadata: a name and a value, which may go on in indented lines.
_FIELDS = lazy_regex(r"(?>(?:[A-Za-z][\w-]*+:[ \t][^\n]*+\n(?>(?:[ \t]++[^\n]*+\n)*)){3,})(?=\r?\n)")
_FIELD_TITLE = lazy_regex(r"^(?:title|subject|name)[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
# An id of Pandoc, Hugo or Docusaurus behind a heading: {#specs}, {/* #specs */}.
_ID = lazy_regex(r"\{:?[ \t]*(?:#|\.[A-Za-z]|/\*)[^{}\n]*\}\Z")
_BLOCK_START = lazy_regex(r"[ \t]*([-*+>|#]|\d+[.)])")
_FENCED = r"^[ ]{0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,}).*?(?:^[ ]{0,3}(?P=fence)[`~]*[ \t]*\r?$|\Z)"
_TABLE_OR_CODE = lazy_regex(
    rf"""{_FENCED}
    | ^(?P<header>[^\n|]*+\|[^\n]*+)\n
      (?=[^\n|]*+\|)[ \t]*+\|?(?P<rule>(?>(?:[ \t]*+:?-++:?[ \t]*+\|)*)(?>(?:[ \t]*+:?-++:?)?))[ \t]*+\r?(?:\n|\Z)
      (?P<rows>(?>(?:[^\n|]*+\|[^\n]*+(?:\n|\Z))+))
    | ^(?P<names>[ ]*+[^\s|][^\n|]*+)\n(?P<dashes>[ ]*+-{{3,}}+(?>(?:[ ]++-{{3,}}+)+))[ ]*+\r?\n
      (?P<body>(?>(?:[ \t]*+[^\s][^\n]*+(?:\n|\Z))+))""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_CODE = rf"{_FENCED} | ^(?:[ ]{{4}}|\t)[^\n]*+ | {INLINE_CODE}"  # fenced, indented or within a line
_ENTITY_OR_CODE = lazy_regex(
    rf"""{_CODE}
      | (?P<entity>&(?:[A-Za-z][A-Za-z0-9]{{1,31}}|\#[0-9]{{1,7}}|\#[xX][0-9A-Fa-f]{{1,6}});)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_DASHES = lazy_regex("-+")
_MARK = lazy_regex(  # code; else struck-out text, a directive of Liquid, Hugo or ERB, a comment or a tag
    rf"""(?P<code>{_CODE}) | (?<![~\\])~~(?=[^\s~])[^\n~]*+(?<=\S)~~(?!~)
    | \{{%[^%\n]*+%\}} | \{{\{{[<%][^{{}}\n]++(?<=[>%])\}}\}} | <%[^%\n]*+%>
    | <!--.*?(?:-->|(?P<endless>\Z)) | (?P<tag></?[A-Za-z][\w-]*+(?:[ \t\r\n/][^<>]*+)?>)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_PANDOC_TITLE = lazy_regex(r"%[ \t]+(\S[^\n]*)\r?\n[ \t]*\r?(?:\n|\Z)")
_RELEASE = lazy_regex(r"(?<![\d.])v?\d+\.\d+")
_MDX = lazy_regex(  # code; else a comment, the end of a component, or a statement: no reader of the page sees them
    rf"""(?P<code>{_FENCED} | `[^`\n]*`) | \{{/\*(?>(?:(?!\{{/\*|\*/\}}).)*)\*/\}}
    | ^[ \t]*</(?:[A-Z][\w.]*+)?>[ \t]*+\r?$
    | (?:\A|(?<=\n\n)|(?<=\n\r\n)|(?<=---\n)|(?<=---\r\n))
      (?:import[ \t]+(?:[{{*'"]|\w+(?:,[^\n]*)?[ \t]+from\b)|export[ \t]+(?:default|const|let|var|function|async)\b)
      [^\n]*+(?>(?:\n[^\n]*\S[^\n]*+)*)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_MOSTLY_TAGS = 0.3
_LEAST_TAGS = 4
_FRONT_FIELD = lazy_regex(r"^[\"']?([A-Za-z][\w-]*)[\"']?[ \t]*[:=][ \t]+([^\s|>&\[{][^\n]*)$", re.MULTILINE)
_FIELD_SHOWN = lazy_regex(  # code; else where a page shows a field of its front matter, as VitePress, Jekyll, Hugo do
    rf"""(?P<code>{_CODE})
    | \{{\{{-?[ ]*(?:\$frontmatter|frontmatter|page|\.Params|\$page\.frontmatter)\.(?P<field>[A-Za-z][\w-]*)[ ]*-?\}}\}}
    | \{{\{{-?[ ]*\.(?P<own>Title|Description)[ ]*-?\}}\}}""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_PIPE = lazy_regex(r"(?<!\\)\|")


def load_markdown(text: str, budget: Budget, *, mdx: bool) -> Extracted:
    """Read a Markdown file: its source, with the names of columns in rows, and ATX and setext headings.

    Its title comes from the front matter or header fields, else from the first heading of level 1, or any heading with
    which the text begins. What is mostly HTML is read as such, without the front matter; errors as of ``read_html``.
    """
    if mdx:
        text = _MDX.sub(lambda match: match[0] if match["code"] else blanked(match[0]), text)
    text = without_boxes(text)
    body, title = front_matter(text)
    if body and "{{" in text:
        text = text[:body] + _with_fields(text[body:], text[:body])
    fields = _FIELDS.match(text)
    source = text
    text, headings = read_markdown(source, fields.end() if fields else body)
    if fields and (named := _FIELD_TITLE.search(fields.group())):
        title = one_line(named[1]).strip("\"'")
    if not fields and _is_mostly_html(source[body:]):
        page = read_html(source[body:], budget)
        return Extracted(page.text, title or page.title, page.headings)
    segments = (Segment(body, len(text)),) if body else ()
    return Extracted(text, title or _first_title(text, headings, body), tuple(headings), segments)


def _with_fields(text: str, front: str) -> str:
    """Return a page with the fields of its front matter where it shows them; those that it has not stay as they are.

    >>> _with_fields("# {{ $frontmatter.title }}\\n\\n{{ page.lead }}", "---\\ntitle: 'Tarn walk'\\n---\\n")
    '# Tarn walk\\n\\n{{ page.lead }}'
    """
    fields = {name.lower(): one_line(value).strip("\"'") for name, value in _FRONT_FIELD.findall(front)}

    def field(match: re.Match[str]) -> str:
        return match[0] if match["code"] else fields.get((match["field"] or match["own"]).lower(), match[0])

    return _FIELD_SHOWN.sub(field, text)


def _first_title(text: str, headings: Sequence[Heading], body: int) -> str:
    """Return Pandoc's title line, else the first title; not one of several releases, of which each has one."""
    if line := _PANDOC_TITLE.match(text, body):
        return one_line(line[1])
    first = next((h for h in headings if h.level == 1 or not text[body : h.start].strip()), None)
    if first is None or (_RELEASE.search(first.label) and sum(h.level == first.level for h in headings) > 1):
        return ""
    return first.label


def read_markdown(text: str, start: int = 0) -> tuple[str, list[Heading]]:
    """Return the text with its tables' rows named, comments and struck-out text blank; and the headings.

    Code and what is before ``start`` stay as they are.

    >>> read_markdown("| Flag | Meaning |\\n|---|---|\\n| -v | verbose |")[0]
    'Flag: -v; Meaning: verbose'
    """
    text = text[:start] + _without_entities(without_html(_without_unseen(text[start:])))
    text, terms = replace_tables(text, _TABLE_OR_CODE.finditer(text, start), _rows)
    return text, sorted([*terms, *_headings(text, start)])


def _without_unseen(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return match[0] if match["code"] or match["tag"] or match["endless"] is not None else blanked(match[0])

    marked = any(mark in text for mark in ("<!--", "~~", "{%", "{{<", "<%"))
    return _MARK.sub(blank, text) if marked else text


def _without_entities(text: str) -> str:
    """Write "&amp;" and the like as what they stand for, but for bars, which part cells, and in code."""

    def decode(match: re.Match[str]) -> str:
        known = match["entity"] and (match[0][1] == "#" or match[0][1:] in html5)
        decoded = unescape(match[0]) if known else match[0]
        return match[0] if "|" in decoded else decoded.replace("\u00a0", " ")

    return _ENTITY_OR_CODE.sub(decode, text) if "&" in text else text


def _is_mostly_html(text: str) -> bool:
    """Return whether a text without headings of Markdown's own consists of tags by more than 30%, not counting code."""
    if text.count("<") < _LEAST_TAGS or _headings(text, 0):
        return False
    marks = list(_MARK.finditer(text))
    tags, code = (sum(m.end() - m.start() for m in marks if m[kind]) for kind in ("tag", "code"))
    return tags > _MOSTLY_TAGS * (len(text) - code)


def _rows(table: re.Match[str]) -> list[list[str]]:
    if table["dashes"]:
        return _columns(table["dashes"], [table["names"], *table["body"].rstrip("\n").split("\n")])
    names = [] if table["fence"] else [name.strip("*_`") for name in _cells(table["header"])]
    if not names or len(names) != len(_cells(table["rule"])):
        return []
    return [names, *map(_cells, table["rows"].rstrip("\n").split("\n"))]


def _columns(dashes: str, lines: Sequence[str]) -> list[list[str]]:
    """Cut the lines of one of Pandoc's simple tables where its columns begin; none if that is within a word."""
    starts = [run.start() for run in _DASHES.finditer(dashes)]
    if lines and not lines[-1].strip("- "):
        lines = lines[:-1]
    if any(line[at - 1 : at].strip() and line[at : at + 1].strip() for line in lines for at in starts if at):
        return []
    return [[line[a:b].strip() for a, b in pairwise([*starts, None])] for line in lines]


def _cells(line: str) -> list[str]:
    cells = [cell.strip().replace(r"\|", "|") for cell in _PIPE.split(line.strip())]
    return cells[not cells[0] : len(cells) - (len(cells) > 1 and not cells[-1])]


def _headings(text: str, position: int) -> list[Heading]:
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
            label, fresh = _without_id(_without_closing_marks(_without_id(line[atx.end() :].strip()))), True
            if label:
                headings.append(Heading(position, end, len(atx.group(1)), one_line(label)))
        elif was_candidate and (underline := _SETEXT.match(line)):
            level, fresh = (1 if underline.group(1)[0] == "=" else 2), True
            headings.append(Heading(was_candidate[0], end, level, one_line(_without_id(text[slice(*was_candidate)]))))
        elif not line.strip():
            fresh = True
        else:
            # A list item, a quotation or a table row cannot be underlined into a heading.
            candidate = (position, stop) if fresh and not _BLOCK_START.match(line) else None
            fresh = False
        position = stop + 1
    return headings


def _without_id(label: str) -> str:
    label = label.rstrip()
    brace = label.rfind("{") if label.endswith("}") else -1
    return label[:brace].rstrip() if brace > 0 and _ID.match(label, brace) else label


def _without_closing_marks(label: str) -> str:
    stripped = label.rstrip("#")
    return stripped.rstrip() if not stripped or stripped[-1] in " \t" else label
