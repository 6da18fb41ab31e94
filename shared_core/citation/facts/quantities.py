"""Numbers and units of a text, in a form in which two ways to write the same are equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from shared_core.citation.facts.tokens import as_matched, fold
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex


class Unit(NamedTuple):
    """A unit: a value in it is ``value * factor + offset`` in the base unit of its dimension.

    >>> UNITS["km"].base(3)
    3000.0
    """

    dimension: str
    factor: float
    offset: float = 0.0

    def base(self, value: float) -> float:
        """Convert to the base unit of the dimension."""
        return value * self.factor + self.offset


def _values(rows: str) -> dict[str, float]:
    """Map each word of rows such as "1000 thousand mil" to its row's value."""
    return {word: float(value) for value, *words in map(str.split, rows.splitlines()) for word in words}


_LISTS = read_lists("shared_core.citation.facts", "quantities.txt")
_SMALL, _ORDINAL, _FOREIGN, _SCALE = (_values(_LISTS.pop(name)) for name in ("small", "ordinals", "foreign", "scale"))
_ABOUT, _ABOVE, _BELOW, _LESS = (frozenset(_LISTS.pop(name).split()) for name in ("about", "above", "below", "less"))
UNITS = {name: Unit(kind, factor) for kind, rows in _LISTS.items() for name, factor in _values(rows).items()} | {
    "°c": Unit("temperature", 1.0), "celsius": Unit("temperature", 1.0),
    "°f": Unit("temperature", 5 / 9, -160 / 9), "fahrenheit": Unit("temperature", 5 / 9, -160 / 9),
    "kelvin": Unit("temperature", 1.0, -273.15),
}  # fmt: skip
"""Units by their names and symbols, folded."""

_PARTS = {"half": 50.0, "third": 100 / 3, "quarter": 25.0, "fifth": 20.0, "tenth": 10.0}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}

_AMBIGUOUS = {"m": 1e6, "k": 1e3}  # "$3m" is money, "3 m" a length

