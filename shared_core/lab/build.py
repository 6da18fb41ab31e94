"""Generate a world: its entities, then the facts about them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from shared_core.lab.facts import (
    KINDS,
    NAME_PARTS,
    SPLITS,
    WORDS,
    Attribute,
    Entity,
    EntityType,
    Fact,
    Pronoun,
    Split,
    Tier,
    Value,
    ValueSet,
    is_entity_type,
    number_value,
)
from shared_core.lab.names import Dice, Namer, aliases, phrase

T = TypeVar("T")

COUNTS: dict[EntityType, tuple[int, int]] = {
    "country": (30, 6), "city": (130, 16), "person": (330, 50), "organisation": (90, 14), "work": (130, 18),
    "event": (70, 12), "ship": (70, 12), "mountain": (60, 10),
}  # fmt: skip
"""(entities, invented names) of each type in a world of size 1."""

_FEWEST = 8
"""Fewest entities of a type, so that every split has two."""
_TIERS: tuple[tuple[Tier, float], ...] = (("popular", 0.28), ("middle", 0.36), ("obscure", 0.36))
_SPLITS: tuple[tuple[Split, float], ...] = (("train", 0.5), ("tune", 0.25), ("test", 0.25))
_TWINS = 0.14
"""Share of entities whose name is a near-duplicate of the previous one's."""
_LACKING = 0.12
"""Share of attributes that an entity does not have."""
_NEVER_LACKING = frozenset({"person.birth_year", "person.birthplace", "city.country", "country.capital"})
"""Attributes that other facts depend on, or follow from."""
_WITHHELD = 0.09
"""Share of the facts unknown to the model that are removed from all documents."""
_FORMER, _FALSE = 0.35, 0.04
"""Share of changing facts with an outdated document, and of all facts with a contradicting one."""
_LIKELY: dict[Tier, dict[Tier, float]] = {
    "popular": {"popular": 6, "middle": 2, "obscure": 1},
    "middle": {"popular": 2, "middle": 2, "obscure": 1},
    "obscure": {"popular": 1, "middle": 1, "obscure": 2},
}
"""Weights with which an entity of one tier refers to entities of another."""


@dataclass
class Draft:
    """A world while it is generated.

    Attributes:
        entities, facts: by id, in the order they were generated.
    """

    dice: Dice
    namer: Namer
    entities: dict[str, Entity] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    _decks: dict[tuple[str, Split], list[Value]] = field(default_factory=dict)
    _words: dict[ValueSet, tuple[Value, ...]] = field(default_factory=dict)
    _real: dict[tuple[EntityType, Split], list[Entity]] = field(default_factory=dict)

    def of(self, type: EntityType, split: Split) -> list[Entity]:
        """Return the real entities of a type and split; call it only when all entities exist (it caches)."""
        if not self._real:
            for entity in self.entities.values():
                if entity.tier != "invented":
                    self._real.setdefault((entity.type, entity.split), []).append(entity)
        return self._real.get((type, split), [])

    def facts_of(self, entity: Entity) -> list[Fact]:
        """Return the facts about an entity so far, in the order of its attributes."""
        keys = (f"{entity.id}.{a.name}" for a in KINDS[entity.type].attributes)
        return [self.facts[key] for key in keys if key in self.facts]

    def number(self, entity: str, attribute: str) -> int:
        """Return the number that is a fact's value."""
        found = self.facts[f"{entity}.{attribute}"].value.number
        assert found is not None
        return found

    def deal(self, kind: ValueSet, split: Split) -> Value:
        """Deal the next value of a closed set: within a split all are dealt about equally often."""
        if kind not in self._words:
            self._words[kind] = _named(kind, self.namer)
        deck = self._decks.setdefault((kind, split), [])
        if not deck:
            deck += self.dice.shuffled(self._words[kind])
        return deck.pop()


def _named(kind: ValueSet, namer: Namer) -> tuple[Value, ...]:
    """Return the values of a set: names that are new in each world, or a list of words."""
    if kind == "river":
        return tuple(Value(f"the {stem}", (stem,)) for stem in (namer.stem() for _ in range(40)))
    if kind == "language":
        return tuple(Value(f"{namer.stem()}ish") for _ in range(32))
    if kind == "currency":
        return tuple(Value(namer.stem().lower()) for _ in range(32))
    return tuple(Value(word) for word in WORDS[kind])


