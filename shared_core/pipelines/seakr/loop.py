"""SeaKR (Yao et al. 2024): retrieve when unsure, keep the passage that makes surest, choose the surer answer.

Step by step (``multi_hop``): write the next sentence tentatively; if the model is unsure of it, retrieve with a query
made of its certain words, and write it again with the passage that lowers the uncertainty most. At the end the
answer from these rationales competes with one reasoned from all kept passages at once. Where no threshold is known,
every step retrieves, and no uncertainty is measured to find that out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.errors import LimitError
from shared_core.lm.base import Prompt
from shared_core.pipelines.competing import reconsider
from shared_core.pipelines.confidence import Weighed
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.links import Addresses
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve
from shared_core.pipelines.decision.reasons import FROM_MEMORY, SUPPORT_UNKNOWN, WITHOUT_QUOTE
from shared_core.pipelines.decision.wording import assemble, assemble_uncited
from shared_core.pipelines.extractive import answer_without_model, find_unusable
from shared_core.pipelines.gating.choose import (
    ChosenEstimator,
    Threshold,
    choose_estimator,
    choose_threshold,
    estimator_report,
    form_of,
    warn_of_cost,
    with_served_gate,
)
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import (
    ANSWER_LEAD,
    ANSWER_STOPS,
    STEP_STOPS,
    demonstrations_for,
    step_prompt,
)
from shared_core.pipelines.gating.query import decide_retrieval, formulate, widen
from shared_core.pipelines.rerank import least_uncertain
from shared_core.pipelines.seakr.answer import (
    Ground,
    answer_claim,
    cite_answer,
    finite_or_none,
    read_off,
    weigh_answer,
)
from shared_core.runtime.flow import Flow, Report, Retrieve
from shared_core.settings import Demonstration, SeakrSettings, SelfReflectSettings
from shared_core.types import Answer, Passage, Retrieved
from shared_core.uncertainty import choose_answer, final_answer, is_answer, rationale_uncertainty


@dataclass
class _State:
    """State of a run.

    Attributes:
        uncertainties: of the steps, in their order; +inf where unknown.
        kept: one passage of each retrieval, oldest first.
        queries: asked so far; none is asked twice.
        found: number of new passages retrieved, whether kept or not.
        lead, stop, max_tokens: how the next text begins, what ends it, and its tokens at most.
    """

    question: str
    run: QuestionRun
    chosen: ChosenEstimator
    threshold: Threshold
    demos: Sequence[Demonstration]
    steps: list[str] = field(default_factory=list)
    uncertainties: list[float] = field(default_factory=list)
    kept: list[Passage] = field(default_factory=list)
    grounds: list[Ground] = field(default_factory=list)
    queries: set[str] = field(default_factory=set)
    found: int = 0
    lead: str = ""
    stop: tuple[str, ...] = STEP_STOPS
    max_tokens: int | None = None

    @property
    def settings(self) -> SelfReflectSettings:
        return self.run.settings

    @property
    def options(self) -> SeakrSettings:
        return self.run.settings.seakr

    @property
    def decides(self) -> bool:
        """Whether the gate can stay shut; else measuring a draft would be calls for nothing."""
        return self.options.gate != "always" and self.threshold.decides

    @property
    def drafts(self) -> bool:
        """Whether a draft is of use: to decide by, or to search with its certain words."""
        return self.decides or "token_logprobs" in self.chosen.abilities

    def prompt(self, extra: Sequence[Passage]) -> Prompt:
        """The steps so far, under no passage but ``extra`` (paper), or under those kept as well (published code)."""
        shown = [*self.kept, *extra] if self.options.published.follows_code else list(extra)
        return step_prompt(self.question, self.steps, shown, self.demos, self.lead)


def seakr(question: str, run: QuestionRun) -> Flow[Answer]:
    """The whole loop. The trace holds ``estimator``, then ``gate``, ``query``, ``rerank`` for each step, ``reason``."""
    multi_hop = run.settings.seakr.multi_hop
    chosen = choose_estimator(run.settings, run.abilities, form=form_of(run.settings))
    warn_of_cost(chosen, run.settings, run.abilities.model_name("default"))
    run, why = with_served_gate(run)
    threshold = choose_threshold(chosen, run.settings, run.abilities)
    yield estimator_report(chosen, threshold, run, why)
    options = run.settings.seakr
    state = _State(question, run, chosen, threshold, demonstrations_for(options))
    # Stays empty where a limit ends the loop first: the decision is then an abstention with that reason.
    weighed = Weighed([])
    try:
        text, uncertainty = yield from _multi_hop(state) if multi_hop else _single_hop(state)
        text = text and Addresses(question, state.kept).without_others(text).strip()
        # Silence does not decline: "unknown" and "The passages do not say." do.
        declined = bool(text) and not is_answer(text)
        if text is not None and is_answer(text):
            claim = yield from answer_claim(question, text, uncertainty, state.kept, chosen, run, grounds=state.grounds)
            weighed = yield from weigh_answer(question, claim, state.kept, run, grounds=state.grounds)
        # A draft beside which no passage fitted the context is the model's own, and no misreading of any.
        read = state.kept or (state.found and not weighed.claims)
        error = find_unusable(weighed.claims, run) if read and not declined else None
        if any(cite_answer(c.text, state.kept) for c in weighed.claims):
            error = None  # its words stand there: that a signal refuses them is a verdict, and holds
        if error is not None and (run.abilities.has_reader or not weighed.claims):
            return (yield from answer_without_model(question, error, state.kept, run, pipeline="seakr"))
    except LimitError as error:
        yield run.stop(error)
    request = DecisionRequest(
        question,
        weighed.claims,
        state.kept,
        pipeline="seakr",
        answerable=weighed.answerable,
        calibrated=weighed.calibrated,
        unknown=weighed.unknown,
        reason=_why_not(state),
        layout=assemble if any(c.citations for c in weighed.claims) else assemble_uncited,
    )
    if request.layout is assemble_uncited and weighed.claims and not run.settings.allow_answers_without_citation:
        yield run.note("quote", "none", "an answer without a quote is not shown (allow_answers_without_citation)")
        request = _not_shown(request, run)
    answer = yield from decide(request, run)
    return (yield from reconsider(question, answer, run, search=True))


def _not_shown(request: DecisionRequest, run: QuestionRun) -> DecisionRequest:
    sure = any(c.support is not None and c.support > run.settings.target_accuracy for c in request.claims)
    # Without scores no claim passes the bar.
    scores = [None for _ in request.claims]
    return dataclasses.replace(request, scores=scores, reason=WITHOUT_QUOTE if sure else request.reason)


def _why_not(state: _State) -> str:
    """The reason for an abstention without passages that is none of the documents' lacking any; else empty."""
    if state.kept:
        return ""
    # Found but not kept: none fitted the context. Searched and not found has its own reason, the default.
    return SUPPORT_UNKNOWN if state.found else "" if state.queries else FROM_MEMORY


