"""Pair the numbers and words of a claim with those of a sentence that may stand for them."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right

from shared_core.citation.facts.arithmetic import is_rest
from shared_core.citation.facts.dates import dates_of, weekdays_of
from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.quantities import Quantity, quantities_of
from shared_core.citation.facts.tokens import Sentence, align, fold

__all__ = ["are_measures", "comparable", "crossed", "in_place", "is_complement", "is_count", "is_dated"]


def comparable(one: Quantity, other: Quantity) -> bool:
    """Whether one number may stand for the other: of one kind of unit, both ordinal or none, both years or none."""
    same_kind = one.dimension == other.dimension or not (one.dimension and other.dimension)
    return same_kind and one.ordinal == other.ordinal and one.is_year == other.is_year


def are_measures(one: Quantity, other: Quantity) -> bool:
    """Whether both have a unit, of one kind."""
    return bool(one.unit and other.unit) and one.dimension == other.dimension


def is_dated(quantity: Quantity, sentence: Sentence) -> bool:
    """Whether a number is the day or the year of a date of its sentence, and so counts nothing."""
    dates = ((d.text, {float(d.day), float(d.year)} - {0.0}) for d in dates_of(sentence.text))
    return any(quantity.values & values and quantity.text in text for text, values in dates)


def is_count(quantity: Quantity, nearest: Sentence) -> bool:
    """Whether a small bare number counts what the sentence lists: names, years, or things between commas."""
    if quantity.unit or max(quantity.values) > 9:
        return False
    listed = len(re.findall(r",(?!\d)(?! and\b)| and\b|, and\b|;", nearest.text)) + 1
    years = len({q.values for q in quantities_of(nearest.text) if q.is_year})
    return bool(quantity.values & {float(listed), float(years)}) and max(quantity.values) > 1


def is_complement(claim: Sentence, held: Sentence) -> bool:
    """Whether one denies what is beyond a bound and the other says what is within: "never above 5", "below 5".

    Or of a part and of the rest: "61 of the 68 have paid", "seven have not"; "not on Mondays", "Tuesday to Friday";
    "not after 1 June", "until 1 June".
    """
    if any(is_rest(q, claim, held) for q in quantities_of(claim.text)):
        return True
    if is_denied(claim) != is_denied(held):
        denied, said = (claim, held) if is_denied(claim) else (held, claim)
        days, others = weekdays_of(denied.text), weekdays_of(said.text)
        if (days and others and not days.keys() & others.keys()) or _is_beyond(denied, said):
            return True
        months, beside = _months_of(denied.text), _months_of(said.text)
        if months and beside and not months & beside:
            return True
    turned = {("above", "below"), ("below", "above")}
    bounds = ((a, b) for a in quantities_of(claim.text) for b in quantities_of(held.text) if a.values & b.values)
    return is_denied(claim) != is_denied(held) and any((a.hedge, b.hedge) in turned for a, b in bounds)


def _months_of(text: str) -> set[int]:
    """Return the months that a text names, with those between two that it names as a range."""
    dates = [d for d in dates_of(text) if d.month]
    found = {d.month for d in dates}
    for one, other in itertools.pairwise(dates):
        if re.search(rf"{re.escape(one.text)}\s?(?:to|until|till|-|–|—)\s?{re.escape(other.text)}", text):
            last = other.month if other.month >= one.month else other.month + 12
            found |= {(m - 1) % 12 + 1 for m in range(one.month, last + 1)}
    return found


def _is_beyond(denied: Sentence, said: Sentence) -> bool:
    """Whether the one has "not … after" where the other has "until", with the same word behind it."""
    behind = _words_behind(said)
    return any(
        (word, other) in _BEYOND and key == same for word, key in _words_behind(denied) for other, same in behind
    )


def _words_behind(sentence: Sentence) -> list[tuple[str, str]]:
    """Pair each preposition with the first word of content behind it."""
    found = []
    for i, token in enumerate(sentence.tokens):
        behind = next((t for t in sentence.tokens[i + 1 :] if t.is_content), None)
        if behind is not None and fold(token.text) in _BOUNDS:
            found.append((fold(token.text), behind.key))
    return found


_BEYOND = frozenset(
    (one, other)
    for one, others in {
        "after": "until till before by", "before": "from after since at", "off": "on",
        "outside": "inside in within during", "beyond": "within in up", "until": "from after",
        "in": "outside", "on": "off",
    }.items()
    for other in others.split()
)  # fmt: skip
_BOUNDS = frozenset(itertools.chain.from_iterable(_BEYOND))


def in_place(claim: Sentence, nearest: Sentence) -> frozenset[tuple[int, int]]:
    """Pair token numbers (claim, nearest) that have the same neighbours in both sentences."""
    a, b = [fold(t.text) for t in claim.tokens], [fold(t.text) for t in nearest.tokens]
    pairs: set[tuple[int, int]] = set()
    for tag, a1, a2, b1, b2 in align(a, b):
        if tag == "replace":
            pairs |= {(x, y) for x in range(a1, a2) for y in range(b1, b2)}
    return frozenset(pairs)


def crossed(
    swaps: frozenset[tuple[int, int]], claim: Sentence, quantity: Quantity, nearest: Sentence, other: Quantity
) -> bool:
    """Return whether a token of one number (or its unit) replaces one of the other's."""
    if not swaps or quantity.ordinal != other.ordinal or (quantity.is_year and not other.is_year):
        return False
    theirs = _token_numbers(nearest, other)
    return any((x, y) in swaps for x in _token_numbers(claim, quantity) for y in theirs)


def _token_numbers(sentence: Sentence, quantity: Quantity) -> range:
    """Return the numbers of the tokens that a quantity consists of."""
    first = bisect_right(sentence.tokens, quantity.start, key=lambda t: t.end)
    return range(first, bisect_left(sentence.tokens, quantity.end, lo=first, key=lambda t: t.start))
