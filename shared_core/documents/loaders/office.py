"""Read Word documents (DOCX), OpenDocument texts (ODT) and presentations (PPTX).

In all three, paragraphs and tables nest in the same way, so one walk over the tree of elements reads them; ``_ROLES``
lists the elements that matter. Specifications: ECMA-376 part 1 (WordprocessingML, DrawingML), OASIS OpenDocument 1.3
part 3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from shared_core.documents.loaders.archive import Archive, attribute
from shared_core.documents.loaders.extracted import (
    Extracted,
    Heading,
    Page,
    first_line_title,
    is_no_title,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.tables import table_text
from shared_core.errors import DocumentError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_BREAK = "\n\n"
_OOXML = "http://schemas.openxmlformats.org/{}/2006/main", "http://purl.oclc.org/ooxml/{}/main"  # transitional, strict
_WORD, _DRAWING, _SLIDE = (
    tuple(space.format(name) for space in _OOXML) for name in ("wordprocessingml", "drawingml", "presentationml")
)
_ODT_TEXT = ("urn:oasis:names:tc:opendocument:xmlns:text:1.0",)
_ODT_TABLE = ("urn:oasis:names:tc:opendocument:xmlns:table:1.0",)
_ODT_OTHER = tuple(f"urn:oasis:names:tc:opendocument:xmlns:{n}:1.0" for n in ("office", "drawing", "form", "script"))
_COMPATIBILITY = ("http://schemas.openxmlformats.org/markup-compatibility/2006",)
_SVG, _MATH = ("urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0",), ("http://www.w3.org/1998/Math/MathML",)


def _named(namespaces: Sequence[str], **names: str) -> dict[str, str]:
    """Map each qualified tag to its role; ``names`` gives the tags of a role, separated by spaces."""
    return {f"{{{space}}}{tag}": role for space in namespaces for role, tags in names.items() for tag in tags.split()}


# A skipped element is left out with all within it; an element without a role only passes on what is within it.
_ROLES = {
    **_named(
        _WORD, paragraph="p", run="r", text="t", tab="tab ptab", newline="br cr", hyphen="noBreakHyphen", table="tbl",
        row="tr", cell="tc", box="sdt", note="footnote endnote",
        skipped="del moveFrom instrText delText pPr rPr tblPr sectPr rt",
    ),
    **_named(_DRAWING, paragraph="p", text="t", newline="br", table="tbl", row="tr", cell="tc"),
    **_named(_SLIDE, shape="sp"),
    **_named(
        _ODT_TEXT, paragraph="p h", spaces="s", tab="tab", newline="line-break", notes="note-body",
        skipped="tracked-changes table-of-content alphabetical-index illustration-index table-index object-index "
        "user-index note-citation sequence-decls ruby-text",
    ),
    **_named(_ODT_TABLE, table="table", row="table-row", cell="table-cell"),
    **_named(_ODT_OTHER, skipped="annotation forms script"),
    **_named(_COMPATIBILITY, skipped="Fallback"), **_named(_SVG, skipped="title desc"), **_named(_MATH, skipped="math"),
}  # fmt: skip
_LETTERS = {"tab": "\t", "newline": "\n", "hyphen": "-"}
_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
_CONTENTS = re.compile(r"toc (\d|heading)|table of (figures|authorities)", re.IGNORECASE)
_GALLERY = "Table of Contents"
_OFF = frozenset(("0", "false", "off", "none"))
_SLIDE_TITLES = frozenset(("title", "ctrTitle"))
_ON_EACH_SLIDE = frozenset(("ftr", "hdr", "sldNum", "dt"))
_MAX_SPACES = 100


def read_docx(data: bytes, budget: Budget) -> Extracted:
    """Read a Word document: paragraphs and tables of its body in order, then its notes.

    Styles and outline levels tell headings. Tables of contents, headers, footers, comments, deleted and hidden text
    are left out.

    Raises:
        DocumentError: damaged, protected by a password, in the old ``.doc`` format, or beyond the limits.
    """
    archive = Archive(data, "DOCX", budget)
    main = archive.related("", "officeDocument") or "word/document.xml"
    styles = archive.related(main, "styles")
    reader = _DocxText(archive.tree(styles) if styles else None)
    reader.walk(archive.tree(main))
    for notes in (archive.related(main, "footnotes"), archive.related(main, "endnotes")):
        if notes:
            reader.walk(archive.tree(notes))
    return _put_together(reader.blocks, archive.title("docProps/core.xml"))


def read_odt(data: bytes, budget: Budget) -> Extracted:
    """Read an OpenDocument text: paragraphs, headings, lists and tables in order, then its notes.

    Raises:
        DocumentError: as for ``read_docx``.
    """
    archive = Archive(data, "ODT", budget)
    manifest = "META-INF/manifest.xml"
    if manifest in archive.names and next(archive.tree(manifest).iter("{*}encryption-data"), None) is not None:
        raise DocumentError("The ODT is protected by a password.", hint="Save a copy without the password.")
    reader = _OdtText()
    reader.walk(archive.tree("content.xml"))
    return _put_together([*reader.blocks, *reader.notes], archive.title("meta.xml"))


def read_pptx(data: bytes, budget: Budget) -> Extracted:
    """Read a presentation: the text of its slides in order; each slide is a page.

    Raises:
        DocumentError: as for ``read_docx``.
    """
    archive = Archive(data, "PPTX", budget)
    main = archive.related("", "officeDocument") or "ppt/presentation.xml"
    slides = {relation.id: relation.target for relation in archive.relations(main) if relation.target in archive.names}
    order = [_relation_id(entry) for entry in archive.tree(main).iter("{*}sldId")]
    blocks: list[tuple[str, int]] = []
    begins: list[tuple[int, int]] = []  # (index of a slide's first block, the slide's number)
    for number, slide in enumerate((slides[i] for i in order if i in slides), 1):
        reader = _SlideText()
        reader.walk(archive.tree(slide))
        if reader.blocks:
            begins.append((len(blocks), number))
            blocks += reader.blocks
    found = _put_together(blocks, archive.title("docProps/core.xml"))
    starts = [0]
    for text, _ in blocks:
        starts.append(starts[-1] + len(text) + len(_BREAK))
    pages = tuple(Page(starts[i], number) for i, number in begins)
    return Extracted(found.text, found.title, found.headings, pages=pages)


def _relation_id(entry: Element) -> str:
    # The element also has a plain "id" of its own; the relation's is the one in a namespace.
    return next((str(value) for key, value in entry.attrib.items() if str(key).endswith("}id")), "")


class _Text:
    """Gathers the text of a tree as ``blocks``: (paragraph or table, heading level or 0)."""

    mixed: ClassVar[bool] = False  # whether text may be next to elements (ODT), not only in elements of its own

    def __init__(self) -> None:
        self.blocks: list[tuple[str, int]] = []
        self._open: list[list[str]] = []  # pieces of the open paragraphs: a text box stands within a paragraph
        self._tables: list[list[list[list[str]]]] = []  # open tables, innermost last: rows of cells of texts

    def walk(self, element: Element) -> None:
        """Read an element with all within it."""
        role = _ROLES.get(element.tag, "")
        if role == "skipped":
            return
        if role in _LETTERS:
            self._add(_LETTERS[role])
        elif role == "text":
            self._add(element.text or "")
        elif role == "spaces":
            count = attribute(element, "c", "1")
            self._add(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))
        elif role == "paragraph":
            self._open.append([])
            self.within(element)
            text, level = "".join(self._open.pop()), self.level(element)
            if level is not None:
                self._block(text, level)
        elif role == "table":
            self._tables.append([])
            self.within(element)
            rows = self._tables.pop()
            self._block(table_text([[" ".join(one_line(t) for t in cell) for cell in row] for row in rows]), 0)
        else:
            if role == "row" and self._tables:
                self._tables[-1].append([])
            elif role == "cell" and self._tables and self._tables[-1]:
                self._tables[-1][-1].append([])
            self.within(element)

    def within(self, element: Element) -> None:
        """Read what is within an element."""
        if self.mixed:
            self._add(_collapsed(element.text))
        for child in element:
            self.walk(child)
            if self.mixed:
                self._add(_collapsed(child.tail))

    def level(self, paragraph: Element) -> int | None:
        """Return the heading level of a paragraph, 0 for plain text, ``None`` to leave it out."""
        return 0

    def _add(self, text: str) -> None:
        if self._open and text:
            self._open[-1].append(text)

    def _block(self, text: str, level: int) -> None:
        """Add a paragraph or a table to the cell that holds it, or else to the document."""
        text = text.strip(" \t\n")
        if not text:
            return
        if self._tables and self._tables[-1] and self._tables[-1][-1]:
            self._tables[-1][-1][-1].append(text)
        else:
            self.blocks.append((text, level))


class _DocxText(_Text):
    def __init__(self, styles: Element | None) -> None:
        super().__init__()
        self._based: dict[str, str] = {}
        self._levels: dict[str, int] = {}
        self._contents: set[str] = set()  # styles of the lines of a table of contents
        for style in () if styles is None else styles.iter("{*}style"):
            self._read_style(style)

    def _read_style(self, style: Element) -> None:
        key, name = attribute(style, "styleId"), attribute(style.find("{*}name"), "val")
        self._based[key] = attribute(style.find("{*}basedOn"), "val")
        outline = attribute(style.find("{*}pPr/{*}outlineLvl"), "val")
        if outline.isdecimal() and int(outline) < 9:
            self._levels[key] = int(outline) + 1
        match = _HEADING.match(name)
        if match or name.lower() == "title":
            self._levels[key] = int(match.group(1)) if match else 1
        if _CONTENTS.match(name):
            self._contents.add(key)

    def walk(self, element: Element) -> None:
        role = _ROLES.get(element.tag, "")
        hidden = (
            (role == "run" and _is_hidden(element))
            or (role == "box" and attribute(element.find("{*}sdtPr//{*}docPartGallery"), "val") == _GALLERY)
            or (role == "note" and "eparat" in attribute(element, "type"))  # the lines above notes are among them
        )
        if not hidden:
            super().walk(element)

    def level(self, paragraph: Element) -> int | None:
        properties = paragraph[0] if len(paragraph) and _ends(paragraph[0], "pPr") else None
        if properties is None:
            return 0
        style = attribute(properties.find("{*}pStyle"), "val")
        if style in self._contents:
            return None
        own = attribute(properties.find("{*}outlineLvl"), "val")
        if own.isdecimal():
            return int(own) + 1 if int(own) < 9 else 0
        seen: set[str] = set()
        while style and style not in seen and style not in self._contents:
            if style in self._levels:
                return self._levels[style]
            seen.add(style)
            style = self._based.get(style, "")
        return 0


class _OdtText(_Text):
    mixed = True

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[tuple[str, int]] = []

    def walk(self, element: Element) -> None:
        if _ROLES.get(element.tag) != "notes":
            super().walk(element)
            return
        # A note interrupts its paragraph or table cell; notes are read last.
        self.blocks, self.notes = self.notes, self.blocks
        tables, self._tables = self._tables, []
        self.within(element)
        self.blocks, self.notes, self._tables = self.notes, self.blocks, tables

    def level(self, paragraph: Element) -> int | None:
        level = attribute(paragraph, "outline-level", "1")
        return max(1, int(level) if level.isdecimal() else 1) if _ends(paragraph, "h") else 0


class _SlideText(_Text):
    def walk(self, element: Element) -> None:
        if _ROLES.get(element.tag) != "shape":
            super().walk(element)
            return
        kind = attribute(element.find("{*}nvSpPr/{*}nvPr/{*}ph"), "type")
        if kind in _ON_EACH_SLIDE:
            return
        before = len(self.blocks)
        self.within(element)
        if kind in _SLIDE_TITLES and len(self.blocks) > before:
            self.blocks[before:] = [(" ".join(text for text, _ in self.blocks[before:]), 1)]


def _is_hidden(run: Element) -> bool:
    # Called for every run: its properties, if any, are its first child.
    properties = run[0] if len(run) and _ends(run[0], "rPr") and len(run[0]) else None
    mark = properties.find("{*}vanish") if properties is not None else None
    return mark is not None and attribute(mark, "val") not in _OFF


def _ends(element: Element, name: str) -> bool:
    return str(element.tag).endswith(f"}}{name}")


def _collapsed(text: str | None) -> str:
    """Collapse white space as HTML does; ODT has elements for spaces that count."""
    if not text:
        return ""
    collapsed = one_line(text)
    return (" " if text[:1].isspace() else "") + collapsed + (" " if collapsed and text[-1:].isspace() else "")


def _put_together(blocks: Sequence[tuple[str, int]], title: str) -> Extracted:
    """Join blocks of (text, heading level or 0) to a document."""
    headings: list[Heading] = []
    length = 0
    for text, level in blocks:
        if level:
            headings.append(Heading(length, length + len(text), level, one_line(text)))
        length += len(text) + len(_BREAK)
    whole = _BREAK.join(text for text, _ in blocks)
    title = one_line(without_surrogates(title))
    if not title or is_no_title(title):
        title = headings[0].label if headings else first_line_title(whole)
    return Extracted(whole, title, tuple(headings))
