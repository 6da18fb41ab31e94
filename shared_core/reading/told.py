"""Find whether a sentence tells what the form of a question asks for: a reason, a purpose, a difference, a time.

Such questions presuppose what documents do say, and a sentence that says it matches their words without an answer:
"Once the data type is set, it cannot be changed" is none to "Why can the data type not be changed?".
"""

from __future__ import annotations

import re

from shared_core.citation.english import AUXILIARIES
from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import UNITS, quantities_of
from shared_core.reading.features import stem
from shared_core.reading.language import word_list
from shared_core.reading.questions import content_stems, has_number, words
from shared_core.reading.synonyms import named_stems
from shared_core.support.regex import lazy_regex

UNTOLD = -1.25
"""Added to both log-odds of a sentence that does not tell what is asked for.

Of 80 first quotes without a reason, in public data and in manuals, 12 were right where 31 were expected."""
LATER = -3.0
"""Added to its score."""

_REASON_ASKED = lazy_regex(
    r"\bwhy\b|\bhow come\b|\b(?:for )?what(?: is|'s|’s|s| was)?(?: the)? reasons?\b", re.IGNORECASE
)
_SIGNS = (
    r"because|since(?!\W+(?:\w+\W+)?\d{4}\b)"
    r"|due to|owing to|thanks to|so (?:that|as to)|reasons?|therefore|thus|hence|consequently|otherwise"
    r"|given that|the fact that|in case|on account of|as a result|in view of|in the interest|if|until|likely|follow\w*"
    r"|result(?:s|ed|ing)? (?:of|from|in)|caus(?:e[sd]?|ing)|lea?d(?:s|ing)? to|stem(?:s|med)? from|depend\w* on"
    r"|motivat\w+|(?:that|this|which) is why|for (?:the sake|fear|its|their|his|her)|(?:intended|designed) to|based on"
    r"|in (?:response|reaction|protest|opposition|return|exchange|hopes?|anticipation|preparation|fear|light|order)"
    r"|(?:try|attempt|want|hop|seek|wish|look|aim)ing to|forc(?:es|ed|ing)|ma(?:kes|de|king) (?:it|them|him|her)"
    r"|(?:tries|tried|attempt(?:s|ed)?|seeks?|sought|want(?:s|ed)?|wish(?:es|ed)?|aim(?:s|ed)?|hope[sd]?) to"
    r"|(?:driven|drawn|prompted|inspired|encouraged|attracted|angered|provoked|influenced) by|worried|concern(?:ed|s)"
    r"|fear(?:ed|ing|s)?|means? that|so (?:any|all|no|each|every|you|we|it|they|the|he|she|there|this|users?)|prevents?"
    r"|(?:this|which) (?:means|allows|ensures|makes|helps|prevents|enables|reduces|gives|keeps|limits|would|can|could)"
    r"|(?:can|could|may|might|would|will)"
    r" (?:lead|cause|result|trigger|break|fail|damage|make|create|introduce|confuse|slow|prevent|hurt|harm)"
)
_AS = (
    r"as (?:it|this|that|they|we|you|he|she|there|the|an?|some|many|most|all|these|those|its|their|our|your|no|not"
    r"|(?-i:[A-Z])\w+)\b(?! (?:well|long|soon) as)"
)
_SAKE = (
    r"for (?:\w+ ){0,3}(?:reasons?|purposes?|compliance|compatibility|security|safety|performance|efficiency"
    r"|convenience|clarity|simplicity|accuracy|consistency)"
)
_PURPOSE = (
    r"achieve|allow|assess|attract|avoid|be able|build|check|comply|cover|create|defend|demonstrate|determine|enable"
    r"|encourage|end|ensure|escape|establish|facilitate|fight|find|gain|gather|get|give|guarantee|handle|help|identify"
    r"|improve|increase|keep|learn|let|limit|maintain|make|match|maximi[sz]e|meet|minimi[sz]e|offer|preserve|prevent"
    r"|promote|protect|provide|raise|recover|reduce|remove|restore|save|secure|see|seek|show|simplify|stop|study"
    r"|support|test|understand|win"
)
_NEEDS_TO = "able unable want wants need needs likely possible how have has had used required"
_FOR_PURPOSE = "".join(rf"(?<!\b{word} )" for word in _NEEDS_TO.split()) + rf"\bto (?:\w+ly )?(?:{_PURPOSE})\b"
_REASON = lazy_regex(
    rf"\b(?:{_SIGNS}|{_AS}|{_SAKE})\b|[,;:(] ?(?:so|as|for)\b|(?:^|[.!?]\s+)So\b|{_FOR_PURPOSE}", re.IGNORECASE
)


