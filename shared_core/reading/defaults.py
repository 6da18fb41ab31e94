"""Choose the statement of a default that a question asks for: that of the setting which it names, not a neighbour's.

"Default: 16" says of itself nothing that tells it from the line below the next heading.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from shared_core.reading.features import STOP_WORDS, stem
from shared_core.reading.places import above, innermost, source_of
from shared_core.reading.prepared import Asked
from shared_core.reading.questions import words
from shared_core.reading.rows import Entry
from shared_core.support.regex import lazy_regex

_ASKS_DEFAULT = lazy_regex(r"\bdefaults?\b", re.IGNORECASE)
_OF_WHAT = lazy_regex(
    r"\bdefault(?: (?:value|setting)s?)?(?: (?:of|for))?(?: the)? (?P<what>[^?]*?)"
    r"(?= (?:of|for|in|on|with|when|if)\b|\W*$)",
    re.IGNORECASE,
)
_STATES_DEFAULT = lazy_regex(
    r"\bdefaults?(?: value)?(?: is| are| to|[*_`]*:| ?=)|\(default (?=[^\s()]+\))|\bby default\b", re.IGNORECASE
)
_ASKS_THING = lazy_regex(
    r"\bdefault (?!values?\b|settings?\b|state\b|behaviou?r\b|of\b|for\b|in\b|when\b)\w", re.IGNORECASE
)
_SWITCHED = lazy_regex(
    r"\bdefaults?\b[^.\n]{0,20}[ \t=:`*\"'](?:true|false|on|off|yes|no|enabled|disabled)\b", re.IGNORECASE
)
_ASKS_AMOUNT = lazy_regex(r"\bhow (?:long|many|much|often|old|far|large|big|small|high)\b", re.IGNORECASE)
_HUMP = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])|[_.]")
_PROGRAM = lazy_regex(r"[A-Za-z]\w*[_.]\w+|[A-Z][A-Z\d]{3,}|[a-z]+[A-Z]\w*|-{1,2}[a-z][\w-]*")
_BLOCK = lazy_regex(r"\n[ \t]*\n|^(?=[ \t]*[-*+•][ \t])", re.MULTILINE)
_NEAR = 300
"""Characters of a description before its default at most."""
_ASKS_WHAT = lazy_regex(r"\b(?:what|which|how)\b", re.IGNORECASE)
_GENERIC = frozenset(
    map(stem, ("default", "value", "setting", "option", "parameter", "configuration", "number", "used"))
)


class _Asked(NamedTuple):
    """A question for a default.

    Attributes:
        words: its content words by their stems.
        what: the stems of what the default is asked of: "retry delay" in "the default retry delay of a task".
        is_thing: it asks what that is ("the default editor"), which "true" does not say.
    """

    text: str
    words: Mapping[str, str]
    what: Set[str]
    is_thing: bool


class _Stated(NamedTuple):
    """A candidate that states a default, with the stems of the heading above it and where that is."""

    number: int
    name: frozenset[str]
    place: tuple[str, str]


def asks_default(question: str, term: str = "") -> bool:
    """Return whether a question asks for a default, and the term that it names is not itself called so.

    >>> asks_default("What is max_size by default?", "max_size"), asks_default("What is a default?", "Default")
    (True, False)
    """
    return bool(_ASKS_DEFAULT.search(question)) and not _ASKS_DEFAULT.search(term)


def of_defaults_asked(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Return the candidates on the default of the setting asked for, if it is found, else all.

    Also 1 for those that state it, or where no such setting is found those that say what it is in the words of the
    question; and -1 for each statement of a default if a word of what is asked of is nowhere in the passages.

    A setting is asked for if the question has all words of its name, its heading, and what else it asks is in the
    passage. Where several settings may be meant, all are kept.
    """
    if not asks_default(asked.text):
        return [*kept], {}
    phrase = _OF_WHAT.search(asked.text)
    what = phrase["what"] if phrase else ""
    is_thing = bool(what) and _ASKS_THING.search(asked.text) is not None
    question = _Asked(asked.text, _content(asked.text), _content(what).keys(), is_thing)
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for entry in entries:
        passage = entry.passage
        text = f"{above(passage)}\n{source_of(passage)}\n{passage.text}"
        # Parts of names are sought as words, "dbdays" of "maxDBdays" too, whose humps small letters hide.
        told[source_of(passage)][passage.id] = f"{text}\n{_HUMP.sub(' ', text)}".casefold()
    documents = {source: "\n".join(texts.values()) for source, texts in told.items()}
    stating = [i for i in kept if _STATES_DEFAULT.search(entries[i].text)]
    if _ASKS_AMOUNT.search(asked.text):  # "false" is no amount
        kept = [i for i in kept if i not in stating or not _SWITCHED.search(entries[i].text)]
        stating = [i for i in stating if i in kept]
    if _lacks("\n".join(documents.values()), [question.words[one] for one in question.what]):
        return [*kept], dict.fromkeys(stating, -1)
    found, exact = [], []
    for i in stating:
        passage = entries[i].passage
        name = frozenset(_content(heading := innermost(passage)))
        if name and name <= question.words.keys():
            place = told[source_of(passage)][passage.id], documents[source_of(passage)]
            if _has_name(asked.text, heading):
                exact.append(_Stated(i, name, entries[i].place))
            elif _is_asked(question, name, *place):
                found.append(_Stated(i, name, entries[i].place))
    own = _best(exact or found, question.what)
    if len({one.place for one in own}) != 1 and len({" ".join(entries[one.number].text.split()) for one in own}) != 1:
        if said := [i for i in kept if _says(entries[i].text, what)]:
            return [*kept], dict.fromkeys(said, 1)
        described = _described(question, entries, stating) if _ASKS_WHAT.search(asked.text) else []
        return [i for i in kept if not described or i in described or i not in stating], dict.fromkeys(described, 1)
    numbers = [one.number for one in own]
    title = innermost(entries[numbers[0]].passage)
    texts = ((i, entries[i].text) for i in kept)
    named = [i for i, text in texts if i in numbers or (asks_default(text) and _has_name(text, title))]
    return named, dict.fromkeys(numbers, 1)


