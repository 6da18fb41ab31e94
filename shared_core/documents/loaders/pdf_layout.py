"""Put the lines on a PDF's pages in order: columns, running heads and page numbers, paragraphs.

Only geometry and repetition decide. The order of the file is kept unless columns are plainly mixed: programs nearly
always write pages in reading order, and if they do not, a guess could separate lines that belong together.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shared_core.documents.loaders.extracted import LOWERED, RAISED, grouped
from shared_core.documents.loaders.pdf_lines import LONE_LETTER, ORDINAL, Line, joined
from shared_core.support.regex import lazy_regex

_SAME_ROW = 0.35  # of the font size: base lines closer than this are one
_SMALL, _SHIFTED, _NEAR = 0.8, 0.6, 0.7  # of the font size: of raised digits beside a word
_RAISED_BY = 0.1  # of the font size, at least: small letters on the base line are no exponents
_DIGITS = lazy_regex(r"[+\-−–]?\d+(?:[,;]\d+)*")
_SCRIPT = lazy_regex(
    rf"{_DIGITS.pattern}|[^\W\d_]{{1,3}}[,.;]?|\S{{1,4}}(?<![.,;:])"
)  # raised or lowered beside a word
_KERNED = 0.6  # font sizes that letters may overlap, as in the logo of TeX
_TOUCHING = 0.12  # font sizes: pieces closer than this are one word
_CELL_GAP = 2.0  # font sizes between two cells of a row; less is a space
_TABLE_GAP = 0.8  # the same in a row of three or more cells
_COLUMN_ROWS = 5
_COLUMN_LETTERS = 18
_COLUMN_FULL = 0.8  # of its column, the median line of running text fills so much; cells vary more
_EDGE_ROWS = 4
_HEAD_SHARE = 1 / 3  # of the pages have a head of several lines; chapters begin with lines that are alike, too
_LARGE_SHARE = 3 / 4  # of the pages have a head in larger letters than the text, in the same words
_EDGE_DRIFT = 4.0  # points: a running head stands at the same height on each page
_APART = 1.5  # of the usual line distance: lines further away do not belong to the text
_SPACED_OUT, _FULL_LINE = 2.6, 25.0  # font sizes between lines with room between them; of a line of prose
_NEW_PARAGRAPH = 1.3
_NEXT_ROW = 2.5
_OTHER_SIZE = 0.08
_DEFINITION_INDENT = 2.5  # font sizes; first lines of paragraphs are seldom indented by more
_NUMBER = lazy_regex(r"\d+|\b[ivxlc]+\b")
_ONLY_NUMBER = lazy_regex(r"(?:page|p\.|seite|slide|sheet)?[\s–—\-|./]*#(?:[\s/]*(?:of|von|de|/)?[\s]*#)?[\s–—\-|.]*", re.IGNORECASE)  # fmt: skip # noqa: E501
_SENTENCE_END = lazy_regex(r"[.!?:。！？…]['\"”’»)\]]*$")
_PLAIN_WORD = lazy_regex(r"(?!o )[^\W\d_]+(?:['’/-][^\W\d_]+)*[,.;:!?)]*(?:\s|\Z)")  # "o" is a bullet
_WRAPPED_SPACES, _LINES_ALIKE = 3, 3  # in a line whose sentence goes on below; lines that end at the same edge
NOTE = lazy_regex(r"\d{1,2}(?!(?:st|nd|rd|th)\b)[^\W\d_]{2}|[*∗†‡§¶](?=\w)")
"""The mark of a note and its first word: "8https://…", "11QANet"."""
_ITEM = lazy_regex(r"[•‣◦▪▸●○■□–—*·\uf0b7\uf0a7-]\s|\(?(?:\d{1,3}|[a-zA-Z])[.)]\s")


def page_rows(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a page in reading order: columns one after the other, cells of a row joined by tabs."""
    rows = grouped(lines, lambda row, line: _same_row(row[-1], line) and _is_right_of(row[-1], line))
    ordered: list[Line] = []
    i = 0
    while i < len(rows):
        end, columns = _columns(rows, i)
        ordered += columns or [join_row(rows[i])]
        i = end if columns else i + 1
    return ordered


