"""Questions that the documents do not answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shared_core.lab.build import Draft
from shared_core.lab.dice import Dice
from shared_core.lab.facts import Entity, Fact, Tier
from shared_core.lab.names import phrase
from shared_core.lab.questions import Asker, Places, Question, QuestionKind, ask, subjects
from shared_core.lab.schema import KINDS

_REAL: tuple[Tier, ...] = ("popular", "middle", "obscure")


def unanswerable(draft: Draft, asker: Asker, removed: Places, dice: Dice) -> Iterator[Question]:
    """Write all unanswerable questions, kind by kind.

    Args:
        draft: entities and facts.
        asker: supplies the stated facts, and other values of an attribute.
        removed: finds the withheld passages that state a fact.
        dice: source of randomness.
    """
    maker = _UnanswerableAsker(draft, asker, removed, dice)
    yield from maker.numbered("invented", maker.invented())
    yield from maker.numbered("missing_attribute", maker.missing())
    yield from maker.numbered("near_miss", maker.near_misses())
    yield from maker.numbered("removed", maker.removed())
    yield from maker.numbered("false_presupposition", maker.presupposing())


class _UnanswerableAsker:
    """A writer of questions without an answer; methods yield (paraphrases, entity, withheld fact or ``None``)."""

    def __init__(self, draft: Draft, asker: Asker, removed: Places, dice: Dice) -> None:
        self.draft, self.asker, self.removed_places, self.dice = draft, asker, removed, dice

    def numbered(
        self, kind: QuestionKind, made: Iterator[tuple[Sequence[str], Entity, Fact | None]]
    ) -> Iterator[Question]:
        """Make numbered questions of one kind."""
        for number, (paraphrases, entity, fact) in enumerate(made, 1):
            removed = self.removed_places(fact.id) if fact is not None else ()
            yield Question(
                f"{kind}-{number:04d}",
                kind,
                tuple(dict.fromkeys(paraphrases)),
                (),
                (),
                (),
                (),
                (entity.id,),
                entity.tier,
                entity.split,
                removed=removed,
                truth=fact.value.answers if fact is not None else (),
            )

    def invented(self) -> Iterator[tuple[Sequence[str], Entity, None]]:
        """Ask about names that no document has."""
        for entity in subjects(self.draft, ("invented",)):
            for attribute in self.dice.sample(KINDS[entity.type].attributes, 2):
                yield ask(attribute, entity.phrase, self.dice), entity, None

    def missing(self) -> Iterator[tuple[Sequence[str], Entity, None]]:
        """Ask for attributes that the entity lacks, or that no document states of anything."""
        for entity in subjects(self.draft, _REAL):
            kind = KINDS[entity.type]
            lacking = [a for a in kind.attributes if f"{entity.id}.{a.name}" not in self.draft.facts]
            if lacking and self.dice.chance(0.5):
                yield ask(self.dice.pick(lacking), entity.phrase, self.dice), entity, None
            elif self.dice.chance(0.2):
                forms = self.dice.shuffled(self.dice.pick(kind.unstated).questions)
                yield [f.format(x=entity.phrase) for f in forms], entity, None

    def near_misses(self) -> Iterator[tuple[Sequence[str], Entity, None]]:
        """Ask about a near-duplicate of a name in the documents, or an event of another year."""
        for entity in subjects(self.draft, _REAL):
            facts = self.asker.facts.get(entity.id, [])
            if not facts or not self.dice.chance(0.35):
                continue
            fact = self.dice.pick(facts)
            year = self.draft.facts.get(f"{entity.id}.year")
            if entity.type == "event" and year is not None and fact.id != year.id and self.dice.chance(0.5):
                other = (year.value.number or 0) + self.dice.pick((-40, -30, -20, -10, 10, 20, 30, 40))
                mistaken = f"{entity.phrase} of {other}"
            else:
                mistaken = phrase(entity.type, self.draft.namer.near(entity.type, entity.name))
            yield ask(fact.spec, mistaken, self.dice), entity, None

    def removed(self) -> Iterator[tuple[Sequence[str], Entity, Fact]]:
        """Ask for facts whose passages were removed from the documents."""
        for fact in self.draft.facts.values():
            if fact.withheld:
                entity = self.draft.entities[fact.subject]
                yield ask(fact.spec, entity.phrase, self.dice), entity, fact

    def presupposing(self) -> Iterator[tuple[Sequence[str], Entity, None]]:
        """Ask with a false presupposition."""
        for entity in subjects(self.draft, _REAL):
            stated = {f.spec.name: f for f in self.asker.facts.get(entity.id, [])}
            ways = [p for p in KINDS[entity.type].presumptions if p.attribute in stated and p.asks in stated]
            if not ways or not self.dice.chance(0.35):
                continue
            way = self.dice.pick(ways)
            other = self.asker.another(stated[way.attribute])
            if other is not None:
                forms = self.dice.shuffled(way.questions)
                yield [f.format(x=entity.phrase, v=other.text) for f in forms], entity, None
