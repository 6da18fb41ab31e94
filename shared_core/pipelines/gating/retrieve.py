"""Retrieve only when the model is unsure: SeaKR's first step by itself, for anybody's retriever."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shared_core.errors import BudgetError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.choose import (
    Gate,
    choose_estimator,
    choose_gate,
    choose_threshold,
    estimator_report,
    with_gate,
)
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, demonstrations, step_prompt
from shared_core.pipelines.gating.query import decide_retrieval, formulate
from shared_core.runtime.flow import Flow, Report, Retrieve
from shared_core.types import Decision, MetadataValue, Passage, Retrieved

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
        trace: all decisions.
    """

    passages: tuple[Passage, ...]
    retrieved: bool
    draft: str
    trace: tuple[Decision, ...]


def gated_retrieval(question: str, k: int, run: QuestionRun) -> Flow[GatedResult]:
    """Draft an answer without passages; retrieve if the gate of ``settings.seakr`` opens.

    FLARE searches for the draft without its improbable tokens, DRAGIN for the words that the uncertain one attends
    to, the others for the question itself. Metadata of the passages says why they were retrieved. Where the budget
    does not suffice to draft and measure, nothing is known, and what is unknown retrieves.
    """
    gate, why = choose_gate(run.settings, run.abilities)
    run = replace(run, settings=with_gate(run.settings, gate))
    looked = _Look(question, why)
    if gate != "always":
        try:
            looked = yield from _look(question, gate, why, run)
        except BudgetError as error:
            looked = _Look(question, error.message)
            yield run.note("gate", "retrieve", error.message)
        if not looked.wanted:
            return GatedResult((), False, looked.text, tuple(run.trace.decisions))
    found: tuple[Passage, ...] = yield Retrieve(looked.query, k, run.settings.where)
    yield Report(Retrieved(looked.query, found))
    notes: dict[str, MetadataValue] = {
        "selfreflect_gate": gate,
        "selfreflect_reason": looked.reason,
        "selfreflect_query": looked.query,
        "selfreflect_estimator": looked.estimator,
        "selfreflect_uncertainty": looked.draft.known if looked.draft is not None else None,
    }
    marked = tuple(p.with_score(p.score, **notes) for p in found)
    return GatedResult(marked, True, looked.text, tuple(run.trace.decisions))


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


def _look(question: str, gate: Gate, why: str, run: QuestionRun) -> Flow[_Look]:
    options = run.settings.seakr
    named = _ESTIMATORS.get(gate, options.estimator)
    chosen = choose_estimator(run.settings.replace(seakr=options.replace(estimator=named)), run.abilities)
    threshold = choose_threshold(chosen, run.settings, run.abilities)
    yield estimator_report(chosen, threshold, run.trace, why)
    if not threshold.decides:  # whatever were measured, it would not keep the gate shut
        yield run.note("gate", "retrieve", threshold.source)
        return _Look(question, threshold.source, estimator=chosen.estimator.name)
    demos = options.demonstrations or demonstrations("simple")
    prompt = step_prompt(question, (), (), demos, ANSWER_LEAD)
    (draft,) = yield from measure([prompt], chosen, stop=ANSWER_STOPS, question=question, attention=gate == "dragin")
    wanted, reason = decide_retrieval(draft, threshold, options)
    query = formulate(question, draft, [], options) if gate in _ESTIMATORS else question
    yield run.note("gate", "retrieve" if wanted else "know", reason, uncertainty=draft.known, draft=draft.text[:200])
    return _Look(query, reason, wanted, draft, chosen.estimator.name)
