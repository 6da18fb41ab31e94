"""Sentences and passages that state facts, with the place of each statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared_core.lab.facts import KINDS, Entity, Fact, Value
from shared_core.lab.names import Dice

Status = Literal["current", "outdated", "contradicting"]
Subject = Literal["name", "pronoun", "noun"]
"""Reference of a sentence to its subject."""

LEADS = (
    "As the records show, ", "By most accounts, ", "It is well attested that ", "According to the archives, ",
    "One reads everywhere that ",
)  # fmt: skip
"""Openings of sentences that begin with their subject."""
_POSSESSIVES = {"she": "her", "he": "his", "it": "its"}


def article(text: str) -> str:
    """Put the indefinite article before ``text``."""
    return f"{'an' if text[:1].lower() in 'aeiou' else 'a'} {text}"


def possessive(text: str) -> str:
    """Return the possessive form: "Mara Dellin's", "the Keepers'"."""
    return f"{text}'" if text.endswith("s") else f"{text}'s"


def capitalise(sentence: str) -> str:
    """Capitalise the first letter of a sentence."""
    return sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A value that a sentence states for a fact.

    Attributes:
        status: ``current`` if the value is true, ``outdated`` if it was, ``contradicting`` if it never was.
    """

    fact: str
    status: Status
    value: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence, or a row of a table, with the values it states."""

    text: str
    states: tuple[StatedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """The place of a stated value: ``passage.text[start:end]`` is a whole sentence, list item or row of a table.

    Attributes:
        start, end: code points of the passage's text.
        status: whether the stated value is true, was, or never was.
        value: the value as stated; the fact's own where the status is ``current``.
    """

    fact: str
    passage: str
    start: int
    end: int
    status: Status
    value: str


def fill(template: str, entity: Entity, value: Value | None = None, subject: Subject = "name") -> str:
    """Fill in a template; the first letter is not capitalised.

    A pronoun or noun replaces the name only in templates that begin with the subject.
    """
    own = _POSSESSIVES[entity.pronoun]
    name, whose = entity.phrase, possessive(entity.phrase)
    if template.startswith(("{s}", "{p}")):
        if subject == "pronoun":
            name, whose = entity.pronoun, own
        elif subject == "noun" and KINDS[entity.type].noun:
            name = f"the {KINDS[entity.type].noun}"
            whose = possessive(name)
    text = value.text if value else ""
    return template.format(s=name, p=whose, own=own, v=text, va=article(text))


def plain(fact: Fact, entity: Entity, value: Value | None = None) -> str:
    """State the fact (or another value of its attribute) in its plain form, which begins with the name."""
    return capitalise(fill(fact.spec.sentences[0], entity, value or fact.value))


def sentence(fact: Fact, entity: Entity, dice: Dice, *, subject: Subject = "name", status: Status = "current") -> Line:
    """State a fact in one of its wordings."""
    template = dice.pick(fact.spec.sentences)
    value = {"current": fact.value, "outdated": fact.former, "contradicting": fact.false}[status]
    assert value is not None
    text = fill(template, entity, value, subject)
    if template.startswith(("{s}", "{p}")) and dice.chance(0.08):
        text = dice.pick(LEADS) + text
    return Line(capitalise(text), (StatedValue(fact.id, status, value.text),))


def joined(first: Fact, second: Fact, entity: Entity, dice: Dice, subject: Subject = "name") -> Line:
    """State two facts of one subject in one sentence."""
    wordings = [[t for t in f.spec.sentences if t.startswith("{s} ")] for f in (first, second)]
    opening = fill(dice.pick(wordings[0]), entity, first.value, subject).rstrip(".")
    rest = fill(dice.pick(wordings[1]).removeprefix("{s} "), entity, second.value)
    stated = tuple(StatedValue(f.id, "current", f.value.text) for f in (first, second))
    return Line(capitalise(f"{opening} and {rest}"), stated)


def idle(entity: Entity, dice: Dice, subject: Subject = "name") -> Line:
    """Write a sentence about the entity that answers no question."""
    return Line(capitalise(fill(dice.pick(KINDS[entity.type].idle), entity, None, subject)))


def compose(lines: Sequence[Line], passage: str, joiner: str = " ") -> tuple[str, tuple[Statement, ...]]:
    """Join lines to the text of a passage, and locate the statements in it."""
    text, found = "", []
    for line in lines:
        text += joiner if text else ""
        start, end = len(text), len(text) + len(line.text)
        found += [Statement(s.fact, passage, start, end, s.status, s.value) for s in line.states]
        text += line.text
    return text, tuple(found)
