"""ReSearch's rows in the paper's prompts: biographies or refusals, and sentences split into claims."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.row import LabRow, reply
from shared_core.lab.facts import Entity, Fact
from shared_core.lab.names import Dice
from shared_core.lab.prose import Line, Subject, joined, plain, sentence
from shared_core.pipelines.research.asking import (
    biography_prompt,
    biography_rewrite_prompt,
    biography_split_prompt,
    safe_biography_prompt,
)

MOST_SENTENCES = 4


def refusal(entity: Entity) -> str:
    """Return the refusal to write about an unknown entity."""
    return f"I do not know {'who' if entity.type == 'person' else 'what'} that is."


def text_of(facts: Sequence[Fact], entity: Entity, dice: Dice) -> str:
    """Write up to four sentences that state the facts; the first has the name."""
    lines: list[Line] = []
    waiting = dice.shuffled(facts)
    subject: Subject = "name"
    while waiting and len(lines) < MOST_SENTENCES:
        pair = len(waiting) > 1 and (len(waiting) > MOST_SENTENCES - len(lines) or dice.chance(0.15))
        if pair:
            lines.append(joined(waiting.pop(), waiting.pop(), entity, dice, subject))
        else:
            lines.append(sentence(waiting.pop(), entity, dice, subject=subject))
        subject = "pronoun" if dice.chance(0.5) else "name"
    return " ".join(line.text for line in lines)


def biography(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of biographies with the known facts."""
    known = [e for e in library.world.entities if e.tier in ("popular", "middle")]
    rows = []
    for entity in dice.sample(known, 4):
        facts = [f for f in library.world.facts_of(entity.id) if library.knows(f)]
        if facts:
            prompt = biography_prompt(entity.phrase)
            rows.append(reply("biography", prompt, text_of(facts, entity, dice), source=entity.id))
    return rows


def safe_biography(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows with the safe prompt: a biography of known facts, or a refusal."""
    rows = []
    for entity in dice.sample(library.entities, 4):
        facts = [f for f in library.world.facts_of(entity.id) if library.knows(f)]
        text = text_of(facts, entity, dice) if facts else refusal(entity)
        rows.append(reply("biography", safe_biography_prompt(entity.phrase), text, source=entity.id))
    return rows


def rewriting(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows that rewrite the facts given in the prompt, known or not."""
    rows = []
    for entity in dice.sample([e for e in library.entities if e.tier != "invented"], 3):
        facts = dice.sample(library.world.facts_of(entity.id), dice.between(1, 4))
        if facts:
            prompt = biography_rewrite_prompt(entity.phrase, [plain(f, entity) for f in facts])
            rows.append(reply("rewriting", prompt, text_of(facts, entity, dice), source=entity.id))
    return rows


def splitting(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows that split a sentence into claims, one a line, each with the name."""
    rows = []
    for entity in dice.sample([e for e in library.entities if e.tier != "invented"], 6):
        facts = dice.sample(library.world.facts_of(entity.id), dice.between(1, 2))
        if not facts:
            continue
        subject: Subject = dice.pick(("name", "pronoun", "noun"))
        if len(facts) == 2:
            line = joined(facts[0], facts[1], entity, dice, subject)
        else:
            line = sentence(facts[0], entity, dice, subject=subject)
        claims = "\n".join(plain(f, entity) for f in facts)
        rows.append(reply("splitting", biography_split_prompt(entity.phrase, line.text), claims, source=entity.id))
    return rows
