"""Read the content of web pages in order: blocks as paragraphs, tables row by row (``html_tables``).

libxml2 (through lxml) parses the page as a stream of tags, fed in pieces: time grows with the page's length and is
checked on the way, and no tree of the page is held in memory. ``html_zones`` separates content from navigation at the
end.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping

from shared_core.documents.loaders.extracted import TERM_LEVEL, Extracted, Heading, decode, one_line, without_surrogates
from shared_core.documents.loaders.html_tables import CELL_LETTERS, CELLS, Tables
from shared_core.documents.loaders.html_zones import TextRun, Zones, zone_kind
from shared_core.documents.loaders.limits import CHUNK, Budget, too_much
from shared_core.errors import DocumentError, MissingDependencyError

MAX_PAGE_ELEMENTS = 2_000_000
_SPACE = re.compile(r"[ \t\r\n\f]+")
_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([a-zA-Z0-9_.:-]+)|<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']+)""",
    re.IGNORECASE,
)
_DECLARED_WITHIN = 4096
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PARAGRAPHS = frozenset(
    (
        "address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dialog", "dir", "div",
        "dl", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
        "hgroup", "hr", "html", "legend", "main", "menu", "nav", "ol", "p", "pre", "section", "summary", "table", "ul",
    )
)  # fmt: skip
_LINES = frozenset(("br", "dd", "dt", "li", "option", "tr"))
_FOREIGN = frozenset(("svg", "math"))
_UNSEEN = frozenset(
    (
        "script", "style", "template", "noscript", "iframe", "noembed", "noframes", "object", "canvas", "audio",
        "video", "select", "datalist", "textarea", *_FOREIGN,
    )
)  # fmt: skip
# Elements that close an unclosed drawing or formula (the HTML standard, "parsing foreign content").
_BREAK_OUT = frozenset(
    (
        "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
        "img", "li", "main", "ol", "p", "pre", "section", "table", "ul",
    )
)  # fmt: skip
_HTML_WITHIN = frozenset(("foreignobject", "annotation-xml", "desc"))
_NO_END = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"))
_SEPARATORS = ("", " ", "\t", "\n", "\n\n")  # the strongest one wins where several meet
_INLINE_SPACE, _CELL, _LINE, _PARAGRAPH = 1, 2, 3, 4


def load_html(data: bytes, fallback: str | None, budget: Budget) -> Extracted:
    """Read an HTML page. Its title is ``<title>``, else the first heading.

    Raises:
        DocumentError: not text, more than two million elements, or the time is used up.
        MissingDependencyError: lxml is not installed.
    """
    text = decode(data, declared=_declared_encoding(data), fallback=fallback)
    return read_html(text, budget)


def read_html(text: str, budget: Budget, *, spaces: bool = False) -> Extracted:
    """Read an HTML page that is decoded already; ``spaces``: all its white space counts. Raises as ``load_html``."""
    try:
        from lxml import etree
    except ImportError as error:
        raise MissingDependencyError("lxml", extra="documents", purpose="Reading HTML files") from error
    target = _PageReader(objects_end=_objects_end(text), spaces=spaces)
    parser = etree.HTMLParser(target=target, huge_tree=True)
    text = without_surrogates(text)
    try:
        for start in range(0, len(text), CHUNK):
            budget.check()
            parser.feed(text[start : start + CHUNK])
        parser.close()
    except etree.LxmlError as error:
        if not target.runs:  # an empty page, or nothing but comments
            return Extracted("")
        raise DocumentError(
            f"The HTML cannot be parsed: {one_line(str(error))[:200]}", hint="Open it in a browser and save it again."
        ) from error
    return target.result()


def _declared_encoding(data: bytes) -> str | None:
    match = _META_CHARSET.search(data, 0, _DECLARED_WITHIN)
    if match is None:
        return None
    name = (match.group(1) or match.group(2)).decode("ascii", "replace").lower()
    # As browsers do (WHATWG Encoding Standard, "names and labels"): pages that declare Latin-1 use its superset.
    name = "cp1252" if name in {"iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii"} else name
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def _objects_end(text: str) -> bool:
    """Return whether each ``<object>`` has its end tag; an open one would make the rest of the page its fallback."""
    lowered = text.lower() if "<obj" in text or "<OBJ" in text or "<Obj" in text else ""
    return lowered.count("<object") <= lowered.count("</object")


