"""Compare the exact values that a question names (numbers, years, dates, weekdays, codes) with those of a text.

Other words are often paraphrased; a year, a weekday or the number of a port hardly ever is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shared_core.citation.facts.ages import AGE
from shared_core.citation.facts.arithmetic import same_quantity
from shared_core.citation.facts.dates import WEEKDAYS, Date, dates_of, is_every_day, same_date, weekdays_of
from shared_core.citation.facts.periods import periods_of
from shared_core.citation.facts.quantities import Quantity, quantities_of, roman
from shared_core.citation.facts.tokens import as_matched
from shared_core.reading.ages import group_asked, groups_named, names_age
from shared_core.reading.features import RARITY_BUCKETS, Words, stem, words_of
from shared_core.support.options import code_shape, find_codes, find_variables
from shared_core.support.regex import lazy_regex

_WEEKDAY = lazy_regex(rf"\b({'|'.join(WEEKDAYS)})s?\b", re.IGNORECASE)
_TO = r"\s?(?:[-–—]|to|until|till|through)\s?"
_DAY_WORDS = lazy_regex(
    rf"\b(?:(?:{'|'.join(WEEKDAYS)})s?|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)|day|the|of|and|to|Jan\w*|Feb\w*|Mar(?:ch)?|Apr\w*|May"
    r"|June?|July?|Aug\w*|Sep\w*|Oct\w*|Nov\w*|Dec\w*|\d+(?:st|nd|rd|th)?)\b",
    re.IGNORECASE,
)
_YEAR_RANGE = lazy_regex(rf"(?<!\d)(\d{{4}})(?:{_TO}|/|\sand\s)(\d{{4}}|\d\d)(?!\d)")
_DIGITS = lazy_regex(r"\d+")
_COUNTED = lazy_regex(
    r"\b([^\W\d_]{3,}) (\d{1,4}(?:(?: ?[-–—] ?| to | through |, | and | or | & |, and )(?:\1 )?\d{1,4}){1,12})"
    r"(?![\w%]|[.,:]\d)",
    re.IGNORECASE,
)
_NUMBERS_TO = lazy_regex(r"(\d+)(?: ?[-–—] ?| to | through )(?:[^\W\d_]+ )?(\d+)")
_CENTURY = lazy_regex(r"\d+00s|\d+th centur(?:y|ies)")
_ROMAN = lazy_regex(r"(?<=[a-z] )(?=[LXVI]{2}|[LXV]\b(?!\.))(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b")
_VERB = lazy_regex(r"may|march")
_PATH = lazy_regex(r"(?<![\w./:~-])/[a-z][\w{}-]*(?:/[\w{}-]+)*", re.IGNORECASE)
_FILE = lazy_regex(
    r"(?<![\w/.])[\w-]+\.(py|js|ts|c|h|rs|go|sh|toml|json|ya?ml|xml|html?|md|rst|txt|cfg|ini|conf|log|csv|pdf|docx?|xlsx?)\b",
    re.IGNORECASE,
)
_VERSION = lazy_regex(r"\b(?:v|versions?|releases?)[ .]?(\d+(?:\.\d+)+)", re.IGNORECASE)
_MAJOR = lazy_regex(r"(?:\b(?:versions?|releases?)[ .]?|(?:\b|(?<=[A-Z]))[vV])(\d+)\b(?!\.\d)", re.IGNORECASE)
_DATED_VERSION = lazy_regex(r"^\W*v?\d+(?:\.\d+)+\b[^\n]*\b(?:19|20)\d\d\b", re.MULTILINE)
_SERIES = lazy_regex(r"(?<![\w.-])(\d+(?:\.\d+)*)\.[xX]\b")  # "20.x" is all releases of 20
_CLASS = lazy_regex(  # "level AA" is not "level AAA", nor "class 5T" "class 5R"
    r"\b((?i:level|grade|class|tier|type|category|group|phase|stage|priority|severity|plan|option|schedule|appendix|annex"
    r"|exhibit|section|part|zone|band|series|size|vitamin|hepatitis|building|block|hall|wing|terminal|gate|team|form"
    r"|division|unit|article|mode|route|ward|sector|(?:year|flat|room|apartment|seat|bus|line|bay|plot|court)(?=s? \d))"
    r"(?:e?s)?)\s+(?!\d+(?:[AP]M|K[MG]|[KMGT]B)\b)(\d{0,3}[A-Z]{1,3})\b(?![.'’-]?\w)"
)
_LETTERS_TO = lazy_regex(r"\b(\d{0,3})([A-Z])(?: ?[-–—] ?| to )\1?([A-Z])\b")
_GRADE = lazy_regex(r"(?<![\w+-])[A-F](?:\+|[-−–](?=[\s?.,;:)]|\Z))(?!\w)")
_ANY_GRADE = lazy_regex(r"(?<![\w+-])[A-F](?![\w'’./])(?! [a-z])[+−–-]?")
_METHODS = "GET|POST|PUT|PATCH|DELETE|HEAD"
_CALL = lazy_regex(rf"\b({_METHODS})\W{{1,5}}?(/[\w{{}}/-]*[\w}}])")
_ASKS_WHEN = lazy_regex(r"\b(?:when|date|day|month|year)\b", re.IGNORECASE)
_NO_RARITIES = np.zeros(RARITY_BUCKETS, np.float32)


@dataclass(frozen=True, slots=True)
class Value:
    """An exact value in a question.

    Attributes:
        near: codes of the stems of the content words right before and right after a number; 0 for none.
        number, date, weekday (0 for Monday), code, group: one of them is set; a code is folded, without hyphens or
            plural; a group is the age that a team is under ("U15", "under 15s").
            Paths (``/cards``), calls (``PUT /cards``), names of files and variables, series of releases (``20.x``),
            classes (``level AA``) and grades (``B+``) are codes too.
    """

    text: str
    near: tuple[int, int] = (0, 0)
    number: Quantity | None = None
    date: Date | None = None
    weekday: int | None = None
    code: str = ""
    group: int | None = None


@lru_cache(maxsize=256)
def values_of(question: str) -> tuple[Value, ...]:
    """Find the exact values of a question: numbers in digits, months with or without day and year, weekdays, codes.

    >>> [v.text for v in values_of("What did version 2.2 of the HX-60 cost in March 2019?")]
    ['2.2', '2019', 'March 2019', 'HX-60']
    """
    dates = [d for d in dates_of(question) if d.month and not _VERB.match(d.text)]
    group = group_asked(question)
    named = question[group.start : group.end] if group else ""
    found = [*find_codes(question), *(m.group() for m in _SERIES.finditer(question))]
    codes = [c for c in found if not named.startswith(c)]
    inside = [(at, at + len(text)) for text in (*(d.text for d in dates), *codes) if (at := question.find(text)) >= 0]
    numbers = [
        q
        for q in quantities_of(question)
        if (q.text[:1].isdigit() or (q.ordinal and q.text.lower() != "first"))
        and not _CENTURY.fullmatch(q.text)
        and (q.is_year or not any(a <= q.start < b for a, b in inside))
        and not any(m.start() <= q.start < m.end() for m in AGE.finditer(question))
        and not (group and group.start <= q.start < group.end)
    ]
    return (
        *(Value(q.text, near=_neighbours(question, q), number=q) for q in numbers),
        *(Value(d.text, date=d) for d in dates),
        *(Value(m.group(), weekday=WEEKDAYS.index(as_matched(m[1]))) for m in _WEEKDAY.finditer(question)),
        *(Value(c, code=_folded(c)) for c in (*codes, *_names_of(question))),
        *(Value(named, group=age) for age in (group.ages if group else ())),
    )


def holds(value: Value, text: str) -> bool:
    """Return whether a text names the value, in any of the usual spellings, or a range of years or days around it."""
    if value.number is not None:
        return _holds_number(value, value.number, text)
    if value.date is not None:
        return any(same_date(value.date, d) for d in dates_of(text)) or any(
            p.holds(value.date) for p in periods_of(text)
        )
    if value.weekday is not None:
        return value.weekday in weekdays_of(text) or is_every_day(text)
    if value.group is not None:
        return value.group in (named := groups_named(text, limits=True)) or (not named and names_age(value.group, text))
    if call := _CALL.fullmatch(value.text):
        return call.groups() in _CALL.findall(text)
    if _GRADE.fullmatch(value.text):
        return value.text in _GRADE.findall(text)
    if series := _SERIES.fullmatch(value.text):
        return re.search(rf"(?:(?<![\w.])|(?<=\bv)){re.escape(series[1])}(?![\d-])", text) is not None
    if of_class := _CLASS.fullmatch(value.text):
        return re.search(rf"\b{of_class[2]}\b", text) is not None or any(
            of_class[2][:-1] == number and first <= of_class[2][-1] <= last
            for number, first, last in _LETTERS_TO.findall(text)
        )
    if of_version := _MAJOR.fullmatch(value.text):
        return of_version[1] in _MAJOR.findall(text)
    return value.code in _folded(text)


def gives_another(value: Value, text: str) -> bool:
    """Return whether a text does not name the value, but another of its kind.

    That is another year, month or weekday; a number beside the same word; a code of the same shape.

    >>> (port,) = values_of("What is port 9090 for?")
    >>> gives_another(port, "Port 8080 serves the web interface."), gives_another(port, "It has 2 doors.")
    (True, False)
    >>> [gives_another(values_of(asked)[0], "Under GPL V3.") for asked in ("Is version 2 fine?", "Is v3 fine?")]
    [True, False]
    """
    if value.number is not None and _numbers_another(value, value.number, text):
        return True
    if holds(value, text):
        return False
    if value.number is not None:
        number = value.number
        if number.is_year:
            return any(q.is_year and not q.last for q in quantities_of(text))
        if _VERSION.search(text) and "." in value.text and not number.unit:
            return True
        if _OF_VERSION.intersection(value.near[:1]) and _MAJOR.search(text):
            return True
        return any(_is_next_to(value, text, q) for q in quantities_of(text))
    if value.date is not None:
        return any(d.month for d in dates_of(text))
    if value.weekday is not None:
        return bool(weekdays_of(text))
    if value.group is not None:
        return bool(groups_named(text))
    if call := _CALL.fullmatch(value.text):
        return any(path == call[2] for _, path in _CALL.findall(text))
    if _GRADE.fullmatch(value.text):
        return _ANY_GRADE.search(text) is not None
    if _SERIES.fullmatch(value.text):
        return _SERIES.search(text) is not None
    if of_class := _CLASS.fullmatch(value.text):
        return any(stem(kind.lower()) == stem(of_class[1].lower()) for kind, _ in _CLASS.findall(text))
    if path := _PATH.fullmatch(value.text) or _FILE.fullmatch(value.text):
        others = path.re.finditer(text)
        return any(m.groups() == path.groups() for m in others)
    if _MAJOR.fullmatch(value.text):
        return _MAJOR.search(text) is not None
    shape = code_shape(value.text)
    return any(code_shape(c) == shape for c in find_codes(text))


def _numbers_another(value: Value, number: Quantity, text: str) -> bool:
    """Return whether a text has the word before a number with other numbers only: "Quiz 10, 12/1" for quiz 12."""
    if not value.near[0] or number.unit or number.ordinal or number.is_year:
        return False
    beside = [q for q in quantities_of(text) if _neighbours(text, q)[0] == value.near[0]]
    return bool(beside) and not any(same_quantity(number, q) for q in beside) and not _is_counted(value, text)


def _is_counted(value: Value, text: str) -> bool:
    """Return whether a number is in a range or a list behind its word: year 5 in "Years 3 to 6" and "Years 3, 5 and 7".

    With a hyphen only behind a plural: "Figure 3-6" is one figure. "From version 3 to 6" is about both ends.
    """
    number = value.number
    if number is None or not value.near[0] or value.near[0] in _OF_VERSION or len(number.values) != 1:
        return False
    if number.unit or number.ordinal or number.is_year:
        return False
    (wanted,) = number.values
    for word, run in _COUNTED.findall(text):
        if value.near[0] not in _words(word).stem or ("-" in run and not word.endswith("s")):
            continue
        if wanted in map(float, _DIGITS.findall(run)):
            return True
        if any(float(first) <= wanted <= float(last) for first, last in _NUMBERS_TO.findall(run)):
            return True
    return False


def absent_values(values: Iterable[Value], texts: Sequence[str]) -> list[Value]:
    """Return the values that none of the texts holds; ordinals are left out, which are often paraphrased."""
    exact = [v for v in values if v.number is None or not v.number.ordinal]
    return [v for v in exact if not any(holds(v, text) for text in texts)]


def lack_number(values: Iterable[Value], texts: Sequence[str]) -> set[int]:
    """Return which texts lack a number behind its word ("report 7"), or a group by its age, that another one has.

    >>> sorted(lack_number(values_of("When is report 7 due?"), ["Report 7: 4 May", "No time is set.", "Report 6"]))
    [1, 2]
    """
    lacking: set[int] = set()
    for value in values:
        if value.group is not None:
            named = [value.group in groups_named(text, limits=True) for text in texts]
            lacking |= {i for i, holds_it in enumerate(named) if any(named) and not holds_it}
        number, word = value.number, value.near[0]
        if number is None or not word or number.unit or number.ordinal or number.is_year:
            continue
        held = [
            any(same_quantity(number, q) and _neighbours(text, q)[0] == word for q in quantities_of(text))
            or _is_counted(value, text)
            for text in texts
        ]
        lacking |= {i for i, holds_it in enumerate(held) if any(held) and not holds_it}
    return lacking


def any_another(values: Iterable[Value], quote: str, above: str) -> bool:
    """Return whether a quote gives another value instead of one of these, which title and headings do not name."""
    return any(
        (
            gives_another(v, quote)
            or _of_another_release(v, quote, above)
            or _of_another_day(v, quote, above)
            or (v.group is not None and not holds(v, quote) and gives_another(v, above))
        )
        and not _heads(v, above)
        for v in values
    )


def _heads(value: Value, above: str) -> bool:
    """Return whether title and headings name a value; a month alone does not name one of its days."""
    if value.date is not None and value.date.day:
        return any(d.day and same_date(value.date, d) for d in dates_of(above))
    return holds(value, above)


def of_another_year(values: Iterable[Value], quote: str, above: str) -> bool:
    """Return whether a quote gives another year than is asked about, and so do title and headings: another edition.

    >>> fees = values_of("What is the fee for 2025?")
    >>> [of_another_year(fees, "From 1 March 2024 it is €4.", above) for above in ("Fees 2024", "Fees 2025", "Fees")]
    [True, False, False]
    """
    years = [v for v in values if v.number is not None and v.number.is_year]
    return any(gives_another(v, quote) and gives_another(v, above) for v in years)


def _of_another_release(value: Value, quote: str, above: str) -> bool:
    """Return whether a value is a version, and the headings name another one, as in a list of changes."""
    number = value.number
    if number is None or number.unit or "." not in value.text or holds(value, quote):
        return False
    return bool(_VERSION.search(above) or _DATED_VERSION.search(above))


def _of_another_day(value: Value, quote: str, above: str) -> bool:
    """Return whether the innermost heading is nothing but another day than the value, as in a programme."""
    heading = "".join(above.splitlines()[1:2]).rpartition(" > ")[2]  # of the section, which is the second line
    if value.weekday is None or not weekdays_of(heading) or holds(value, f"{heading}\n{quote}"):
        return False
    return not _DAY_WORDS.sub(" ", heading).strip(" ,.:;–—-()")


def gives_date(question: str, heading: str) -> bool:
    """Return whether a heading dates a version that a question asks the date of, as those of changelogs do.

    >>> gives_date("When was 2.3.0 released?", "## [2.3.0] - 2024-05-14"), gives_date("When?", "## Minutes, 4 May 2024")
    (True, False)
    """
    if not _ASKS_WHEN.search(question) or not any(d.day and d.year for d in dates_of(heading)):
        return False
    versions = [re.escape(v.text) for v in values_of(question) if v.number is not None and "." in v.text]
    return any(re.search(rf"(?<![\d.]){version}(?!\.?\d)", heading) for version in versions)


def _names_of(text: str) -> list[str]:
    """Return the calls, classes and paths, and the names of files and variables, of a text."""
    calls = [m.group() for m in (*_CALL.finditer(text), *_CLASS.finditer(text), *_GRADE.finditer(text))]
    return [*calls, *_PATH.findall(text), *(m.group() for m in _FILE.finditer(text)), *find_variables(text)]


def _holds_number(value: Value, number: Quantity, text: str) -> bool:
    if _is_counted(value, text):
        return True
    for q in quantities_of(text):
        # "the third floor" is floor 3, but not "3 on the ground floor"
        if same_quantity(number, q) and (not number.ordinal or q.ordinal or _is_next_to(value, text, q)):
            return True
    if number.is_year:
        (year,) = number.values if len(number.values) == 1 else (0.0,)
        for first, last in _YEAR_RANGE.findall(text):
            if int(first) <= year <= int(last if len(last) == 4 else first[:2] + last):
                return True
    if any(number.values == {float(roman(m))} for m in _ROMAN.findall(text) if m):
        return True
    digits = re.sub(r"[^\d.]", "", number.text)
    return bool(digits) and bool(re.search(rf"(?<![\d.]){re.escape(digits)}(?!\d)", text.replace(",", "")))


def _is_next_to(value: Value, text: str, number: Quantity) -> bool:
    """Whether a number of ``text`` is next to the same word: on the same side, but "third floor" is "floor 3"."""
    near = _neighbours(text, number)
    if value.number is not None and value.number.ordinal:
        return any(a in near for a in value.near if a)
    return any(a and a == b for a, b in zip(value.near, near, strict=True))


def _neighbours(text: str, number: Quantity) -> tuple[int, int]:
    """Return the codes of the stems of the words beside a number; 0 where there is none, or one without content."""
    found = _words(text)
    before = int(np.searchsorted(found.starts, number.start)) - 1
    after = int(np.searchsorted(found.starts, number.start + len(number.text)))
    one, other = (int(found.stem[i]) if 0 <= i < len(found) and not found.stop[i] else 0 for i in (before, after))
    return one, other


@lru_cache(maxsize=16)
def _words(text: str) -> Words:
    """Split a text once, however many numbers it has."""
    return words_of(text, _NO_RARITIES)


def _folded(text: str) -> str:
    return re.sub(r"(?<=\d)s\b", "", re.sub(r"[-‐–\s]", "", text.casefold()))


_OF_VERSION = {int(word) for word in _words("version release").stem}
