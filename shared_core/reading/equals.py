"""Write the quantities and dates of a claim as its evidence writes them, where both say the same.

The network and the shares of words see tokens: "28 days" and "four weeks" have none in common, though they are equal.
Which are equal is for ``citation.facts`` to say; nothing else of the claim changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from shared_core.citation.facts.arithmetic import same_quantity, same_unit
from shared_core.citation.facts.dates import Date, dates_of, same_date
from shared_core.citation.facts.quantities import UNITS, Quantity, quantities_of
from shared_core.citation.facts.tokens import Sentence, keys_of, sentences_of
from shared_core.support.regex import lazy_regex

__all__ = ["as_evidence_writes", "number_places"]

_MONEY = "$€£¥"
# "in a year" is a quantity, "£5 a year" is none: a rate's "a" stands behind a number.
_ONE_PERIOD = lazy_regex(
    r"\b(?:in|for|within|after|last(?:s|ed)?|takes?|took|than|least|most|of) "
    r"(?P<period>an? (?:second|minute|hour|day|week|fortnight|month|year|decade))\b",
    re.IGNORECASE,
)


class _Place(NamedTuple):
    """A quantity or date of a text and the characters that it takes."""

    start: int
    end: int
    value: Quantity | Date


@lru_cache(maxsize=64)
def as_evidence_writes(claim: str, evidence: str) -> str:
    """Return the claim with its quantities and dates written as the evidence has equal ones.

    >>> as_evidence_writes("Keep it for 28 days.", "It is lent for four weeks.")
    'Keep it for four weeks.'
    >>> as_evidence_writes("It opens on 3/4/2024 at 19:00.", "Opening: 3 April 2024, 7 pm.")
    'It opens on 3 April 2024 at 7 pm.'
    """
    places = _places(claim)
    if not places:
        return claim
    keys = keys_of(claim)
    # Of several equal ones, that of the sentence most like the claim.
    held = [
        (s.text[p.start : p.end], p.value)
        for s in sorted(sentences_of(evidence), key=lambda s: -_shared(s, keys))
        for p in _places(s.text)
    ]
    out, at = "", 0
    for place in places:
        written = claim[place.start : place.end]
        out += claim[at : place.start] + (_equal(written, place.value, held) or written)
        at = place.end
    return out + claim[at:]


def number_places(claim: str) -> list[tuple[int, int]]:
    """Return the places of the quantities and dates of a claim."""
    return [(p.start, p.end) for p in _places(claim)]


def _shared(sentence: Sentence, keys: frozenset[str]) -> int:
    return len(sentence.keys & keys)


def _equal(written: str, value: Quantity | Date, held: Sequence[tuple[str, Quantity | Date]]) -> str:
    """Return what the evidence writes for a value; empty if it has no equal one, or writes it alike."""
    equal = [text for text, other in held if _are_equal(value, other)]
    alike = written.casefold()
    return equal[0] if equal and not any(alike in text.casefold() for text in equal) else ""


def _are_equal(one: Quantity | Date, other: Quantity | Date) -> bool:
    if isinstance(one, Date):
        return isinstance(other, Date) and bool(other.day) and one.year in (0, other.year) and same_date(one, other)
    if isinstance(other, Date) or one.ordinal != other.ordinal or one.last != other.last:
        return False
    if not same_quantity(one, other) or not _of_one_kind(one, other):
        return False
    # Two bounds are the same to the facts where one includes the other: "over 5" is 7.
    return bool(one.values & other.values) or not same_unit(one, other) or one.hedge in ("", "about")


def _of_one_kind(one: Quantity, other: Quantity) -> bool:
    """Whether one can be written for the other: "7" of a list is no "7 days", "half" may be 50%."""
    if one.dimension == other.dimension:
        return True
    kinds = {q.dimension: q for q in (one, other)}
    return kinds.keys() == {"", "percent"} and max(kinds[""].values) < 1


@lru_cache(maxsize=512)
def _places(text: str) -> tuple[_Place, ...]:
    """Quantities and dates of a text, in order; none overlaps another."""
    found = [*_dates(text), *_quantities(text), *_single_periods(text)]
    places: list[_Place] = []
    for place in sorted(found, key=lambda p: (p.start, -p.end)):
        if not places or place.start >= places[-1].end:
            places.append(place)
    return tuple(places)


def _dates(text: str) -> Iterator[_Place]:
    """Find dates with a day; a month alone is written alike nearly always."""
    at = 0
    for date in dates_of(text):
        if not date.day:
            continue
        start = date.end - len(date.text) if date.end else text.find(date.text, at)
        if start < 0:
            continue
        at = start if not date.end else at
        yield _Place(start, start + len(date.text.rstrip(". ")), date)


def _quantities(text: str) -> Iterator[_Place]:
    for quantity in quantities_of(text):
        if quantity.values == {1.0} and not quantity.unit and not quantity.ordinal:
            continue  # "one" is a pronoun, too
        start, end = quantity.start, quantity.end
        if quantity.unit in tuple(_MONEY):
            before = text[:start].rstrip()
            start = len(before) - 1 if before[-1:] and before[-1] in _MONEY else start
        yield _Place(start, start + len(text[start:end].rstrip(". ")), quantity)  # "7 pm." ends the sentence, too


def _single_periods(text: str) -> Iterator[_Place]:
    for match in _ONE_PERIOD.finditer(text):
        start, end = match.span("period")
        unit = match["period"].split()[1].lower()
        if unit in UNITS:
            yield _Place(start, end, Quantity(match["period"], start, end, frozenset({1.0}), unit))