def _is_asked(question: _Asked, name: Collection[str], passage: str, document: str) -> bool:
    """Return whether a question may ask for the setting of that name that a passage describes.

    One more word may be missing there, which says whose setting it is ("in Corrow"): if the document has it, or it is a
    proper name, which a product's documents seldom repeat.
    """
    if question.what and question.what.isdisjoint(name):
        return False
    others = [word for one, word in question.words.items() if one not in name]
    missing = [word for word in others if _lacks(passage, [word])]
    if not missing:
        return True
    (owner, *more) = missing
    known = _is_proper(owner, question.text) or not _lacks(document, [owner])
    within = re.search(rf"\bin (?:the )?(?i:{re.escape(owner)})\W*$", question.text) is not None
    return known and not more and (within or len(others) > 1)


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


def _described(question: _Asked, entries: Sequence[Entry], stating: Sequence[int]) -> list[int]:
    """Return the statement of the default of what is described in the words of the question right before it, if any.

    "`mode`: The permissions of the socket. Defaults to `666`": in the same item of a list, or in the same paragraph.
    Headings may have some of the words. Of several the one with most of them, then the shortest.
    """
    held: dict[int, tuple[int, int]] = {}
    for i in stating:
        passage, c = entries[i].passage, entries[i].candidate
        *_, begin = (0, *(m.end() for m in _BLOCK.finditer(passage.text, 0, c.start)))
        block = _content(passage.text[begin : c.end]).keys() & question.words.keys()
        headings = _content(f"{above(passage)}\n{source_of(passage)}").keys()
        if question.is_thing and _SWITCHED.search(entries[i].text):
            continue
        near = c.start - begin <= _NEAR
        if near and len(block) > 1 and question.words.keys() <= block | headings:
            held[i] = len(block), begin - c.end
    return [max(held, key=held.__getitem__)] if held else []


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


def _lacks(text: str, names: Iterable[str]) -> bool:
    """Return whether a text, in small letters, has one of the words in no form, nor as the beginning of another one."""
    return any(not re.search(rf"(?<![^\W_])(?:{re.escape(one)}|{re.escape(stem(one))})", text) for one in names)


def _content(text: str) -> dict[str, str]:
    """Map the stems of the content words to these, the parts of names apart, without words of any such question."""
    parts = words(_HUMP.sub(" ", text).replace("'s ", " ").replace("’s ", " "))
    return {one: word for word in parts if word not in STOP_WORDS and (one := stem(word)) not in _GENERIC}
