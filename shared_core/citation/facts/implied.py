"""Tell whether a claim follows from a sentence that has all of its words but for a number, a date or a negation.

A date within a period, a number within a bound, a sum, a difference, what a comparison of two numbers gives, what is
left of a whole, and what an exception or an "only" says of the others.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from shared_core.citation.facts.arithmetic import equal_quantity, is_rest, is_within_bound
from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.measured import measured_more
from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.periods import periods_of
from shared_core.citation.facts.quantities import UNITS, Quantity, quantities_of
from shared_core.citation.facts.scope import EXCEPT, names_excepted
from shared_core.citation.facts.tokens import Sentence, Token, content_keys, fold, stem, tokens_of
from shared_core.support.regex import lazy_regex

__all__ = ["implied", "in_period", "of_others", "within_condition"]

_EDGE = lazy_regex(
    r"\b(?:start\w*|begin\w*|began|opens|opened|closes|end(?:s|ed|ing)?|finish\w*|expir\w*|until|till|from|since|by|before"
    r"|after|deadline|last|first|due|launch\w*|held|tak(?:es?|ing) place|took place|arriv\w*|deliver\w*|return\w*"
    r"|(?:is|are|was|were|be) (?:on|in|at)(?= (?:\d|noon|mid|(?-i:[A-Z]))))",
    re.IGNORECASE,
)
_STATE = lazy_regex(r"\b(?:is|are|was|were|be|can|may|runs?|works?|stays?|operates?|lasts?)\b", re.IGNORECASE)
_HEDGED = lazy_regex(
    r"\b(?:some|most|many|few|several|usually|often|sometimes|normally|mainly|might|could|perhaps|probably|likely|about"
    r"|around|nearly|almost|approximately|expect\w*|plan\w*|estimat\w*)\b",
    re.IGNORECASE,
)
_MEASURES = lazy_regex(
    r"\b(?:takes?|took|lasts?|lasted|weighs?|costs?|pays?|is|are|was|were|gets?|got|holds?|contains?|has|have|had|earns?"
    r"|measures?|reach(?:es|ed)?|needs?|allows?|lend|lent|keeps?)(?: \w+)? \Z",
    re.IGNORECASE,
)
_BOUND = lazy_regex(
    r"(?:(?:\w+er|more|less) than|over|under|above|below|up to|at (?:least|most)|after|before|a (?:maximum|minimum) of"
    r"|exceed\w*) \Z",
    re.IGNORECASE,
)
_ORDER = lazy_regex(r"\b(before|after) \Z", re.IGNORECASE)
_OTHERS = lazy_regex(r"\b(?:(?:all )?others?|otherwise|the rest)\b", re.IGNORECASE)
_CUT = lazy_regex(
    r";|[.!?] |,? \b(?:but|while|whereas|otherwise|others|or else)\b|, (?!\d)"
    r"|\band (?=[^,;]{0,60}\b(?:is|are|was|were|may|can|must|will)\b)"
)
_LIMITS = lazy_regex(r"\b(?:unless|except\w*|only|provided|apart|but)\b", re.IGNORECASE)
_MODAL = lazy_regex(r"\b(?:(?-i:may)|can|could|should|might|must)\b", re.IGNORECASE)
_IF = lazy_regex(r"\A\W*(?:if|when|whenever|once|where|for|in case)\b", re.IGNORECASE)
_GLUE = frozenset(
    map(stem, "total together altogether sum combined overall take last long old age roughly approximately".split())
)
_TOTAL = lazy_regex(
    r"\b(?:in total|together|altogether|in all|combined|in sum|overall|total(?:led|s)?)\b", re.IGNORECASE
)
_SPANS = lazy_regex(r"\b(?:for|lasts?|lasted|takes?|took)\b", re.IGNORECASE)
_FROM_TO = lazy_regex(r"\s?(?:[-–—]|to|until|till|and)\s?(?:(?:ends?|finish(?:es)?|closes?) at )?|,? (?:and )?(?:it )?"
                      r"(?:ends?|ended|finish(?:es|ed)|closes?|closed) (?:at|in) ")  # fmt: skip
_WHOLE = {"percent": 100.0, "": 1.0}


def implied(claim: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether a claim follows from one of the sentences."""
    return any(_follows(claim, sentence) for sentence in sentences) or measured_more(claim, sentences) is True


