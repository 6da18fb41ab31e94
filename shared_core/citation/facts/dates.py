"""Dates of a text, in a form in which two ways to write the same are equal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from shared_core.citation.facts.tokens import as_matched, fold
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

_WORDS = lazy_regex(r"[^\W\d_]+")
_LINES = read_lists("shared_core.citation.facts", "dates.txt")["months"].splitlines()
_MONTH = {name: number for number, names in enumerate(_LINES, 1) for name in names.split()}
MONTH_NAMES = tuple(names.split()[0] for names in _LINES)
"""The English months."""
MONTHS = tuple(name[:3] for name in MONTH_NAMES)
"""Their first letters."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = {w: i for i, w in enumerate(WEEKDAYS)} | {f"{w}s": i for i, w in enumerate(WEEKDAYS)}
_DAYS = [w[:3] for w in WEEKDAYS]
_DAY_BEGINS = [w[:2] for w in WEEKDAYS]
_OF_RANGE = rf"({'|'.join(_DAYS)}|(?-i:Mo|Tu|We|Th|Fr|Sa|Su)(?![a-z]))[a-z]*"
_DAY_RANGE = lazy_regex(rf"\b{_OF_RANGE}\.?\s?(?:[-–—]|to|until|till|through|thru)\s?{_OF_RANGE}\b", re.IGNORECASE)
_DAY_NAME = lazy_regex(
    r"\b(?:(mon|tues|wednes|thurs|fri|satur|sun)days?|(?-i:(Mon|Tue|Wed|Thu|Fri|Sat|Sun))(?:s|rs|urs)?)\b", re.I
)
_DAY_GROUP = lazy_regex(r"\b(week)(day|end)s?\b", re.IGNORECASE)
_EVERY_DAY = lazy_regex(r"\b(?:daily|(?:every|each|any|all) (?:other )?(?:day|week)s?)\b", re.IGNORECASE)
_ISO = lazy_regex(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_CJK_DATE = lazy_regex(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})日)?")
_NUMERIC = lazy_regex(r"(?<![\d./])(\d{1,2})([./])(\d{1,2})\2(\d{4})(?!\d)")
_DAY_MONTH = lazy_regex(  # without a year only behind a preposition: "2.10." may be a section
    r"\b(?:from|until|till|on|to|by|between|and|vom|bis|am|ab|zum|und) ((\d{1,2})\.(0[1-9]|1[0-2])\.)(?![\d\w])",
    re.IGNORECASE,
)
_DAY = r"(?P<day{n}>\d{{1,2}})(?:st|nd|rd|th|\.|er|º)?"
_NAME = r"(?P<month{n}>[^\W\d_]{{3,10}})\.?"
_YEAR = r"(?P<year{n}>\d{{3,4}})"
_DATE = lazy_regex(
    rf"(?<!\d){_DAY.format(n=1)}[\s-]?(?:of\s|de\s)?{_NAME.format(n=1)}(?:,?[\s-](?:de\s|del\s)?{_YEAR.format(n=1)})?(?!\w)"
    rf"|(?<!\w){_NAME.format(n=2)}\s(?:{_DAY.format(n=2)}(?![.,]?\d)(?:,?\s{_YEAR.format(n=2)}(?!\d))?"
    rf"|(?:of\s|de\s)?{_YEAR.format(n=3)}(?!\d))"
    rf"|(?<!\w){_NAME.format(n=4)}(?!\w)"
)


@dataclass(frozen=True, slots=True)
class Date:
    """A date as far as it is given: month, and day and year where they are; or a weekday.

    Attributes:
        month, day, year: 0 where not given.
        weekday: 0 for Monday to 6, else -1.
        end: where a date in digits ends in the text, else 0; it begins ``len(text)`` before.
        either: day and month may be exchanged (5/1/2024).
    """

    text: str
    month: int = 0
    day: int = 0
    year: int = 0
    weekday: int = -1
    end: int = 0
    either: bool = False


_BEFORE_MONTH = lazy_regex(
    r"\b(?:in|since|until|till|by|during|of|late|early|last|next|every|this|from|between|to|through)[\s-]$"
    r"|\b(?:January|February|April|June|July|August|September|October|November|December),?(?: and| or)? $",
    re.IGNORECASE,
)
_VERB_LIKE = frozenset({"may", "march", "mars", "mar", "sep", "dec", "jan", "mai", "mei", "marco"})


