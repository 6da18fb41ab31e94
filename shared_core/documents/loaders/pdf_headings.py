"""Find the headings of a PDF's paragraphs, by its outline, font sizes and numbers, and its title."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared_core.documents.loaders.extracted import Heading, first_line_title, one_line
from shared_core.support.regex import lazy_regex

_PIECE = lazy_regex(r"\w+")
_NUMBERING = lazy_regex(
    r"\A(?:chapter|section|article|part|appendix|§{1,2})?\s*[\divxlcA-Z]{0,4}(?:[.)]\d*)*[.):]?\s+", re.IGNORECASE
)
_SECTION = lazy_regex(
    r"(?:§{1,2}|(?:section|sec\.|article|art\.|chapter|part|clause|rule)\s)\s*[\dIVXLC]", re.IGNORECASE
)
_NOTE = lazy_regex(r"\s*\[[^\]]*\]\s*\Z")
_HISTORY = lazy_regex(r"(?:\s*\[(?:added|amended|adopted|repealed)\b[^\]]*\])+\s*\Z", re.IGNORECASE)
_PAGE_NUMBER = lazy_regex(r"\s+\d{1,4}\Z")
_LARGER = 1.12  # than the text: a heading
_HEADING_LETTERS = 200
_BOLD_HEADING_LETTERS = 100
_TITLE = 300
_OUTLINE = 3
_MOST_HEADINGS = 0.25  # of all letters; if there are more, size and weight do not mark headings
_CAPTION_LEVEL = 8  # of a table's caption; a label above some of its rows is one below
_CAPTION_LETTERS, _CAPTION_LINES = 160, 3
_CAPTION = lazy_regex(r"(?:table|tabelle|tableau|tabla|tabella|exhibit|figure)\s+[\dA-Z]", re.IGNORECASE)
_LABELS = 4  # rows for each label, at least
_UNITS = lazy_regex(r"[(\[].{1,60}[)\]]")
_SENTENCE_END = lazy_regex(r"[.;,]\Z")
_SENTENCE, _SENTENCE_BLANKS = 200, 7
_SECTION_NAME = lazy_regex(
    r"§|(?:(?:\d{1,2}|[IVX]+)[.)]?(?:\d+\.?)*\s)|(?:abstract|summary|overview|introduction|contents|purpose|scope|background)\b",
    re.IGNORECASE,
)
_DECIMAL = lazy_regex(r"(\d{1,2}(?:\.\d{1,2}){0,3})\.?[ ]+(?=[^\W\d_a-z])")
_FEWEST_NUMBERED, _HEADED, _CHAPTERS = 3, 0.7, 3
_PAPER, _FIRST_PAGES = lazy_regex(r"[\W\dIV]{0,6}(?:abstract|introduction)\b", re.IGNORECASE), 3
_SENTENCE_STOPS = tuple(".,;:")
_BULLET = lazy_regex(r"[•‣◦▪·*–—-]\s")  # not squares and circles, with which some manuals mark headings
_WORDS = lazy_regex(r"[^\W\d_]{3}|[\u3040-\uffdc]|(?<![^\W_])[A-Z]{2}(?![^\W_])")
_OPERATOR = lazy_regex(r"\A[=+∑∏∫√≤≥×·/\\|]|[=+∑∏∫√≤≥×·/\\|]\Z| = ")


class Bookmark(NamedTuple):
    """An entry of a PDF's outline: its level counts from 1, its page from 0."""

    title: str
    level: int
    page: int


@dataclass(frozen=True, slots=True)
class Paragraph:
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


def choose_title(
    title: str, text: str, first: int, paragraphs: Sequence[Paragraph], headings: Sequence[Heading]
) -> str:
    """Return the title of a document, perhaps that in its properties; ``first`` is where its first page ends."""
    largest = _largest(text[:first], paragraphs)
    if title and (not largest or _is_named(title, text, paragraphs)):
        return title
    heading = next((h.label for h in headings if h.start < first and not _is_section(h.label)), "")
    return largest or heading or first_line_title(text)


def _is_named(title: str, text: str, paragraphs: Sequence[Paragraph]) -> bool:
    """Return whether the first pages have much the words of a title, which may be of what the file was made from."""
    words = set(_PIECE.findall(title.casefold()))
    near = [p for p in paragraphs if p.page <= paragraphs[0].page + 1 and p.end - p.start <= _TITLE]
    lines = (set(_PIECE.findall(text[p.start : p.end].casefold())) for p in near)
    return any(2 * len(words & line) >= len(words | line) for line in lines)


def find_headings(text: str, paragraphs: Sequence[Paragraph], bookmarks: Sequence[Bookmark]) -> tuple[Heading, ...]:
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
    found |= _numbered(text, paragraphs, found)
    above, ends = _above_rows(text, paragraphs, found)
    found |= above
    headings = [Heading(p.start, p.end, level, _label(text[p.start : p.end])) for p, level in found.items()]
    return tuple(sorted(headings + ends))


def _label(shown: str) -> str:
    """Return a heading as a label, without when it was added or amended, as by-laws tell behind it."""
    return _HISTORY.sub("", one_line(shown)) or one_line(shown)


def _above_rows(
    text: str, paragraphs: Sequence[Paragraph], known: Collection[Paragraph]
) -> tuple[dict[Paragraph, int], list[Heading]]:
    """Return the captions of tables and the labels above their rows with their levels, and headings that end them.

    A caption is the last short paragraph above a table that is no sentence; units in brackets may stand below it.
    """
    levels: dict[Paragraph, int] = {}
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