# --- complex questions ---------------------------------------------------------------------------------------------


def _multi_hop(state: _State) -> Flow[tuple[str | None, float]]:
    said: str | None = None
    while len(state.steps) < state.options.max_steps:
        step = yield from _step(state)
        if step is None:
            yield state.run.note("stop", "nothing new to read", "the draft that the model is unsure of is left out")
            break
        # A model that repeats a step is looping: more steps would cost tokens and say nothing new.
        if not step.text or step.text in state.steps:
            yield state.run.note("stop", "nothing more to say" if not step.text else "a step repeats itself")
            break
        state.steps.append(step.text)
        state.uncertainties.append(step.uncertainty)
        # None unless the step says "the answer is …".
        said = final_answer(step.text)
        if said is not None:
            break
        if len(state.kept) >= state.options.published.max_passages:
            yield state.run.note("stop", "retrieval limit", passages=len(state.kept))
            break
    else:
        yield state.run.note("stop", "step limit", steps=len(state.steps))
    return (yield from _reason(state, said))


def _step(state: _State) -> Flow[Measurement | None]:
    """The next sentence: as the model writes it if it is sure, else with a passage that it retrieved for it.

    ``None`` where it is not sure and there is nothing new to read.
    """
    draft: Measurement | None = None
    if state.drafts:
        # Where nothing is decided the draft only words the query: greedy, without samples.
        draft = yield from _draft(state, draft_only=not state.decides)
        wanted = yield from _gate(state, draft)
        if not wanted:
            return draft
    else:
        if (concluded := (yield from _concluded(state))) is not None:
            return concluded
        yield state.run.note("gate", "retrieve", state.threshold.source)
    found = yield from _new_passages(state, draft)
    best = (yield from _with_best(state, found)) if found else None
    if best is not None:
        # _with_best has just appended the passage that won.
        state.grounds.append((state.kept[-1], best.text))
        return best
    if not found and _failed(state, draft):
        return None
    # The draft was measured already, or is empty and has nothing to measure.
    if draft is not None and (state.decides or not draft.text):
        return draft
    return (yield from _draft(state))  # it stays after all, and so it is measured


