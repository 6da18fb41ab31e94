"""The closed world: entities, facts, documents and questions, all made from one seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from functools import cached_property

from shared_core.errors import InputError
from shared_core.lab.build import build
from shared_core.lab.dice import Dice
from shared_core.lab.documents import Document, write_all
from shared_core.lab.facts import Entity, Fact, Split, Tier
from shared_core.lab.prose import Statement
from shared_core.lab.questions import Asker, Question, QuestionKind
from shared_core.lab.unanswerable import unanswerable
from shared_core.types import Passage

__all__ = ["World"]


class World:
    """A fictional world about which everything is known, the same for a seed on every machine.

    Things come in tiers: of ``popular`` ones there is much to read and a model is trained on all of it, of ``middle``
    ones on half, of ``obscure`` ones on nothing, and ``invented`` names stand in no document. Each belongs to a split
    (``train``, ``tune``, ``test``) and refers to things of its own split only, so that no question or document mixes
    them.

    Args:
        seed: another seed gives another world, with other names.
        size: 1 gives about a thousand entities; smaller worlds are made faster.
        avoid: names that must not occur in it, for instance those of another world.

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

    # --- what there is -----------------------------------------------------------------------------------------

    @property
    def entities(self) -> tuple[Entity, ...]:
        """Everything that has a name, the invented ones included."""
        return tuple(self._draft.entities.values())

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Everything that is true, the withheld facts included."""
        return tuple(self._draft.facts.values())

    def entity(self, id: str) -> Entity:
        """The entity of that id; KeyError if there is none."""
        return self._draft.entities[id]

    def fact(self, id: str) -> Fact:
        """The fact of that id; KeyError if there is none."""
        return self._draft.facts[id]

    def facts_of(self, entity: str) -> tuple[Fact, ...]:
        """What is true of an entity."""
        return self._facts_of.get(entity, ())

    @cached_property
    def _facts_of(self) -> dict[str, tuple[Fact, ...]]:
        found: dict[str, list[Fact]] = {}
        for fact in self.facts:
            found.setdefault(fact.subject, []).append(fact)
        return {id: tuple(facts) for id, facts in found.items()}

    # --- what there is to read ---------------------------------------------------------------------------------

    def documents(self) -> list[Passage]:
        """The passages of all documents. Their metadata say which document (``source``), of what ``kind`` and
        ``date``, about which ``entity``, ``split``, and whether what it says is ``current``, ``outdated`` or
        ``contradicting`` (``status``)."""
        return [p for d in self._files for p in d.passages]

    def files(self) -> tuple[Document, ...]:
        """The same, document by document."""
        return self._files

    def withheld(self) -> list[Passage]:
        """The passages that were taken out: no document states what they say."""
        return [p for d in self._withheld for p in d.passages]

    def passage(self, id: str) -> Passage:
        """The passage of that id, a withheld one too; KeyError if there is none."""
        return self._passages[id]

    def statements(self, fact: str) -> tuple[Statement, ...]:
        """Where the documents state a fact, or once did, or wrongly do (``status``)."""
        return tuple(self._statements.get(fact, ()))

    def statements_in(self, passage: str) -> tuple[Statement, ...]:
        """What a passage states, in order."""
        return self._by_passage.get(passage, ())

    @cached_property
    def _by_passage(self) -> dict[str, tuple[Statement, ...]]:
        return {
            p.id: tuple(s for s in d.statements if s.passage == p.id)
            for d in (*self._files, *self._withheld)
            for p in d.passages
        }

    # --- what to ask -------------------------------------------------------------------------------------------

    def questions(
        self,
        *,
        kind: QuestionKind | None = None,
        split: Split | None = None,
        tier: Tier | None = None,
        answerable: bool | None = None,
    ) -> list[Question]:
        """The questions, in a fixed order; all of them, or those that are as asked for."""
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
        asker = Asker(self._draft, self._stated_in, self._dice)
        return (*asker.questions(), *unanswerable(self._draft, asker, self._removed_from, self._dice))

    def _stated_in(self, fact: str) -> tuple[str, ...]:
        current = (s.passage for s in self.statements(fact) if s.status == "current")
        return tuple(dict.fromkeys(current))

    def _removed_from(self, fact: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.passage for s in self._removed.get(fact, ())))

    # --- identity ----------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all documents and questions: two worlds with the same one are the same."""
        digest = hashlib.sha256()
        for line in self._lines():
            digest.update(line.encode())
        return digest.hexdigest()

    def _lines(self) -> Iterator[str]:
        for passage in self._passages.values():
            yield json.dumps(passage.to_dict(), ensure_ascii=False, sort_keys=True)
        for question in self._questions:
            yield json.dumps(question.to_dict(), ensure_ascii=False, sort_keys=True)
