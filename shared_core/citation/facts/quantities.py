"""Numbers and units of a text, in a form in which two ways to write the same are equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from shared_core.citation.facts.tokens import fold


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


_TABLE = {
    "length": {
        0.001: "mm millimetre millimetres millimeter millimeters",
        0.01: "cm centimetre centimetres centimeter centimeters",
        1.0: "m metre metres meter meters",
        1000.0: "km kilometre kilometres kilometer kilometers kilometro kilometros chilometri",
        0.0254: "inch inches",
        0.3048: "ft foot feet",
        0.9144: "yd yard yards",
        1609.344: "mi mile miles",
        1852.0: "nmi",
        1.8288: "fathom fathoms",
    },
    "mass": {
        1e-06: "mg milligram milligrams",
        0.001: "g gram grams gramme grammes",
        1.0: "kg kilo kilos kilogram kilograms kilogramme kilogrammes",
        1000.0: "tonne tonnes",
        907.18: "ton tons",
        0.45359: "lb lbs pound pounds",
        0.02835: "oz ounce ounces",
    },
    "time": {
        0.001: "ms millisecond milliseconds",
        1.0: "s sec secs second seconds sekunde sekunden segundo segundos",
        60.0: "min mins minute minutes minuten minuto minutos minuti",
        3600.0: "h hr hrs hour hours stunde stunden heure heures hora horas ore",
        86400.0: "day days tag tage tagen jour jours dia dias giorno giorni",
        604800.0: "week weeks woche wochen semaine semaines semana semanas",
        2629800.0: "month months monat monate monaten mois mes meses mese mesi",
        31557600.0: "year years jahr jahre jahren an ans ano anos anni",
        315576000.0: "decade decades",
        3155760000.0: "century centuries jahrhundert jahrhunderte siecle siecles siglo siglos",
    },
    "area": {
        1.0: "m2 m² sqm",
        10000.0: "ha hectare hectares",
        1000000.0: "km2 km²",
        4046.86: "acre acres",
    },
    "volume": {
        1.0: "l litre litres liter liters",
        0.001: "ml millilitre millilitres milliliter milliliters",
        3.7854: "gallon gallons",
    },
    "speed": {
        1 / 3.6: "km/h kph",
        0.44704: "mph",
        0.514444: "knot knots kn",
    },
    "percent": {
        1.0: "% percent percentage prozent pct",
    },
    "points": {
        1.0: "pp point points",
    },
    "clock": {
        1.0: "o'clock",
    },
    "dollar": {
        1.0: "$ usd dollar dollars",
    },
    "euro": {
        1.0: "€ eur euro euros",
    },
    "sterling": {
        1.0: "£ gbp",
    },
    "yen": {
        1.0: "¥ jpy yen",
    },
    "power": {
        1.0: "w watt watts",
        1000.0: "kw kilowatt kilowatts",
        1000000.0: "mw megawatt megawatts",
    },
    "data": {
        1.0: "byte bytes",
        1000.0: "kb kilobyte kilobytes kib",
        1000000.0: "mb megabyte megabytes mib",
        1000000000.0: "gb gigabyte gigabytes gib",
    },
}
UNITS = {
    name: Unit(dimension, factor)
    for dimension, rows in _TABLE.items()
    for factor, names in rows.items()
    for name in names.split()
} | {
    "°c": Unit("temperature", 1.0), "celsius": Unit("temperature", 1.0),
    "°f": Unit("temperature", 5 / 9, -160 / 9), "fahrenheit": Unit("temperature", 5 / 9, -160 / 9),
    "kelvin": Unit("temperature", 1.0, -273.15),
}  # fmt: skip
"""Units by their names and symbols, folded."""

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_SMALL: dict[str, float] = {w: i for i, w in enumerate(_ONES)}
_SMALL |= {w: 10.0 * (i + 2) for i, w in enumerate(_TENS)}
_SMALL |= {"half": 0.5, "dozen": 12, "couple": 2, "once": 1, "twice": 2, "thrice": 3, "double": 2, "triple": 3}
_FOREIGN: dict[str, float] = {
    word: value
    for value, words in {
        2: "zwei deux dos due dois twee", 3: "drei trois tres tre drie", 4: "vier quatre cuatro quattro quatro",
        5: "funf cinq cinco cinque vijf", 6: "sechs six seis sei zes", 7: "sieben sept siete sette sete zeven",
        8: "acht huit ocho otto oito", 9: "neun neuf nueve nove negen", 10: "zehn dix diez dieci dez tien",
        11: "elf onze undici", 12: "zwolf douze doce dodici doze twaalf", 20: "zwanzig vingt veinte venti vinte",
        100: "hundert cien cento honderd",
    }.items()
    for word in words.split()
}  # fmt: skip
_PARTS = {"half": 50.0, "third": 100 / 3, "quarter": 25.0, "fifth": 20.0, "tenth": 10.0}
_ROMAN = {"I": 1, "V": 5, "X": 10}
_ORDINAL = {w: i + 1.0 for i, w in enumerate(_ORDINALS)} | {"thirtieth": 30.0}
_SCALE = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "k": 1e3, "m": 1e6, "bn": 1e9,
    "mn": 1e6, "millionen": 1e6, "milliarden": 1e9, "millions": 1e6, "milliards": 1e9, "millones": 1e6, "tausend": 1e3,
    "mille": 1e3, "mil": 1e3, "milioni": 1e6, "miliardi": 1e9, "lakh": 1e5, "crore": 1e7, "thousands": 1e3,
    "dozens": 12.0, "万": 1e4, "亿": 1e8, "億": 1e8, "萬": 1e4,
}  # fmt: skip

_AMBIGUOUS = {"m": 1e6, "k": 1e3}  # "$3m" is money, "3 m" a length

_NUMBER = re.compile(
    r"(?P<sign>(?<![\w\d])[-−])?(?P<money>[$€£¥]\s?)?"
    r"(?P<digits>\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*|\d+)(?P<ordinal>(?:st|nd|rd|th)\b)?"
)
_BEHIND = UNITS.keys() | _SCALE.keys() | _AMBIGUOUS.keys()
_WORDS = re.compile(r"[^\W\d_]+")
_NEXT_UNIT = re.compile(r"\s?-?\s?(km/h|°\s?[CF]\b|[%$€£¥]|[^\W\d_]+[²2]?|[万亿億萬])")
_ABOUT = frozenset(
    "about around approximately roughly nearly almost circa ca some approx etwa rund ungefahr environ circa casi unos "
    "quase cerca fast knapp".split()
)
_ABOVE = frozenset("over exceeding above exceeds exceeded least minimum uber plus mas oltre".split())
_BELOW = frozenset("under below most maximum unter moins menos meno".split())
_LESS = frozenset(
    "less fewer lower smaller shorter younger earlier lighter slower narrower thinner cooler colder weaker cheaper "
    "rather other".split()
)
_BOUND_BEHIND = re.compile(
    r"\s?(?:[^\W\d_]+\s)?(?:or|and)\s(?:(more|above|over|higher|longer|older|later|upwards)"
    r"|less|fewer|below|under|lower|shorter|younger|earlier)\b(?!\s[^\W\d_]*\s?\d)"
)
_POINTS = re.compile(r"\s?(?:percentage|percent|per cent|%)[\s-]points?\b|\s?pp\b", re.IGNORECASE)
_ENGLISH = re.compile(r"\b(?:the|of|and|to|not|for|with|by|are|were|has|have|its)\b", re.IGNORECASE)
_DECADE = re.compile(r"(?<![\w.,])(\d{3}0)['’]?s\b")
_CENTURY = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th|\.)|({'|'.join(_ORDINALS)}|twenty-first))[\s-](?:centur|jahrhundert)",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?<![\d:.,])(\d{1,2})(?:[:.]([0-5]\d))?\s?([ap])\.?m\b\.?|(?<![\d:.,])([01]?\d|2[0-3]):([0-5]\d)(?![:\d])"
    r"|\b(noon|midday|midnight)\b",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    rf"\b(?:(a|one|two|three|four)[\s-])?({'|'.join(_PARTS)})(s?)\b(?=\s+(?:of|the)\b|\W*$|[.,;])", re.IGNORECASE
)
_SHORT_YEAR = re.compile(r"(?<!\d)(1\d|20)(\d\d)\s?[-–/]\s?$")
_NUMERAL = re.compile(r"\b(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})(?<=[IVX]{2})\b")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a text.

    Attributes:
        text: as written.
        start, end: place in the text.
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


@lru_cache(maxsize=512)
def quantities_of(text: str) -> tuple[Quantity, ...]:
    """All numbers of a text, written in digits or in English words, in order."""
    first = [*_periods(text), *_fractions(text), *_clock_times(text)]
    found = [*_in_digits(text), *_in_words(text), *_numerals(text)]
    found = first + [q for q in found if not any(q.start < p.end and p.start < q.end for p in first)]
    return tuple(sorted(found, key=lambda q: q.start))


def _periods(text: str) -> list[Quantity]:
    """Decades and centuries."""
    found = []
    for match in _DECADE.finditer(text):
        first = float(match[1])
        found.append(
            Quantity(
                match.group(), match.start(), match.end(), frozenset({first}), last=first + (9 if first % 100 else 100)
            )
        )
    for match in _CENTURY.finditer(text):
        number = float(match[1]) if match[1] else _ORDINAL.get(match[2].lower(), 21.0)
        first = 100 * (number - 1)
        found.append(Quantity(match.group(), match.start(), match.end(), frozenset({first}), last=first + 100))
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
        found.append(Quantity(match.group(), match.start(), match.end(), frozenset(values), "o'clock", digits=4))
    return found


def _fractions(text: str) -> list[Quantity]:
    """Parts of a whole: "a third of", "two fifths"; their values are below 1."""
    found = []
    for match in _FRACTION.finditer(text):
        part = match[2].lower()
        if match[1] is None and part != "half":
            continue  # "the third of May"
        share = _PARTS[part] / 100 * {"two": 2, "three": 3, "four": 4}.get((match[1] or "").lower(), 1)
        found.append(
            Quantity(
                match.group(),
                match.start(),
                match.end(),
                frozenset({share}),
                hedge=_hedge(text, match.start(), match.end()),
            )
        )
    return found


def _numerals(text: str) -> list[Quantity]:
    """Roman numerals of two letters or more."""
    found = []
    for match in _NUMERAL.finditer(text):
        digits = [_ROMAN[c] for c in match.group()]
        value = sum(-d if d < after else d for d, after in zip(digits, [*digits[1:], 0], strict=True))
        found.append(Quantity(match.group(), match.start(), match.end(), frozenset({float(value)})))
    return found


def _in_digits(text: str) -> list[Quantity]:
    found = []
    for match in _NUMBER.finditer(text):
        before = "" if match["money"] else text[match.start() - 1 : match.start()]
        joined = _is_letter(text[match.end() : match.end() + 1]) and not match["ordinal"]
        if _is_letter(before) or joined:
            tail = _NEXT_UNIT.match(text, match.end())
            if _is_letter(before) or tail is None or fold(tail[1]) not in _BEHIND:
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
    for _ in range(2):
        match = _NEXT_UNIT.match(text, end)
        if match is None:
            break
        word = fold(match[1]).replace(" ", "")
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
        if word in _ORDINAL:
            unit, _, _ = _unit_after(text, end, False)
            found.append(Quantity(text[start:end], start, end, frozenset({_ORDINAL[word]}), unit, True))
            i += 1
        elif (tens := _SMALL.get(word, 0.0)) >= 20 and i + 1 < len(words) and 0 < _ORDINAL.get(words[i + 1][0], 0) < 10:
            end = words[i + 1][2]  # "forty-fourth"
            found.append(Quantity(text[start:end], start, end, frozenset({tens + _ORDINAL[words[i + 1][0]]}), "", True))
            i += 2
        elif not english and word not in _SMALL and fold(word) in _FOREIGN:
            unit, scale, end = _unit_after(text, end, False)
            found.append(Quantity(text[start:end], start, end, frozenset({_FOREIGN[fold(word)] * scale}), unit))
            i += 1
        elif word in _SMALL or (word in ("hundred", "thousand", "million", "billion") and _lone_scale(text, start)):
            j, value, end = _spelled(words, text, i)
            unit, scale, end = _unit_after(text, end, False)
            found.append(
                Quantity(text[start:end], start, end, frozenset({value * scale}), unit, hedge=_hedge(text, start, end))
            )
            i = j
        else:
            i += 1
    return found


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
        if not joined or (word not in _SMALL and word not in ("hundred", "thousand", "million", "billion")):
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