def _same_row(a: Line, b: Line) -> bool:
    size = max(a.size, b.size)
    if a.turned != b.turned or a.table or b.table:
        return False
    return abs(a.y - b.y) <= _SAME_ROW * size or (
        abs(a.y - b.y) <= _SHIFTED * size
        and b.x0 - a.x1 < _NEAR * size
        and any(_SCRIPT.fullmatch(c.text) is not None and c.size <= _SMALL * size for c in (a, b))
    )


def _raised(a: Line, b: Line) -> Line:
    """Return ``b`` in Unicode's raised or lowered digits if it is set so behind a digit: 10⁶ is not 106, 2^n not 2n."""
    up = b.y - a.y > _RAISED_BY * a.size
    if b.size > _SMALL * a.size or not (a.text[-1:].isdigit() or (up and LONE_LETTER.search(a.text))):
        return b
    if up and b.text.isalpha() and not ORDINAL.match(b.text):
        return replace(b, text=f"^{b.text}")
    if not _DIGITS.fullmatch(b.text):
        return b
    return replace(b, text=b.text.translate(RAISED if b.y > a.y else LOWERED))


def _is_right_of(a: Line, b: Line) -> bool:
    return b.x0 >= a.x1 - _KERNED * b.size


def join_row(cells: Sequence[Line]) -> Line:
    """Join pieces that stand side by side: with a tab between cells, a space or nothing between words."""
    result = cells[0]
    for a, b in itertools.pairwise(cells):
        gap = (b.x0 - a.x1) / b.size
        if gap < _TOUCHING:
            b = _raised(a, b)
        between = "" if gap < _TOUCHING else "\t" if gap > (_CELL_GAP if len(cells) == 2 else _TABLE_GAP) else " "
        result = joined([result, b], between)
    largest = max(cells, key=lambda cell: cell.size)  # not the mark of a note at its beginning
    return replace(result, y=largest.y, size=largest.size)


def _columns(rows: Sequence[list[Line]], start: int) -> tuple[int, list[Line]]:
    """Find columns of running text side by side, beginning at row ``start``.

    Returns the row at which they end, and their lines column by column; no lines if there are no such columns.
    """
    width = len(rows[start])
    if width < 2:
        return start, []
    bounds = [(cell.x0, cell.x1) for cell in rows[start]]
    full = start
    while full < len(rows) and len(rows[full]) == width:
        wider = [(min(a, c.x0), max(b, c.x1)) for (a, b), c in zip(bounds, rows[full], strict=True)]
        if any(left[1] >= right[0] for left, right in itertools.pairwise(wider)):
            break
        bounds, full = wider, full + 1
    columns = [[row[i] for row in rows[start:full]] for i in range(width)]
    if full - start < _COLUMN_ROWS or not all(map(_is_running_text, columns)):
        return start, []
    end = full  # columns need not end at the same height
    while end < len(rows) and (places := [_column_of(cell, bounds) for cell in rows[end]]) and None not in places:
        for cell, place in zip(rows[end], places, strict=True):
            columns[place or 0].append(cell)
        end += 1
    return end, [line for column in columns for line in column]


def _is_running_text(column: Sequence[Line]) -> bool:
    widths = [line.x1 - line.x0 for line in column]
    letters = statistics.mean(len(line.text) for line in column)
    return letters >= _COLUMN_LETTERS and statistics.median(widths) >= _COLUMN_FULL * max(widths)


def _column_of(cell: Line, bounds: Sequence[tuple[float, float]]) -> int | None:
    tolerance = cell.size
    for i, (left, right) in enumerate(bounds):
        if cell.x0 >= left - tolerance and cell.x1 <= right + tolerance:
            return i
    return None


