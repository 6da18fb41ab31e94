"""SeaKR's answers: without passages, with all of them, and as claims with their support.

An answer from memory (``closed_book``) and one from passages (``open_book``) are what gates are fitted on.
``answer_claim`` makes an answer a claim, supported by what the passages say of it, or by how sure the model is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared_core.citation import CitationIndex, compare_claim
from shared_core.errors import ContextOverflowError
from shared_core.lm.base import Generation, SamplingParams
from shared_core.pipelines.confidence import Weighed, most_doubtful, weigh
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import Evidence, words_only
from shared_core.pipelines.gating.choose import ChosenEstimator, Form, answer_binding, choose_estimator
from shared_core.pipelines.gating.measure import measure
from shared_core.pipelines.gating.prompts import (
    ANSWER_LEAD,
    ANSWER_STOPS,
    STEP_STOPS,
    chosen_demonstrations,
    short_answer_prompt,
    step_prompt,
)
from shared_core.pipelines.support import ask_model, judge_at_hand, own_word, support
from shared_core.runtime.flow import Flow, Generate, Retrieve
from shared_core.settings import Demonstration, SelfReflectSettings
from shared_core.support.regex import lazy_regex
from shared_core.types import Citation, Claim, Passage, Signals, Span
from shared_core.uncertainty import final_answer, is_answer


@dataclass(frozen=True, slots=True)
class Recalled:
    """An answer from memory.

    Attributes:
        text: the short answer; ``None`` where there is none, or the model says it does not know.
        uncertainty: of the answer (form ``answer``), or of the least certain step on the way (form ``step``): the
            gate would have retrieved nowhere if and only if this is at or below its threshold.
    """

    text: str | None
    uncertainty: float


def closed_book(question: str, run: QuestionRun, form: Form = "answer") -> Flow[Recalled]:
    """Answer without any passage, in the very prompts that SeaKR's gate measures."""
    settings = run.settings
    chosen = choose_estimator(settings, run.abilities, form=form)
    options = settings.seakr
    if form == "answer":
        prompt = short_answer_prompt(question, (), options)
        (draft,) = yield from measure([prompt], chosen, stop=ANSWER_STOPS, question=question)
        # The prompt ended in this lead: put back, so that the draft is read as its end.
        return Recalled(_real_answer(final_answer(f"the answer is {draft.text}")), draft.uncertainty)
    if form == "thought":
        return (yield from _think(question, run, chosen))
    demos = chosen_demonstrations(options, options.published.task)
    steps: list[str] = []
    worst = float("-inf")
    said: str | None = None
    while said is None and len(steps) < options.max_steps:
        prompt = step_prompt(question, steps, (), demos)
        (step,) = yield from measure([prompt], chosen, stop=STEP_STOPS, question=question)
        # The gate opens at the first step above the threshold: the least certain step decides for the whole chain.
        # +inf, unknown, stays: what is unknown retrieves.
        worst = max(worst, step.uncertainty)
        if not step.text or step.text in steps:  # as SeaKR's loop stops; such a step still counts above
            break
        steps.append(step.text)
        said = final_answer(step.text)
    if said is None:
        said = yield from conclude(question, steps, (), demos, settings)
    return Recalled(_real_answer(said), worst)


def _think(question: str, run: QuestionRun, chosen: ChosenEstimator) -> Flow[Recalled]:
    """A whole chain of thought, as simple questions are answered."""
    settings = run.settings
    demos = chosen_demonstrations(settings.seakr)
    prompt = step_prompt(question, (), (), demos)
    limit = 4 * settings.seakr.max_step_tokens  # four steps' worth, as in SeaKR's own chain
    (thought,) = yield from measure([prompt], chosen, stop=ANSWER_STOPS, max_tokens=limit, question=question)
    said = yield from read_off(question, thought.text, (), demos, settings)
    return Recalled(_real_answer(said), thought.uncertainty)


