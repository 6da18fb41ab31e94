"""Answer with a whole list: all steps of what a question asks how to do, or all items of what it asks for.

The network chooses a sentence, and one step of four is no answer to "How do I reset the router?".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from shared_core.reading.candidates import Candidate, log_sum
from shared_core.reading.item_lists import first_number, lists_of
from shared_core.reading.list_requests import ListRequest, Whole, list_at
from shared_core.reading.places import place_of, section_of, source_of
from shared_core.types import Passage

_NAMED = 2
"""How much surer than another definition a list is whose headings name just what is asked."""


def find_lists_asked(question: str, passages: Sequence[Passage]) -> set[int]:
    """Number the passages with a list whose headings name just what a question asks how to do, or for the items of."""
    request = ListRequest.of(question)
    if request is None:
        return set()
    return {i for i, p in enumerate(passages) if any(request.fits(p, one).is_named for one in lists_of(p.text))}


def join_lists(question: str, passages: Sequence[Passage], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Replace the items of lists that a question asks for as a whole by these lists; best first.

    Where the headings of one name just what is asked, it counts as a definition of that (``Candidate.defines``), and
    the items of lists in other documents are left out.

    Args:
        passages: that the candidates number.
        candidates: best first.

    Returns:
        The candidates, with one for each joined list. Its figures are those of its best item, than which it is no less
        likely to be right; where its headings name just what is asked, its score is that of all items together.
    """
    request = ListRequest.of(question)
    if request is None:
        return [*candidates]
    out: list[Candidate] = []
    taken: set[int] = set()
    for i, best in enumerate(candidates):
        if i in taken:
            continue
        passage = passages[best.passage]
        whole = None if best.joined else request.whole(passage, best)
        if whole is None and not best.joined:
            told = request.told(passage, best)
            whole = told if told and not any(_lies_in(shown, best.passage, told) for shown in out) else None
        if whole is None:
            out.append(best)
            continue
        rest = [k for k in range(i, len(candidates)) if k not in taken]
        inside = [k for k in rest if _lies_in(candidates[k], best.passage, whole)]
        taken.update(inside)
        score = log_sum(np.array([candidates[k].score for k in inside])) if whole.is_named else best.score
        defines = max(best.defines, _NAMED * whole.is_named) if best.defines >= 0 else best.defines
        out.append(replace(best, start=whole.start, end=whole.end, score=score, defines=defines, joined=True))
    sources = {source_of(passages[c.passage]) for c in out if _is_named(c)}
    if sources:
        out = [c for c in out if source_of(passages[c.passage]) in sources or not list_at(passages[c.passage], c)]
    return sorted(out, key=lambda c: -c.score)


def place_parts(
    order: Sequence[int], candidates: list[Candidate], passages: Sequence[Passage], chances: list[float | None]
) -> list[int]:
    """Put the parts of a list that is longer than a passage, or rows, behind one another, all as sure as the surest.

    Args:
        order: numbers of the candidates, best first.
        candidates: as of ``join_lists``; what the next part repeats is cut off in place.
        passages: that they number.
        chances: their probabilities, which are changed in place.
    """
    parts: dict[tuple[str, str], list[int]] = {}
    for i in order:
        if _is_part(candidates[i]):
            parts.setdefault(place_of(passages[candidates[i].passage]), []).append(i)
    out = [*order]
    for numbers in parts.values():
        surest = max((p for i in numbers if (p := chances[i]) is not None), default=None)
        first = min(out.index(i) for i in numbers)
        out = [i for i in out if i not in numbers]
        placed = {i: (passages[candidates[i].passage], candidates[i]) for i in numbers}
        out[first:first] = sorted(numbers, key=lambda i: _order_of(*placed[i]))
        for i, after in pairwise([i for i in out[first : first + len(numbers)] if candidates[i].joined]):
            candidates[i], candidates[after] = _adjoin((placed[i][0], candidates[i]), placed[after])
        for i in numbers:
            chances[i] = surest
    return out


def count_parts(order: Sequence[int], candidates: Sequence[Candidate], passages: Sequence[Passage]) -> int:
    """Return of how many parts the best candidate is one: those of its list in other passages, or chosen rows."""
    best = candidates[order[0]]
    if not _is_part(best):
        return 1
    own = place_of(passages[best.passage])
    return sum(_is_part(candidates[i]) and place_of(passages[candidates[i].passage]) == own for i in order)


def query_for_rest(passages: Sequence[Passage], best: Candidate) -> str:
    """Return title and headings of a joined list that seems to begin or go on in another passage; "" if none does.

    It seems so if its first number is not 1, or it ends with the passage.
    """
    passage = passages[best.passage]
    if not _is_named(best) or list_at(passage, best) is None:
        return ""
    begins = first_number(passage.text[best.start : best.end]) <= 1
    goes_on = not passage.text[best.end :].strip()
    section = section_of(passage).replace(" > ", " ")
    return f"{passage.title} {section}".strip() if goes_on or not begins else ""


def _adjoin(one: tuple[Passage, Candidate], other: tuple[Passage, Candidate]) -> tuple[Candidate, Candidate]:
    """Let the first part end where the second begins, and that begin where the first ends, where passages overlap."""
    (passage, before), (following, after) = one, other
    starts = _start_of(passage), _start_of(following)
    if starts[0] is None or starts[1] is None or starts[0] >= starts[1]:
        return before, after
    apart = starts[1] - starts[0]
    begin, end = after.start + apart, before.end - apart
    if before.start < begin < before.end:
        return replace(before, end=before.start + len(passage.text[before.start : begin].rstrip())), after
    between = following.text[end : after.start] if end >= 0 and not passage.text[before.end :].strip() else ""
    return before, replace(after, start=after.start - len(between.lstrip()))


def _start_of(passage: Passage) -> int | None:
    start = passage.metadata.get("start")
    return start if isinstance(start, int) else None


def _order_of(passage: Passage, candidate: Candidate) -> tuple[int, int]:
    """Return where a part of a list is in its document; by its first number where that is unknown."""
    number = first_number(passage.text[candidate.start : candidate.end])
    start = _start_of(passage)
    return (number, candidate.start) if start is None else (start + candidate.start, 0)


def _is_named(candidate: Candidate) -> bool:
    return candidate.joined and candidate.defines >= _NAMED


def _is_part(candidate: Candidate) -> bool:
    return candidate.chosen or _is_named(candidate)


def _lies_in(candidate: Candidate, passage: int, whole: Whole) -> bool:
    return candidate.passage == passage and whole.lead <= candidate.start and candidate.end <= whole.end
