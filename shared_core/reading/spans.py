"""Find whether the times of a sentence are none that are asked for: how often, a deadline, the unit of a price."""

from __future__ import annotations

import re

from shared_core.citation.facts.dates import WEEKDAYS, dates_of, weekdays_of
from shared_core.reading.language import word_list
from shared_core.reading.told import tells_what_is_asked
from shared_core.support.regex import lazy_regex

_UNIT = (
    r"(?:seconds?|minutes?|mins?|hours?|days?|nights?|mornings?|afternoons?|evenings?|weeks?|weekends?|fortnights?"
    r"|months?|quarters?|years?|seasons?|visits?|sessions?)"
)
_SOME = rf"(?:\d[\d.]*(?:st|nd|rd|th)?|{'|'.join(word_list('numbers'))}|other|few|several)"
_CLOCK = r"(?:\d{1,2}(?:[:.]\d\d)?(?: ?[ap]\.?m\b\.?| ?o['’]clock)?|noon|midday|midnight)"
_OFTEN = lazy_regex(
    rf"\b(?:every|each)(?: {_SOME})? (?:{_UNIT}|(?:{'|'.join(WEEKDAYS)})s?)\b"
    rf"|\b(?:once|twice|{_SOME} times) (?:an?|per|each|every) {_UNIT}\b",
    re.IGNORECASE,
)
_RATE = lazy_regex(
    rf"(?:[£$€] ?\d[\d.,]*|\b\d[\d.,]* ?(?:[£$€]|euros?|dollars?|pounds?|pence|cents|p\b))"
    rf" (?:an?|per|each|every|for each) {_UNIT}\b",
    re.IGNORECASE,
)
_UNTIL = lazy_regex(
    rf"(?<!\d )\b(?:until|till|at|by|before|after) {_CLOCK}(?! ?(?:[-–]|to|and|until) ?\d)(?!\w)"
    rf"|\bon (?:the same|that|this) day\b",
    re.IGNORECASE,
)
_LONG_ASKED = lazy_regex(
    r"\bhow long (?:do|does|did|will|would|is|are|was|were|can|should|must)\b"
    r"(?!.*\b(?:lasts?|valid|good|terms?|between|without|before|apart|office|elected|need|needs|replac\w+|renew\w*)\b)",
    re.IGNORECASE,
)
_TAKES_ASKED = lazy_regex(
    r"\bhow long (?:do|does|did|will|would)\b (?!I\b|we\b|you\b).*\b(?:take|work)s?\b", re.IGNORECASE
)
_TAKES = lazy_regex(r"\b(?:takes?|taking|took|lasts?|lasting|durations?)\b", re.IGNORECASE)
_RENEWED = lazy_regex(r"\b(?:renew|replac|chang|(?:re-?)?elect|expir|appoint)\w*", re.IGNORECASE)
_DEADLINE = lazy_regex(
    rf"\W*(?:please )?(?:{'|'.join(sorted(word_list('imperatives') - {'allow', 'wait'}))})\b[^.;]*\bwithin\b",
    re.IGNORECASE,
)
_WHEN = lazy_regex(r"\W*(?:and |so )?when\b", re.IGNORECASE)
_SOME_TIME = lazy_regex(
    rf"\d|\b(?:{_UNIT}|week\w*|spring|summer|autumn|fall|winter|noon|midnight|midday|dawn|dusk|sun(?:rise|set)|time|date"
    r"|terms?|holidays?|christmas|easter|daily|weekly|monthly|yearly|annual\w*|always|never|now|soon|later|today|tomorrow"
    r"|until|till|before|after|since|during|while|when|whenever|once|if|unless|upon|as soon as|between|from|end|start"
    r"|beginning|every|first|second|third|last)\b",
    re.IGNORECASE,
)


def gives_no_span(question: str, sentence: str, above: str) -> bool:
    """Return whether a question asks how long something takes, and a sentence says only how often, or until when.

    >>> asked = "How long does it take to clean the pool?"
    >>> [gives_no_span(asked, said, "") for said in ("Clean it every second day.", "It takes two hours every day.")]
    [True, False]
    >>> [gives_no_span(asked, said, "") for said in ("Clean it within two days.", "It is clean within two days.")]
    [True, False]

    Args:
        above: the title and headings of its section.
    """
    if not _LONG_ASKED.search(question):
        return False
    takes = _TAKES_ASKED.search(question) is not None and not _TAKES.search(sentence)
    if takes and _DEADLINE.match(sentence):
        return True
    rest = _RATE.sub(" ", sentence) if _RENEWED.search(sentence) else _OFTEN.sub(" ", _RATE.sub(" ", sentence))
    rest = _UNTIL.sub(" ", rest) if takes else rest
    return rest != sentence and not tells_what_is_asked(question, rest, above)


def times_only_price(question: str, sentence: str) -> bool:
    """Return whether a question asks when something is, and a sentence has a time only as the unit of a price.

    >>> said = ("It costs £6 an evening.", "On Fridays it costs £6 an evening.")
    >>> [times_only_price("When can we use it?", one) for one in said]
    [True, False]
    """
    if not _WHEN.match(question):
        return False
    rest = _RATE.sub(" ", sentence)
    return rest != sentence and not (_SOME_TIME.search(rest) or weekdays_of(rest) or dates_of(rest))
