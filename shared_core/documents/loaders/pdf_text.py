"""Assemble the lines of a PDF to its text: paragraphs, divided words joined, headings, starts of pages."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared_core.documents.loaders.extracted import Extracted, Heading, Page, first_line_title, one_line
from shared_core.documents.loaders.pdf_layout import begins_paragraph, line_pitch, page_rows, without_running_heads
from shared_core.documents.loaders.pdf_lines import Line
from shared_core.documents.loaders.pdf_rows import with_tables
from shared_core.documents.loaders.pdf_rules import Rules

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_LETTERS = re.compile(r"[^\W\d_]+\Z")
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")
_FIRST_PIECE = re.compile(r"\S+")
_HYPHENS = "-\u2010"
# English compounds begin with these and a hyphen, so that one at the end of a line is likely to belong to them.
_HYPHENATED = frozenset(("self", "non", "ex", "well", "ill", "half", "quasi", "cross", "all", "so"))
_TENS = frozenset(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"))
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_CLEAN = {
    **dict.fromkeys((*range(32), *range(127, 160)), " "),
    **dict.fromkeys(range(55296, 57344), "�"),
    **_LIGATURES, 0xF0B7: "•", 0xF0A7: "▪", 0x09: "\t",
}  # fmt: skip
_PIECE = re.compile(r"\w+")
_NUMBERING = re.compile(
    r"\A(?:chapter|section|article|part|appendix|§{1,2})?\s*[\divxlcA-Z]{0,4}(?:[.)]\d*)*[.):]?\s+", re.IGNORECASE
)
_SECTION = re.compile(
    r"(?:§{1,2}|(?:section|sec\.|article|art\.|chapter|part|clause|rule)\s)\s*[\dIVXLC]", re.IGNORECASE
)
_NOTE = re.compile(r"\s*\[[^\]]*\]\s*\Z")
_HISTORY = re.compile(r"(?:\s*\[(?:added|amended|adopted|repealed)\b[^\]]*\])+\s*\Z", re.IGNORECASE)
_PAGE_NUMBER = re.compile(r"\s+\d{1,4}\Z")
_FIXED_ADVANCE = 0.6  # of the font size: the width of a letter in nearly all fonts of fixed width
_LARGER = 1.12  # than the text: a heading
_LARGE = 1.2
_HEADING_LETTERS = 200
_BOLD_HEADING_LETTERS = 100
_TITLE = 300
_OUTLINE = 3
_MOST_HEADINGS = 0.25  # of all letters; if there are more, size and weight do not mark headings
_CAPTION_LEVEL = 8  # of a table's caption; a label above some of its rows is one below
_CAPTION_LETTERS, _CAPTION_LINES = 160, 3
_CAPTION = re.compile(r"(?:table|tabelle|tableau|tabla|tabella|exhibit|figure)\s+[\dA-Z]", re.IGNORECASE)
_LABELS = 4  # rows for each label, at least
_UNITS = re.compile(r"[(\[].{1,60}[)\]]")
_SENTENCE_END = re.compile(r"[.;,]\Z")
_SENTENCE, _SENTENCE_BLANKS = 200, 7
_SECTION_NAME = re.compile(
    r"§|(?:(?:\d{1,2}|[IVX]+)[.)]?(?:\d+\.?)*\s)|(?:abstract|summary|overview|introduction|contents|purpose|scope|background)\b",
    re.IGNORECASE,
)
_SENTENCE_STOPS = tuple(".,;:")
_WORDS = re.compile(r"[^\W\d_]{3}|[\u3040-\uffdc]|(?<![^\W_])[A-Z]{2}(?![^\W_])")
_OPERATOR = re.compile(r"\A[=+∑∏∫√≤≥×·/\\|]|[=+∑∏∫√≤≥×·/\\|]\Z| = ")


class Bookmark(NamedTuple):
    """An entry of a PDF's outline: its level counts from 1, its page from 0."""

    title: str
    level: int
    page: int


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """A paragraph, ``text[start:end]``, with the font of its lines; ``page`` counts from 0, ``table`` as for a line.

    ``aside``: it is turned otherwise than the page's text, as stamps along the margin are.
    """

    start: int
    end: int
    page: int
    size: float
    bold: bool
    lines: int
    table: int
    aside: bool = False

    @property
    def rank(self) -> float:
        """Its font size to the half point."""
        return round(self.size * 2) / 2


