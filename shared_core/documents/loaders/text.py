"""Read plain text, markup and subtitles: mostly, the text is the file.

Headings and tables may be known from the layout only: numbers, capitals, columns set with spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import NamedTuple

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Extracted,
    Heading,
    Segment,
    first_is_highest,
    first_line_title,
    one_line,
)
from shared_core.documents.loaders.named_rows import replace_tables
from shared_core.documents.loaders.table_cells import is_amount, is_value, is_year
from shared_core.support.regex import lazy_regex

_QUESTION = lazy_regex(
    r"(?:\A|\n[ \t]*\r?\n)([ \t]*)(\d{1,3}[.)][ \t][^\n]*\S|(?:Q\d*[:.][ \t]+)?[A-Z][^\n]*\?)[ \t]*(?=\r?\n)"
)
_LEAST_QUESTIONS = 3
# "3.6.1  Chunked Coding" at the margin, with an empty line above and below.
_NUMBERED = lazy_regex(
    r"(?:\A|(?<=\n\n)|(?<=\n\r\n))((?:\d{1,2}|[A-Z](?=\.))(?:\.\d{1,3})*)\.?[ \t]{1,4}"
    r"[^\W\d_][^\n]{0,98}[^\s.,;:?!](?:[ ]?(?:\.\.\.|…))?(?=\r?\n[ \t]*\r?\n)"
)
_LEAST_NUMBERED = 3
# "openssh (1:9.2p1-1) unstable; urgency=medium": a release in Debian's lists of changes.
_RELEASE = lazy_regex(r"^[a-z0-9][a-z0-9+.-]+ \([^()\s]+\) [\w .-]+; urgency=\w+(?=[ \t]*\r?$)", re.MULTILINE)
# "** Bug fixes" of an outline, as GNU's lists of changes are: at the margin, with an empty line above and below.
_OUTLINE = lazy_regex(r"(?:\A|(?<=\n\n)|(?<=\n\r\n))(\*{1,4})[ \t]+([^\n]*[^\s.,;:?!])(?=[ \t]*\r?\n[ \t]*\r?\n)")
# The foot and the head of a page in RFCs: "Moore   Standards Track   [Page 2]", a form feed, "RFC 2047   June 1996".
_PAGE_END = lazy_regex(
    r"(?<=\S)[ \t\r]*+\n[ \t\r\n]*+[^\n]*[ \t]{2}\[Page \d{1,4}\][ \t\r]*+(?:\Z|\n"
    r"(?:[ \t\r\n]*+\f[ \t\r\n]*+[^\n]*+|\s*+(?:RFC \d|Internet-Draft)[^\n]*+|\s*+\Z))\s*+"
)
_OPTION = lazy_regex(r"([ \t]*)(--?[A-Za-z?](?:[^\s]| (?! ))*)(?:(?: {2,}|\t)[^\s-]|[ \t]*\r?\n\1[ \t]+[^\s-])")
_CELLS = lazy_regex(r"\S(?:\t| {3,})\S")  # side by side: the head of a table rather than a title
_UNDERLINE = lazy_regex(r"([=\-`:.'\"~^_*+#])\1{2,}")
_TIME = r"(?:(\d{1,4}):)?(\d\d):(\d\d)[,.]\d{3}"
_CUE = lazy_regex(rf"^[ \t]*{_TIME}[ \t]+-->[ \t]+{_TIME}[^\n]*\n((?:[^\n]*\S[^\n]*(?:\n|\Z))+)", re.MULTILINE)
_VOICE = lazy_regex(r"<v(?:\.[^ >]*)? ([^>]+)>")
_STYLE = lazy_regex(r"<[^<>\n]*>|\{\\[^}\n]*\}")
_SPEAKER = lazy_regex(r"(?:- ?|>> ?|[A-Z][\w.'’ -]{0,40}: )")
_PAUSE = 3  # seconds after a sentence that begin a paragraph
MARKUP = {  # blocks that are shown as they are, to the end if nothing closes them; else headings and their level's mark
    "org": r"""^[ \t]*+\#\+begin_(?P<block>\w+)(?:.*?^[ \t]*+\#\+end_(?P=block)|.*+)
        | ^(?P<mark>\*+)[ \t]+(?:(?:TODO|DONE)[ \t]+)?(?:\[\#\w\][ \t]+)?(?P<label>\S[^\n]*+)""",
    "textile": r"^h(?P<mark>[1-6])(?:\([^)\n]*\))?\.[ \t]+(?P<label>\S[^\n]*+)",
    "wiki": r"^(?P<mark>={1,6})(?P<label>[^\n=][^\n]*=)[ \t]*$",
}
_ORG_TAGS = lazy_regex(r":[\w@:]+:")
_MARKUP_TITLE = lazy_regex(r"^#\+title:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)


def load_text(text: str) -> Extracted:
    """Read a plain text file; titles, options that are explained and questions of an FAQ head sections.

    Titles are underlined, numbered, of an outline or in capitals. Rows of tables are written with their columns' names.
    """
    text = name_rows(_PAGE_END.sub(_joined, text))
    releases = [Heading(m.start(), m.end(), 1, one_line(m[0])) for m in _RELEASE.finditer(text)]
    titles = _underlined(text) or _numbered(text) or _outline(text) or releases
    titles = titles or find_numbered_sections(text) or find_capital_headings(text)
    headings = tuple(sorted([*titles, *_questions(text), *_options(text)]))
    papers = find_papers(text) if not titles else ()
    return Extracted(text, "" if papers else _title(text, titles), headings, papers)


def _joined(page_end: re.Match[str]) -> str:
    """Return what is left of a page's end: a line break within a paragraph, an empty line between two."""
    text = page_end.string
    apart = text[page_end.start() - 1] in ".?!:;" or text[page_end.end() : page_end.end() + 1].isdigit()
    return "\n\n" if apart else "\n"


def _numbered(text: str) -> list[Heading]:
    """Find numbered headings, as standards have them: at least three, some of them of a second level."""
    found = list(_NUMBERED.finditer(text))
    if len(found) < _LEAST_NUMBERED or all("." not in m[1] for m in found):
        return []
    return [Heading(m.start(), m.end(), m[1].count(".") + 1, one_line(m[0])) for m in found]


def _outline(text: str) -> list[Heading]:
    """Find the headings of an outline: at least two of a second level."""
    found = list(_OUTLINE.finditer(text))
    if sum(len(m[1]) > 1 for m in found) < 2:  # a list whose items are far apart
        return []
    return [Heading(m.start(), m.end(), len(m[1]), one_line(m[2])) for m in found]


def _title(text: str, titles: list[Heading]) -> str:
    """Return the first title if it is above all others: not the newest release of a list of changes."""
    if release := _RELEASE.match(text):
        return release.group().split(" ")[0]
    return titles[0].label if first_is_highest(titles) else first_line_title(text) or first_lines_title(text)


def load_markup(text: str, kind: str) -> Extracted:
    """Read Org, Textile or MediaWiki: the file unchanged, with its headings."""
    plain = load_text(text)
    pattern = re.compile(MARKUP[kind], re.MULTILINE | re.DOTALL | re.IGNORECASE | re.VERBOSE)
    text = plain.text
    found = [m for m in pattern.finditer(text.replace("\r\n", " \n")) if m["mark"]]
    levels = [int(m["mark"]) if m["mark"].isdigit() else len(m["mark"]) for m in found]
    titles = [Heading(m.start(), m.end(), at, _label(m["label"], kind)) for m, at in zip(found, levels)]
    named = _MARKUP_TITLE.search(plain.text)
    title = _label(named[1], kind) if named else _title(plain.text, titles) if titles else plain.title
    terms = [heading for heading in plain.headings if heading.level >= TERM_LEVEL or not titles]
    return Extracted(plain.text, title, tuple(sorted([*titles, *terms])))


def _label(text: str, kind: str) -> str:
    label = one_line(text)
    first, _, last = label.rpartition(" ")
    if first and kind == "org" and _ORG_TAGS.fullmatch(last):
        return first
    return label.rstrip("= ") if kind == "wiki" else label


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


def load_subtitles(text: str) -> Extracted:
    """Read subtitles or a transcript (SRT, WebVTT): the spoken text, without numbers, times and styles.

    A paragraph begins with each speaker, and after a pause of three seconds between sentences.
    """
    text = text.replace("\r\n", "\n")
    paragraphs: list[list[str]] = []
    voice, until = "", 0
    for cue in _CUE.finditer(text):
        begin, end = _seconds(cue.group(1, 2, 3)), _seconds(cue.group(4, 5, 6))
        spoken = _VOICE.search(cue[7])
        said = one_line(unescape(_STYLE.sub("", cue[7])))
        if spoken and spoken[1] != voice:
            voice = spoken[1]
            paragraphs.append([f"{one_line(voice)}: {said}"])
        elif not paragraphs or _SPEAKER.match(said) or (begin - until >= _PAUSE and paragraphs[-1][-1][-1:] in ".?!"):
            paragraphs.append([said])
        elif said and not paragraphs[-1][-1].endswith(said):  # captions that roll repeat the line before
            paragraphs[-1].append(said)
        until = end
    return Extracted("\n\n".join(map(" ".join, paragraphs)) if paragraphs else text)


def _seconds(time: Sequence[str | None]) -> int:
    return sum(int(number or 0) * unit for number, unit in zip(time, (3600, 60, 1), strict=True))


def _underlined(text: str) -> list[Heading]:
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
        if not _UNDERLINE.fullmatch(rule) or not title.strip() or _UNDERLINE.fullmatch(title) or _CELLS.search(title):
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


_LEAST_HEADINGS = 3
_LEAST_ROWS = 3  # with the head
_LEAST_COLUMNS = 3  # of two columns, the first may be terms
_ALIGNED = 2  # characters that a cell may begin or end beside its column's name
# "4. Treasurer's report" at the margin, with an empty line above and text below.
_SECTION = lazy_regex(
    r"(?:\A|(?<=\n\n)|(?<=\n\r\n))(\d{1,2})\.[ \t]{1,4}(?=[^\W\d_])"
    r"([^\n]{2,70}[^\s.,;:?!](?:[ ]?(?:\.\.\.|…))?)[ \t]*(?=\r?\n)"
)
# "ABOUT APPOINTMENTS", alike, or "PART 2: APPOINTMENTS": what else stands before a colon may be a field.
_CAPITALS = lazy_regex(
    r"(?:\A|(?<=\n\n)|(?<=\n\r\n))(?=[^\n]*[A-Z]{3})((?:[A-Z]{3,12} (?:\d{1,3}|[A-Z]|[IVX]{1,5}):[ ])?"
    r"[A-Z0-9][A-Z0-9 ,&/'’()-]{2,58}[A-Z0-9)])[ \t]*(?=\r?\n)"
)
# A title, and its authors: "M. Halvorsen, T. Adeyemi" or "Mona Halvorsen and Tom Adeyemi".
_NAME = r"(?:(?:[A-Z]\.[ -]?){1,3}|[A-Z][\w'’-]+ (?:[A-Z]\. ){0,2})[A-Z][\w'’-]+"
_PAPER = lazy_regex(
    r"(?:\A\s*|(?<=\n\n)|(?<=\n\r\n))([A-Z][^\n]{20,200}[^\s.,;:!])[ \t]*\r?\n[ \t]*\r?\n"
    rf"{_NAME}(?:, {_NAME}){{0,30}}(?:,? (?:and|&) {_NAME})?(?=[ \t]*\r?\n[ \t]*\r?\n[^\n]{{100}})"
)
_ITEM = lazy_regex(r"\s*(?:\d{1,3}[.)]|[-*+•])\s")
_BLOCK = lazy_regex(r"(?:^(?=[^\n]{3,200}$)[ \t]*+\S++(?>(?: \S++)*)(?: {2,}|\t)[^\n]*+(?:\n|\Z)){3,}", re.MULTILINE)
_CELL = lazy_regex(r"\S+(?: \S+)*")
_TITLE_LINES = lazy_regex(r"\s*((?:[^\W_][^\n]{2,70}[^\s.?!;:,](?:[ \t\r]*\n)){2,6})[ \t\r]*\n")
_MOST_TITLE_LINES = 3
_FIELD = lazy_regex(r"[^\s:]{2,20}:\s")
_YEAR = lazy_regex(r"\b(?:19|20)\d\d\b")


def find_numbered_sections(text: str) -> list[Heading]:
    """Find headings numbered 1, 2, 3, … with text below each, as minutes and handbooks have them.

    Items of a list have no text of their own below them, so a list is none, even with empty lines between its items.

    >>> minutes = "1. Welcome\\n\\nThe Chair opened.\\n\\n2. Rents\\n\\nNo change.\\n\\n3. Rats\\n\\nNone seen.\\n"
    >>> [heading.label for heading in find_numbered_sections(minutes)]
    ['1. Welcome', '2. Rents', '3. Rats']
    >>> find_numbered_sections("1. Open the tap\\n\\n2. Wait\\n\\n3. Close it\\n")
    []
    """
    found = list(_SECTION.finditer(text))
    if [int(m[1]) for m in found] != list(range(1, len(found) + 1)):
        return []
    return _sections(text, found)


def find_capital_headings(text: str) -> list[Heading]:
    """Find headings in capital letters, at least three, with text below."""
    return _sections(text, list(_CAPITALS.finditer(text)))


def _sections(text: str, found: Sequence[re.Match[str]]) -> list[Heading]:
    if len(found) < _LEAST_HEADINGS:
        return []
    ends = [*(m.start() for m in found[1:]), len(text)]
    bodies = [text[m.end() : end] for m, end in zip(found, ends)]
    if not all(any(map(str.islower, body)) for body in bodies[:-1]):  # a list, or a text all in capitals
        return []
    return [Heading(m.start(), m.end(), 1, one_line(m[0])) for m in found]


def first_lines_title(text: str) -> str:
    """Return the two or three short lines that a text begins with as its title; empty if it begins otherwise.

    Of a longer head it is what stands above its fields and dates.

    >>> first_lines_title("Linden Street Dental Practice\\nFrequently asked questions\\n\\nHow do I book?\\n")
    'Linden Street Dental Practice – Frequently asked questions'
    >>> first_lines_title("Voices of the Moor\\nInterview 9: Ada Pym\\nMay 2019\\nInterviewer: Bo\\n\\nBO: Hi")
    'Voices of the Moor – Interview 9: Ada Pym'
    >>> first_lines_title("From: Ann\\nTo: Bo\\n\\nHi!")
    ''
    """
    match = _TITLE_LINES.match(text)
    written = match[1].splitlines() if match else []
    lines = [one_line(line) for line in written]
    if not lines or any(_ITEM.match(line) for line in lines):
        return ""
    if not all(line[0].isupper() and "  " not in line.strip() for line in written):
        return ""
    fields = [i for i, line in enumerate(lines) if _FIELD.match(line)]
    if len(lines) > _MOST_TITLE_LINES:
        fields += [i for i, line in enumerate(lines) if i and _YEAR.search(line)]
    elif not fields:
        return " – ".join(lines)
    return " – ".join(lines[: min(fields)]) if fields and min(fields) <= _MOST_TITLE_LINES else ""


def find_papers(text: str) -> tuple[Segment, ...]:
    """Return the papers that a text holds one after the other, each with its title above a line of authors.

    None if there are less than two, or something else stands above the first.

    >>> told = "\\n\\nIda Holm, Bo Lund\\n\\n" + "It is so. " * 20
    >>> [paper.title for paper in find_papers(f"The eel in our harbours{told}\\n\\nThe gull in our harbours{told}")]
    ['The eel in our harbours', 'The gull in our harbours']
    """
    found = list(_PAPER.finditer(text))
    if len(found) < 2 or found[0].start():
        return ()
    ends = [*(m.start() for m in found[1:]), len(text)]
    return tuple(Segment(m.start(), end, one_line(m[1])) for m, end in zip(found, ends))


def name_rows(text: str) -> str:
    """Write the rows of tables that are set with spaces or tabs with their columns' names: "Group: Foxes; Fee: £38".

    Tables have a row of names, without values but years, three columns or more, and cells below their names.

    >>> print(name_rows("Group   Half day  Full day\\nFoxes   £38       £62\\nOwls    £36       £60").strip())
    Group: Foxes; Half day: £38; Full day: £62
    Group: Owls; Half day: £36; Full day: £60
    """
    return replace_tables(text, _BLOCK.finditer(text), lambda block: _rows(block[0]))[0]


class _Span(NamedTuple):
    start: int
    end: int
    text: str


def _rows(block: str) -> list[list[str]]:
    """Return the cells of a block's lines, the names of its columns first; none if it is no table."""
    head, *body = [
        [_Span(m.start(), m.end(), m[0]) for m in _CELL.finditer(line.expandtabs())] for line in block.splitlines()
    ]
    if not all(is_year(c.text) or (not is_value(c.text) and c.text[:1].isalpha() and len(c.text) <= 40) for c in head):
        return []
    firsts = [line[0] for line in body]
    if all(first.end < head[0].start for first in firsts):  # the first column has no name
        head.insert(0, _Span(min(f.start for f in firsts), max(f.end for f in firsts), ""))
    if len(head) < _LEAST_COLUMNS or len(body) + 1 < _LEAST_ROWS:
        return []
    rows = [[cell.text for cell in head]]
    for line in body:
        placed = [_column(cell, head) for cell in line]
        if None in placed or len({*placed}) < len(placed) or _ITEM.match(line[0].text + " "):
            return []
        cells = dict(zip(placed, (cell.text for cell in line)))
        rows.append([cells.get(i, "") for i in range(len(head))])
    filled = sum(bool(cell) for row in rows[1:] for cell in row)
    has_values = any(is_amount(cell) for row in rows[1:] for cell in row[1:])
    return rows if has_values and 4 * filled >= 3 * len(head) * len(body) else []


def _column(cell: _Span, head: Sequence[_Span]) -> int | None:
    """Return the column that a cell begins or ends with, or is the only one above it; ``None`` if that is unclear."""
    beside = [min(abs(cell.start - name.start), abs(cell.end - name.end)) for name in head]
    near = [i for i, away in enumerate(beside) if away <= _ALIGNED]
    above = [i for i, name in enumerate(head) if cell.start < name.end and name.start < cell.end]
    if len(near) == 1:
        return near[0]
    return above[0] if len(above) == 1 and not near else None