@lru_cache(maxsize=512)
def dates_of(text: str) -> tuple[Date, ...]:
    """Dates that name a month (in eight languages, or ISO) and weekdays, in order."""
    found = [
        Date(m.group(), int(m[2]), int(m[3]), int(m[1]), end=m.end())
        for m in _ISO.finditer(text)
        if 1 <= int(m[2]) <= 12
    ]
    for m in _NUMERIC.finditer(text):
        one, other = int(m[1]), int(m[3])
        if min(one, other) >= 1 and max(one, other) <= 31 and min(one, other) <= 12:
            month, day = (one, other) if other > 12 else (other, one)
            found.append(Date(m.group(), month, day, int(m[4]), end=m.end(), either=max(one, other) <= 12))
    found += [Date(m[1], int(m[3]), int(m[2]), end=m.end(1)) for m in _DAY_MONTH.finditer(text) if 1 <= int(m[2]) <= 31]
    found += [Date(m.group(), int(m[2]), int(m[3] or 0), int(m[1] or 0)) for m in _CJK_DATE.finditer(text)]
    at = 0
    while match := _DATE.search(text, at):
        date = _read_date(match)
        if date is None:  # go on behind the first word: "when May 3" holds a date
            word = _WORDS.search(text, match.start())
            at = word.end() if word and word.end() > at else match.end()
            continue
        found.append(date)
        at = match.end()
    found += [
        Date(w.group(), weekday=_WEEKDAY[w.group().lower()])
        for w in _WORDS.finditer(text)
        if w.group().lower() in _WEEKDAY and w.group()[0].isupper()
    ]
    return tuple(found)


def dates_in_digits(text: str) -> list[range]:
    """Places of the dates that a text writes in digits, whose numbers count nothing.

    >>> dates_in_digits("On 2024-05-14")
    [range(3, 13)]
    """
    return [range(d.end - len(d.text), d.end) for d in dates_of(text) if d.end]


@lru_cache(maxsize=512)
def weekdays_of(text: str) -> Mapping[int, str]:
    """Map the weekdays that a text names (0 for Monday), alone, in a range or as weekdays and weekends, to its words.

    "Daily" and "every day" name none: they exclude none either (``is_every_day``).

    >>> weekdays_of("Open Fri to Sun, not on Mondays.")
    {4: 'Fri to Sun', 5: 'Fri to Sun', 6: 'Fri to Sun', 0: 'Mondays'}
    >>> weekdays_of("Mo-Tu: 9-17")
    {0: 'Mo-Tu', 1: 'Mo-Tu'}
    """
    found: dict[int, str] = {}
    for m in _DAY_RANGE.finditer(text):
        a, b = (_DAY_BEGINS.index(as_matched(m[n])[:2]) for n in (1, 2))
        found |= {i % 7: m.group() for i in range(a, (b if b >= a else b + 7) + 1)}
    for m in _DAY_NAME.finditer(text):
        found.setdefault(_DAYS.index(as_matched(m[1] or m[2])[:3]), m.group())
    for m in _DAY_GROUP.finditer(text):
        found |= dict.fromkeys(range(5) if m[2].lower() == "day" else (5, 6), m.group())
    return found


def is_every_day(text: str) -> bool:
    """Whether a text speaks of every day or week, and so of each weekday."""
    return bool(_EVERY_DAY.search(text))


def _read_date(match: re.Match[str]) -> Date | None:
    for n in "124":
        name = match[f"month{n}"]
        month = _MONTH.get(fold(name or ""), 0)
        if not month:
            continue
        if n == "4":  # a month alone; "may" and "march" are verbs too
            plain = fold(name) not in _VERB_LIKE and len(name) > 3
            before = match.string[max(0, match.start() - 16) : match.start()]
            placed = fold(name) in ("march", "may") and _BEFORE_MONTH.search(before)
            sure = name[0].isupper() and (plain or placed)
            return Date(name, month) if sure else None
        day, year = match[f"day{n}"], match[f"year{n}"] or (match["year3"] if n == "2" else None)
        return Date(match.group(), month, int(day or 0), int(year or 0))
    return None


def same_date(claimed: Date, held: Date) -> bool:
    """Whether a date of the evidence agrees with all of the claimed one's parts that both give."""
    if claimed.weekday >= 0 or held.weekday >= 0:
        return claimed.weekday == held.weekday
    if (claimed.either or held.either) and claimed.day and held.day and claimed.month != held.month:
        return {claimed.day, claimed.month} == {held.day, held.month} and claimed.year == (held.year or claimed.year)
    pairs = ((claimed.day, held.day), (claimed.year, held.year))
    return claimed.month == held.month and all(not c or not h or c == h for c, h in pairs)
