"""When to retrieve and what to search for, from a tentative sentence: SeaKR, FLARE, DRAGIN.

``gated_retrieval`` is SeaKR's first step by itself, for anybody's retriever: retrieve only when the model is unsure.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from shared_core.errors import BudgetError
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve
from shared_core.pipelines.gating.choose import (
    ChosenEstimator,
    Gate,
    Threshold,
    choose_estimator,
    choose_threshold,
    estimator_report,
    with_served_gate,
)
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_STOPS, short_answer_prompt
from shared_core.pipelines.gating.statistics import AttendedWords, attended_words, attention_from, probabilities
from shared_core.runtime.flow import Flow
from shared_core.settings import SeakrSettings
from shared_core.types import Decision, MetadataValue, Passage
from shared_core.uncertainty import (
    Trigger,
    answer_lead,
    dragin_query,
    dragin_trigger,
    flare_triggered,
    is_answer,
    masked_query,
    seakr_query,
)

_LOG = logging.getLogger(__name__)
_PUBLISHED_IGNORED = frozenset({"thus", "answer", "is", "so"})
"""Words that the published code leaves out of every query, by name."""


def decide_retrieval(draft: Measurement, threshold: Threshold, options: SeakrSettings) -> tuple[bool, str]:
    """Whether to retrieve for this sentence, and why. What is unknown retrieves."""
    if not draft.text:
        return True, "nothing was written"
    # Retrieve whatever the uncertainty: a model can be very certain that it does not know.
    if not is_answer(draft.text):
        return True, "the model says that it does not know"
    if options.gate == "always":
        return True, "the gate is always open"
    if options.gate == "flare":
        found = probabilities(draft.greedy)
        if found is None:
            return True, "token probabilities are not known"
        # Jiang et al. 2023: a token of p at most the threshold retrieves; NaN does, too.
        wanted = flare_triggered(found[1], options.published.flare_threshold)
        return wanted, f"{'a' if wanted else 'no'} token has p ≤ {options.published.flare_threshold:g}"
    if options.gate == "dragin":
        return _decide_by_attention(draft, options)
    return threshold.decide(draft.uncertainty)


def _decide_by_attention(draft: Measurement, options: SeakrSettings) -> tuple[bool, str]:
    found = _find_trigger(draft, options)
    if found is None:
        return True, "attention weights are not known"
    words, trigger = found
    limit = options.published.dragin_threshold
    if trigger is None:
        return False, f"no word has a value > {limit:g}"
    value = trigger.values[trigger.word]
    if math.isnan(value):  # unknown values are a trigger as well
        return True, "the values of its words are unknown"
    return True, f"the word {words.words[trigger.word].text!r} has the value {value:.3f} > {limit:g}"


def _find_trigger(draft: Measurement, options: SeakrSettings) -> tuple[AttendedWords, Trigger | None] | None:
    """The draft's words and the one that triggers, if any; ``None`` where attention weights are not known."""
    words = attended_words(draft.greedy)
    if words is None or not words.words:
        return None
    entropies = words.weighted_entropies(published=options.published.follows_code)
    # One sentence: the draft, all of its words.
    return words, dragin_trigger(words.attention, entropies, [len(words.words)], options.published.dragin_threshold)


def widen(question: str, steps: Sequence[str]) -> str:
    """Return the question with what the last step found, where no words of a draft are known to be certain.

    >>> widen("Where was the founder born?", ["Ida Holm founded it."])
    'Where was the founder born? Ida Holm founded it.'
    """
    return " ".join([question, *(s for s in steps[-1:] if is_answer(s))])


def formulate(question: str, draft: Measurement, steps: list[str], options: SeakrSettings) -> str:
    """The search query; the question where the sentence leaves no word, or what it takes is not known.

    A draft that says that the model does not know holds nothing to search for: the question is searched for, with what
    the step before it found.
    """
    if draft.text and not is_answer(draft.text) and not options.published.follows_code:
        return widen(question, steps)
    if options.gate == "dragin":
        return _query_by_attention(question, draft, steps, options) or question
    found = probabilities(draft.greedy)
    if found is None or not draft.text:
        return question if options.published.follows_code else widen(question, steps)
    # The published code leaves these words out by name instead.
    pieces, p = found if options.published.follows_code else _without_lead(*found)
    if options.gate == "flare":
        # FLARE's implicit query: the sentence as it is, without its improbable tokens.
        return masked_query(pieces, p, threshold=options.published.flare_mask) or question
    return seakr_query(
        question,
        pieces,
        p,
        previous_step=steps[-1] if steps else "",
        threshold=options.published.query_token_probability,
        max_tokens=options.published.max_query_tokens,
        ignored=_PUBLISHED_IGNORED if options.published.follows_code else frozenset(),
    )


def _without_lead(pieces: Sequence[str], p: Sequence[float]) -> tuple[list[str], list[float]]:
    """The pieces of a sentence, and their probabilities, but for "so the answer is", which is nothing to search for."""
    lead = answer_lead("".join(pieces))
    if lead is None:
        return list(pieces), list(p)
    kept, at = [], 0
    for i, piece in enumerate(pieces):
        middle = at + len(piece) / 2  # the blank before a word that follows may lie within the lead
        at += len(piece)
        if not lead[0] <= middle < lead[1]:
            kept.append(i)
    return [pieces[i] for i in kept], [p[i] for i in kept]


