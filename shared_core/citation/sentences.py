"""Sentence boundaries with exact offsets, by rules, in linear time, for any script.

Two passes over the text, each one regular expression that consumes every character at most once (possessive
quantifiers: nothing to backtrack into, so no input makes it quadratic): runs of sentence-ending punctuation, which are
boundaries or not by what stands around them, and line breaks, which are boundaries at blank lines, headings and
list items, but not where a paragraph was only wrapped.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

__all__ = ["SentenceSplitter", "ends_sentence", "split_sentences"]


class SentenceSplitter(Protocol):
    """Anything that cuts a text into sentences; ``split_sentences`` is the default.

    >>> def lines(text: str) -> list[tuple[int, int]]:
    ...     return [match.span() for match in re.finditer("[^\\n]+", text)]
    >>> splitter: SentenceSplitter = lines
    >>> splitter("One\\nTwo")
    [(0, 3), (4, 7)]
    """

    def __call__(self, text: str, /) -> list[tuple[int, int]]:
        """Half-open code point ranges, sorted, not overlapping, not empty."""
        ...


_LISTS = {name: frozenset(words.split()) for name, words in read_lists("shared_core.citation", "sentences.txt").items()}
_NEVER_LAST, _TITLES, _STARTERS = _LISTS["never last"], _LISTS["titles"], _LISTS["starters"]
_RUNNING = _LISTS["running"]
_MAYBE_LAST = {False: _LISTS["maybe last"], True: _LISTS["maybe last"] | _LISTS["maybe last, capitalised"]}
"""By whether they are written with a capital."""


def _code_points(ranges: frozenset[str]) -> frozenset[str]:
    """The characters of ranges as Unicode's files have them: ``1367..1368``."""
    ends = [[int(number, 16) for number in part.split("..")] for part in ranges]
    return frozenset(chr(code) for part in ends for code in range(part[0], part[-1] + 1))


_UNSPACED = _code_points(_LISTS["terminals"])
_SPACED = ".!?…‥‽⁇⁈⁉‼"
_QUOTES = "\"'”’»›」』〞〟＂＇“"
_CLOSERS = _QUOTES + ")]}）］｝】》〉〕〗*_¹²³⁰⁴⁵⁶⁷⁸⁹"
_QUOTE_ENDS = frozenset(_QUOTES)
_COMMAS = frozenset("、，,؛;")
_JOINING = frozenset(",;:)]}%&/=+<»”")
_OPENERS = (
    r"\"'“‘«‹„‚「『〝(\[{（［｛【《〈〔〖¿¡*_~`#§•‣–—\-\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u00a0 "
)

