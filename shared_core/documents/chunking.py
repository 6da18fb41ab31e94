"""Cut documents into passages at sentence boundaries.

A passage is one contiguous stretch of its document, so that a quote from it can be shown in its place. It always ends
with its table row, section or page (a sentence that runs over a page's end stays whole). Within them it ends between
paragraphs if the next one does not fit, but not behind one that leads in or heads what follows; between sentences
of a paragraph that is itself too long, and then passages overlap by whole sentences; between words of a sentence that
is longer than a passage may be. Tables of contents, indexes, lists of links into the page and single words get no
passages, if their form is unmistakable.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence

from shared_core.documents.load import Document
from shared_core.documents.loaders.extracted import TERM_LEVEL, Heading, Page, Segment
from shared_core.errors import InputError
from shared_core.support.regex import lazy_regex
from shared_core.types import MetadataValue, Passage

CHUNKING_VERSION = 9
"""Increased whenever the same document may give other passages."""

MAX_CHARS = 900
OVERLAP = 1

Splitter = Callable[[str], Sequence[tuple[int, int]]]
Range = tuple[int, int]

# Atomic and possessive: "\r\n" is one line break, never two, and nothing is scanned twice.
_PARAGRAPH_BREAK = lazy_regex(r"(?>\r\n|\r|\n)[^\S\r\n]*+(?>\r\n|\r|\n)\s*+")
_LINE_END = lazy_regex(r"\r\n|\r|\n")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_LONGEST_CLUSTER = 32
# "ABOUT US", "SECTION C: EXCESS", "4.2 Fees", "Part 3: Fees": where a loader has not found them to be headings.
_HEADING_LINE = lazy_regex(
    r"(?=[^\n]*[A-Z]{3})[A-Z0-9 ,:&/'’().-]{3,80}(?<![.,;])"
    r"|\d{1,2}(?:\.\d{1,2}){1,3}\.?[ \t]{1,4}[A-Z][^\n.;!]{2,80}"
    r"|(?i:section|part|chapter|appendix|annex|article) [\dA-Z]{1,4}[.:]? [^\n.;!]{2,80}"
)
_LEAD = 250  # characters of what leads in a list


_WORD = lazy_regex(r"\w+")
_LEADERS = lazy_regex(r"(?:\.{3,}|…+|(?:[.·]\s+){3,}[.·]?)\s*(?:\d{1,4}|[ivxlc]{1,7})\s*\Z", re.IGNORECASE)
_PAGE_BEHIND = lazy_regex(r"\S[\s.,…]+(?:\d{1,4}(?:[,;–-]\s*\d{1,4})*|[ivxlc]{1,7})\s*\Z")
_LINK_LINE = lazy_regex(r"\s*(?:[-*+]|\d+[.)])\s+\[[^\]]+\]\(#[^)]*\)\s*\Z")
_LISTING = lazy_regex(
    r"(?:\d+[.)]?\s+)?"
    r"(?:(?:table of )?contents|(?:list|table) of (?:figures|tables|illustrations)|(?:general |subject )?index)",
    re.IGNORECASE,
)
_LINKS_TITLE = lazy_regex(r"[\W\d]*(?:see also|further reading|related(?: \w+)?|external links)\W*", re.IGNORECASE)
_MOST, _LINKS, _LEAST_WORDS = 0.6, 3, 2  # share of a listing's lines; lines of links; words of a passage
_LAST_LATIN = "\u024f"


def chunk_document(
    document: Document, *, max_chars: int = MAX_CHARS, overlap: int = OVERLAP, split_sentences: Splitter | None = None
) -> list[Passage]:
    r"""Cut a document into passages, in the order of its text.

    >>> ferry = Document("ferry.txt", "The ferry leaves at nine.\n\nA passenger pays two farthings.")
    >>> [passage.text for passage in chunk_document(ferry, max_chars=40)]
    ['The ferry leaves at nine.', 'A passenger pays two farthings.']

    Args:
        max_chars: code points of the longest passage, at least 16.
        overlap: sentences that a passage repeats from the one before if a paragraph had to be cut; fewer if they would
            leave no room for a new sentence.
        split_sentences: text to ``[(start, end)]``; ``None`` takes ``shared_core.citation.split_sentences``.

    Returns:
        Passages with ``document.text[start:end] == passage.text``. Together they contain every non-space character of
        the document's segments but listings and titles of links without these (``noise``), or all of them if nothing
        else would be left. Metadata: ``source``, ``start``, ``end``; ``section`` (the headings above, outermost first,
        joined by `` > ``) if there are any; the segment's own (``row``, columns; ``rows``, their number, where a row is
        a passage); ``cut`` ("start", "end" or "both") where the passage begins or ends within a paragraph, or with a
        page within a section;
        ``page`` (of a PDF, or slide) on which it begins, counted from 1, and ``page_label``, the document's name for
        it; if its last sentence runs over the page's end also ``page_end``, ``page_end_label`` and ``page_break``, the
        offset in the passage's text at which the next page begins. The id is a digest of all of this: equal ids mean
        equal passages.

    Raises:
        InputError: ``max_chars`` or ``overlap`` out of range.
    """
    if max_chars < 16:
        raise InputError(f"max_chars must be at least 16, not {max_chars}.")
    if overlap < 0:
        raise InputError(f"overlap must not be negative, not {overlap}.")
    split = _lines if document.format == "code" else split_sentences or default_splitter()
    cutter = _Cutter(document.text, max_chars, overlap, split)
    return _passages(document, cutter, filtered=True) or _passages(document, cutter, filtered=False)


def _passages(document: Document, cutter: _Cutter, *, filtered: bool) -> list[Passage]:
    """Return all passages; if ``filtered``, without listings and single words."""
    passages: list[Passage] = []
    for segment in document.segments or (Segment(0, len(document.text)),):
        for start, end, body, headings in _sections(document, segment):
            titled = bool(headings) and is_listing_title(headings[-1].label)
            above = [h for h in headings if h.label]
            if filtered and above and _LINKS_TITLE.fullmatch(above[-1].label) and not document.text[body:end].strip():
                continue  # its links were left out as the page's navigation
            label = " > ".join(h.label for h in above)
            term = above[-1].label if above and above[-1].level >= TERM_LEVEL else ""

            def is_noise(first: int, last: int, titled: bool = titled) -> bool:
                return is_listing(document.text[first:last], titled=titled)

            pieces: list[Range] = []
            page_ends: set[int] = set()
            for first, last, head in _pages(document, cutter, start, end, body):
                on_page = list(cutter.cut(first, last, head, is_noise if filtered else None))
                # A row's text may be one word ("Yes"), to which its title and columns give a meaning.
                alone = filtered and len(on_page) == 1 and not segment.metadata
                if not (alone and is_single_word(document.text[slice(*on_page[0])])):
                    pieces += on_page
                page_ends |= {piece[1] for piece in on_page[-1:] if last < end}
            cuts = _cuts(document.text, pieces, page_ends)
            passages += [_passage(document, segment, piece, label, term, cut) for piece, cut in zip(pieces, cuts)]
    return passages


def _cuts(text: str, pieces: Sequence[Range], page_ends: Collection[int]) -> list[str]:
    """Return for each piece of a section where what it holds goes on in another: "start", "end", "both" or ""."""
    within = [
        end in page_ends or following < end or not _PARAGRAPH_BREAK.search(text, end, following)
        for (_, end), (following, _) in itertools.pairwise(pieces)
    ]
    names = {(True, True): "both", (True, False): "start", (False, True): "end"}
    return [names.get(sides, "") for sides in zip([False, *within], [*within, False])]


def _pages(document: Document, cutter: _Cutter, start: int, end: int, body: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, start of its body) for each page of a section.

    A sentence that runs over a page's end belongs to the page on which it begins.
    """
    for page in document.pages[bisect_left(document.pages, body, key=lambda p: p.start) :]:
        if page.start >= end:
            break
        if page.start > body and start < (cut := cutter.sentence_end(page.start, body, end)) < end:
            yield start, cut, body
            start = body = cut
    yield start, end, body