_NUMBER = lazy_regex(
    r"(?P<sign>(?<![\w\d])[-−])?(?P<money>[$€£¥]\s?)?"
    r"(?P<digits>\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*|\d+)(?P<ordinal>(?:st|nd|rd|th)\b)?"
)
_BEHIND = UNITS.keys() | _SCALE.keys() | _AMBIGUOUS.keys()
_WORDS = lazy_regex(r"[^\W\d_]+")
_NEXT_UNIT = lazy_regex(r"\s?-?\s?(km/h|[°º]\s?[CF]\b|[%$€£¥]|[^\W\d_]+[²2]?|[万亿億萬])")
_KIND_OF_DAY = lazy_regex(r"\s(?:working|business|calendar|consecutive)(?=\s(?:day|hour|week)s?\b)", re.IGNORECASE)
_DEGREES = lazy_regex(r"(?<=\d\d)[CF]\b")  # "180C"; "4C" may be a name
_BOUND_BEHIND = lazy_regex(
    r"\s?(?:[^\W\d_]+\s)?(?:or|and)\s(?:(more|above|over|higher|longer|older|later|upwards)"
    r"|less|fewer|below|under|lower|shorter|younger|earlier)\b(?!\s[^\W\d_]*\s?\d)"
)
_POINTS = lazy_regex(r"\s?(?:percentage|percent|per cent|%)[\s-]points?\b|\s?pp\b", re.IGNORECASE)
_ENGLISH = lazy_regex(r"\b(?:the|of|and|to|not|for|with|by|are|were|has|have|its)\b", re.IGNORECASE)
_DECADE = lazy_regex(r"(?<![\w.,])(\d{3}0)['’]?s\b")
_CENTURIES = "|".join(word for word, number in _ORDINAL.items() if number <= 20)
_CENTURY = lazy_regex(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th|\.)|({_CENTURIES}|twenty-first))[\s-](?:centur|jahrhundert)", re.IGNORECASE
)
_CLOCK = lazy_regex(
    r"(?<![\d:.,])(\d{1,2})(?:[:.]([0-5]\d))?\s?([ap])\.?m\b\.?|(?<![\d:.,])([01]?\d|2[0-3]):([0-5]\d)(?![:\d])"
    r"|\b(noon|midday|midnight)\b",
    re.IGNORECASE,
)
_FRACTION = lazy_regex(
    rf"\b(?:(a|one|two|three|four)[\s-])?({'|'.join(_PARTS)})(s?)\b(?=\s+(?:of|the)\b|\W*$|[.,;])", re.IGNORECASE
)
_OF_UNIT = lazy_regex(
    r"\b(?:(three)[\s-]quarters of|(?:a\s)?(quarter) of|half)[\s-]an?\s([^\W\d_]+)"
    rf"|\b(an?|\d+|{'|'.join(_SMALL)})(?:\s([^\W\d_]+))? and a half\b",
    re.IGNORECASE,
)
_HALF_OF_GAME = lazy_regex(r"\b(?:first|second|1st|2nd|last|latter|other) \Z", re.IGNORECASE)
_SHORT_YEAR = lazy_regex(r"(?<!\d)(1\d|20)(\d\d)\s?[-–/]\s?$")
_NUMERAL = lazy_regex(r"\b(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})(?<=[IVX]{2})\b")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a text.

    Attributes:
        values: what it may mean ("1.067" is 1067 or 1.067), in its own unit.
        unit: as in the table of units; empty where none follows.
        ordinal: "3rd", "third".
        hedge: "about", "above", "below" as the words before it say, else empty.
        digits: significant digits written.
        last: last year of a decade or century, whose first year is the value; else 0.
    """

    text: str
    start: int
    end: int
    values: frozenset[float]
    unit: str = ""
    ordinal: bool = False
    hedge: str = ""
    digits: int = 1
    last: float = 0.0

    @property
    def dimension(self) -> str:
        """The kind of unit; empty for a bare number."""
        return UNITS[self.unit].dimension if self.unit else ""

    @property
    def is_year(self) -> bool:
        """May be a year: four digits without unit, or a decade or century."""
        if self.last:
            return True
        written = len(self.text) == 4 or not self.text[:1].isdigit()
        return not self.unit and written and any(1000 <= v <= 2100 for v in self.values)


def _of_match(match: re.Match[str], *values: float, **more: Any) -> Quantity:
    return Quantity(match.group(), match.start(), match.end(), frozenset(values), **more)


@lru_cache(maxsize=512)
def quantities_of(text: str) -> tuple[Quantity, ...]:
    """All numbers of a text, written in digits or in English words, in order."""
    first = [*_periods(text), *_fractions(text), *_clock_times(text)]
    found = [*_in_digits(text), *_in_words(text), *_numerals(text)]
    found = first + [q for q in found if not any(q.start < p.end and p.start < q.end for p in first)]
    return tuple(sorted(found, key=lambda q: q.start))


def measured(text: str) -> set[int]:
    """Places in a text that its numbers and their units take."""
    return {i for q in quantities_of(text) for i in range(q.start, q.end)}


def _periods(text: str) -> list[Quantity]:
    """Decades and centuries."""
    found = []
    for match in _DECADE.finditer(text):
        first = float(match[1])
        found.append(_of_match(match, first, last=first + (9 if first % 100 else 100)))
    for match in _CENTURY.finditer(text):
        number = float(match[1]) if match[1] else _ORDINAL.get(match[2].lower(), 21.0)
        first = 100 * (number - 1)
        found.append(_of_match(match, first, last=first + 100))
    return found


def _clock_times(text: str) -> list[Quantity]:
    """Times of day, in minutes: "10 am", "5.30 p.m.", "17:00", "noon"; "9:00" may be in the evening."""
    found = []
    for match in _CLOCK.finditer(text):
        if match[6]:
            values = {0.0, 1440.0} if match[6].lower() == "midnight" else {720.0}
        elif match[3]:
            values = {60.0 * (int(match[1]) % 12 + 12 * (match[3].lower() == "p")) + int(match[2] or 0)}
        else:
            minutes = 60.0 * int(match[4]) + int(match[5])
            values = {minutes, minutes + 720} if 0 < int(match[4]) < 12 else {minutes}
        found.append(_of_match(match, *values, unit="o'clock", digits=4))
    return found


def _halves(text: str) -> list[Quantity]:
    """Parts of a unit, and halves behind a number: "half an hour", "half a million", "two and a half years"."""
    found = []
    for match in _OF_UNIT.finditer(text):
        share = 0.75 if match[1] else 0.25 if match[2] else 0.5
        word, end = fold(match[3] or match[5] or ""), match.end()
        if match[4]:
            article = match[4].lower() in ("a", "an")
            share += 1.0 if article else float(match[4]) if match[4].isdigit() else _SMALL.get(match[4].lower(), -1.0)
            if share < 1 or (article and not word):
                continue
        unit, scale = (word, 1.0) if word in UNITS else ("", _SCALE.get(word, _SMALL.get(word, 0.0)))
        if not word:
            unit, scale, end = _unit_after(text, match.end(), False)
        if scale and len(unit) != 1:
            hedge = _hedge(text, match.start(), end)
            written = text[match.start() : end]
            value = frozenset({share * scale})
            found.append(Quantity(written, match.start(), end, value, unit, hedge=hedge, digits=2))
    return found


def _fractions(text: str) -> list[Quantity]:
    """Parts of a whole: "a third of", "two fifths"; their values are below 1."""
    found = _halves(text)
    for match in _FRACTION.finditer(text):
        part = as_matched(match[2])
        if any(q.start <= match.start() < q.end for q in found):
            continue
        if match[1] is None and (part != "half" or _HALF_OF_GAME.search(text[: match.start()])):
            continue  # "the third of May", "in the first half"
        share = _PARTS[part] / 100 * {"two": 2, "three": 3, "four": 4}.get((match[1] or "").lower(), 1)
        found.append(_of_match(match, share, hedge=_hedge(text, match.start(), match.end())))
    return found


def _numerals(text: str) -> list[Quantity]:
    """Roman numerals of two letters or more."""
    return [_of_match(match, float(roman(match.group()))) for match in _NUMERAL.finditer(text)]


def roman(numeral: str) -> int:
    """Return the value of a Roman numeral.

    >>> roman("XLIV")
    44
    """
    digits = [_ROMAN[c] for c in numeral]
    return sum(-digit if digit < after else digit for digit, after in zip(digits, [*digits[1:], 0], strict=True))


def _in_digits(text: str) -> list[Quantity]:
    found = []
    for match in _NUMBER.finditer(text):
        before = "" if match["money"] else text[match.start() - 1 : match.start()]
        joined = _is_letter(text[match.end() : match.end() + 1]) and not match["ordinal"]
        if _is_letter(before) or joined:
            tail = _NEXT_UNIT.match(text, match.end())
            unit_behind = tail is not None and fold(tail[1].replace("º", "°")) in _BEHIND
            if _is_letter(before) or not (unit_behind or _DEGREES.match(text, match.end())):
                continue  # part of a name: B52, 3M
        values = _readings(match["digits"])
        if match["sign"]:
            values |= {-v for v in values}  # a dash may be a hyphen
        if len(match["digits"]) == 2 and (year := _SHORT_YEAR.search(text, 0, match.start("digits"))):
            values |= {float(year[1] + match["digits"])}  # 1990–95
        unit, scale, end = _unit_after(text, match.end(), bool(match["money"]))
        unit = match["money"].strip() if match["money"] else unit
        digits = len(re.sub(r"\D", "", match["digits"]).strip("0")) or 1
        found.append(
            Quantity(
                text[match.start("digits") : match.end("digits")], match.start(), end,
                frozenset(v * scale for v in values), unit, bool(match["ordinal"]),
                _hedge(text, match.start(), end), digits,
            )
        )  # fmt: skip
    return found


def _is_letter(char: str) -> bool:
    """Whether a letter of a script that puts spaces between words."""
    return char.isalpha() and ord(char) < 0x2E80


def _readings(digits: str) -> set[float]:
    """Values that the digits may mean, whatever the language's separators are."""
    plain = re.sub(r"['’\u00a0\u202f ]", "", digits)
    parts = re.split(r"[.,]", plain)
    if len(parts) == 1:
        return {float(plain)}
    values: set[float] = set()
    if all(len(p) == 3 for p in parts[1:]) and len(parts[0]) <= 3:
        values.add(float("".join(parts)))
    if len(parts) == 2:
        values.add(float(f"{parts[0]}.{parts[1]}"))
    elif len({*re.findall(r"[.,]", plain)}) == 2 and all(len(p) == 3 for p in parts[1:-1]):
        values.add(float("".join(parts[:-1]) + "." + parts[-1]))
    return values or {float("".join(parts))}