def assemble(
    pages: Sequence[Sequence[Line]],
    rules: Sequence[Rules],
    labels: Sequence[str],
    bookmarks: Sequence[Bookmark],
    title: str,
) -> Extracted:
    """Assemble the text of a PDF.

    Args:
        pages: lines of each page in the order of the file; an empty sequence for a page without text.
        rules: drawn on each page.
        labels: of each page (``iv``); empty if it is the page's number.
        bookmarks: the outline.
        title: from the document's properties; empty if they have none.
    """
    cleaned = [clean_lines(lines) for lines in pages]
    rows = [page_rows(lines) for lines in with_tables(cleaned, rules)]
    pitch = line_pitch(rows)
    writer = _Writer(_Dehyphenator(without_running_heads(rows, pitch)), pitch)
    starts = [
        Page(writer.page(number, lines), number + 1, labels[number])
        for number, lines in enumerate(writer.words.pages)
        if lines
    ]
    text, paragraphs = writer.finish()
    headings = _headings(text, paragraphs, bookmarks)
    first = starts[1].start if len(starts) > 1 else len(text)
    largest = _largest(text[:first], paragraphs)
    if not title or (largest and not _is_named(title, text, paragraphs)):
        heading = next((h.label for h in headings if h.start < first and not _is_section(h.label)), "")
        title = largest or heading or first_line_title(text)
    return Extracted(text, title, headings, pages=tuple(starts))


def _is_named(title: str, text: str, paragraphs: Sequence[_Paragraph]) -> bool:
    """Return whether the first pages have much the words of a title, which may be of what the file was made from."""
    words = set(_PIECE.findall(title.casefold()))
    near = [p for p in paragraphs if p.page <= paragraphs[0].page + 1 and p.end - p.start <= _TITLE]
    lines = (set(_PIECE.findall(text[p.start : p.end].casefold())) for p in near)
    return any(2 * len(words & line) >= len(words | line) for line in lines)


def _goes_on(last: str, first: str) -> bool:
    """Return whether the letters around a hyphen at the end of a line may be one word, or one range of numbers."""
    return (last.isalpha() and first.islower()) or (last.isdigit() and first.isdigit())


def clean_lines(lines: Iterable[Line]) -> list[Line]:
    """Return the lines with ligatures written as letters, without control characters and empty lines."""
    cleaned = [(line, line.text.translate(_CLEAN).strip()) for line in lines]
    return [line if text == line.text else replace(line, text=text) for line, text in cleaned if text]


class _Dehyphenator:
    """Decides by a document's other words whether the hyphen of a word divided at a line's end belongs to it."""

    def __init__(self, pages: list[list[Line]]) -> None:
        self.pages = pages
        self._words = Counter(word.casefold() for lines in pages for word in _whole_words(lines))

    def hyphen(self, before: str, after: str) -> str | None:
        """Return the hyphen to write between two halves of a word ("" or "-"); ``None`` if they are not halves."""
        first, second = _LAST_LETTERS.search(before), _FIRST_LETTERS.match(after)
        if first is None or second is None:
            return "-" if before[-1:].isalnum() and after[:1].isalnum() else None
        a, b = first.group().casefold(), second.group().casefold()
        if second.group()[0].isupper():
            return "-"
        whole, hyphenated = self._words[a + b], self._words[f"{a}-{b}"]
        if whole or hyphenated:
            return "" if whole >= hyphenated else "-"
        return "-" if a in _HYPHENATED or a in _TENS else ""


def _whole_words(lines: Sequence[Line]) -> Iterator[str]:
    divided = False
    for line in lines:
        words = _WORD.findall(line.text)
        ends_divided = line.broken or line.text[-1:] in _HYPHENS
        yield from words[1 if divided else 0 : len(words) - 1 if ends_divided else len(words)]
        divided = ends_divided


