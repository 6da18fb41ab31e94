"""Find what the words of a follow-up may refer to: names of the last questions and replies, or what they ask of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.conversation.numbered import WORDS
from shared_core.conversation.phrases import (
    Phrase,
    names_in_reply,
    new_in,
    phrases_of,
    thing_asked,
    thing_in_small,
    words_of,
)
from shared_core.support.regex import lazy_regex

LOOK_BACK = 4  # exchanges in which a pronoun's name is searched

ASKS_WHO = lazy_regex(r"\b(?:who|whom|whose)\b", re.I)
_ASKS_ABOUT = lazy_regex(
    r"^\W*[Ww]hat\s+(?:(?:do|does|did|can|will)\b|(?:is|are|was|were)\s+(?:an?\s|(?:the\s+)?[A-Z\w]*[A-Z_]\S*\W*$))"
)
_ASKS_FOR_IT = lazy_regex(r"^\W*(?:what|which|who|whose)\s+(?:is|are|was|were)\s+the\b", re.I)
_WHOLE = lazy_regex(r"\bthe\s+(?P<of>(?:[a-z-]+\s+){1,3}(?:of|at|for|to|from)\s+(?:the\s+)?)$")
_NOUN_PHRASE = lazy_regex(
    r"(?<!\bin )(?<!\bat )(?<!\bon )\bthe\s+([a-z-]+\s+[a-z-]+)(?=\s+(?:in|at|on|of|by|to|for)\b)"
)
_ASKS_WHICH = lazy_regex(r"^\W*(?:\w+\s+)?(?:what|which|name|who|whom|whose)\b", re.I)
_STOP = WORDS["stop"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question of the user, made full, and what was replied; empty for a reply that answered nothing.

    ``said`` are the words that an elliptic follow-up named something new by: "the boiler" of "What about the boiler?".
    """

    question: str
    reply: str = ""
    said: str = ""


def candidates(kind: str, exchanges: Sequence[Exchange]) -> list[Phrase]:
    """List what a word may refer to, at most two, the likelier first.

    The names of the last question come first; where it asks for a name ("Who …?", "Which …?"), that of the reply does.
    A person whom "who" asked for is no thing and no place.
    Without any name it is the thing that the last question asks of, before names that were spoken of earlier.

    Args:
        kind: ``person``, ``man``, ``woman`` (or a ship), ``thing``, ``place``, ``any``, or ``topic`` (the question's
            names rather than the reply's).
    """
    own: list[Phrase] = []
    for exchange in reversed(exchanges[-LOOK_BACK:]):
        names = _with_heads(exchange.question) if kind in ("thing", "any") else phrases_of(exchange.question)
        asked = sorted(names, key=lambda p: p.place)
        said = new_in(names_in_reply(exchange.reply), asked)
        said = _of_gender(kind, said, exchange.reply)
        thing = None if asked or kind in _PERSONS else thing_asked(exchange.said) or thing_asked(exchange.question)
        if kind in _THINGS:
            said = _no_persons(said, exchange)
            thing = thing and _without_role(thing, exchange.question)
        if thing and said and _asks_name(exchange.question) and kind != "topic":
            return [said[0], thing]
        own = own or ([thing] if thing else [])
        found = _in_order(exchange.question, kind, asked, said)
        if not found and kind in _PERSONS and exchange is exchanges[-1]:  # "What did Priya say?", "Why did she say so?"
            found = [p for p in asked if not (p.article or p.place or p.words & WORDS["things"])]
        if found:
            return [*own, *found][:2]
    if own or not exchanges or kind in _PERSONS:
        return own
    return [] if kind in _THINGS and _WHO_IS.match(exchanges[-1].question) else _own_words(exchanges[-1].question)


_PERSONS = ("person", "man", "woman")
_THINGS = ("thing", "place")
_WHO_IS = lazy_regex(r"^\W*(?:and\s+)?who(?:['’]s|\s+(?:is|are|was|were))\s+(?:(?:the|our|your|my|an?)\s+)?", re.I)
_ITS_THING = lazy_regex(r"\W*$|\s+(?:of|for|at|in|on|from|behind)\s+\w")


def _no_persons(names: list[Phrase], exchange: Exchange) -> list[Phrase]:
    """Leave out persons: whom "who" asked for, but not "the Harbour Trust"; and by whom something was done."""
    if ASKS_WHO.search(exchange.question):
        return [n for n in names if n.article or n.words & WORDS["things"]]
    return [n for n in names if not (n.is_person and re.search(r"\bby\s+$", exchange.reply[: n.start]))]


