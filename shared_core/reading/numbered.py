"""Tell which of several numbered things a sentence is about: the study, day, lesson or phase that was named last."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from shared_core.citation.facts.dates import MONTHS
from shared_core.reading.places import section_of
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_NUMBERED = lazy_regex(r"\b([^\W\d_]{3,}) (\d{1,3})\b(?!(?: ?[-–—]|[.,:/])?\d| ?[%°€£$])")
_NO_LABEL = lazy_regex(
    rf"(?:{'|'.join(MONTHS)})[a-z]*|\w+ly|(?:cost|last|take|hold|weigh|measure|close|open)s?"
    r"|about|above|after|aged?|all|and|any|are|before|below|between|but|can|could|did|does|down|each|every|first|for"
    r"|from|had|has|have|how|into|least|less|more|most|next|not|off|only|out|over|past|per|than|that|the|their|then"
    r"|these|those|till|time|top|under|until|was|were|what|when|which|who|with|within|year|your"
)
"""Words before a number that is a size, a time or a date."""
_HEADING = lazy_regex(r"^(#{1,6})[ \t]+([^\n]*)$", re.MULTILINE)
_LABEL_LINE = lazy_regex(r"[ \t>*_]*[^\W\d_]{3,} \d{1,3}\b(?![.,:]?\d)[^\n]{0,60}")
_SCENE = lazy_regex(r"(?:\A|(?<=[.!?:]))\s*(?:For|In|During|On|At) ([^\W\d_]{3,} \d{1,3})\b")
_RANGE = lazy_regex(r"(\d{1,3})(?: ?[-–—] ?| to | through )(\d{1,3})\b")
_FAR, _PARAGRAPH = 4000, 1000  # characters above a sentence that are looked at
_ENDING = {"y": "(?:y|ies)", "s": "s(?:es)?"}


def is_of_another_number(question: str, passage: Passage, start: int, end: int) -> bool:
    """Return whether a sentence is about another one of several numbered things than a question.

    It is about what it names itself, else what its paragraph began with ("For study 1, …"), else the label above the
    paragraph, else the nearest heading that has a number. A paragraph that names the one asked about is not judged.

    Args:
        start, end: the sentence in the passage.

    >>> trip = Passage("trip", "## Day 1\\n\\nLunch is at Arle.\\n\\n## Day 2\\n\\nLunch is at Suhr.")
    >>> [is_of_another_number("Where is lunch on day 2?", trip, *place) for place in ((10, 27), (39, 56))]
    [True, False]
    """
    asked: defaultdict[str, set[int]] = defaultdict(set)
    for word, number in _NUMBERED.findall(question):
        if not _NO_LABEL.fullmatch(word.lower()):
            asked[word.lower()].add(int(number))
    if not asked:
        return False
    text = passage.text[max(0, start - _FAR) : start]
    begun = text.rpartition("\n\n")[2][-_PARAGRAPH:]
    for word, numbers in asked.items():
        if numbers & _numbers(word, passage.text[start:end]):
            continue
        scene = [*_SCENE.finditer(begun)]
        near = _numbers(word, scene[-1][1]) if scene else frozenset[int]()
        if not near and not numbers & _numbers(word, begun):
            near = next((found for line in _headings(passage, text, begun) if (found := _numbers(word, line))), near)
        if near and not numbers & near:
            return True
    return False


def _headings(passage: Passage, text: str, begun: str) -> Iterator[str]:
    """Yield the label above a paragraph and the headings it is under, the nearest first.

    Args:
        text: of the passage before the sentence.
        begun: of its paragraph.
    """
    line = begun.strip("\n").partition("\n")[0] if begun.strip() else text.rstrip().rpartition("\n\n")[2]
    if _LABEL_LINE.fullmatch(line):
        yield line
    level = 7
    for heading in reversed([*_HEADING.finditer(text)]):
        if len(heading[1]) < level:
            level = len(heading[1])
            yield heading[2]
    if level == 7:
        yield from reversed(section_of(passage).split(" > "))
        yield passage.title


def _numbers(word: str, text: str) -> frozenset[int]:
    """Return the numbers that a text has behind a word: of "days 1, 3 and 5 to 7" 1, 3, 5, 6 and 7."""
    named = rf"\b{re.escape(word[:-1])}{_ENDING.get(word[-1], word[-1] + 's?')}:? "
    found = set[int]()
    for match in re.finditer(rf"{named}(\d+(?:[ ,&–—-]{{1,3}}(?:(?:and|or|to|through) )?\d+)*)", text, re.IGNORECASE):
        found |= {int(n) for n in re.findall(r"\d+", match[1])}
        for first, last in _RANGE.findall(match[1]):
            found |= set(range(int(first), int(last) + 1))
    return frozenset(found)
