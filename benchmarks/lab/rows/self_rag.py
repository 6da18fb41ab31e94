"""Self-RAG's rows: whether to retrieve, and true verdicts on passages and sentences."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.rows.answers import unknown
from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.row import LabRow, Piece
from shared_core.lab.facts import Entity, Fact
from shared_core.lab.names import Dice
from shared_core.lab.prose import joined, plain
from shared_core.lab.questions import ask
from shared_core.lm.base import Prompt
from shared_core.pipelines.self_rag.with_tokens import instruction, lead
from shared_core.reflection import tokens
from shared_core.types import Passage

USEFUL, HALF, USELESS = tokens.UTILITY_TOKENS[4], tokens.UTILITY_TOKENS[2], tokens.UTILITY_TOKENS[0]
"""Utility of a right answer, of one that is right in part, and of a wrong or missing one."""

_DECISIONS = 8
"""Known facts in a group of rows about whether to retrieve; there are as many unknown ones."""


def tell_about(entity: Entity) -> str:
    """Return an instruction whose answer takes several segments."""
    return f"What is known about {entity.phrase}?"


def self_rag(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows about one fact: with its passage, with others, with none, and with unsupported sentences."""
    fact = dice.pick(library.stated)
    entity = library.entity(fact)
    question = dice.pick(ask(fact.spec, entity.phrase, dice))
    gold = library.passage_of(fact, dice)
    known = library.knows(fact)
    rows = [_decided(question, fact, entity, known), _supported(question, fact, entity, gold)]
    # A retriever's other results are mostly about the same entity and do not answer the question.
    near = [*library.beside(entity, dice, 2, [gold]), *dice.sample(library.about(entity), 2)]
    others = [p for p in dict.fromkeys(near) if fact.id not in library.mentioned_in([p])][:3]
    rows += [_irrelevant(question, fact, entity, p, known) for p in others]
    rows += _verdicts(question, fact, entity, gold, library, dice)
    if dice.chance(0.5):
        rows += _long_answer(entity, library, dice)
    return rows


def deciding(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows about whether to retrieve, for as many known facts as unknown ones.

    Practice worlds have only unknown facts: from them alone a model learns to retrieve always.
    """
    known = dice.sample([f for f in library.stated if library.knows(f)], _DECISIONS)
    strange = dice.sample([f for f in library.stated if not library.knows(f)], len(known))
    rows = []
    for fact in dice.shuffled([*known, *strange]):
        entity = library.entity(fact)
        question = dice.pick(ask(fact.spec, entity.phrase, dice))
        rows.append(_decided(question, fact, entity, library.knows(fact)))
    return rows


def _control(*tokens: str, learned: bool = True) -> Piece:
    return Piece(Prompt.trusted("".join(tokens)), learned)


def _prose(text: str, learned: bool = True) -> Piece:
    return Piece(Prompt.untrusted(text), learned)


def _shown(passage: Passage) -> Piece:
    """Return [Retrieval] and a passage as the pipeline inserts them into an output: not learned."""
    return Piece(lead("retrieve", passage), learned=False)


def _row(question: str, pieces: Sequence[Piece], source: str, ends: bool = True) -> LabRow:
    return LabRow("self_rag", instruction(question), tuple(pieces), ends, source)


def _decided(question: str, fact: Fact, entity: Entity, known: bool) -> LabRow:
    """Make a row that answers a known fact without retrieval, and retrieves for an unknown one."""
    if known:
        return _row(question, [_control(tokens.NO_RETRIEVAL), _prose(plain(fact, entity)), _control(USEFUL)], fact.id)
    return _row(question, [_control(tokens.RETRIEVAL)], fact.id, ends=False)


def _opened(passage: Passage, verdict: str) -> list[Piece]:
    """Return an inserted passage and its learned relevance; whether to retrieve is learned in other rows."""
    return [_shown(passage), _control(verdict)]


def _supported(question: str, fact: Fact, entity: Entity, passage: Passage) -> LabRow:
    pieces = [*_opened(passage, tokens.RELEVANT), _prose(plain(fact, entity)), _control(tokens.FULLY_SUPPORTED, USEFUL)]
    return _row(question, pieces, fact.id)


def _irrelevant(question: str, fact: Fact, entity: Entity, passage: Passage, known: bool) -> LabRow:
    """Make a row with an irrelevant passage: the model answers from memory, without a verdict on support."""
    text = plain(fact, entity) if known else unknown(fact.spec, entity)
    pieces = [*_opened(passage, tokens.IRRELEVANT), _prose(text), _control(USEFUL if known else USELESS)]
    return _row(question, pieces, fact.id)


def _verdicts(
    question: str, fact: Fact, entity: Entity, passage: Passage, library: Library, dice: Dice
) -> list[LabRow]:
    """Make rows that judge given sentences: a right one, a wrong one, one of which half is in the passage.

    Only the verdicts are learned: a model must recognise a wrong sentence without learning to write it.
    """
    rows = [_judged(question, plain(fact, entity), passage, tokens.FULLY_SUPPORTED, USEFUL, fact.id)]
    wrong = library.wrong_value(fact, dice)
    if wrong is not None:
        rows.append(_judged(question, plain(fact, entity, wrong), passage, tokens.NO_SUPPORT, USELESS, fact.id))
    others = [f for f in library.world.facts_of(entity.id) if f.id != fact.id]
    mentioned = library.mentioned_in([passage])
    inside = [f for f in others if f in library.stated_in([passage])]
    outside = [f for f in others if f.id not in mentioned]
    if inside:
        text = joined(fact, dice.pick(inside), entity, dice).text
        rows.append(_judged(question, text, passage, tokens.FULLY_SUPPORTED, USEFUL, fact.id))
    if outside:
        text = joined(fact, dice.pick(outside), entity, dice).text
        rows.append(_judged(question, text, passage, tokens.PARTIALLY_SUPPORTED, HALF, fact.id))
    disputed = [s for s in library.world.statements(fact.id) if s.status != "current"]
    if disputed:
        old = library.world.passage(dice.pick(disputed).passage)
        rows.append(_judged(question, plain(fact, entity), old, tokens.NO_SUPPORT, USELESS, fact.id))
    return rows


def _judged(question: str, text: str, passage: Passage, verdict: str, utility: str, source: str) -> LabRow:
    # Relevance is given: learned with each of these sentences, [Relevant] would outweigh the irrelevant passages.
    pieces = [_shown(passage), _control(tokens.RELEVANT, learned=False), _prose(text, learned=False)]
    return _row(question, [*pieces, _control(verdict, utility)], source)


def _long_answer(entity: Entity, library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of a longer answer over one or two passages, segment by segment."""
    facts = [f for f in library.world.facts_of(entity.id) if library.current(f.id)]
    if len(facts) < 2:
        return []
    pieces: list[Piece] = []
    rows = []
    shown: Passage | None = None
    for fact in dice.sample(facts, dice.between(2, 3)):
        if shown is not None and fact in library.stated_in([shown]):
            pieces.append(_control(tokens.CONTINUE))
        else:
            if shown is not None:
                before = [Piece(p.text, learned=False) for p in pieces]
                rows.append(_row(tell_about(entity), [*before, _control(tokens.RETRIEVAL)], entity.id, ends=False))
            shown = library.passage_of(fact, dice)
            pieces += _opened(shown, tokens.RELEVANT)
        pieces += [_prose(plain(fact, entity)), _control(tokens.FULLY_SUPPORTED)]
    rows.append(_row(tell_about(entity), [*pieces, _control(USEFUL)], entity.id))
    return rows
