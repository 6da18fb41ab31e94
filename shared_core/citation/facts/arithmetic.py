"""Compare numbers: which say the same, and which follow from others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache

from shared_core.citation.facts.quantities import UNITS, Quantity, Unit, quantities_of
from shared_core.citation.facts.tokens import Sentence, fold
from shared_core.support.regex import lazy_regex

_HOUR = lazy_regex(r"(\d{1,2})\.([0-5]\d)")
_CLOSE, _BOUND, _SAME_MEASURE = 0.06, 2.0, 0.02
_BINARY = 0.08  # a gigabyte is 1000³ bytes or 1024³


def same_quantity(claimed: Quantity, held: Quantity) -> bool:
    """Whether two numbers say the same: value and unit, allowing for formats, conversion, rounding and hedges."""
    if claimed.ordinal != held.ordinal and not (claimed.dimension == held.dimension == ""):
        return False
    if claimed.last or held.last:
        return _in_period(claimed, held)
    kinds = {claimed.dimension, held.dimension}
    if kinds == {"percent", ""}:
        shares = [{v if v < 1 else v / 100 for v in q.values} for q in (claimed, held)]  # "a fifth" is 20%
        return any(abs(a - b) <= _SAME_MEASURE * b for a in shares[0] for b in shares[1])
    if kinds == {"clock", ""}:
        time, hour = (claimed, held) if claimed.dimension else (held, claimed)  # "from 10 to 5 pm"
        hours = {float(m[1]) + float(m[2]) / 60} if (m := _HOUR.fullmatch(hour.text)) else hour.values  # "5.30"
        return any(t % 720 == 60 * h % 720 for t in time.values for h in hours)
    if kinds == {"sterling", "mass"} and {claimed.unit, held.unit} & {"pound", "pounds"}:
        return any(_close(c, h, claimed, held) for c in claimed.values for h in held.values)
    if len(kinds - {""}) > 1:
        return False
    if min(claimed.text.count("."), held.text.count(".")) >= 1 < max(claimed.text.count("."), held.text.count(".")):
        return _version(claimed) == _version(held)
    if held.is_year and len(claimed.text) == 2 and not claimed.unit and held.text.endswith(claimed.text):
        return True  # '63
    if same_unit(claimed, held):
        return any(_close(c, h, claimed, held) for c in claimed.values for h in held.values)
    own, other = UNITS[claimed.unit], UNITS[held.unit]
    room = _BINARY if own.dimension == "data" else _SAME_MEASURE
    return any(
        abs(own.base(c) - other.base(h)) <= room * abs(other.base(h)) for c in claimed.values for h in held.values
    )


def _in_period(claimed: Quantity, held: Quantity) -> bool:
    """Whether a year, or a decade, lies in the claimed decade or century."""
    if not claimed.last:
        return False  # the claim says more than the evidence
    first, end = min(claimed.values), held.last or max(held.values)
    bare = not held.unit and not held.ordinal
    return bare and first <= min(held.values) and end <= claimed.last


def _version(quantity: Quantity) -> str:
    """The digits of a number with several dots, without zeros at its end: 2.1.0 is 2.1."""
    text = quantity.text
    while text.endswith(".0"):
        text = text[:-2]
    return text


def same_unit(one: Quantity, other: Quantity) -> bool:
    """Whether no conversion is needed: one unit, or one of the two has none."""
    return not (one.unit and other.unit) or UNITS[one.unit] == UNITS[other.unit]


def equal_quantity(one: Quantity, other: Quantity) -> bool:
    """Whether both have one value and one unit, however they are written."""
    return (
        bool(one.values & other.values)
        and one.last == other.last
        and one.ordinal == other.ordinal
        and UNITS.get(one.unit) == UNITS.get(other.unit)
    )


def _close(claimed: float, held: float, quantity: Quantity, other: Quantity) -> bool:
    if abs(claimed - held) <= 1e-9 * abs(held):
        return True
    if not claimed or not held or quantity.is_year:
        return False
    hedge = quantity.hedge
    if hedge == other.hedge == "below" and quantity.digits >= other.digits:
        return False  # "up to 8" is not "up to 6"; "under a million" may be "less than 820,000"
    if hedge == "above" and other.hedge != "below":
        return claimed <= held <= claimed * _BOUND
    if hedge == "below" and other.hedge != "above":
        return claimed / _BOUND <= held <= claimed
    # only a number given with fewer digits is a rounding: "about 96.8" is not 96.4
    if quantity.digits >= other.digits:
        return False
    if hedge == "about" and abs(claimed - held) <= _CLOSE * abs(held):
        return True
    # 82.96 is 83, 1,234,567 is 1.2 million
    rounded = float(f"{held:.{quantity.digits - 1}e}")
    return (held != int(held) or abs(held) >= 10000) and abs(rounded - claimed) <= 1e-9 * abs(claimed)


_RANGE = lazy_regex(r"\s?(?:[-–—]|to|and|or)\s?")
_NO_UNIT = Unit("", 1.0)


def is_in_range(claimed: Quantity, held: Sentence) -> bool:
    """Whether a number given as a rough one lies between two that are given as a range: "about 30" for "25–35"."""
    if claimed.hedge != "about":
        return False
    for low, high in itertools.pairwise(quantities_of(held.text)):
        if claimed.dimension != high.dimension or not _RANGE.fullmatch(held.text[low.end : high.start]):
            continue
        own, unit = UNITS.get(claimed.unit, _NO_UNIT), UNITS.get(high.unit, _NO_UNIT)
        least, most = (unit.base(min(q.values)) for q in (low, high))
        if any(least <= own.base(v) <= most for v in claimed.values):
            return True
    return False


def is_within_bound(claimed: Quantity, bound: Quantity) -> bool:
    """Whether a number without a bound of its own is one that the other allows: "3 days" for "at least 48 hours".

    >>> one, bound = (quantities_of(text)[0] for text in ("3 days", "at least 48 hours"))
    >>> is_within_bound(one, bound), is_within_bound(bound, one)
    (True, False)
    """
    if claimed.hedge or claimed.dimension != bound.dimension or bound.hedge not in ("above", "below"):
        return False
    own, unit = UNITS.get(claimed.unit, _NO_UNIT), UNITS.get(bound.unit, _NO_UNIT)
    value, limit = own.base(min(claimed.values)), unit.base(min(bound.values))
    return value > limit if bound.hedge == "above" else value < limit


def is_share(claimed: Quantity, held: Sequence[Quantity]) -> bool:
    """Whether a percentage is the share that one number is of another: 62 of 210 are about 30%.

    >>> is_share(quantities_of("about 30%")[0], quantities_of("62 of the 210 patients"))
    True
    """
    bare = [min(q.values) for q in held if not q.unit and not q.ordinal and not q.is_year][:12]
    room = 2.0 if claimed.hedge == "about" else 0.5
    return claimed.dimension == "percent" and any(
        0 < a < b and abs(100 * a / b - c) <= room for a, b in itertools.combinations(bare, 2) for c in claimed.values
    )


def in_named_unit(claimed: Quantity, held: Sentence) -> bool:
    """Whether it is a bare number of a sentence that names the unit elsewhere: "in milliseconds … 5000"."""
    if not claimed.unit:
        return False
    own = UNITS[claimed.unit]
    named = [UNITS[key] for t in held.tokens if (key := fold(t.text)) in UNITS and len(key) > 1]
    bare = [v for q in quantities_of(held.text) if not q.unit and not q.ordinal for v in q.values]
    return any(
        unit.dimension == own.dimension and abs(unit.base(v) - own.base(c)) <= _SAME_MEASURE * abs(own.base(c))
        for unit in named
        for v in bare
        for c in claimed.values
    )


def is_sum(claimed: Quantity, held: Sequence[Quantity]) -> bool:
    """Whether the number, 10 or more, is the sum of two of the evidence's or of all, of one unit and no years."""
    same = [q for q in held if q.dimension == claimed.dimension and q.unit == held[0].unit and not q.is_year]
    if len(same) > 2 and max(claimed.values) >= 10 and sum(min(q.values) for q in same) in claimed.values:
        return True
    return any(
        x + y in claimed.values and min(x, y) > 1 and x + y >= 10
        for a, b in _pairs(held)
        if claimed.dimension in ("", a.dimension) and not (a.is_year or b.is_year)
        for x in a.values
        for y in b.values
    )


