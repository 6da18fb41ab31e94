"""SeaKR (Yao et al. 2024): retrieve when unsure, keep the passage that makes surest, choose the surer answer.

Step by step (``multi_hop``): write the next sentence tentatively; if the model is unsure of it, retrieve with a query
made of its certain words, and write it again with the passage that lowers the uncertainty most. At the end the
answer from these rationales competes with one reasoned from all kept passages at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.flow import Flow, Report, Retrieve
from shared_core.lm.base import Prompt
from shared_core.pipelines.common import Context, Trace, decide
from shared_core.pipelines.measure import (
    Gauge,
    Measurement,
    Threshold,
    choose_gauge,
    choose_threshold,
    gauge_report,
    measure,
)
from shared_core.pipelines.rerank import least_uncertain
from shared_core.pipelines.seakr_answer import answer_claim
from shared_core.pipelines.seakr_demos import demonstrations
from shared_core.pipelines.seakr_prompts import ANSWER_LEAD, ANSWER_STOPS, STEP_STOPS, step_prompt
from shared_core.pipelines.seakr_query import formulate, triggered
from shared_core.settings import Demonstration, SelfReflectSettings
from shared_core.types import Answer, Passage, Retrieved
from shared_core.uncertainty import choose_answer, final_answer, rationale_uncertainty


@dataclass
class _State:
    """What a run knows so far."""

    question: str
    settings: SelfReflectSettings
    context: Context
    gauge: Gauge
    threshold: Threshold
    demos: Sequence[Demonstration]
    trace: Trace
    steps: list[str] = field(default_factory=list)
    uncertainties: list[float] = field(default_factory=list)
    kept: list[Passage] = field(default_factory=list)
    queries: set[str] = field(default_factory=set)

    def prompt(self, extra: Sequence[Passage] = (), lead: str = "") -> Prompt:
        return step_prompt(self.question, self.steps, [*self.kept, *extra], self.demos, lead)


def seakr(question: str, settings: SelfReflectSettings, context: Context) -> Flow[Answer]:
    """The whole loop. The trace holds ``estimator``, then ``gate``, ``query``, ``rerank`` for each step, ``reason``."""
    trace = Trace()
    gauge = choose_gauge(settings, context)
    threshold = choose_threshold(gauge, settings, context)
    yield gauge_report(gauge, threshold, trace)
    options = settings.seakr
    demos = options.demonstrations or demonstrations(options.task if options.multi_hop else "simple")
    state = _State(question, settings, context, gauge, threshold, demos, trace)
    if options.multi_hop:
        text, uncertainty = yield from _multi_hop(state)
    else:
        text, uncertainty = yield from _single_hop(state)
    claims = []
    if text is not None:
        claims = [(yield from answer_claim(question, text, uncertainty, state.kept, gauge, settings, context, trace))]
    return (yield from decide(question, claims, state.kept, settings, trace, pipeline="seakr"))


# --- complex questions ---------------------------------------------------------------------------------------------


def _multi_hop(state: _State) -> Flow[tuple[str | None, float]]:
    said: str | None = None
    while len(state.steps) < state.settings.seakr.max_steps:
        step = yield from _step(state)
        if not step.text:
            yield state.trace.add("stop", "nothing more to say")
            break
        state.steps.append(step.text)
        state.uncertainties.append(step.uncertainty)
        said = final_answer(step.text)
        if said is not None:
            break
    else:
        yield state.trace.add("stop", "step limit", steps=len(state.steps))
    return (yield from _reason(state, said))


def _step(state: _State) -> Flow[Measurement]:
    """The next sentence: as the model writes it if it is sure, else with a passage that it retrieved for it."""
    (draft,) = yield from measure([state.prompt()], state.gauge, stop=STEP_STOPS, question=state.question)
    wanted, reason = triggered(draft, state.threshold, state.settings.seakr)
    yield state.trace.add(
        "gate", "retrieve" if wanted else "know", reason, uncertainty=_finite(draft.uncertainty), draft=draft.text[:200]
    )
    if not wanted:
        return draft
    found = yield from _new_passages(state, draft)
    if not found:
        return draft
    return (yield from _with_best(state, found, lead=""))


def _new_passages(state: _State, draft: Measurement) -> Flow[list[Passage]]:
    """Up to N passages not kept yet; none if a limit is reached, the query repeats or nothing new is found."""
    options = state.settings.seakr
    if len(state.kept) >= options.max_passages:
        yield state.trace.add("query", "none", "the limit of passages is reached", passages=len(state.kept))
        return []
    query = formulate(state.question, draft, state.steps[-1] if state.steps else "", options)
    if query in state.queries:
        yield state.trace.add("query", "none", "the query was asked before", query=query)
        return []
    state.queries.add(query)
    wanted = options.rerank_passages
    found: tuple[Passage, ...] = yield Retrieve(query, wanted + len(state.kept), state.settings.where)
    known = {p.id for p in state.kept}
    new = [p for p in found if p.id not in known][:wanted]
    yield Report(Retrieved(query, tuple(new)))
    yield state.trace.add("query", query, "" if new else "nothing new was found", found=len(new))
    return new


def _with_best(
    state: _State, found: Sequence[Passage], *, lead: str, stop: tuple[str, ...] = STEP_STOPS
) -> Flow[Measurement]:
    """Write on with each passage in turn, in one batch; keep the one of least uncertainty."""
    prompts = [state.prompt([p], lead) for p in found]
    measured = yield from measure(prompts, state.gauge, stop=stop, question=state.question)
    order = least_uncertain([m.uncertainty for m in measured])
    best = order[0]
    state.kept.append(found[best])
    yield state.trace.add(
        "rerank",
        found[best].id,
        "with this passage the model is surest",
        uncertainty=_finite(measured[best].uncertainty),
        passages=len(found),
        place=best + 1,
    )
    return measured[best]


def _reason(state: _State, said: str | None) -> Flow[tuple[str | None, float]]:
    """Self-aware reasoning: the answer from the rationales against one from all kept passages at once."""
    options = state.settings.seakr
    own = math.inf
    if said is None or options.reasoning_uncertainty == "published_code":
        prompt = state.prompt(lead=ANSWER_LEAD)
        (short,) = yield from measure([prompt], state.gauge, stop=ANSWER_STOPS, question=state.question)
        own = short.uncertainty
        said = said or final_answer(f"the answer is {short.text}")
    from_rationales = rationale_uncertainty(state.uncertainties) if state.uncertainties else own
    if options.reasoning_uncertainty == "published_code":
        from_rationales = own
    prompt = step_prompt(state.question, (), state.kept, state.demos)
    (thought,) = yield from measure(
        [prompt], state.gauge, stop=ANSWER_STOPS, max_tokens=4 * options.max_step_tokens, question=state.question
    )
    known = final_answer(thought.text)
    answer, source = choose_answer(said, from_rationales, known, thought.uncertainty)
    yield state.trace.add(
        "reason",
        f"answer from {source}",
        "the answer of smaller uncertainty wins; an empty or unknown one loses",
        rationales=said,
        rationales_uncertainty=_finite(from_rationales),
        knowledge=known,
        knowledge_uncertainty=_finite(thought.uncertainty),
    )
    return answer, from_rationales if source == "rationales" else thought.uncertainty


# --- simple questions ----------------------------------------------------------------------------------------------


def _single_hop(state: _State) -> Flow[tuple[str | None, float]]:
    """At most one retrieval, with the question itself as query."""
    (draft,) = yield from measure(
        [state.prompt(lead=ANSWER_LEAD)], state.gauge, stop=ANSWER_STOPS, question=state.question
    )
    wanted, reason = triggered(draft, state.threshold, state.settings.seakr)
    yield state.trace.add(
        "gate", "retrieve" if wanted else "know", reason, uncertainty=_finite(draft.uncertainty), draft=draft.text[:200]
    )
    if wanted:
        k = state.settings.seakr.rerank_passages
        found: tuple[Passage, ...] = yield Retrieve(state.question, k, state.settings.where)
        yield Report(Retrieved(state.question, found))
        if found:
            draft = yield from _with_best(state, found, lead=ANSWER_LEAD, stop=ANSWER_STOPS)
    return final_answer(f"the answer is {draft.text}"), draft.uncertainty


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