def _without_role(thing: Phrase, question: str) -> Phrase | None:
    """Return the thing that a question asks of: of "Who is the chef of the café?" the café, as the chef is a person."""
    who = _WHO_IS.match(question)
    if who is None or who.end() != thing.start:
        return thing
    role = _OF.split(thing.text)[0]
    rest = question[thing.start + len(role) :]
    return thing_asked(rest) if _ITS_THING.match(rest) else thing


_OF = lazy_regex(r"\s+(?:of|for)\s")


def _of_gender(kind: str, names: list[Phrase], reply: str) -> list[Phrase]:
    """Leave out persons whom the reply calls a daughter where a man is meant, or a son where a woman is.

    "Lavinia Hathe, daughter of Corwin Hathe": of these two, "he" is Corwin Hathe.
    """
    unfit = {"man": _WOMEN, "woman": _MEN}.get(kind)
    if unfit is None:
        return names
    names = [n for n in names if not re.match(rf"(?:{_TITLES[kind]})\b", n.text)]
    if len(names) < 2:
        return names
    fit = [n for n in names if not re.match(rf"\s*,\s+(?:[a-z]+\s+){{0,3}}(?:{unfit})\b", reply[n.end :])]
    fit = [n for n in fit if not re.search(rf"\b(?:{unfit})\s*,?\s*$", reply[: n.start])]
    return fit or names


_TITLES = {"man": "Mrs|Ms|Miss|Lady|Frau|Madame", "woman": "Mr|Sir|Lord|Herr|Monsieur"}
_WOMEN = "daughter|wife|mother|sister|widow|niece|aunt|grandmother|granddaughter|queen"
_MEN = "son|husband|father|brother|widower|nephew|uncle|grandfather|grandson|king"


def _own_words(question: str) -> list[Phrase]:
    """Return a thing without a name that a question is about ("the grey fever"), or its words with content as one."""
    if named := thing_in_small(question):
        return [named]
    if thing := _NOUN_PHRASE.search(question):
        return [Phrase(thing[1], thing.start(1), thing.end(1), True)]
    words = [w for w in words_of(question) if w not in _STOP]
    return [Phrase(" ".join(words), 0, 0, True)] if words else []


def _with_heads(question: str) -> list[Phrase]:
    """Return its names; before the first one the whole, where that is a part or thing of it: "the census of Tavarrin".

    "When was the census of Tavarrin taken?" is about the census, "What is the capital of Tavarrin?" about Tavarrin.
    """
    names = phrases_of(question)
    if not names or _ASKS_FOR_IT.match(question) or not (head := _WHOLE.search(question[: names[0].start])):
        return names
    start, end = head.start("of"), names[0].end
    return [Phrase(question[start:end], start, end, True), *names]


def _in_order(question: str, kind: str, asked: list[Phrase], said: list[Phrase]) -> list[Phrase]:
    asks_who = bool(ASKS_WHO.search(question))
    if kind == "topic":
        return [p for p in asked if not p.place] or said[:1] or asked
    if kind in _PERSONS:
        fits = [p for p in asked if p.is_person] or [p for p in asked if not p.article and not p.place and asks_who]
        others = [p for p in said if p.is_person] or (said[:1] if asks_who else [])
        ships = [p for p in asked if p.can_be_ship] if kind == "woman" and not asks_who else []
        return others if asks_who and others else fits or [*others[:1], *ships[:1]]
    if (
        kind in _THINGS
        and (who := _WHO_IS.match(question))
        and any(p.start == who.end() and p.is_person for p in asked)
    ):
        return said[:1]  # "Who was Lavinia Hathe?", "She founded the Tide Museum."
    things = [p for p in asked if not p.is_person] or asked
    if _ASKS_ABOUT.match(question):  # "What is X?", "What does X do?": about X, whatever names the reply has
        return things or _own_words(question)
    if asks_who and kind in ("thing", "place"):
        return things[:1]
    if _asks_name(question) and said:
        return [said[0], *(p for p in things[:1] if not p.words < said[0].words)]  # of "Windows 11" and "Windows" one
    return things or said


def _asks_name(question: str) -> bool:
    """Whether a question asks for a name: "What is the capital of …?" does, "What is the price of …?" does not."""
    return bool(_ASKS_WHICH.match(question)) and not _ASKS_VALUE.match(question)


_ASKS_VALUE = lazy_regex(
    rf"^\W*(?:and\s+)?what(?:['’]s|\s+(?:is|are|was|were))\s+(?:the\s+)?(?:[a-z-]+\s+)*?(?:{'|'.join(sorted(WORDS['values']))})\b"
    rf"|^\W*(?:and\s+)?what\s.*['’]s?\s+(?:[a-z-]+\s+)?(?:{'|'.join(sorted(WORDS['values']))})\W*$",
    re.I,
)