class _Element:
    """An open element and the state to restore at its end."""

    __slots__ = ("first_run", "gap", "heading", "link", "seen", "tag", "within_html", "zone")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.zone = -1
        self.seen = True
        self.heading = self.within_html = False
        self.link = ""
        self.first_run = self.gap = 0


class _PageReader:
    """Target of lxml's parser: converts tags and text to runs of text, each with its zone and the gap before it."""

    def __init__(self, *, objects_end: bool, spaces: bool) -> None:
        self.runs: list[TextRun] = []
        self.zones = Zones()
        self._unseen = _UNSEEN if objects_end else _UNSEEN - {"object"}
        self._spaces = spaces
        self._open: list[_Element] = []
        self._elements = 0
        self._gap = 0  # index into _SEPARATORS: the separator due before the next text
        self._hidden: _Element | None = None  # the outermost open element whose content is not shown
        self._html_within = 0  # open elements within a drawing that contain HTML again
        self._preformatted = self._titles = 0
        self._links: list[str] = []
        self._level = self._headings = 0
        self._title: list[str] = []
        self._title_done = False
        self._row_cells = 0
        self._lists = self._closes = 0  # open definition lists; level of the one that ended last
        self._after_term = False  # the text written last is the term of a definition list
        self._tables = Tables()

    # --- called by the parser --------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        self._elements += 1
        if self._elements > MAX_PAGE_ELEMENTS:
            raise too_much("elements", self._elements, MAX_PAGE_ELEMENTS)
        element = _Element(tag)
        self._open.append(element)
        if self._hidden is not None and not (
            self._hidden.tag in _FOREIGN and tag in _BREAK_OUT and not self._html_within
        ):
            element.seen = False
            element.within_html = tag in _HTML_WITHIN
            self._html_within += element.within_html
            return
        self._hidden = None
        if tag in self._unseen:
            element.seen = False
            if tag == "math" and attributes.get("alttext"):
                self._text(attributes["alttext"])
            self._hidden, self._html_within = element, 0
        elif tag == "title":
            self._titles += 1
        else:
            self._begin(element, attributes)

    def end(self, tag: str) -> None:
        """Handle the end of an element; the parser ends every one, even if the page does not."""
        element = self._open.pop() if self._open else _Element(tag)
        if not element.seen:
            self._html_within -= element.within_html
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

    def comment(self, text: str) -> None:
        """Ignore comments."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Ignore processing instructions."""

    def close(self) -> None:
        """Do nothing at the page's end; the parser requires this method."""

    # --- elements --------------------------------------------------------------------------------------------------

    def _begin(self, element: _Element, attributes: Mapping[str, str]) -> None:
        tag = element.tag
        self._separate(tag)
        if tag == "dt" and not self._after_term:  # terms that share a definition stay together
            self._gap = _PARAGRAPH
        element.first_run = len(self.runs)
        self._tables.start(tag, attributes, self.runs)
        if tag == "a":
            element.link = attributes.get("href") or ""
            self._links.append(element.link)
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "tr":
            self._row_cells = 0
        elif tag in CELLS:
            self._gap = max(self._gap, _CELL) if self._row_cells else self._gap
            self._row_cells += 1
            element.gap = self._gap
        elif tag == "dl":
            self._lists += 1
        elif tag == "dt" and self._lists:
            element.heading = True
            self._headings += 1
            self._level = TERM_LEVEL + self._lists - 1
        elif tag in _HEADINGS or attributes.get("role") == "heading":
            level = attributes.get("aria-level", "2")
            element.heading = True
            self._headings += 1
            self._level = _HEADINGS.get(tag) or (int(level) if level.isdigit() and 0 < int(level) < 10 else 2)
        kind = zone_kind(tag, attributes)
        if kind:
            element.zone = self.zones.enter(kind)

    def _finish(self, element: _Element) -> None:
        tag = element.tag
        if tag == "a" and self._links:
            self._links.pop()
            self._drop_permalink(element)
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
            if len(self.runs) > element.first_run:
                self.runs[-1].text = self.runs[-1].text.rstrip("\r\n")
        elif tag in CELLS:
            self._close_cell(element)
        elif tag == "dt":
            self._after_term = len(self.runs) > element.first_run
        elif tag == "dl":
            self._after_term = False
            self._lists = max(0, self._lists - 1)
            self._closes = TERM_LEVEL + self._lists
        self._tables.end(tag, self.runs)
        if element.heading:
            self._level = 0
        if element.zone >= 0:
            self.zones.leave()
        if tag not in _NO_END:
            self._separate(tag)

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._gap = _PARAGRAPH
        elif tag in _LINES:
            self._gap = max(self._gap, _LINE)

    def _drop_permalink(self, element: _Element) -> None:
        """Drop links from a heading to itself (``¶``, ``#``) and back from a footnote (``↩``)."""
        text = "".join(run.text for run in self.runs[element.first_run :])
        if "#" in element.link and len(text) <= 4 and not any(letter.isalnum() for letter in text):
            for run in self.runs[element.first_run :]:
                self._gap = max(self._gap, run.gap)
            del self.runs[element.first_run :]

    def _close_cell(self, element: _Element) -> None:
        """Put a short cell on one line, whatever blocks are in it; a long one is layout and keeps them."""
        runs = self.runs[element.first_run :]
        if not runs or any(run.level or run.preformatted for run in runs):
            return
        if sum(len(run.text) for run in runs) <= CELL_LETTERS:
            runs[0].gap = min(runs[0].gap, element.gap) if element.gap else runs[0].gap
            for run in runs[1:]:
                run.gap = min(run.gap, _INLINE_SPACE)
            self._gap = min(self._gap, _CELL)

    # --- text ------------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        text = text.replace("\xad", "")
        if self._preformatted or self._spaces:
            self._emit(text)
            return
        collapsed = _SPACE.sub(" ", text)
        if collapsed.startswith(" "):
            self._gap = max(self._gap, _INLINE_SPACE)
        self._emit(collapsed.strip(" "))
        if collapsed.endswith(" ") and collapsed != " ":
            self._gap = max(self._gap, _INLINE_SPACE)

    def _emit(self, text: str) -> None:
        if not text:
            return
        if self._after_term:  # a term and its definition are one paragraph, so that no cut separates them
            self._gap, self._after_term = _LINE, False
        link = self._links[-1] if self._links else None
        kept = self._headings if self._level else 0
        run = TextRun(self._gap, text, self.zones.current, link, self._level, kept, self._preformatted > 0)
        run.closes, self._gap, self._closes = self._closes, 0, 0
        self.runs.append(run)

    def result(self) -> Extracted:
        """Return the page's text without its navigation."""
        written = _Written()
        gap = closes = 0
        for run, keep in zip(self.runs, self.zones.kept(self.runs), strict=True):
            gap = max(gap, run.gap)
            closes = min(closes or run.closes, run.closes or closes)
            if keep:
                written.add(run, gap, closes)
                gap = closes = 0
            else:
                gap = max(gap, _LINE)
        title = one_line("".join(self._title))
        text, headings = written.finish()
        first = next((h.label for h in headings if h.level < TERM_LEVEL), "")
        return Extracted(text, title or first, headings)


