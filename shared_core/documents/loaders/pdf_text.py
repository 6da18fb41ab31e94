"""Assemble the lines of a PDF to its text: paragraphs, divided words joined, starts of pages.

What notes, figures and stamps interrupt is put back together: a sentence that goes on in the next column or on the next
page stands around the notes below it and the tables above its other half. These follow the paragraph, on the page that
they are of.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from shared_core.documents.loaders.extracted import Extracted, Page
from shared_core.documents.loaders.pdf_headings import Bookmark, Paragraph, choose_title, find_headings
from shared_core.documents.loaders.pdf_layout import (
    NOTE,
    begins_paragraph,
    goes_on,
    line_pitch,
    page_rows,
    without_running_heads,
)
from shared_core.documents.loaders.pdf_lines import Line
from shared_core.documents.loaders.pdf_rules import Rules
from shared_core.documents.loaders.pdf_tables import with_tables
from shared_core.support.regex import lazy_regex

_SMALLER = 0.95  # of the size of the text: notes, and captions in most journals
_NEXT_LINE = 1.5  # font sizes to the next line of a paragraph
_MOST_BETWEEN = 120  # lines of notes and tables
_SHORTEST = 4  # words of a line of text that goes on elsewhere
_CAPTION = lazy_regex(r"(?:Table|Figure|Fig\.|TABLE|FIGURE|FIG\.) ?(?:\d+|[A-Z]\d+|[IVX]+)(?:[.:]|\s+[A-Z])")


class Placed(NamedTuple):
    """A line with the number of its page; ``resumes`` the sentence of the line before what stood between them."""

    page: int
    line: Line
    resumes: bool = False


def in_flow(pages: Sequence[Sequence[Line]], pitch: float) -> list[Placed]:
    """Return the lines of all pages in the order in which they are read, each paragraph before what interrupts it."""
    flat = [Placed(number, line) for number, lines in enumerate(pages) for line in lines]
    sizes: Counter[float] = Counter()
    for _, line, _ in flat:
        sizes[round(line.size, 1)] += len(line.text) if not line.table else 0
    usual = sizes.most_common(1)[0][0] if sizes else 0.0
    upright = [lines[0].turned if lines else 0 for lines in pages]

    def is_text(at: Placed) -> bool:
        line = at.line
        return not line.table and line.size >= _SMALLER * usual and line.turned == upright[at.page]

    found, held = list[Placed](), list[Placed]()
    i = 0
    while i < len(flat):
        found.append(flat[i])
        following = _following(flat, i, is_text, pitch) if is_text(flat[i]) else i + 1
        if following > i + 1:
            held += flat[i + 1 : following]
            flat[following] = flat[following]._replace(resumes=True)
        elif held and (i + 1 == len(flat) or _ends(found, flat[i + 1 : i + 9], is_text, pitch)):
            found += held
            held = []
        i = following
    return found + held


def _following(flat: Sequence[Placed], i: int, is_text: Callable[[Placed], bool], pitch: float) -> int:
    """Return where the sentence of line ``i`` goes on: in the next line, unless one behind notes plainly resumes it."""
    j = i + 1
    if j < len(flat) and _goes_on_below(flat[i], flat[j]):
        return j
    while j < min(len(flat), i + _MOST_BETWEEN) and flat[j].page <= flat[i].page + 1:
        if _CAPTION.match(flat[j].line.text) or _is_note(flat[j - 1], flat[j]):
            j = _end_of_paragraph(flat, j, pitch)
        elif is_text(flat[j]) and not _goes_on_below(flat[j - 1], flat[j]):
            break
        else:
            j += 1
    else:
        return i + 1
    last, line = flat[i].line, flat[j].line
    plain = abs(last.size - line.size) < (1 - _SMALLER) * last.size and last.bold == line.bold
    long = last.text.count(" ") >= _SHORTEST
    return j if plain and long and goes_on(last, line) else i + 1


def _is_note(last: Placed, at: Placed) -> bool:
    """Return whether a line begins with the mark of a note, at a distance from the text above or behind another."""
    marked = NOTE.match(at.line.text) is not None
    near = 0 < last.line.y - at.line.y <= _NEXT_LINE * last.line.size and NOTE.match(last.line.text) is None
    return marked and last.page == at.page and not near


def _goes_on_below(last: Placed, at: Placed) -> bool:
    """Return whether a sentence goes on in the next line right below."""
    a, b = last.line, at.line
    below = last.page == at.page and 0 < a.y - b.y <= _NEXT_LINE * a.size and b.x0 < a.x1 and a.x0 < b.x1
    return below and goes_on(a, b)


def _end_of_paragraph(flat: Sequence[Placed], j: int, pitch: float) -> int:
    """Return where the paragraph ends that begins with line ``j``."""
    before = [flat[j].line]
    for k in range(j + 1, min(len(flat), j + _MOST_BETWEEN)):
        after = [at.line for at in flat[k + 1 : k + 8] if at.page == flat[k].page]
        if begins_paragraph(before, flat[k].line, after, pitch):
            return k
        before.append(flat[k].line)
    return j + len(before)


def _ends(found: Sequence[Placed], rest: Sequence[Placed], is_text: Callable[[Placed], bool], pitch: float) -> bool:
    """Return whether the paragraph of the last line ends with it."""
    line, after = rest[0].line, [at.line for at in itertools.islice(rest, 1, None) if at.page == rest[0].page]
    before = [at.line for at in found[-6:] if is_text(at)]
    return not is_text(rest[0]) or begins_paragraph(before, line, after, pitch)


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
