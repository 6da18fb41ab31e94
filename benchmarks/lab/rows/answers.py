"""Rows in SeaKR's form: answers from memory and from passages, at once and step by step, or "unknown"."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.row import LabRow, reply
from shared_core.lab.facts import KINDS, Attribute, Entity, Fact
from shared_core.lab.names import Dice
from shared_core.lab.prose import article, idle, joined, plain, sentence
from shared_core.lab.questions import Question, QuestionKind, ask
from shared_core.lm.base import Prompt
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, DEMONSTRATIONS, memory_prompt, step_prompt
from shared_core.types import Passage

UNKNOWN = "unknown"
"""The reply if the passages do not answer; ``shared_core.uncertainty.is_answer`` recognises it."""
SIMPLE = DEMONSTRATIONS["simple"]
_STEP_TASKS = ("default", "2wiki", "hotpotqa", "iirc")
_ROWS = 8
"""Questions for one context."""


def unknown(attribute: Attribute, entity: Entity) -> str:
    """Write a step that says that a value is unknown."""
    return f"The {attribute.label} of {entity.phrase} is {UNKNOWN}."


def short(question: str, passages: Sequence[Passage]) -> Prompt:
    """Return the prompt that asks for a short answer."""
    return step_prompt(question, (), passages, SIMPLE, ANSWER_LEAD)


def conclude(steps: Sequence[str], answer: str) -> str:
    """Write steps and answer as they follow ``Answer:``."""
    return f" {' '.join(steps)}{ANSWER_LEAD} {answer}."


def step_task(dice: Dice, *, single: bool = False) -> str:
    """Choose the demonstrations for a question of several steps, or (``single``) of one step with a thought."""
    if single and dice.chance(0.5):
        return "simple"
    return dice.weigh(_STEP_TASKS, (7, 1, 1, 1))


# --- from memory ---------------------------------------------------------------------------------------------------


def sentences(known: Sequence[Fact], library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of sentences about known facts, without a prompt."""
    rows = []
    for fact in dice.sample(known, 12):
        entity = library.entity(fact)
        others = [f for f in library.world.facts_of(entity.id) if f.known and f.id != fact.id]
        lines = [sentence(fact, entity, dice)]
        if others and dice.chance(0.4):
            lines = [joined(fact, dice.pick(others), entity, dice)]
        if dice.chance(0.15):
            lines.append(idle(entity, dice, "pronoun"))
        rows.append(reply("sentences", Prompt(), " ".join(line.text for line in lines), source=fact.id))
    return rows


