"""Write an HTML page of answers: text, claims linked to highlighted quotes in their documents, trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shared_core.citation import Place, find_place
from shared_core.pipelines.evidence import quote_numbers
from shared_core.support.sanitize import to_printable
from shared_core.types import Answer, Claim, Passage, Span

if TYPE_CHECKING:
    from jinja2 import Environment

WINDOW = 450
"""Characters shown on each side of a quote if the document is too long to show whole."""
WHOLE = 1_600
"""Longest document, in characters, that is shown whole."""

DocumentText = Callable[[str], str | None]
"""Maps ``Passage.metadata["source"]`` to that document's extracted text; ``None`` if it is not available."""


@dataclass(frozen=True)
class Piece:
    """Stretch of text to show; ``number`` is set for a quote, ``key`` if it contains the short answer."""

    text: str
    number: int | None = None
    key: bool = False
    first: bool = True


class _Mark(NamedTuple):
    """Quote in the text shown: its range, its number and its place in the document."""

    start: int
    end: int
    number: int
    place: Place

    @property
    def where(self) -> str:
        """``[1] p. 3, Lamps > Oil, characters 10–27``."""
        page = self.place.document.removeprefix(self.place.source).lstrip(", ")
        parts = [part for part in (page, self.place.section, f"characters {self.start}–{self.end}") if part]
        return f"[{self.number}] {', '.join(parts)}"


@dataclass
class Source:
    """Document as shown: its name and its text in pieces."""

    name: str
    title: str
    where: str
    pieces: list[Piece] = field(default_factory=list)
    cut_before: bool = False
    cut_after: bool = False


def write_report(
    answers: Sequence[Answer],
    path: Path,
    *,
    title: str = "Answers with their quotes",
    document_text: DocumentText | None = None,
) -> Path:
    """Write one self-contained HTML page (no scripts, no outside resources) and return its path.

    Quotes are highlighted in the document if ``document_text`` returns it and the offsets match, else in the passage.
    """
    page = (
        page_environment()
        .get_template("answers.html.j2")
        .render(title=title, items=[_item(a, i + 1, document_text) for i, a in enumerate(answers)])
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def page_environment() -> Environment:
    """Build the template environment: values are escaped and cannot reorder or hide text."""
    import jinja2

    loader = jinja2.PackageLoader("shared_core.evaluation", "templates")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_showable)


def _showable(value: Any) -> Any:
    """Remove characters that reorder or hide text from texts of documents and models."""
    return to_printable(value) if type(value) is str else value


def _item(answer: Answer, number: int, document_text: DocumentText | None) -> dict[str, Any]:
    return {
        "number": number,
        "answer": answer,
        "claims": [_claim(c, answer) for c in answer.kept_claims],
        "dropped": [c for c in answer.claims if c.status == "dropped"],
        "checked": _checked(answer) if answer.metadata.get("pipeline") == "check" else None,
        "sources": _sources(answer, document_text),
    }


def _claim(claim: Claim, answer: Answer) -> dict[str, Any]:
    pieces = _emphasise(claim.text, claim.short_answer)
    return {"claim": claim, "pieces": pieces, "marks": quote_numbers(claim, answer)}


def _checked(answer: Answer) -> list[dict[str, Any]]:
    """Cut the text of a checked answer into its claims and the text between them."""
    pieces: list[dict[str, Any]] = []
    at = 0
    placed = [(c.start, c.end, c) for c in answer.claims if c.start is not None and c.end is not None]
    for start, end, claim in sorted(placed, key=lambda place: place[:2]):
        pieces += [{"text": answer.text[at:start]}, {"text": answer.text[start:end], **_claim(claim, answer)}]
        at = end
    return [*pieces, {"text": answer.text[at:]}]


def _emphasise(text: str, short: str | None) -> list[Piece]:
    """Cut the text around the short answer, whatever its line breaks."""
    words = short.split() if short else []
    found = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    if found is None:
        return [Piece(text)]
    return [Piece(text[: found.start()]), Piece(found[0], key=True), Piece(text[found.end() :])]


def _sources(answer: Answer, document_text: DocumentText | None) -> list[Source]:
    """Return one source per document, with its quotes marked in the document's text."""
    grouped: dict[str, tuple[Passage, str, list[_Mark]]] = {}
    for number, span in enumerate(answer.numbered_spans(), 1):
        passage = answer.passage(span.passage_id)
        name, text, start = _place(passage, span, document_text)
        mark = _Mark(start, start + len(span.text), number, find_place(passage, span))
        grouped.setdefault(name, (passage, text, []))[2].append(mark)
    shorts = [c.short_answer for c in answer.kept_claims if c.short_answer]
    return [_source(name, *found, shorts) for name, found in grouped.items()]


def _place(passage: Passage, span: Span, document_text: DocumentText | None) -> tuple[str, str, int]:
    """Return (name, text, offset of the span in it): of the document if the offsets match, else of the passage."""
    source = passage.metadata.get("source")
    offset = passage.metadata.get("start")
    whole = document_text(str(source)) if document_text and source is not None else None
    if whole is not None and isinstance(offset, int):
        start = offset + span.start
        if whole[start : start + len(span.text)] == span.text:
            return str(source), whole, start
    return f"{source or passage.title or 'passage'} · {passage.id}", passage.text, span.start


def _source(name: str, passage: Passage, text: str, marks: list[_Mark], shorts: Sequence[str]) -> Source:
    marks = sorted(marks, key=lambda mark: mark[:3])
    first, last = 0, len(text)
    if len(text) > WHOLE:
        first, last = max(0, marks[0][0] - WINDOW), min(len(text), max(m[1] for m in marks) + WINDOW)
        # start at a word: one of the next 40 characters is nearly always a blank
        first += text[first : min(first + 40, marks[0][0])].find(" ") + 1 if first else 0
    where = "; ".join(mark.where for mark in marks)
    source = Source(name, passage.title, where, cut_before=first > 0, cut_after=last < len(text))
    at = first
    for start, end, number, _ in marks:
        if start < at:  # overlapping quotes: the later one starts where the earlier ends
            start = min(at, end)
        source.pieces.append(Piece(text[at:start]))
        source.pieces.extend(_mark_up(text[start:end], number, shorts))
        at = end
    source.pieces.append(Piece(text[at:last]))
    return source


def _mark_up(quote: str, number: int, shorts: Sequence[str]) -> list[Piece]:
    found = (_emphasise(quote, short) for short in shorts)
    pieces = [p for p in next((f for f in found if len(f) > 1), [Piece(quote)]) if p.text]
    return [Piece(p.text, number, p.key, first=i == 0) for i, p in enumerate(pieces)]