_PURPOSE_ASKED = (
    lazy_regex(
        r"\bwhat(?:'s|’s|s| is| are| was| were) (?:the )?(.+?)(?: used| good| meant| intended| there)? for"
        r"(?=\W*$| (?:that|which|in|on|of|when)\b)",
        re.IGNORECASE,
    ),
    lazy_regex(r"\bwhat(?:'s|’s|s| is| are) the (?:purpose|point|use) of (.+?)\W*$", re.IGNORECASE),
)
_NOT_FOR = lazy_regex(r"(?:ed|ble|ous|ing|\b(?:known|best|match|symbol|name|word|term|short))\Z", re.IGNORECASE)
"""The end of what is, or is something, for something: "responsible for", "a symbol for"."""
_DIFFERENCE_ASKED = lazy_regex(r"\bdifferences? between (?:the |an? )?(.+?) and (?:the |an? )?(.+?)\W*$", re.IGNORECASE)
_REFERS_BACK = lazy_regex(r"\W*(?:this|these|it|they|its|their|he|she)\b", re.IGNORECASE)
_CONTRASTS = lazy_regex(
    r"\b(?:than|whereas|while|whilst|but|unlike|instead|rather|however|although|though|contrast|differ\w*|only|both|also"
    r"|additional\w*|former|latter)\b",
    re.IGNORECASE,
)
_VERB = rf"(?=\W*$| (?:{AUXILIARIES}|to|i|you|we)\b)"
_MONTHS = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)\w*"
_DAYS = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thurs?|fri|sat(?:ur)?|sun)(?:days?)?|\w*days?|weekends?|daily|eve|easter|christmas)"
)
_DAY_ASKED = lazy_regex(rf"\b(?:what|which) (?:week ?)?days?(?: of the week\b|{_VERB})", re.IGNORECASE)
"""Not "which day of the month", which a bare number tells, nor "which day pass"."""
_HOUR_ASKED = lazy_regex(r"\b(?:what time|at what (?:hour|time))\b", re.IGNORECASE)
_OPENING_ASKED = lazy_regex(
    rf"\bwhen (?:do|does|will) .{{1,80}}\b(?:open|close|shut)\b.{{0,20}}\b(?P<day>{_DAYS}|today|tomorrow)s?\W*$"
    r"|\bwhen (?:do|does) .{1,80}\b(?:close|shut)\W*$",
    re.IGNORECASE,
)
"""Asks for the hour at which something opens or closes, on a day or every day."""
_SHUT = lazy_regex(r"\b(?:is|are|be|stays?|remains?) (?:\w+ )?(?:closed|shut)\b", re.IGNORECASE)
_DATE_PARTS = lazy_regex(  # which are no times of day
    rf"\b(?:19|20)\d\d\b|\b\d{{1,2}}(?:st|nd|rd|th)\b|\b{_MONTHS}\.? \d{{1,2}}\b(?![:.]\d)|\b\d{{1,2}} {_MONTHS}\b"
    r"|\b(?:first|second|third|fourth|fifth|last)\b",
    re.IGNORECASE,
)
_DAY = lazy_regex(
    rf"{_DATE_PARTS.pattern}|\b\d{{1,2}}/\d|\b\d{{1,4}}-\d{{1,2}}-\d|\b\d{{1,2}}\.\d{{1,2}}\.(?!\d{{3}}\.)"
    r"|\b(?:today|tomorrow|yesterday|tonight|nightly|midweek|weekly|dates?)\b",
    re.IGNORECASE,
)
_HOUR = lazy_regex(
    rf"\d|\b(?:{'|'.join(word_list('numbers'))}|never|all (?:day|night|hours)|(?:round|around) the clock)\b",
    re.IGNORECASE,
)
_CLOCK = lazy_regex(  # in headings and names of files, which have other numbers
    r"\b\d{1,2}(?:[:.h]\d\d\b| ?[ap]\.?m\b| ?o['’]clock)|\b(?:at|from|until|till) \d", re.IGNORECASE
)
_SOME = rf"(?:\d[\d.]*|{'|'.join(word_list('numbers'))}|half an|an?|few|several|couple of)"
_LASTS = lazy_regex(  # and so is no time of day, but "half an hour before closing" is one
    rf"\b(?:(?:every|each)(?: other)?(?: {_SOME})?|{_SOME})[ -](?:hours?|hrs?|minutes?|mins?|seconds?|days?)\b"
    r"(?! (?:before|after|prior|early|earlier|ahead|in advance|later|beforehand|from|until|(?:past|to)"
    rf" (?:{_SOME}|noon|midday|midnight))\b)",
    re.IGNORECASE,
)
_PARTS_OF_DAY = (
    r"noon|midnight|midday|mornings?|afternoons?|evenings?|nights?|dawn|dusk|sun(?:rise|set)|hours?|[ap]\.?m\b"
)
_HOUR_WORDS = lazy_regex(rf"\b(?:{_PARTS_OF_DAY})\b", re.IGNORECASE)
_TIMED: tuple[tuple[str, str], ...] = (
    (
        r"how long\b(?! (?:ago|before|since))",
        r"until|till|forever|indefinite\w*|permanent\w*|as long as|(?:milli)?seconds?|minutes?|hours?|days?|nights?"
        r"|weeks?|months?|years?|decades?|centur\w+|millenni\w+|lifetime|life|overnight|brief\w*|temporar\w*|immediate\w*"
        r"|short\w*|long\w*|length|generations?|while|periods?|term|between|from|through|since|throughout|duration"
        r"|entire|whole|rest|remainder|time",
    ),
    (
        r"how (?:often|frequently)\b",
        r"every\w*|hourly|nightly|weekly|fortnightly|monthly|yearly|quarterly|(?:bi-?)?annual\w*|times|per"
        r"|an? (?:day|week|month|year)|always|rarely|seldom|often|frequent\w*|regular\w*|occasion\w*|periodic\w*|daily"
        r"|constant\w*|continu\w*|sometimes|usual\w*|whenever|when|as|intervals?|routine\w*|common\w*|perennial|years?"
        r"|perpetual\w*|needed|time",
    ),
    (r"(?:what|which) (?:week ?)?days?\b", f"{_DAYS}|{_MONTHS}"),
    (r"(?:what|which) years?\b" + _VERB, r"centur\w+|decade|era|period|dynasty|year"),
    (
        r"(?:what|which) months?\b" + _VERB,
        rf"{_MONTHS}|spring|summer|autumn|fall|winter|years?|season|quarter|month\w*",
    ),
    (r"(?:what|which) dates?\b" + _VERB, f"{_DAYS}|{_MONTHS}"),
    (
        r"what time(?: of (?:the )?day| (?:is|are|does|do|should|must|can|will))\b",
        rf"{_PARTS_OF_DAY}|(?<!by the )(?<!next )(?<!this )(?<!some )(?<!-)time",
    ),
    (r"how old\b", r"ages?|aged|years?|young\w*|old\w*|adults?|minors?"),
    (r"(?:what|which) (?:[\w'’-]+ ){0,3}(?:number|percentage|zip code|postcode)\b" + _VERB, r"(?-i:[A-Z]{2,})"),
    (r"(?:what|which) (?:bus|route|line|room|phone|flight|platform|gate|serial) number\b(?! of\b)", r"(?-i:[A-Z]{2,})"),
)
"""Forms of questions for times and numbers, and the words of sentences without a number that tell them."""
_OPENS = r"(?:^|[,;:.?] ?)\W*(?:(?:where|who|how|what) and )?(?:[\w'’]+ ){0,2}"
_TIMES = tuple(
    (lazy_regex(_OPENS + asked, re.IGNORECASE), lazy_regex(rf"\b(?:{told})\b", re.IGNORECASE)) for asked, told in _TIMED
)
_WHEN = lazy_regex(r"\W*(?:[\w'’]+ ){0,2}?(?:when|(?:what|which) (?:date|day))\b", re.IGNORECASE)
_DENIED_DATE = lazy_regex(
    rf"\bnot\b\W{{1,4}}(?:(?:on|in|the|from) )*(?:\d[\d.:/–-]*(?:st|nd|rd|th)?(?: {_MONTHS})?|(?:{_MONTHS}|{_DAYS})\b)",
    re.IGNORECASE,
)
_DATE = lazy_regex(rf"\d|\b(?:{_MONTHS}|{_DAYS})\b", re.IGNORECASE)
_CAPITAL = lazy_regex(r"\b(?![A-Z]+\b)[^\W\d_a-z][\w'’]*")
_COUNT_ASKED = lazy_regex(r"\bhow many (?:more |other )?(\w+)", re.IGNORECASE)
_DONE_WHEN = lazy_regex(r"\W*when (?:was|were|is|are) .*?(\w+(?:ed|en|t))\W*$", re.IGNORECASE)
_DATED_ACT = lazy_regex(
    r"\W*((?:(?:last|next|date of|first) )?\w+(?:ion|al|ing|ment|ance|ure))(?: (?:of|for) [^:;\n]{1,40})?: (.+)",
    re.IGNORECASE,
)
_WHO_DOES = lazy_regex(r"\W*who (?!is (?!\w+ing\b)|are (?!\w+ing\b)|was\b|were\b)", re.IGNORECASE)
_PHONE_ASKED = lazy_regex(r"\b(?:phone|telephone|mobile|fax) number", re.IGNORECASE)
_PHONE = lazy_regex(r"\d(?:[\s().–/+-]{0,3}\d){5}")
_OFFICE_ASKED = lazy_regex(
    r"\W*[Ww]ho(?: is| are|['’]s) (?:the|our|your|my) ((?:[a-z][\w'’-]* ?){1,4}?)(?:(?<= )(?:of|for|at|in)\b.*)?\W*"
)
_NAMES = lazy_regex(r"(?<!\A)(?<![.!?] )\b[A-Z][\w'’]+")
_WHERE = lazy_regex(r"\W*where\b", re.IGNORECASE)
_DENIES = lazy_regex(r"\bnot\b|n['’]t\b|\bnever\b|\bavoid\b", re.IGNORECASE)
_FORBIDS = lazy_regex(
    r"\W*(?:\(?\w{1,2}[.)] )?(?:please )?(?:do not|don['’]t|never)\b"
    r"(?!.*(?:[;:]|\b(?:but|instead|except|unless|only|outside)\b))",
    re.IGNORECASE | re.DOTALL,
)
_BESIDE = 3
"""Words between two names that are only listed together, at most."""