def _follows(claim: Sentence, held: Sentence) -> bool:
    if not content_keys(claim.tokens) & held.keys or _HEDGED.search(claim.text):
        return False
    return (
        _in_condition(claim, held)
        or _is_of_others(claim, held)
        or _is_whole(claim, held)
        or _is_left(claim, held)
        or _of_exception(claim, held)
        or _of_others(claim, held)
    )


# --- within a period or a bound ------------------------------------------------------------------------------------


def in_period(claim: Sentence, held: Sentence) -> bool:
    """Whether each date and time of day of the claim lies in a period that the sentence gives.

    Not if the claim tells when something begins, ends or happens once: a meeting between 3 and 9 May is not on 4 May.
    """
    return bool(_in_periods(claim, held))


def _in_periods(claim: Sentence, held: Sentence) -> list[tuple[int, int, int]]:
    """Return the place of each date of the claim, with where the period begins that it lies in."""
    if _EDGE.search(claim.text) or not _STATE.search(claim.text):
        return []
    found = []
    periods, hours = periods_of(held.text), list(_hours(held.text))
    if any(not any(d.text.rstrip(".") in p.text for p in periods) for d in dates_of(held.text) if d.month):
        return []  # "but not on 6 May"
    for date in dates_of(claim.text):
        at = claim.text.find(date.text) if not date.end else date.end - len(date.text)
        period = next((p for p in periods if len(periods) == 1 and date.month and p.holds(date)), None)
        if period is None or at < 0:
            return []
        found.append((at, at + len(date.text), held.text.find(period.text)))
    for time in (q for q in quantities_of(claim.text) if q.dimension == "clock"):
        within = (at for at, first, last in hours if any(_is_between(v, first, last) for v in time.values))
        start = next(within, None) if len(hours) == 1 else None
        if start is None:
            return []
        found.append((time.start, time.end, start))
    return found


def _hours(text: str) -> Iterator[tuple[int, float, float]]:
    """Yield the place and the two ends, in minutes, of each range of times of day: "from 8 am to 2 pm"."""
    for one, other in itertools.pairwise(q for q in quantities_of(text) if q.dimension == "clock"):
        if re.fullmatch(r"\s?(?:[-–—]|to|until|till|and)\s?", text[one.end : other.start]):
            yield one.start, min(one.values), max(other.values)


def _is_between(minute: float, first: float, last: float) -> bool:
    return first <= minute < last if first <= last else minute >= first or minute < last


def within_condition(quantity: Quantity, claim: Sentence, held: Sentence) -> Quantity | None:
    """Return the bound of a condition that a number of the claim meets: "80 euros" for "orders over 50 euros".

    ``None`` if the sentence has another bound of the kind that it does not meet, or says how much something is ("takes
    up to 10 days"), of which the number is only one possibility.
    """
    bounds = _conditions(quantity, claim, held)
    return bounds[0] if bounds and all(_meets(quantity, bound) for bound in bounds) else None


def _conditions(quantity: Quantity, claim: Sentence, held: Sentence) -> list[Quantity]:
    """Return the bounds of a sentence that a number of the claim may meet or not."""
    if _bounded(quantity, claim.text).hedge or quantity.is_year or _MEASURES.search(claim.text[: quantity.start]):
        return []
    kinds = ("time", "") if quantity.dimension == "time" else (quantity.dimension,)  # "over 60" for "a 72-year-old"
    bounds = [_bounded(q, held.text) for q in quantities_of(held.text) if q.dimension in kinds and not q.is_year]
    bounds = [q for q in bounds if q.hedge in ("above", "below")]
    said = any(
        (m := _BOUND.search(held.text[: q.start])) and not _MEASURES.search(held.text[: m.start()]) for q in bounds
    )
    return bounds if said else []


def _bounded(quantity: Quantity, text: str) -> Quantity:
    """Return a time of day with the "before" or "after" in front of it as its bound."""
    order = _ORDER.search(text[: quantity.start]) if quantity.dimension == "clock" else None
    return replace(quantity, hedge="above" if order[1].lower() == "after" else "below") if order else quantity


def _meets(quantity: Quantity, bound: Quantity) -> bool:
    if quantity.dimension == bound.dimension:
        return is_within_bound(quantity, bound)
    value, limit = min(quantity.values), min(bound.values)
    return UNITS[quantity.unit] == UNITS["year"] and (value > limit if bound.hedge == "above" else value < limit)