def default_splitter() -> Splitter:
    """Return ``shared_core.citation.split_sentences``."""
    from shared_core.citation import split_sentences

    return split_sentences


def _lines(text: str) -> list[Range]:
    """Split source files, configuration and logs into lines."""
    ends = [match.end() for match in _LINE_END.finditer(text)]
    return [(a, b) for a, b in itertools.pairwise([0, *ends, len(text)]) if a < b]


def _passage(document: Document, segment: Segment, piece: Range, section: str, term: str, cut: str) -> Passage:
    start, end = piece
    metadata: dict[str, MetadataValue] = {**segment.metadata, "source": document.source, "start": start, "end": end}
    metadata |= _page_metadata(document.pages, start, end)
    if section:
        metadata["section"] = section
    if cut:
        metadata["cut"] = cut
    text, title = document.text[start:end], segment.title or document.title
    if term and term not in text:  # the rest of a long definition, which by itself says of nothing what it says
        title = f"{title}: {term}" if title else term
    return Passage(passage_id(text, title, metadata), text, title, metadata)


def _page_metadata(pages: Sequence[Page], start: int, end: int) -> dict[str, MetadataValue]:
    first, last = (bisect_right(pages, place, key=lambda p: p.start) - 1 for place in (start, end - 1))
    if first < 0:
        return {}
    page, final = pages[first], pages[last]
    metadata: dict[str, MetadataValue] = {"page": page.number, "page_label": page.label or str(page.number)}
    if last > first:
        metadata |= {"page_end": final.number, "page_end_label": final.label or str(final.number)}
        metadata["page_break"] = pages[first + 1].start - start
    return metadata


