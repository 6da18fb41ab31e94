"""What can be known of a thing in the world: attributes, values, and every way in which prose states or asks them.

Placeholders of sentences: ``{s}`` the subject (a name, a pronoun, "the ship"), ``{p}`` the subject's possessive ("Mara
Dellin's", "her"), ``{own}`` the possessive pronoun, ``{v}`` the value, ``{va}`` the value with its article. Questions
have ``{x}`` for whom or what they ask about, claims in question form (``yes_no``) ``{v}`` and ``{va}`` as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EntityType = Literal["person", "city", "country", "work", "organisation", "event", "ship", "mountain"]
ValueSet = Literal[
    "year", "metres", "participants", "occupation", "instrument", "colour", "language", "currency", "river", "plant",
    "field", "rock", "binding",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contest:
    """Questions that compare two things by a number.

    Attributes:
        less: asks for the one with the smaller number; has ``{a}`` and ``{b}``.
        more: for the one with the larger.
    """

    less: tuple[str, ...]
    more: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something that a fact says of a thing.

    Attributes:
        name: unique within its type, for instance ``birthplace``.
        subject: type of the things that have it.
        value: the type of the thing that is its value, or the closed set that the value is from.
        label: a noun for it, as in "the birthplace of {x}"; heads columns of tables.
        sentences: ways to state it; the first begins with ``{s}`` and is the plain one.
        questions: ways to ask for it.
        yes_no: ways to ask whether it has a given value.
        nouns: ways to name its value from the subject ("the birthplace of {x}"): of attributes that can be a hop.
        contest: questions that compare two things by it (numbers only).
        same: questions whether two things have the same value; ``{a}``, ``{b}``.
        changing: it has had another value before, which older documents state.
    """

    name: str
    subject: EntityType
    value: EntityType | ValueSet
    label: str
    sentences: tuple[str, ...]
    questions: tuple[str, ...]
    yes_no: tuple[str, ...]
    nouns: tuple[str, ...] = ()
    contest: Contest | None = None
    same: tuple[str, ...] = ()
    changing: bool = False

    @property
    def key(self) -> str:
        """Unique in the world, for instance ``person.birthplace``."""
        return f"{self.subject}.{self.name}"


@dataclass(frozen=True, slots=True)
class Unstated:
    """Something that no document ever says of things of its type."""

    name: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Presumption:
    """A question that takes a relation for granted: asked with a wrong value, it has no answer.

    Attributes:
        attribute: name of the relation that is taken for granted.
        asks: name of the attribute that is asked for, of the same thing.
        questions: with ``{x}`` for the thing and ``{v}`` for the presumed value.
    """

    attribute: str
    asks: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of thing.

    Attributes:
        type: its name.
        noun: stands for a thing of it in prose ("the ship"); empty for people, who get pronouns.
        attributes: what can be known of it, in the order of tables.
        unstated: what no document says of it.
        presumptions: questions with a false presupposition.
        idle: sentences that say nothing that is asked for; ``{s}``, ``{p}``, ``{own}``.
    """

    type: EntityType
    noun: str
    attributes: tuple[Attribute, ...]
    unstated: tuple[Unstated, ...]
    presumptions: tuple[Presumption, ...]
    idle: tuple[str, ...]
