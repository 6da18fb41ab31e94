"""The body of a Word document, tag by tag (ECMA-376, part 1, WordprocessingML)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared_core.documents.loaders.grid import table_text
from shared_core.documents.loaders.package import attribute

_WORD = frozenset(
    (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
)
_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
_CONTENTS = re.compile(r"toc (\d|heading)|table of (figures|authorities)", re.IGNORECASE)
_LEFT_OUT = frozenset(("del", "moveFrom", "instrText", "delText"))
_GALLERY = "Table of Contents"
_LETTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_OFF = frozenset(("0", "false", "off", "none"))


def _word(tag: str) -> str:
    """The name of one of Word's own elements; empty for others (drawings, formulas)."""
    namespace, _, name = tag[1:].partition("}")
    return name if namespace in _WORD else ""


class DocxStyles:
    """What the styles of a document say: which are headings, and of which level; which are tables of contents."""

    def __init__(self) -> None:
        self._style = ""
        self._based: dict[str, str] = {}
        self._levels: dict[str, int] = {}
        self._contents: set[str] = set()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A style, or something of it."""
        name = _word(tag)
        value = attribute(attributes, "val")
        if name == "style":
            self._style = attribute(attributes, "styleId")
        elif not self._style:
            return
        elif name == "basedOn":
            self._based[self._style] = value
        elif name == "outlineLvl" and value.isdigit() and int(value) < 9:
            self._levels[self._style] = int(value) + 1
        elif name == "name":
            match = _HEADING.match(value)
            if match or value.lower() == "title":
                self._levels[self._style] = int(match.group(1)) if match else 1
            if _CONTENTS.match(value):
                self._contents.add(self._style)

    def end(self, tag: str) -> None:
        """The end of a style."""
        if _word(tag) == "style":
            self._style = ""

    def data(self, text: str) -> None:
        """Styles hold no text."""

    def close(self) -> None:
        """The end."""

    def level(self, style: str) -> int:
        """Heading level of a style, its own or of what it is based on; 0 for none."""
        seen: set[str] = set()
        while style and style not in seen:
            if style in self._contents:
                return 0
            if style in self._levels:
                return self._levels[style]
            seen.add(style)
            style = self._based.get(style, "")
        return 0

    def is_contents(self, style: str) -> bool:
        """Whether it is the style of a table of contents' lines."""
        return style in self._contents


class _Paragraph:
    __slots__ = ("level", "pieces", "style")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.style = ""
        self.level: int | None = None


class DocxReader:
    """Parser target that gathers (text, heading level or 0) of each paragraph and table in ``blocks``."""

    def __init__(self, styles: DocxStyles) -> None:
        self.blocks: list[tuple[str, int]] = []
        self._styles = styles
        self._paragraphs: list[_Paragraph] = []  # open ones: a text box stands within a paragraph
        self._cells: list[list[str]] = []  # texts in each open cell, innermost last
        self._rows: list[list[str]] = []  # finished cells of the open rows
        self._tables: list[list[list[str]]] = []  # finished rows of the open tables
        self._skipped = 0  # depth within what is not read
        self._in_text = False
        self._runs = 0
        self._hidden = False
        self._in_contents = False  # the content box just opened is a table of contents

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        name = _word(tag)
        if self._skipped or name in _LEFT_OUT or tag.endswith("}Fallback") or _is_separator(name, attributes):
            self._skipped += 1
        elif name == "p":
            self._paragraphs.append(_Paragraph())
        elif name == "r":
            self._runs += 1
            self._hidden = False
        elif name == "t":
            self._in_text = True
        elif name in _LETTERS and self._runs:
            self._add(_LETTERS[name])
        elif name == "tbl":
            self._tables.append([])
        elif name == "tr":
            self._rows.append([])
        elif name == "tc":
            self._cells.append([])
        elif name == "docPartGallery":
            self._in_contents = attribute(attributes, "val") == _GALLERY
        elif name == "sdt":
            self._in_contents = False
        elif name == "sdtContent" and self._in_contents:
            self._skipped += 1
            self._in_contents = False
        elif name in ("pStyle", "outlineLvl", "vanish"):
            self._property(name, attribute(attributes, "val"))

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._skipped:
            self._skipped -= 1
            return
        name = _word(tag)
        if name == "t":
            self._in_text = False
        elif name == "r":
            self._runs = max(0, self._runs - 1)
        elif name == "p" and self._paragraphs:
            self._end_paragraph(self._paragraphs.pop())
        elif name == "tc" and self._cells and self._rows:
            self._rows[-1].append(" ".join(" ".join(text.split()) for text in self._cells.pop()))
        elif name == "tr" and self._rows and self._tables:
            self._tables[-1].append(self._rows.pop())
        elif name == "tbl" and self._tables:
            self._block(table_text(self._tables.pop()), 0)

    def data(self, text: str) -> None:
        """Text, which counts within ``t`` only."""
        if self._in_text and not self._skipped and not self._hidden:
            self._add(text)

    def close(self) -> None:
        """The end."""

    def _add(self, text: str) -> None:
        if self._paragraphs:
            self._paragraphs[-1].pieces.append(text)

    def _property(self, name: str, value: str) -> None:
        if name == "vanish":
            self._hidden = self._runs > 0 and value not in _OFF
        elif self._paragraphs:
            paragraph = self._paragraphs[-1]
            if name == "pStyle":
                paragraph.style = value
            elif value.isdigit():
                paragraph.level = int(value) + 1 if int(value) < 9 else 0

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        if not self._styles.is_contents(paragraph.style):
            level = self._styles.level(paragraph.style) if paragraph.level is None else paragraph.level
            self._block("".join(paragraph.pieces), level)

    def _block(self, text: str, level: int) -> None:
        """A paragraph or a table, into the cell it stands in or into the document."""
        text = text.strip(" \t\n")
        if not text:
            return
        if self._cells:
            self._cells[-1].append(text)
        else:
            self.blocks.append((text, level))


def _is_separator(name: str, attributes: Mapping[str, str]) -> bool:
    """The lines above notes are kept among them."""
    return name in ("footnote", "endnote") and "eparat" in attribute(attributes, "type")