def open_book(question: str, run: QuestionRun, form: Form = "answer") -> Flow[str | None]:
    """The answer with all the passages that one retrieval finds, as far as they fit; ``None`` where there is none."""
    settings = run.settings
    # As in `closed_book`, with whose answers these are compared.
    demos = chosen_demonstrations(settings.seakr, settings.seakr.published.task if form == "step" else "simple")
    found: tuple[Passage, ...] = yield Retrieve(question, settings.top_k, settings.where)
    while found:
        try:
            return _real_answer((yield from conclude(question, (), found, demos, settings)))
        except ContextOverflowError:
            if settings.on_overflow == "raise":
                raise
            # The lowest-ranked passage goes first.
            found = found[:-1]
    return None


def conclude(
    question: str,
    steps: Sequence[str],
    passages: Sequence[Passage],
    demos: Sequence[Demonstration],
    settings: SelfReflectSettings,
) -> Flow[str | None]:
    """The answer after ``steps``, asked for with "So the answer is"; ``None`` where nothing is written."""
    prompt = step_prompt(question, steps, passages, demos, ANSWER_LEAD)
    params = SamplingParams(max_tokens=settings.seakr.max_step_tokens, stop=ANSWER_STOPS, seed=settings.seed)
    written: Generation = yield Generate(prompt, params)
    return final_answer(f"the answer is {' '.join(written.text.split())}")


def read_off(
    question: str,
    thought: str,
    passages: Sequence[Passage],
    demos: Sequence[Demonstration],
    settings: SelfReflectSettings,
) -> Flow[str | None]:
    """The answer that a chain of thought gives; asked for (``conclude``) where it does not say "the answer is"."""
    said = final_answer(thought)
    if said is not None or not thought:
        return said
    return (yield from conclude(question, [thought], passages, demos, settings))


def _real_answer(answer: str | None) -> str | None:
    """The answer, but for one that says it does not know."""
    return answer if is_answer(answer) else None


# --- answers as claims -----------------------------------------------------------------------------------------------


Ground = tuple[Passage, str]
"""A step of the reasoning with the passage that it was written with."""

_CITED = 2
_DOUBT, _REFUSAL = 0.5, 0.2  # P(supported) below which a sentence is not cited: one that seems to deny it, any other
_CANDIDATES = 6  # sentences scored at most: each is one pair for the judge or critic
_NEGATION = lazy_regex(
    r"\b(?:not|never|neither|nor|cannot|no longer|without|den(?:y|ies|ied)|\w+n['’]t)\b", re.IGNORECASE
)
_CLAUSE = lazy_regex(r"[;:,]|\b(?:but|although|though|whereas|while|and)\b", re.IGNORECASE)


def answer_claim(
    question: str,
    text: str,
    uncertainty: float,
    passages: Sequence[Passage],
    chosen: ChosenEstimator,
    run: QuestionRun,
    *,
    grounds: Sequence[Ground] = (),
) -> Flow[Claim]:
    """The answer as a claim.

    Its support is, in this order: the calibrated confidence of its uncertainty; how far the passages that it cites
    support it; without passages the model's own P(True); unknown otherwise. It cites the sentences that hold its words
    and do not deny it.

    Args:
        grounds: steps with their passages. An answer of several steps is supported as far as its weakest step is.
    """
    statement, others = _statements(question, text, grounds)
    citations = yield from choose_citations(text, statement, passages, run)
    if not citations:
        citations = yield from _cite_nearest(text, statement, passages, run)
    measured = finite_or_none(uncertainty)
    yield run.note("uncertainty", chosen.estimator.name, "of the answer", uncertainty=measured, answer=text)
    calibration = run.abilities.calibrations.get("answer")
    if calibration is not None:
        # Raises for another model, estimator or form: their uncertainties are on other scales.
        calibration.require(**answer_binding(chosen, run.settings, run.abilities))
        found = calibration.probability(uncertainty)
        yield run.note("support", "calibrated uncertainty", f"on {calibration.n} questions", support=found)
        return Claim(text, found, citations, short_answer=text, signals=Signals(certain=found))
    if passages:
        by_passages = yield from _support(statement, citations, passages, others, run)
        return Claim(text, by_passages, citations, short_answer=text, signals=Signals(entailed=by_passages))
    own = yield from own_word(question, text, run.abilities)
    yield run.note("support", "the model's own P(True)", "no passage was needed; not calibrated", support=own)
    return Claim(text, own, (), short_answer=text, signals=Signals(certain=own))


