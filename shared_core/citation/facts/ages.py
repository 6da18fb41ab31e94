"""Ages that a text is for, such as "Youth (5-17)" and "under 3"; find numbers that it gives for other ages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from shared_core.citation.facts.arithmetic import equal_quantity
from shared_core.citation.facts.quantities import quantities_of
from shared_core.citation.facts.tokens import Found, Sentence, as_matched, sentences_of
from shared_core.support.regex import lazy_regex

_WORDS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen",
)  # fmt: skip
_SOMEONE = (
    r"(?:(?:my|our) (?:\w+ )?(?:son|daughter|child|kid|boy|girl|baby|toddler|grand\w+|mother|mum|mom|father|dad"
    r"|gran|granny|nan|parents?|husband|wife|partner|brother|sister|nephew|niece|aunt|uncle|friend|cousin)|he|she)"
)
_AGE_FOLLOWS = (  # else it is a measure: "I'm 5 feet tall", "she is 2 weeks late"
    r"(?=\W*$|[,.;:!?)–—]| - | (?:and (?!an?\b|half)|but|so|now|today|next|how|what|when|where|which|who|can|could"
    r"|may|do|does|is|am|are|should|will|would)\b)(?![,.]\d)"
)
AGE = lazy_regex(
    rf"\b(\d{{1,3}}|{'|'.join(_WORDS)})[- ]?(?:years?|yrs?)?[- ]?(?:old|olds|y/?o)\b|\bage(?:d| of)? (\d{{1,3}})\b"
    rf"|\b(?:I['’]?m|I am|{_SOMEONE}(?:['’]s| is)) (?:(?:only|just|now|already|nearly|over|turning) ){{0,2}}"
    rf"(\d{{1,3}}|{'|'.join(_WORDS[1:])})\b{_AGE_FOLLOWS}"
    rf"|\b(?:I|{_SOMEONE}) (?:(?:will|just|has|have) )?turn(?:s|ed)? (\d{{1,3}})\b{_AGE_FOLLOWS}"
    r"|\b(?:retire|vote|marry|get married|enrol+|qualify) at (\d{1,2})\b(?![:.]\d| ?[ap]\.?m| ?o['’]clock|\d)",
    re.IGNORECASE,
)
OF_AGES = lazy_regex(
    r"\bage[sd]?\b|\byears?\b|\byrs?\b|\bchild(?:ren)?\b|\bkids?\b|\byouths?\b|\badults?\b|\bseniors?\b|\bjuniors?\b|\binfants?\b"
    r"|\b(?:under|over)[- ]\d{1,2}s\b|\bteens?\b|\bstudents?\b|\bpensioners?\b|\btoddlers?\b",
    re.IGNORECASE,
)
_NO_AGE = r"(?!\s?(?:%|minutes?|days?|hours?))"
_RANGE = lazy_regex(
    r"(?<![\d.,:$£€/-])(?P<first>\d{1,2})\s?(?:-{1,3}|–|—|to)\s?(?P<last>\d{1,3})(?![\d.,:%/-]*\d|\s?(?:[ap]\.?m\b|%))"
    rf"|\b(?:under|below|younger than|less than)(?: the age of)?[- ](?P<under>\d{{1,2}})s?\b{_NO_AGE}"
    r"|\b(?:up to|until)(?: the age of)? (?P<upto>\d{1,2})\b(?=\s?(?:years?|yrs?|\)|,|;|$))"
    rf"|\b(?:over|above|older than)(?: the age of)?[- ](?P<over>\d{{1,2}})s?\b{_NO_AGE}"
    r"|\bfrom (?:(?:the )?age (?:of )?(?P<age>\d{1,2})|(?P<years>\d{1,2}) (?:years?|yrs?)(?: of age)?)\b"
    r"(?! ?(?:to|until|till|ago|later|-|–)\b| ?[-–—])"
    r"|(?<![\d.$£€])(?P<plus>\d{1,2})\s?(?:\+|(?:years? )?(?:and|or|&) (?:over|older|above|up)\b)"
    r"|(?<![\d.$£€])(?P<and_under>\d{1,2})\s?(?:years? )?(?:and|or|&) (?:under|younger|below)\b",
    re.IGNORECASE,
)

_TEAM = (
    r"(?:teams?|squads?|sides?|leagues?|divisions?|cups?|match(?:es)?|games?|fixtures?|finals?|coach(?:es)?|managers?"
    r"|captains?|results?|trophy|trophies|tournaments?|festivals?|championships?|girls|boys|football\w*|rugby|cricket"
    r"|hockey|netball)"
)
_GROUP = lazy_regex(
    r"\bU-?(?P<short>\d{1,2})(?:['’]?s)?\b|(?<![\d.,:-])(?P<before>\d{1,2})U\b"
    rf"|\bunder[- ](?P<team>\d{{1,2}})(?:['’]?s)?(?= (?:[a-z]+ )?{_TEAM}\b)"
    r"|(?<!\bin )\bunder[- ](?P<many>\d{1,2})['’]?s\b"
    r"|\b(?-i:Under|UNDER)[- ](?P<named>\d{1,2})\b"
    r"(?!\s?(?:%|[a-z]{1,2}\b|second|minute|hour|day|week|month|year|yr|mile|metre))",
    re.IGNORECASE,
)
_FURTHER = lazy_regex(
    r"\s?(?:,|/|&|\b(?:and|or)\b|(?P<to>-|–|\bto\b))\s?(?:under[- ]|U-?)?(?P<age>\d{1,2})(?:['’]?s)?\b(?![.:]?\d)",
    re.IGNORECASE,
)
_GROUPS = range(4, 31)
"""Ages that teams are named by."""

_CUT = lazy_regex(r"[,;](?!\d)|\b(?:and|but|while|whereas|or)\b")
_YEARS = ("", "year", "years", "yrs")


def age_asked(question: str) -> int | None:
    """Return the age in years that a question names; ``None`` if it names none, or several.

    >>> [age_asked(text) for text in ("What does my 10 year old pay?", "I'm 70, is it free?", "Who is old?")]
    [10, 70, None]
    """
    found = {next(filter(None, m.groups())) for m in AGE.finditer(question)}
    if len(found) != 1:
        return None
    (age,) = found
    return int(age) if age.isdigit() else _WORDS.index(as_matched(age)) + 1


def ages_of(text: str) -> tuple[float, float] | None:
    """Return the lowest and the highest age of the only range in a text; ``None`` if there is none, or several.

    >>> ages_of("Child (5–15)"), ages_of("Under 5"), ages_of("Family (2 adults)")
    ((5, 15), (0, 4), None)
    """
    found = [_ages(match) for match in _RANGE.finditer(text)]
    return found[0] if len(found) == 1 else None


def names_ages(text: str) -> bool:
    """Return whether a text has a word for people of some age, or for ages: "child", "pensioners", "years"."""
    return OF_AGES.search(text) is not None


def ranges_of(text: str) -> list[tuple[float, float]]:
    """Return the lowest and the highest age of every range in a text."""
    return [_ages(match) for match in _RANGE.finditer(text)]


class Group(NamedTuple):
    """The name of one or more groups, such as teams, by the ages that their members are under: "U15s and U16s".

    Attributes:
        is_team: it cannot be a limit of age, as "under 15s" can.
    """

    start: int
    end: int
    ages: frozenset[int]
    is_team: bool


def groups_of(text: str) -> list[Group]:
    """Find the groups that a text names by an age, in the ways that teams are called.

    >>> [sorted(*(g.ages for g in groups_of(text))) for text in ("U15s and U16s", "Under 7's to under 9's")]
    [[15, 16], [7, 8, 9]]
    >>> groups_of("children under 12")
    []
    """
    found: list[Group] = []
    for match in _GROUP.finditer(text):
        if found and match.start() < found[-1].end:
            continue
        last, end = int(next(filter(None, match.groups()))), match.end()
        ages = {last}
        while further := _FURTHER.match(text, end):
            age, end = int(further["age"]), further.end()
            ages.update(range(last, age + 1) if further["to"] else (age,))
            last = age
        if ages.issubset(_GROUPS):
            found.append(Group(match.start(), end, frozenset(ages), not (match["many"] or match["named"])))
    return found


def for_other_ages(claim: Sentence, evidence: str, context: str) -> Found:
    """Find a number that the evidence gives for other ages than the one that the claim or its question names.

    "An 8-year-old takes 20 mg" where the evidence has "Over 12: 20 mg. From 6 to 11: 10 mg". Only if it also has a
    number of the same unit for the age asked.

    >>> from shared_core.citation.facts.tokens import sentences_of
    >>> (claim,) = sentences_of("An 8-year-old pays £6.")
    >>> for_other_ages(claim, "Adults over 15: £6; children aged 5 to 15: £3", "")
    ('£6', 'children aged 5 to 15: £3')
    """
    age = age_asked(claim.text) or age_asked(context)
    if age is None or not names_ages(evidence) or _RANGE.search(claim.text):
        return None
    parts = list(_parts(evidence))
    own = [text for text, (first, last) in parts if first <= age <= last]
    others = [text for text, (first, last) in parts if not first <= age <= last]
    if not own or not others:
        return None
    elsewhere = evidence
    for text in others:
        elsewhere = elsewhere.replace(text, " ")
    known, theirs = quantities_of(elsewhere), quantities_of("\n".join(others))
    for quantity in quantities_of(AGE.sub(lambda match: " " * len(match[0]), claim.text)):
        if any(equal_quantity(quantity, q) for q in known) or not any(equal_quantity(quantity, q) for q in theirs):
            continue
        for text in own:
            if any(q.dimension == quantity.dimension for q in quantities_of(_RANGE.sub(" ", text))):
                return claim.text[quantity.start : quantity.end].strip(), text.strip()
    return None


def _parts(text: str) -> Iterator[tuple[str, tuple[float, float]]]:
    """Cut a text into parts of one range of ages each, at the conjunction or mark between two; others are left out."""
    for line in text.splitlines():
        for sentence in sentences_of(line):
            ranges = [match for match in _RANGE.finditer(sentence.text) if not _is_measure(match)]
            cuts = [0]
            for one, other in pairwise(ranges):
                cut = _CUT.search(sentence.text, one.end(), other.start())
                cuts.append(cut.start() if cut else other.start())
            for match, (start, end) in zip(ranges, pairwise([*cuts, len(sentence.text)]), strict=False):
                yield sentence.text[start:end].strip(" ,;"), _ages(match)


def _is_measure(match: re.Match[str]) -> bool:
    """Return whether a range is of days, kilograms or the like."""
    inside = [q for q in quantities_of(match.string) if match.start() < q.end and q.start < match.end()]
    return any(q.unit not in _YEARS for q in inside)


def _ages(match: re.Match[str]) -> tuple[float, float]:
    """Return the lowest and the highest age that a range covers."""
    given = {name: int(value) for name, value in match.groupdict().items() if value is not None}
    if "first" in given:
        return given["first"], given["last"]
    (name, value), *_ = given.items()
    return {
        "under": (0, value - 1),
        "upto": (0, value),
        "and_under": (0, value),
        "over": (value, math.inf),
        "plus": (value, math.inf),
        "age": (value, math.inf),
        "years": (value, math.inf),
    }[name]
