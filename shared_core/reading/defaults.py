"""Choose the statement of a default that a question asks for: that of the setting which it names, not a neighbour's.

"Default: 16" says of itself nothing that tells it from the line below the next heading.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from typing import NamedTuple

from shared_core.reading.features import STOP_WORDS, stem
from shared_core.reading.prepared import Asked
from shared_core.reading.questions import words
from shared_core.reading.rows import Entry, above, innermost
from shared_core.types import Passage

_ASKS_DEFAULT = re.compile(r"\bdefaults?\b", re.IGNORECASE)
_OF_WHAT = re.compile(
    r"\bdefault(?: (?:value|setting)s?)?(?: (?:of|for))?(?: the)? (?P<what>[^?]*?)"
    r"(?= (?:of|for|in|on|with|when|if)\b|\W*$)",
    re.IGNORECASE,
)
_STATES_DEFAULT = re.compile(r"\bdefaults?(?: value)?(?: is| are| to|[*_`]*:)|\bby default\b", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.]")
_PROGRAM = re.compile(r"[A-Za-z]\w*[_.]\w+|[A-Z][A-Z\d]{3,}|[a-z]+[A-Z]\w*|-{1,2}[a-z][\w-]*")
_GENERIC = frozenset(
    map(stem, ("default", "value", "setting", "option", "parameter", "configuration", "number", "used"))
)


class _Asked(NamedTuple):
    """A question for a default.

    Attributes:
        text: as asked.
        words: its content words by their stems.
        what: the stems of what the default is asked of: "retry delay" in "the default retry delay of a task".
        phrase: the same as it is asked.
    """

    text: str
    words: Mapping[str, str]
    what: Set[str]
    phrase: str


class _Stated(NamedTuple):
    """A candidate that states a default, with the stems of the heading above it and where that is."""

    number: int
    name: frozenset[str]
    place: tuple[str, str]


def of_defaults_asked(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the candidates on the default of the setting asked for, if it is found, else all; and those that state it.

    Without such a setting, the latter are those that say what the default of it is, in the words of the question.

    A setting is asked for if the question has all words of its name, its heading, and what else it asks, but for proper
    names, is in the headings and the retrieved passages of the same document. Where several settings may be meant, all
    are kept.
    """
    if not _ASKS_DEFAULT.search(asked.text):
        return [*kept], []
    phrase = _OF_WHAT.search(asked.text)
    what = phrase["what"] if phrase else ""
    question = _Asked(asked.text, _content(asked.text), _content(what).keys(), what)
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for entry in entries:
        passage = entry.passage
        told[_source(passage)][passage.id] = f"{above(passage)}\n{_source(passage)}\n{passage.text}".casefold()
    found = []
    for i in kept:
        passage = entries[i].passage
        heading = innermost(passage)
        name = frozenset(_content(heading))
        if _STATES_DEFAULT.search(_text(entries[i])) and name and name <= question.words.keys():
            of_document = "\n".join(told[_source(passage)].values())
            if _has_name(asked.text, heading) or _is_asked(question, name, above(passage).casefold(), of_document):
                found.append(_Stated(i, name, (_source(passage), str(passage.metadata.get("section")))))
    own = _best(found, question.what)
    if len({one.place for one in own}) != 1:
        return [*kept], [i for i in kept if _says(_text(entries[i]), what)]
    numbers = [one.number for one in own]
    name = innermost(entries[numbers[0]].passage)
    texts = ((i, _text(entries[i])) for i in kept)
    named = [i for i, text in texts if i in numbers or (_ASKS_DEFAULT.search(text) and _has_name(text, name))]
    return named, numbers


def _is_asked(question: _Asked, name: Collection[str], headings: str, document: str) -> bool:
    """Return whether a question may ask for the setting of that name below these headings of a document."""
    if question.what and question.what.isdisjoint(name):
        return False
    others = [word for one, word in question.words.items() if one not in name and not _is_proper(word, question.text)]
    what = [question.words[one] for one in question.what if one not in name]
    return not (_missing(what, headings) or _missing(others, document))


def _best(found: Sequence[_Stated], wanted: Collection[str]) -> list[_Stated]:
    """Return those whose names hold most of what the default is asked of, and then most words."""
    if not found:
        return []
    most = max((len(s.name & {*wanted}), len(s.name)) for s in found)
    return [s for s in found if (len(s.name & {*wanted}), len(s.name)) == most]


def _says(sentence: str, what: str) -> bool:
    """Return whether a sentence says what the default of something is: "RabbitMQ is the default broker"."""
    name = re.escape(what.strip())
    found = rf"\b(?:is|are) the default {name}\b|\bdefault {name} (?:is|are)\b|\b{name} defaults to\b"
    return bool(name) and not sentence.rstrip().endswith(":") and re.search(found, sentence, re.IGNORECASE) is not None


def _has_name(text: str, heading: str) -> bool:
    """Return whether a text has a heading as it is, which is a name of programs: it needs no other words."""
    name = heading.strip(" `*\"'")
    return _PROGRAM.fullmatch(name) is not None and re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def _is_proper(word: str, question: str) -> bool:
    """Return whether a question has a word as a proper name: that of the product, which its documents seldom repeat."""
    return (
        re.search(rf"(?<=\S )(?i:{re.escape(word)})\b", question) is not None
        and re.search(rf"\b{re.escape(word.capitalize())}\b", question) is not None
    )


def _missing(names: Collection[str], text: str) -> bool:
    """Return whether one of these words is not in a text in any form, nor as the beginning of another one."""
    return any(not re.search(rf"\b(?:{re.escape(one)}|{re.escape(stem(one))})", text) for one in names)


def _content(text: str) -> dict[str, str]:
    """Map the stems of the content words to these, the parts of names apart, without words of any such question."""
    parts = words(_HUMP.sub(" ", text).replace("'s ", " ").replace("’s ", " "))
    return {one: word for word in parts if word not in STOP_WORDS and (one := stem(word)) not in _GENERIC}


def _source(passage: Passage) -> str:
    return str(passage.metadata.get("source", passage.id))


def _text(entry: Entry) -> str:
    return entry.passage.text[entry.candidate.start : entry.candidate.end]