class _Writer:
    """Writes lines one after the other, counting code points."""

    def __init__(self, words: _Dehyphenator, pitch: float) -> None:
        self.words, self._pitch = words, pitch
        self._pieces: list[str] = []
        self._length = 0
        self._open: list[Line] = []  # the lines of the paragraph so far
        self._start = self._page = self._turned = 0
        self._paragraphs: list[_Paragraph] = []

    def page(self, number: int, lines: Sequence[Line]) -> int:
        """Write a page and return where it begins."""
        begin = -1
        for i, line in enumerate(lines):
            at = self._line(number, line, lines[i + 1 : i + 8])
            self._turned = lines[0].turned  # now that what the page before left open is closed
            begin = at if begin < 0 else begin
        return begin

    def finish(self) -> tuple[str, list[_Paragraph]]:
        """Return the text and its paragraphs."""
        self._close()
        return "".join(self._pieces), self._paragraphs

    def _line(self, number: int, line: Line, after: Sequence[Line]) -> int:
        """Write a line and return where it begins."""
        if not self._open or begins_paragraph(self._open, line, after, self._pitch):
            self._close()
            self._write("\n\n" if self._pieces else "")
            self._start, self._page = self._length, number
            at = self._length
            self._write(line.text)
        else:
            at = self._continue(line)
        self._open.append(line)
        return at

    def _continue(self, line: Line) -> int:
        last = self._open[-1]
        before, hyphen = last.text, None
        if last.broken:
            hyphen = self.words.hyphen(before, line.text)
        elif not line.table and before[-1:] in _HYPHENS and _goes_on(before[-2:-1], line.text[:1]):
            before = before[:-1]
            hyphen = self.words.hyphen(before, line.text)
            if hyphen is not None:
                self._pieces[-1] = self._pieces[-1][:-1]
                self._length -= 1
        if hyphen is None:
            self._write("-\n" if last.broken else "\n")
            at = self._length
            if line.fixed and line.x0 > self._open[0].x0:  # the indentation of code counts
                self._write(" " * round((line.x0 - self._open[0].x0) / (_FIXED_ADVANCE * line.size)))
            self._write(line.text)
            return at
        self._write(hyphen)
        at = self._length
        piece = _FIRST_PIECE.match(line.text)
        end = piece.end() if piece else 0
        rest = line.text[end:].lstrip()
        self._write(line.text[:end] + ("\n" + rest if rest else ""))
        return at

    def _write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._length += len(text)

    def _close(self) -> None:
        if self._open:
            size = statistics.median(line.size for line in self._open)
            bold = all(line.bold for line in self._open)
            first = self._open[0]
            found = _Paragraph(
                self._start, self._length, self._page, size, bold, len(self._open), first.table,
                aside=first.turned != self._turned,
            )  # fmt: skip
            self._paragraphs.append(found)
            self._open = []


# --- headings ------------------------------------------------------------------------------------------------------


def _headings(text: str, paragraphs: Sequence[_Paragraph], bookmarks: Sequence[Bookmark]) -> tuple[Heading, ...]:
    """Find headings: paragraphs that the outline names, and those in larger or bolder letters than the text."""
    if not paragraphs:
        return ()
    body = _body_size(paragraphs)
    named = _named(text, paragraphs, bookmarks)
    outlined = len(named) >= _OUTLINE  # bold lines that the outline does not name head tables and the like
    bold = not outlined and 2 * sum(p.end - p.start for p in paragraphs if p.bold) < len(text)
    looks = [p for p in paragraphs if p not in named and _looks_like_heading(text, p, body, bold=bold)]
    titles = {one_line(text[p.start : p.end]) for p in looks}
    looks = [p for p in looks if not _is_entry(one_line(text[p.start : p.end]), titles)]
    authors = _authors(text, paragraphs, looks)
    looks = [p for p in looks if p not in authors]
    if sum(p.end - p.start for p in looks) > _MOST_HEADINGS * len(text):
        looks = []
    levels = _levels(named, looks)
    found = {p: named[p] if p in named else levels[p.rank] for p in {*named, *looks}}
    above, ends = _above_rows(text, paragraphs, found)
    found |= above
    headings = [Heading(p.start, p.end, level, _label(text[p.start : p.end])) for p, level in found.items()]
    return tuple(sorted(headings + ends))


