"""Put back together what notes, figures and stamps interrupt in a PDF's text.

A sentence that goes on in the next column or on the next page stands around the notes below it and the tables above
its other half. These follow the paragraph, on the page that they are of.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shared_core.documents.loaders.pdf_layout import NOTE, begins_paragraph, goes_on
from shared_core.documents.loaders.pdf_lines import Line
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
