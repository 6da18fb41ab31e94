"""Find who somebody is in names above records: "Anna Smith", and below "Role: Treasurer"."""

from __future__ import annotations

import re

from shared_core.reading.questions import asks_who, content_stems
from shared_core.support.regex import lazy_regex

_PERSON = lazy_regex(
    r"(?:(?:(?:[Ff]ull|[Ss]ur) ?)?[Nn]ames?[*_]*:[*_ \t]+)?"
    r"(?:[^\W\d_a-zß-ÿ][\w.'’-]*[ \t]+(?:(?:v[ao]n|de[rl]?|di|la|bin|al)[ \t]+){0,2}){1,3}[^\W\d_a-zß-ÿ][\w'’-]*"
)
_WHO_IS = lazy_regex(r"\W*who(?:['’]s| is| are)\b(.{2,200})", re.IGNORECASE)
_OFFICE = lazy_regex(r"[\s>*+•_-]*([^:\t\n]{2,60}?)[*_ ]*(?::[*_ \t]+|\t+|\s[–—-]\s)[*_]*(\S[^\n\t]{2,80})")
_CELL = lazy_regex(r"(?:^[ \t]*|; )[^:;|\n]{1,80}+: ([^;\n]{2,120})")
_LINK = lazy_regex(r"\[([^\[\]]*)\]\([^()]*\)")
_LINE = lazy_regex(r"^[ \t>*+•-]*(?:[^:\n]{1,40}:)?[ \t*_]*([^:\n]{2,80}?)[ \t.*_]*$", re.MULTILINE)


def names_person(heading: str, question: str) -> bool:
    """Return whether a question asks who somebody is, and a heading is a name, such as heads the text on a person.

    >>> names_person("Anna Smith", "Who is the treasurer?"), names_person("**Name:** Jo Wu", "Who keeps the keys?")
    (True, True)
    >>> names_person("Opening hours", "Who is the treasurer?"), names_person("Anna Smith", "When did she join?")
    (False, False)
    >>> names_person("OPENING HOURS", "Who is the treasurer?")
    False
    """
    named = _PERSON.fullmatch(heading.strip("#*_= \t")) is not None and not heading.isupper()
    return named and asks_who(question)


def has_office(question: str, text: str, above: str) -> bool:
    """Return whether a line of a record is just what a question asks for the holder of: "Role: Treasurer".

    Args:
        question: in English.
        above: the title and headings of its section, which may hold other words of the question.

    >>> has_office("Who is the club's treasurer?", "Anna Smith\\nRole: Treasurer", "Chess club")
    True
    >>> has_office("Who is the deputy treasurer?", "Anna Smith\\nRole: Treasurer", "Chess club")
    False
    """
    asked = _WHO_IS.match(question)
    wanted = content_stems(asked[1]) if asked else set()
    known = content_stems(above)
    offices = (content_stems(line) for line in _LINE.findall(text))
    return any(office and office <= wanted <= office | known for office in offices)


def names_holder(question: str, line: str, above: str) -> bool:
    """Return whether a line has the name of an office that a question asks for the holder of, and a name behind it.

    >>> [names_holder("Who is our councillor?", line, "") for line in ("Councillor: Jo Wu", "MP: Ann Lee")]
    [True, False]
    >>> names_holder("Who is our councillor?", "Councillor: vacant", "")
    False
    >>> names_holder("Who is the caretaker?", "Member: Ann Lee; Role: Caretaker; Phone: 12", "")
    True
    """
    asked = _WHO_IS.match(question)
    if asked is None:
        return False
    wanted, known = content_stems(asked[1]), content_stems(above)
    cells = [_LINK.sub(r"\1", cell) for cell in _CELL.findall(line)]
    found = _OFFICE.fullmatch(line)
    pairs = (
        [(office, name) for office in cells for name in cells] if len(cells) > 1 else [found.groups()] if found else []
    )
    return any(
        bool(held := content_stems(office)) and held <= wanted <= held | known and _PERSON.match(name) is not None
        for office, name in pairs
        if office != name
    )
