"""A world, or some of its splits, as the source of training rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from shared_core.citation import split_sentences
from shared_core.lab.facts import KINDS, SPLITS, Entity, EntityType, Fact, Split, Value
from shared_core.lab.names import Dice
from shared_core.lab.prose import Statement
from shared_core.lab.questions import Question, QuestionKind
from shared_core.lab.world import World
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage


class Library:
    """A world as the source of training rows.

    Args:
        world: the world.
        splits: splits that rows may be about.
        learned: whether the model is trained on the world's known facts; practice worlds are only read.
    """

    def __init__(self, world: World, splits: Collection[Split] = SPLITS, *, learned: bool = True) -> None:
        self.world, self.learned = world, learned
        self.splits = frozenset(splits)
        self.passages = [p for p in world.documents() if p.metadata["split"] in self.splits]
        self.entities = [e for e in world.entities if e.split in self.splits]
        self.facts = [f for f in world.facts if f.split in self.splits]
        self.stated = [f for f in self.facts if self.current(f.id)]
        self.disputed = [f for f in self.stated if f.former is not None or f.false is not None]
        self._by_type: dict[EntityType, list[Passage]] = {
            type: [p for p in self.passages if p.metadata["type"] == type] for type in KINDS
        }

    def knows(self, fact: Fact) -> bool:
        """Return whether the model is trained on the fact."""
        return self.learned and fact.known

    # --- statements --------------------------------------------------------------------------------------------

    def current(self, fact: str) -> list[Statement]:
        """Return the statements of a fact's current value."""
        return [s for s in self.world.statements(fact) if s.status == "current"]

    def entity(self, fact: Fact) -> Entity:
        """Return the subject of a fact."""
        return self.world.entity(fact.subject)

    def stated_in(self, passages: Iterable[Passage]) -> list[Fact]:
        """Return the facts whose current value the passages state, each once, in order of the text."""
        found: dict[str, None] = {}
        for passage in passages:
            for statement in self.world.statements_in(passage.id):
                if statement.status == "current":
                    found.setdefault(statement.fact)
        return [self.world.fact(id) for id in found]

    def mentioned_in(self, passages: Iterable[Passage]) -> frozenset[str]:
        """Return the ids of the facts that the passages state, rightly or not."""
        return frozenset(s.fact for p in passages for s in self.world.statements_in(p.id))

    def evidence(self, statement: Statement) -> tuple[str, ...]:
        """Return the sentences that together state the fact and name its subject, in the order of the passage.

        If the sentence has only a pronoun, the last sentence with the name comes before it; before a row of a table,
        the header.
        """
        passage = self.world.passage(statement.passage)
        sentence = passage.text[statement.start : statement.end]
        if passage.metadata["kind"] == "table":
            return passage.text.split("\n")[0], sentence
        entity = self.entity(self.world.fact(statement.fact))
        if entity.name in sentence:
            return (sentence,)
        before = [passage.text[a:b] for a, b in split_sentences(passage.text) if b <= statement.start]
        naming = next((s for s in reversed(before) if entity.name in s), None)
        return (sentence,) if naming is None else (naming, sentence)

    def quote_from(self, fact: Fact, passages: Sequence[Passage], dice: Dice) -> tuple[str, ...] | None:
        """Return ``evidence`` of a statement of the fact in the passages, prose if possible; ``None`` if none."""
        ids = {p.id: p for p in passages}
        found = [s for s in self.current(fact.id) if s.passage in ids]
        prose = [s for s in found if ids[s.passage].metadata["kind"] != "table"]
        return self.evidence(dice.pick(prose or found)) if found else None

    # --- passages ----------------------------------------------------------------------------------------------

    def passage_of(self, fact: Fact, dice: Dice) -> Passage:
        """Draw a passage that states the fact's current value."""
        return self.world.passage(dice.pick(self.current(fact.id)).passage)

    def about(self, entity: Entity) -> list[Passage]:
        """Return the passages about the entity."""
        return self._about.get(entity.id, [])

    def beside(self, entity: Entity, dice: Dice, count: int, chosen: Sequence[Passage] = ()) -> list[Passage]:
        """Draw distractors: passages about the entity itself, its twin, entities of its type, or anything."""
        own = [p for p in self.about(entity) if p not in chosen]
        twin = self._about.get(entity.twin, [])
        found = list(chosen)
        for _ in range(count):
            pool = dice.weigh((own, twin, self._by_type[entity.type], self.passages), (0.15, 0.2, 0.4, 0.25))
            fresh = [p for p in (dice.pick(pool) for _ in range(3) if pool) if p not in found]
            if fresh:
                found.append(fresh[0])
        return found[len(chosen) :]

    def context(self, facts: Sequence[Fact], size: int, dice: Dice, query: str = "") -> list[Passage]:
        """Draw passages that state the facts, and distractors, in random order; at least ``size`` passages.

        With a ``query``, the distractors are the results of a search for it.
        """
        chosen = list({p.id: p for p in (self.passage_of(f, dice) for f in facts)}.values())
        missing = max(0, size - len(chosen))
        if query and missing:
            found = [p for p in self._retriever.retrieve(query, size + 1) if p not in chosen]
            chosen += found[:missing]
        else:
            chosen += self.beside(self.entity(facts[0]), dice, missing, chosen)
        return dice.shuffled(chosen)

    @cached_property
    def _retriever(self) -> BM25Retriever:
        return BM25Retriever(self.passages)

    @cached_property
    def _about(self) -> dict[str, list[Passage]]:
        found: dict[str, list[Passage]] = {}
        for passage in self.passages:
            found.setdefault(str(passage.metadata.get("entity", "")), []).append(passage)
        return found

    # --- questions ---------------------------------------------------------------------------------------------

    def questions(self, kind: QuestionKind) -> list[Question]:
        """Return the questions of a kind about these splits."""
        if kind not in self._questions:
            self._questions[kind] = [q for q in self.world.questions(kind=kind) if q.split in self.splits]
        return self._questions[kind]

    @cached_property
    def _questions(self) -> dict[QuestionKind, list[Question]]:
        return {}

    def wrong_value(self, fact: Fact, dice: Dice) -> Value | None:
        """Draw a value of the attribute that no document states of the fact's subject; ``None`` if none is found."""
        stated = {v.text for v in (fact.value, fact.former, fact.false) if v is not None}
        others = [
            f.value for f in dice.sample(self._by_attribute[fact.attribute], 8)
            if f.value.text not in stated and f.value.entity != fact.subject
        ]  # fmt: skip
        return others[0] if others else None

    @cached_property
    def _by_attribute(self) -> dict[str, list[Fact]]:
        found: dict[str, list[Fact]] = {}
        for fact in self.facts:
            found.setdefault(fact.attribute, []).append(fact)
        return found