class _Written:
    """The text so far; counts code points, so that headings get their offsets."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._heading: TextRun | None = None  # the first run of the open heading
        self._start = self._first_piece = 0
        self._headings: list[Heading] = []

    def add(self, run: TextRun, gap: int, closes: int) -> None:
        """Add a run with the separator before it; headings of level ``closes`` and below end there, if it is not 0."""
        if self._heading is not None and run.heading != self._heading.heading:
            self._end_heading()
        self._write(_SEPARATORS[gap] if self._pieces else "")
        if closes and not run.heading:
            self._headings.append(Heading(self._length, self._length, closes, ""))
        if run.heading and self._heading is None:
            self._heading, self._start, self._first_piece = run, self._length, len(self._pieces)
        self._write(run.text.lstrip("\r\n") if gap == _PARAGRAPH else run.text)

    def finish(self) -> tuple[str, tuple[Heading, ...]]:
        """Return the text and its headings."""
        self._end_heading()
        return "".join(self._pieces), tuple(self._headings)

    def _write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._length += len(text)

    def _end_heading(self) -> None:
        if self._heading is not None:
            label = one_line("".join(self._pieces[self._first_piece :]))
            if label:
                self._headings.append(Heading(self._start, self._length, self._heading.level, label))
            self._heading = None