def _label(shown: str) -> str:
    """Return a heading as a label, without when it was added or amended, as by-laws tell behind it."""
    return _HISTORY.sub("", one_line(shown)) or one_line(shown)


def _above_rows(
    text: str, paragraphs: Sequence[_Paragraph], known: Collection[_Paragraph]
) -> tuple[dict[_Paragraph, int], list[Heading]]:
    """Return the captions of tables and the labels above their rows with their levels, and headings that end them.

    A caption is the last short paragraph above a table that is no sentence; units in brackets may stand below it.
    """
    levels: dict[_Paragraph, int] = {}
    ends: list[Heading] = []
    for _, rows in itertools.groupby(enumerate(paragraphs), key=lambda pair: abs(pair[1].table)):
        table = list(rows)
        at, first = table[0]
        if not first.table:
            continue
        near = [p for p in paragraphs[max(0, at - 2) : at][::-1] if p.page == first.page and not p.table]
        if near and _UNITS.fullmatch(text[near[0].start : near[0].end]):
            near = near[1:]
        labels = [p for _, p in table if p.table < 0]
        lines = sum(p.lines for _, p in table)
        # Many are rows whose values are not given.
        found = dict.fromkeys(labels if _LABELS * len(labels) <= lines else [], _CAPTION_LEVEL + 1)
        if near and near[0] not in known and _is_caption(text[near[0].start : near[0].end], near[0].lines):
            found[near[0]] = _CAPTION_LEVEL
        if found:
            levels |= found
            end = table[-1][1].end
            ends.append(Heading(end, end, min(found.values()), ""))
    return levels, ends


def _is_caption(shown: str, lines: int) -> bool:
    letters = sum(map(str.isalpha, shown))
    begins = shown[:1].isupper() or shown[:1].isdigit()
    return (
        begins
        and lines <= _CAPTION_LINES
        and 2 * letters > len(shown) <= _CAPTION_LETTERS
        and "\t" not in shown
        and (not _SENTENCE_END.search(shown) or _CAPTION.match(shown) is not None)
    )


def _authors(text: str, paragraphs: Sequence[_Paragraph], looks: Sequence[_Paragraph]) -> list[_Paragraph]:
    """Return what looks like headings below the title and above the first sentence: names, places, dates."""
    number = paragraphs[0].page
    page = [p for p in paragraphs if p.page == number]
    title = max((p for p in looks if p.page == number), key=lambda p: p.rank, default=None)
    if title is None:
        return []
    below = page[page.index(title) + 1 :]
    own = {p for p in looks if p.page == number}
    block = list(itertools.takewhile(lambda p: p in own or not _is_sentence(text, p), below))
    found = [p for p in block if p in own and p.rank < title.rank and not _SECTION_NAME.match(text, p.start, p.end)]
    if found and found[-1] is block[-1] and not any(_alike(p, found[-1]) for p in found[:-1]):
        found.pop()  # it heads the sentence
    return found


def _is_sentence(text: str, p: _Paragraph) -> bool:
    shown = text[p.start : p.end].rstrip()
    return (p.lines > 2 and len(shown) >= _SENTENCE) or (shown.count(" ") >= _SENTENCE_BLANKS and shown.endswith("."))


def _alike(p: _Paragraph, other: _Paragraph) -> bool:
    return (p.rank, p.bold) == (other.rank, other.bold)


def _is_entry(shown: str, titles: set[str]) -> bool:
    """Return whether it is a line of a table of contents: another heading followed by a page number."""
    title = _PAGE_NUMBER.sub("", shown)
    return title != shown and title in titles