# --- running heads -------------------------------------------------------------------------------------------------


def line_pitch(pages: Iterable[Sequence[Line]]) -> float:
    """Return the usual distance of base lines, in font sizes; 1.2 if there is none to measure."""
    steps: Counter[float] = Counter()
    for lines in pages:
        for a, b in itertools.pairwise(lines):
            if a.turned == b.turned and abs(a.size - b.size) < 0.1 and 0 < a.y - b.y < 3 * a.size:
                steps[round((a.y - b.y) / a.size, 2)] += len(b.text)
    return max(0.8, min(2.5, steps.most_common(1)[0][0])) if steps else 1.2


@dataclass(frozen=True, slots=True)
class _Edge:
    """A row at the top or the bottom of a page."""

    page: int
    rank: int  # 0: outermost
    top: bool
    key: str  # its text with # for numbers
    y: float
    apart: bool  # at a distance from the text
    large: bool  # in larger letters than the text


def without_running_heads(pages: Sequence[Sequence[Line]], pitch: float) -> list[list[Line]]:
    """Remove what is repeated at the top and bottom of pages: running heads, footers, page numbers.

    A line is removed only if it is at the same height with the same words (apart from numbers) on at least three pages,
    or on both of two; if it is at a distance from the text (unless it is only a number); and if it is not larger than
    the text, as titles of slides are. One that is larger is a head if three of four pages have it, and stays on the
    first. Of a head of several lines only the last need be at a distance, if each is on a third of the pages.
    """
    sizes: Counter[int] = Counter()
    for line in itertools.chain.from_iterable(pages):
        sizes[round(line.size)] += len(line.text)
    largest = 1.15 * (sizes.most_common(1)[0][0] + 0.5) if sizes else 0.0
    edges = [edge for number, lines in enumerate(pages) for edge in _edges(number, lines, pitch, largest)]
    groups: dict[tuple[bool, str], list[_Edge]] = defaultdict(list)
    for edge in edges:
        groups[edge.top, edge.key].append(edge)
    repeated: dict[tuple[int, bool], dict[int, _Edge]] = defaultdict(dict)
    filled = sum(1 for lines in pages if lines)
    for group in groups.values():
        height = statistics.median(edge.y for edge in group)
        level = [edge for edge in group if abs(edge.y - height) <= _EDGE_DRIFT]
        number = len({edge.page for edge in level})
        if number < (max(3, _LARGE_SHARE * filled) if group[0].large else min(3, max(2, filled))):
            continue
        if group[0].large:
            level.remove(min(level, key=lambda edge: edge.page))
        usual = number >= max(3, _HEAD_SHARE * filled)
        number_only = _ONLY_NUMBER.fullmatch(group[0].key) is not None
        for edge in level:
            if usual or number_only or edge.apart:
                repeated[edge.page, edge.top][edge.rank] = edge
    gone = {(edge.page, edge.y) for rows in repeated.values() for edge in _head(rows)}
    stamps = _stamps(pages, filled)
    return [
        [line for line in lines if (number, line.y) not in gone and (line.turned, line.text) not in stamps]
        for number, lines in enumerate(pages)
    ]


def _stamps(pages: Sequence[Sequence[Line]], filled: int) -> set[tuple[int, str]]:
    """Return what runs along the margin of a third of the pages or more, with the quarter turns of its letters."""
    aside = Counter(
        key for lines in pages for key in {(line.turned, line.text) for line in lines if line.turned != lines[0].turned}
    )
    return {key for key, number in aside.items() if number >= max(3, _HEAD_SHARE * filled)}


