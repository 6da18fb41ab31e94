"""Read the content of web pages in order: blocks as paragraphs, tables row by row (``named_rows``).

libxml2 (through lxml) parses the page as a stream of tags, fed in pieces: time grows with the page's length and is
checked on the way, and no tree of the page is held in memory. ``html_zones`` separates content from navigation at the
end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shared_core.documents.loaders.extracted import (
    CELL_GAP,
    CHUNK,
    LINE_GAP,
    LOWERED,
    PARAGRAPH_GAP,
    RAISED,
    SEPARATORS,
    SPACE_GAP,
    TERM_LEVEL,
    Budget,
    Extracted,
    Segment,
    TextRun,
    front_matter,
    join_runs,
    one_line,
    too_much,
    without_surrogates,
)
from shared_core.documents.loaders.formats import declared_in_html, decode
from shared_core.documents.loaders.html_zones import (
    BREAK_OUT,
    FOREIGN,
    HTML_WITHIN,
    NO_END,
    Zones,
    is_hidden,
    unseen_in,
    zone_kind,
)
from shared_core.documents.loaders.named_rows import CELLS, Table, flatten_cell
from shared_core.documents.loaders.numbering import LISTS, ItemMarks
from shared_core.errors import DocumentError, MissingDependencyError
from shared_core.support.regex import lazy_regex

MAX_PAGE_ELEMENTS = 2_000_000
_SPACE = lazy_regex(r"[ \t\r\n\f]+")
# The number of an item that has an element of its own, and what may stand right before one.
_ITEM = lazy_regex(r"\((?:\d{1,3}|[a-z]{1,4}|[A-Z])\)")
_BEFORE_ITEM = lazy_regex(r"(?:[—–:;,.]|\b(?:and|or))$")
_TITLE = lazy_regex(r"<title\b", re.IGNORECASE)
_DIRECTIVE = lazy_regex(r"\{%[^%\n]*%\}")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PARAGRAPHS = frozenset(
    """address article aside blockquote body caption center details dialog dir div dl fieldset figcaption figure footer
    form h1 h2 h3 h4 h5 h6 header hgroup hr html legend main menu nav ol p pre section summary table ul""".split()
)
_LINES = frozenset(("br", "dd", "dt", "li", "option", "tr"))
_RAISED = {"sup": RAISED, "sub": LOWERED}
_RAISED_NUMBER = lazy_regex(r"[-+−–,.\s]*\d[-+−–,.\s\d]*", re.ASCII)
# A term of a definition list that is the label of a value, and such a value: no option, no sentence.
_LABEL = lazy_regex(r"[^\W\d_][^\n\t:=.?()\[\]<>]{1,39}:?")
_VALUE = lazy_regex(r"[^\n\t]{1,59}[^\s.;:!?]")
_LEAST_LABELS = 2
# A page that only sends its readers to another one: what it says on the way tells nothing.
_LEADS_ON = lazy_regex(r"\s*\d{1,2}(?:\.\d+)?\s*[;,]\s*url\s*=", re.IGNORECASE)
_LEADING_ON = 400  # letters of such a page at most
_ALL_LINKS = 0.85  # of a page's letters


def load_html(data: bytes, fallback: str | None, budget: Budget) -> Extracted:
    """Read an HTML page. Its title is ``<title>``, else the front matter's, else the first heading.

    Raises:
        DocumentError: not text, more than two million elements, or the time is used up.
        MissingDependencyError: lxml is not installed.
    """
    text = decode(data, declared=declared_in_html(data), fallback=fallback)
    start, title = front_matter(text)  # of templates that a program makes pages of
    if not start:
        return read_html(text, budget)
    page = read_html(_DIRECTIVE.sub(" ", text[start:]), budget)
    return replace(page, title=title if title and not _TITLE.search(text) else page.title)


def read_html(text: str, budget: Budget, *, spaces: bool = False) -> Extracted:
    """Read an HTML page that is decoded already; ``spaces``: all its white space counts. Raises as ``load_html``."""
    try:
        import lxml.etree  # noqa: F401 (_parse uses it)
    except ImportError as error:
        raise MissingDependencyError("lxml", extra="documents", purpose="Reading HTML files") from error
    text = without_surrogates(text)
    for hiding in (True, False):  # what is hidden is read if it is all that there is
        target = _PageReader(unseen=unseen_in(text), hiding=hiding, spaces=spaces)
        _parse(text, target, budget)
        if (found := target.result()).text.strip() or not target.has_hidden:
            break
    return found


def _parse(text: str, target: _PageReader, budget: Budget) -> None:
    from lxml import etree

    parser = etree.HTMLParser(target=target, huge_tree=True)
    try:
        for start in range(0, len(text), CHUNK):
            budget.check()
            parser.feed(text[start : start + CHUNK])
        parser.close()
    except etree.LxmlError as error:
        if not target.runs:  # an empty page, or nothing but comments
            return
        raise DocumentError(
            f"The HTML cannot be parsed: {one_line(str(error))[:200]}", hint="Open it in a browser and save it again."
        ) from error


@dataclass(slots=True)
class _Element:
    """An open element and what its end needs to know.

    Attributes:
        first: number of runs before it.
        gap: the separator due before it (of a cell).
        seen: whether its content is shown.
        html: whether it stands within a drawing and contains HTML again.
        raised: ``sup`` or ``sub`` if it raises or lowers its text.
    """

    tag: str
    first: int = 0
    gap: int = 0
    zone: bool = False
    heading: bool = False
    seen: bool = True
    html: bool = False
    link: str = ""
    raised: str = ""


def _apart(before: str, number: str, tag: str) -> str:
    """Return a raised or lowered number in Unicode's digits if it would join a number: 10<sup>6</sup> is not 106.

    After letters it stays as people type it and the reader knows it: H2O, m2.
    """
    joins = before.isdigit() or before == "/" or (tag == "sup" and not before.isalpha() and not before.isspace())
    return number.translate(_RAISED[tag]) if joins else number


def _label(runs: Sequence[TextRun], defined: Sequence[tuple[str, int, int]]) -> bool:
    """Write a list of labels with short values as ``Phone: 55 12``, in one section, and return whether it is one."""
    texts = ["".join(SEPARATORS[r.gap] + r.text for r in runs[first:last]).strip() for _, first, last in defined]
    pairs = list(zip(texts[::2], texts[1::2]))
    tags = [tag for tag, _, _ in defined]
    if len(pairs) < _LEAST_LABELS or tags != ["dt", "dd"] * len(pairs):
        return False
    if not all(_LABEL.fullmatch(label) and _VALUE.fullmatch(value) for label, value in pairs):
        return False
    for (_, first, last), (_, value, _) in zip(defined[::2], defined[1::2]):
        for run in runs[first:last]:
            run.level = run.heading = 0
        runs[last - 1].text = f"{runs[last - 1].text.rstrip(': ')}:"
        runs[value].gap = SPACE_GAP
    return True


class _PageReader:
    """Target of lxml's parser: converts tags and text to runs of text, each with its zone and the gap before it."""

    def __init__(self, *, unseen: frozenset[str], hiding: bool, spaces: bool) -> None:
        self.runs: list[TextRun] = []
        self._zones = Zones()
        self._unseen, self._hiding = unseen, hiding
        self.has_hidden = False  # whether attributes hid something
        self._leads_on = False  # whether it sends its readers to another page
        self._unlisted = False  # whether it asks search engines to leave it out
        self._spaces = spaces
        self._open: list[_Element] = []
        self._elements = 0
        self._gap = 0  # index into ``runs.SEPARATORS``: the separator due before the next text
        self._hidden: _Element | None = None  # the outermost open element whose content is not shown
        self._html_within = 0  # open elements within a drawing that contain HTML again
        self._preformatted = self._titles = 0
        self._links: list[str] = []
        self._raised: list[str] = []  # "sup" and "sub" elements that are open
        self._level = self._headings = 0
        self._in_columns = False  # the next table is a definition list
        self._after_code = -1  # the number of runs where a block's last code ended
        self._title: list[str] = []
        self._title_done = False
        self._row_cells = 0
        self._lists = self._closes = 0  # open definition lists; level of the one that ended last
        self._after_term = False  # the text written last is the term of a definition list
        self._defined: list[list[tuple[str, int, int]]] = []  # of each open list, its terms and definitions as runs
        self._tables: list[Table] = []
        self._marks = ItemMarks()

    # --- called by the parser --------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        self._elements += 1
        if self._elements > MAX_PAGE_ELEMENTS:
            raise too_much("elements", self._elements, MAX_PAGE_ELEMENTS)
        tag = self._tag_of(tag, attributes)
        element = _Element(tag)
        self._open.append(element)
        hidden = self._hidden
        if hidden is not None and (hidden.tag not in FOREIGN or tag not in BREAK_OUT or self._html_within):
            element.seen, element.html = False, tag in HTML_WITHIN
            self._html_within += element.html
            return
        self._hidden = None
        hides = self._hiding and bool(attributes) and is_hidden(tag, attributes)
        if tag in self._unseen or hides:
            self.has_hidden |= hides
            element.seen = False
            if tag == "math" and attributes.get("alttext"):
                self._text(attributes["alttext"])
            self._hidden, self._html_within = element, 0
        elif tag == "title":
            self._titles += 1
        else:
            if tag == "meta":
                self._see_meta(attributes)
            self._begin(element, attributes)

    def _tag_of(self, tag: str, attributes: Mapping[str, str]) -> str:
        """Return the tag of an element: that of a definition list for the table in which AsciiDoc sets one."""
        classes = (attributes.get("class") or "").split()
        if "hdlist" in classes:
            self._in_columns = True
        elif tag == "table" and self._in_columns:
            self._in_columns = False
            return "dl"
        elif tag == "td" and not {"hdlist1", "hdlist2"}.isdisjoint(classes):
            return "dt" if "hdlist1" in classes else "dd"
        return tag

    def _see_meta(self, attributes: Mapping[str, str]) -> None:
        content = (attributes.get("content") or "").lower()
        if (attributes.get("http-equiv") or "").lower() == "refresh":
            self._leads_on |= _LEADS_ON.match(content) is not None
        elif (attributes.get("name") or "").lower() == "robots":
            self._unlisted |= "noindex" in content

    def end(self, tag: str) -> None:
        """Handle the end of an element; the parser ends every one, even if the page does not."""
        element = self._open.pop() if self._open else _Element(tag)
        if not element.seen:
            self._html_within -= element.html
            if element is self._hidden:
                self._hidden = None
        elif tag == "title":
            self._titles = max(0, self._titles - 1)
            self._title_done = self._title_done or bool(self._title)
        else:
            self._finish(element)

    def data(self, text: str) -> None:
        """Handle text."""
        if self._hidden is not None:
            return
        if not self._titles:
            self._text(text)
        elif not self._title_done:
            self._title.append(text)

    def close(self) -> None:
        """Do nothing at the page's end; the parser requires this method."""

    # --- elements --------------------------------------------------------------------------------------------------

    def _begin(self, element: _Element, attributes: Mapping[str, str]) -> None:
        tag = element.tag
        self._separate(tag)
        if tag == "dt" and not self._after_term:  # terms that share a definition stay together
            self._gap = PARAGRAPH_GAP
        element.first = len(self.runs)
        level = 0
        if tag == "a":
            element.link = attributes.get("href") or ""
            self._links.append(element.link)
            if "noteref" in (attributes.get("epub:type") or "") or attributes.get("role") == "doc-noteref":
                element.raised = "sup"
        elif tag in _RAISED:
            element.raised = tag
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "table":
            if self._tables:
                self._tables[-1].nest()
            self._tables.append(Table(len(self.runs)))
        elif tag == "tr":
            self._row_cells = 0
            if self._tables:
                self._tables[-1].rows.append([])
        elif tag in CELLS:
            self._gap = max(self._gap, CELL_GAP) if self._row_cells else self._gap
            self._row_cells += 1
            element.gap = self._gap
            if self._tables:
                self._tables[-1].start_cell(tag, attributes, len(self.runs))
        elif tag in LISTS:
            self._marks.enter(tag, attributes)
        elif tag == "li":
            self._marks.begin(attributes)
        elif tag == "dl":
            self._lists += 1
            self._defined.append([])
        elif tag == "dt" and self._lists:
            level = TERM_LEVEL + self._lists - 1
        elif tag in _HEADINGS or attributes.get("role") == "heading":
            given = attributes.get("aria-level", "2")
            level = _HEADINGS.get(tag) or (int(given) if given.isdigit() and 0 < int(given) < 10 else 2)
        if element.raised:
            self._raised.append(element.raised)
        if tag == "code" and self._preformatted and self._after_code == len(self.runs):
            self._gap = max(self._gap, PARAGRAPH_GAP)  # the same code in another form
        if level:
            element.heading, self._level = True, level
            self._headings += 1
        if kind := zone_kind(tag, attributes):
            element.zone = True
            self._zones.enter(kind)

    def _finish(self, element: _Element) -> None:
        tag = element.tag
        if element.raised and self._raised:
            self._raised.pop()
        if tag == "a" and self._links:
            self._links.pop()
            self._drop_permalink(element)
        elif tag == "button" and (
            self._preformatted or (self._level and any(e.heading and e.first < element.first for e in self._open))
        ):
            del self.runs[element.first :]  # "Copy" beside a heading's text or in a block of code
        elif tag == "code" and self._preformatted:
            self._after_code = len(self.runs)
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
            if len(self.runs) > element.first:
                self.runs[-1].text = self.runs[-1].text.rstrip("\r\n")
        elif tag in CELLS:
            has_rows = bool(self._tables) and self._tables[-1].inner >= element.first
            if not has_rows and flatten_cell(self.runs, element.first, element.gap):
                self._gap = min(self._gap, CELL_GAP)
            elif not has_rows and element.first == len(self.runs):  # an empty paragraph in it parts no rows
                self._gap = element.gap
            if self._tables:
                self._tables[-1].end_cell(len(self.runs))
        elif tag in LISTS:
            self._marks.leave()
        elif tag == "li":
            self._marks.end()
        elif tag == "table" and self._tables:
            table = self._tables.pop()
            if self._tables and len(table.rows) > 1:
                self._tables[-1].inner = table.first
            level = TERM_LEVEL + self._lists
            if named := table.named(self.runs, level, self._headings):
                self.runs[table.first :] = named
                if (last := max(run.heading for run in named)) > self._headings:
                    self._headings, self._closes = last, level
        elif tag in ("dt", "dd"):
            self._after_term = tag == "dt" and len(self.runs) > element.first
            if self._defined:
                self._defined[-1].append((tag, element.first, len(self.runs)))
        elif tag == "dl":
            self._after_term = False
            self._lists = max(0, self._lists - 1)
            if not (self._defined and _label(self.runs, self._defined.pop())):
                self._closes = TERM_LEVEL + self._lists
        if element.heading:
            self._level = 0
        if element.zone:
            self._zones.leave()
        if tag not in NO_END:
            self._separate(tag)

    def _separate(self, tag: str) -> None:
        if tag == "br" and self._level:  # "Chapter One<br>The Keeper" is one heading
            tag, self._gap = "", max(self._gap, SPACE_GAP)
        elif tag == "button":
            self._gap = max(self._gap, SPACE_GAP)
        self._gap = max(self._gap, PARAGRAPH_GAP if tag in _PARAGRAPHS else LINE_GAP if tag in _LINES else 0)

    def _drop_permalink(self, element: _Element) -> None:
        """Drop links from a heading to itself (``¶``, ``#``) and back from a footnote (``↩``)."""
        text = "".join(run.text for run in self.runs[element.first :])
        if "#" in element.link and len(text) <= 4 and not any(letter.isalnum() for letter in text):
            self._gap = max(self._gap, *(run.gap for run in self.runs[element.first :]), 0)
            del self.runs[element.first :]

    # --- text ------------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        text = text.replace("\xad", "")
        if self._preformatted or self._spaces:
            self._emit(text)
            return
        collapsed = _SPACE.sub(" ", text)
        if collapsed.startswith(" "):
            self._gap = max(self._gap, SPACE_GAP)
        self._emit(collapsed.strip(" "))
        if collapsed.endswith(" ") and collapsed != " ":
            self._gap = max(self._gap, SPACE_GAP)

    def _emit(self, text: str) -> None:
        if not text:
            return
        if self._raised and self._gap == 0 and self.runs and _RAISED_NUMBER.fullmatch(text):
            text = _apart(self.runs[-1].text[-1:], text, self._raised[-1])
        if self._after_term:  # a term and its definition are one paragraph, so that no cut separates them
            self._gap, self._after_term = LINE_GAP, False
        if self._gap == 0 and self.runs and not self._preformatted:
            self._gap = self._gap_of_item(text)
        # office files have their own numbers, and no bullets: each line of a slide has one
        if not (self._level or self._preformatted or self._spaces or self._tables):
            text = self._marks.write(text)
        link = self._links[-1] if self._links else None
        heading, pre = self._headings if self._level else 0, self._preformatted > 0
        self.runs.append(TextRun(self._gap, text, self._zones.current, link, self._level, heading, pre, self._closes))
        self._gap = self._closes = 0

    def _gap_of_item(self, text: str) -> int:
        """Return the gap that a style sheet makes around the number of an item, as in by-laws: ``shall—(a)stand``."""
        last = self.runs[-1]
        if _ITEM.fullmatch(text):
            note = bool(self._raised or self._links)
            return LINE_GAP if not note and _BEFORE_ITEM.search(last.text) else 0
        starts = len(self.runs) == 1 or last.gap >= LINE_GAP
        return SPACE_GAP if starts and text[0].isalnum() and _ITEM.fullmatch(last.text) else 0

    def result(self) -> Extracted:
        """Return the page's text without its navigation; no segment of it if it only leads on to other pages.

        Such are the lists of chapters that generators make for frames and mark for search engines to leave out.
        """
        text, headings = join_runs(self.runs, self._zones.kept(self.runs))
        title = one_line("".join(self._title)) or next((h.label for h in headings if 0 < h.level < TERM_LEVEL), "")
        leads_on = self._leads_on and len(text) <= _LEADING_ON
        if self._unlisted:
            linked = sum(len(run.text) for run in self.runs if run.link)
            leads_on |= linked >= _ALL_LINKS * sum(len(run.text.strip()) for run in self.runs)
        return Extracted(text, title, tuple(headings), (Segment(0, 0),) if leads_on else ())