def of_others(claim: Sentence, held: Sentence) -> bool:
    """Whether a number of the claim meets none of the conditions, and the sentence says what holds for the others."""
    others = _OTHERS.search(held.text)
    return others is not None and any(
        (bounds := _conditions(q, claim, held)) and not any(_meets(q, b) or q.values & b.values for b in bounds)
        for q in quantities_of(claim.text)
    )


def _is_of_others(claim: Sentence, held: Sentence) -> bool:
    """Whether "dogs over 10 kg pay 5 euros, others travel free" is meant by "a dog of 6 kg travels free"."""
    others = _OTHERS.search(held.text)
    if others is None or not of_others(claim, held):
        return False
    taken = [(q.start, q.end, 0) for q in quantities_of(claim.text) if _conditions(q, claim, held)]
    bound = _conditions(next(q for q in quantities_of(claim.text) if q.start == taken[0][0]), claim, held)[0]
    text = f"{held.text[: bound.start]} … {held.text[others.end() :]}"
    what = Sentence(text, tokens_of(text))
    told = content_keys(tokens_of(held.text[others.end() :])) & claim.keys
    same = is_denied(claim) == is_denied(Sentence("", tokens_of(held.text[others.end() :])))
    return bool(told) and same and _rest_is_in(claim, what, taken)


def _in_condition(claim: Sentence, held: Sentence) -> bool:
    """Whether the part of the sentence with a period or bound says all else that the claim says."""
    met = [(q.start, q.end, bound.start) for q in quantities_of(claim.text)
           if (bound := within_condition(q, claim, held)) is not None]  # fmt: skip
    met = met or _in_periods(claim, held)
    if not met:
        return False
    region = _region(held, met[0][2])
    modals = [{m.group().lower() for m in _MODAL.finditer(text)} for text in (region.text, claim.text)]
    if _LIMITS.search(held.text) or _HEDGED.search(region.text) or not modals[0] <= modals[1]:
        return False
    return is_denied(claim) == is_denied(region) and _in_order(claim, region) and _rest_is_in(claim, region, met)


def _in_order(claim: Sentence, held: Sentence) -> bool:
    """Whether the sentence has its names in the order of the claim: who does what to whom is not turned round."""
    names = [t.key for t in held.tokens if t.can_name]
    rest = iter(names)
    return all(key in rest for key in (t.key for t in claim.tokens if t.key in names))


def _region(held: Sentence, at: int) -> Sentence:
    """Return the part of a sentence, cut at commas and "but", at a place; with the next one if it begins with "if"."""
    cuts = [0, *(m.end() for m in _CUT.finditer(held.text)), len(held.text)]
    i = max(n for n, cut in enumerate(cuts[:-1]) if cut <= at)
    first, last = i, i + 1
    if _IF.match(held.text[cuts[i] :]) and held.text[: cuts[i + 1]].rstrip().endswith(",") and i + 2 < len(cuts):
        last = i + 2
    text = held.text[cuts[first] : cuts[last]]
    return Sentence(text, tokens_of(text))


def _rest_is_in(claim: Sentence, held: Sentence, taken: Sequence[tuple[int, int, int]] = ()) -> bool:
    """Whether the sentence has all words of the claim with content and all numbers, but for those at these places."""
    rest = [t for t in claim.tokens if not any(a <= t.start < b for a, b, _ in taken)]
    words = {t.key for t in rest if t.is_content} - _GLUE
    numbers = [q for q in quantities_of(claim.text) if not any(a <= q.start < b for a, b, _ in taken)]
    has = quantities_of(held.text)
    return bool(words) and words <= held.keys and all(any(equal_quantity(q, h) for h in has) for q in numbers)


# --- sums and differences ------------------------------------------------------------------------------------------


def _is_whole(claim: Sentence, held: Sentence) -> bool:
    """Whether the number of the claim is the sum of all numbers of the sentence, or how far its two times lie apart."""
    said = quantities_of(claim.text)
    if dates_of(claim.text) or dates_of(held.text):
        return False
    if len(said) != 1 or said[0].hedge or is_denied(claim) or is_denied(held) or _HEDGED.search(held.text):
        return False
    number, numbers = said[0], [q for q in quantities_of(held.text) if not q.ordinal]
    taken = [(number.start, number.end, 0)]
    if not _rest_is_in(claim, held, taken):
        return False
    values = [min(q.values) for q in numbers]
    plain = not any(q.is_year or q.hedge or len(q.values) > 1 or q.dimension == "clock" for q in numbers)
    units = {q.unit for q in numbers} - {""}
    if len(numbers) > 1 and plain and len(units) < 2 and abs(sum(values) - min(number.values)) < 1e-6:
        return _adds_up(claim, held, numbers) and (number.unit in units or not units)
    return len(numbers) == 2 and _SPANS.search(claim.text) is not None and _lies_between(number, numbers, held.text)