def finite_or_none(value: float) -> float | None:
    """An uncertainty for the trace, which shows an unknown one (+inf) as ``None``."""
    return value if math.isfinite(value) else None


def weigh_answer(
    question: str, claim: Claim, passages: Sequence[Passage], run: QuestionRun, *, grounds: Sequence[Ground]
) -> Flow[Weighed]:
    """Weigh the claim by the other signals, as claims of every pipeline are weighed.

    An answer with a calibrated probability keeps it, unless a stack was fitted for this pipeline, which then takes it
    as ``certain``. So does an answer without citations, for which there is no other signal, and, without a stack,
    every answer with ``signals="support_only"``. Reader and critic read one passage beside the question: for an answer
    that rests on several steps the rule ignores them and asks the model whether it follows from the passages of all
    steps; a stack uses them even so.
    """
    context = run.abilities
    fitted = "answer" in context.calibrations
    unheard = run.settings.signals == "support_only" or fitted
    # Reader and critic read quotes: without one they have nothing to add.
    if not claim.citations or (unheard and context.stack is None):
        return Weighed([claim], calibrated=fitted)
    weighed = yield from weigh(question, [claim], passages, run, judged=claim.signals.entailed is not None)
    if context.stack is not None or not _statements(question, claim.text, grounds)[1]:
        return weighed
    # Each passage once, in the order of the steps that rest on it.
    evidence = "\n".join(dict.fromkeys(p.text for p, _ in grounds))
    (said,) = yield from ask_model([(evidence, claim.text, question)], run)
    (found,) = weighed.claims
    # rival, quoted and answers compare one passage with the question, which no single step answers.
    signals = replace(found.signals, certain=said, rival=None)
    support = most_doubtful(replace(signals, quoted=None, answers=None))
    return replace(weighed, claims=[replace(found, signals=signals, support=support)], answerable=None)


def state_answer(question: str, text: str) -> str:
    """A short answer as a claim that passages can support."""
    return f"The answer to the question “{question}” is: {text}"


def _statements(question: str, text: str, grounds: Sequence[Ground]) -> tuple[str, list[Ground]]:
    """Choose the statement for the cited sentence, and the steps that must hold as well.

    Where a step gives the answer, it is that step: no single passage states the answer to a question of several steps.
    """
    holds = _whole_words(text)
    # "So the answer is …" concludes from the steps; no passage says it.
    steps = [(p, step) for p, step in grounds if final_answer(step) is None]
    giving = [i for i, (_, step) in enumerate(steps) if holds is not None and holds.search(_folded(step))]
    # One step, or none that names the answer: the question itself makes the statement.
    if len(steps) < 2 or not giving:
        return state_answer(question, text), []
    # The last step that names the answer gives it; those before it lead to it.
    return steps[giving[-1]][1], [s for i, s in enumerate(steps) if i < giving[-1]]


def _support(
    statement: str,
    citations: Sequence[Citation],
    passages: Sequence[Passage],
    others: Sequence[Ground],
    run: QuestionRun,
) -> Flow[float | None]:
    """The best of the passages cited, no more than the least of the other steps; unknown if one of these is.

    Where nothing is cited (a bare yes or no) there is no single passage to go by, and all are laid beside it.
    """
    cited = dict.fromkeys(s.passage_id for c in citations for s in c.primary)
    premises = [p.text for p in passages if p.id in cited] or ["\n".join(p.text for p in passages)]
    pairs = [(premise, statement) for premise in premises] + [(p.text, step) for p, step in others]
    found = yield from support(pairs, run)
    # max over the cited passages (any of them may support it), min over the steps (all of them must hold).
    by_cited = [p for p in found[: len(premises)] if p is not None]
    rest = found[len(premises) :]
    known = [p for p in rest if p is not None]
    if not by_cited or len(known) < len(rest):
        return None
    return min([max(by_cited), *known])


