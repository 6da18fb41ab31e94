"""Assemble the lines of a PDF to its text: paragraphs, divided words joined, starts of pages."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from shared_core.documents.loaders.extracted import Extracted, Page
from shared_core.documents.loaders.pdf_flow import Placed, in_flow
from shared_core.documents.loaders.pdf_headings import Bookmark, Paragraph, choose_title, find_headings
from shared_core.documents.loaders.pdf_layout import begins_paragraph, line_pitch, page_rows, without_running_heads
from shared_core.documents.loaders.pdf_lines import Line
from shared_core.documents.loaders.pdf_rows import with_tables
from shared_core.documents.loaders.pdf_rules import Rules
from shared_core.support.regex import lazy_regex

_WORD = lazy_regex(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_LETTERS = lazy_regex(r"[^\W\d_]+\Z")
_FIRST_LETTERS = lazy_regex(r"[^\W\d_]+")
_LEADER = lazy_regex(r"(?:\s?\.){6,}|…{3,}")  # dots from a label to its value
_FIRST_PIECE = lazy_regex(r"\S+")
_HYPHENS = "-\u2010"
# English compounds begin with these and a hyphen, so that one at the end of a line is likely to belong to them.
_HYPHENATED = frozenset(("self", "non", "ex", "well", "ill", "half", "quasi", "cross", "all", "so"))
_TENS = frozenset(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"))
# Two words of a document in one, whose whole it never has, are a compound ("source-target"), but for words like these.
_SHORTEST_FIRST, _SHORTEST_SECOND = 4, 5
_PREFIXES = frozenset(
    ("over", "under", "inter", "super", "back", "down", "fore", "some", "every", "with", "there", "here", "where",
     "when")
)  # fmt: skip
_SECOND_HALVES = frozenset(
    ("ground", "paper", "works", "lines", "words", "board", "house", "times", "where", "thing", "stand", "stream",
     "light", "sheet", "sheets", "holder", "holders", "marks", "books", "bases", "points", "sided", "wards")
)  # fmt: skip
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_CLEAN = {
    **dict.fromkeys((*range(32), *range(127, 160)), " "),
    **dict.fromkeys(range(55296, 57344), "�"),
    **_LIGATURES, 0xF0B7: "•", 0xF0A7: "▪", 0x09: "\t",
}  # fmt: skip
_TWICE = lazy_regex("(?<=-)[\u2010\u2011]|[\\x21-\xff](?=([\uf021-\uf0ff]))")
"""What files give out for one sign in two codes: "in-‐house", and a letter before that shape of a font of signs."""
_SIGN = lazy_regex("[\uf021-\uf0ff](?=\\s|\\Z)")
"""A sign of a font like Wingdings at the beginning of a line: a bullet, whatever its shape."""
_FIXED_ADVANCE = 0.6  # of the font size: the width of a letter in nearly all fonts of fixed width


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
        labels: of each page (``iv``); empty if it is the page's number.
        title: from the document's properties; empty if they have none.
    """
    cleaned = [clean_lines(lines) for lines in pages]
    rows = [page_rows(lines) for lines in with_tables(cleaned, rules)]
    pitch = line_pitch(rows)
    writer = _Writer(_Dehyphenator(without_running_heads(rows, pitch)), pitch)
    flow = itertools.groupby(in_flow(writer.words.pages, pitch), key=lambda at: at.page)
    starts = [Page(writer.page(number, list(lines)), number + 1, labels[number]) for number, lines in flow]
    text, paragraphs = writer.finish()
    headings = find_headings(text, paragraphs, bookmarks)
    first = starts[1].start if len(starts) > 1 else len(text)
    title = choose_title(title, text, first, paragraphs, headings)
    return Extracted(text, title, headings, pages=tuple(starts))


def _goes_on(last: str, first: str) -> bool:
    """Return whether the letters around a hyphen at the end of a line may be one word, or one range of numbers."""
    return (last.isalpha() and first.islower()) or (last.isdigit() and first.isdigit())


def clean_lines(lines: Iterable[Line]) -> list[Line]:
    """Return the lines with ligatures written as letters, without control characters and empty lines."""
    cleaned = [(line, _LEADER.sub(" ...", _once(line.text).translate(_CLEAN)).strip()) for line in lines]
    return [line if text == line.text else replace(line, text=text) for line, text in cleaned if text]


def _once(text: str) -> str:
    """Return a text with signs once that its file gives out in two codes, and with bullets of fonts of signs."""
    if text.isascii():
        return text
    text = _TWICE.sub(lambda sign: "" if sign[1] is None or ord(sign[1]) - 0xF000 == ord(sign[0]) else sign[0], text)
    return f"•{text[1:]}" if _SIGN.match(text) and ord(text[0]) not in _CLEAN else text


class _Dehyphenator:
    """Decides by a document's other words whether the hyphen of a word divided at a line's end belongs to it."""

    def __init__(self, pages: list[list[Line]]) -> None:
        self.pages = pages
        self._words = Counter(part for lines in pages for word in _whole_words(lines) for part in _parts(word))

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
        if (a in _HYPHENATED or a in _TENS) and (a != "ex" or self._words[b]):  # but "ex-" and "plicit"
            return "-"
        words = self._words[a] and self._words[b] and a not in _PREFIXES and b not in _SECOND_HALVES
        return "-" if words and len(a) >= _SHORTEST_FIRST and len(b) >= _SHORTEST_SECOND else ""


def _parts(word: str) -> Iterator[str]:
    """Yield a word, and the words of a longer compound two by two: "left-to" and "to-right" of "left-to-right"."""
    word = word.casefold()
    yield word
    if word.count("-") > 1:
        yield from map("-".join, itertools.pairwise(word.split("-")))


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
        self._paragraphs: list[Paragraph] = []

    def page(self, number: int, lines: Sequence[Placed]) -> int:
        """Write lines of a page that follow one another and return where they begin."""
        begin = -1
        for i, placed in enumerate(lines):
            at = self._line(number, placed, [after.line for after in lines[i + 1 : i + 8]])
            self._turned = self.words.pages[number][0].turned  # now that what the page before left open is closed
            begin = at if begin < 0 else begin
        return begin

    def finish(self) -> tuple[str, list[Paragraph]]:
        """Return the text and its paragraphs."""
        self._close()
        return "".join(self._pieces), self._paragraphs

    def _line(self, number: int, placed: Placed, after: Sequence[Line]) -> int:
        """Write a line and return where it begins."""
        line = placed.line
        if not self._open or (not placed.resumes and begins_paragraph(self._open, line, after, self._pitch)):
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
            self._write("-" if self._open[-1].broken else "")
            size = statistics.median(line.size for line in self._open)
            bold = all(line.bold for line in self._open)
            first = self._open[0]
            found = Paragraph(
                self._start, self._length, self._page, size, bold, len(self._open), first.table,
                aside=first.turned != self._turned,
            )  # fmt: skip
            self._paragraphs.append(found)
            self._open = []
