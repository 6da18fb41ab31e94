"""Numbers, units and dates of a text, in a form in which two ways to write the same are equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from shared_core.citation.facts.tokens import fold

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
_ORDINAL = {w: i + 1.0 for i, w in enumerate(_ORDINALS)} | {"thirtieth": 30.0}
_SCALE = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "k": 1e3, "m": 1e6, "bn": 1e9,
    "mn": 1e6, "millionen": 1e6, "milliarden": 1e9, "millions": 1e6, "milliards": 1e9, "millones": 1e6, "tausend": 1e3,
    "mille": 1e3, "mil": 1e3, "milioni": 1e6, "miliardi": 1e9, "lakh": 1e5, "crore": 1e7, "thousands": 1e3,
    "dozens": 12.0, "万": 1e4, "亿": 1e8, "億": 1e8, "萬": 1e4,
}  # fmt: skip

_LENGTH, _MASS, _TIME, _AREA, _VOLUME, _SPEED = "length", "mass", "time", "area", "volume", "speed"
_UNITS: dict[str, tuple[str, float]] = {}


def _unit(dimension: str, factor: float, names: str) -> None:
    _UNITS.update(dict.fromkeys(names.split(), (dimension, factor)))


_unit(_LENGTH, 1e-3, "mm millimetre millimetres millimeter millimeters")
_unit(_LENGTH, 1e-2, "cm centimetre centimetres centimeter centimeters")
_unit(_LENGTH, 1.0, "m metre metres meter meters")
_unit(_LENGTH, 1e3, "km kilometre kilometres kilometer kilometers kilometro kilometros chilometri")
_unit(_LENGTH, 0.0254, "inch inches")
_unit(_LENGTH, 0.3048, "ft foot feet")
_unit(_LENGTH, 0.9144, "yd yard yards")
_unit(_LENGTH, 1609.344, "mi mile miles")
_unit(_LENGTH, 1852.0, "nmi")
_unit(_LENGTH, 1.8288, "fathom fathoms")
_unit(_MASS, 1e-6, "mg milligram milligrams")
_unit(_MASS, 1e-3, "g gram grams gramme grammes")
_unit(_MASS, 1.0, "kg kilo kilos kilogram kilograms kilogramme kilogrammes")
_unit(_MASS, 1e3, "tonne tonnes")
_unit(_MASS, 907.18, "ton tons")
_unit(_MASS, 0.45359, "lb lbs pound pounds")
_unit(_MASS, 0.02835, "oz ounce ounces")
_unit(_TIME, 1e-3, "ms millisecond milliseconds")
_unit(_TIME, 1.0, "s sec secs second seconds sekunde sekunden segundo segundos")
_unit(_TIME, 60.0, "min mins minute minutes minuten minuto minutos minuti")
_unit(_TIME, 3600.0, "h hr hrs hour hours stunde stunden heure heures hora horas ore")
_unit(_TIME, 86400.0, "day days tag tage tagen jour jours dia dias giorno giorni")
_unit(_TIME, 604800.0, "week weeks woche wochen semaine semaines semana semanas")
_unit(_TIME, 2629800.0, "month months monat monate monaten mois mes meses mese mesi")
_unit(_TIME, 31557600.0, "year years jahr jahre jahren an ans ano anos anni")
_unit(_TIME, 315576000.0, "decade decades")
_unit(_TIME, 3155760000.0, "century centuries jahrhundert jahrhunderte siecle siecles siglo siglos")
_unit(_AREA, 1.0, "m2 m² sqm")
_unit(_AREA, 1e4, "ha hectare hectares")
_unit(_AREA, 1e6, "km2 km²")
_unit(_AREA, 4046.86, "acre acres")
_unit(_VOLUME, 1.0, "l litre litres liter liters")
_unit(_VOLUME, 1e-3, "ml millilitre millilitres milliliter milliliters")
_unit(_VOLUME, 3.7854, "gallon gallons")
_unit(_SPEED, 1 / 3.6, "km/h kph")
_unit(_SPEED, 0.44704, "mph")
_unit(_SPEED, 0.514444, "knot knots kn")
_unit("percent", 1.0, "% percent percentage prozent pct")
_unit("celsius", 1.0, "°c celsius")
_unit("fahrenheit", 1.0, "°f fahrenheit")
_unit("dollar", 1.0, "$ usd dollar dollars")
_unit("euro", 1.0, "€ eur euro euros")
_unit("sterling", 1.0, "£ gbp")
_unit("yen", 1.0, "¥ jpy yen")
_unit("power", 1.0, "w watt watts")
_unit("power", 1e3, "kw kilowatt kilowatts")
_unit("power", 1e6, "mw megawatt megawatts")
_unit("data", 1.0, "byte bytes")
_unit("data", 1e3, "kb kilobyte kilobytes kib")
_unit("data", 1e6, "mb megabyte megabytes mib")
_unit("data", 1e9, "gb gigabyte gigabytes gib")
_AMBIGUOUS = {"m": 1e6, "k": 1e3}  # "$3m" is money, "3 m" a length

_NUMBER = re.compile(
    r"(?P<sign>(?<![\w\d])[-−])?(?P<money>[$€£¥]\s?)?"
    r"(?P<digits>\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*|\d+)(?P<ordinal>(?:st|nd|rd|th)\b)?"
)
_WORDS = re.compile(r"[^\W\d_]+")
_NEXT_UNIT = re.compile(r"\s?-?\s?(km/h|°\s?[CF]\b|[%$€£¥]|[^\W\d_]+[²2]?|[万亿億萬])")
_ABOUT = frozenset(
    "about around approximately roughly nearly almost circa ca some approx etwa rund ungefahr environ circa casi unos "
    "quase cerca fast knapp".split()
)
_ABOVE = frozenset("over exceeding above exceeds exceeded least minimum uber plus mas oltre".split())
_BELOW = frozenset("under below most maximum unter moins menos meno".split())
_CLOSE, _BOUND, _SAME_MEASURE = 0.06, 0.3, 0.02


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
    """

    text: str
    start: int
    end: int
    values: frozenset[float]
    unit: str = ""
    ordinal: bool = False
    hedge: str = ""
    digits: int = 1

    @property
    def dimension(self) -> str:
        """The kind of unit; empty for a bare number."""
        return _UNITS[self.unit][0] if self.unit else ""

    @property
    def is_year(self) -> bool:
        """May be a year: four digits without unit."""
        written = len(self.text) == 4 or not self.text[:1].isdigit()
        return not self.unit and written and any(1000 <= v <= 2100 for v in self.values)


