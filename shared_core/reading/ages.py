"""Compare the age that a question names with the ages that prices and rules are for: "Youth (5-17)", "under 3"."""

from __future__ import annotations

import re

from shared_core.citation.facts.ages import AGE, OF_AGES, age_asked, names_ages, ranges_of
from shared_core.reading.questions import asks_yes_or_no, content_stems

_RESTRICTS = re.compile(
    r"\b(?:only|not|no|never|must|minimum|at least|allowed|permitted|admitted|forbidden|prohibited"
    r"|(?:is|are) (?:for|(?:open|available|restricted|limited) to|(?:suitable|intended|meant|designed) for"
    r"|aimed at))\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_LIGHT = re.compile(r"\b(?:take part|allowed|sons?|daughters?|boys?|girls?|able|permitted)\b", re.IGNORECASE)
_SUM = re.compile(r"\b(?:pays?|cost|tickets?|fees?|free|charged?|price|admission|entry|entrance)\b", re.IGNORECASE)
_ASKS_SUM = re.compile(
    r"\W*(?:how much (?:for|is|are|do|does|will|would|must)\b"
    r"|what(?:['’]s| is| are) the (?:\w+ )?(?:price|fee|cost)s?\b"
    r"|what (?:do|does|will|would|must) (?=[^?]*\b(?:pay|cost)\b))",
    re.IGNORECASE,
)
_ASKED_OF_SUM = re.compile(r"\b(?:need|have|got|buy|get|without|only)\b", re.IGNORECASE)
_CHARGES = re.compile(r"\bfree\b|\bno charge\b|[£$€] ?\d|\d ?(?:[£$€]|euros?|dollars?|pounds?)", re.IGNORECASE)


def is_for_others(question: str, text: str) -> bool:
    """Return whether a text gives something for people of certain ages, and the question's age is none of them.

    >>> [is_for_others("What does my 10 year old pay?", text) for text in ("Youth (5-17): $65", "Adult (18+): $55")]
    [False, True]
    >>> is_for_others("What does my 10 year old pay?", "Open 9-5, and parking is $15.")
    False
    """
    age = age_asked(question)
    if age is None or not names_ages(text) or decides_for_age(question, text):
        return False
    found = ranges_of(text)
    return bool(found) and not any(first <= age <= last for first, last in found)


def decides_for_age(question: str, text: str) -> bool:
    """Return whether a question asks if something is open to people of an age, and a text says to which ages it is.

    It has half of the question's other content words at least, and if the age is none of these, it restricts to them.

    >>> decides_for_age("Can my 12-year-old take part in the night swim?", "20:00 Night swim (over 16s only)")
    True
    >>> decides_for_age("Can my 12-year-old take part in the raffle?", "20:00 Night swim (over 16s only)")
    False
    """
    age = age_asked(question)
    if age is None or not asks_yes_or_no(question) or not names_ages(text):
        return False
    found = ranges_of(text)
    if not found or not (_RESTRICTS.search(text) or any(first <= age <= last for first, last in found)):
        return False
    wanted = things_asked(question)
    held = wanted & content_stems(text.replace("-", " "))
    return bool(wanted) and 2 * len(held) >= len(wanted)


def charges_for_age(question: str, text: str, around: str) -> bool:
    """Return whether a question asks if or how much people of an age pay, and a text says what people of that age do.

    Args:
        around: title, headings, source and text of the passage, which have the question's other words.

    >>> charges_for_age("Does my 2-year-old need a ticket for the zoo?", "Children under 3 enter free", "Zoo fees")
    True
    >>> charges_for_age("Does my 4-year-old need a ticket for the zoo?", "Children under 3 enter free", "Zoo fees")
    False
    """
    age = age_asked(question)
    asks = _ASKS_SUM.match(question) or (asks_yes_or_no(question) and _SUM.search(question))
    if age is None or not asks or not _CHARGES.search(text):
        return False
    if not names_ages(text) or not any(a <= age <= b for a, b in ranges_of(text)):
        return False
    asked = _ASKED_OF_SUM.sub(" ", _SUM.sub(" ", _ASKS_SUM.sub(" ", question)))
    return things_asked(asked) <= content_stems(f"{around} {text}")


def things_asked(question: str) -> set[str]:
    """Return the stems of the content words but for the age and whose it is."""
    return content_stems(OF_AGES.sub(" ", _LIGHT.sub(" ", AGE.sub(" ", question))))
