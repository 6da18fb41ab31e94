"""Read a question for opening hours in the passages' words: "Mon–Fri", "Sat", "weekdays", "closed"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from shared_core.citation.facts.dates import MONTHS, WEEKDAYS, Date, dates_of, is_every_day, same_date, weekdays_of
from shared_core.citation.facts.periods import MONTH, SEASONS, Period, is_of_the_south, periods_of
from shared_core.citation.facts.tokens import as_matched, fields_of
from shared_core.reading.features import stem
from shared_core.reading.places import above, source_of
from shared_core.reading.questions import content_stems, words
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_ASKED = lazy_regex(
    rf"(?<![\w-])(?:(?P<day>{'|'.join(WEEKDAYS)})s?|(?P<week>weekdays?)|(?P<end>weekends?))"
    rf"(?![\w-]|['’]s|,? (?:the )?\d|,? (?:{'|'.join(MONTHS)}))",
    re.IGNORECASE,
)
_MONTH_ASKED = lazy_regex(
    rf"(?<!\d )(?<!\d)(?:(?<=\bin )|(?<=\bof )|(?<=\bduring ))(?i:({MONTH}))(?![\w-]|,? \d)"
    rf"|(?:(?<=\bin )|(?<=\bduring )|(?<=\bover ))(?:the )?(?P<season>{'|'.join(SEASONS)})(?=\W*$|,)",
    re.IGNORECASE,
)
_ASKS_PAST = lazy_regex(r"\b(?:was|were|did)\b", re.IGNORECASE)
"""What happened once, which no period of each year covers."""
_HOLIDAYS = {
    "christmas eve": (24, "dec"),
    "christmas": (25, "dec"),
    "boxing day": (26, "dec"),
    "new year's eve": (31, "dec"),
    "new year's day": (1, "jan"),
    "valentine's day": (14, "feb"),
    "halloween": (31, "oct"),
}
_HOLIDAY = lazy_regex(
    rf"(?:(?<=\bon )|(?<=\bat )|(?<=\bover )|(?<=\bduring ))({'|'.join(_HOLIDAYS)})(?: day)?(?=\W*$|,)", re.IGNORECASE
)
_DAY_NUMBERS = r"\d{1,2}(?:st|nd|rd|th)?(?:(?:, ?| ?& ?| ?and | ?or | ?[-–—] ?| ?to )+\d{1,2}(?:st|nd|rd|th)?){0,8}"
_DAYS_OF_MONTH = lazy_regex(
    rf"\b(?P<before>{_DAY_NUMBERS}) (?:of )?(?i:({MONTH}))\b|(?i:({MONTH}))\.? (?P<after>{_DAY_NUMBERS})(?![\d:])"
)
_COUNTED = lazy_regex(r"\b(?:first|second|third|fourth|last|alternate|other) \Z", re.IGNORECASE)
_DAY = (
    r"(?:[Mm]on(?:day)?s?|[Tt]ue(?:s(?:day)?)?s?|[Ww]ed(?:s|nesday)?s?|[Tt]hu(?:r(?:s(?:day)?)?)?s?|[Ff]ri(?:day)?s?"
    r"|[Ss]at(?:urday)?s?|[Ss]un(?:day)?s?|MON|TUES?|WEDS?|THU(?:RS?)?|FRI|SAT|SUN|Mo|Tu|We|Th|Fr|Sa|Su|M|F)"
)
_ALONE = lazy_regex(
    r"(?<![\w–—-])(?<![–—-] )(?<! to )"
    r"((?:Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun|MON|TUES?|WED|THU(?:RS?)?|FRI|SAT|SUN)\.?)"
    rf"(?=\t| ?[:|]| ?[–—-] ?\d| {{1,3}}[\d(]|(?:, ?| ?[&/+] ?| and ){_DAY}(?![\w-]))"
)
_SHORT = lazy_regex(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:s|rs|urs)?")
_BOTH_DAYS = lazy_regex(r"Saturdays? (?:and|&) Sundays?|Sat\.? ?(?:and|&|[/+]) ?Sun")
_DAY_WORD = lazy_regex(rf"{_DAY}|weekdays?|weekends?|to|through|thru|until|till|and", re.IGNORECASE)
_HOURS_ASKED = lazy_regex(
    r"\b(?:hours|opening times?|what time|when|until when|how (?:late|early|long))\b.*\b(?:open|clos|hours|times?)"
    r"|\bhours\b",
    re.IGNORECASE,
)
_OF_HOURS = lazy_regex(
    r"open(?:ing|s)?|clos(?:e|es|ing)|hours?|times?|until|till|late|early|long|what|when|how|business"
)
_CLOCK = r"\d{1,2}(?:[:.]\d{2})? ?(?:[ap]\.?m\.?)?|noon|midnight"
_HOURS = lazy_regex(
    rf"[\W_]*((?:{_DAY}\b\.?|[Ww]eek(?:days?|ends?)|to|through|thru|and|[ \t,/&–—-]){{1,20}})[*_]*\s*[:–—-]?[\s*_]*"
    rf"(?:closed|(?:{_CLOCK})(?:\s?(?:[-–—]|to|until|till|and|,|&)\s?(?:{_CLOCK})){{1,5}})[\W_]*",
    re.IGNORECASE,
)
_TIMES = lazy_regex(
    rf"\b(?:{_CLOCK})\s?(?:[-–—]|to|until|till|and)\s?(?:{_CLOCK})|\b(?:at|until|till|from) (?:{_CLOCK})", re.IGNORECASE
)
_OPEN_ON = lazy_regex(
    r"\W*(?:(?:is|are|will)\b(?P<what>.{1,80}?)\b(?:be )?open|do(?:es)?\b(?P<who>.{1,80}?)\bopen(?: up)?)"
    rf"\s+(?:on )?(?:an? )?(?P<day>{'|'.join(WEEKDAYS)})s?(?:,? (?:in|during|over) (?P<when>[^?]{{3,60}}?))?\W*$",
    re.IGNORECASE,
)
_DAY_ASKED = lazy_regex(
    rf"\W*(?:can|could|may|is|are|do|does|will)\b.{{3,120}}\b(?:on|an?|any) (?P<day>{'|'.join(WEEKDAYS)})s?\b",
    re.IGNORECASE,
)
_SAYS_OPEN = lazy_regex(r"\b(?:(?:is|are)\s+(?:also\s+|only\s+)?(?:open|closed)|opens|open|closed)\b", re.IGNORECASE)
_SEVERAL = 3  # days of the week, which exclude others
_OPEN_ASKED = lazy_regex(r"(\s*(?:is|are|will)\b.{1,200}?\bopen)(\b(?! or closed).{2,100})", re.IGNORECASE)
_SENTENCE = lazy_regex(r"[.!?]\s|\n")


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
    days = {WEEKDAYS.index(as_matched(asked["day"]))} if asked["day"] else set(range(5)) if asked["week"] else {5, 6}
    return _written_as(question, asked, texts, lambda text: _way_of(asked, days, text))


def read_months(question: str, texts: Sequence[str]) -> str:
    """Return the question with its month or season as the period in which a passage has it; itself where none has.

    >>> read_months("When is the museum open in July?", ["Museum. April–October: 10–17. November–March: 11–16."])
    'When is the museum open in April–October?'
    >>> read_months("Is the ferry running in winter?", ["Ferry: April to October; November–March"])
    'Is the ferry running in November–March?'
    >>> read_months("Who came on 4 July?", ["April–October: 10–17."])
    'Who came on 4 July?'
    """
    found = list(_MONTH_ASKED.finditer(question))
    if len(found) != 1 or _ASKS_PAST.search(question):
        return question
    asked = found[0]
    season = as_matched(asked["season"] or "")
    if season and any(map(is_of_the_south, texts)):
        return question
    others = content_stems(question) - content_stems(season)
    month = Date(asked[0], 0 if season else MONTHS.index(as_matched(asked[1])[:3]) + 1)

    def way_of(text: str) -> str | None:
        if re.search(rf"\b(?i:{season})\b" if season else rf"\b{asked[1]}\b", text):
            return ""
        if season and not others & content_stems(text):
            return None  # of something else, whose seasons may be others
        covering = [p for p in periods_of(text) if (p.is_in_season(season) if season else p.holds(month))]
        return min(covering, key=Period.length).text if covering else None

    return _written_as(question, asked, texts, way_of)


def read_holidays(question: str, texts: Sequence[str]) -> str:
    """Return the question with its holiday as the dates that passages write for it; itself where one names it.

    >>> read_holidays("Is the museum open on Christmas Day?", ["Museum. Closed on 24, 25 and 31 December."])
    'Is the museum open on 24, 25 and 31 December?'
    >>> read_holidays("Is the museum open on Boxing Day?", ["Museum. Closed on 24, 25 and 31 December."])
    'Is the museum open on Boxing Day?'
    """
    found = list(_HOLIDAY.finditer(question.replace("’", "'")))
    if len(found) != 1:
        return question
    name = as_matched(found[0][1])
    if any(name in text.replace("’", "'").lower() for text in texts):
        return question
    day, month = _HOLIDAYS[name]

    date = Date(name, MONTHS.index(month) + 1, day)

    def way_of(text: str) -> str | None:
        if covering := [p for p in periods_of(text) if p.holds(date)]:
            return min(covering, key=Period.length).text
        for match in _DAYS_OF_MONTH.finditer(text):
            days = re.findall(r"\d+", match["before"] or match["after"])
            if (match[2] or match[3]).lower().startswith(month) and str(day) in days:
                return match[0]
        return None

    return _written_as(question, found[0], texts, way_of)


def _written_as(question: str, asked: re.Match[str], texts: Sequence[str], way_of: Callable[[str], str | None]) -> str:
    """Return the question with what ``asked`` names as that text writes it that has most of its other words."""
    wanted = content_stems(question) - {stem(asked[0].casefold())}
    best, written = -1, ""
    for text in texts:
        way = way_of(text)
        if way is not None:
            held = len(wanted & content_stems(text))
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
    when = content_stems(asked[2])
    said = (line for text in texts for line in _SENTENCE.split(text) if "closed" in line.casefold())
    told = bool(when) and any(when <= content_stems(line) for line in said)
    return f"{asked[1]} or closed{asked[2]}" if told else question


def gives_hours(question: str, line: str, around: str) -> bool:
    """Return whether a line is the hours of the very day that a question asks them for: "Sunday: 1 pm - 5 pm".

    Args:
        question: in the passages' words.
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
    others = (w for w in words(question) if not _OF_HOURS.fullmatch(w) and not _DAY_WORD.fullmatch(w))
    return content_stems(" ".join(others)) <= content_stems(around)