def choose_citations(
    text: str, statement: str, passages: Sequence[Passage], run: QuestionRun
) -> Flow[tuple[Citation, ...]]:
    """At most two sentences that hold the answer and do not deny it: by the critic or judge, where there is one.

    A sentence may lean on the one before it ("It was painted red."), so that a doubt is enough to leave one out only
    where its words deny the answer as well; one that is hardly more than the answer is cited in any case: what it
    answers stands around it. The best come first.
    """
    holding = _holding(text, passages)[:_CANDIDATES]
    if not holding or judge_at_hand(run.abilities) is None:
        return cite_answer(text, passages)
    found = yield from support([(s.text, statement) for s in holding], run)
    fitting = []
    for span, p in zip(holding, found):
        denies = _denies(span.text, text)
        likely = (p >= (_DOUBT if denies else _REFUSAL)) if p is not None else not denies
        if likely or (_is_mostly(span.text, text) and not denies):
            # Sorted by -p, so that 0.0, for unknown, comes last; ties keep the order of the passages.
            fitting.append((0.0 if p is None else -p, span))
    return tuple(Citation((s,)) for _, s in sorted(fitting, key=lambda pair: pair[0])[:_CITED])


def _cite_nearest(
    text: str, statement: str, passages: Sequence[Passage], run: QuestionRun
) -> Flow[tuple[Citation, ...]]:
    """The sentence most like the statement that supports it best, for an answer whose words are in none.

    "87 to 89%" of "89-87%", or "yes". Its numbers and names must be there, and nothing of it refuted.
    """
    if judge_at_hand(run.abilities) is None or _holding(text, passages):
        return ()
    nearest = Evidence(()).like(statement, CitationIndex(passages).sentences)[:_CANDIDATES]
    spans = [s for s in nearest if _has_facts(text, statement, s.text)]
    found = yield from support([(s.text, statement) for s in spans], run)
    likely = [(p, span) for p, span in zip(found, spans) if p is not None and p >= _REFUSAL]
    return (Citation((max(likely, key=lambda pair: pair[0])[1],)),) if likely else ()


def _has_facts(text: str, statement: str, sentence: str) -> bool:
    """Whether a sentence has the facts of an answer, and refutes nothing of the statement."""
    return not compare_claim(text, sentence).mismatches and not compare_claim(statement, sentence).refuted


def _is_mostly(sentence: str, text: str) -> bool:
    """Whether half of a sentence's words are the answer's, or more: "Be at least 15 years old"."""
    return 2 * len(words_only(text).split()) >= len(words_only(sentence).split())


def cite_answer(text: str, passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """The sentences of the passages that hold the answer's words and do not deny it in words, at most two.

    None for a bare yes or no.
    """
    fitting = [s for s in _holding(text, passages) if not _denies(s.text, text)]
    return tuple(Citation((s,)) for s in fitting[:_CITED])


def _holding(text: str, passages: Sequence[Passage]) -> list[Span]:
    whole = _whole_words(text)
    return [s for s in CitationIndex(passages).sentences if whole.search(_folded(s.text))] if whole is not None else []


def _whole_words(text: str) -> re.Pattern[str] | None:
    """Finds the answer in a folded text; ``None`` for a bare yes or no, which a text can contain without saying it."""
    needle = _folded(text).strip(" .")
    # Not \b: an answer may end in a mark ("C++"), which no border of a word follows.
    return None if needle in ("", "yes", "no") else re.compile(rf"(?<!\w){re.escape(needle)}(?!\w)")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _denies(sentence: str, text: str) -> bool:
    """Whether every mention of the answer is denied in its clause: "was never red"; not "was not blue but red"."""
    whole, folded = _whole_words(text), _folded(sentence)
    mentions = list(whole.finditer(folded)) if whole is not None else []
    # Only words before the mention, within its clause, can deny it.
    clauses = [_CLAUSE.split(folded[: m.start()])[-1] for m in mentions]
    return bool(clauses) and all(_NEGATION.search(c) for c in clauses)