@lru_cache(maxsize=512)
def quantities_of(text: str) -> tuple[Quantity, ...]:
    """All numbers of a text, written in digits or in English words, in order."""
    found = [*_in_digits(text), *_in_words(text)]
    return tuple(sorted(found, key=lambda q: q.start))


def _in_digits(text: str) -> list[Quantity]:
    found = []
    for match in _NUMBER.finditer(text):
        before = "" if match["money"] else text[match.start() - 1 : match.start()]
        joined = _is_letter(text[match.end() : match.end() + 1]) and not match["ordinal"]
        if _is_letter(before) or joined:
            tail = _NEXT_UNIT.match(text, match.end())
            if _is_letter(before) or tail is None or fold(tail[1]) not in _UNITS | _SCALE | _AMBIGUOUS:
                continue  # part of a name: B52, 3M
        values = _readings(match["digits"])
        if match["sign"]:
            values |= {-v for v in values}  # a dash may be a hyphen
        unit, scale, end = _unit_after(text, match.end(), bool(match["money"]))
        unit = match["money"].strip() if match["money"] else unit
        digits = len(re.sub(r"\D", "", match["digits"]).strip("0")) or 1
        found.append(
            Quantity(
                text[match.start("digits") : match.end("digits")], match.start(), end,
                frozenset(v * scale for v in values), unit, bool(match["ordinal"]), _hedge(text, match.start()), digits,
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
    for _ in range(2):
        match = _NEXT_UNIT.match(text, end)
        if match is None:
            break
        word = fold(match[1]).replace(" ", "")
        if money and word in _AMBIGUOUS:
            scale, end = scale * _AMBIGUOUS[word], match.end()
        elif word in _SCALE and word not in _UNITS:
            scale, end = scale * _SCALE[word], match.end()
        else:
            square = re.match(r"\s?square\s([^\W\d_]+)", text[end:], re.IGNORECASE)
            if square and f"{_symbol(square[1])}2" in _UNITS:
                return f"{_symbol(square[1])}2", scale, end + square.end()
            letter = len(word) == 1 and not (match[1].islower() or word == "%")
            if word in _UNITS and not letter:
                return word, scale, match.end()
            break
    return "", scale, end


def _symbol(word: str) -> str:
    dimension, factor = _UNITS.get(fold(word), ("", 0.0))
    return {1.0: "m", 1e3: "km"}.get(factor, "") if dimension == _LENGTH else ""


def _hedge(text: str, start: int) -> str:
    """Whether the two words before say "about", "more than" or "less than"."""
    before = [fold(w) for w in _WORDS.findall(text[max(0, start - 30) : start])][-3:]
    if "than" in before[-1:] and len(before) > 1:
        return "above" if before[-2] in ("more", "greater", "higher", "longer", "larger", "later") else "below"
    last = before[-2:]
    if any(w in _ABOUT for w in last) or "~" in text[max(0, start - 2) : start]:
        return "about"
    if any(w in _ABOVE for w in last):
        return "above"
    return "below" if any(w in _BELOW for w in last) else ""


def _in_words(text: str) -> list[Quantity]:
    """Numbers written as English words: "twenty-five thousand", "third"."""
    found: list[Quantity] = []
    words = [(m.group().lower(), m.start(), m.end()) for m in _WORDS.finditer(text)]
    i = 0
    while i < len(words):
        word, start, end = words[i]
        if word in _ORDINAL:
            unit, _, _ = _unit_after(text, end, False)
            found.append(Quantity(text[start:end], start, end, frozenset({_ORDINAL[word]}), unit, True))
            i += 1
        elif word in _SMALL or (word in ("hundred", "thousand", "million", "billion") and _lone_scale(text, start)):
            j, value, end = _spelled(words, text, i)
            unit, scale, end = _unit_after(text, end, False)
            found.append(
                Quantity(text[start:end], start, end, frozenset({value * scale}), unit, hedge=_hedge(text, start))
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


def same_quantity(claimed: Quantity, held: Quantity) -> bool:
    """Whether two numbers say the same: value and unit, allowing for formats, conversion, rounding and hedges."""
    if claimed.ordinal != held.ordinal and not (claimed.dimension == held.dimension == ""):
        return False
    if claimed.dimension and held.dimension and claimed.dimension != held.dimension:
        return False
    if held.is_year and len(claimed.text) == 2 and not claimed.unit and held.text.endswith(claimed.text):
        return True  # '63
    if same_unit(claimed, held):
        return any(_close(c, h, claimed, held) for c in claimed.values for h in held.values)
    own, other = _UNITS[claimed.unit][1], _UNITS[held.unit][1]
    return any(abs(c * own - h * other) <= _SAME_MEASURE * abs(h * other) for c in claimed.values for h in held.values)


def same_unit(one: Quantity, other: Quantity) -> bool:
    """Whether no conversion is needed: one unit, or one of the two has none."""
    return not (one.unit and other.unit) or _UNITS[one.unit] == _UNITS[other.unit]


def equal_quantity(one: Quantity, other: Quantity) -> bool:
    """Whether both have one value and one unit, however they are written."""
    return (
        bool(one.values & other.values)
        and one.ordinal == other.ordinal
        and _UNITS.get(one.unit) == _UNITS.get(other.unit)
    )


def _close(claimed: float, held: float, quantity: Quantity, other: Quantity) -> bool:
    if abs(claimed - held) <= 1e-9 * abs(held):
        return True
    # only a number given with fewer digits is a rounding: "about 96.8" is not 96.4
    if not claimed or not held or quantity.is_year or quantity.digits >= other.digits:
        return False
    hedge = quantity.hedge if quantity.hedge != other.hedge else ""
    if hedge == "about" and abs(claimed - held) <= _CLOSE * abs(held):
        return True
    if hedge == "above" and claimed <= held <= claimed * (1 + _BOUND):
        return True
    if hedge == "below" and claimed * (1 - _BOUND) <= held <= claimed:
        return True
    # 82.96 is 83, 1,234,567 is 1.2 million
    rounded = float(f"{held:.{quantity.digits - 1}e}")
    return (held != int(held) or abs(held) >= 10000) and abs(rounded - claimed) <= 1e-9 * abs(claimed)


def is_sum(claimed: Quantity, held: Sequence[Quantity]) -> bool:
    """Whether the number, 10 or more, is the sum of two of the evidence's, both of one unit and no years."""
    fits = (a.dimension == claimed.dimension or not claimed.dimension for a, _ in _pairs(held))
    return any(
        fit and not (a.is_year or b.is_year) and x + y in claimed.values and min(x, y) > 1 and x + y >= 10
        for (a, b), fit in zip(_pairs(held), fits, strict=True)
        for x in a.values
        for y in b.values
    )


def is_difference(claimed: Quantity, held: Sequence[Quantity]) -> bool:
    """Whether the number is how far two years, or two numbers of one named unit, lie apart."""
    return any(
        ((a.is_year and b.is_year) or bool(a.unit))
        and abs(x - y) in claimed.values
        and abs(x - y) > 1
        and claimed.dimension in ("", "time", a.dimension)
        for a, b in _pairs(held)
        for x in a.values
        for y in b.values
    )


def _pairs(held: Sequence[Quantity]) -> list[tuple[Quantity, Quantity]]:
    """Pairs of different numbers of one unit, among the first twelve."""
    numbers = [q for q in held if not q.ordinal][:12]
    return [(a, b) for a, b in combinations(numbers, 2) if a.unit == b.unit and a.start != b.start]


# --- dates ---------------------------------------------------------------------------------------------------------

_MONTHS = {
    1: "january jan januar janvier enero gennaio janeiro januari",
    2: "february feb februar fevrier febrero febbraio fevereiro februari",
    3: "march mar marz maerz mars marzo marco maart",
    4: "april apr avril abril aprile",
    5: "may mai mayo maggio maio mei",
    6: "june jun juni juin junio giugno junho",
    7: "july jul juli juillet julio luglio julho",
    8: "august aug aout agosto augustus",
    9: "september sep sept septembre septiembre settembre setembro",
    10: "october oct oktober octobre octubre ottobre outubro",
    11: "november nov novembre noviembre novembro",
    12: "december dec dezember decembre diciembre dicembre dezembro",
}
_MONTH = {name: number for number, names in _MONTHS.items() for name in names.split()}
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_WEEKDAY = {w: i for i, w in enumerate(_WEEKDAYS)}
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_CJK_DATE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})日)?")
_DAY = r"(?P<day{n}>\d{{1,2}})(?:st|nd|rd|th|\.|er|º)?"
_NAME = r"(?P<month{n}>[^\W\d_]{{3,10}})\.?"
_YEAR = r"(?P<year{n}>\d{{3,4}})"
_DATE = re.compile(
    rf"(?<!\d){_DAY.format(n=1)}\s?(?:of\s|de\s)?{_NAME.format(n=1)}(?:,?\s(?:de\s|del\s)?{_YEAR.format(n=1)})?(?!\w)"
    rf"|(?<!\w){_NAME.format(n=2)}\s(?:{_DAY.format(n=2)}(?!\d)(?:,?\s{_YEAR.format(n=2)}(?!\d))?"
    rf"|(?:of\s|de\s)?{_YEAR.format(n=3)}(?!\d))"
    rf"|(?<!\w){_NAME.format(n=4)}(?!\w)"
)