def tells_what_is_asked(question: str, text: str, above: str) -> bool:
    """Return whether a sentence may answer a question of its form; True for forms that are not judged.

    A reason needs words that give one. A sentence with a purpose names the thing, or refers to what its heading names.
    One with a difference has both names, not only side by side, or compares. A date is not only denied. A time, an age
    or a number needs a number, or words such as "until" and "weekly", there or in a heading, unless the sentence leads
    something in. A day needs more than a number, a number of a telephone six digits.

    Args:
        question: in English.
        above: the title and headings of its section.
    """
    if asks_reason(question):
        return gives_reason(text) or asks_reason(f"{above}\n{text}")
    purpose = next(filter(None, (asked.search(question) for asked in _PURPOSE_ASKED)), None)
    if purpose and not _NOT_FOR.search(purpose[1]):
        return bool(_REFERS_BACK.match(text)) or content_stems(purpose[1]) <= content_stems(f"{above}\n{text}")
    if two := _DIFFERENCE_ASKED.search(question):
        return _tells_apart(two[1], two[2], text)
    if _WHEN.match(question) and _DENIED_DATE.search(text):
        return _DATE.search(_DENIED_DATE.sub(" ", text)) is not None
    if opening := _OPENING_ASKED.search(question):
        return _tells_opening(question, opening["day"], text, above)
    if _PHONE_ASKED.search(question):
        return _PHONE.search(text) is not None or text.rstrip().endswith(":")
    told = [told for asked, told in _TIMES if asked.search(question)]
    if not told or text.rstrip().endswith(":"):
        return True
    if _HOUR_ASKED.search(question):
        text, above = _hours_only(question, text, above)
        counts = any((_HOUR.search(text), _CLOCK.search(above)))
    elif _DAY_ASKED.search(question):
        counts = any(_DAY.search(part) for part in (text, above))
    else:
        counts = has_number(text) or has_number(above)
    return counts or any(words_of.search(t) for t in (text, above) for words_of in told)