def _head(rows: dict[int, _Edge]) -> list[_Edge]:
    """Return those of the repeated rows at an edge of a page, by rank, that are its running head.

    They end with the first row that is apart. One of the two outermost rows may also go alone.
    """
    found = [row for i, (rank, row) in enumerate(sorted(rows.items())) if rank == i]
    end = next((i + 1 for i, row in enumerate(found) if row.apart), 0)
    while end < min(2, len(found)) and (found[end].apart or _ONLY_NUMBER.fullmatch(found[end].key)):
        end += 1
    return found[:end]


def _edges(page: int, lines: Sequence[Line], pitch: float, largest: float) -> list[_Edge]:
    heights = sorted({line.y for line in lines if line.turned == lines[0].turned}, reverse=True)
    if len(heights) < 2:  # a page of one line is that line
        return []
    found: list[_Edge] = []
    for top, ordered in ((True, heights), (False, heights[::-1])):
        for rank, y in enumerate(ordered[:_EDGE_ROWS]):
            row = [line for line in lines if line.y == y]
            number = not top and all(line.text.isdecimal() for line in row)  # however large it is
            large = max(line.size for line in row) > largest and not number
            if large and (rank or not top):
                break
            following = ordered[rank + 1] if rank + 1 < len(ordered) else y
            size = min(row[0].size, largest) if large else row[0].size
            apart = abs(y - following) > _APART * pitch * size
            text = " ".join(line.text for line in sorted(row, key=lambda line: line.x0))
            # Rows of a table are alike on each page but for their numbers, and so are titles of slides.
            same = row[0].table or large
            key = " ".join((text if same else _NUMBER.sub("#", text.casefold())).split())
            found.append(_Edge(page, rank, top, key, y, apart, large))
            if large:
                break
    return found


# --- paragraphs ----------------------------------------------------------------------------------------------------


def begins_paragraph(before: Sequence[Line], line: Line, after: Sequence[Line], pitch: float) -> bool:
    """Return whether ``line`` begins a paragraph.

    Args:
        before: the lines of the paragraph so far, not empty, of the same page or of the one before.
        after: the lines that follow it on its page (the first few will do).
        pitch: the usual distance of base lines, in font sizes.
    """
    last = before[-1]
    if last.table or line.table:
        return last.table != line.table
    if last.broken:
        return NOTE.match(line.text) is not None
    down = last.y - line.y
    if "\t" in last.text and "\t" in line.text and 0 < down < _NEXT_ROW * pitch * line.size:
        return False
    if last.turned != line.turned or abs(last.size - line.size) > _OTHER_SIZE * max(last.size, line.size):
        return True
    if last.bold != line.bold and not _goes_on_in_other_face(before, line, after):
        return True
    if down <= 0 or line.x0 > last.x1 or line.x1 < last.x0:  # at the top of the next column or page
        return not _continues(last, line)
    if down > _NEW_PARAGRAPH * pitch * line.size and not _is_spaced_out(before, line, after):
        return True
    if last.fixed and line.fixed:
        return False
    if _ITEM.match(line.text) and _is_over(before, line, after):
        return True
    indent = 0.8 * line.size
    stands_in = line.x0 > last.x0 + indent and not (after and after[0].x0 >= line.x0 - 0.5 * line.size)
    stands_out = line.x0 < last.x0 - indent and len(before) > 1
    return (
        _is_term(before, line, after)
        or ((stands_in or stands_out) and _is_over(before, line, after))
        or _is_short(before, line, after)
    )


def _is_spaced_out(before: Sequence[Line], line: Line, after: Sequence[Line]) -> bool:
    """Return whether ``line`` goes on below a full line of prose, as far below as others are above or below them."""
    last = before[-1]
    others = [line.y - one.y for one in after[:1]] + [one.y - last.y for one in before[-2:-1]]
    return (
        last.y - line.y <= _SPACED_OUT * line.size
        and any(abs(last.y - line.y - other) <= 0.1 * line.size for other in others)
        and abs(last.x0 - line.x0) < 0.5 * line.size
        and last.x1 - last.x0 >= _FULL_LINE * line.size
        and _room(before, line, after) < 2 * line.size
    )