def _adds_up(claim: Sentence, held: Sentence, numbers: Sequence[Quantity]) -> bool:
    """Whether the numbers are of things that the claim names, or of one thing: "14 in autumn and 20 in spring"."""
    if all((t := held.content_behind(q.end)) is not None and t.key in claim.keys for q in numbers):
        return True
    between = [tokens_of(held.text[a.end : b.start]) for a, b in itertools.pairwise(numbers)]
    joined = all(words and fold(words[-1].text) in ("and", "plus") for words in between)
    first, *others = (held.text[q.end :].strip(" .").partition(" ")[0].lower() for q in numbers)
    of_one = first != "for" and all(word in ("", "in", "on", "at", "during", first) for word in others)
    return joined and of_one and _TOTAL.search(claim.text) is not None


def _lies_between(number: Quantity, numbers: Sequence[Quantity], text: str) -> bool:
    one, other = numbers
    if not _FROM_TO.fullmatch(text[one.end : other.start]):
        return False
    if one.is_year and other.is_year and number.unit and UNITS[number.unit] == UNITS["year"]:
        return min(other.values) - min(one.values) in number.values
    if one.dimension == other.dimension == "clock" and number.dimension == "time":
        seconds = {60 * (b - a) for a in one.values for b in other.values if b > a}
        return any(abs(UNITS[number.unit].base(v) - s) < 1 for v in number.values for s in seconds)
    return False


# --- what is left --------------------------------------------------------------------------------------------------


def _is_left(claim: Sentence, held: Sentence) -> bool:
    """Whether one sentence denies of a part what the other says of the rest: "60% wore a belt", "40% did not"."""
    said, has = quantities_of(claim.text), quantities_of(held.text)
    if is_denied(claim) == is_denied(held):
        return False
    if len(said) == len(has) == 1 and said[0].dimension == has[0].dimension in _WHOLE:
        whole = _WHOLE[said[0].dimension]
        left = any(0 < a < whole and abs(a + b - whole) < 1e-6 for a in said[0].values for b in has[0].values)
        bounds = {said[0].hedge, has[0].hedge} & {"above", "below"}
        return left and not bounds and _rest_is_in(claim, held, [(said[0].start, said[0].end, 0)])
    taken = [(q.start, q.end, 0) for q in said if is_rest(q, claim, held)]
    return bool(taken) and _rest_is_in(claim, held, taken)


def _of_exception(claim: Sentence, held: Sentence) -> bool:
    """Whether "all but dinner are included" is meant by "dinner is not included"."""
    excepted = EXCEPT.search(held.text)
    if excepted is None or EXCEPT.search(claim.text) or not names_excepted(claim, excepted):
        return False
    before = held.text[: excepted.start()]
    return is_denied(claim) != is_denied(Sentence(before, tokens_of(before))) and _rest_is_in(claim, held)


_NON = lazy_regex(r"\bnon-(\w+)", re.IGNORECASE)
_ONLY = lazy_regex(r"\A\W*only (?:the )?([\w -]+?) (?:may|can|must|will|should|are|is|have|has)\b", re.IGNORECASE)


def _of_others(claim: Sentence, held: Sentence) -> bool:
    """Whether "only members may vote" is meant by "non-members may not vote"."""
    only, non = _ONLY.match(held.text), _NON.search(claim.text)
    if only is None or non is None or stem(fold(non[1])) not in {t.key for t in tokens_of(only[1])}:
        return False
    verbs = sum(t.is_negation for t in claim.tokens if t.start > non.end())
    return verbs % 2 == 1 and not is_denied(held) and _rest_is_in(_without(claim, non), held)


def _without(claim: Sentence, match: re.Match[str]) -> Sentence:
    rest: tuple[Token, ...] = tuple(t for t in claim.tokens if not match.start() <= t.start < match.end())
    return Sentence(claim.text, rest)