def says_hours(question: str, sentence: str, heading: str, around: str) -> bool:
    """Return whether a sentence says at what times something is open on the one day of which a question asks them.

    Args:
        question: in the passages' words.
        heading: title, headings and source of the passage.
        around: its text.

    >>> sentence = "We are open on Wednesdays from 5 pm to 8 pm and on Saturdays from 10 am to 1 pm."
    >>> [says_hours(f"When do you close on {day}?", sentence, "Tools", "") for day in ("Saturday", "Sunday")]
    [True, False]
    >>> says_hours("When does the pool close on Saturday?", sentence, "Tools", sentence)
    False
    """
    days, said = _days_in(question), _SAYS_OPEN.search(sentence)
    if said is None or not (_HOURS_ASKED.search(question) and _TIMES.search(sentence)):
        return False
    if len(days) != 1 or not days <= _days_in(sentence):
        return False
    subject = _stems_of(sentence[: said.start()])
    wanted = {s for w in words(question) if not _OF_HOURS.fullmatch(w) for s in _stems_of(w)}
    return wanted <= subject | _stems_of(f"{heading}\n{around}") and subject <= wanted | _stems_of(heading)


def says_whether_open(question: str, sentence: str, heading: str, around: str) -> bool:
    """Return whether a sentence says on which days something is open, of which a question asks whether one is.

    It has that day, or it has several, so that it is closed on a day which nothing around it names; and it is of
    nothing else than the question or what it stands below.

    Args:
        question: in the passages' words.
        heading: title, headings and source of the passage.
        around: its text.

    >>> sentence = "We are open Tuesday to Sunday from 10 to 5."
    >>> says_whether_open("Is the museum open on Mondays?", sentence, "Town museum", sentence)
    True
    >>> says_whether_open("Is the museum open on Mondays?", sentence, "Museum", "On Mondays we are open to 8.")
    False
    """
    asked = _OPEN_ON.match(question)
    if asked is None or (asked["when"] and not _is_within(asked["when"], sentence)):
        return False
    wanted, known = _stems_of(asked["what"] or asked["who"] or ""), _stems_of(heading)
    if asked["when"] and (cell := _cell_on(wanted, sentence)):
        return _tells_day(asked["day"], cell, cell) or cell.casefold() == "closed"
    if not asked["when"] and periods_of(sentence) and len(fields_of(sentence)) > 1:
        return False  # the rows of other seasons may say otherwise
    told = _SAYS_OPEN.search(sentence)
    if not (told or _HOURS.fullmatch(sentence)) or not _tells_day(asked["day"], sentence, around):
        return False
    subject = _stems_of(sentence[: told.start()]) if told else set()
    return (bool(wanted) and wanted <= subject) or wanted | subject <= known


