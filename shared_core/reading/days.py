"""Read a question for opening hours in the passages' words: "Mon–Fri", "Sat", "weekdays", "closed"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from shared_core.reading.features import STOP_WORDS, stem

_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ASKED = re.compile(
    r"(?<![\w-])(?:(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?|(?P<week>weekdays?)|(?P<end>weekends?))"
    r"(?![\w-]|['’]s|,? (?:the )?\d|,? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_MONTH_ASKED = re.compile(rf"(?<!\d )(?<!\d)(?:(?<=\bin )|(?<=\bof )|(?<=\bduring ))(?i:{_MONTH})(?![\w-]|,? \d)")
_MONTH_RANGE = re.compile(rf"(?<![\w-]){_MONTH}\.?(?: ?[-–—/] ?| (?:to|until|till|through) ){_MONTH}\b")
_COUNTED = re.compile(r"\b(?:first|second|third|fourth|last|alternate|other) \Z", re.IGNORECASE)
_DAY = (
    r"(?:[Mm]on(?:day)?s?|[Tt]ue(?:s(?:day)?)?s?|[Ww]ed(?:s|nesday)?s?|[Tt]hu(?:r(?:s(?:day)?)?)?s?|[Ff]ri(?:day)?s?"
    r"|[Ss]at(?:urday)?s?|[Ss]un(?:day)?s?|MON|TUES?|WEDS?|THU(?:RS?)?|FRI|SAT|SUN|Mo|Tu|We|Th|Fr|Sa|Su|M|F)"
)
_RANGE = re.compile(
    rf"(?<![\w-])({_DAY})\.?(?: ?[-–—/] ?| (?:to|thru|through|until|till) )({_DAY})(?:\.(?=[ ,:]))?(?![\w-])"
)
_ALONE = re.compile(
    r"(?<![\w-])((?:Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun|MON|TUES?|WED|THU(?:RS?)?|FRI|SAT|SUN)\.?)"
    rf"(?=\t| ?[:|–—-]| {{1,3}}[\d(]|(?:, ?| ?[&/+] ?| and ){_DAY}(?![\w-]))"
)
_WEEKDAYS = re.compile(r"(?<![\w-])weekdays?(?![\w-])", re.IGNORECASE)
_WEEKEND = re.compile(
    r"(?<![\w-])weekends?(?![\w-])|Saturdays? (?:and|&) Sundays?|Sat\.? ?(?:and|&|[-–—/+]) ?Sun", re.I
)
_NAMED_DAY = re.compile(rf"(?<![\w-])({_DAY})(?![\w-])")
_DAY_WORD = re.compile(rf"{_DAY}|weekdays?|weekends?|to|through|thru|until|till|and", re.IGNORECASE)
_HOURS_ASKED = re.compile(
    r"\b(?:hours|opening times?|what time|when|until when|how (?:late|early|long))\b.*\b(?:open|clos|hours|times?)"
    r"|\bhours\b",
    re.IGNORECASE,
)
_OF_HOURS = re.compile(
    r"open(?:ing|s)?|clos(?:e|es|ing)|hours?|times?|until|till|late|early|long|what|when|how|business"
)
_CLOCK = r"\d{1,2}(?:[:.]\d{2})? ?(?:[ap]\.?m\.?)?|noon|midnight"
_HOURS = re.compile(
    rf"[\W_]*((?:{_DAY}\b\.?|[Ww]eek(?:days?|ends?)|to|through|thru|and|[ \t,/&–—-]){{1,20}})[*_]*\s*[:–—-]?[\s*_]*"
    rf"(?:closed|(?:{_CLOCK})(?:\s?(?:[-–—]|to|until|till|and|,|&)\s?(?:{_CLOCK})){{1,5}})[\W_]*",
    re.IGNORECASE,
)
_OPEN_ASKED = re.compile(r"(\s*(?:is|are|will)\b.{1,200}?\bopen)(\b(?! or closed).{2,100})", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?]\s|\n")
_WORD = re.compile(r"[^\W_]{2,}")


def read_days(question: str, texts: Sequence[str]) -> str:
    """Return the question with the weekday that it names as the passages write it; itself where they do name it.

    Args:
        question: in English.
        texts: of the passages, with their titles.

    >>> read_days("When does the shop open on Wednesday?", ["Shop. Mon–Fri: 9am–6pm. Sat: 10am–4pm."])
    'When does the shop open on Mon–Fri?'
    >>> read_days("When does the shop open on Wednesday?", ["Shop. Mon–Tue: 9am–6pm."])
    'When does the shop open on Wednesday?'
    """
    found = list(_ASKED.finditer(question))
    if len(found) != 1 or _COUNTED.search(question, 0, found[0].start()):
        return question
    asked = found[0]
    days = {_NAMES.index(asked["day"].lower())} if asked["day"] else set(range(5)) if asked["week"] else {5, 6}
    return _written_as(question, asked, texts, lambda text: _way_of(asked, days, text))


def read_months(question: str, texts: Sequence[str]) -> str:
    """Return the question with its month as the range of months in which a passage has it; itself where none has.

    >>> read_months("When is the museum open in July?", ["Museum. April–October: 10–17. November–March: 11–16."])
    'When is the museum open in April–October?'
    >>> read_months("Who came on 4 July?", ["April–October: 10–17."])
    'Who came on 4 July?'
    """
    found = list(_MONTH_ASKED.finditer(question))
    if len(found) != 1:
        return question
    asked = found[0]
    month = _MONTHS.index(asked[1].lower()[:3])

    def way_of(text: str) -> str | None:
        if re.search(rf"\b{asked[1]}\b", text):
            return ""
        for match in _MONTH_RANGE.finditer(text):
            first, last = (_MONTHS.index(name.lower()[:3]) for name in match.groups())
            if first <= month <= last or (last < first and not last < month < first):
                return match[0]
        return None

    return _written_as(question, asked, texts, way_of)


def _written_as(question: str, asked: re.Match[str], texts: Sequence[str], way_of: Callable[[str], str | None]) -> str:
    """Return the question with what ``asked`` names as that text writes it that has most of its other words."""
    words = {stem(w) for w in _WORD.findall(question.casefold()) if w not in STOP_WORDS} - {stem(asked[0].casefold())}
    best, written = -1, ""
    for text in texts:
        way = way_of(text)
        if way is not None:
            held = len(words & {stem(w) for w in _WORD.findall(text.casefold())})
            if held > best:
                best, written = held, way
    return question[: asked.start()] + written + question[asked.end() :] if written else question


def ask_closed(question: str, texts: Sequence[str]) -> str:
    """Return whether something is open as a question for open or closed, if a sentence says that it is closed then.

    >>> ask_closed("Is the shop open on Sunday?", ["Open 9 to 6. Closed on Sundays."])
    'Is the shop open or closed on Sunday?'
    >>> ask_closed("Is the shop open on Monday?", ["Open 9 to 6. Closed on Sundays."])
    'Is the shop open on Monday?'
    """
    asked = _OPEN_ASKED.match(question)
    if asked is None:
        return question
    when = {stem(w) for w in _WORD.findall(asked[2].casefold()) if w not in STOP_WORDS}
    said = (line for text in texts for line in _SENTENCE.split(text) if "closed" in line.casefold())
    told = bool(when) and any(when <= {stem(w) for w in _WORD.findall(line.casefold())} for line in said)
    return f"{asked[1]} or closed{asked[2]}" if told else question


def gives_hours(question: str, line: str, around: str) -> bool:
    """Return whether a line is the hours of the very day that a question asks them for: "Sunday: 1 pm - 5 pm".

    Args:
        question: in the passages' words.
        line: a sentence of a passage.
        around: title, headings, source and text of the passage, which have the question's other words.

    >>> line = "- Sunday: 1:00 PM - 5:00 PM"
    >>> gives_hours("What are the library's opening hours on Sunday?", line, "Town library")
    True
    >>> gives_hours("When does the pool open on Sunday?", line, "Town library")
    False
    >>> gives_hours("When does the library open on Monday?", line, "Town library")
    False
    """
    asked, told = _HOURS_ASKED.search(question), _HOURS.fullmatch(line)
    if asked is None or told is None:
        return False
    days = [_days_in(text) for text in (question, told[1])]
    if not days[0] or not days[0] <= days[1]:
        return False
    words = {w for w in _WORD.findall(question.casefold()) if w not in STOP_WORDS and not _OF_HOURS.fullmatch(w)}
    return {stem(w) for w in words if not _DAY_WORD.fullmatch(w)} <= {stem(w) for w in _WORD.findall(around.casefold())}


def _days_in(text: str) -> set[int]:
    """Return the days that a text names, those of ranges too."""
    ranges = [covered for _, covered in _written(text) if len(covered) > 1]
    named = {_number(m[1]) for m in _NAMED_DAY.finditer(text)}
    return named.union(*ranges)


def _way_of(asked: re.Match[str], days: set[int], text: str) -> str | None:
    """Return how a text writes the days asked for; "" if as the question does, ``None`` if it does not name them."""
    named = asked["day"] or ("weekday" if asked["week"] else "weekend")
    if re.search(rf"\b{named}", text, re.IGNORECASE):
        return ""
    for written, covered in _written(text):
        if days <= covered:
            return written
    return None


def _written(text: str) -> Iterator[tuple[str, set[int]]]:
    """Yield the ranges and short names of days in a text, with the days that they cover, those of fewer days first."""
    for match in _ALONE.finditer(text):
        yield match[1], {_number(match[1])}
    for match in _RANGE.finditer(text):
        first, last = _number(match[1]), _number(match[2])
        if first != last:
            yield match[0], {day % 7 for day in range(first, last + 1 if last > first else last + 8)}
    for pattern, covered in ((_WEEKDAYS, set(range(5))), (_WEEKEND, {5, 6})):
        for match in pattern.finditer(text):
            yield match[0], covered


def _number(day: str) -> int:
    """Return the number of a day from Monday, 0, on."""
    return next(i for i, name in enumerate(_NAMES) if name.startswith(day.casefold()[:2].rstrip(".")))