def passage_id(text: str, title: str, metadata: dict[str, MetadataValue]) -> str:
    """Return ``source#start-digest``: readable, and equal only for equal text, title and metadata."""
    content = json.dumps([text, title, sorted(metadata.items())], ensure_ascii=False)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{metadata['source']}#{metadata['start']}-{digest}"


def _sections(document: Document, segment: Segment) -> Iterator[tuple[int, int, int, tuple[Heading, ...]]]:
    """Yield (start, end, start of its body, headings above it) for each section of a segment.

    Headings with no text between them open one section together.
    """
    headings = document.headings
    first = bisect_left(headings, segment.start, key=lambda h: h.start)
    open_: list[Heading] = []
    for heading in headings[:first]:
        _enter(open_, heading)
    start = body = segment.start
    above = tuple(open_)
    for heading in headings[first:]:
        if heading.end > segment.end:
            break
        if document.text[body : heading.start].strip():
            yield start, heading.start, body, above
            start = heading.start
        elif body > start and is_listing_title(open_[-1].label):  # a table of contents that the program left out
            start = heading.start
        _enter(open_, heading)
        body, above = heading.end, tuple(open_)
    yield start, segment.end, body, above


def _enter(open_: list[Heading], heading: Heading) -> None:
    while open_ and open_[-1].level >= heading.level:
        open_.pop()
    open_.append(heading)


