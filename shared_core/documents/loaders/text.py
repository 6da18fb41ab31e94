"""Read plain text, markup, subtitles and notebooks: mostly, the text is the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Extracted,
    Heading,
    first_is_highest,
    first_line_title,
    join_texts,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.markdown import read_markdown
from shared_core.documents.loaders.text_layout import (
    find_capital_headings,
    find_numbered_sections,
    find_papers,
    first_lines_title,
    name_rows,
)
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
_ESCAPE = lazy_regex(r"\x1b\[[0-9;]*[A-Za-z]")
_OBJECT = lazy_regex(r"\[?<[^\n]*>\]?")  # "<Figure size 640x480 with 1 Axes>"
MAX_NOTEBOOK_CHARACTERS = 32 * 2**20


def load_text(text: str) -> Extracted:
    """Read a plain text file; titles, options that are explained and questions of an FAQ head sections.

    Titles are underlined, numbered, of an outline or in capitals. Rows of tables are written with their columns' names.
    """
    text = name_rows(_PAGE_END.sub(_joined, text))
    titles = _underlined(text) or _numbered(text) or _outline(text) or _releases(text)
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


def _releases(text: str) -> list[Heading]:
    return [Heading(m.start(), m.end(), 1, one_line(m[0])) for m in _RELEASE.finditer(text)]


def _title(text: str, titles: list[Heading]) -> str:
    """Return the first title if it is above all others: not the newest release of a list of changes."""
    if release := _RELEASE.match(text):
        return release.group().split(" ")[0]
    return titles[0].label if first_is_highest(titles) else first_line_title(text) or first_lines_title(text)


def load_markup(text: str, kind: str) -> Extracted:
    """Read Org, Textile or MediaWiki: the file unchanged, with its headings."""
    plain = load_text(text)
    pattern = re.compile(MARKUP[kind], re.MULTILINE | re.DOTALL | re.IGNORECASE | re.VERBOSE)
    found = [m for m in pattern.finditer(plain.text.replace("\r\n", " \n")) if m["mark"]]
    titles = [Heading(m.start(), m.end(), _level(m["mark"]), _label(m["label"], kind)) for m in found]
    named = _MARKUP_TITLE.search(plain.text)
    title = _label(named[1], kind) if named else _title(plain.text, titles) if titles else plain.title
    terms = [heading for heading in plain.headings if heading.level >= TERM_LEVEL or not titles]
    return Extracted(plain.text, title, tuple(sorted([*titles, *terms])))


def _level(mark: str) -> int:
    return int(mark) if mark.isdigit() else len(mark)


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
