"""Questions about the world, with answers, facts and passages, and questions that the documents do not answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared_core.lab.build import Draft
from shared_core.lab.facts import ATTRIBUTES, KINDS, SPLITS, TIERS, Attribute, Entity, Fact, Split, Tier, Value
from shared_core.lab.names import Dice, phrase
from shared_core.lab.prose import article, plain

AnswerableKind = Literal["single", "two_hop", "three_hop", "yes_no", "comparison"]
UnanswerableKind = Literal["invented", "missing_attribute", "near_miss", "removed", "false_presupposition"]
QuestionKind = Literal[AnswerableKind, UnanswerableKind]

ANSWERABLE: tuple[QuestionKind, ...] = get_args(AnswerableKind)
UNANSWERABLE: tuple[QuestionKind, ...] = get_args(UnanswerableKind)
Places = Callable[[str], tuple[str, ...]]
"""Fact id → ids of the passages that state its current value."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the world.

    Attributes:
        kind: the kind of question, or why the documents do not answer it.
        paraphrases: at least three ways to ask it; the first is ``text``.
        answers: right answers, the plain one first; empty if the documents give none.
        facts: ids of the facts it takes to answer, in the order of the reasoning.
        passages: for each of those facts the ids of the passages that state it (any one is enough).
        steps: the reasoning, one sentence for each fact.
        entities: ids of the entities it is about, intermediate ones included; for a near miss, the one it resembles.
        tier: the least popular tier among these entities.
        known: whether the model was trained on every fact it takes.
        removed: ids of the passages that would answer it and were removed from the documents.
        truth: the answers that those passages give.

    >>> from shared_core.lab import World
    >>> questions = World(0, size=0.1).questions(kind="invented")
    >>> questions[0].answerable, questions[0].answers
    (False, ())
    """

    id: str
    kind: QuestionKind
    paraphrases: tuple[str, ...]
    answers: tuple[str, ...]
    facts: tuple[str, ...]
    passages: tuple[tuple[str, ...], ...]
    steps: tuple[str, ...]
    entities: tuple[str, ...]
    tier: Tier
    split: Split
    known: bool = False
    removed: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The question in its first form."""
        return self.paraphrases[0]

    @property
    def answerable(self) -> bool:
        """Whether the documents answer it."""
        return bool(self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; ``selfreflect eval`` reads ``question``, ``answers`` and ``answerable``."""
        head = {"id": self.id, "question": self.text, "answers": self.answers, "answerable": self.answerable}
        return head | dataclasses.asdict(self)


def ask(attribute: Attribute, phrase: str, dice: Dice) -> tuple[str, ...]:
    """Ask for an attribute of an entity in every wording, in random order."""
    return tuple(q.format(x=phrase) for q in dice.shuffled(attribute.questions))


class Asker:
    """A writer of questions.

    Args:
        places: finds the passages that state a fact.
        removed: finds the withheld passages that state it.
    """

    def __init__(self, draft: Draft, places: Places, removed: Places, dice: Dice) -> None:
        self.draft, self.places, self.removed, self.dice = draft, places, removed, dice
        self.real = [e for e in draft.entities.values() if e.tier != "invented"]
        self.facts: dict[str, list[Fact]] = {}
        for fact in draft.facts.values():
            if not fact.withheld:
                self.facts.setdefault(fact.subject, []).append(fact)

    def questions(self) -> Iterator[Question]:
        """Write all questions, kind by kind, the answerable ones first."""
        yield from self._numbered("single", (self._single(f) for fs in self.facts.values() for f in fs))
        yield from self._numbered("two_hop", self._hops(2))
        yield from self._numbered("three_hop", self._hops(3))
        yield from self._numbered("yes_no", (self._yes_no(self.dice.pick(fs)) for fs in self.facts.values()))
        yield from self._numbered("comparison", (*self._contests(), *self._sameness()))
        yield from self._numbered("invented", self._invented())
        yield from self._numbered("missing_attribute", self._missing())
        yield from self._numbered("near_miss", self._near_misses())
        yield from self._numbered("removed", self._withheld())
        yield from self._numbered("false_presupposition", self._presupposing())

    def _numbered(self, kind: QuestionKind, found: Iterable[Question]) -> Iterator[Question]:
        for number, question in enumerate(found, 1):
            yield dataclasses.replace(question, id=f"{kind}-{number:04d}")

    def _question(
        self, kind: QuestionKind, paraphrases: Sequence[str], answers: Sequence[str], facts: Sequence[Fact]
    ) -> Question:
        entities = [f.subject for f in facts]
        return Question(
            "",
            kind,
            tuple(dict.fromkeys(paraphrases)),
            tuple(answers),
            tuple(f.id for f in facts),
            tuple(self.places(f.id) for f in facts),
            tuple(plain(f, self.draft.entities[f.subject]) for f in facts),
            tuple(dict.fromkeys(entities)),
            max((f.tier for f in facts), key=TIERS.index),  # the least popular one
            facts[0].split,
            all(f.known for f in facts),
        )

    # --- one fact ----------------------------------------------------------------------------------------------

    def _single(self, fact: Fact) -> Question:
        asked = ask(fact.spec, self.draft.entities[fact.subject].phrase, self.dice)
        return self._question("single", asked, fact.value.answers, [fact])

    def _yes_no(self, fact: Fact) -> Question:
        """Ask whether the fact has a value: half the time one that no document states of the subject."""
        other = self.another(fact) if self.dice.chance(0.5) else None
        value = other or fact.value
        phrase = self.draft.entities[fact.subject].phrase
        forms = self.dice.shuffled(fact.spec.yes_no)
        asked = [f.format(x=phrase, v=value.text, va=article(value.text)) for f in forms]
        return self._question("yes_no", asked, ["no" if other else "yes"], [fact])

    def another(self, fact: Fact) -> Value | None:
        """Draw a value of the fact's attribute that no document states of its subject; ``None`` if there is none."""
        stated = {v.text for v in (fact.value, fact.former, fact.false) if v is not None}
        others = [
            f.value
            for f in self.draft.facts.values()
            if f.attribute == fact.attribute
            and f.split == fact.split
            and f.value.text not in stated
            and f.value.entity != fact.subject
        ]
        return self.dice.pick(others) if others else None

    # --- chains ------------------------------------------------------------------------------------------------

    def _hops(self, hops: int) -> Iterator[Question]:
        """Write chains of two or three facts, each about the value of the one before; at most one per first fact."""
        for first in [f for facts in self.facts.values() for f in facts if f.spec.nouns]:
            chain = [first]
            while len(chain) < hops:
                seen = {f.subject for f in chain}
                last = len(chain) == hops - 1
                ways = [
                    f
                    for f in self.facts.get(chain[-1].value.entity, [])
                    if f.value.entity not in seen and (last or f.spec.nouns)
                ]
                if not ways or chain[-1].value.entity in seen:
                    break
                chain.append(self.dice.pick(ways))
            if len(chain) == hops and (hops == 2 or self.dice.chance(0.5)):
                yield self._chained(chain)

    def _chained(self, chain: Sequence[Fact]) -> Question:
        kind: QuestionKind = "two_hop" if len(chain) == 2 else "three_hop"
        start = self.draft.entities[chain[0].subject].phrase
        asked = []
        for question in self.dice.shuffled(chain[-1].spec.questions):
            phrase = start
            for fact in chain[:-1]:
                phrase = self.dice.pick(fact.spec.nouns).format(x=phrase)
            asked.append(question.format(x=phrase))
        return self._question(kind, asked, chain[-1].value.answers, chain)

    # --- comparisons -------------------------------------------------------------------------------------------

    def _by_attribute(self, wanted: Callable[[Attribute], bool]) -> Iterator[tuple[Attribute, list[Fact]]]:
        every = [fact for facts in self.facts.values() for fact in facts]
        for split in SPLITS:
            for attribute in filter(wanted, ATTRIBUTES.values()):
                facts = [f for f in every if f.attribute == attribute.key and f.split == split]
                yield attribute, self.dice.shuffled(facts)

    def _contests(self) -> Iterator[Question]:
        for attribute, facts in self._by_attribute(lambda a: a.contest is not None):
            assert attribute.contest is not None
            for one, two in zip(facts[::2], facts[1::2]):
                low, high = sorted((one, two), key=lambda f: f.value.number or 0)
                if low.value.number == high.value.number:
                    continue
                less = self.dice.chance(0.5)
                forms = attribute.contest.less if less else attribute.contest.more
                winner = self.draft.entities[(low if less else high).subject]
                yield self._question("comparison", self._both(forms, one, two), winner.value.answers, [one, two])

    def _sameness(self) -> Iterator[Question]:
        for attribute, facts in self._by_attribute(lambda a: bool(a.same)):
            paired = 0
            for one, two in zip(facts[::3], facts[1::3]):
                if one.value.text != two.value.text:
                    paired += 1
                    yield self._question("comparison", self._both(attribute.same, one, two), ["no"], [one, two])
            for one, two in self._equal_pairs(facts)[: max(1, paired)]:
                yield self._question("comparison", self._both(attribute.same, one, two), ["yes"], [one, two])

    def _equal_pairs(self, facts: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
        by_value: dict[str, list[Fact]] = {}
        for fact in facts:
            by_value.setdefault(fact.value.text, []).append(fact)
        return [(same[0], same[1]) for same in by_value.values() if len(same) > 1]

    def _both(self, forms: Sequence[str], one: Fact, two: Fact) -> list[str]:
        names = [self.draft.entities[f.subject].phrase for f in (one, two)]
        return [f.format(a=names[0], b=names[1]) for f in self.dice.shuffled(forms)]

    # --- without an answer -------------------------------------------------------------------------------------

    def _unanswerable(
        self, kind: QuestionKind, paraphrases: Sequence[str], entity: Entity, withheld: Fact | None = None
    ) -> Question:
        return Question(
            "",
            kind,
            tuple(dict.fromkeys(paraphrases)),
            answers=(),
            facts=(),
            passages=(),
            steps=(),
            entities=(entity.id,),
            tier=entity.tier,
            split=entity.split,
            removed=self.removed(withheld.id) if withheld is not None else (),
            truth=withheld.value.answers if withheld is not None else (),
        )

    def _invented(self) -> Iterator[Question]:
        """Ask about names that no document has."""
        for entity in self.draft.entities.values():
            if entity.tier == "invented":
                for attribute in self.dice.sample(KINDS[entity.type].attributes, 2):
                    yield self._unanswerable("invented", ask(attribute, entity.phrase, self.dice), entity)

    def _missing(self) -> Iterator[Question]:
        """Ask for attributes that the entity lacks, or that no document states of anything."""
        for entity in self.real:
            kind = KINDS[entity.type]
            lacking = [a for a in kind.attributes if f"{entity.id}.{a.name}" not in self.draft.facts]
            if lacking and self.dice.chance(0.5):
                asked = ask(self.dice.pick(lacking), entity.phrase, self.dice)
                yield self._unanswerable("missing_attribute", asked, entity)
            elif self.dice.chance(0.2):
                forms = self.dice.shuffled(self.dice.pick(kind.unstated).questions)
                yield self._unanswerable("missing_attribute", [f.format(x=entity.phrase) for f in forms], entity)

    def _near_misses(self) -> Iterator[Question]:
        """Ask about a near-duplicate of a name in the documents, or an event of another year."""
        for entity in self.real:
            facts = self.facts.get(entity.id, [])
            if not facts or not self.dice.chance(0.35):
                continue
            fact = self.dice.pick(facts)
            year = self.draft.facts.get(f"{entity.id}.year")
            if entity.type == "event" and year is not None and fact.id != year.id and self.dice.chance(0.5):
                other = (year.value.number or 0) + self.dice.pick((-40, -30, -20, -10, 10, 20, 30, 40))
                mistaken = f"{entity.phrase} of {other}"
            else:
                mistaken = phrase(entity.type, self.draft.namer.near(entity.type, entity.name))
            yield self._unanswerable("near_miss", ask(fact.spec, mistaken, self.dice), entity)

    def _withheld(self) -> Iterator[Question]:
        """Ask for facts whose passages were removed from the documents."""
        for fact in self.draft.facts.values():
            if fact.withheld:
                entity = self.draft.entities[fact.subject]
                yield self._unanswerable("removed", ask(fact.spec, entity.phrase, self.dice), entity, fact)

    def _presupposing(self) -> Iterator[Question]:
        """Ask with a false presupposition."""
        for entity in self.real:
            stated = {f.spec.name: f for f in self.facts.get(entity.id, [])}
            ways = [p for p in KINDS[entity.type].presumptions if p.attribute in stated and p.asks in stated]
            if not ways or not self.dice.chance(0.35):
                continue
            way = self.dice.pick(ways)
            other = self.another(stated[way.attribute])
            if other is not None:
                asked = [f.format(x=entity.phrase, v=other.text) for f in self.dice.shuffled(way.questions)]
                yield self._unanswerable("false_presupposition", asked, entity)
