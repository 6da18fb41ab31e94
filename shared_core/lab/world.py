"""The closed world: entities, facts, documents and questions, all generated from one seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from functools import cached_property

from shared_core.errors import InputError
from shared_core.lab.build import build
from shared_core.lab.documents import Document, write_all
from shared_core.lab.facts import Entity, Fact, Split, Tier
from shared_core.lab.names import Dice
from shared_core.lab.prose import Statement
from shared_core.lab.questions import Asker, Question, QuestionKind
from shared_core.types import Passage


class World:
    """A fictional world with known ground truth, the same for a seed on every machine.

    Entities come in tiers. The documents say much about ``popular`` ones, and the lab's model was trained on all of
    their facts, on half of those of ``middle`` ones, and on none of ``obscure`` ones; no document has the ``invented``
    names. Each entity belongs to a split (``train``, ``tune``, ``test``) and refers only to entities of its own, so
    that no question or document mixes splits.

    Args:
        seed: seed of the world; another one gives other entities and names.
        size: 1 gives about a thousand entities; smaller worlds are generated faster.
        avoid: names that must not occur, for instance those of another world.

    >>> world = World(0, size=0.1)
    >>> question = world.questions(kind="single")[0]
    >>> passage = world.passage(question.passages[0][0])
    >>> any(answer in passage.text for answer in question.answers)
    True

    Raises:
        InputError: the size is not in (0, 4].
    """

    def __init__(self, seed: int, *, size: float = 1.0, avoid: Collection[str] = ()) -> None:
        if not 0 < size <= 4:
            raise InputError(f"The size of a world must be in (0, 4], not {size!r}.", hint="1 is the usual one.")
        self.seed, self.size = seed, size
        name = ("world", seed, str(float(size)))
        self._draft = build(Dice(*name, "facts"), size, avoid)
        written = tuple(write_all(self._draft, Dice(*name, "documents")))
        self._files = tuple(d for d in written if d.kind != "withheld")
        self._withheld = tuple(d for d in written if d.kind == "withheld")
        self._passages = {p.id: p for d in written for p in d.passages}
        self._statements: dict[str, list[Statement]] = {}
        self._removed: dict[str, list[Statement]] = {}
        for document in written:
            place = self._removed if document.kind == "withheld" else self._statements
            for statement in document.statements:
                place.setdefault(statement.fact, []).append(statement)
        self._dice = Dice(*name, "questions")

    # --- entities and facts ------------------------------------------------------------------------------------

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All entities, invented names included."""
        return tuple(self._draft.entities.values())

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, withheld ones included."""
        return tuple(self._draft.facts.values())

    def entity(self, id: str) -> Entity:
        """Return the entity of that id; KeyError if there is none."""
        return self._draft.entities[id]

    def fact(self, id: str) -> Fact:
        """Return the fact of that id; KeyError if there is none."""
        return self._draft.facts[id]

    def facts_of(self, entity: str) -> tuple[Fact, ...]:
        """Return the facts about an entity."""
        return self._facts_of.get(entity, ())

    @cached_property
    def _facts_of(self) -> dict[str, tuple[Fact, ...]]:
        found: dict[str, list[Fact]] = {}
        for fact in self.facts:
            found.setdefault(fact.subject, []).append(fact)
        return {id: tuple(facts) for id, facts in found.items()}

    # --- documents ---------------------------------------------------------------------------------------------

    def documents(self) -> list[Passage]:
        """Return the passages of all documents.

        Their metadata hold ``source`` (the document), ``kind``, ``date``, ``entity``, ``split`` and ``status``:
        ``current``, ``outdated`` or ``contradicting``.
        """
        return [p for d in self._files for p in d.passages]

    def files(self) -> tuple[Document, ...]:
        """Return all documents."""
        return self._files

    def withheld(self) -> list[Passage]:
        """Return the passages that were removed: no document states their facts."""
        return [p for d in self._withheld for p in d.passages]

    def passage(self, id: str) -> Passage:
        """Return the passage of that id, withheld or not; KeyError if there is none."""
        return self._passages[id]

    def statements(self, fact: str) -> tuple[Statement, ...]:
        """Return the statements of a fact, of its former and of its false value (see ``status``)."""
        return tuple(self._statements.get(fact, ()))

    def statements_in(self, passage: str) -> tuple[Statement, ...]:
        """Return the statements in a passage, in order."""
        return self._by_passage.get(passage, ())

    @cached_property
    def _by_passage(self) -> dict[str, tuple[Statement, ...]]:
        return {
            p.id: tuple(s for s in d.statements if s.passage == p.id)
            for d in (*self._files, *self._withheld)
            for p in d.passages
        }

    # --- questions ---------------------------------------------------------------------------------------------

    def questions(
        self,
        *,
        kind: QuestionKind | None = None,
        split: Split | None = None,
        tier: Tier | None = None,
        answerable: bool | None = None,
    ) -> list[Question]:
        """Return the questions in a fixed order, filtered by the arguments given."""
        return [
            q
            for q in self._questions
            if kind in (None, q.kind)
            and split in (None, q.split)
            and tier in (None, q.tier)
            and answerable in (None, q.answerable)
        ]

    @cached_property
    def _questions(self) -> tuple[Question, ...]:
        return tuple(Asker(self._draft, self._stated_in, self._removed_from, self._dice).questions())

    def _stated_in(self, fact: str) -> tuple[str, ...]:
        current = (s.passage for s in self.statements(fact) if s.status == "current")
        return tuple(dict.fromkeys(current))

    def _removed_from(self, fact: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.passage for s in self._removed.get(fact, ())))

    # --- identity ----------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all documents and questions, which identifies the world."""
        digest = hashlib.sha256()
        for line in self._lines():
            digest.update(line.encode())
        return digest.hexdigest()

    def _lines(self) -> Iterator[str]:
        for passage in self._passages.values():
            yield json.dumps(passage.to_dict(), ensure_ascii=False, sort_keys=True)
        for question in self._questions:
            yield json.dumps(question.to_dict(), ensure_ascii=False, sort_keys=True)