def build(dice: Dice, size: float, avoid: Collection[str]) -> Draft:
    """Generate the entities and facts of a world.

    Args:
        size: 1 gives about a thousand entities.
    """
    draft = Draft(dice, Namer(dice, avoid))
    for type, (real, invented) in COUNTS.items():
        _populate(draft, type, max(_FEWEST, round(real * size)), max(_FEWEST, round(invented * size)))
    for type in COUNTS:
        for split in SPLITS:
            for entity in draft.of(type, split):
                _describe(draft, entity)
    for split in SPLITS:
        _choose_capitals(draft, split)
    _assign_status(draft)
    return draft


# --- entities ------------------------------------------------------------------------------------------------------


def _populate(draft: Draft, type: EntityType, real: int, invented: int) -> None:
    """Generate the entities of one type; twins share their split."""
    dice = draft.dice
    tiers = dice.shuffled(_portions(_TIERS, real))
    splits = _portions(_SPLITS, real)
    before: Entity | None = None
    for tier, split in zip(tiers, splits):
        if before is not None and before.split == split and not before.twin and dice.chance(_TWINS):
            entity = _named_entity(type, draft.namer.near(type, before.name), tier, split, before.id)
            draft.entities[before.id] = dataclasses.replace(before, twin=entity.id)
        else:
            entity = _named_entity(type, draft.namer.name(type), tier, split)
        draft.entities[entity.id] = before = entity
    for split in _portions(_SPLITS, invented):
        entity = _named_entity(type, draft.namer.name(type), "invented", split)
        draft.entities[entity.id] = entity


def _portions(shares: Sequence[tuple[T, float]], total: int) -> list[T]:
    """Repeat each name according to its share, in the order given; ``total`` names in all."""
    found: list[T] = []
    done = 0.0
    for name, share in shares:
        done += share
        found += [name] * (round(done * total) - len(found))
    return found


def _named_entity(type: EntityType, name: str, tier: Tier, split: Split, twin: str = "") -> Entity:
    pronoun: Pronoun = "it" if type != "person" else "she" if name.split()[0] in NAME_PARTS.women else "he"
    slug = "-".join(name.lower().split())
    return Entity(f"{type}-{slug}", type, name, phrase(type, name), aliases(type, name), tier, split, pronoun, twin)


# --- facts ---------------------------------------------------------------------------------------------------------


def _describe(draft: Draft, entity: Entity) -> None:
    for attribute in KINDS[entity.type].attributes:
        if attribute.key == "country.capital":
            continue  # chosen once the cities have a country: see _choose_capitals
        if attribute.key not in _NEVER_LACKING and draft.dice.chance(_LACKING):
            continue
        draw = functools.partial(_draw, draft, entity, attribute)
        of_twin = draft.facts.get(f"{entity.twin}.{attribute.name}")
        value = _fresh(draw, of_twin.value if of_twin else None)
        if value is None and attribute.key in _NEVER_LACKING:
            value = draw()  # in a small world twins may have to share
        if value is not None:
            fact = Fact(entity.id, attribute.key, value, entity.tier, entity.split)
            draft.facts[fact.id] = fact


def _fresh(draw: Callable[[], Value | None], other: Value | None) -> Value | None:
    """Draw until a value differs from ``other``; ``None`` after 20 tries."""
    for _ in range(20):
        value = draw()
        if value is None or value != other:
            return value
    return None


def _draw(draft: Draft, entity: Entity, attribute: Attribute) -> Value | None:
    """Draw a value that agrees with the facts so far; ``None`` if there is none."""
    kind = attribute.value
    if kind == "year":
        return number_value("year", _year(draft, entity))
    if kind == "metres":
        low, high = (800, 7900) if entity.type == "mountain" else (18, 190)
        return number_value("metres", draft.dice.between(low, high))
    if kind == "participants":
        return number_value("participants", 10 * draft.dice.between(9, 970))
    if is_entity_type(kind):
        found = _refer(draft, entity, attribute, kind)
        return found.value if found else None
    return draft.deal(kind, entity.split)


