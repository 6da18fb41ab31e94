"""Read a question for a property in the words of a table: "How heavy is it?" as one for the weight."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from shared_core.citation.facts.tokens import as_matched
from shared_core.reading.questions import content_stems
from shared_core.retrieval.tokenizer import ALIKE
from shared_core.support.regex import lazy_regex

_NOUNS: Mapping[str, tuple[str, ...]] = {
    "heavy": ("weight", "mass"),
    "loud": ("noise level", "noise", "sound level", "volume"),
    "noisy": ("noise level", "noise"),
    "long": ("length",),
    "tall": ("height",),
    "high": ("height",),
    "wide": ("width",),
    "deep": ("depth",),
    "thick": ("thickness",),
    "big": ("size", "capacity", "volume", "area"),
    "large": ("size", "capacity", "volume", "area"),
    "fast": ("top speed", "speed"),
    "old": ("age",),
    "expensive": ("price", "cost"),
    "hot": ("temperature",),
    "warm": ("temperature",),
    "powerful": ("power",),
    "bright": ("brightness",),
    "far": ("distance", "range"),
}
_HOW = lazy_regex(rf"\W*how ({'|'.join(_NOUNS)}) (?:is|are|was|were) (.{{2,200}}?)\W*", re.IGNORECASE)
_PROPERTY = lazy_regex(
    rf"What is the ({'|'.join(sorted({n for some in _NOUNS.values() for n in some}))}) of (.{{2,200}})\?", re.IGNORECASE
)
_BETWEEN = r"((?:[\w'’-]+ ){0,3})"
_WHOLE = sorted((name for name in ALIKE if "*" not in name), key=len, reverse=True)
_NAMED = lazy_regex(rf"(?<![\w-])(?:{'|'.join(map(re.escape, _WHOLE))})(?=s?(?![\w-]))", re.IGNORECASE)
_APART = [
    (lazy_regex(rf"\b{re.escape(name).replace(re.escape('* '), _BETWEEN)}\b", re.IGNORECASE), others)
    for name, others in ALIKE.items()
    if "*" in name
]
"""Phrases with words between their own, and others for them: "give the key back", "return the key"."""


def read_attributes(question: str, texts: Sequence[str]) -> str:
    """Return the question with the noun for the property that it asks for, if a row or label of a text has it.

    Args:
        question: in English.
        texts: of the passages, with their titles.

    >>> read_attributes("How heavy is the Nordlys 20?", ["Nordlys manual\\nWeight: 13.4 kg"])
    'What is the weight of the Nordlys 20?'
    >>> read_attributes("How long is the cable?", ["Cable length: 1.1 m"])
    'What is the length of the cable?'
    >>> read_attributes("How heavy is the Nordlys 20?", ["The Nordlys 20 weighs 13.4 kg."])
    'How heavy is the Nordlys 20?'
    >>> read_attributes("How long is the guarantee?", ["Warranty: 2 years"])
    'How long is the warranty?'
    """
    question = _NAMED.sub(lambda named: _known_as(named, texts), _put_together(question, texts))
    asked = _HOW.fullmatch(question)
    if asked is None:
        return question
    wanted = content_stems(asked[2])
    for noun in _NOUNS[as_matched(asked[1])]:
        label = _label_of(noun)
        of_it = [content_stems(found["of"]) for text in texts for found in label.finditer(text)]
        if len(of_it) == 1 and of_it[0] and of_it[0] <= wanted:
            return f"What is the {noun} of {asked[2]}?"
        for text in texts:
            alone = any(not found["of"] for found in label.finditer(text))
            if alone and (not wanted or wanted & content_stems(text)):
                return f"What is the {noun} of {asked[2]}?"
    return question


def is_property(question: str, line: str, text: str) -> bool:
    """Return whether a line is the one of a text for a property of a thing by which a question asks for it.

    Args:
        question: as ``read_attributes`` returns it.

    >>> text = "Rated power: 1450 W\\nCable length: 1.1 m"
    >>> is_property("What is the length of the power cable?", "Cable length: 1.1 m", text)
    True
    >>> is_property("What is the length of the power cable?", "Rated power: 1450 W", text)
    False
    """
    asked = _PROPERTY.fullmatch(question)
    label = _label_of(as_matched(asked[1])) if asked else None
    found = label.match(line) if label else None
    if asked is None or label is None or found is None or sum(1 for _ in label.finditer(text)) != 1:
        return False
    of = content_stems(found["of"])
    return bool(of) and of <= content_stems(asked[2])


@lru_cache(maxsize=64)
def _label_of(noun: str) -> re.Pattern[str]:
    """Return a pattern for the label of a property, of which ``of`` names the thing: "Cable length:"."""
    return re.compile(
        rf"(?:^[ \t>|*+_-]*|; )(?P<of>(?:[\w-]+ ){{0,2}}){noun}\b[^\n.;:|\t]{{0,20}}(?:[:;|\t]|[ ]{{2}}|[ ]\d)",
        re.IGNORECASE | re.MULTILINE,
    )


def _known_as(named: re.Match[str], texts: Sequence[str]) -> str:
    """Return another name of the same thing that the texts have, if they lack this one, and it is no proper name."""
    name = named[0]
    if named.start() and name[:1].isupper() and not name.isupper():
        return name
    names = (name, *(other for other in ALIKE[as_matched(name)] if "*" not in other))
    return next((one for one in names for text in texts if _word(one).search(text)), name)


def _put_together(question: str, texts: Sequence[str]) -> str:
    """Return the question with "return the key" for "give the key back", if the texts have only that.

    >>> _put_together("Do I have to give the key back?", ["Return the keys."])
    'Do I have to return the key?'
    """
    for phrase, others in _APART:
        found = phrase.search(question)
        if found is None or any(phrase.search(text) for text in texts):
            continue
        held = (one for one in others for text in texts if _word(one.split(" *")[0]).search(text))
        if other := next(held, ""):
            said = other.replace("*", found[1].strip()).strip()
            question = question[: found.start()] + said + question[found.end() :]
    return question


@lru_cache(maxsize=512)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}(?:e?s)?\b", re.IGNORECASE)