def _tells_opening(question: str, day: str | None, text: str, above: str) -> bool:
    """Return whether a sentence may say when something opens or closes: an hour, or that it is closed on that day.

    Without a day in the question, only what is shut without any number is none: "We are closed in August."
    """
    sentence, heading = _hours_only(question, text, above)
    if _HOUR.search(sentence) or _CLOCK.search(heading) or _HOUR_WORDS.search(sentence):
        return True
    if day is None:
        return has_number(text) or not _SHUT.search(text)
    return day.casefold() in text.casefold() and re.search(r"\b(?:closed|shut)\b", text, re.IGNORECASE) is not None


def _hours_only(question: str, text: str, above: str) -> tuple[str, str]:
    """Return a sentence and its heading without dates, durations and the question's own numbers."""
    own = _own_numbers(question)
    sentence, heading = (own.sub(" ", _LASTS.sub(" ", _DATE_PARTS.sub(" ", part))) for part in (text, above))
    return sentence, heading


def _own_numbers(question: str) -> re.Pattern[str]:
    """Return what finds the numbers of a question in a text, where they are no times: of "the 34 bus", not "at 34"."""
    numbers = "|".join(re.escape(number) for number in re.findall(r"(?<![\d.:])\d+(?![\d.:]*\d)", question))
    before = "".join(rf"(?<!\b{word} )" for word in ("at", "from", "to", "until", "till", "by", "after", "before"))
    return re.compile(
        rf"{before}(?<![\d.:–-])(?:{numbers})(?![\d.:–-]*\d| ?[ap]\.?m\b| ?o['’]clock)" if numbers else r"(?!)"
    )


