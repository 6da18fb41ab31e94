"""Sentences and passages that say facts, each fact with the place where it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared_core.lab.dice import Dice
from shared_core.lab.facts import Entity, Fact, Value
from shared_core.lab.schema import KINDS

Status = Literal["current", "outdated", "contradicting"]
Subject = Literal["name", "pronoun", "noun"]
"""How a sentence refers to whom it is about."""

LEADS = (
    "As the records show, ",
    "By most accounts, ",
    "It is well attested that ",
    "According to the archives, ",
    "One reads everywhere that ",
)
"""May stand before a sentence that begins with its subject."""
_POSSESSIVES = {"she": "her", "he": "his", "it": "its"}


def article(text: str) -> str:
    """``text`` with its indefinite article."""
    return f"{'an' if text[:1].lower() in 'aeiou' else 'a'} {text}"


def possessive(text: str) -> str:
    """Whose something is: "Mara Dellin's", "the Keepers'"."""
    return f"{text}'" if text.endswith("s") else f"{text}'s"


def capitalise(sentence: str) -> str:
    """The sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True, slots=True)
class Said:
    """A fact as a sentence says it.

    Attributes:
        fact: id.
        status: ``current`` if it is true, ``outdated`` if it was, ``contradicting`` if it never was.
        value: the value as said.
    """

    fact: str
    status: Status
    value: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence (or row of a table) with what it says; nothing where it is idle."""

    text: str
    says: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a fact is said: ``passage.text[start:end]`` is a whole sentence, list item or row of a table.

    Attributes:
        fact: id.
        passage: id.
        start, end: code points of the passage's text.
        status: whether what is said is true.
        value: as said; another than the fact's where it is not.
    """

    fact: str
    passage: str
    start: int
    end: int
    status: Status
    value: str


def fill(template: str, entity: Entity, value: Value | None = None, subject: Subject = "name") -> str:
    """A template as a sentence, without a capital letter of its own.

    Pronouns and nouns stand for the subject only where the sentence begins with it; elsewhere the name does.
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
    """The fact (or another value of its attribute) in its plain form: a sentence that begins with the name."""
    return capitalise(fill(fact.spec.sentences[0], entity, value or fact.value))


def value_of(fact: Fact, status: Status) -> Value:
    """What a fact's statement of that status says."""
    value = {"current": fact.value, "outdated": fact.former, "contradicting": fact.false}[status]
    assert value is not None
    return value


def sentence(fact: Fact, entity: Entity, dice: Dice, *, subject: Subject = "name", status: Status = "current") -> Line:
    """One fact in one of its wordings."""
    template = dice.pick(fact.spec.sentences)
    value = value_of(fact, status)
    text = fill(template, entity, value, subject)
    if template.startswith(("{s}", "{p}")) and dice.chance(0.08):
        text = dice.pick(LEADS) + text
    return Line(capitalise(text), (Said(fact.id, status, value.text),))


def joined(first: Fact, second: Fact, entity: Entity, dice: Dice, subject: Subject = "name") -> Line:
    """Two facts of one subject in one sentence."""
    wordings = [[t for t in f.spec.sentences if t.startswith("{s} ")] for f in (first, second)]
    opening = fill(dice.pick(wordings[0]), entity, first.value, subject).rstrip(".")
    rest = fill(dice.pick(wordings[1]).removeprefix("{s} "), entity, second.value)
    says = tuple(Said(f.id, "current", f.value.text) for f in (first, second))
    return Line(capitalise(f"{opening} and {rest}"), says)


def idle(entity: Entity, dice: Dice, subject: Subject = "name") -> Line:
    """A sentence about the entity that says nothing that anyone asks for."""
    return Line(capitalise(fill(dice.pick(KINDS[entity.type].idle), entity, None, subject)))


def compose(lines: Sequence[Line], passage: str, joiner: str = " ") -> tuple[str, tuple[Statement, ...]]:
    """The text of a passage, and the statements in it."""
    text, found = "", []
    for line in lines:
        text += joiner if text else ""
        start, end = len(text), len(text) + len(line.text)
        found += [Statement(s.fact, passage, start, end, s.status, s.value) for s in line.says]
        text += line.text
    return text, tuple(found)
