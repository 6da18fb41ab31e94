"""Read EPUB books: the pages of the spine in order, each as HTML."""

from __future__ import annotations

from shared_core.documents.loaders.archive import Archive, resolved
from shared_core.documents.loaders.extracted import Extracted, Heading, Problem, damaged, decode, one_line
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.limits import Budget
from shared_core.errors import DocumentError

_BREAK = "\n\n"
_PAGES = frozenset(("application/xhtml+xml", "text/html"))


def read_epub(data: bytes, budget: Budget) -> Extracted:
    """Read a book: its chapters in order, without its table of contents; headings as in HTML.

    Raises:
        DocumentError: damaged, protected, or beyond the limits of time and size.
    """
    archive = Archive(data, "EPUB", budget)
    if {"META-INF/encryption.xml", "META-INF/rights.xml"} <= archive.names:
        raise DocumentError("The EPUB is protected against copying.", hint="Leave it out.")
    container = archive.tree("META-INF/container.xml").find(".//{*}rootfile")
    root = "" if container is None else container.get("full-path", "")
    if not root:
        raise damaged("EPUB", ValueError("its container names no book"))
    book = archive.tree(root, typed=True)
    hrefs = {
        item.get("id", ""): item.get("href", "")
        for item in book.iter("{*}item")
        if item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split()
    }
    pieces: list[str] = []
    headings: list[Heading] = []
    problems: list[Problem] = []
    length = 0
    for reference in (entry.get("idref", "") for entry in book.iter("{*}itemref")):
        if reference not in hrefs:
            continue
        name = resolved(root, hrefs[reference])
        if name not in archive.names:
            problems.append(Problem(f"{name} is missing from the book", "Get the book again."))
            continue
        found = read_html(decode(b"".join(archive.chunks(name))), budget)
        if found.text.strip():
            length += len(_BREAK) if pieces else 0
            headings += [Heading(h.start + length, h.end + length, h.level, h.label) for h in found.headings]
            pieces.append(found.text)
            length += len(found.text)
    title = one_line(book.findtext(".//{*}title") or "") or (headings[0].label if headings else "")
    return Extracted(_BREAK.join(pieces), title, tuple(headings), problems=tuple(problems))
