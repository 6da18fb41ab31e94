"""Describe a quote's place for people: file, page, section, offsets in the file's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared_core.types import MetadataValue, Passage, Span


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a quote in its document.

    Attributes:
        source: the file's name, else the document's title, else the passage's id.
        page: as the document calls it (``3``, ``iv``), ``3–4`` for a quote that runs over a page's end; empty if the
            document has no pages.
        section: the headings above, outermost first; empty if there are none.
        start, end: code points in the file's text; ``None`` if the passage does not know its own place.

    >>> Place("manual.pdf", page="3", start=120, end=180).document
    'manual.pdf, p. 3'
    """

    source: str
    page: str = ""
    section: str = ""
    start: int | None = None
    end: int | None = None

    @property
    def document(self) -> str:
        """File and page: ``manual.pdf, p. 3``."""
        several = "pp." if "–" in self.page else "p."
        return f"{self.source}, {several} {self.page}" if self.page else self.source

    @property
    def offsets(self) -> str:
        """The place in the file's text: ``120-180``; empty if it is not known."""
        return "" if self.start is None or self.end is None else f"{self.start}-{self.end}"


def find_place(passage: Passage, span: Span | None = None, *, pages_from_zero: bool = False) -> Place:
    """Find the place of a passage, or of a span of it, in its document.

    The passage's metadata tell: ``source``, ``section``, ``start``; ``page_label`` or ``page``, and where it runs over
    a page's end ``page_end_label`` or ``page_end`` with ``page_break``, the place in its text where that page begins.

    Args:
        passage: of which.
        span: of the passage; ``None`` takes all of it.
        pages_from_zero: ``page`` counts from 0 unless there is a ``page_label``, as with LangChain's loaders.
    """
    metadata = passage.metadata
    start, end = (0, len(passage.text)) if span is None else (span.start, span.end)
    first = _page(metadata, "page", pages_from_zero)
    last = _page(metadata, "page_end", pages_from_zero)
    border = metadata.get("page_break")
    if first and last and first != last and isinstance(border, int):
        first, last = (first if start < border else last), (last if end > border else first)
    page = f"{first}–{last}" if first and last and first != last else first
    base = metadata.get("start")
    known = isinstance(base, int) and not isinstance(base, bool)
    offset = base if known and isinstance(base, int) else 0
    return Place(
        source=str(metadata.get("source") or passage.title or passage.id),
        page=page,
        section=str(metadata.get("section") or ""),
        start=offset + start if known else None,
        end=offset + end if known else None,
    )


def _page(metadata: Mapping[str, MetadataValue], name: str, from_zero: bool) -> str:
    label = metadata.get(f"{name}_label")
    if isinstance(label, (str, int)) and not isinstance(label, bool) and str(label).strip():
        return str(label).strip()
    number = metadata.get(name)
    if not isinstance(number, (int, str)) or isinstance(number, bool) or not str(number).strip():
        return ""
    return str(number + 1) if from_zero and isinstance(number, int) else str(number).strip()