def _body_size(paragraphs: Iterable[_Paragraph]) -> float:
    letters: Counter[float] = Counter()
    for p in paragraphs:
        letters[p.rank] += p.end - p.start
    return letters.most_common(1)[0][0]


def _looks_like_heading(text: str, p: _Paragraph, body: float, *, bold: bool) -> bool:
    shown = text[p.start : p.end]
    if "\t" in shown or p.lines > 4 or p.table or p.aside or not _has_words(shown):
        return False
    if p.size >= _LARGER * body:
        return len(shown) <= _HEADING_LETTERS
    if _SECTION.match(shown):  # "§ 60-445. Appeals. [Added 5-29-2013]"
        shown = _NOTE.sub("", shown).removesuffix(".")
    plain = bold and p.bold and p.size >= 0.98 * body and not shown.endswith(_SENTENCE_STOPS)
    return (
        plain and len(shown) <= _BOLD_HEADING_LETTERS and (shown[0].isupper() or shown[0].isdigit() or shown[0] == "§")
    )


def _named(text: str, paragraphs: Sequence[_Paragraph], bookmarks: Sequence[Bookmark]) -> dict[_Paragraph, int]:
    """Return the paragraphs that bookmarks lead to, with their levels."""
    places: dict[tuple[int, str], _Paragraph] = {}
    for p in paragraphs:
        if p.end - p.start <= _HEADING_LETTERS:
            for key in _keys(text[p.start : p.end]):
                places.setdefault((p.page, key), p)
    found: dict[_Paragraph, int] = {}
    for title, level, page in bookmarks:
        for key in _keys(title):
            if (place := places.get((page, key))) is not None:
                found.setdefault(place, level)
                break
    return found


def _keys(title: str) -> list[str]:
    """Return the title in the forms to compare, as words only: whole, and without its number."""
    label = _NOTE.sub("", one_line(title)).casefold()
    forms = (" ".join(_PIECE.findall(form)) for form in (label, _NUMBERING.sub("", label)))
    return list(dict.fromkeys(form for form in forms if form))


def _levels(named: dict[_Paragraph, int], looks: Iterable[_Paragraph]) -> dict[float, int]:
    """Assign a level to each font size: the outline's if it has that size, the others by their order."""
    known: dict[float, int] = {}
    for p, level in named.items():
        known[p.rank] = max(level, known.get(p.rank, 0))
    levels: dict[float, int] = {}
    above = 0
    for size in sorted({*known, *(p.rank for p in looks)}, reverse=True):
        above = levels[size] = known.get(size, above + 1)
    return levels


def _largest(first_page: str, paragraphs: Sequence[_Paragraph]) -> str:
    """Return what is in the largest letters of the first page, if they are plainly larger than the text's."""
    first = [p for p in paragraphs if p.end <= len(first_page) and not p.aside]
    found = [
        p
        for p in first
        if p.end - p.start <= _HEADING_LETTERS
        and _has_words(first_page[p.start : p.end])
        and not _is_section(first_page[p.start : p.end])
    ]
    largest = max(found, key=lambda p: p.size, default=None)
    if largest is None or largest.size < _LARGER * _body_size(paragraphs):
        return ""
    at = first.index(largest)
    same = itertools.takewhile(lambda p: p.rank == largest.rank, first[at:])  # a line of its own each
    shown = one_line(first_page[largest.start : [*same][-1].end])
    return shown if len(shown) <= _HEADING_LETTERS else one_line(first_page[largest.start : largest.end])


def _is_section(label: str) -> bool:
    """Return whether a heading is of a section rather than of a document: "1 Introduction", "Abstract"."""
    found = _SECTION_NAME.match(label)
    return found is not None and (found.end() == len(label) or not found[0][-1:].isalpha())


def _has_words(shown: str) -> bool:
    """Return whether a line in large letters has words, unlike a part of a formula.

    >>> [_has_words(shown) for shown in ("N ∑", "I2 =", "C 0.4", "FAQ", "IT", "第一章")]
    [False, False, False, True, True, True]
    """
    return _WORDS.search(shown) is not None and _OPERATOR.search(shown) is None
