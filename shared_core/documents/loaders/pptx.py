"""A slide of a presentation, tag by tag (ECMA-376, part 1, PresentationML and DrawingML)."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.documents.loaders.package import attribute, local

_TITLES = frozenset(("title", "ctrTitle"))
_REPEATED = frozenset(("ftr", "hdr", "sldNum", "dt"))  # what stands on each slide


class SlideReader:
    """Parser target that gathers (text, heading level or 0) of a slide's shapes and tables in ``blocks``."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, int]] = []
        self._kind = ""
        self._pieces: list[str] | None = None
        self._shape: list[str] = []
        self._cells: list[str] | None = None
        self._rows: list[str] = []
        self._in_text = False
        self._skipped = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        name = local(tag)
        if self._skipped or name == "Fallback":
            self._skipped += 1
        elif name in ("sp", "graphicFrame"):
            self._kind, self._shape, self._rows = "", [], []
        elif name == "ph":
            self._kind = attribute(attributes, "type", "body")
        elif name == "p":
            self._pieces = []
        elif name == "t":
            self._in_text = True
        elif name == "br" and self._pieces is not None:
            self._pieces.append("\n")
        elif name == "tr":
            self._cells = []

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._skipped:
            self._skipped -= 1
            return
        name = local(tag)
        if name == "t":
            self._in_text = False
        elif name == "p" and self._pieces is not None:
            text = "".join(self._pieces).strip()
            self._pieces = None
            if text:
                self._shape.append(text)
        elif name == "tc" and self._cells is not None:
            self._cells.append(" ".join(" ".join(text.split()) for text in self._shape))
            self._shape = []
        elif name == "tr" and self._cells is not None:
            self._rows.append("\t".join(self._cells))
            self._cells = None
        elif name in ("sp", "graphicFrame"):
            self._end_shape()

    def _end_shape(self) -> None:
        if self._rows:
            self.blocks.append(("\n".join(self._rows), 0))
        elif self._shape and self._kind not in _REPEATED:
            if self._kind in _TITLES:
                self.blocks.append((" ".join(self._shape), 1))
            else:
                self.blocks += [(text, 0) for text in self._shape]
        self._shape, self._rows, self._kind = [], [], ""

    def data(self, text: str) -> None:
        """Text, which counts within ``t`` only."""
        if self._in_text and self._pieces is not None and not self._skipped:
            self._pieces.append(text)

    def close(self) -> None:
        """The end."""