def _numbered(text: str, paragraphs: Sequence[Paragraph], known: Mapping[Paragraph, int]) -> dict[Paragraph, int]:
    """Return headings that only their numbers show, as "3.2 Common ground", with their levels.

    Their numbers must follow each other, and most of them must head a sentence: steps and clauses do not.
    """
    found: dict[Paragraph, int] = {}
    last: tuple[int, ...] = (0,)
    level, headed = 1, 0
    for i, p in enumerate(paragraphs):
        number = _DECIMAL.match(text, p.start, p.end)
        parts = tuple(map(int, number[1].split("."))) if number else ()
        if p in known:
            last, level = (parts, known[p]) if parts else (last, level)
            continue
        if number is None or p.lines > 2 or p.table or p.aside or not _follows(last, parts):
            continue
        if p.end - number.end() > _BOLD_HEADING_LETTERS or text[p.start : p.end].endswith(_SENTENCE_STOPS):
            continue
        level += len(parts) - len(last)
        last, found[p] = parts, max(level, 1)
        below = paragraphs[i + 1 : i + 3]
        headed += any(_is_sentence(text, other) for other in below)
    return found if len(found) >= _FEWEST_NUMBERED and headed >= _HEADED * len(found) else {}


def _follows(last: tuple[int, ...], number: tuple[int, ...]) -> bool:
    """Return whether a heading's number can come next.

    >>> [_follows((2, 1), number) for number in ((2, 2), (2, 1, 1), (3, 1), (2, 4), (1, 1))]
    [True, True, True, False, True]
    """
    *above, own = number
    before = last[: len(above)]
    if not above or own < 1:
        return False
    if own > 1:
        return last[: len(number)] == (*above, own - 1)
    if len(above) == 1:  # chapters between may have no parts
        return above == [1] or 0 <= above[0] - last[0] <= _CHAPTERS
    return above in ([*before], [*before[:-1], before[-1] + 1])  # the heading above may not be one that is found


def _authors(text: str, paragraphs: Sequence[Paragraph], looks: Sequence[Paragraph]) -> list[Paragraph]:
    """Return what looks like headings below a paper's title and above its first sentence: names, places, dates."""
    number = paragraphs[0].page
    begin = [p for p in paragraphs if p.page <= number + _FIRST_PAGES]
    if not any(_PAPER.match(text, p.start, p.end) for p in begin):  # leaflets have little but headings
        return []
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


def _is_sentence(text: str, p: Paragraph) -> bool:
    shown = text[p.start : p.end].rstrip()
    return (p.lines > 2 and len(shown) >= _SENTENCE) or (shown.count(" ") >= _SENTENCE_BLANKS and shown.endswith("."))


def _alike(p: Paragraph, other: Paragraph) -> bool:
    return (p.rank, p.bold) == (other.rank, other.bold)


def _is_entry(shown: str, titles: set[str]) -> bool:
    """Return whether it is a line of a table of contents: another heading followed by a page number."""
    title = _PAGE_NUMBER.sub("", shown)
    return title != shown and title in titles


def _body_size(paragraphs: Iterable[Paragraph]) -> float:
    letters: Counter[float] = Counter()
    for p in paragraphs:
        letters[p.rank] += p.end - p.start
    return letters.most_common(1)[0][0]


def _looks_like_heading(text: str, p: Paragraph, body: float, *, bold: bool) -> bool:
    shown = text[p.start : p.end]
    if "\t" in shown or p.lines > 4 or p.table or p.aside or not _has_words(shown) or _BULLET.match(shown):
        return False
    if p.size >= _LARGER * body:
        return len(shown) <= _HEADING_LETTERS
    if _SECTION.match(shown):  # "§ 60-445. Appeals. [Added 5-29-2013]"
        shown = _NOTE.sub("", shown).removesuffix(".")
    plain = bold and p.bold and p.size >= 0.98 * body and not shown.endswith(_SENTENCE_STOPS)
    return (
        plain and len(shown) <= _BOLD_HEADING_LETTERS and (shown[0].isupper() or shown[0].isdigit() or shown[0] == "§")
    )


def _named(text: str, paragraphs: Sequence[Paragraph], bookmarks: Sequence[Bookmark]) -> dict[Paragraph, int]:
    """Return the paragraphs that bookmarks lead to, with their levels."""
    places: dict[tuple[int, str], Paragraph] = {}
    for p in paragraphs:
        if p.end - p.start <= _HEADING_LETTERS:
            for key in _keys(text[p.start : p.end]):
                places.setdefault((p.page, key), p)
    found: dict[Paragraph, int] = {}
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


def _levels(named: dict[Paragraph, int], looks: Iterable[Paragraph]) -> dict[float, int]:
    """Assign a level to each font size: the outline's if it has that size, the others by their order."""
    known: dict[float, int] = {}
    for p, level in named.items():
        known[p.rank] = max(level, known.get(p.rank, 0))
    levels: dict[float, int] = {}
    above = 0
    for size in sorted({*known, *(p.rank for p in looks)}, reverse=True):
        above = levels[size] = known.get(size, above + 1)
    return levels


def _largest(first_page: str, paragraphs: Sequence[Paragraph]) -> str:
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
