"""HTML: the visible text in reading order, blocks as paragraphs.

The page is read as a stream of tags by the standard library's parser: memory stays proportional to the text, which a
tree of a large page would not.
"""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser

from shared_core.errors import DocumentError
from shared_core.retrieval.loaders.base import Extracted, Heading, decode, one_line, without_surrogates

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
_CELLS = frozenset(("td", "th"))
_UNSEEN = frozenset(
    ("script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas", "audio", "video")
)
_SEPARATORS = ("", " ", "\t", "\n", "\n\n")  # the stronger one wins where several meet


def load_html(data: bytes, fallback: str | None) -> Extracted:
    """An HTML page. Its title is ``<title>``, else the first heading."""
    text = decode(data, declared=_declared_encoding(data), fallback=fallback)
    parser = _TextExtractor()
    try:
        parser.feed(text)
        parser.close()
    except (AssertionError, ValueError) as error:  # broken markup declarations
        raise DocumentError(
            f"The HTML cannot be parsed: {error}", hint="Open it in a browser and save it again."
        ) from error
    return parser.result()


def _declared_encoding(data: bytes) -> str | None:
    match = _META_CHARSET.search(data, 0, _DECLARED_WITHIN)
    if match is None:
        return None
    name = (match.group(1) or match.group(2)).decode("ascii", "replace").lower()
    # As browsers do (WHATWG Encoding Standard, "names and labels"): pages that say Latin-1 are in its superset.
    name = "cp1252" if name in {"iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii"} else name
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


class _TextExtractor(HTMLParser):
    """Collects text, keeping count of code points so that headings get their offsets."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self._length = 0
        self._gap = 0  # index into _SEPARATORS of what has to stand before the next text
        self._preformatted = 0
        self._unseen: list[str] = []
        self._title: list[str] | None = None
        self._title_text = ""
        self._heading: tuple[int, int | None, int] | None = None  # level, start, index of its first piece
        self._headings: list[Heading] = []

    def result(self) -> Extracted:
        """All that was found."""
        self._end_title()
        self._end_heading()
        title = self._title_text or (self._headings[0].label if self._headings else "")
        return Extracted("".join(self._pieces), title, tuple(self._headings))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Separate blocks; note where a heading begins."""
        if tag in _UNSEEN:
            self._unseen.append(tag)
        if self._unseen:
            return
        if tag == "title" and not self._title_text:
            self._title = []
            return
        self._separate(tag)
        if tag == "pre":
            self._preformatted += 1
        if tag in _HEADINGS:
            self._heading = (_HEADINGS[tag], None, len(self._pieces))

    def handle_endtag(self, tag: str) -> None:
        """Separate blocks; note where a heading ends."""
        if self._unseen:
            if tag in self._unseen:  # what was opened within and never closed ends with it
                del self._unseen[len(self._unseen) - 1 - self._unseen[::-1].index(tag) :]
            return
        if tag == "title":
            self._end_title()
            return
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        self._separate(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """``<br/>``, and ``<svg/>`` that never gets an end tag."""
        if tag not in _UNSEEN:
            self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        """Text between tags."""
        data = without_surrogates(data)
        if self._unseen:
            return
        if self._title is not None:
            self._title.append(data)
        elif self._preformatted:
            self._emit(data)
        else:
            self._emit_collapsed(data)

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._end_title()
            self._end_heading()
            self._gap = 4
        elif tag in _LINES:
            self._gap = max(self._gap, 3)
        elif tag in _CELLS:
            self._gap = max(self._gap, 2)

    def _emit_collapsed(self, data: str) -> None:
        collapsed = _SPACE.sub(" ", data)
        if collapsed.startswith(" "):
            self._gap = max(self._gap, 1)
        self._emit(collapsed.strip(" "))
        if collapsed.endswith(" ") and collapsed != " ":
            self._gap = max(self._gap, 1)

    def _emit(self, data: str) -> None:
        if not data:
            return
        gap = _SEPARATORS[self._gap] if self._pieces else ""
        self._gap = 0
        for piece in (gap, data):
            if piece:
                self._pieces.append(piece)
                self._length += len(piece)
        if self._heading and self._heading[1] is None:
            self._heading = (self._heading[0], self._length - len(data), len(self._pieces) - 1)

    def _end_title(self) -> None:
        if self._title is not None:
            self._title_text = one_line("".join(self._title))
            self._title = None

    def _end_heading(self) -> None:
        if self._heading and self._heading[1] is not None:
            level, start, piece = self._heading
            label = one_line("".join(self._pieces[piece:]))
            if label and start is not None:
                self._headings.append(Heading(start, self._length, level, label))
        self._heading = None