def is_difference(claimed: Quantity, held: Sequence[Quantity], *, change: bool = False) -> bool:
    """Whether the number is how far two years, or two numbers of one named unit, lie apart.

    With ``change`` ("rose by 9,000") two bare numbers will do.
    """
    return any(
        ((a.is_year and b.is_year) or bool(a.unit) or (change and not a.is_year and not b.is_year))
        and abs(x - y) in claimed.values
        and abs(x - y) > 1
        and claimed.dimension in ("", "time", "points" if a.dimension == "percent" else a.dimension)
        for a, b in _pairs(held)
        for x in a.values
        for y in b.values
    )


_OF = lazy_regex(r"\s(?:out )?of (?:(?:the|our|its|their|all) )?")
_REST = lazy_regex(
    r"\b(?:remain\w*|left|other\w*|rest|still|missing|outstanding|due|un(?:paid|sold|used|filled|answered|finished))\b",
    re.IGNORECASE,
)


def is_rest(claimed: Quantity, claim: Sentence, held: Sentence) -> bool:
    """Whether the number is what a part leaves of a whole, and only the claim speaks of the rest.

    >>> from shared_core.citation.facts.tokens import sentences_of
    >>> claim, held = sentences_of("Seven have not paid.")[0], sentences_of("61 of the 68 plots have paid.")[0]
    >>> is_rest(quantities_of(claim.text)[0], claim, held)
    True
    """
    rests = [rest for rest, dimension in _rests(held.text) if claimed.dimension in ("", dimension)]
    if not any(rest in claimed.values for rest in rests):
        return False
    of_rest, of_part = (s.is_negated or bool(_REST.search(s.text)) for s in (claim, held))
    return of_rest and not of_part


@lru_cache(maxsize=256)
def _rests(text: str) -> tuple[tuple[float, str], ...]:
    """Return what parts of a whole leave of it, with the dimension: "61 of the 68 plots" leave 7."""
    return tuple(
        (whole - part, b.dimension)
        for a, b in itertools.pairwise(quantities_of(text))
        if _OF.fullmatch(text[a.end : b.start]) and not a.unit
        for part in a.values
        for whole in b.values
    )


def _pairs(held: Sequence[Quantity]) -> list[tuple[Quantity, Quantity]]:
    """Pairs of different numbers of one unit, among the first twelve."""
    numbers = [q for q in held if not q.ordinal][:12]
    return [(a, b) for a, b in itertools.combinations(numbers, 2) if a.unit == b.unit and a.start != b.start]