def excludes_day(question: str, sentence: str) -> bool:
    """Return whether it is asked if something may be done on a weekday, and a sentence names several others for it.

    It has half of the question's other content words at least.

    >>> hours = "The help line is staffed Monday to Friday from 8 to 6."
    >>> [excludes_day(f"Can I ring the help line on a {day}?", hours) for day in ("Sunday", "Friday")]
    [True, False]
    >>> excludes_day("Can I hire a boat on a Sunday?", hours), excludes_day("Who staffs it on a Sunday?", hours)
    (False, False)
    """
    asked = _DAY_ASKED.match(question)
    if asked is None:
        return False
    days, wanted = _days_in(sentence), _stems_of(question)
    if len(days) < _SEVERAL or WEEKDAYS.index(as_matched(asked["day"])) in days or is_every_day(sentence):
        return False
    return bool(wanted) and 2 * len(wanted & content_stems(sentence)) >= len(wanted)


def _tells_day(day: str, text: str, around: str) -> bool:
    """Return whether a text has a weekday, or several others, so that it is excluded unless it is named around."""
    number, days = WEEKDAYS.index(as_matched(day)), _days_in(text)
    return is_every_day(text) or number in days or (len(days) >= _SEVERAL and number not in _days_in(around))


def _is_within(when: str, text: str) -> bool:
    """Return whether a text names a part of the year, or a period that it is in."""
    dates = [date for date in dates_of(when) if date.month]
    if not dates:
        return when.casefold() in text.casefold()
    return any(same_date(dates[0], d) for d in dates_of(text)) or any(p.holds(dates[0]) for p in periods_of(text))


