"""Retrieve only when the model is unsure: SeaKR's first step by itself, for anybody's retriever."""

from __future__ import annotations

from shared_core.flow import Flow, Report, Retrieve
from shared_core.pipelines.common import Context, Trace
from shared_core.pipelines.gating.choose import choose_gate, choose_gauge, choose_threshold, gauge_report, with_gate
from shared_core.pipelines.gating.demonstrations import demonstrations
from shared_core.pipelines.gating.measure import measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, step_prompt
from shared_core.pipelines.gating.query import formulate, triggered
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decision, MetadataValue, Passage, Retrieved

_ESTIMATORS = {"flare": "min_token_probability", "dragin": "dragin"}
"""Gates that read the draft's own tokens: one greedy sentence, no samples."""

Gated = tuple[tuple[Passage, ...], bool, str, tuple[Decision, ...]]
"""(passages, whether they were retrieved, the model's own draft, trace)"""


def gated_retrieval(question: str, k: int, settings: SelfReflectSettings, context: Context) -> Flow[Gated]:
    """Draft an answer without passages; retrieve if the gate of ``settings.seakr`` opens.

    FLARE searches for the draft without its improbable tokens, DRAGIN for the words that the uncertain one attends
    to, the others for the question itself. Metadata of the passages says why they were retrieved.
    """
    trace = Trace()
    gate, why = choose_gate(settings, context)
    settings = with_gate(settings, gate)
    options = settings.seakr
    query, draft, reason = question, None, why
    estimator = _ESTIMATORS.get(gate, options.estimator)
    if gate != "always":
        gauge = choose_gauge(settings.replace(seakr=options.replace(estimator=estimator)), context)
        estimator = gauge.estimator.name
        threshold = choose_threshold(gauge, settings, context)
        yield gauge_report(gauge, threshold, trace, why)
        demos = options.demonstrations or demonstrations("simple")
        prompt = step_prompt(question, (), (), demos, ANSWER_LEAD)
        (draft,) = yield from measure([prompt], gauge, stop=ANSWER_STOPS, question=question, attention=gate == "dragin")
        wanted, reason = triggered(draft, threshold, options)
        if gate in _ESTIMATORS:
            query = formulate(question, draft, [], options)
        yield trace.add(
            "gate", "retrieve" if wanted else "know", reason, uncertainty=draft.known, draft=draft.text[:200]
        )
        if not wanted:
            return (), False, draft.text, tuple(trace.decisions)
    found: tuple[Passage, ...] = yield Retrieve(query, k, settings.where)
    yield Report(Retrieved(query, found))
    notes: dict[str, MetadataValue] = {
        "selfreflect_gate": gate,
        "selfreflect_reason": reason,
        "selfreflect_query": query,
        "selfreflect_estimator": estimator if draft is not None else None,
        "selfreflect_uncertainty": draft.known if draft is not None else None,
    }
    marked = tuple(p.with_score(p.score, **notes) for p in found)
    return marked, True, draft.text if draft is not None else "", tuple(trace.decisions)
