"""The body of an OpenDocument text, tag by tag (OASIS OpenDocument 1.3, part 3)."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.documents.loaders.grid import table_text
from shared_core.documents.loaders.package import attribute, local

_PARAGRAPHS = frozenset(("p", "h"))
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_LEFT_OUT = frozenset(
    (
        "annotation", "tracked-changes", "table-of-content", "alphabetical-index", "illustration-index", "table-index",
        "object-index", "user-index", "note-citation", "desc", "title", "sequence-decls", "ruby-text", "forms",
        "script", "math",
    )
)  # fmt: skip
_MAX_SPACES = 100


class OdtReader:
    """Parser target that gathers (text, heading level or 0) of each paragraph and table; notes go last."""

    def __init__(self) -> None:
        self._body: list[tuple[str, int]] = []
        self._noted: list[tuple[str, int]] = []
        self._paragraphs: list[tuple[list[str], int]] = []
        self._cells: list[list[str]] = []
        self._rows: list[list[str]] = []
        self._tables: list[list[list[str]]] = []
        self._skipped = self._notes = 0

    @property
    def blocks(self) -> list[tuple[str, int]]:
        """What was found."""
        return [*self._body, *self._noted]

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        name = local(tag)
        if self._skipped or name in _LEFT_OUT:
            self._skipped += 1
        elif tag.startswith(_TEXT):
            self._text(name, attributes)
        elif tag.startswith(_TABLE):
            if name == "table":
                self._tables.append([])
            elif name == "table-row":
                self._rows.append([])
            elif name == "table-cell":
                self._cells.append([])

    def _text(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _PARAGRAPHS:
            level = attribute(attributes, "outline-level", "1")
            heading = name == "h"
            self._paragraphs.append(([], (int(level) if level.isdigit() and int(level) else 1) if heading else 0))
        elif name == "note-body":
            self._notes += 1
        elif name == "s":
            count = attribute(attributes, "c", "1")
            self._add(" " * min(int(count) if count.isdigit() else 1, _MAX_SPACES))
        elif name == "tab":
            self._add("\t")
        elif name == "line-break":
            self._add("\n")

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._skipped:
            self._skipped -= 1
            return
        name = local(tag)
        if tag.startswith(_TEXT):
            if name in _PARAGRAPHS and self._paragraphs:
                pieces, level = self._paragraphs.pop()
                self._block("".join(pieces), level)
            elif name == "note-body":
                self._notes -= 1
        elif tag.startswith(_TABLE):
            self._end_table(name)

    def _end_table(self, name: str) -> None:
        if name == "table-cell" and self._cells and self._rows:
            self._rows[-1].append(" ".join(" ".join(text.split()) for text in self._cells.pop()))
        elif name == "table-row" and self._rows and self._tables:
            self._tables[-1].append(self._rows.pop())
        elif name == "table" and self._tables:
            self._block(table_text(self._tables.pop()), 0)

    def data(self, text: str) -> None:
        """Text; white space collapses as in HTML."""
        if self._paragraphs and not self._skipped:
            collapsed = " ".join(text.split())
            self._add(
                (" " if text[:1].isspace() else "") + collapsed + (" " if collapsed and text[-1:].isspace() else "")
            )

    def close(self) -> None:
        """The end."""

    def _add(self, text: str) -> None:
        if self._paragraphs:
            self._paragraphs[-1][0].append(text)

    def _block(self, text: str, level: int) -> None:
        text = text.strip(" \t\n")
        if not text:
            return
        if self._notes:
            self._noted.append((text, 0))
        elif self._cells:
            self._cells[-1].append(text)
        else:
            self._body.append((text, level))