def _unit_after(text: str, at: int, money: bool) -> tuple[str, float, int]:
    """Unit and scale behind a number, and where they end."""
    scale, end = 1.0, at
    if points := _POINTS.match(text, at):
        return "points", scale, points.end()
    if degrees := _DEGREES.match(text, at):
        return f"°{degrees.group().lower()}", scale, degrees.end()
    if kind := _KIND_OF_DAY.match(text, at):
        end = kind.end()
    for _ in range(2):
        match = _NEXT_UNIT.match(text, end)
        if match is None:
            break
        word = fold(match[1].replace("º", "°")).replace(" ", "")
        if money and word in _AMBIGUOUS:
            scale, end = scale * _AMBIGUOUS[word], match.end()
        elif word in _SCALE and word not in UNITS:
            scale, end = scale * _SCALE[word], match.end()
        else:
            square = re.match(r"\s?square\s([^\W\d_]+)", text[end:], re.IGNORECASE)
            if square and f"{_symbol(square[1])}2" in UNITS:
                return f"{_symbol(square[1])}2", scale, end + square.end()
            letter = len(word) == 1 and not (match[1].islower() or word == "%")
            if word in UNITS and not letter:
                return word, scale, match.end()
            break
    return "", scale, end


def _symbol(word: str) -> str:
    unit = UNITS.get(fold(word))
    return {1.0: "m", 1e3: "km"}.get(unit.factor, "") if unit and unit.dimension == "length" else ""


