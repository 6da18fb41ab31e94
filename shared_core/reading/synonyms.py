"""Compare what questions and headings name, whichever of several verbs they have for one act: remove, delete."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared_core.reading.features import code, stem
from shared_core.reading.rows import stems_of

_PHRASES = tuple(
    (re.compile(pattern, re.IGNORECASE), verb)
    for pattern, verb in (
        (r"\b(?:turn|switch)(?:ed|ing|s)?(?:\s+(?:it|them))?\s+off\b", "disable"),
        (r"\b(?:turn|switch)(?:ed|ing|s)?(?:\s+(?:it|them))?\s+on\b", "enable"),
        (r"\bset(?:ting|s)?[\s-]?up\b", "configure"),
        (r"\b(?:sign|log)(?:ged|ging|ing|s)?[\s-]?in(?:to)?\b", "login"),
        (r"\b(?:sign|log)(?:ged|ging|ing|s)?[\s-]?out\b", "logout"),
        (r"\b(?:get|getting|gets|got)\s+rid\s+of\b", "delete"),
    )
)
_ACTS = (
    "delete remove erase",
    "change modify edit alter",
    "find locate",
    "enable activate",
    "disable deactivate",
    "start launch begin",
    "stop quit",
    "fix solve resolve repair troubleshoot",
    "choose select pick",
    "buy purchase",
    "show display",
    "allow permit",
)
_SAME: Mapping[int, int] = {
    code(stem(verb)): code(stem(group.split()[0])) for group in _ACTS for verb in group.split()[1:]
}


def named_stems(text: str) -> frozenset[int]:
    """Return the codes of the stems of a text's content words, one for all verbs of an act.

    >>> named_stems("Remove a user") == named_stems("Deleting users")
    True
    >>> named_stems("turn on a lamp") == named_stems("enable lamps"), named_stems("turn on") == named_stems("turn off")
    (True, False)
    """
    for pattern, verb in _PHRASES:
        text = pattern.sub(verb, text)
    return frozenset(_SAME.get(c, c) for c in stems_of(text).tolist())
