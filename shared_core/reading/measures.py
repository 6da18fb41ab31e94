"""Find whether a row of named cells gives the measure that a question asks for: "How tall is the tower?"."""

from __future__ import annotations

import re

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import quantities_of
from shared_core.citation.facts.tokens import fields_of
from shared_core.reading.questions import content_stems
from shared_core.support.regex import lazy_regex

_IS = r"(?:is|are|was|were|can|may|must|should)\b"
_MEASURES: tuple[tuple[str, frozenset[str], str], ...] = (
    (
        rf"\bhow (?:tall|high|wide|broad|deep|thick) {_IS}"
        r"|\b(?:what is|what['’]s|what was) the (?:height|width|breadth|depth|thickness)\b",
        frozenset(("length", "area", "volume")),
        r"height|high|tall|width|wide|breadth|broad|depth|deep|thick(?:ness)?|length|long|size|dimensions?|measure\w*|span"
        r"|diameter|altitude|elev(?:ation)?|area|extent|draught|draft",
    ),
    (
        r"\bhow long (?:is|are|was|were)\b|\b(?:what is|what['’]s|what was) the length\b",
        frozenset(("length", "time", "clock")),
        r"length|long|size|dimensions?|measure\w*|span|distance|duration|time|hours?|minutes?|days?|weeks?|months?|years?"
        r"|term|period|start|begins?|from|to|end|until",
    ),
    (
        rf"\bhow heavy {_IS}|\bhow much (?:do(?:es)?|did|can|may) [^?]*\bweigh\b"
        r"|\b(?:what is|what['’]s|what was) the weight\b",
        frozenset(("mass",)),
        r"weight|weighs?|mass|heavy|load|kg|lbs?|tons?|tonnes?|tonnage|displacement",
    ),
    (
        r"\bhow far (?:away )?(?:is|are|was)\b|\b(?:what is|what['’]s) the distance\b",
        frozenset(("length", "time")),
        r"distance|far|away|miles?|km|range|from|walk|drive",
    ),
)
"""Forms of questions for measures, the dimensions that give them, and the labels of cells that do."""
_MARKS = lazy_regex(r"\d ?(?:['\"’”′″]|[x×] ?\d)|[%$€£]")
_COORDINATES = lazy_regex(r"\d+(?:\.\d+)?°(?: ?\d+(?:\.\d+)?[′'’])?(?: ?\d+(?:\.\d+)?[″\"”])? ?[NSEWO]?")
_LEAST = 3
"""Cells of a row at least: fewer are rather a sentence with a colon."""


def gives_measure(question: str, name: str, value: str) -> bool:
    """Return whether a cell gives the measure that a question asks for; True if it asks for none.

    >>> [gives_measure("How tall is the mast?", *cell) for cell in (("Height", "30"), ("Mast", "30 ft"), ("Lat", "30"))]
    [True, True, False]
    """
    measure = _measure_asked(question)
    return measure is None or _gives(measure, name, value)


def asks_measure(question: str) -> bool:
    """Return whether a question asks how tall, long, heavy or far something is."""
    return _measure_asked(question) is not None


def lacks_measure(question: str, text: str) -> bool:
    """Return whether a question asks for a measure, and a text is a row of named cells of which none gives it.

    A cell whose name the question has may do so without a unit: "How high is the score?".

    >>> row = "name: Orm Light; latitude: 58.25; built: 1902; kind: iron"
    >>> lacks_measure("How tall is Orm Light?", row), lacks_measure("How tall is Orm Light?", f"{row}; tower: 30 m")
    (True, False)
    """
    measure, fields = _measure_asked(question), fields_of(text)
    if measure is None or len(fields) < _LEAST:
        return False
    asked = content_stems(question)
    named = any(
        stems and stems <= asked and value[:1].isdigit() for name, value in fields if (stems := content_stems(name))
    )
    return not named and not any(_gives(measure, name, value) for name, value in fields)


def _measure_asked(question: str) -> tuple[frozenset[str], str] | None:
    return next(
        ((kinds, names) for asked, kinds, names in _MEASURES if re.search(asked, question, re.IGNORECASE)), None
    )


def _gives(measure: tuple[frozenset[str], str], name: str, value: str) -> bool:
    """Whether the name of a cell, or a word or unit in it, is of a measure."""
    kinds, names = measure
    value = _COORDINATES.sub(" ", value)
    if re.search(rf"(?<![^\W_])(?:{names})(?![^\W_])", f"{name}\n{value}", re.IGNORECASE) or _MARKS.search(value):
        return True
    given = {q.dimension for q in (*quantities_of(value), *quantities_of(f"1 {name.rpartition('(')[2].strip(') ')}"))}
    return bool(given & kinds) or ("time" in kinds and any(date.month for date in dates_of(value)))
