"""Find the row of a table, or the line of a list, for a range that a question's value is in: "Dog over 20 kg"."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from shared_core.citation.facts.ages import age_asked, ages_of, names_ages
from shared_core.citation.facts.quantities import UNITS, Quantity, quantities_of
from shared_core.reading.ages import things_asked
from shared_core.reading.cells import Chosen, Place, cells_at
from shared_core.reading.language import word_list
from shared_core.reading.places import above, place_of, source_of
from shared_core.reading.questions import asks_yes_or_no, content_stems
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_LINE = lazy_regex(r"[^\n]+")
_LABELLED = lazy_regex(r"[ \t]*(?:[-*+•][ \t]+)?([^\n:|]{1,60}?)(?::[ \t]+|\t+| {2,}| [–—-] )(\S[^\n]*)")
_TO = lazy_regex(r"\s?(?:-{1,2}|–|—|to|and|until|up to|but (?:less than|under))\s?")
_UNIT_NAMED = lazy_regex(r"[\[(]([^()\[\]]{1,12})[)\]]")
_INCLUDED = lazy_regex(r"(?:up to|at least|at most|max\.?|min\.?|maximum|minimum|from|[≤≥])\W*$", re.IGNORECASE)
_LESS = lazy_regex(r"(?:<|≤|\bmax(?:\.|imum)?|\bat most)\W*$", re.IGNORECASE)
_MORE = lazy_regex(r"(?:>|≥|\bmin(?:\.|imum)?|\bat least|\bfrom)\W*$", re.IGNORECASE)
_PLUS = lazy_regex(
    r"\s?\+|\s?(?:[^\W\d_]+\s)?(?:or|and) (?:more|over|above|longer|older|later|upwards|heavier|larger)\b"
)
_UNIT_BEHIND_PLUS = lazy_regex(r"\+\s?([^\W\d_]{1,3})\b")
_NOUN = lazy_regex(r"\s?(?!or\b|and\b)([^\W\d_]{3,})")
_GROWN_UP = lazy_regex(r"\W*(?:[\w ]{1,20}: )?(?:adults?|seniors?|pensioners?)\W*(?:\([^)\d]*\))?\W*$", re.IGNORECASE)
_OF_AGE = 16
"""An age from which what is for adults without a range may be meant."""
_OF_AMOUNTS = content_stems("often many long cost price need without")
_Ages = tuple[float, float]
_BESIDE = content_stems(" ".join(word_list("beside_amounts")))


class Band(NamedTuple):
    """A range of values in the base unit of a dimension ("" for bare numbers), and whether its ends are in it."""

    lowest: float
    highest: float
    dimension: str
    with_lowest: bool = True
    with_highest: bool = True

    def holds(self, value: float) -> bool:
        """Return whether a value is in the range."""
        above = value > self.lowest or (self.with_lowest and value == self.lowest)
        return above and (value < self.highest or (self.with_highest and value == self.highest))


class _Line(NamedTuple):
    """A row of a table or line of a list for a range of values, and the word behind its numbers."""

    place: Place
    band: Band
    noun: str


def read_band(label: str, unit: str = "") -> Band | None:
    """Return the range of values that a label is, but for words beside it; ``None`` if it is none.

    Args:
        label: such as "Dog over 20 kg", "10–49", "50 or more".
        unit: of numbers that have none, such as the one in the name of the label's column.

    >>> read_band("Dogs 10–20 kg")
    Band(lowest=10.0, highest=20.0, dimension='mass', with_lowest=True, with_highest=True)
    >>> read_band("up to £50").holds(50), read_band("under £50").holds(50), read_band("Cats")
    (True, False, None)
    """
    found = [q for q in quantities_of(label) if not q.ordinal and _is_amount(q)]
    if len(found) == 2 and _TO.fullmatch(label, found[0].end, found[1].start):
        return _between(found[0], found[1], unit)
    if len(found) != 1:
        return None
    (only,) = found
    if (plus := _UNIT_BEHIND_PLUS.match(label, only.end)) and plus[1] in UNITS:
        unit = plus[1]
    value, dimension = _base(only, only.unit or unit)
    before = label[: only.start]
    if _PLUS.match(label, only.end):
        return Band(value, math.inf, dimension)
    if only.hedge == "below" or _LESS.search(before):
        return Band(-math.inf, value, dimension, with_highest=bool(_INCLUDED.search(before)) or _is_behind(only, label))
    if only.hedge == "above" or _MORE.search(before):
        return Band(value, math.inf, dimension, with_lowest=bool(_INCLUDED.search(before)) or _is_behind(only, label))
    return None


def _is_amount(value: Quantity) -> bool:
    """Return whether a quantity is in digits, or in words with a unit: "three days", but not "one of them"."""
    return value.text[:1].isdigit() or bool(value.unit)


def _is_behind(value: Quantity, label: str) -> bool:
    """Return whether the word for more or less stands behind the value: "20 kg or less" has 20 kg in it."""
    return re.match(r"\s?(?:[^\W\d_]+\s)?(?:or|and)\s", label[value.end :]) is not None


def _between(first: Quantity, last: Quantity, unit: str) -> Band | None:
    unit = last.unit or first.unit or unit
    lowest, dimension = _base(first, first.unit or unit)
    highest, of_last = _base(last, unit)
    return Band(lowest, highest, dimension) if dimension == of_last and lowest < highest else None


def _base(quantity: Quantity, unit: str) -> tuple[float, str]:
    value = max(quantity.values) if "," in quantity.text else min(quantity.values, key=abs)
    known = UNITS.get(unit)
    return (known.base(value), known.dimension) if known else (value, "")


def find_in_range(question: str, passages: Sequence[Passage]) -> Chosen | None:
    """Return the lines for the range that the only number of a question is in.

    Their passages and the headings above hold three of four of the question's other content words. ``None`` if there
    are none, or several of one section.

    >>> prices = Passage("p", "Size: 1–9 mugs; Each: £8\\nSize: 10–49 mugs; Each: £6\\nSize: 50+ mugs; Each: £5")
    >>> ((_, start, end),) = find_in_range("What does a mug cost if I order 20?", [prices]).lines
    >>> prices.text[start:end]
    'Size: 10–49 mugs; Each: £6'
    >>> notice = Passage("n", "- Up to 7 days: no refund\\n- 8 to 30 days: half")
    >>> find_in_range("What is the refund for ten days?", [notice]) is not None
    True
    """
    asked = [q for q in quantities_of(question) if not q.ordinal and not q.is_year and _is_amount(q)]
    if len(asked) != 1 or age_asked(question) is not None:
        return None
    value, dimension = _base(asked[0], asked[0].unit)
    whole = read_band(question)  # "a dog over 20 kg"

    def holds(band: Band) -> bool:
        return band.holds(value) if whole is None else band[:3] == whole[:3]

    words = content_stems(f"{question[: asked[0].start]} {question[asked[0].end :]}") - _BESIDE
    sections: dict[object, list[_Line]] = defaultdict(list)
    for line in _lines(passages):
        if line.band.dimension == dimension and (dimension or content_stems(line.noun) <= words):
            sections[place_of(passages[line.place[0]])].append(line)
    chosen: dict[Place, None] = {}
    others: list[Place] = []
    for lines in (some for some in sections.values() if len(some) > 1):
        within = [line.place for line in lines if holds(line.band) and _is_about(words, line.place, passages)]
        if len({passages[number].text[start:end] for number, start, end in within}) == 1:
            chosen |= dict.fromkeys(within)
            others += [line.place for line in lines if not holds(line.band)]
    return Chosen(chosen, others, asked[0]) if chosen else None


def find_for_age(question: str, passages: Sequence[Passage]) -> Chosen | None:
    """Return the lines for the narrowest range of ages that the age of a question is in, of those in one section.

    ``None`` for a question for yes or no, which a rule may decide that has no such range, and as ``find_in_range``.

    >>> swim = Passage("p", "Adult: £6\\nChild 5–15: £3\\nUnder 5: free", metadata={"section": "Swimming"})
    >>> ((_, start, end),) = find_for_age("How much is swimming for a 9 year old?", [swim]).lines
    >>> swim.text[start:end]
    'Child 5–15: £3'
    >>> dose = Passage("p", "Adults and children over 12: one tablet\\nAdults over 65: half a tablet")
    >>> ((_, start, end),) = find_for_age("I'm 70, how many tablets?", [dose]).lines
    >>> dose.text[start:end]
    'Adults over 65: half a tablet'
    """
    age = age_asked(question)
    if age is None or asks_yes_or_no(question):
        return None
    things = things_asked(question) - _OF_AMOUNTS
    words = things - _BESIDE or things
    sections: dict[object, dict[Place, _Ages | None]] = defaultdict(dict)
    named = set[object]()
    for number, passage in enumerate(passages):
        for start, end in (line.span() for line in _LINE.finditer(passage.text)):
            label, _ = _label_at(passage, start, end)
            if (ages := _ages_at(label)) or _GROWN_UP.match(label):
                sections[place_of(passage)][number, start, end] = ages
                named |= {place_of(passage)} if names_ages(label) else set()
    chosen: dict[Place, None] = {}
    others: list[Place] = []
    for lines in (some for section, some in sections.items() if section in named and len(some) > 1):
        best = _narrowest(age, lines)
        texts = {passages[number].text[start:end] for number, start, end in best}
        if len(texts) == 1 and _is_about(words, best[0], passages):
            chosen |= dict.fromkeys(best)
            others += [place for place, ages in lines.items() if place not in best and (ages or age < _OF_AGE)]
    return Chosen(chosen, others) if chosen and (words or len(chosen) == 1) else None


def _ages_at(label: str) -> _Ages | None:
    """Return the only range of ages of a label; ``None`` for one of days, kilograms or the like."""
    return (
        None if any(q.unit and q.unit not in ("year", "years", "yrs") for q in quantities_of(label)) else ages_of(label)
    )


def _narrowest(age: int, lines: Mapping[Place, _Ages | None]) -> list[Place]:
    """Return the lines for the narrowest range that an age is in: "over 65" rather than "over 12" for 70."""
    width = {
        place: (ages[1] - ages[0], -ages[0]) for place, ages in lines.items() if ages and ages[0] <= age <= ages[1]
    }
    return [place for place, of_line in width.items() if of_line == min(width.values())]


def _is_about(words: set[str], place: Place, passages: Sequence[Passage]) -> bool:
    passage = passages[place[0]]
    told = content_stems(f"{above(passage)} {source_of(passage)} {passage.text}")
    return 4 * len(words - told) <= len(words)


def _lines(passages: Sequence[Passage]) -> Iterator[_Line]:
    """Find the rows whose first cell is a range, and the labels that are one."""
    for number, passage in enumerate(passages):
        for start, end in (line.span() for line in _LINE.finditer(passage.text)):
            label, unit = _label_at(passage, start, end)
            band = read_band(label, unit)
            if band is not None:
                yield _Line((number, start, end), band, _noun_behind(label) if not band.dimension else "")


def _label_at(passage: Passage, start: int, end: int) -> tuple[str, str]:
    """Return the label of a line, or the first cell of a row, and the unit that its column's name gives."""
    found = cells_at(passage, start, end)
    if found is None:
        labelled = _LABELLED.match(passage.text, start)
        return (labelled[1], "") if labelled is not None else ("", "")
    key, ((name, value), *_) = found
    if key[0] < name[0]:  # a cell whose column has no name
        return passage.text[slice(*key)].strip("; "), ""
    unit = _UNIT_NAMED.search(passage.text, *name)
    return passage.text[slice(*value)].strip("; "), unit[1].casefold() if unit else ""


def _noun_behind(label: str) -> str:
    """Return the word behind the last number of a label, but for "or more" and the like."""
    word = _NOUN.match(label, max(q.end for q in quantities_of(label)))
    return word[1] if word else ""
