"""Compare what questions and headings name, whichever of several verbs they have for one act: remove, delete.

Content words alone do not tell "from A to B" from "from B to A", nor before from after.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared_core.reading.features import code, stem
from shared_core.reading.questions import words
from shared_core.reading.rows import stems_of
from shared_core.support.regex import lazy_regex

_PHRASES = tuple(
    (lazy_regex(pattern, re.IGNORECASE), verb)
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


_RELATIONS = lazy_regex(
    r"before|after|above|below|over|under|up|down|out|off|from|until|during|against|more|most|between|through"
)
_ORDERS = lazy_regex(r"(?<!\bhow )\b(?:to|into|onto|from|than|by)\b", re.IGNORECASE)


def named_stems(text: str) -> frozenset[int]:
    """Return the codes of the stems of a text's content words, one for all verbs of an act.

    >>> named_stems("Remove a user") == named_stems("Deleting users")
    True
    >>> named_stems("turn on a lamp") == named_stems("enable lamps"), named_stems("turn on") == named_stems("turn off")
    (True, False)
    """
    return frozenset(_SAME.get(c, c) for c in stems_of(_with_verbs(text)).tolist())


def relates_alike(question: str, heading: str, *, ordered: bool = False) -> bool:
    """Return whether what both name has the same relations in both: behind "before", behind "from", in one order.

    >>> relates_alike("How do I export to CSV?", "Export from CSV")
    False
    >>> relates_alike("How do I add a user to a group?", "Add a group to a user")
    False
    >>> relates_alike("How do I remove a user from a team?", "User removal")
    True

    Args:
        ordered: the order counts even where no preposition tells who does what to whom ("Who hired Ann?").
    """
    (one, of_one), (other, of_other) = _related(question), _related(heading)
    common = {*one} & {*other}
    if any(number in common for _, number in of_one ^ of_other):
        return False
    ordered = ordered or bool(_ORDERS.search(question) and _ORDERS.search(heading))
    return not ordered or [c for c in one if c in common] == [c for c in other if c in common]


def _related(text: str) -> tuple[list[int], set[tuple[str, int]]]:
    """Return the codes of a text's content words in order, each once, and each relation with the one behind it."""
    named = named_stems(text)
    order: dict[int, None] = {}
    relations: set[tuple[str, int]] = set()
    waiting: list[str] = []
    for word in words(_with_verbs(text)):
        number = code(stem(word))
        number = _SAME.get(number, number)
        if _RELATIONS.fullmatch(word):
            waiting.append(word)
        elif number in named:
            relations |= {(relation, number) for relation in waiting}
            waiting.clear()
            order[number] = None
    return [*order], relations


def _with_verbs(text: str) -> str:
    for pattern, verb in _PHRASES:
        text = pattern.sub(verb, text)
    return text