def _year(draft: Draft, entity: Entity) -> int:
    """Draw a year that fits the people involved: nobody writes, founds or leads before they are grown up."""
    between = draft.dice.between
    if entity.type == "person":
        return between(1650, 1955)
    if entity.type == "city":
        return between(640, 1590)
    maker = next((f for f in draft.facts_of(entity) if f.value.entity.startswith("person-")), None)
    if maker is not None:
        return draft.number(maker.value.entity, "birth_year") + between(22, 60)
    builder = next((f for f in draft.facts_of(entity) if f.attribute == "ship.builder"), None)
    if builder is not None:
        founded = draft.facts.get(f"{builder.value.entity}.founded")
        if founded is not None and founded.value.number is not None:
            return founded.value.number + between(1, 50)
    return between(1680, 1985)


def _refer(draft: Draft, entity: Entity, attribute: Attribute, type: EntityType) -> Entity | None:
    """Choose an entity of that type and the same split to refer to; ``None`` if none fits."""
    used = {entity.id, *(f.value.entity for f in draft.facts_of(entity))}
    choices = [e for e in draft.of(type, entity.split) if e.id not in used]
    if attribute.key == "person.teacher":  # teachers are older than their pupils
        birth = draft.number(entity.id, "birth_year")
        described = [e for e in choices if f"{e.id}.birth_year" in draft.facts]  # people come one after the other
        choices = [e for e in described if 12 <= birth - draft.number(e.id, "birth_year") <= 90]
    if not choices:
        return None
    if attribute.key == "city.country":  # so that every country has a city, which can be its capital
        counts = {e.id: sum(f.value.entity == e.id for f in draft.facts.values()) for e in choices}
        choices = [e for e in choices if counts[e.id] == min(counts.values())]
    likely = _LIKELY[entity.tier]
    return draft.dice.weigh(choices, [likely[e.tier] for e in choices])


def _choose_capitals(draft: Draft, split: Split) -> None:
    """Choose each country's capital among its cities."""
    for country in draft.of("country", split):
        cities = [e for e in draft.of("city", split) if draft.facts[f"{e.id}.country"].value.entity == country.id]
        if cities:
            city = draft.dice.weigh(cities, [_LIKELY[country.tier][e.tier] for e in cities])
            fact = Fact(country.id, "country.capital", city.value, country.tier, split)
            draft.facts[fact.id] = fact


# --- known, withheld and disputed facts ----------------------------------------------------------------------------


def _assign_status(draft: Draft) -> None:
    """Decide of each fact whether the model is trained on it, and whether documents omit or dispute it."""
    dice = draft.dice
    for entity in draft.entities.values():
        facts = dice.shuffled(draft.facts_of(entity))
        # Half of an odd number is rounded up or down by chance, so that the share over all entities is a half.
        half = math.floor(len(facts) / 2 + (0.5 if dice.chance(0.5) else 0.0))
        known = {"popular": len(facts), "middle": half, "obscure": 0, "invented": 0}[entity.tier]
        for i, fact in enumerate(facts):
            withheld = i >= known and fact.attribute not in _NEVER_LACKING and dice.chance(_WITHHELD)
            changed = dataclasses.replace(fact, known=i < known, withheld=withheld)
            if not withheld:
                changed = _disputed(draft, entity, changed)
            draft.facts[fact.id] = changed


def _disputed(draft: Draft, entity: Entity, fact: Fact) -> Fact:
    """Give the fact a former value or a false one, for some facts."""
    attribute = fact.spec
    former = attribute.changing and draft.dice.chance(_FORMER)
    if not former and not draft.dice.chance(_FALSE):
        return fact
    other = _fresh(lambda: _draw(draft, entity, attribute), fact.value)
    if other is None or fact.attribute in ("city.country", "country.capital"):
        return fact
    return dataclasses.replace(fact, former=other) if former else dataclasses.replace(fact, false=other)
