"""Word documents (DOCX), OpenDocument texts (ODT) and presentations (PPTX), read as streams of XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from shared_core.documents.loaders.base import (
    Extracted,
    Heading,
    Page,
    first_line_title,
    is_no_title,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.docx import DocxReader, DocxStyles
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.odt import OdtReader
from shared_core.documents.loaders.package import Package, local
from shared_core.documents.loaders.pptx import SlideReader

_BREAK = "\n\n"
_NUMBER = re.compile(r"\d+")


def load_docx(data: bytes, budget: Budget) -> Extracted:
    """A Word document: paragraphs and tables of its body in order (``table_text``), then its notes.

    Headings are told by style or outline level. Tables of contents, headers, footers, comments, deleted and hidden text
    are not read. A text of the most that is unpacked (128 MiB) takes some seconds and its own length in memory.

    Raises:
        DocumentError: damaged, protected by a password, of the old ``.doc`` kind, or beyond the bounds.
        MissingDependencyError: lxml is not installed.
    """
    package = Package(data, "DOCX", budget)
    main = _related(package, "", "officeDocument") or "word/document.xml"
    styles = DocxStyles()
    if (named := _related(package, main, "styles")) and named in package.names:
        package.parse(named, styles)
    reader = DocxReader(styles)
    package.parse(main, reader)
    for notes in ("footnotes", "endnotes"):
        if (named := _related(package, main, notes)) and named in package.names:
            package.parse(named, reader)
    return _put_together(reader.blocks, _property(package, "docProps/core.xml", "title"))


def load_odt(data: bytes, budget: Budget) -> Extracted:
    """An OpenDocument text: paragraphs, headings, lists and tables in order, then its notes.

    Raises as ``load_docx`` does.
    """
    package = Package(data, "ODT", budget)
    if "META-INF/manifest.xml" in package.names:
        package.parse("META-INF/manifest.xml", _Manifest())
    reader = OdtReader()
    package.parse("content.xml", reader)
    return _put_together(reader.blocks, _property(package, "meta.xml", "title"))


def load_pptx(data: bytes, budget: Budget) -> Extracted:
    """A presentation: the text of each slide in their order; slides are its pages. Raises as ``load_docx``."""
    package = Package(data, "PPTX", budget)
    main = _related(package, "", "officeDocument") or "ppt/presentation.xml"
    order = _Slides()
    package.parse(main, order)
    targets = _relations(package, main)
    slides = [targets[i] for i in order.ids if i in targets]
    blocks: list[tuple[str, int]] = []
    begins: list[tuple[int, int]] = []  # (index of a slide's first block, the slide's number)
    for number, slide in enumerate(slides, 1):
        reader = SlideReader()
        package.parse(slide, reader)
        if reader.blocks:
            begins.append((len(blocks), number))
            blocks += reader.blocks
    found = _put_together(blocks, _property(package, "docProps/core.xml", "title"))
    starts = _starts(text for text, _ in blocks)
    return Extracted(
        found.text, found.title, found.headings, pages=tuple(Page(starts[i], number) for i, number in begins)
    )


def _put_together(blocks: Iterable[tuple[str, int]], title: str) -> Extracted:
    """The text of (paragraph, heading level or 0)."""
    pieces: list[str] = []
    headings: list[Heading] = []
    length = 0
    for text, level in blocks:
        if pieces:
            length += len(_BREAK)
        if level:
            headings.append(Heading(length, length + len(text), level, one_line(text)))
        pieces.append(text)
        length += len(text)
    whole = _BREAK.join(pieces)
    title = one_line(without_surrogates(title))
    if not title or is_no_title(title):
        title = headings[0].label if headings else first_line_title(whole)
    return Extracted(whole, title, tuple(headings))


def _starts(texts: Iterable[str]) -> list[int]:
    starts, length = [], 0
    for text in texts:
        starts.append(length)
        length += len(text) + len(_BREAK)
    return starts


# --- the package's own papers --------------------------------------------------------------------------------------


class _Collector:
    """A target that hears of elements and of nothing else."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""

    def end(self, tag: str) -> None:
        """An element ends."""

    def data(self, text: str) -> None:
        """Text."""

    def close(self) -> None:
        """The end."""


class _Relations(_Collector):
    def __init__(self) -> None:
        self.found: list[tuple[str, str, str]] = []  # id, type, target

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """One relation."""
        if local(tag) == "Relationship" and attributes.get("TargetMode") != "External":
            self.found.append((attributes.get("Id", ""), attributes.get("Type", ""), attributes.get("Target", "")))


class _Slides(_Collector):
    def __init__(self) -> None:
        self.ids: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """The slides, by the ids of relations."""
        if local(tag) == "sldId":
            self.ids.append(next((v for k, v in attributes.items() if k.endswith("}id")), ""))


class _Manifest(_Collector):
    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Refuse an encrypted document."""
        if local(tag) == "encryption-data":
            from shared_core.errors import DocumentError

            raise DocumentError("The ODT is protected by a password.", hint="Save a copy without the password.")


class _Property(_Collector):
    def __init__(self, name: str) -> None:
        self._name, self._within = name, False
        self.value = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """The property begins."""
        self._within = local(tag) == self._name

    def end(self, tag: str) -> None:
        """The property ends."""
        self._within = False

    def data(self, text: str) -> None:
        """Its value."""
        if self._within:
            self.value += text


def _relations_of(package: Package, member: str) -> list[tuple[str, str, str]]:
    folder, _, name = member.rpartition("/")
    papers = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
    if papers not in package.names:
        return []
    relations = _Relations()
    package.parse(papers, relations)
    return [(i, kind, package.resolved(member, target)) for i, kind, target in relations.found]


def _related(package: Package, member: str, kind: str) -> str:
    """The member that stands in a relation to another; empty if there is none."""
    return next((target for _, type_, target in _relations_of(package, member) if type_.endswith(f"/{kind}")), "")


def _relations(package: Package, member: str) -> dict[str, str]:
    return {i: target for i, _, target in _relations_of(package, member) if target in package.names}


def _property(package: Package, member: str, name: str) -> str:
    if member not in package.names:
        return ""
    reader = _Property(name)
    package.parse(member, reader)
    return reader.value
