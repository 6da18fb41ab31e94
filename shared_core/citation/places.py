"""Tell people where a quote is: source, page, section, and the place in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

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
    offset = base if isinstance(base, int) and not isinstance(base, bool) else None
    return Place(
        source=str(metadata.get("source") or passage.title or passage.id),
        page=page,
        section=str(metadata.get("section") or ""),
        start=None if offset is None else offset + start,
        end=None if offset is None else offset + end,
    )


def range_in_file(metadata: Mapping[str, object], length: int, offset: int | None = None) -> tuple[int, int] | None:
    """Return start and end of a text in the text of its file, by those that our loaders write; ``None`` if unknown.

    >>> passage = {"source": "a.md", "start": 100, "end": 140}
    >>> range_in_file(passage, 40), range_in_file(passage, 10, 5), range_in_file(passage, 10)
    ((100, 140), (105, 115), None)

    Args:
        metadata: of a passage, or of a piece into which it was cut.
        length: of the text, in code points.
        offset: of the piece in the passage, if it is known.
    """
    first, last = metadata.get("start"), metadata.get("end")
    if not is_offset(first) or not is_offset(last):
        return None
    if last - first == length:
        return first, last
    # Others have a ``start`` of their own (of a video, say); ours stands beside the file.
    if metadata.get("source") and offset is not None and 0 <= offset <= last - first - length:
        return first + offset, first + offset + length
    return None


def is_offset(value: object) -> TypeGuard[int]:
    """Return whether a value of the metadata may be an offset: a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _page(metadata: Mapping[str, MetadataValue], name: str, from_zero: bool) -> str:
    if label := _shown(metadata.get(f"{name}_label")):
        return label
    number = metadata.get(name)
    if from_zero and isinstance(number, int) and not isinstance(number, bool):
        return str(number + 1)
    return _shown(number)


def _shown(value: object) -> str:
    """A number or a text of the metadata, to show; empty for anything else."""
    return str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
