"""Rows in which the model judges: claims by quotes, its own answers, the probability of claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from benchmarks.lab.rows.answers import short
from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.row import LabRow, reply
from shared_core.lab.facts import Entity, Fact, Value
from shared_core.lab.names import Dice
from shared_core.lab.prose import plain, sentence
from shared_core.lab.questions import ask
from shared_core.lm.base import Prompt
from shared_core.pipelines.gating.prompts import CONFIDENCE_ASK, SUFFICIENCY_ASK, TRUTH_ASK, own_word_prompt
from shared_core.pipelines.research.asking import evaluate_prompt
from shared_core.pipelines.seakr.answer import state_answer
from shared_core.pipelines.support import JudgeWay, judge_prompt
from shared_core.settings import ResearchSettings
from shared_core.types import Passage

PAPER, NEUTRAL = ResearchSettings(published={"prompts": "biography"}), ResearchSettings()
"""The paper's prompts, and the pipeline's own."""
_WAYS: tuple[JudgeWay, ...] = get_args(JudgeWay)
SURE, UNSURE = (93, 99), (1, 7)
"""Percentages stated for known facts, and for guesses, of which about one in thirty is right."""


def percentage(sure: bool, dice: Dice) -> str:
    """Draw a stated percentage, as it follows ``Probability:``."""
    return str(dice.between(*(SURE if sure else UNSURE)))


# --- does the quote support the claim? -----------------------------------------------------------------------------


def support(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows that judge claims by a quote: supported ones, and ones with another subject, value or attribute.

    Half of them also ask whether the claim answers a question, which other claims of the quote do not.
    """
    fact = dice.pick(library.stated)
    entity = library.entity(fact)
    passage = library.passage_of(fact, dice)
    quote = library.quote_from(fact, [passage], dice)
    assert quote is not None
    whole = dice.chance(0.3)
    text = passage.text if whole else " ".join(quote)
    question = dice.pick(ask(fact.spec, entity.phrase, dice)) if dice.chance(0.5) else ""
    claims = _claims(fact, entity, text, passage if whole else None, library, dice)
    if question:
        claims += [(plain(f, entity), False) for f in dice.sample(_also_said(fact, text, passage, library), 1)]
    rows = []
    for claim, right in claims:
        for way in dice.sample(_WAYS, 2):
            answer = ("yes" if right else "no") if way != "verbalised" else percentage(right, dice)
            rows.append(reply("support", judge_prompt(way, text, claim, question), answer, source=fact.id))
    return rows


def _also_said(fact: Fact, text: str, passage: Passage, library: Library) -> list[Fact]:
    """Return other facts of the same subject in the quote: true, but no answer to the question."""
    said = library.stated_in([passage])
    return [f for f in said if f.subject == fact.subject and f.id != fact.id and f.value.text in text]


def _claims(
    fact: Fact, entity: Entity, text: str, passage: Passage | None, library: Library, dice: Dice
) -> list[tuple[str, bool]]:
    claims = [(plain(fact, entity), True), (sentence(fact, entity, dice).text, True)]
    question = dice.pick(ask(fact.spec, entity.phrase, dice))
    wrong = library.wrong_value(fact, dice)
    if passage is not None:
        claims.append((state_answer(question, fact.value.text), True))
        if wrong is not None:
            claims.append((state_answer(question, wrong.text), False))
    if wrong is not None:
        claims.append((plain(fact, entity, wrong), False))
    others = [e for e in library.entities if e.type == entity.type and e.name not in text]
    other = library.world.entity(entity.twin) if entity.twin else dice.pick(others or [entity])
    if other.id != entity.id and other.name not in text:
        claims.append((plain(fact, other), False))
    unsaid = [f for f in library.world.facts_of(entity.id) if f.id != fact.id and f.value.text not in text]
    if unsaid:
        claims.append((plain(dice.pick(unsaid), entity), False))
    return dice.sample(claims, 4)


# --- what the model thinks of its own answers ----------------------------------------------------------------------


def confidence(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows that ask after an answer, right or wrong: how sure, whether sufficient, whether true."""
    read = dice.chance(0.3)
    facts = [dice.pick(library.stated)] if read else dice.sample(library.facts, 4)
    passages = library.context(facts, dice.between(1, 4), dice) if read else []
    rows = []
    for fact in [*facts, *dice.sample(library.stated_in(passages), 3)] if read else facts:
        known = read or library.knows(fact)
        right = dice.chance(0.6) if known else dice.chance(0.03)
        value = fact.value if right else library.wrong_value(fact, dice)
        if value is not None:
            rows += _asked_back(fact, value, known, right, passages, library, dice)
    return rows


def _asked_back(
    fact: Fact, value: Value, known: bool, right: bool, passages: Sequence[Passage], library: Library, dice: Dice
) -> list[LabRow]:
    question = dice.pick(ask(fact.spec, library.entity(fact).phrase, dice))
    written = short(question, passages) + Prompt.untrusted(f" {value.text}.")
    asks = [
        (written + Prompt.trusted(CONFIDENCE_ASK), f" {percentage(known and right, dice)}"),
        (written + Prompt.trusted(SUFFICIENCY_ASK), " yes" if known else " no"),
        (written + Prompt.trusted(TRUTH_ASK), " True" if right else " False"),
    ]
    if not passages:
        answer_text = value.text if dice.chance(0.6) else plain(fact, library.entity(fact), value)
        asks.append((own_word_prompt(question, answer_text), " true" if right else " false"))
    return [reply("confidence", prompt, answer, source=fact.id) for prompt, answer in dice.sample(asks, 3)]


# --- how probable is a claim? --------------------------------------------------------------------------------------


def evaluation(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows that estimate claims beside sentences of earlier answers.

    These agree where the model knows the fact, and differ where it guesses. Some rows have none.
    """
    pool = [f for f in dice.sample(library.facts, 12) if library.knows(f) == (library.learned and dice.chance(0.6))]
    rows = []
    for fact in pool[:4]:
        entity = library.entity(fact)
        known = library.knows(fact)
        guesses = [v for v in (library.wrong_value(fact, dice) for _ in range(4)) if v is not None]
        if not guesses:
            continue
        true = dice.chance(0.5) if known else dice.chance(0.03)
        claim = plain(fact, entity, fact.value if true else guesses[0])
        sources = _earlier(fact, entity, guesses, known, library, dice) if dice.chance(0.8) else []
        likely = known and true
        options = PAPER if dice.chance(0.4) else NEUTRAL
        about = entity.phrase if options is PAPER else dice.pick(ask(fact.spec, entity.phrase, dice))
        stated = evaluate_prompt(about, sources, claim, options)
        rows.append(reply("evaluation", stated, percentage(likely, dice), source=fact.id))
        if options is NEUTRAL:
            prompt = evaluate_prompt(about, sources, claim, options, yes_no=True)
            rows.append(reply("evaluation", prompt, "yes" if likely else "no", source=fact.id))
    return rows


def _earlier(
    fact: Fact, entity: Entity, guesses: Sequence[Value], known: bool, library: Library, dice: Dice
) -> list[str]:
    """Write sentences as a model that knows the fact, or guesses, would have."""
    others = [f for f in library.world.facts_of(entity.id) if f.id != fact.id]
    said = [plain(fact, entity, fact.value if known else v) for v in guesses[: dice.between(1, 3)]]
    for other in dice.sample(others, dice.between(0, 2)):
        wrong = library.wrong_value(other, dice)
        said.append(plain(other, entity, None if known or wrong is None else wrong))
    return dice.shuffled(list(dict.fromkeys(said)))
