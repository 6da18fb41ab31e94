"""Retrieve only when the model is unsure: SeaKR's first step by itself, for anybody's retriever."""

from __future__ import annotations

import math

from shared_core.flow import Flow, Report, Retrieve
from shared_core.pipelines.common import Context, Trace
from shared_core.pipelines.measure import choose_gauge, choose_threshold, gauge_report, measure
from shared_core.pipelines.seakr_demos import demonstrations
from shared_core.pipelines.seakr_prompts import ANSWER_LEAD, ANSWER_STOPS, step_prompt
from shared_core.pipelines.seakr_query import formulate, triggered
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decision, Passage, Retrieved

Gated = tuple[tuple[Passage, ...], bool, str, tuple[Decision, ...]]
"""(passages, whether they were retrieved, the model's own draft, trace)"""


def gated_retrieval(question: str, k: int, settings: SelfReflectSettings, context: Context) -> Flow[Gated]:
    """Draft an answer without passages; retrieve if the gate of ``settings.seakr`` opens.

    FLARE searches for the draft without its improbable tokens, the others for the question itself. Metadata of the
    passages says why they were retrieved.
    """
    trace = Trace()
    options = settings.seakr
    query, draft, uncertainty, reason = question, "", math.nan, "the gate is always open"
    if options.gate != "always":
        if options.gate == "flare":  # reads the draft's own tokens: no samples
            cheap = settings.replace(seakr=options.replace(estimator="min_token_probability"))
            gauge = choose_gauge(cheap, context)
        else:
            gauge = choose_gauge(settings, context)
        threshold = choose_threshold(gauge, settings, context)
        yield gauge_report(gauge, threshold, trace)
        demos = options.demonstrations or demonstrations("simple")
        prompt = step_prompt(question, (), (), demos, ANSWER_LEAD)
        (measured,) = yield from measure([prompt], gauge, stop=ANSWER_STOPS, question=question)
        draft, uncertainty = measured.text, measured.uncertainty
        wanted, reason = triggered(measured, threshold, options)
        if options.gate == "flare":
            query = formulate(question, measured, "", options)
        known = uncertainty if math.isfinite(uncertainty) else None
        yield trace.add("gate", "retrieve" if wanted else "know", reason, uncertainty=known, draft=draft[:200])
        if not wanted:
            return (), False, draft, tuple(trace.decisions)
    found: tuple[Passage, ...] = yield Retrieve(query, k, settings.where)
    yield Report(Retrieved(query, found))
    notes = {
        "selfreflect_gate": options.gate,
        "selfreflect_reason": reason,
        "selfreflect_uncertainty": uncertainty if math.isfinite(uncertainty) else None,
        "selfreflect_query": query,
    }
    marked = tuple(p.with_score(p.score, **notes) for p in found)
    return marked, True, draft, tuple(trace.decisions)
