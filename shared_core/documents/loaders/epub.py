"""EPUB books: the pages of the spine, one after the other, read as HTML."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.documents.loaders.base import Extracted, Heading, Problem, damaged, decode, one_line
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.package import Package, local
from shared_core.errors import DocumentError

_BREAK = "\n\n"
_PAGES = frozenset(("application/xhtml+xml", "text/html"))


def load_epub(data: bytes, budget: Budget) -> Extracted:
    """A book: its chapters in reading order, without its table of contents; headings as in HTML.

    Raises:
        DocumentError: damaged, protected, or beyond the bounds of time and size.
        MissingDependencyError: lxml is not installed.
    """
    package = Package(data, "EPUB", budget)
    if "META-INF/encryption.xml" in package.names and "META-INF/rights.xml" in package.names:
        raise DocumentError("The EPUB is protected against copying.", hint="Leave it out.")
    container = _Container()
    package.parse("META-INF/container.xml", container)
    book = _Book()
    package.parse(container.root, book, typed=True)
    pieces: list[str] = []
    headings: list[Heading] = []
    problems: list[Problem] = []
    length = 0
    for reference in book.order:
        name = package.resolved(container.root, book.pages.get(reference, ""))
        if reference not in book.pages or reference in book.contents:
            continue
        try:
            found = read_html(decode(package.read(name)), budget)
        except DocumentError as error:
            if name in package.names:
                raise
            problems.append(Problem(f"{name} is missing from the book: {error.message}", "Get the book anew."))
            continue
        if not found.text.strip():
            continue
        length += len(_BREAK) if pieces else 0
        headings += [Heading(h.start + length, h.end + length, h.level, h.label) for h in found.headings]
        pieces.append(found.text)
        length += len(found.text)
    title = one_line(book.title) or (headings[0].label if headings else "")
    return Extracted(_BREAK.join(pieces), title, tuple(headings), problems=tuple(problems))


class _Container:
    """The container's paper: where the book's own stands."""

    def __init__(self) -> None:
        self.root = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """The first root file."""
        if local(tag) == "rootfile" and not self.root:
            self.root = attributes.get("full-path", "")

    def end(self, tag: str) -> None:
        """Nothing."""

    def data(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Refuse a container without a book."""
        if not self.root:
            raise damaged("EPUB", ValueError("its container names no book"))


class _Book:
    """The book's paper: its title, its pages by id, their order, and which are tables of contents."""

    def __init__(self) -> None:
        self.title = ""
        self.pages: dict[str, str] = {}
        self.order: list[str] = []
        self.contents: set[str] = set()
        self._in_title = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A page, its place, or the title."""
        name = local(tag)
        if name == "item" and attributes.get("media-type") in _PAGES:
            self.pages[attributes.get("id", "")] = attributes.get("href", "")
            if "nav" in attributes.get("properties", "").split():
                self.contents.add(attributes.get("id", ""))
        elif name == "itemref":
            self.order.append(attributes.get("idref", ""))
        self._in_title = name == "title" and not self.title

    def end(self, tag: str) -> None:
        """The title's end."""
        self._in_title = False

    def data(self, text: str) -> None:
        """The title."""
        if self._in_title:
            self.title += text

    def close(self) -> None:
        """The end."""