def _cell_on(wanted: set[str], row: str) -> str:
    """Return what a row of a table has in the column of what is asked about; "" if it has none, or several."""
    cells = [value.strip() for name, value in fields_of(row) if wanted and wanted <= _stems_of(name)]
    return cells[0] if len(cells) == 1 else ""


def find_hours(question: str, passages: Sequence[Passage]) -> set[int]:
    """Return the passages with a line of the hours or days for which a question asks: it may say nothing else of it."""
    if not (_HOURS_ASKED.search(question) or _OPEN_ON.match(question)):
        return set()

    def has_line(passage: Passage) -> bool:
        around = f"{above(passage)} {source_of(passage)}"
        return any(
            gives_hours(question, line, f"{around}\n{passage.text}")
            or says_whether_open(question, line, around, passage.text)
            or says_hours(question, line, around, passage.text)
            for line in passage.text.splitlines()
        )

    return {i for i, passage in enumerate(passages) if has_line(passage)}


def _stems_of(text: str) -> set[str]:
    """Return the stems of the content words but for days, of a path too."""
    return content_stems(" ".join(w for w in words(re.sub(r"[./_-]", " ", text)) if not _DAY_WORD.fullmatch(w)))


def _days_in(text: str) -> set[int]:
    """Return the days that a text names, those of ranges too."""
    return set(weekdays_of(text.title()))  # "SAT" stands for a day only among times


def _way_of(asked: re.Match[str], days: set[int], text: str) -> str | None:
    """Return how a text writes the days asked for; "" if as the question does, ``None`` if it does not name them."""
    named = asked["day"] or ("weekday" if asked["week"] else "weekend")
    if re.search(rf"\b{named}", text, re.IGNORECASE):
        return ""
    # a short name alone may be another word: "Sun", "Sat"
    written = {day: word for day, word in weekdays_of(text).items() if not _SHORT.fullmatch(word)}
    written |= {day: match[1] for match in _ALONE.finditer(text) for day in _days_in(match[1])}
    ways = {written.get(day) for day in days}
    if len(ways) == 1:
        return ways.pop()
    both = _BOTH_DAYS.search(text) if asked["end"] else None
    return both[0] if both else None