class _Cutter:
    """Cuts the sections of one text."""

    def __init__(self, text: str, max_chars: int, overlap: int, split: Splitter) -> None:
        self.text, self.max, self.overlap, self.split = text, max_chars, overlap, split

    def cut(self, start: int, end: int, body: int, skip: Callable[[int, int], bool] | None = None) -> Iterator[Range]:
        """Yield the passages of the section ``[start, end)`` whose headings end at ``body``.

        Paragraphs for which ``skip`` returns true are left out.
        """
        current: Range | None = None
        lead = start  # of the last paragraph
        for first, last in self._paragraphs(start, end, body):
            skipped = skip is not None and skip(max(first, body), last)
            if current is not None and not skipped and last - current[0] <= self.max:
                current, lead = (current[0], last), first
                continue
            if current is not None and not skipped and lead >= current[0] and self._leads_in(lead, current[1]):
                current, first = (self._strip(current[0], lead) if lead > current[0] else None), lead
            lead = first
            if current is not None:
                yield current
            if skipped:
                current = None
            elif last - first <= self.max:
                current = (first, last)
            else:
                *full, current = self._cut_paragraph(first, last)
                yield from full
        if current is not None:
            yield current

    def _leads_in(self, start: int, end: int) -> bool:
        """Return whether a paragraph or sentence ends in a colon or is a heading, and is short enough to go on."""
        if self.split is _lines or end - start > min(_LEAD, self.max // 2):
            return False
        return self.text[end - 1] == ":" or _HEADING_LINE.fullmatch(self.text, start, end) is not None

    def sentence_end(self, place: int, start: int, end: int) -> int:
        """Return the end of the sentence that runs over ``place``; ``place`` if none does or it is too long."""
        before = self._strip(start, place)[1]
        if before <= start or _PARAGRAPH_BREAK.search(self.text, before, place):
            return place
        first = max(start, place - self.max)
        for gap in _PARAGRAPH_BREAK.finditer(self.text, first, before):
            first = gap.end()
        following = _PARAGRAPH_BREAK.search(self.text, place, end)
        last = min(following.start() if following else end, place + self.max)
        return next((b for a, b in self._sentences(first, last) if a < place < b), place)

    def _paragraphs(self, start: int, end: int, body: int) -> Iterator[Range]:
        """Yield paragraphs without the white space around them; the first one begins with the headings."""
        start, position = self._strip(start, end)[0], body
        gaps = (gap.span() for gap in _PARAGRAPH_BREAK.finditer(self.text, body, end))
        for stop, following in itertools.chain(gaps, [(end, end)]):
            first, last = self._strip(position, stop)
            position = following
            if first < last:
                yield min(first, start), last
                start = end
        if start < body:
            yield self._strip(start, body)

    def _cut_paragraph(self, start: int, end: int) -> list[Range]:
        """Cut a paragraph that is too long for one passage, with as many sentences in each as fit."""
        units = [unit for sentence in self._sentences(start, end) for unit in self._fit(sentence)]
        pieces: list[Range] = []
        i = 0
        while True:
            j = i + 1
            while j < len(units) and units[j][1] - units[i][0] <= self.max:
                j += 1
            if j < len(units) and j - 1 > i and self._leads_in(*units[j - 1]):
                j -= 1
            pieces.append((units[i][0], units[j - 1][1]))
            if j == len(units):
                return pieces
            back = j
            while back - 1 > i and j - back < self.overlap and units[j][1] - units[back - 1][0] <= self.max:
                back -= 1
            i = back

    def _sentences(self, start: int, end: int) -> list[Range]:
        """Split into sentences; words that the splitter leaves out are added to the sentence before them."""
        starts = {start}
        for first, last in self.split(self.text[start:end]):
            if 0 <= first < last <= end - start:
                starts.add(start + first)
        ordered = [*sorted(starts), end]
        ranges = (self._strip(a, b) for a, b in itertools.pairwise(ordered))
        return [(a, b) for a, b in ranges if a < b]

    def _fit(self, sentence: Range) -> Iterator[Range]:
        """Cut a sentence into pieces that fit: between words, or between characters if a word is too long."""
        start, end = sentence
        while end - start > self.max:
            window = self.text[start : start + self.max + 1]
            if window[-1].isspace():
                cut = start + len(window.rstrip())
            else:
                words = window.rsplit(None, 1)
                cut = start + len(words[0]) if len(words) == 2 else self._between_clusters(start, start + self.max)
            yield start, cut
            start = self._strip(cut, end)[0]
        yield start, end

    def _between_clusters(self, start: int, cut: int) -> int:
        """Return the last place up to ``cut`` that does not separate a combining mark from its letter."""
        for place in range(cut, max(start, cut - _LONGEST_CLUSTER), -1):
            before, after = self.text[place - 1], self.text[place]
            if not (unicodedata.combining(after) or after in _JOINERS or before == "\u200d"):
                return place
        return cut

    def _strip(self, start: int, end: int) -> Range:
        while start < end and self.text[start].isspace():
            start += 1
        while start < end and self.text[end - 1].isspace():
            end -= 1
        return start, end


def is_listing_title(label: str) -> bool:
    """Return whether a heading is that of a table of contents, of figures, or of an index.

    >>> is_listing_title("List of figures")
    True
    """
    return _LISTING.fullmatch(label.strip(" .:#")) is not None


def is_listing(paragraph: str, *, titled: bool) -> bool:
    """Return whether a paragraph is part of a listing; ``titled``, lines under its heading need but end in a number."""
    lines = [line for line in paragraph.splitlines() if line.strip()]
    if not lines:
        return False
    shape = _PAGE_BEHIND if titled else _LEADERS
    numbered = sum(shape.search(line[-200:]) is not None for line in lines)
    links = sum(_LINK_LINE.fullmatch(line[:1000]) is not None for line in lines)
    return numbered >= _MOST * len(lines) or (links == len(lines) and (titled or links >= _LINKS))


def is_single_word(text: str) -> bool:
    """Return whether a passage has fewer than two words; never in scripts that may not separate words by spaces."""
    if any(letter > _LAST_LATIN and letter.isalpha() for letter in text):
        return False
    return len(_WORD.findall(text)) < _LEAST_WORDS
