"""Read Markdown: the file, but for tables, whose rows get the names of their columns (``named_rows``), and HTML.

Comments, struck-out text and directives of templates are replaced by spaces, tags are dropped (``markdown_html``). A
file that is mostly HTML is read as a web page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from html.entities import html5
from itertools import pairwise

from shared_core.documents.loaders.extracted import Extracted, Heading, Segment, blanked, front_matter, one_line
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.markdown_blocks import without_boxes
from shared_core.documents.loaders.markdown_html import INLINE_CODE, without_html
from shared_core.documents.loaders.named_rows import replace_tables
from shared_core.support.regex import lazy_regex

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
    if not stripped:
        return ""
    return stripped.rstrip() if stripped[-1] in " \t" else label