def _concluded(state: _State) -> Flow[Measurement | None]:
    """The next sentence if it only concludes from the steps ("So the answer is …"): it needs no passage of its own."""
    if not state.steps or state.options.published.follows_code:
        return None
    draft = yield from _draft(state, draft_only=True)
    if final_answer(draft.text) is None:
        return None
    yield state.run.note("gate", "know", "it concludes from the steps so far", draft=draft.text[:200])
    return (yield from _draft(state))


def _failed(state: _State, draft: Measurement | None) -> bool:
    """Whether the steps are better off without a draft for which nothing new was found.

    One that says the answer ends them anyway. Without a threshold nothing says that the model is unsure of it; the
    published code always has one.
    """
    judged = state.decides or state.options.published.follows_code
    return judged and (draft is None or final_answer(draft.text) is None)


def _draft(state: _State, *, draft_only: bool = False) -> Flow[Measurement]:
    attention = state.options.gate == "dragin"
    (draft,) = yield from _measure_each(state, [()], attention=attention, draft_only=draft_only)
    if draft.error is not None:
        raise draft.error  # even without any passage
    return draft


def _gate(state: _State, draft: Measurement) -> Flow[bool]:
    wanted, reason = decide_retrieval(draft, state.threshold, state.options)
    empty = f"; {draft.empty} of {len(draft.samples)} samples are empty" if draft.empty else ""
    yield state.run.note(
        "gate", "retrieve" if wanted else "know", reason + empty, uncertainty=draft.known, draft=draft.text[:200]
    )
    return wanted


def _new_passages(state: _State, draft: Measurement | None) -> Flow[list[Passage]]:
    """Up to N passages not kept yet; none if the query repeats or nothing new is found."""
    options = state.options
    # Without a draft there are no certain words to search with: each step searches with what the last one found.
    query = (
        formulate(state.question, draft, state.steps, options)
        if draft is not None
        else widen(state.question, () if options.published.follows_code else state.steps)
    )
    if query in state.queries:
        yield state.run.note("query", "none", "the query was asked before", query=query)
        return []
    state.queries.add(query)
    wanted = options.rerank_passages
    # Ask for the kept ones on top: they may come back, and N new ones are wanted.
    found: tuple[Passage, ...] = yield Retrieve(query, wanted + len(state.kept), state.settings.where)
    known = {p.id for p in state.kept}
    new = [p for p in found if p.id not in known][:wanted]
    state.found += len(new)
    yield Report(Retrieved(query, tuple(new)))
    yield state.run.note("query", query, "" if new else "nothing new was found", found=len(new))
    return new


def _with_best(state: _State, found: Sequence[Passage]) -> Flow[Measurement | None]:
    """Write on with each passage in turn, in one batch; keep the one of least uncertainty. ``None`` if none fits."""
    # N·k samples in one batch; the prompts share all but the passage.
    measured = yield from _measure_each(state, [(p,) for p in found])
    # To the published code an empty text is as unsure as can be, and one that declines to answer is like any other.
    code = state.options.published.follows_code
    values = [m.uncertainty if m.text or not code else math.inf for m in measured]
    best = least_uncertain(values, None if code else [m.text for m in measured])[0]
    fitting = [i for i, m in enumerate(measured) if m.error is None]
    if not fitting:
        return None
    if best not in fitting:  # all uncertainties are unknown
        best = fitting[0]
    state.kept.append(found[best])
    known = measured[best].known is not None
    yield state.run.note(
        "rerank",
        found[best].id,
        "with this passage the model is surest" if known else "its uncertainty is unknown: the first passage found",
        uncertainty=measured[best].known,
        passages=len(found),
        place=best + 1,
    )
    return measured[best]