def _is_term(before: Sequence[Line], line: Line, after: Sequence[Line]) -> bool:
    """Return whether ``line`` is the term between two definitions of a list.

    It begins to the left of the definition before it, by more than the first line of a paragraph is indented, and the
    next line is indented like that definition again. A definition need not end a sentence, nor short of the edge; but
    a sentence that goes on in small letters behind a full line is a paragraph's, whose first line is indented as far.
    """
    last = before[-1]
    if not after or line.x0 > last.x0 - _DEFINITION_INDENT * line.size or _is_wrapped(before, line, after):
        return False
    return abs(after[0].x0 - last.x0) < 0.5 * line.size and after[0].y < line.y


def _is_wrapped(before: Sequence[Line], line: Line, after: Sequence[Line]) -> bool:
    """Return whether a sentence goes on in ``line``, in small letters, because its first word had no room above.

    The line above is as long as any near it, wherever these begin, and as long as lines of prose are or as others are;
    it is no name or address above an explanation.
    """
    last = before[-1]
    if not line.text[:1].islower() or not _PLAIN_WORD.match(line.text):
        return False
    if _SENTENCE_END.search(last.text) or last.text.count(" ") < _WRAPPED_SPACES:
        return False
    ends = [n.x1 for n in (*before[-6:], line, *after[:6]) if n.turned == last.turned]
    alike = sum(abs(end - last.x1) <= 2 * line.size for end in ends)
    full = last.x1 - last.x0 >= _FULL_LINE * last.size or alike >= _LINES_ALIKE
    return full and max(ends) - last.x1 <= max(2 * line.size, _first_word(line))


def _goes_on_in_other_face(before: Sequence[Line], line: Line, after: Sequence[Line]) -> bool:
    """Return whether a sentence goes on in bold letters, or in plain ones behind a full line of bold ones."""
    return _continues(before[-1], line) if line.bold else _is_wrapped(before, line, after)


def _continues(last: Line, line: Line) -> bool:
    """Return whether text that breaks off at the end of a column or page goes on in ``line``."""
    return not _SENTENCE_END.search(last.text) and (line.text[:1].islower() or last.text[-1:] in ",;-–")


def goes_on(last: Line, line: Line) -> bool:
    """Return whether a sentence or a divided word goes on in ``line``, wherever that stands."""
    if last.broken:
        return line.text[:1].isalpha()
    return _continues(last, line) and not _ITEM.match(line.text)


def _is_over(before: Sequence[Line], line: Line, after: Sequence[Line]) -> bool:
    """Return whether the paragraph can end here: its last line ends a sentence, or short of the right edge.

    If the sentence goes on in ``line``, the edge is ragged: its first word must have fitted.
    """
    last = before[-1]
    if _SENTENCE_END.search(last.text):
        return True
    needed = _first_word(line) if _continues(last, line) else 0.0
    return _room(before, line, after) > max(2 * line.size, needed)


def _is_short(before: Sequence[Line], line: Line, after: Sequence[Line]) -> bool:
    """Return whether the last line ends a sentence so early that the next word would have fitted."""
    last = before[-1]
    ends = _SENTENCE_END.search(last.text) is not None
    return ends and _room(before, line, after) > max(4 * last.size, _first_word(line))


def _first_word(line: Line) -> float:
    """Return about how much room the first word of ``line`` takes at the end of another."""
    letters = len(line.text.split(maxsplit=1)[0]) + 1
    return (line.x1 - line.x0) * letters / max(1, len(line.text)) + line.size


def _room(before: Sequence[Line], line: Line, after: Sequence[Line]) -> float:
    last = before[-1]
    near = [*before[-6:], line, *after[:6]]
    edge = max(n.x1 for n in near if abs(n.x0 - last.x0) < 4 * last.size and n.turned == last.turned)
    return edge - last.x1
