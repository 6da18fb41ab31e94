"""Compare the age that a question names with the ages that prices and rules are for: "Youth (5-17)", "under 3"."""

from __future__ import annotations

import math
import re

from shared_core.citation.facts.tokens import as_matched
from shared_core.reading.questions import asks_yes_or_no, content_stems

_WORDS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen",
)  # fmt: skip
_SOMEONE = (
    r"(?:(?:my|our) (?:\w+ )?(?:son|daughter|child|kid|boy|girl|baby|toddler|grand\w+|mother|mum|mom|father|dad"
    r"|gran|granny|nan|parents?|husband|wife|partner|brother|sister|nephew|niece|aunt|uncle|friend|cousin)|he|she)"
)
_AGE_FOLLOWS = (  # else it is a measure: "I'm 5 feet tall", "she is 2 weeks late"
    r"(?=\W*$|[,.;:!?)–—]| - | (?:and (?!an?\b|half)|but|so|now|today|next|how|what|when|where|which|who|can|could"
    r"|may|do|does|is|am|are|should|will|would)\b)(?![,.]\d)"
)
AGE = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(_WORDS)})[- ]?(?:years?|yrs?)?[- ]?(?:old|olds|y/?o)\b|\bage(?:d| of)? (\d{{1,3}})\b"
    rf"|\b(?:I['’]?m|I am|{_SOMEONE}(?:['’]s| is)) (?:(?:only|just|now|already|nearly|over|turning) ){{0,2}}"
    rf"(\d{{1,3}}|{'|'.join(_WORDS[1:])})\b{_AGE_FOLLOWS}"
    rf"|\b(?:I|{_SOMEONE}) (?:(?:will|just|has|have) )?turn(?:s|ed)? (\d{{1,3}})\b{_AGE_FOLLOWS}"
    r"|\b(?:retire|vote|marry|get married|enrol+|qualify) at (\d{1,2})\b(?![:.]\d| ?[ap]\.?m| ?o['’]clock|\d)",
    re.IGNORECASE,
)
_OF_AGES = re.compile(
    r"\bage[sd]?\b|\byears?\b|\byrs?\b|\bchild(?:ren)?\b|\bkids?\b|\byouths?\b|\badults?\b|\bseniors?\b|\bjuniors?\b|\binfants?\b"
    r"|\b(?:under|over)[- ]\d{1,2}s\b|\bteens?\b|\bstudents?\b|\bpensioners?\b|\btoddlers?\b",
    re.IGNORECASE,
)
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
_NO_AGE = r"(?!\s?(?:%|minutes?|days?|hours?))"
_RANGE = re.compile(
    r"(?<![\d.,:$£€/-])(?P<first>\d{1,2})\s?(?:-{1,3}|–|—|to)\s?(?P<last>\d{1,3})(?![\d.,:%/-]*\d|\s?(?:[ap]\.?m\b|%))"
    rf"|\b(?:under|below|younger than|less than)(?: the age of)?[- ](?P<under>\d{{1,2}})s?\b{_NO_AGE}"
    r"|\b(?:up to|until)(?: the age of)? (?P<upto>\d{1,2})\b(?=\s?(?:years?|yrs?|\)|,|;|$))"
    rf"|\b(?:over|above|older than)(?: the age of)?[- ](?P<over>\d{{1,2}})s?\b{_NO_AGE}"
    r"|\bfrom (?:(?:the )?age (?:of )?(?P<age>\d{1,2})|(?P<years>\d{1,2}) (?:years?|yrs?)(?: of age)?)\b"
    r"(?! ?(?:to|until|till|ago|later|-|–)\b| ?[-–—])"
    r"|(?<![\d.$£€])(?P<plus>\d{1,2})\s?(?:\+|(?:years? )?(?:and|or|&) (?:over|older|above|up)\b)"
    r"|(?<![\d.$£€])(?P<and_under>\d{1,2})\s?(?:years? )?(?:and|or|&) (?:under|younger|below)\b",
    re.IGNORECASE,
)


def age_asked(question: str) -> int | None:
    """Return the age in years that a question names; ``None`` if it names none, or several.

    >>> [age_asked(text) for text in ("What does my 10 year old pay?", "I'm 70, is it free?", "Who is old?")]
    [10, 70, None]
    """
    found = {next(filter(None, m.groups())) for m in AGE.finditer(question)}
    if len(found) != 1:
        return None
    (age,) = found
    return int(age) if age.isdigit() else _WORDS.index(as_matched(age)) + 1


def is_for_others(question: str, text: str) -> bool:
    """Return whether a text gives something for people of certain ages, and the question's age is none of them.

    >>> [is_for_others("What does my 10 year old pay?", text) for text in ("Youth (5-17): $65", "Adult (18+): $55")]
    [False, True]
    >>> is_for_others("What does my 10 year old pay?", "Open 9-5, and parking is $15.")
    False
    """
    age = age_asked(question)
    if age is None or not _OF_AGES.search(text) or decides_for_age(question, text):
        return False
    found = [_ages(match) for match in _RANGE.finditer(text)]
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
    if age is None or not asks_yes_or_no(question) or not _OF_AGES.search(text):
        return False
    found = [_ages(match) for match in _RANGE.finditer(text)]
    if not found or not (_RESTRICTS.search(text) or any(first <= age <= last for first, last in found)):
        return False
    wanted = things_asked(question)
    held = wanted & content_stems(text.replace("-", " "))
    return bool(wanted) and 2 * len(held) >= len(wanted)


def charges_for_age(question: str, text: str, around: str) -> bool:
    """Return whether a question asks if or how much people of an age pay, and a text says what people of that age do.

    Args:
        question: as asked.
        text: a sentence of a passage.
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
    if not _OF_AGES.search(text) or not any(a <= age <= b for a, b in map(_ages, _RANGE.finditer(text))):
        return False
    asked = _ASKED_OF_SUM.sub(" ", _SUM.sub(" ", _ASKS_SUM.sub(" ", question)))
    return things_asked(asked) <= content_stems(f"{around} {text}")


def ages_of(text: str) -> tuple[float, float] | None:
    """Return the lowest and the highest age of the only range in a text; ``None`` if there is none, or several.

    >>> ages_of("Child (5–15)"), ages_of("Under 5"), ages_of("Family (2 adults)")
    ((5, 15), (0, 4), None)
    """
    found = [_ages(match) for match in _RANGE.finditer(text)]
    return found[0] if len(found) == 1 else None


def names_ages(text: str) -> bool:
    """Return whether a text has a word for people of some age, or for ages: "child", "pensioners", "years"."""
    return _OF_AGES.search(text) is not None


def things_asked(question: str) -> set[str]:
    """Return the stems of the content words but for the age and whose it is."""
    return content_stems(_OF_AGES.sub(" ", _LIGHT.sub(" ", AGE.sub(" ", question))))


def _ages(match: re.Match[str]) -> tuple[float, float]:
    """Return the lowest and the highest age that a range covers."""
    given = {name: int(value) for name, value in match.groupdict().items() if value is not None}
    if "first" in given:
        return given["first"], given["last"]
    (name, value), *_ = given.items()
    return {
        "under": (0, value - 1),
        "upto": (0, value),
        "and_under": (0, value),
        "over": (value, math.inf),
        "plus": (value, math.inf),
        "age": (value, math.inf),
        "years": (value, math.inf),
    }[name]
