"""ReSearch's rows: candidate answers from passages and from memory, and their claims."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.rows.answers import unanswered
from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.quoting import asked_over
from benchmarks.lab.rows.row import LabRow, reply
from shared_core.lab.facts import Entity, Fact
from shared_core.lab.names import Dice
from shared_core.lab.prose import joined, plain
from shared_core.lab.questions import ask
from shared_core.pipelines.research.asking import Fact as Likely
from shared_core.pipelines.research.asking import split_prompt, write_prompt
from shared_core.settings import ResearchSettings
from shared_core.types import Passage

DECLINED = "The passages do not say."
NOT_KNOWN = "I do not know."
_OPEN = ResearchSettings()
_CLOSED = ResearchSettings(closed_book=True)
_SAFE = ResearchSettings(closed_book=True, published={"safe_prompt": True})


def candidates(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of answers to questions about the same passages, some with likely claims of an earlier round."""
    asked, passages = asked_over(library, dice, 5)
    rows = []
    for question, facts in asked:
        text = " ".join(plain(f, library.entity(f)) for f in facts)
        likely = [_likely(f, passages, library, dice) for f in dice.sample(facts, 2)] if dice.chance(0.4) else []
        prompt = write_prompt(question, passages, likely, _OPEN)
        rows.append(reply("candidates", prompt, text, source=facts[0].id))
    for question, entity, attribute in unanswered(passages, library, dice, 2):
        prompt = write_prompt(question, passages, (), _OPEN)
        rows.append(reply("declining", prompt, DECLINED, source=f"{entity.id}.{attribute.name}"))
    return rows


def _likely(fact: Fact, passages: Sequence[Passage], library: Library, dice: Dice) -> Likely:
    quote = library.quote_from(fact, passages, dice)
    return Likely(plain(fact, library.entity(fact)), quote[-1] if quote else "")


def recalled(known: Sequence[Fact], library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of answers from memory; with the safe prompt, of refusals where the fact is not known."""
    rows = []
    for fact in dice.sample(known, 6):
        entity = library.entity(fact)
        options = _SAFE if dice.chance(0.4) else _CLOSED
        prompt = write_prompt(dice.pick(ask(fact.spec, entity.phrase, dice)), (), (), options)
        rows.append(reply("recalled", prompt, plain(fact, entity), source=fact.id))
    strange = [f for f in dice.sample(library.facts, 6) if not library.knows(f)]
    for fact in strange[:3]:
        prompt = write_prompt(dice.pick(ask(fact.spec, library.entity(fact).phrase, dice)), (), (), _SAFE)
        rows.append(reply("recalled", prompt, NOT_KNOWN, source=fact.id))
    return rows


def claims(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows that split a sentence of an answer into claims."""
    rows = []
    for entity in dice.sample([e for e in library.entities if e.tier != "invented"], 4):
        facts = dice.sample(library.world.facts_of(entity.id), dice.between(1, 2))
        if facts:
            rows.append(_split(facts, entity, library, dice))
    return rows


def _split(facts: Sequence[Fact], entity: Entity, library: Library, dice: Dice) -> LabRow:
    question = dice.pick(ask(facts[0].spec, entity.phrase, dice))
    two = len(facts) == 2 and dice.chance(0.6)
    sentence = joined(facts[0], facts[1], entity, dice).text if two else plain(facts[0], entity)
    others = [] if two else [plain(f, entity) for f in facts[1:]]
    answer = " ".join([sentence, *others] if dice.chance(0.5) else [*others, sentence])
    text = "\n".join(f"- {plain(f, entity)}" for f in (facts if two else facts[:1]))
    return reply("splitting", split_prompt(question, answer, sentence, _OPEN), text, source=entity.id)