def _query_by_attention(question: str, draft: Measurement, steps: list[str], options: SeakrSettings) -> str:
    words, trigger = _find_trigger(draft, options) or (None, None)
    if words is None or trigger is None:
        return ""  # `formulate` then takes the question
    # Steps joined as `step_prompt` joins them: they are looked up in the prompt's text.
    before, weights = attention_from(draft.greedy, words, trigger.word, question, " ".join(steps))
    return dragin_query(before, weights, options.published.dragin_words)


_ESTIMATORS = {"flare": "min_token_probability", "dragin": "dragin"}
"""Gates that read the draft's own tokens: one greedy sentence, no samples."""


@dataclass(frozen=True, slots=True)
class GatedResult:
    """Decision of the gate, with the passages.

    Attributes:
        passages: empty if the model knows; the metadata says why they were retrieved
            (``selfreflect_gate``, ``selfreflect_reason``, ``selfreflect_query``, ``selfreflect_estimator``,
            ``selfreflect_uncertainty``).
        retrieved: whether the retriever was asked.
        draft: the model's own answer, without passages.
        measured: whether the model was asked: no with an open gate, and where no threshold is known.
    """

    passages: tuple[Passage, ...]
    retrieved: bool
    draft: str
    trace: tuple[Decision, ...]
    measured: bool = False


def gated_retrieval(question: str, k: int, run: QuestionRun) -> Flow[GatedResult]:
    """Draft an answer without passages; retrieve if the gate of ``settings.seakr`` opens.

    FLARE searches for the draft without its improbable tokens, DRAGIN for the words that the uncertain one attends
    to, the others for the question itself. Metadata of the passages says why they were retrieved. Where the budget
    does not suffice to draft and measure, nothing is known, and what is unknown retrieves.
    """
    run, why = with_served_gate(run)
    gate = run.settings.seakr.gate
    looked = _Look(question, why)
    # An open gate needs no draft: it searches for the question.
    if gate != "always":
        try:
            looked = yield from _look(question, gate, why, run)
        except BudgetError as error:
            looked = _Look(question, error.message)
            yield run.note("gate", "retrieve", error.message)
        if not looked.wanted:
            return GatedResult((), False, looked.text, tuple(run.trace.decisions), measured=True)
    found = yield from retrieve(looked.query, k, run)
    notes: dict[str, MetadataValue] = {
        "selfreflect_gate": gate,
        "selfreflect_reason": looked.reason,
        "selfreflect_query": looked.query,
        "selfreflect_estimator": looked.estimator,
        "selfreflect_uncertainty": looked.draft.known if looked.draft is not None else None,
    }
    marked = tuple(p.with_score(p.score, **notes) for p in found)
    return GatedResult(marked, True, looked.text, tuple(run.trace.decisions), looked.draft is not None)


@dataclass(frozen=True, slots=True)
class _Look:
    """The gate's decision: the query, if any, and why."""

    query: str
    reason: str
    wanted: bool = True
    draft: Measurement | None = None
    estimator: str | None = None

    @property
    def text(self) -> str:
        return self.draft.text if self.draft is not None else ""


def draft_answer(
    question: str,
    chosen: ChosenEstimator,
    threshold: Threshold,
    run: QuestionRun,
    why: str = "",
    *,
    attention: bool = False,
) -> Flow[Measurement | None]:
    """Draft a short answer without passages and measure it; the trace names estimator and threshold.

    ``None`` if nothing was written, since whatever were measured, it would not keep the gate shut.
    """
    yield estimator_report(chosen, threshold, run, why)
    if not threshold.decides:
        yield run.note("gate", "retrieve", threshold.source)
        return None
    # A short answer, whatever the task: the estimator's binding names these demonstrations.
    prompt = short_answer_prompt(question, (), run.settings.seakr)
    (draft,) = yield from measure([prompt], chosen, stop=ANSWER_STOPS, question=question, attention=attention)
    return draft


def _look(question: str, gate: Gate, why: str, run: QuestionRun) -> Flow[_Look]:
    options = run.settings.seakr
    named = _ESTIMATORS.get(gate, options.estimator)
    chosen = choose_estimator(run.settings.replace(seakr=options.replace(estimator=named)), run.abilities)
    threshold = choose_threshold(chosen, run.settings, run.abilities)
    draft = yield from draft_answer(question, chosen, threshold, run, why, attention=gate == "dragin")
    if draft is None:
        if "gate" not in run.abilities.calibrations:
            _warn_of_no_threshold(chosen.estimator.name, run.abilities.model_name("default"))
        return _Look(question, threshold.source, estimator=chosen.estimator.name)
    wanted, reason = decide_retrieval(draft, threshold, options)
    query = formulate(question, draft, [], options) if gate in _ESTIMATORS else question
    yield run.note("gate", "retrieve" if wanted else "know", reason, uncertainty=draft.known, draft=draft.text[:200])
    return _Look(query, reason, wanted, draft, chosen.estimator.name)


@cache  # once in a process for each model, not for each question
def _warn_of_no_threshold(estimator: str, model: str) -> None:
    _LOG.warning(
        "The gate cannot tell what %s knows, as no threshold of %s is known for it: it retrieves for every question, "
        "without asking the model. Fit a threshold with `selfreflect calibrate gate`, or set seakr.threshold.",
        model,
        estimator,
    )
