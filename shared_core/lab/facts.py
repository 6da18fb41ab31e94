"""Who and what there is in the world, and all that is true of it."""

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
    """What a fact says.

    Attributes:
        text: as it stands in a sentence ("the Silver Heron", "2431 metres").
        aliases: other forms that are the same answer.
        number: of values that can be compared; ``None`` otherwise.
        entity: id of the thing that the value is, empty for values of a closed set.
    """

    text: str
    aliases: tuple[str, ...] = ()
    number: int | None = None
    entity: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """Every form that is a right answer."""
        return (self.text, *self.aliases)


def number_value(kind: ValueSet, number: int) -> Value:
    """A number of ``year``, ``metres`` or ``participants``."""
    if kind == "metres":
        return Value(f"{number} metres", (f"{number} m", str(number)), number)
    return Value(str(number), (), number)


@dataclass(frozen=True, slots=True)
class Entity:
    """Someone or something of the world, or a name that is nobody's (tier ``invented``).

    Attributes:
        id: unique, for instance ``ship-bold-heron``.
        type: what it is.
        name: without "the".
        phrase: the name as it stands in running text ("the Bold Heron").
        aliases: other forms that mean it.
        tier: how much there is to read about it, and whether a model learns it.
        split: which half of the questions it belongs to; things refer to things of their own split only.
        pronoun: ``she``, ``he`` or ``it``.
        twin: id of the thing whose name is nearly the same; empty if there is none.
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
    """One thing that is true.

    Attributes:
        subject: id of the entity it is about.
        attribute: key of what it says (``person.birthplace``).
        value: what is true, as the newest documents have it.
        tier, split: of its subject.
        known: a closed-book model is trained on it (popular: always; middle: half of them; obscure: never).
        former: what was true before and is stated by an older document; ``None`` if there is no such document.
        false: what a contradicting document says; ``None`` if there is none.
        withheld: no document states it: the passages that did are removed.
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
        """Unique: subject and attribute, each subject having one value of an attribute."""
        return f"{self.subject}.{ATTRIBUTES[self.attribute].name}"

    @property
    def spec(self) -> Attribute:
        """How its attribute is stated and asked for."""
        return ATTRIBUTES[self.attribute]
