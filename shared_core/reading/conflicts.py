"""Find where a sentence says something else than the question asks: another value, the opposite, no negation.

A network reads "When does the small hall close?" and "The large hall closes at 10" as alike. What pins a question down
exactly is compared word by word here, and how much each conflict takes off a probability is fitted (``weights``).
"""

from __future__ import annotations

import re
from functools import lru_cache

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.opposites import side_of
from shared_core.citation.facts.quantities import quantities_of
from shared_core.citation.facts.tokens import fields_of
from shared_core.reading.ages import is_for_others
from shared_core.reading.editions import dates_other_year
from shared_core.reading.features import stem
from shared_core.reading.questions import asks_yes_or_no
from shared_core.reading.values import any_another, values_of
from shared_core.support.regex import lazy_regex

ABSENT, VALUE, OPPOSITE, NEGATION = CONFLICTS = ("absent", "value", "opposite", "negation")
"""The question's value is in no passage; the sentence gives another one; the opposite; lacks the negation."""

_LONG_WORD = lazy_regex(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PREFIXED = lazy_regex(r"(?>(?:(?!un(?:less|like)\Z)(?P<prefix>un-?|non-?))?)(?P<word>[^\W\d_]{4,})(?:-\w+)*")
_WORD = lazy_regex(r"[^\W\d_]+(?:-time)?")  # "part-time" has an opposite, "part" has none
_RANK = lazy_regex(r"\b(vice|deputy|assistant|associate|acting|interim|honorary)[- ]([a-z]{4,})", re.IGNORECASE)
_NOW = lazy_regex(r"\b(?:current|present) ([a-z]{4,})", re.IGNORECASE)
_LOOSE = {side[0] for word in ("before", "begin", "keep") if (side := side_of(word))}
"""Pairs that right answers exchange as often as wrong ones: a span of time tells begin and end, kept and deleted."""
_NEGATED = lazy_regex(r"\b(?:not|never|no|without|cannot|nor|neither|none|nobody|nothing)\b|n['’]t\b", re.IGNORECASE)
_NEGATING = lazy_regex(
    rf"{_NEGATED.pattern}|\b(?:hardly|rarely|seldom|scarcely|except\w*|unlike|lack\w*|fail\w*|refus\w*|few|little|only|instead"
    r"|rather|(?:all|any) others?|apolog\w+|stop(?:s|ped|ping)? \w+ing|but|however|although|though|despite|prevent\w*"
    r"|avoid\w*|absen\w*|den(?:y|ie)\w*|reject\w*|oppos\w*"
    r"|forbid\w*|prohibit\w*|clos\w+|miss\w*|less|aside|other than|un(?!der|it|i[ov]|til)\w{4,}"
    r"|in(?:ab|ac|ca|cor|com|dep|el|suf|val|eff|vis)\w+|im(?:m|p[oer])\w+|ir[r]\w+|dis\w+|non\w+|\w{3,}less)\b",
    re.IGNORECASE,
)
_DENIED = lazy_regex(
    r"(?:\b(?:not|never|no longer|cannot)|n['’]t) (?:(?:be|been|very|too|yet|fully|quite|properly) ){0,2}[^\W\d_]+",
    re.IGNORECASE,
)
"""A word that a text denies: "not dry" is no opposite of "wet"."""

_DECISION_ASKED = lazy_regex(  # "May I", "they may", but not the month
    r"^\W*May (?=[a-z]|I\b)|\bmay\b|\b(?i:allowed|approved|permitted|granted|decided|agreed|accepted)\b"
)
_WISH_ASKED = lazy_regex(r"\b(?:ask|propos|suggest|request|appl[iy]|want|hope|wish)", re.IGNORECASE)
_DECIDED = lazy_regex(
    r"\b(?:allow|approv|permit|grant|decid|agree|accept|reject|refus|den(?:y|ied)|declin|vot|carried|pass|turned down)",
    re.IGNORECASE,
)
_WISHED = lazy_regex(
    r"\b(?:asked (?:to|for|if|whether)|propos(?:ed|es)|suggest(?:ed|s)|requested|appl(?:ied|ies) (?:to|for)"
    r"|want(?:ed|s) to|hope[ds]? to|would like)\b",
    re.IGNORECASE,
)
_PERSON = r"[A-Z][\w'’.-]*\w(?: [A-Z][\w'’.-]*\w){0,3}"
_NAME_WORD = lazy_regex(r"[A-Z]\w+")
_WHOSE_WORDS = lazy_regex(
    rf"\b(?:do|does|did) (?P<who>{_PERSON}) (?:(?:really|also|not|actually) )?(?:say|think|want|like|suggest|propose"
    rf"|ask|write|mention|report|answer|reply|believe|feel|hope|promise|offer|object|complain|recommend|prefer|expect)\b"
    rf"|\b(?P<of>{_PERSON})['’]s? (?:opinion|view|suggestion|proposal|answer|reply|question|idea|complaint)\b"
    rf"|\b(?i:according to) (?P<by>{_PERSON})"
)
# "[2024-05-14 15:12] Sofia Lindqvist: " before an entry of a chat; in a transcript without the time.
_SPEAKER = lazy_regex(rf"^(?P<stamp>[^\w\n]*\d[\d\W]{{2,30}}(?:[AP]M\W{{1,4}})?)?(?P<name>{_PERSON}): ", re.MULTILINE)
_TIME_ASKED = lazy_regex(r"\bwhen\b|\b(?:what|which) (?:time|date|day|year)\b", re.IGNORECASE)
_STATE = 2  # words at most of a field that names a state
_SIZES = {
    "deep": "deep|depth",
    "wide": "wide|width|broad|breadth|across",
    "high": "high|height|tall|altitude|elevation",
    "long": "long|length",
    "thick": "thick|thickness",
}
_SIZE_ASKED = lazy_regex(
    r"\bhow (?:very )?(deep|wide|broad|high|tall|long|thick)\b(?! (?:ago|did|does|do|will|can|has|have|had))"
    r"|\bwhat (?:is|was) the (depth|width|breadth|height|length|thickness)\b",
    re.IGNORECASE,
)
_SIZE_GIVEN = lazy_regex(
    r"\d\s?(?:[a-z]+|[\"'′″])\s(deep|wide|broad|high|tall|long|thick|across)\b"
    r"|\b(depth|width|breadth|height|length|thickness|altitude|elevation)\b[^.;]*?\d",
    re.IGNORECASE,
)


_ASKS_TIME = r"\b(?:what time|when|at what (?:hour|time))\b.*\b"
_END_ASKED = lazy_regex(  # not when something is shut, which asks for the days
    _ASKS_TIME + r"(?:ends?|finish(?:es)?|closes?|stops?|over|shuts|(?:do|does|did|will|to)\b.*\bshut)\b", re.IGNORECASE
)
_START_ASKED = lazy_regex(_ASKS_TIME + r"(?:starts?|begins?|opens?)\b", re.IGNORECASE)
_OPEN_OR_CLOSE = lazy_regex(r"\b(?:open|close|shut)s?\b", re.IGNORECASE)
_END_GIVEN = lazy_regex(
    r"\b(?:end|finish|clos|shut|stop|last|until|till|over\b|(?:by|to|through) (?:\d|noon|midnight)|out\b|leav|depart"
    r"|late)|\d\s?[ap]?m?\s?[-–—]\s?\d",
    re.IGNORECASE,
)
_START_GIVEN = lazy_regex(r"\b(?:start|beg[iau]n|open|from\b|since\b|resum|commenc)", re.IGNORECASE)
_LEAVE_ASKED = lazy_regex(_ASKS_TIME + r"(?:leaves?|departs?|sets? (?:off|out))\b", re.IGNORECASE)
_ARRIVE_ASKED = lazy_regex(
    _ASKS_TIME + r"(?:arrives?|(?:be|gets?|comes?) (?:back|home)|gets? (?:in|there|here))\b", re.IGNORECASE
)
_LEAVE_GIVEN = lazy_regex(
    r"\b(?:leav|left\b|depart|dep\b|sets? (?:off|out)\b|start|from\b|go\b|goes\b|sail|runs?\b)", re.IGNORECASE
)
_ARRIVE_GIVEN = lazy_regex(
    r"\b(?:arriv|arr\b|back\b|home\b|return|(?:get|come|be)s? (?:in|there|here)\b)", re.IGNORECASE
)
_OTHER_ENDS = (
    (_START_ASKED, _START_GIVEN, _END_GIVEN),
    (_LEAVE_ASKED, _LEAVE_GIVEN, _ARRIVE_GIVEN),
    (_ARRIVE_ASKED, _ARRIVE_GIVEN, _LEAVE_GIVEN),
)
"""Questions for one end, words of sentences that give it, and of those that give the other end."""


def can_conflict(question: str) -> bool:
    """Return whether a question asks for something exact: a value, a word that has an opposite, a negation."""
    asked = (_NEGATED, _SIZE_ASKED, _RANK, _NOW, _DECISION_ASKED)
    return bool(values_of(question) or _sides(question)) or any(pattern.search(question) for pattern in asked)


def find_conflicts(question: str, quote: str, above: str) -> frozenset[str]:
    """Return which of ``VALUE``, ``OPPOSITE`` and ``NEGATION`` a quote conflicts with a question in.

    Args:
        above: title and headings of its passage; the sentence before tells too little of what it is about.

    >>> sorted(find_conflicts("Which hall does not close in winter 2021?", "In summer 2020 the small hall shut.", ""))
    ['negation', 'opposite', 'value']
    """
    found = {
        VALUE: any_another(values_of(question), quote, above)
        or is_for_others(question, quote)
        or dates_other_year(question, quote, above),
        OPPOSITE: gives_opposite(question, quote, above)
        or gives_other_dimension(question, quote)
        or prefixes_otherwise(question, quote, above)
        or dates_opposite(question, quote)
        or times_other_end(question, quote)
        or tells_wish(question, quote)
        or lacks_rank(question, f"{above}\n{quote}"),
        NEGATION: lacks_negation(question, quote),
    }
    return frozenset(name for name, holds in found.items() if holds)


def gives_opposite(question: str, quote: str, above: str = "") -> bool:
    """Return whether a quote has the opposite of a word of the question, but neither it nor a heading has the word.

    >>> gives_opposite("What is the largest lake?", "Its smallest lake is Lake Arn.")
    True
    >>> gives_opposite("What is the largest lake?", "It is larger than the smallest lake, and the largest one.")
    False
    >>> gives_opposite("Why are the plates wet?", "The plates are not dry.")
    False
    """
    question, given = _DENIED.sub(" ", question), _DENIED.sub(" ", quote)
    if _END_ASKED.search(question) or _START_ASKED.search(question):
        question = _OPEN_OR_CLOSE.sub(" ", question)  # "open until 6" tells when it closes
    return _turns(question, given, f"{quote}\n{above}")


def prefixes_otherwise(question: str, quote: str, above: str = "") -> bool:
    """Return whether a quote has "unpaid" where a question has "paid", or the reverse, and no heading has the word.

    To a question for yes or no, and to one with "not", that may be the answer.

    >>> leave = "You have 5 days of unpaid leave."
    >>> prefixes_otherwise("How long is paid leave?", leave), prefixes_otherwise("Is leave paid?", leave)
    (True, False)
    """
    if asks_yes_or_no(question) or _NEGATED.search(question):
        return False
    asked, given, named = (_parts_of_words(text) for text in (question, quote, f"{quote}\n{above}"))
    return any((word, not without) in given and (word, without) not in named for word, without in asked)


def _parts_of_words(text: str) -> frozenset[tuple[str, bool]]:
    """Return the stem of each longer word without "un-" or "non-", and whether it had one."""
    found = (_PREFIXED.fullmatch(word) for word in _LONG_WORD.findall(text.lower()))
    return frozenset((stem(m["word"]), m["prefix"] is not None) for m in found if m)


def gives_other_dimension(question: str, quote: str) -> bool:
    """Return whether a question asks for one dimension of a thing, and a quote measures only others.

    >>> gives_other_dimension("How wide is Lake Suhr?", "Lake Suhr is 61 metres deep.")
    True
    >>> gives_other_dimension("How wide is Lake Suhr?", "It is 61 m deep and 2 km across.")
    False
    """
    if not (asked := _SIZE_ASKED.search(question)):
        return False
    given = [m[1] or m[2] for m in _SIZE_GIVEN.finditer(quote)]
    own = next(words for words in _SIZES.values() if re.fullmatch(words, asked[1] or asked[2], re.IGNORECASE))
    return bool(given) and not re.search(rf"\b(?:{own})\b", quote, re.IGNORECASE)


def dates_opposite(question: str, quote: str) -> bool:
    """Return whether a time is asked of what a record of fields dates only the opposite of.

    >>> dates_opposite("When was ticket 7 closed?", "Ticket: 7; Opened: 2024-01-09; Status: closed")
    True
    >>> dates_opposite("When was ticket 7 closed?", "Ticket: 7; Opened: 2024-01-09; Closed: 2024-02-01")
    False
    """
    fields = fields_of(quote)
    if len(fields) < 2 or not _TIME_ASKED.search(question):
        return False
    # "Status: closed" gives no time, but "Notes: closed on 1 February" does
    told = (value for _, value in fields if _is_time(value) or len(value.split()) > _STATE)
    named = " ".join([*(label for label, _ in fields), *told])
    return _turns(question, " ".join(label for label, value in fields if _is_time(value)), named)


def times_other_end(question: str, quote: str) -> bool:
    """Return whether a question asks when something ends, and a quote times only its beginning; or the reverse.

    So are leaving and arriving two ends.

    >>> [times_other_end("What time does it finish?", text) for text in ("We start at 8am.", "From 8am to 9am.")]
    [True, False]
    >>> [times_other_end("When does it open?", text) for text in ("The café closes at 5 pm.", "At 5 pm")]
    [True, False]
    >>> [times_other_end(f"When does the bus {acts}?", "The bus is back at 5 pm.") for acts in ("leave", "get home")]
    [True, False]
    """
    end = _END_ASKED.search(question) is not None
    others = [(own, other) for asked, own, other in _OTHER_ENDS if asked.search(question)]
    if end + len(others) != 1 or len([q for q in quantities_of(quote) if q.dimension == "clock"]) != 1:
        return False
    if end:
        return not _END_GIVEN.search(quote)
    return any(other.search(quote) and not own.search(quote) for own, other in others)


def _turns(question: str, given: str, named: str) -> bool:
    """Whether words given are the opposite of a word of the question, whose side none of those named has."""
    asked = _sides(question)
    if not asked:
        return False
    opposite, known = _sides(given), _sides(named)
    return any(len(sides) == 1 and pair in opposite and not sides & known[pair] for pair, sides in asked.items())


def _is_time(value: str) -> bool:
    """Whether a field has one date, or one time of day or year; a span of time tells both of its ends."""
    times = [q for q in quantities_of(value) if q.is_year or q.dimension == "clock"]
    return len(dates_of(value) or times) == 1


def lacks_rank(question: str, text: str) -> bool:
    """Return whether a question asks for someone of a rank, or of today, and a text names another holder of the office.

    >>> lacks_rank("Who is the vice chair?", "Ann Lee (chair)"), lacks_rank("Who is vice-chair?", "Vice chair: Bo Day")
    (True, False)
    >>> lacks_rank("Who is the current director?", "Its first director was Eva Lind.")
    True
    """
    if asked := _RANK.search(question):
        rank, office = asked.groups()
        return bool(re.search(rf"\b{office}", text, re.I)) and not re.search(rf"\b{rank}\b", text, re.I)
    if asked := _NOW.search(question):
        return bool(re.search(rf"\b(?:first|former|original|previous|past) {asked[1]}\b", text, re.I))
    return False


def tells_wish(question: str, quote: str) -> bool:
    """Return whether a question asks what was decided or is allowed, and a quote tells only what someone wished.

    >>> tells_wish("How many may they keep?", "They asked to keep two."), tells_wish("How many may they keep?", "Two.")
    (True, False)
    """
    if not _DECISION_ASKED.search(question) or _WISH_ASKED.search(question):
        return False
    return bool(_WISHED.search(quote) and not _DECIDED.search(quote))


def is_said_by_another(question: str, text: str, start: int, end: int) -> bool:
    """Return whether a question asks what a person said, and a sentence of a chat or transcript is another's.

    >>> chat = "[09:00] Ann Lee: It is ugly.\\n[09:01] Bo Day: I like it."
    >>> [is_said_by_another(f"What does {name} think of it?", chat, 0, 28) for name in ("Ann", "Bo", "Cy")]
    [False, True, True]
    """
    if not (asked := _WHOSE_WORDS.search(question)):
        return False
    person = set(_NAME_WORD.findall(asked["who"] or asked["of"] or asked["by"]))
    entries = list(_SPEAKER.finditer(text))
    before = [entry for entry in entries if entry.start() <= start]
    if not before or "\n\n" in text[before[-1].end() : start] or person & set(_NAME_WORD.findall(text[start:end])):
        return False
    speakers = set(_NAME_WORD.findall(before[-1]["name"]))
    known = before[-1]["stamp"] or any(person & set(_NAME_WORD.findall(entry["name"])) for entry in entries)
    return bool(known) and not person & speakers


def lacks_negation(question: str, quote: str) -> bool:
    """Return whether a question is negated, and a quote neither negates nor contrasts, not even by a prefix.

    >>> lacks_negation("Who did not vote?", "The Lyngdals voted."), lacks_negation("Who can't vote?", "Few may vote.")
    (True, False)
    """
    return bool(_NEGATED.search(question)) and not _NEGATING.search(quote)


@lru_cache(maxsize=4096)
def _sides(text: str) -> dict[int, frozenset[int]]:
    """Map the pairs of opposites that a text has words of to the sides it names."""
    found: dict[int, frozenset[int]] = {}
    for word in _WORD.findall(text.lower()):
        side = side_of(word)
        if side and side[0] not in _LOOSE:
            found[side[0]] = found.get(side[0], frozenset()) | {side[1]}
    return found