_BREAK = lazy_regex(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*+")
_HARD_BREAK = lazy_regex(r"[\f\u2029]")
_LINE_END = lazy_regex(r"\r\n?|[\n\v\x1c-\x1e\x85\u2028]")
_NEXT = lazy_regex(rf"[{_OPENERS}]{{0,12}}+(\w{{0,20}})")
_WORD_BEFORE = lazy_regex(r"[^\s\"'“”‘’«»(\[{（「『<>/|–—]*\Z")
_DAY = lazy_regex(r"0?[1-9]|[12]\d|3[01]")
_DOTTED = lazy_regex(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}\Z")  # U.S, e.g, Ph.D, a.m, J.-P
_LABEL = lazy_regex(
    r"(?:\d{1,3}(?:\.\d{1,3})*|[A-Z]{0,2}\d{1,3}|[A-Za-z]|[ivxlcIVXLC]{1,6})\Z"
)  # of a list item or a section
_CAPTION = lazy_regex(r"\b(?:Table|Figure|Fig\.|TABLE|FIGURE|FIG\.|Algorithm|Listing|Box|Plate)[ \u00a0]\Z")
_BLOCK_START = lazy_regex(
    r"[-*+•‣◦▪●○–—·][ \t\u00a0]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})[.)][ \t\u00a0]|#{1,6}[ \t]|\||>"
    r"|={3}|-{3}|:{3}|\*{3}|_{3}"
)
_PARENTHESISED = lazy_regex(r"\((?:\d{1,3}|[A-Za-z]|[ivx]{1,5})\)[ \t]")
_INITIALS = lazy_regex(r"[A-Z]\.[ \t]?(?:[A-Z]\.[ \t]?)+[A-Z][\w'’-]")  # of a person: no letters of a list
_NAME = lazy_regex(r"[^\W_][\w-]*(?: [\w-]+)?\s*")  # the last line of a block, behind a full stop
_RUN = lazy_regex(r"\S{0,60}")
_TERM = lazy_regex(r"[^\t\n]{1,60}\t")  # of a definition behind a tab, or the first cell of a row
_FIELD_OF_RST = lazy_regex(r":[^\W\d_][^:\n]{0,79}:(?=\s)")  # ":Author: …", ":param speed: …"
_UNIT = lazy_regex(r"\d[\s\u202f][a-z]\Z")  # "3.40 m": a measure, no initial
_FIELD = lazy_regex(r"[^\W\d_][^:;\n]{0,39}: ")
_RECORD = lazy_regex(r"([^\W_][^,\s]*(?: [^,\s]+){0,3}, )[^,\s]+(?: [^,\s]+){0,3}, [^\n]*[^\s,]")
"""A line of short values with commas between them, the first of which names a group: "Hall B, 2nd floor, 204"."""
_TAB = lazy_regex(r"\t+")
_FURTHER_FIELD = lazy_regex(r"; ([^:;\n]{1,80}+): ")
_STAMP = lazy_regex(  # with which an entry of a log or a message of a chat begins: when, how serious, or by whom
    r"""[\[(]{0,2}(?:
      (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?[ ])?
      (?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ ]{1,2}\d{1,2},?[ ](?:\d{4},?[ ])?
        |(?:\d{8}|\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?)(?:[T_]|[ ,-]{1,3}))?\d{1,2}:\d\d\b
      |[ ]*\d{1,9}\.\d{6}\]
      |(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)\b
      |[IWEF]\d{4}[ ]\d\d:\d\d
      |<[\w@+-]{1,30}>[ ]
      |(?:time|ts|timestamp)=)
    |(?:\S{1,60}[ ]{1,4}){1,3}\[?(?:\d{4}-\d\d-\d\d[T ]|\d{1,2}/[A-Z][a-z]{2}/\d{4}:)\d\d:\d\d
    |\{"(?=[^\n]*\}[ \t\r,]*$)""",
    re.VERBOSE | re.MULTILINE,
)
_KEY = lazy_regex(  # of YAML, JSON, INI or a mail's head
    r"""(?:- +)?(?:"[^"\n]{1,80}":|[\w./\\'{}-]+:(?=\s|\Z)|[\w."'-]+[ \t]*=(?!=))"""
)
_SECTION = lazy_regex(r"\[{1,2}[^\W\d_][\w .:/\"-]*\]{1,2}\s*\Z")  # of settings
_LONG, _SHORTEST = 400, 60
_USUAL, _NARROW, _COLUMN_LINES, _FULL = 60, 30, 8, 0.75  # characters of a line; of a column's; its lines; of them
_LONGEST_VALUE, _LONGEST_INNER = 80, 240  # characters of a cell with its name; of one before others; longer is prose
_LONGEST_ROW, _LEAST_CELLS = 900, 3  # characters, as long as a passage may be; named cells behind the first
_SEMICOLON = lazy_regex(r";(?=\s)|；")
_UNDERLINE = lazy_regex(r"(?:={3,}|-{3,}|~{3,})\s*\Z")
_INLINE_HEADING = lazy_regex(r"(?<=\s)#{2,6}[ \t]")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Cut ``text`` into sentences.

    Headings, list items, table rows and lines between blank lines count as sentences of their own; a line break inside
    a wrapped paragraph does not end one. A sentence of more than 400 characters, as contracts and laws have them, is
    cut at its semicolons: nobody reads a page as one quote. No model, no download, linear time.

    Args:
        text: any string, of any script, with any line ends.

    Returns:
        Half-open ranges of code points, sorted and not overlapping. No range is empty or starts or ends with white
        space, and every character that is not white space lies in one. An empty or blank text gives an empty list.
    """
    found = []
    for start, end in _whole_sentences(text):
        if end - start > _LONG and not _is_row(text, start, end):
            ends = _clause_ends(text, start, end)
            found += _trimmed(text, ends, start, end) if ends else [(start, end)]
        else:
            found.append((start, end))
    return found


def _whole_sentences(text: str) -> list[tuple[int, int]]:
    ends = _without_cell_ends(text, list(_terminator_cuts(text)))
    return _trimmed(text, sorted({*_line_cuts(text), *ends}), 0, len(text))


def _without_cell_ends(text: str, cuts: Sequence[int]) -> list[int]:
    """Leave out the ends within the names and short values of a row: "Sl. No.: 27; District: St. Ives; Rice: 7.31".

    Cells behind an end within a row would be read without those before it, which say what the row is of.
    """
    kept: list[int] = []
    end = -1
    edges: list[int] = []  # where the cells of a row begin, and the last one ends
    for cut in cuts:
        if cut > end:
            begin, end = text.rfind("\n", 0, cut) + 1, text.find("\n", cut)
            end = len(text) if end < 0 else end
            edges = _cell_edges(text, *trim(text, begin, end))
        at = bisect_left(edges, cut)
        if not 0 < at < len(edges) or cut == edges[-1] or edges[at] - edges[at - 1] > _longest_cell(edges, at):
            kept.append(cut)
    return kept


def _longest_cell(edges: Sequence[int], at: int) -> int:
    """The most characters with which the cell that ends at ``edges[at]`` is read as a whole."""
    inner = 1 < at < len(edges) - 1 and edges[1] - edges[0] <= _LONGEST_VALUE
    return _LONGEST_INNER if inner else _LONGEST_VALUE


def _cell_edges(text: str, start: int, end: int) -> list[int]:
    """Return the starts of a row's cells and the end of the last: three or more, named or between tabs; else none."""
    for between in (_FURTHER_FIELD, _TAB):
        cells = [match.start() for match in between.finditer(text, start, end)]
        if len(cells) >= _LEAST_CELLS - 1:
            return [start, *cells, end]
    return []


def _is_row(text: str, start: int, end: int) -> bool:
    """Whether a range is one line of named cells: "Name: Ida Berg; Role: captain; Phone: 55 12; …"."""
    if end - start > _LONGEST_ROW or _BREAK.search(text, start, end):
        return False
    cells = len(_FURTHER_FIELD.findall(text, start, end))
    return cells >= _LEAST_CELLS and 2 * cells > text.count("; ", start, end)


def _clause_ends(text: str, start: int, end: int) -> list[int]:
    """Positions behind the semicolons of a sentence, none so near the one before that a stump would be cut off."""
    ends: list[int] = []
    last = start
    for match in _SEMICOLON.finditer(text, start, end):
        if match.end() - last >= _SHORTEST <= end - match.end():
            last = match.end()
            ends.append(last)
    return ends


def _trimmed(text: str, cuts: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    """The pieces of ``text[start:end]`` between sorted cuts, without white space at their ends; no empty ones."""
    spans: list[tuple[int, int]] = []
    for cut in (*cuts, end):
        left, right = trim(text, start, cut)
        if left < right:
            spans.append((left, right))
        start = cut
    return spans


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without white space at its ends; empty, at its end, if it is blank."""
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip()) if piece.strip() else end


def ends_sentence(text: str) -> bool:
    """Whether the text's end is a sentence's, even if a name follows: not after "John F.", "Dr.", "the U.S."."""
    bare = text.rstrip()
    # "Xyz" stands for any name: it begins no sentence by itself, as "The" would.
    return bool(bare) and len(_whole_sentences(f"{bare} Xyz")) > len(_whole_sentences(bare))


# --- punctuation ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _terminator_pattern(unspaced: frozenset[str]) -> re.Pattern[str]:
    """A run of terminators (spaced dots ". . ." included), what closes after it with footnote marks, white space.

    Only the rare terminators that the text holds are in the class: small classes are scanned several times faster.
    """
    return re.compile(
        rf"([{_SPACED}{''.join(sorted(unspaced))}]++(?>(?:[ \u00a0]\.)*))"
        rf"((?>(?:[{re.escape(_CLOSERS)}]++|\[(?:\d{{1,4}}|[a-z]|note \d{{1,3}}|citation needed)\])*))"
        r"(\s*+)"
    )


def _terminator_cuts(text: str) -> Iterator[int]:
    """Positions after sentence-ending punctuation and what closes with it."""
    start = 0  # of the current sentence, as far as punctuation tells
    pattern = _terminator_pattern(frozenset(() if text.isascii() else _UNSPACED.intersection(text)))
    for match in pattern.finditer(text):
        if _ends_sentence(text, match, start):
            start = match.end()
            yield match.end(2)


def _ends_sentence(text: str, match: re.Match[str], start: int) -> bool:
    run, close, space = match.groups()
    end = match.end()
    after = text[end : end + 1]
    if run[-1] in _UNSPACED:
        # 「…。」と言った: a quotation inside a sentence goes on in hiragana; a comma goes on in any script.
        return not (after in _COMMAS or (close and not space and "\u3041" <= after <= "\u309f"))
    if not space:
        return _glued(text, match, after)
    found = _NEXT.match(text, end)
    word = found.group(1) if found else ""
    if word:
        # A lower-case word cannot start a sentence, but "iPhone" can.
        if word[0].islower() and not word[1:2].isupper():
            return False
    elif after in _JOINING:
        return False
    if run != ".":  # "!", "?!", "...", "…"
        return True
    return _full_stop_ends(text, match, start, word)


def _glued(text: str, match: re.Match[str], after: str) -> bool:
    """Terminators with no space after them end a sentence only in scraped text ("ended.The next"): judged narrowly."""
    run, close, _ = match.groups()
    if close:
        return close[-1] in "]¹²³⁴⁵⁶⁷⁸⁹⁰" and after.isupper()  # "ended.[3]The next"
    before = text[max(0, match.start() - 3) : match.start()]
    if run != "." or not after.isupper() or len(before) < 3 or not (before.isalpha() and before.islower()):
        return False
    found = _NEXT.match(text, match.end())
    return found is not None and found.group(1).istitle() and found.group(1).lower() in _STARTERS


def _full_stop_ends(text: str, match: re.Match[str], start: int, word: str) -> bool:
    """A single "." with white space after it and something that could start a sentence: is it an abbreviation's?"""
    at = match.start()
    low = max(start, at - 24)
    before = _WORD_BEFORE.search(text[low:at])
    token = before.group() if before else ""
    if not token:
        return True
    if _LABEL.match(token) and _opens_line(text[low : at - len(token)], low == start):
        return False  # "1. First", "A. Second"
    caption = _CAPTION.search(text[low : at - len(token)]) if _LABEL.match(token) else None
    if caption is not None and _opens_line(text[low : low + caption.start()], low == start):
        return False  # "Table 8. Lamps of the coast"
    lowered = token.lower().lstrip("-.,;:*_~#")
    if lowered in _NEVER_LAST or (lowered in _TITLES and token[0].isupper()):
        return False
    if lowered in _LISTS["before number"] and word[:1].isdigit():
        return False
    if word.lower() in _LISTS["after day"] and _DAY.fullmatch(token):
        return False
    if lowered == "s" and text[at - 2 : at - 1] in ("'", "’"):
        return True  # "St. John's.": no initial
    starts = word.lower() in _STARTERS
    if len(token) == 1 and token.islower() and not word[:1].isdigit() and _UNIT.search(text[low:at]):
        return True
    if len(token) == 1 and (token.isupper() or token.islower()):  # an initial, or "vitamin C."
        return starts and word not in ("A", "I")
    if _DOTTED.match(lowered):
        return starts
    return starts or match.group(2)[:1] in _QUOTE_ENDS or lowered not in _MAYBE_LAST[token[0].isupper()]


def _opens_line(before: str, at_start: bool) -> bool:
    """Nothing stands before it in its sentence or line."""
    before = before.rstrip(" \t\u00a0(")
    return before[-1] in "\n\r" if before else at_start


# --- lines ---------------------------------------------------------------------------------------------------------


def _line_cuts(text: str) -> Iterator[int]:
    """Positions of line breaks that end a sentence, and of markdown headings inside a line."""
    if "##" in text:
        yield from (m.start() for m in _INLINE_HEADING.finditer(text))
    block: list[tuple[int, int]] = []  # (start, end) of the lines since the last blank one
    lengths = [len(line) for line in _BREAK.split(text) if line]
    column = _column_width(lengths) if lengths else 0
    start = 0
    for match in _BREAK.finditer(text):
        block.append((start, match.start()))
        start = match.end()
        space = match.group()
        if _HARD_BREAK.search(space) or sum(1 for _ in _LINE_END.finditer(space)) > 1:
            yield from _block_cuts(text, block, column)
            yield match.start()
            block = []
    block.append((start, len(text)))
    yield from _block_cuts(text, block, column)


def _indent(text: str, start: int) -> int:
    before = text[max(0, start - 80) : start]
    return len(before) - len(before.rstrip(" \t"))


def _same_field(text: str, start: int, next_start: int) -> bool:
    """Whether two lines begin with the same name of a field, as the rows of a table ("Country: …; Days: …") do."""
    one, other = _FIELD.match(text, start), _FIELD.match(text, next_start)
    return one is not None and other is not None and one[0] == other[0]


def _same_group(text: str, line: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two lines are records of values with commas between them, and begin with the same one."""
    one, two = (_RECORD.fullmatch(text, *ends) for ends in (line, other))
    return one is not None and two is not None and one[1] == two[1]


def _rows(text: str, lines: list[tuple[int, int]]) -> set[int]:
    """Starts of the lines that are rows of a table with named cells, of which other lines have some, too.

    What names the row may have no name itself: "Adults; 2020: 598; 2021: 641".
    """
    named = {start: {*_FURTHER_FIELD.findall(text, start, end)} for start, end in lines}
    counts = Counter(itertools.chain.from_iterable(named.values()))
    return {start for start, names in named.items() if any(counts[name] > 1 for name in names)}


def _column_width(lengths: Sequence[int]) -> int:
    """Characters of the lines of a narrow column, which most lines of a text fill; 0 if they do not."""
    longest = sorted(lengths)[len(lengths) * 9 // 10]  # but for a few wide ones, as of tables
    full = 2 * sum(length >= _FULL * longest for length in lengths) >= len(lengths) >= _COLUMN_LINES
    return longest if full and _NARROW <= longest < _USUAL else 0


def _block_cuts(text: str, lines: list[tuple[int, int]], column: int) -> Iterator[int]:
    """Cuts between the lines of one block: at list items, around headings, and where a line was ended on purpose."""
    if len(lines) < 2:
        return
    width = max(column or _USUAL, *(end - start for start, end in lines))
    begins, names = _entries(text, [line for line in lines if line[0] < line[1]])
    listed = not begins and not names and _is_list(text, lines, width)
    rows = _rows(text, lines)
    single = sum(bool(_PARENTHESISED.match(text, start)) for start, _ in lines) == 1  # "…, version\n(7) and above"
    fields = sum(_FIELD.match(text, start, end) is not None for start, end in lines)  # "mode: how to open it."
    field = -1  # indent of the field that the line is of
    for (start, end), (next_start, next_end) in itertools.pairwise(lines):
        if _UNDERLINE.match(text, next_start, next_end):
            continue  # a heading and the rule under it stay together
        if start in names:
            continue
        field = _indent(text, start) if _FIELD_OF_RST.match(text, start, end) else field
        if 0 <= field < _indent(text, next_start):
            continue
        field = -1
        if (
            next_start in begins
            or start in rows
            or next_start in rows
            or (
                _BLOCK_START.match(text, next_start, min(next_end, next_start + 12))
                and not (single and _PARENTHESISED.match(text, next_start))
                and not _INITIALS.match(text, next_start, next_end)
            )
            or _TERM.match(text, next_start, next_end)
            or _FIELD_OF_RST.match(text, next_start, next_end)
            or text.startswith(("#", ":::", "!!! "), start)
            or _UNDERLINE.match(text, start, end)
            or _ended_on_purpose(text, end - start, next_start, next_end, width)
            or _same_field(text, start, next_start)
            or (fields > 1 and text[end - 1] in ".!?" and _FIELD.match(text, next_start, next_end))
            or _same_group(text, (start, end), (next_start, next_end))
            or (listed and _is_item(text, (start, end), next_start, width))
            or (next_end == lines[-1][1] and text[end - 1] in ".!?" and _NAME.fullmatch(text, next_start, next_end))
        ):
            yield end


def _entries(text: str, lines: list[tuple[int, int]]) -> tuple[set[int], set[int]]:
    """Starts of the lines that begin an entry of a log, of a chat or of a configuration, and of those that only name
    what follows ("server {", "ports:", "[server]")."""
    begins = {start for start, end in lines if _STAMP.match(text, start, end)}
    if len(begins) < 2:
        begins = set()
    keys = {start for start, end in lines if _KEY.match(text, start, end)}
    ended = {start for start, end in lines if text[end - 1] in ";{}"}
    if 2 * len(keys | ended) <= sum(text[start] not in "{}[]()" for start, _ in lines):
        return begins, set()
    names = {start for start, end in lines if text[end - 1] in "{[(" or (text[end - 1] == ":" and start in keys)}
    names |= {start for start, end in lines if _SECTION.match(text, start, end)}
    begins |= keys | {after for (start, _), (after, _) in itertools.pairwise(lines) if start in ended}
    return {start for start in begins if text[start] not in "}])"}, names


def _is_list(text: str, lines: list[tuple[int, int]], width: int) -> bool:
    """Return whether lines without bullets are items: none was wrapped, hardly any ends or continues a sentence."""
    if len(lines) < 4:
        return False
    pairs = list(itertools.pairwise(lines))
    fit = sum(_fits(text, start, end, after, width) for (start, end), (after, _) in pairs)
    running = sum(text[end - 1] in ".,;:-" or _first_word(text, after) in _RUNNING for (_, end), (after, _) in pairs)
    return fit >= 0.6 * len(pairs) and running <= 0.2 * len(pairs)


def _is_item(text: str, line: tuple[int, int], next_start: int, width: int) -> bool:
    """Whether the next line of a list begins an item: it is not indented more, nor wrapped."""
    more = _indent(text, next_start) - _indent(text, line[0])
    if more:
        return more < 0
    return _fits(text, *line, next_start, width) or not text[next_start : next_start + 1].islower()


def _fits(text: str, start: int, end: int, next_start: int, width: int) -> bool:
    """Whether the next line's first word would have fitted on this line with room to spare."""
    return end - start + 1 + len(_first_word(text, next_start)) <= 0.85 * width


def _first_word(text: str, start: int) -> str:
    found = _RUN.match(text, start)
    return found.group() if found else ""


def _ended_on_purpose(text: str, length: int, next_start: int, next_end: int, width: int) -> bool:
    """The next line's first word would have fitted on this line with room to spare: not a wrapped paragraph."""
    first = _NEXT.match(text, next_start, next_end)
    word = first.group(1) if first else ""
    if not word or word[0].islower():
        return False
    return length + 1 + len(word) <= 0.75 * width
