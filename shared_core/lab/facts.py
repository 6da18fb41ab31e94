"""The world in types: its schema, read from ``world.toml``, and the entities and facts that are stated in its terms.

All prose of the world is in that file: every way to state a fact, to ask for it and to compare by it. This module gives
it types and checks it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from typing_extensions import TypeIs

EntityType = Literal["person", "city", "country", "work", "organisation", "event", "ship", "mountain"]
ValueSet = Literal[
    "year", "metres", "participants", "occupation", "instrument", "colour", "language", "currency", "river", "plant",
    "field", "rock", "binding",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contest:
    """Questions that compare two things by a number.

    Attributes:
        less: ask for the thing with the smaller number; with ``{a}`` and ``{b}``.
        more: ask for the thing with the larger one.
    """

    less: tuple[str, ...]
    more: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a type of thing.

    Attributes:
        name: name, unique within the type, for instance ``birthplace``.
        subject: type of the things that have it.
        value: type of its values: things of the world, or a closed set.
        label: a noun for it, as in "the birthplace of {x}"; the heading of its column in tables.
        sentences: ways to state it; the first begins with ``{s}`` and is the plain one.
        questions: ways to ask for it.
        yes_no: ways to ask whether it has a given value.
        nouns: ways to name its value from the subject ("the birthplace of {x}"), for attributes that can be a hop.
        contest: questions that compare two things by it (numbers only).
        same: questions whether two things have the same value; with ``{a}`` and ``{b}``.
        changing: whether older documents may state a former value.
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
        """Name that is unique in the world, for instance ``person.birthplace``."""
        return f"{self.subject}.{self.name}"


@dataclass(frozen=True, slots=True)
class Unstated:
    """An attribute that no document ever states, and the questions for it."""

    name: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Presumption:
    """A question that takes a relation for granted: asked with a wrong value, it has no answer.

    Attributes:
        attribute: name of the relation that is taken for granted.
        asks: name of the attribute that is asked for, of the same thing.
        questions: the wordings, with ``{x}`` for the thing and ``{v}`` for the presumed value.
    """

    attribute: str
    asks: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of thing.

    Attributes:
        noun: a noun for one of them in prose ("the ship"); empty for people, who get pronouns.
        attributes: its attributes, in the order of tables.
        unstated: attributes that no document states.
        presumptions: questions with a false presupposition.
        idle: sentences that answer no question; with ``{s}``, ``{p}``, ``{own}``.
    """

    type: EntityType
    noun: str
    attributes: tuple[Attribute, ...]
    unstated: tuple[Unstated, ...]
    presumptions: tuple[Presumption, ...]
    idle: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NameParts:
    """The parts that names are made of: syllables of invented words, first names, words of titles, endings."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    middles: tuple[str, ...]
    codas: tuple[str, ...]
    women: tuple[str, ...]
    men: tuple[str, ...]
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    proud: tuple[str, ...]
    animals: tuple[str, ...]
    bodies: tuple[str, ...]
    affairs: tuple[str, ...]
    peaks: tuple[str, ...]
    lands: tuple[str, ...]
    towns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Schema:
    """The tables of the file."""

    words: dict[ValueSet, tuple[str, ...]]
    names: NameParts
    kinds: tuple[Kind, ...]


def _read(path: Path) -> _Schema:
    """Read and check a schema; pydantic's error names the place of what is wrong in it."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    for kind in tables["kinds"]:
        for attribute in kind["attributes"]:
            attribute["subject"] = kind["type"]  # the file says it once for each type
    return TypeAdapter(_Schema).validate_python(tables)


_SCHEMA = _read(Path(__file__).with_name("world.toml"))

KINDS: Mapping[EntityType, Kind] = MappingProxyType({kind.type: kind for kind in _SCHEMA.kinds})
"""Every type of thing, by name."""

ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType({a.key: a for k in KINDS.values() for a in k.attributes})
"""Every attribute by its key (``person.birthplace``)."""

WORDS: Mapping[ValueSet, tuple[str, ...]] = MappingProxyType(_SCHEMA.words)
"""Value sets that are lists of words, the same in every world. Others are numbers, or are named for each world."""

NAME_PARTS = _SCHEMA.names


def is_entity_type(value: EntityType | ValueSet) -> TypeIs[EntityType]:
    """Return whether an attribute's values are things of the world, not words or numbers."""
    return value in KINDS


Tier = Literal["popular", "middle", "obscure", "invented"]
Split = Literal["train", "tune", "test"]
Pronoun = Literal["she", "he", "it"]

TIERS: tuple[Tier, ...] = get_args(Tier)
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a fact.

    Attributes:
        text: the value as sentences have it ("the Silver Heron", "2431 metres").
        aliases: other forms that count as the same answer.
        number: the number, for values that can be compared; else ``None``.
        entity: id of the entity that the value is; empty for values of a closed set.
    """

    text: str
    aliases: tuple[str, ...] = ()
    number: int | None = None
    entity: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """All forms that are right answers."""
        return (self.text, *self.aliases)


def number_value(kind: ValueSet, number: int) -> Value:
    """Return a value of ``year``, ``metres`` or ``participants``."""
    if kind == "metres":
        return Value(f"{number} metres", (f"{number} m", str(number)), number)
    return Value(str(number), (), number)


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place or thing of the world, or a name that belongs to nobody (tier ``invented``).

    Attributes:
        id: unique id, for instance ``ship-bold-heron``.
        name: its name without "the".
        phrase: its name in running text ("the Bold Heron").
        tier: how much the documents say of it, and whether the model was trained on it.
        split: split of the questions about it; entities refer to entities of their own split only.
        pronoun: ``she``, ``he`` or ``it``.
        twin: id of the entity with nearly the same name; empty if there is none.

    >>> from shared_core.lab import World
    >>> world = World(0, size=0.1)
    >>> [entity.type for entity in world.entities[:1]]
    ['country']
    """

    id: str
    type: EntityType
    name: str
    phrase: str
    aliases: tuple[str, ...]
    tier: Tier
    split: Split
    pronoun: Pronoun = "it"
    twin: str = ""

    @property
    def value(self) -> Value:
        """The entity as the value of a fact."""
        return Value(self.phrase, self.aliases, None, self.id)


@dataclass(frozen=True, slots=True)
class Fact:
    """A true statement: an entity, an attribute and its value.

    Attributes:
        subject: id of the entity it is about.
        attribute: key of its attribute (``person.birthplace``).
        value: the true value, which the newest documents state.
        tier, split: tier and split of its subject.
        known: whether the model was trained on it (popular: always; middle: half of them; obscure: never).
        former: the value that an outdated document states; ``None`` if there is no such document.
        false: the value that a contradicting document states; ``None`` if there is none.
        withheld: whether the passages that state it were removed from the documents.

    >>> from shared_core.lab import World
    >>> fact = World(0, size=0.1).facts[0]
    >>> fact.id == f"{fact.subject}.{fact.spec.name}"
    True
    """

    subject: str
    attribute: str
    value: Value
    tier: Tier
    split: Split
    known: bool = False
    former: Value | None = None
    false: Value | None = None
    withheld: bool = False

    @property
    def id(self) -> str:
        """Unique id of subject and attribute: a subject has one value of each."""
        return f"{self.subject}.{self.spec.name}"

    @property
    def spec(self) -> Attribute:
        """Its attribute: how the fact is stated and asked for."""
        return ATTRIBUTES[self.attribute]

    @property
    def disputed(self) -> bool:
        """Whether a document states another value."""
        return self.former is not None or self.false is not None