@dataclass(frozen=True, slots=True)
class Date:
    """A date as far as it is given: month, and day and year where they are; or a weekday.

    Attributes:
        text: as written.
        month, day, year: 0 where not given.
        weekday: 0 for Monday to 6, else -1.
        end: where an ISO date ends in the text, else 0; it begins ``len(text)`` before.
    """

    text: str
    month: int = 0
    day: int = 0
    year: int = 0
    weekday: int = -1
    end: int = 0


_VERB_LIKE = frozenset({"may", "march", "mars", "mar", "sep", "dec", "jan", "mai", "mei", "marco"})


@lru_cache(maxsize=512)
def dates_of(text: str) -> tuple[Date, ...]:
    """Dates that name a month (in eight languages, or ISO) and weekdays, in order."""
    found = [
        Date(m.group(), int(m[2]), int(m[3]), int(m[1]), end=m.end())
        for m in _ISO.finditer(text)
        if 1 <= int(m[2]) <= 12
    ]
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


def _read_date(match: re.Match[str]) -> Date | None:
    for n in "124":
        name = match[f"month{n}"]
        month = _MONTH.get(fold(name or ""), 0)
        if not month:
            continue
        if n == "4":  # a month alone; "may" and "march" are verbs too
            sure = fold(name) not in _VERB_LIKE and name[0].isupper() and len(name) > 3
            return Date(name, month) if sure else None
        day, year = match[f"day{n}"], match[f"year{n}"] or (match["year3"] if n == "2" else None)
        return Date(match.group(), month, int(day or 0), int(year or 0))
    return None


def same_date(claimed: Date, held: Date) -> bool:
    """Whether a date of the evidence agrees with all of the claimed one's parts that both give."""
    if claimed.weekday >= 0 or held.weekday >= 0:
        return claimed.weekday == held.weekday
    pairs = ((claimed.day, held.day), (claimed.year, held.year))
    return claimed.month == held.month and all(not c or not h or c == h for c, h in pairs)
