"""Read periods of the year, such as "1 April to 30 September", and tell which dates, months and seasons they cover."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from shared_core.citation.facts.dates import MONTHS, WEEKDAYS, Date
from shared_core.citation.facts.tokens import as_matched
from shared_core.support.regex import lazy_regex

MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
SEASONS = {"spring": 4, "summer": 7, "autumn": 10, "fall": 10, "winter": 1}
"""The month in the middle of each season, north of the equator."""
_SOUTH = lazy_regex(
    r"\b(?:Australian?|New Zealand|South Africa|Tasmania|Argentina|Chile|Sydney|Melbourne|Auckland|Cape Town)\b"
    r"|\.(?:au|nz|za)\b"
)
_WEEKDAY = rf"(?:(?i:{'|'.join(WEEKDAYS)}),? )?(?:the )?"
_NUMBER = r"\d{{1,2}}(?:st|nd|rd|th)?"
_TO = r"(?: ?[-–—/] ?| (?:to|until|till|through) )"
_END = (
    rf"{_WEEKDAY}(?:(?P<before{{n}}>{_NUMBER}) (?:of )?)?(?P<month{{n}}>{MONTH.replace('{', '{{')})\.?"
    rf"(?: (?P<behind{{n}}>{_NUMBER})(?![\d:.]*\d))?(?:,? (?P<year{{n}}>(?:19|20)\d\d))?"
)
_BETWEEN_MONTHS = lazy_regex(
    rf"(?<![\w.-])(?P<between>between )?{_END.format(n=1)}(?(between) and |{_TO}){_END.format(n=2)}(?![\w-])"
)
_DAY = _NUMBER.format()
_WITHIN_MONTH = lazy_regex(
    rf"(?<![\w.:-])(?P<from>{_DAY}){_TO}{_WEEKDAY}(?P<to>{_DAY}) (?:of )?(?P<of>{MONTH})\b"
    rf"|(?<![\w-])(?P<month>{MONTH})\.? (?P<first>{_DAY}){_TO}(?P<last>{_DAY})(?![\d:.]*\d)(?!\w)"
)
_MOST = 11.5  # months: what lasts longer is no part of the year


class Period(NamedTuple):
    """A part of a year, from one day to another.

    Attributes:
        first, last: month and day of both, which are in it.
        years: those it lies in; none where it is of any year.
    """

    text: str
    first: tuple[int, int]
    last: tuple[int, int]
    years: range

    def holds(self, date: Date) -> bool:
        """Return whether a date, or a part of a month without a day, is in the period.

        >>> from shared_core.citation.facts.dates import dates_of
        >>> (closed,) = periods_of("Closed from 22 December to 4 January.")
        >>> [closed.holds(dates_of(day)[0]) for day in ("1 January", "January", "5 January")]
        [True, True, False]
        """
        if not date.month or (date.year and self.years and date.year not in self.years):
            return False
        if date.day:
            return _is_between(self.first, (date.month, date.day), self.last)
        return _is_between(self.first[:1], (date.month,), self.last[:1])

    def length(self) -> float:
        """Return how many months the period lasts, about."""
        (first, day), (last, last_day) = self.first, self.last
        return (last - first) % 12 + (last_day - day) / 31

    def is_in_season(self, name: str) -> bool:
        """Return whether the period covers the middle of a season, and not that of the opposite one."""
        middle = SEASONS[name]
        opposite = (middle + 5) % 12 + 1
        days = [(month, day) for month in (middle, opposite) for day in (1, 28)]
        return [_is_between(self.first, day, self.last) for day in days] == [True, True, False, False]


def _is_between(first: tuple[int, ...], day: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether a day of any year is between two, also over the turn of the year."""
    return first <= day <= last if first <= last else day >= first or day <= last


@lru_cache(maxsize=512)
def periods_of(text: str) -> tuple[Period, ...]:
    """Return the periods of a text in order; without those of more than a year, which say nothing of its months.

    >>> [p.text for p in periods_of("Open May–July and Oct 1-14. Built April 1897 to May 1899.")]
    ['May–July', 'Oct 1-14']
    """
    found = [(m.start(), period) for m in _BETWEEN_MONTHS.finditer(text) if (period := _between_months(m))]
    found += [(m.start(), period) for m in _WITHIN_MONTH.finditer(text) for period in _within_month(m)]
    return tuple(period for _, period in sorted(found))


def is_of_the_south(text: str) -> bool:
    """Return whether a text names a place south of the equator, where the seasons are the other way round."""
    return _SOUTH.search(text) is not None


def _between_months(match: re.Match[str]) -> Period | None:
    (first, last), years = (
        (
            (_month(match[f"month{n}"]), _day(match[f"before{n}"] or match[f"behind{n}"], default))
            for n, default in ((1, 1), (2, 31))
        ),
        [int(match[f"year{n}"]) for n in (1, 2) if match[f"year{n}"]],
    )
    turns = last < first
    if len(years) == 2 and years[1] - years[0] != turns:
        return None
    if len(years) == 1:  # "1 December to 4 January 2025"
        years = [years[0] - turns, years[0]]
    period = Period(match[0].rstrip("."), first, last, range(years[0], years[-1] + 1) if years else range(0))
    return period if period.length() < _MOST else None


def _within_month(match: re.Match[str]) -> Iterator[Period]:
    month = _month(match["of"] or match["month"])
    first, last = (_day(match[one] or match[other], 0) for one, other in (("from", "first"), ("to", "last")))
    if first < last <= 31:
        yield Period(match[0], (month, first), (month, last), range(0))


def _month(name: str) -> int:
    return MONTHS.index(as_matched(name)[:3]) + 1


def _day(number: str | None, default: int) -> int:
    return int(re.sub(r"\D", "", number)) if number else default
