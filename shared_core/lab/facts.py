"""Entities of the world, and the facts about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared_core.lab.schema import ATTRIBUTES, Attribute, EntityType, ValueSet

Tier = Literal["popular", "middle", "obscure", "invented"]
Split = Literal["train", "tune", "test"]
Pronoun = Literal["she", "he", "it"]

TIERS: tuple[Tier, ...] = ("popular", "middle", "obscure", "invented")
SPLITS: tuple[Split, ...] = ("train", "tune", "test")


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
        type: its type.
        name: its name without "the".
        phrase: its name in running text ("the Bold Heron").
        aliases: other forms of the name.
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
        return f"{self.subject}.{ATTRIBUTES[self.attribute].name}"

    @property
    def spec(self) -> Attribute:
        """Its attribute: how the fact is stated and asked for."""
        return ATTRIBUTES[self.attribute]
