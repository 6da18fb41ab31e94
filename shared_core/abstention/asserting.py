"""Tell what states something from what only names or asks: headings, items under "Sources:", questions, code.

By words of English that make a predicate. Doubtful ones count as names: a heading taken for a statement would fail a
right answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.english import AUXILIARIES
from shared_core.support.regex import lazy_regex

__all__ = ["asserts", "is_prose", "is_source", "stated_in_question"]

_ASKS_OR_ADVISES = lazy_regex(
    r"\W*(?:how|what|when|where|which|who|whom|whose|why|if|whether|in case|once|unless|things|ways|tips|anything|"
    r"everything|something|all (?:that|you))\b",
    re.IGNORECASE,
)
"""Begins a heading that names its topic by a clause: "What is included", "If it is full"."""
_PREDICATE = lazy_regex(
    r"(?<!\bthe )\b(?:is|are|was|were|isn['’]t|aren['’]t|wasn['’]t|weren['’]t|has|have|had|hasn['’]t|haven['’]t|does|"
    r"do(?:es)?n['’]t|did|didn['’]t|cannot|can(?:['’]t)?|will|won['’]t|must(?:n['’]t)?|should(?:n['’]t)?|would|could|"
    r"shall|opens|closes|begins|lasts|includes|provides|requires|contains|applies|receives|belongs|becomes|remains|"
    r"forbids|prohibits|permits|allows|gets|pays|gives|takes|rose|fell|became|began|won|lost|died)\b(?=\W+\w)"
    r"|\b(?:costs|starts|ends|offers|covers|runs|needs|holds|serves|uses)\s+(?:an?|the|no|all|every|up|from|at|[$€£¥]?\d)\b",
    re.IGNORECASE,
)
_IN_CLAUSE = lazy_regex(
    r"\b(?:that|which|who|whom|whose|what|where|when|how|why|as|if|than)\b|\b(?:you|we|they|i|he|she|it)\s+\Z",
    re.IGNORECASE,
)
"""Before a verb: it is that of a clause within a name ("items that are included", "the data we have")."""
_VERB_FIRST = lazy_regex(
    r"\W*(?:is|are|was|were|has|have|had|does|do|did|can|will|must|should|would|could|shall|gives|takes|pays|gets)\b",
    re.IGNORECASE,
)
_SUBJECT = lazy_regex(r"\W*(?:you|we|they|i|he|she|it|there|this|these|everyone|nobody|no one) ", re.IGNORECASE)
_FIGURE = lazy_regex(
    r"[$€£¥]\s?\d|\d\s?(?:[$€£¥%]|euros?\b|dollars?\b|pounds?\b|per ?cent\b|[ap]\.?m\b)|\b\d{1,2}:[0-5]\d\b",
    re.IGNORECASE,
)
"""A price, share or time of day: no title has one by chance."""
_ABSOLUTE = lazy_regex(
    r"\b(?:everyone|everybody|anyone|anybody|nobody|no one|always|never|guaranteed|free of charge)\b|"
    r"\A\W*free\b.*\b(?:for|on|to|every|all|until|from|with)\b",
    re.IGNORECASE,
)
_WORDS = 3  # fewer name something: "Always on"


def asserts(line: str) -> bool:
    """Return whether a heading or an item states something, instead of naming what follows.

    >>> [asserts(line) for line in ("Entry is free on Sundays", "Free entry for everyone", "Opens at 5 am")]
    [True, True, True]
    >>> [asserts(line) for line in ("Opening hours", "What is included", "Things you can do", "Step 2: Clean it")]
    [False, False, False, False]
    """
    words = len(line.split())
    if words < _WORDS or _ASKS_OR_ADVISES.match(line):
        return False
    if _FIGURE.search(line) or _ABSOLUTE.search(line):
        return True
    if subject := _SUBJECT.match(line):  # "You can bring dogs"
        return _PREDICATE.search(line, subject.end() - 1) is not None
    found = _PREDICATE.search(line)
    named = found is None or _VERB_FIRST.match(line) or _IN_CLAUSE.search(line[: found.start()])
    return not named


# --- questions -----------------------------------------------------------------------------------------------------


_KNOWN = (
    r"(?:(?:and|but|so|oh),? )?(?:"
    r"(?:did|do|don['’]t|didn['’]t) (?:you|we|they|people) (?:also |already |even )?"
    r"(?:know|realise|realize|remember|notice|recall)|"
    r"have(?:n['’]t)? you (?:ever |already )?(?:heard|noticed|realised|realized)|"
    r"(?:are(?:n['’]t)?) you (?:also )?(?:aware|glad|happy|pleased|surprised)|"
    r"who (?:knew|would have thought|would have known)|"
    r"(?:isn['’]t|wasn['’]t|is|was) it (?:not )?(?:(?:so|very|really|just) )?(?:great|nice|good|wonderful|lovely|"
    r"amazing|fantastic|interesting|surprising|funny|remarkable|convenient|handy|a pity|a shame|obvious|clear))"
)
_KNOWN_THAT = lazy_regex(rf"{_KNOWN} that,?\s+", re.IGNORECASE)
_KNOWN_CLAUSE = lazy_regex(rf"\W*{_KNOWN},? (?=(?:the|an?|all|every|no|entry|there|it|they|we|you) )", re.IGNORECASE)
_TAG = lazy_regex(
    r",\s*(?:right|correct|no|ok(?:ay)?|(?:is|are|was|were|do|does|did|ca|can|wo|will|has|have|should|could|would)"
    r"(?:n['’]t)?(?: not)? (?:it|they|he|she|you|we|there|that))\s*\Z",
    re.IGNORECASE,
)
_OPENS_QUESTION = lazy_regex(
    r"\W*(?:(?:and|but|so|or|also|then|well|now|ok(?:ay)?|great|sure|thanks?|please|sorry),? )*"
    rf"(?:{AUXILIARIES}|am|might|shall|\w+n['’]t|who|whom|whose|what|when|where|which|why|how|if|in|for|on|at|to|from|"
    r"with|by|until|since|any|anything|more|another|need|want|you|i|we|let)\b",
    re.IGNORECASE,
)


def stated_in_question(question: str) -> str:
    """Return what a question takes for granted or only asks to be confirmed, as a sentence; empty if it asks.

    >>> stated_in_question("Did you know that entry is free?"), stated_in_question("Entry is free, isn't it?")
    ('entry is free.', 'Entry is free.')
    >>> stated_in_question("Do you want to know more?"), stated_in_question("Is it true that entry is free?")
    ('', '')
    """
    asked = question.rstrip("?？؟ ")
    if (known := _KNOWN_THAT.search(asked)) or (known := _KNOWN_CLAUSE.match(asked)):
        rest = " ".join(f"{asked[: known.start()]} {asked[known.end() :]}".split())
        return f"{rest}." if rest else ""
    confirmed = _TAG.sub("", asked)
    if _OPENS_QUESTION.match(confirmed) or not asserts(confirmed):
        return ""
    return f"{confirmed}."


# --- sources and code ----------------------------------------------------------------------------------------------


_OF_SOURCE = lazy_regex(
    r"https?://|\bwww\.|\bdoi\b|\bisbn\b|\bet al\b|\bibid\b|\(\d{4}|\b\d{4}\)|\b(?:pp?|vol|no|eds?|chap|sec)\.\s?\d|§|"
    r"\b(?:page|pages|chapter|section|volume|issue|accessed|retrieved|edition|journal|press|publisher)\b|"
    r"[\w-]\.(?:md|txt|pdf|docx?|html?|json|csv|xlsx?|pptx?|org|com|net|edu|gov)\b|[“\"*_].+[”\"*_]|\]\(",
    re.IGNORECASE,
)
"""Marks of a source: an address, a year in brackets, pages, a file, a title in quotation marks."""


def is_source(item: str) -> bool:
    """Return whether an item below "Sources:" names a source, instead of stating something.

    >>> is_source("Smith, J. (2020): Why sleep is good, p. 4"), is_source("Entry is free.")
    (True, False)
    """
    return _OF_SOURCE.search(item) is not None or not asserts(item)


_CODE = lazy_regex(r"[{}()\[\];<>=$`\\|&^~]|::|->|\w\.\w|\w_\w|(?:\A|\s)(?:--?\w|[#/%]{1,2}\s?\w)")
_SENTENCE = lazy_regex(r"\s*[-*•\"“']?\s*[A-Z\d].*[.!](?:[\"”'])?\s*\Z", re.DOTALL)


def is_prose(lines: Sequence[str]) -> bool:
    """Return whether all lines of a block of code are sentences that state something.

    >>> is_prose(["Entry is free on Sundays."]), is_prose(["echo Entry is free."]), is_prose(["x = 1"])
    (True, False, False)
    """
    said = [line for line in lines if line.strip()]
    return bool(said) and all(_CODE.search(s) is None and _SENTENCE.match(s) and asserts(s) for s in said)
