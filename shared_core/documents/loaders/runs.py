"""Stretches of text with the separators and headings between them, joined to a document's text at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared_core.documents.loaders.extracted import Heading, one_line

SEPARATORS = ("", " ", "\t", "\n", "\n\n")  # the strongest one wins where several meet
SPACE_GAP, CELL_GAP, LINE_GAP, PARAGRAPH_GAP = 1, 2, 3, 4


@dataclass(slots=True)
class TextRun:
    """A stretch of text within one block.

    Attributes:
        gap: the separator before it, an index into ``SEPARATORS``.
        text: with white space as shown.
        zone: number of the innermost zone around it.
        link: the target of the link around it; ``None`` outside links.
        level, heading: of the heading around it, and that heading's number on the page; 0 outside.
        preformatted: whether its white space counts.
        closes: level of the headings that do not hold from here on; 0 if all do.
    """

    gap: int
    text: str
    zone: int = 0
    link: str | None = None
    level: int = 0
    heading: int = 0
    preformatted: bool = False
    closes: int = 0


def join_runs(runs: Iterable[TextRun], kept: Iterable[bool]) -> tuple[str, list[Heading]]:
    """Return the text of the runs that are kept, and its headings."""
    pieces: list[str] = []
    headings: list[Heading] = []
    gap = closes = length = start = first = open_ = level = 0  # open_: number of the heading being written

    def end_heading() -> None:
        if open_ and (label := one_line("".join(pieces[first:]))):
            headings.append(Heading(start, length, level, label))

    for run, keep in zip(runs, kept, strict=True):
        gap = max(gap, run.gap)
        closes = min(closes or run.closes, run.closes or closes)
        if not keep:
            gap = max(gap, LINE_GAP)
            continue
        if run.heading != open_:
            end_heading()
            open_ = 0
        between = SEPARATORS[gap] if pieces else ""
        length += len(between)
        pieces.append(between)
        if closes and not run.heading:
            headings.append(Heading(length, length, closes, ""))
        if run.heading and not open_:
            open_, level, start, first = run.heading, run.level, length, len(pieces)
        pieces.append(run.text.lstrip("\r\n") if gap == PARAGRAPH_GAP else run.text)
        length += len(pieces[-1])
        gap = closes = 0
    end_heading()
    return "".join(pieces), headings
