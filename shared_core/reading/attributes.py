"""Read a question for a property in the words of a table: "How heavy is it?" as one for the weight."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared_core.reading.questions import content_stems

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
_HOW = re.compile(rf"\W*how ({'|'.join(_NOUNS)}) (?:is|are|was|were) (.{{2,200}}?)\W*", re.IGNORECASE)
_ALIKE = (
    ("guarantee", "warranty"),
    ("rubbish", "trash", "garbage", "refuse"),
    ("lift", "elevator"),
    ("timetable", "schedule"),
    ("flat", "apartment"),
)


def read_attributes(question: str, texts: Sequence[str]) -> str:
    """Return the question with the noun for the property that it asks for, if a row or label of a text has it.

    Args:
        question: in English.
        texts: of the passages, with their titles.

    >>> read_attributes("How heavy is the Nordlys 20?", ["Nordlys manual\\nWeight: 13.4 kg"])
    'What is the weight of the Nordlys 20?'
    >>> read_attributes("How heavy is the Nordlys 20?", ["The Nordlys 20 weighs 13.4 kg."])
    'How heavy is the Nordlys 20?'
    >>> read_attributes("How long is the guarantee?", ["Warranty: 2 years"])
    'How long is the warranty?'
    """
    for group in _ALIKE:
        question = _with_known(question, group, texts)
    asked = _HOW.fullmatch(question)
    if asked is None:
        return question
    wanted = content_stems(asked[2])
    for noun in _NOUNS[asked[1].lower()]:
        label = re.compile(rf"(?:^[ \t>|*+_-]*|; ){noun}\b[^\n.;:|\t]{{0,20}}(?:[:;|\t]|[ ]{{2}}|[ ]\d)", re.I | re.M)
        for text in filter(label.search, texts):
            if not wanted or wanted & content_stems(text):
                return f"What is the {noun} of {asked[2]}?"
    return question


def _with_known(question: str, group: Sequence[str], texts: Sequence[str]) -> str:
    """Return the question with the word of a group that the texts have, if they lack its own."""
    asked = re.search(rf"\b(?:{'|'.join(group)})(?=s?\b)", question, re.IGNORECASE)
    if asked is None or any(asked[0].casefold() in text.casefold() for text in texts):
        return question
    known = next((word for word in group for text in texts if re.search(rf"\b{word}", text, re.IGNORECASE)), None)
    return question if known is None else question[: asked.start()] + known + question[asked.end() :]
