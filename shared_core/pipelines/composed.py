"""The engine's default: the parts of the published systems that the model at hand allows for, one after the other.

Without a language model: quote (``extractive``). With one: ask first whether it knows (SeaKR's gate, where calibrated),
re-rank candidates by how sure each makes it (SeaKR), write each claim after a verbatim quote (ReClaim), estimate every
claim's support, keep what raises expected utility at the target accuracy (ReSearch).
"""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.flow import Flow, Report, Retrieve
from shared_core.pipelines.common import Context, Trace, decide
from shared_core.pipelines.extractive import extractive
from shared_core.pipelines.gating.demonstrations import demonstrations
from shared_core.pipelines.gating.measure import choose_gauge, choose_threshold, gauge_report, measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, step_prompt
from shared_core.pipelines.gating.query import triggered
from shared_core.pipelines.reclaim.loop import judged, write
from shared_core.pipelines.rerank import rerank_by_reading, rerank_by_uncertainty
from shared_core.pipelines.seakr.answer import answer_claim
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, Passage, Retrieved
from shared_core.uncertainty import final_answer


def composed(question: str, settings: SelfReflectSettings, context: Context) -> Flow[Answer]:
    """See the module. The trace holds ``gate rerank write support keep``, then ``answer`` or ``abstain``."""
    if context.model("default") is None:
        return (yield from extractive(question, settings, context))
    trace = Trace()
    own = yield from _own_knowledge(question, settings, context, trace)
    if own is not None:
        return (yield from decide(question, [own], (), settings, trace, pipeline="composed"))
    method = _rerank_method(settings, context)
    wanted = settings.top_k if method == "none" else settings.candidates or 2 * settings.top_k
    found: tuple[Passage, ...] = yield Retrieve(question, wanted, settings.where)
    yield Report(Retrieved(question, found))
    claims: list[Claim] = []
    passages: Sequence[Passage] = found
    if found:
        passages = yield from _reranked(question, found, method, settings, context, trace)
        claims = yield from write(question, passages, settings, context, trace)
        claims = yield from judged(claims, settings, context, trace)
    return (yield from decide(question, claims, passages, settings, trace, pipeline="composed"))


def _own_knowledge(question: str, settings: SelfReflectSettings, context: Context, trace: Trace) -> Flow[Claim | None]:
    """The model's own answer where a calibrated gate says that it knows; ``None`` where passages are needed.

    An uncalibrated gate decides nothing here: an answer without a quote needs a confidence that means something.
    """
    if not {"gate", "answer"} <= set(context.calibrations):
        yield trace.add("gate", "retrieve", "no calibration says when the model knows by itself")
        return None
    gauge = choose_gauge(settings, context)
    threshold = choose_threshold(gauge, settings, context)
    yield gauge_report(gauge, threshold, trace)
    demos = settings.seakr.demonstrations or demonstrations("simple")
    prompt = step_prompt(question, (), (), demos, ANSWER_LEAD)
    (draft,) = yield from measure([prompt], gauge, stop=ANSWER_STOPS, question=question)
    wanted, reason = triggered(draft, threshold, settings.seakr)
    text = final_answer(f"the answer is {draft.text}")
    yield trace.add("gate", "retrieve" if wanted or not text else "know", reason, draft=draft.text[:200])
    if wanted or not text:
        return None
    claim = yield from answer_claim(question, text, draft.uncertainty, (), gauge, settings, context, trace)
    return claim if claim.support is not None and claim.support > settings.target_accuracy else None


def _rerank_method(settings: SelfReflectSettings, context: Context) -> str:
    if settings.rerank != "auto":
        return settings.rerank
    model = context.model("default")
    return "uncertainty" if model is not None and model.hidden_states else "none"


def _reranked(
    question: str,
    found: Sequence[Passage],
    method: str,
    settings: SelfReflectSettings,
    context: Context,
    trace: Trace,
) -> Flow[list[Passage]]:
    if method == "none":
        return list(found)
    if method == "reading":
        ranked = yield from rerank_by_reading(question, found)
    else:
        ranked = yield from rerank_by_uncertainty(question, found, settings, context, trace)
    kept = ranked[: settings.top_k]
    yield trace.add("rerank", f"{len(kept)} of {len(found)} passages", kept[0].reason, method=method)
    return [r.passage for r in kept]