def _hedge(text: str, start: int, end: int) -> str:
    """Whether the words around say "about", "more than", "less than", "or more", "or less"."""
    if behind := _BOUND_BEHIND.match(text, end):
        return "above" if behind[1] else "below"
    before = [fold(w) for w in _WORDS.findall(text[max(0, start - 30) : start])]
    before = (before[:-1] if before[-1:] in (["a"], ["the"]) else before)[-3:]
    if "than" in before[-1:] and len(before) > 1:
        more = before[-2] not in _LESS
        return "above" if more != (before[0] in ("no", "not")) else "below"
    last = before[-2:]
    if last == ["up", "to"]:
        return "below"
    if any(w in _ABOUT for w in last) or "~" in text[max(0, start - 2) : start]:
        return "about"
    if any(w in _ABOVE for w in last):
        return "above"
    return "below" if any(w in _BELOW for w in last) else ""


def _in_words(text: str) -> list[Quantity]:
    """Numbers written as English words: "twenty-five thousand", "third"."""
    found: list[Quantity] = []
    english = bool(_ENGLISH.search(text))
    words = [(m.group().lower(), m.start(), m.end()) for m in _WORDS.finditer(text)]
    i = 0
    while i < len(words):
        word, start, end = words[i]
        following = i + 1
        unit, hedge, ordinal = "", "", word in _ORDINAL
        tens, ones = _SMALL.get(word, 0.0), _ORDINAL.get(words[i + 1][0], 0.0) if i + 1 < len(words) else 0.0
        if ordinal:
            value = _ORDINAL[word]
            unit, _, _ = _unit_after(text, end, False)
        elif tens >= 20 and 0 < ones < 10:  # "forty-fourth"
            value, ordinal, end, following = tens + ones, True, words[i + 1][2], i + 2
        elif not english and word not in _SMALL and fold(word) in _FOREIGN:
            unit, scale, end = _unit_after(text, end, False)
            value = _FOREIGN[fold(word)] * scale
        elif word in _SMALL or (word in _SCALES and _lone_scale(text, start)):
            following, value, end = _spelled(words, text, i)
            unit, scale, end = _unit_after(text, end, False)
            value, hedge = value * scale, _hedge(text, start, end)
        else:
            i = following
            continue
        found.append(Quantity(text[start:end], start, end, frozenset({value}), unit, ordinal, hedge))
        i = following
    return found


_SCALES = ("hundred", "thousand", "million", "billion")


def _lone_scale(text: str, start: int) -> bool:
    """Whether "hundred", "million" … begin at ``start`` by themselves ("a hundred"), not behind digits."""
    return not re.search(r"\d\s?-?\s?$", text[max(0, start - 4) : start])


def _spelled(words: Sequence[tuple[str, int, int]], text: str, i: int) -> tuple[int, float, int]:
    """The number that begins at word ``i``: the word behind it, its value, its end."""
    total, group, end = 0.0, 0.0, words[i][2]
    while i < len(words):
        word, start, stop = words[i]
        joined = text[end:start].strip(" -\u2010\u2011") == "" or start < end
        if word == "and" and group and i + 1 < len(words) and words[i + 1][0] in _SMALL and total + group >= 100:
            i, end = i + 1, stop
            continue
        if not joined or (word not in _SMALL and word not in _SCALES):
            break
        if word == "hundred":
            group = (group or 1) * 100
        elif word in _SMALL:
            if not total and 10 <= group < 21 and _SMALL[word] >= 10:
                group *= 100  # "eighteen seventy-two" is a year
            if group % 100 and not (group % 100 >= 20 and group % 10 == 0 and _SMALL[word] < 10):
                break  # "two three" are two numbers
            group += _SMALL[word]
        else:
            total, group = total + (group or 1) * _SCALE[word], 0.0
        i, end = i + 1, stop
    return i, total + group, end