def _measure_each(
    state: _State, extras: Sequence[tuple[Passage, ...]], *, attention: bool = False, draft_only: bool = False
) -> Flow[list[Measurement]]:
    """One measurement with each of ``extras``, all in one batch.

    A prompt that does not fit the model's context has ``error`` set (``on_overflow="raise"``: it is raised). If not one
    fits beside the kept passages (published code), these are dropped, oldest first, and it is tried again.
    """
    while True:
        prompts = [state.prompt(extra) for extra in extras]
        measured = yield from measure(
            prompts,
            state.chosen,
            stop=state.stop,
            question=state.question,
            attention=attention,
            draft_only=draft_only,
            max_tokens=state.max_tokens,
            tolerate_overflow=state.settings.on_overflow == "drop",
        )
        errors = [m.error for m in measured if m.error is not None]
        if not errors:
            return measured
        # The paper's prompts hold no kept passages that could be given up for the others.
        if len(errors) < len(measured) or not (state.kept and state.options.published.follows_code):
            yield state.run.note("context", f"{len(errors)} of {len(measured)} prompts left out", errors[0].message)
            return measured
        yield state.run.note("context", f"passage {state.kept.pop(0).id} left out", errors[0].message)


def _reason(state: _State, said: str | None) -> Flow[tuple[str | None, float]]:
    """Self-aware reasoning: the answer from the rationales against one from all kept passages at once."""
    options = state.options
    own = math.inf
    if said is None or options.published.measures_answer or options.published.follows_code:
        if said is not None:
            state.steps.pop()  # the step that says the answer: it is said again, and measured, after the lead
        state.lead, state.stop = ANSWER_LEAD, ANSWER_STOPS
        (short,) = yield from _measure_each(state, [()])
        own = short.uncertainty
        # The reply begins right after the lead, which final_answer looks for.
        again = final_answer(f"the answer is {short.text}")
        # The published code goes by what is asked for anew, the paper by what the chain says.
        said = (again or said) if options.published.follows_code else (said or again)
    # Section 3.3 compares the mean over the steps with the uncertainty of the answer from all passages.
    averaged = state.uncertainties and not options.published.measures_answer
    from_rationales = rationale_uncertainty(state.uncertainties) if averaged else own
    known, uncertainty = yield from _from_knowledge(state)
    answer, source = choose_answer(said, from_rationales, known, uncertainty)
    yield state.run.note(
        "reason",
        f"answer from {source}",
        "the answer of smaller uncertainty wins; an empty or unknown one loses",
        rationales=said,
        rationales_uncertainty=finite_or_none(from_rationales),
        knowledge=known,
        knowledge_uncertainty=finite_or_none(uncertainty),
    )
    return answer, from_rationales if source == "rationales" else uncertainty


def _from_knowledge(state: _State) -> Flow[tuple[str | None, float]]:
    """The answer by a whole chain of thought over all kept passages, as far as they fit."""
    passages = list(state.kept)
    while True:
        prompt = step_prompt(state.question, (), passages, state.demos)
        (thought,) = yield from measure(
            [prompt],
            state.chosen,
            stop=ANSWER_STOPS,
            max_tokens=4 * state.options.max_step_tokens,
            question=state.question,
            tolerate_overflow=state.settings.on_overflow == "drop",
        )
        if thought.error is None:
            said = yield from read_off(state.question, thought.text, passages, state.demos, state.settings)
            return said, thought.uncertainty
        if not passages:
            yield state.run.note("context", "no answer from knowledge", thought.error.message)
            return None, math.inf  # loses in choose_answer
        yield state.run.note("context", f"passage {passages.pop(0).id} left out", thought.error.message)


# --- simple questions ----------------------------------------------------------------------------------------------


def _single_hop(state: _State) -> Flow[tuple[str | None, float]]:
    """At most one retrieval, with the question itself as query: a chain of thought, or the answer (published code)."""
    options = state.options
    state.stop = ANSWER_STOPS
    if options.published.follows_code:
        state.lead = ANSWER_LEAD
    else:
        state.max_tokens = 4 * options.max_step_tokens  # room for a chain of four steps
    draft: Measurement | None = None
    if state.decides:
        draft = yield from _draft(state)
        wanted = yield from _gate(state, draft)
    else:  # nothing that could be drafted would change what is searched for
        wanted = True
        yield state.run.note("gate", "retrieve", state.threshold.source)
    if wanted:
        # By this _why_not tells a search without a result from no search.
        state.queries.add(state.question)
        found = yield from retrieve(state.question, options.rerank_passages, state.run)
        state.found += len(found)
        if found:
            draft = (yield from _with_best(state, found)) or draft
    # No gate drafted, and no passage was found or fitted: the answer is from memory.
    if draft is None:
        draft = yield from _draft(state)
    if options.published.follows_code:
        return final_answer(f"the answer is {draft.text}"), draft.uncertainty
    said = yield from read_off(state.question, draft.text, state.kept, state.demos, state.settings)
    return said, draft.uncertainty