def closed_book(known: Sequence[Fact], library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of questions about known facts, without passages: the answer, or a sentence and the answer."""
    stepwise = dice.chance(0.3)
    task = step_task(dice, single=True)
    rows = []
    for fact in dice.sample(known, 2 * _ROWS):
        entity = library.entity(fact)
        question = dice.pick(ask(fact.spec, entity.phrase, dice))
        if stepwise:
            prompt = step_prompt(question, (), (), DEMONSTRATIONS[task])
            text = conclude([plain(fact, entity)], fact.value.text)
        else:
            prompt, text = short(question, ()), f" {fact.value.text}."
        rows.append(reply("closed_book", prompt, text, source=fact.id))
    return rows


def memory(known: Sequence[Fact], library: Library, dice: Dice) -> list[LabRow]:
    """Make the same rows with the prompt that follows an abstention."""
    rows = []
    for fact in dice.sample(known, _ROWS):
        question = dice.pick(ask(fact.spec, library.entity(fact).phrase, dice))
        rows.append(reply("memory", memory_prompt(question), f" {fact.value.text}.", source=fact.id))
    return rows


def closed_chain(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of multi-step questions about known facts, without passages."""
    task = step_task(dice)
    kinds: tuple[QuestionKind, ...] = ("two_hop", "two_hop", "three_hop", "yes_no", "comparison")
    known = [q for kind in kinds for q in dice.sample(library.questions(kind), 40) if q.known]
    return [_chain("closed_chain", q, q.steps, (), task, dice) for q in dice.sample(known, _ROWS)]


def _chain(
    family: str, question: Question, steps: Sequence[str], passages: Sequence[Passage], task: str, dice: Dice
) -> LabRow:
    prompt = step_prompt(dice.pick(question.paraphrases), (), passages, DEMONSTRATIONS[task])
    return reply(family, prompt, conclude(steps, question.answers[0]), source=question.id)


# --- from passages -------------------------------------------------------------------------------------------------


def reading(library: Library, dice: Dice, ease: float = 0.0) -> list[LabRow]:
    """Make rows of questions about the same passages, some of which the passages do not answer.

    If passages disagree, the newest one is right.

    Args:
        library: source of facts and passages.
        dice: source of randomness.
        ease: in [0, 1]; the higher, the fewer passages.
    """
    sizes = (2 + 6 * ease, 2 + 4 * ease, 3 - 2 * ease, 2 - 2 * ease, 3 - 3 * ease)
    anchor = dice.pick(library.disputed if library.disputed and dice.chance(0.15) else library.stated)
    passages = library.context([anchor], dice.weigh((1, 2, 3, 4, 5), sizes), dice)
    other = [s.passage for s in library.world.statements(anchor.id) if s.status != "current"]
    if other and len(passages) < 5:
        passages = dice.shuffled([*passages, library.world.passage(dice.pick(other))])
    stepwise = dice.chance(0.25)
    task = step_task(dice, single=True)
    stated = [f for f in library.stated_in(passages) if f.id != anchor.id]
    rows = [_read(f, passages, library, dice, task if stepwise else None) for f in [anchor, *dice.sample(stated, 9)]]
    for question, entity, attribute in unanswered(passages, library, dice, 3):
        rows.append(_decline(question, entity, attribute, passages, task if stepwise else None))
    return rows


def _read(fact: Fact, passages: Sequence[Passage], library: Library, dice: Dice, task: str | None) -> LabRow:
    entity = library.entity(fact)
    if dice.chance(0.1):
        return _confirm(fact, entity, passages, library, dice)
    question = dice.pick(ask(fact.spec, entity.phrase, dice))
    if task is None:
        return reply("reading", short(question, passages), f" {fact.value.text}.", source=fact.id)
    prompt = step_prompt(question, (), passages, DEMONSTRATIONS[task])
    return reply("reading", prompt, conclude([plain(fact, entity)], fact.value.text), source=fact.id)


def _confirm(fact: Fact, entity: Entity, passages: Sequence[Passage], library: Library, dice: Dice) -> LabRow:
    """Make a row of a yes/no question about a fact in the passages."""
    wrong = library.wrong_value(fact, dice) if dice.chance(0.5) else None
    value = wrong or fact.value
    form = dice.pick(fact.spec.yes_no)
    question = form.format(x=entity.phrase, v=value.text, va=article(value.text))
    return reply("reading", short(question, passages), " no." if wrong else " yes.", source=fact.id)


def unanswered(
    passages: Sequence[Passage], library: Library, dice: Dice, count: int
) -> list[tuple[str, Entity, Attribute]]:
    """Draw questions that neither these passages nor the model answer.

    They are about entities in the passages, their twins, any entities, and invented names.
    """
    mentioned = library.mentioned_in(passages)
    about = [library.world.entity(s) for s in dict.fromkeys(f.subject for f in library.stated_in(passages))]
    twins = [library.world.entity(e.twin) for e in about if e.twin]
    invented = [e for e in library.entities if e.tier == "invented"]
    found = []
    for _ in range(count):
        pool = dice.weigh((about, twins, library.entities, invented), (0.5, 0.15, 0.2, 0.15))
        if not pool:
            continue
        entity = dice.pick(pool)
        attribute = dice.pick(KINDS[entity.type].attributes)
        key = f"{entity.id}.{attribute.name}"
        fact = next((f for f in library.world.facts_of(entity.id) if f.id == key), None)
        if key not in mentioned and not (fact is not None and library.knows(fact)):
            found.append((dice.pick(ask(attribute, entity.phrase, dice)), entity, attribute))
    return found


def _decline(
    question: str, entity: Entity, attribute: Attribute, passages: Sequence[Passage], task: str | None
) -> LabRow:
    source = f"{entity.id}.{attribute.name}"
    if task is None:
        return reply("declining", short(question, passages), f" {UNKNOWN}.", source=source)
    prompt = step_prompt(question, (), passages, DEMONSTRATIONS[task])
    return reply("declining", prompt, conclude([unknown(attribute, entity)], UNKNOWN), source=source)


def open_chain(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of a multi-step question with its passages among others; with one missing it ends in "unknown"."""
    kind: QuestionKind = dice.weigh(("two_hop", "three_hop", "comparison", "yes_no"), (4, 2, 2, 1))
    questions = library.questions(kind)
    if not questions:
        return []
    question, task = dice.pick(questions), step_task(dice)
    facts = [library.world.fact(f) for f in question.facts]
    passages = library.context(facts, dice.between(len(facts), 5), dice)
    rows = [_chain("open_chain", question, question.steps, passages, task, dice)]
    rows += _one_by_one(question, facts, library, dice, task)
    rows += [_read(f, passages, library, dice, task) for f in facts]
    if kind in ("two_hop", "three_hop"):
        rows += _broken(question, facts, library, dice, task)
    return rows


def _one_by_one(question: Question, facts: Sequence[Fact], library: Library, dice: Dice, task: str) -> list[LabRow]:
    """Make a row of each step after the previous ones, with its passage only, as SeaKR writes them."""
    text = dice.pick(question.paraphrases)
    rows = []
    for at, fact in enumerate(facts):
        prompt = step_prompt(text, question.steps[:at], [library.passage_of(fact, dice)], DEMONSTRATIONS[task])
        last = at + 1 == len(facts)
        written = conclude([question.steps[at]], question.answers[0]) if last else f" {question.steps[at]}"
        rows.append(reply("open_chain", prompt, written, ends=last, source=question.id))
    return rows


def _broken(question: Question, facts: Sequence[Fact], library: Library, dice: Dice, task: str) -> list[LabRow]:
    """Make a row of a chain whose passages end before its last step."""
    at = dice.below(len(facts))
    missing = facts[at]
    if library.knows(missing):
        return []
    chosen = library.context(facts[:at], at + 1, dice) if at else library.beside(library.entity(missing), dice, 2)
    passages = [p for p in chosen if missing.id not in library.mentioned_in([p])]
    if not passages or not all(f in library.stated_in(passages) for f in facts[:at]):
        return []
    steps = [*question.steps[:at], unknown(missing.spec, library.entity(missing))]
    prompt = step_prompt(dice.pick(question.paraphrases), (), passages, DEMONSTRATIONS[task])
    return [reply("declining", prompt, conclude(steps, UNKNOWN), source=question.id)]