def measures_only(question: str, sentence: str) -> bool:
    """Return whether a question asks how many things there are, and a sentence gives only amounts of something else.

    >>> measures_only("How many people fit in lift 2?", "Lift 2 (goods, 1,000 kg)")
    True
    >>> [measures_only("How many days are left?", text) for text in ("Two weeks.", "The office has 3.")]
    [False, False]
    """
    asked = _COUNT_ASKED.search(question)
    if asked is None or asked[1].lower() in UNITS:
        return False
    known = {q.text for q in quantities_of(question)}
    given = [q for q in quantities_of(sentence) if q.text not in known]
    return bool(given) and all(q.unit for q in given) and not content_stems(asked[1]) & content_stems(sentence)


def dates_another_act(question: str, sentence: str) -> bool:
    """Return whether a question asks when something was done, and a labelled date is of another act.

    >>> label = "Last inspection of lift 2: 9 January 2024"
    >>> [dates_another_act(f"When was lift 2 {done}?", label) for done in ("installed", "last inspected")]
    [True, False]
    """
    asked, label = _DONE_WHEN.match(question), _DATED_ACT.match(sentence)
    if asked is None or label is None or not dates_of(label[2]):
        return False
    wanted, given = named_stems(asked[1]), named_stems(label[1])
    return bool(wanted and given) and not wanted & named_stems(sentence) and not given & named_stems(question)


