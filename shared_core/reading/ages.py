"""Compare the age that a question names with the ages that prices and rules are for: "Youth (5-17)", "under 3"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.facts.ages import AGE, OF_AGES, Group, age_asked, groups_of, names_ages, ranges_of
from shared_core.reading.questions import asks_yes_or_no, content_stems
from shared_core.support.regex import lazy_regex

_RESTRICTS = lazy_regex(
    r"\b(?:only|not|no|never|must|minimum|at least|allowed|permitted|admitted|forbidden|prohibited"
    r"|(?:is|are) (?:for|(?:open|available|restricted|limited) to|(?:suitable|intended|meant|designed) for"
    r"|aimed at))\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_LIGHT = lazy_regex(r"\b(?:take part|allowed|sons?|daughters?|boys?|girls?|able|permitted)\b", re.IGNORECASE)
_SUM = lazy_regex(r"\b(?:pays?|cost|tickets?|fees?|free|charged?|price|admission|entry|entrance)\b", re.IGNORECASE)
_ASKS_SUM = lazy_regex(
    r"\W*(?:how much (?:for|is|are|do|does|will|would|must)\b"
    r"|what(?:['’]s| is| are) the (?:\w+ )?(?:price|fee|cost)s?\b"
    r"|what (?:do|does|will|would|must) (?=[^?]*\b(?:pay|cost)\b))",
    re.IGNORECASE,
)
_ASKED_OF_SUM = lazy_regex(r"\b(?:need|have|got|buy|get|without|only)\b", re.IGNORECASE)
_LIMITS = lazy_regex(
    rf"{_SUM.pattern}|\b(?:can|may|must|should|could|need(?:s|ed)?|ha(?:ve|s|d) to|allowed|permitted|let|let in)\b",
    re.IGNORECASE,
)
_CHARGES = lazy_regex(r"\bfree\b|\bno charge\b|[£$€] ?\d|\d ?(?:[£$€]|euros?|dollars?|pounds?)", re.IGNORECASE)


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


def group_asked(question: str) -> Group | None:
    """Return the group, such as a team, that a question names by an age; ``None`` if none, several, or it is a limit.

    >>> asked = ("Who won the under 15s cup?", "When do U9s train?", "May under 15s swim?")
    >>> [group and sorted(group.ages) for group in map(group_asked, asked)]
    [[15], [9], None]
    """
    is_limit = asks_yes_or_no(question) or _LIMITS.search(question) is not None
    found = [group for group in groups_of(question) if group.is_team or not is_limit]
    return found[0] if len(found) == 1 and len(found[0].ages) == 1 else None


def groups_named(text: str, *, limits: bool = False) -> frozenset[int]:
    """Return the ages by which a text names groups.

    Args:
        limits: also those that it says what people under them may do.

    >>> sorted(groups_named("Under 14's and 15's")), sorted(groups_named("Under 16s must wear a helmet."))
    ([14, 15], [])
    """
    teams = not limits and _RESTRICTS.search(text) is not None
    return frozenset(age for group in groups_of(text) if group.is_team or not teams for age in group.ages)


def read_groups(question: str, texts: Sequence[str]) -> str:
    """Return a question with the group that it names in the spelling of the texts, where none has its own.

    >>> read_groups("Who won the U13 cup?", ["Under 12's: Rye", "Under 13's: Lund"])
    "Who won the Under 13's cup?"
    """
    group = group_asked(question)
    if group is None or any(question[group.start : group.end].casefold() in text.casefold() for text in texts):
        return question
    given = (text[g.start : g.end] for text in texts for g in groups_of(text) if g.ages == group.ages)
    return f"{question[: group.start]}{next(given, question[group.start : group.end])}{question[group.end :]}"


def names_age(age: int, text: str) -> bool:
    """Return whether a text has an age as a number: behind or beside a word for ages, or as "13s".

    >>> [names_age(13, text) for text in ("The 13's won.", "Boys aged 13", "13 won.")]
    [True, True, False]
    """
    ending = "" if names_ages(text) else "['’]?s"
    return re.search(rf"\b{age}{ending}\b", text) is not None


def things_asked(question: str) -> set[str]:
    """Return the stems of the content words but for the age and whose it is."""
    return content_stems(OF_AGES.sub(" ", _LIGHT.sub(" ", AGE.sub(" ", question))))
