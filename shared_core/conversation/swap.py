"""Ask the last question of another number, version or day: "And Windows 10?", "What about the 500?", "And Sunday?"."""

from __future__ import annotations

import re

from shared_core.citation.facts.dates import MONTH_NAMES, WEEKDAYS
from shared_core.conversation.numbered import WORDS, YEAR, is_number
from shared_core.conversation.phrases import Phrase, phrases_of, words_of
from shared_core.support.regex import lazy_regex

Swapped = tuple[str, list[frozenset[str]]]
"""A question, and the words of what was put into it."""

_PREPOSITION = r"(?:(?:in|on|at|for|with|of|from|to|about|by|under|inside)\s+)?"
_BARE = lazy_regex(
    rf"{_PREPOSITION}(?:the\s+)?(?:(?:{'|'.join(sorted(WORDS['numbers of']))})\.?\s+)?#?(?P<number>\d\S*|[A-Z])"
    rf"(?:\s+(?:{'|'.join(sorted(WORDS['numbers of']))}|ones?))?\Z",
    re.I,
)
_NAMED = lazy_regex(rf"{_PREPOSITION}(?:the\s+)?", re.I)
_NUMBER = lazy_regex(r"\b\d[\d,.]*\b")
_DAY = rf"(?:{'|'.join(WEEKDAYS)})s?"
_MONTH = rf"(?:{'|'.join(MONTH_NAMES)})"
_DATE = lazy_regex(
    rf"(?:(?P<day>{_DAY})|(?P<month>{_MONTH}))(?:\s+(?:mornings?|afternoons?|evenings?|nights?|\d+))?\Z", re.I
)
_OLD_DAY, _OLD_MONTH = lazy_regex(rf"\b{_DAY}\b", re.I), lazy_regex(rf"\b{_MONTH}\b")
_SINGULAR = lazy_regex(r"(?:who|when)\s+(?:is|was)\s+", re.I)
_PLURAL = lazy_regex(r"[a-z][a-z-]*[^sui\W]s\b")


def other_number(said: str, last: str) -> Swapped | None:
    """Ask the last question of what has another number: of a name, or a number that stands alone, as a year.

    >>> other_number("the 500", "How heavy is the AquaLift 300?")[0]
    'How heavy is the AquaLift 500'
    >>> other_number("of version 3.11", "When was Python 3.12 released?")[0]
    'When was Python 3.11 released'
    >>> other_number("flat 12", "Does Mara live in flat 14?")[0]
    'Does Mara live in flat 12'
    """
    stem = last.rstrip(" ?.")
    names = [p for p in phrases_of(last) if p.numbers]
    if bare := _BARE.match(said):
        number = bare["number"].rstrip(".,")
        alike = [found for p in names for found in _numbers_in(p) if _alike(found.group(), number)]
        loose = [m for m in _NUMBER.finditer(stem) if not any(p.start <= m.start() < p.end for p in names)]
        if alike and not (bool(YEAR.match(number)) and any(YEAR.match(m.group()) for m in loose)):
            old = alike[-1]
            name = next(p for p in names if p.start <= old.start() < p.end)
            words = name.words - {old.group().lower()} | {number.lower()}
            return f"{stem[: old.start()]}{number}{stem[old.end() :]}", [words]
        if loose and len(loose) == 1 and number[:1].isdigit() and _alike(loose[0].group(), number):
            return stem[: loose[0].start()] + number + stem[loose[0].end() :], [frozenset(words_of(number))]
        return None
    new = next(iter(phrases_of(said)), None) or next(iter(phrases_of(f"of {said}")), None)
    if new is None or not new.numbers or _NAMED.sub("", said, count=1) != new.text:
        return None
    heads = [p for p in names if (p.words - p.numbers) & (new.words - new.numbers)]
    others = heads or [p for p in names if p.text[0].islower() == new.text[0].islower()]
    if not others:
        return None
    target = others[-1]
    text = new.text if heads or " the " not in f" {said}" else f"the {new.text}"
    before = last[: target.start] if heads or not target.article else last[: target.start - len("the ")]
    return f"{before}{text}{stem[target.end :]}", [new.words]


def _numbers_in(name: Phrase) -> list[re.Match[str]]:
    """List the places in the question of the numbers in a name."""
    words = re.compile(r"[^\W_][^\s#()]*").finditer(" " * name.start + name.text)
    return [m for m in words if is_number(m.group())]


def _alike(old: str, new: str) -> bool:
    """Whether one number may take the other's place: years that of years, letters that of letters."""
    return bool(YEAR.match(old)) == bool(YEAR.match(new)) and old.isalpha() == new.isalpha()


def other_date(said: str, last: str) -> Swapped | None:
    """Ask the last question of another day or month, which is no thing: "What about Thursday?".

    >>> other_date("Thursday", "When is the pool open?")[0]
    'When is the pool open on Thursday'
    >>> other_date("Sunday", "When is the pool open on Thursday?")[0]
    'When is the pool open on Sunday'
    """
    found = _DATE.match(said)
    if found is None:
        return None
    stem = last.rstrip(" ?.")
    old = list((_OLD_DAY if found["day"] else _OLD_MONTH).finditer(stem))
    topics = [frozenset(word.removesuffix("s") if found["day"] else word for word in words_of(said))]
    if old:
        return stem[: old[-1].start()] + said + stem[old[-1].end() :], topics
    return f"{stem} {'on' if found['day'] else 'in'} {said}", topics


def other_value(said: str, last: str) -> str:
    """Ask for something else of the same name, where a price, a date or another value was asked for; empty if not.

    >>> other_value("the deposit", "What is flat 12's rent?")
    "What is flat 12's deposit"
    >>> other_value("the weight", "What is the price of the Nova 7?")
    'What is the weight of the Nova 7'
    """
    stem = last.rstrip(" ?.")
    noun, found = _THE_NOUN.match(said), _VALUE_OF.match(stem)
    if noun is None or found is None or not phrases_of(last):
        return ""
    old = "noun" if found["noun"] else "whole"
    if not {noun[1].split()[-1], found[old].split()[-1]} & WORDS["values"]:
        return ""
    return stem[: found.start(old)] + noun[1] + stem[found.end(old) :]


_THE_NOUN = lazy_regex(r"(?:the|its|his|her|their)\s+([a-z][a-z-]*(?:\s[a-z-]+)?)\Z")
_VALUE_OF = lazy_regex(
    r".*(?:['’]s?\s(?P<noun>[a-z][a-z -]*)\Z)|"
    r"(?:what|how \w+)\s(?:is|are|was|were)\sthe\s(?P<whole>[a-z][a-z -]*?)\s(?:of|for|in)\s.*\Z",
    re.I,
)


def stands_in(question: str, said: str) -> bool:
    """Whether words can stand where they were put: "pets" cannot in "Who is pets?".

    >>> stands_in("Who is pets?", "pets"), stands_in("Who is the chair?", "the chair")
    (False, True)
    """
    verb = _SINGULAR.match(question)
    return not (verb and question.startswith(said, verb.end()) and _PLURAL.match(said))
