"""The documents of a world: profiles, notes, tables, lists and essays, and outdated or contradicting ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from shared_core.lab.build import Draft
from shared_core.lab.facts import KINDS, SPLITS, Attribute, Entity, Fact
from shared_core.lab.names import Dice
from shared_core.lab.prose import (
    Line,
    StatedValue,
    Statement,
    Status,
    Subject,
    capitalise,
    compose,
    idle,
    joined,
    sentence,
)
from shared_core.types import MetadataValue, Passage

DocumentKind = Literal["profile", "notes", "table", "list", "outdated", "contradicting", "essay", "withheld"]

_NOW, _THEN, _RUMOUR = (1996, 2020), (1921, 1988), (1890, 1990)
"""(first, last) year in which current, outdated and contradicting documents were written."""
_DATED = ("This entry dates from {}.", "This entry was last revised in {}.", "Written in {}.", "As of {}.")
_WRONG = ("A pamphlet of {}.", "Hearsay, written down in {}.", "From a broadsheet of {}.")
_ROWS = 5
"""Rows of a table or list."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the world.

    Attributes:
        id: unique id; the name of its file without ``.md``.
        title: heading of the file and title of its passages.
        kind: its kind; ``withheld`` documents are not among the world's documents.
        date: the year it was written in, which its text states where documents disagree.
    """

    id: str
    title: str
    kind: DocumentKind
    date: int
    passages: tuple[Passage, ...]
    statements: tuple[Statement, ...]


def write_all(draft: Draft, dice: Dice) -> Iterator[Document]:
    """Write all documents, withheld ones too, in a fixed order."""
    for entity in draft.entities.values():
        if entity.tier == "invented":
            continue
        writer = _Writer(draft, entity, dice)
        yield from writer.documents()
    yield from _tables(draft, dice)
    yield from _essays(draft, dice)


class _Writer:
    """A writer of all documents about one entity."""

    def __init__(self, draft: Draft, entity: Entity, dice: Dice) -> None:
        self.draft, self.entity, self.dice = draft, entity, dice
        facts = draft.facts_of(entity)
        self.facts = [f for f in facts if not f.withheld]
        self.withheld = [f for f in facts if f.withheld]

    def documents(self) -> Iterator[Document]:
        """Write profile, notes, outdated, contradicting and withheld documents, as far as there are facts for them."""
        dice, entity = self.dice, self.entity
        yield self._profile("profile", self.facts)
        if entity.tier == "popular" or (entity.tier == "middle" and dice.chance(0.25)):
            again = dice.sample(self.facts, max(2, (2 * len(self.facts) + 2) // 3))
            yield self._profile("notes", again)
        statuses: tuple[Literal["outdated", "contradicting"], ...] = ("outdated", "contradicting")
        for status in statuses:
            other = [f for f in self.facts if (f.former if status == "outdated" else f.false) is not None]
            if other:
                yield self._disputing(other, status)
        if self.withheld:
            yield self._profile("withheld", self.withheld)

    # --- profiles ----------------------------------------------------------------------------------------------

    def _profile(self, kind: DocumentKind, facts: Sequence[Fact]) -> Document:
        """Write a text about the entity, in passages of three or four facts."""
        dice = self.dice
        date = dice.between(*_NOW)
        dated = any(f.disputed for f in facts) or dice.chance(0.2)
        size = 3 if len(facts) > 4 or (self.entity.tier == "popular" and len(facts) > 3) else 4
        order = dice.shuffled(facts)
        parts = [order[i : i + size] for i in range(0, len(order), size)] or [[]]
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [parts[-2] + parts[-1]]
        title = {"notes": f"Notes on {self.entity.phrase}"}.get(kind, self.entity.name)
        lines = [self._passage(part, date if dated else None, kind) for part in parts]
        return self._document(kind, title, date, lines)

    def _passage(self, facts: Sequence[Fact], date: int | None, kind: DocumentKind) -> list[Line]:
        dice, entity = self.dice, self.entity
        lines: list[Line] = []
        waiting = list(facts)
        subject: Subject = "name"
        while waiting:
            if len(waiting) > 1 and dice.chance(0.3):
                lines.append(joined(waiting.pop(0), waiting.pop(0), entity, dice, subject))
            else:
                lines.append(sentence(waiting.pop(0), entity, dice, subject=subject))
            subject = self._next_subject()
            if dice.chance(0.3):
                lines.append(idle(entity, dice, subject))
                subject = self._next_subject()
            elif kind != "withheld" and dice.chance(0.12) and (aside := self._aside()) is not None:
                lines.append(aside)
                subject = "name"  # a pronoun would mean the other one
        if len(lines) < 2:
            lines.append(idle(entity, dice, "pronoun" if lines else "name"))
        if kind == "profile" and entity.twin and dice.chance(0.5):
            twin = self.draft.entities[entity.twin]
            lines.append(Line(f"Not to be confused with {twin.phrase}."))
        if date is not None:
            lines.insert(0 if dice.chance(0.5) else len(lines), Line(dice.pick(_DATED).format(date)))
        return _without_repeats(lines)

    def _next_subject(self) -> Subject:
        noun = 0.2 if KINDS[self.entity.type].noun else 0.0
        return self.dice.weigh(("pronoun", "noun", "name"), (0.55, noun, 0.45 - noun))

    def _aside(self) -> Line | None:
        """Write a true sentence about another entity that a fact refers to, or the twin."""
        ids = [f.value.entity for f in self.facts if f.value.entity] + [self.entity.twin]
        others = [self.draft.entities[i] for i in ids if i]
        if not others:
            return None
        other = self.dice.pick(others)
        facts = [f for f in self.draft.facts_of(other) if not f.withheld and not f.disputed]
        return sentence(self.dice.pick(facts), other, self.dice) if facts else None

    # --- disagreement ------------------------------------------------------------------------------------------

    def _disputing(self, facts: Sequence[Fact], status: Literal["outdated", "contradicting"]) -> Document:
        """Write a document with former or false values; it may state a true one too."""
        dice, entity = self.dice, self.entity
        years, forms = (_THEN, _DATED) if status == "outdated" else (_RUMOUR, _WRONG)
        date = dice.between(*years)
        lines = [Line(dice.pick(forms).format(date))]
        lines += [sentence(f, entity, dice, status=status) for f in facts]
        true = [f for f in self.facts if f not in facts and not f.disputed]
        if true:
            lines.append(sentence(dice.pick(true), entity, dice, subject=self._next_subject()))
        lines.append(idle(entity, dice, "pronoun"))
        title = f"{entity.name} (register of {date})" if status == "outdated" else f"{entity.name}: another account"
        return self._document(status, title, date, [lines])

    def _document(self, kind: DocumentKind, title: str, date: int, parts: Sequence[Sequence[Line]]) -> Document:
        id = self.entity.id if kind == "profile" else f"{self.entity.id}-{kind}"
        status: Status = kind if kind == "outdated" or kind == "contradicting" else "current"
        return _assemble(id, title, kind, date, parts, status, self.entity)


def _assemble(
    id: str,
    title: str,
    kind: DocumentKind,
    date: int,
    parts: Sequence[Sequence[Line]],
    status: Status,
    entity: Entity,
    joiner: str = " ",
) -> Document:
    """Make a document of the lines of its passages, and locate every statement."""
    passages: list[Passage] = []
    statements: list[Statement] = []
    about = {"entity": entity.id, "tier": entity.tier} if kind not in ("table", "list", "essay") else {}
    for number, lines in enumerate(parts, 1):
        key = f"{id}#{number}"
        text, stated = compose(lines, key, joiner)
        metadata: dict[str, MetadataValue] = {
            "source": f"{id}.md", "kind": kind, "status": status, "date": date, "split": entity.split,
            "type": entity.type, **about,
        }  # fmt: skip
        passages.append(Passage(key, text, capitalise(title), metadata))
        statements += stated
    return Document(id, capitalise(title), kind, date, tuple(passages), tuple(statements))


# --- tables, lists, essays -----------------------------------------------------------------------------------------


def _tables(draft: Draft, dice: Dice) -> Iterator[Document]:
    """Write tables and lists: every other entity is in one, with two of its attributes."""
    for kind in KINDS.values():
        number = 0
        for split in SPLITS:
            entities = dice.shuffled(draft.of(kind.type, split))
            entities = entities[: len(entities) // 2]
            for start in range(0, len(entities), _ROWS):
                chosen = entities[start : start + _ROWS]
                attributes = dice.sample(kind.attributes, 2)
                form: DocumentKind = "table" if dice.chance(0.5) else "list"
                lines = list(_rows(draft, chosen, attributes, form))
                if any(line.states for line in lines):
                    number += 1
                    id, title = f"{form}-{kind.type}-{number}", f"{_plural(kind.noun)}, {form} {number}"
                    yield _assemble(id, title, form, dice.between(*_NOW), [lines], "current", chosen[0], "\n")


def _plural(noun: str) -> str:
    return {"": "people", "city": "cities", "country": "countries"}.get(noun, f"{noun}s")


def _rows(
    draft: Draft, entities: Iterable[Entity], attributes: Sequence[Attribute], form: DocumentKind
) -> Iterator[Line]:
    if form == "table":
        yield Line(f"| Name | {' | '.join(capitalise(a.label) for a in attributes)} |")
        yield Line(f"|{'---|' * (len(attributes) + 1)}")
    for entity in entities:
        facts = [draft.facts.get(f"{entity.id}.{a.name}") for a in attributes]
        shown = [f if f is not None and not f.withheld else None for f in facts]
        states = tuple(StatedValue(f.id, "current", f.value.text) for f in shown if f is not None)
        if not states:
            continue
        if form == "table":
            cells = [f.value.text if f is not None else "–" for f in shown]
            yield Line(f"| {entity.name} | {' | '.join(cells)} |", states)
        else:
            cells = [f"{a.label} {f.value.text}" for a, f in zip(attributes, shown) if f is not None]
            yield Line(f"- {entity.name} – {'; '.join(cells)}", states)


def _essays(draft: Draft, dice: Dice) -> Iterator[Document]:
    """Write texts that name entities and answer no question."""
    for kind in KINDS.values():
        for split in SPLITS:
            entities = draft.of(kind.type, split)
            for entity in dice.sample(entities, max(2, len(entities) // 12)):
                lines = [idle(entity, dice)]
                lines += [idle(entity, dice, "pronoun") for _ in range(dice.between(2, 3))]
                parts = [_without_repeats(lines)]
                title, date = f"On {entity.phrase}", dice.between(*_NOW)
                yield _assemble(f"{entity.id}-essay", title, "essay", date, parts, "current", entity)


def _without_repeats(lines: Sequence[Line]) -> list[Line]:
    return list({line.text: line for line in lines}.values())