def names_only_asked(question: str, sentence: str) -> bool:
    """Return whether a question asks who does something, and a sentence is about someone of the question, and no other.

    >>> names_only_asked("Who takes over from Ravi?", "Ravi is stepping down.")
    True
    >>> names_only_asked("Who takes over from Ravi?", "Ravi hands over to Hedda.")
    False
    """
    if _WHO_DOES.match(question) is None:
        return False
    asked = set(_CAPITAL.findall(question))
    named = [name for name in _CAPITAL.findall(_DATE.sub(" ", sentence)) if content_stems(name)]
    subject = next((word for word in words(sentence) if content_stems(word)), "")
    return bool(named) and named[0].casefold() == subject and asked.issuperset(named)


def names_no_holder(question: str, sentence: str) -> bool:
    """Return whether a question asks who holds an office, and a sentence names the office only, and nobody.

    >>> asked = "Who is the treasurer of the club?"
    >>> [names_no_holder(asked, told) for told in ("Report to the treasurer.", "Ask Ida, the treasurer.")]
    [True, False]
    >>> names_no_holder(asked, "The secretary is also the treasurer.")
    False
    """
    asked = _OFFICE_ASKED.fullmatch(question)
    office = content_stems(asked[1]) if asked else set()
    if asked is None or not office or not office <= content_stems(sentence):
        return False
    known = set(words(question))
    if any(name.casefold() not in known for name in _NAMES.findall(sentence.lstrip(" *_•–-"))):
        return False
    holds = rf"\b(?:is|are|am|as|by) (?:(?!not\b)\w+ ){{0,3}}{re.escape(asked[1].split()[-1])}"
    return not re.search(holds, sentence, re.IGNORECASE | re.DOTALL)


def forbids_only(question: str, sentence: str) -> bool:
    """Return whether a question asks where something is or goes, and a sentence says only where one must not put it.

    >>> told = "Do not put it on the pier."
    >>> forbids_only("Where do I put rubbish?", told), forbids_only("Where may I not put rubbish?", told)
    (True, False)
    >>> forbids_only("Where do I put rubbish?", "Don't put it on the pier but into a bin.")
    False
    """
    return bool(_WHERE.match(question) and _FORBIDS.match(sentence)) and not _DENIES.search(question)


def _tells_apart(one: str, other: str, text: str) -> bool:
    """Return whether a sentence compares two things, or has what each alone is called, apart from each other."""
    first, second = content_stems(one), content_stems(other)
    stems = [stem(word) for word in words(text.replace("_", " "))]
    places = [[i for i, word in enumerate(stems) if word in own] for own in (first - second, second - first)]
    if _CONTRASTS.search(text):
        return any(places)
    return all(places) and any(abs(a - b) > _BESIDE for a in places[0] for b in places[1])


def asks_reason(question: str) -> bool:
    """Return whether a question asks for a reason: "Why …?", "What is the reason for …?"."""
    return _REASON_ASKED.search(question) is not None


def gives_reason(text: str) -> bool:
    """Return whether a text has words by which reasons are given: "because", "so that", "to avoid"."""
    return _REASON.search(text) is not None
