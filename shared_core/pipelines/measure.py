"""Uncertainty of a model about what it would write: one sampling pass, all the estimators asked for.

Every prompt's greedy continuation and its samples go out as one batch with those of the other prompts, so that a
backend with tree decoding shares their prefixes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CapabilityError, LanguageModelError
from shared_core.flow import Embed, Flow, Generate, Judge, Report, Score, Together
from shared_core.lm.base import Capture, Generation, Prompt, Sample, SamplingParams, Scores
from shared_core.pipelines.common import Context, Trace
from shared_core.settings import SeakrSettings, SelfReflectSettings
from shared_core.uncertainty import (
    Cost,
    Estimator,
    SampleStatistics,
    best_available,
    cluster_by_entailment,
    cluster_by_similarity,
    get_estimator,
    plan_pairs,
)

SAME_MEANING = 0.85
"""Cosine of MiniLM embeddings from which two samples count as saying the same, where nothing judges entailment."""

_TRUE, _FALSE = Prompt.trusted(" True"), Prompt.trusted(" False")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the model would write, and how unsure it is of it.

    Attributes:
        greedy: the greedy continuation, with token log-probabilities where the model gives them.
        uncertainty: higher = less certain; +inf where it is unknown.
        samples: the sampled continuations; empty for estimators that need none.
        others: uncertainties of the further estimators asked for.
    """

    greedy: Sample
    uncertainty: float
    samples: tuple[Sample, ...] = ()
    others: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The greedy continuation on one line."""
        return " ".join(self.greedy.text.split())


@dataclass(frozen=True, slots=True)
class Gauge:
    """An estimator as chosen for a model, with how to sample for it. ``reason`` says why this one, for the trace."""

    estimator: Estimator
    reason: str
    options: SeakrSettings
    logprobs: bool
    judge: bool = False
    seed: int | None = 0
    also: tuple[Estimator, ...] = ()

    @property
    def binding(self) -> dict[str, str | int | float | None]:
        """What a calibration of it is bound to, beside the model: the same samples taken in the same way."""
        sampled = self.estimator.cost >= Cost.SAMPLES
        hidden = "hidden_states" in self.estimator.needs
        options = self.options
        return {
            "estimator": self.estimator.name,
            "k": options.samples if sampled else None,
            "temperature": options.temperature if sampled else None,
            "top_p": options.top_p if sampled else None,
            "sample_top_k": options.top_k_sampling if sampled else None,
            "layer": options.layer if hidden else None,
            "hidden": options.hidden if hidden else None,
            "max_step_tokens": options.max_step_tokens,
        }


def choose_gauge(
    settings: SelfReflectSettings, context: Context, *, role: str = "default", also: Sequence[str] = ()
) -> Gauge:
    """The estimator of the settings if the model can serve it, else the next best if the settings allow that.

    Raises:
        CapabilityError: there is no model, or it lacks what the estimator needs and ``allow_fallback`` is off.
        InputError: there is no estimator of that name.
    """
    options = settings.seakr
    model = context.model(role)
    if model is None:
        raise CapabilityError("text", "none", hint="Uncertainty needs a language model: SelfReflectEngine(…, lm=…).")
    names = [*model.names(), "similarity", *(["entailment"] if context.has_judge else [])]
    names = [n for n in names if n != "similarity" or context.has_embedder]
    estimator, reason = best_available(names, options.estimator)
    if estimator.name != options.estimator and not options.allow_fallback:
        missing = get_estimator(options.estimator).missing(names)
        raise CapabilityError(
            missing[0], context.model_name(role), hint="Use another model, or set seakr.allow_fallback=True."
        )
    extra = tuple(get_estimator(n) for n in also if get_estimator(n).available(names))
    return Gauge(estimator, reason, options, model.token_logprobs, context.has_judge, settings.seed, extra)


def measure(
    prompts: Sequence[Prompt],
    gauge: Gauge,
    *,
    stop: tuple[str, ...] = (),
    max_tokens: int | None = None,
    question: str = "",
    model: str = "default",
) -> Flow[list[Measurement]]:
    """The greedy continuation and the uncertainty of each prompt; everything of a kind in one batch.

    Args:
        prompts: to continue.
        gauge: from ``choose_gauge``.
        stop: ends a continuation; kept in the text.
        max_tokens: at most; ``max_step_tokens`` of the settings if not given.
        question: stands before samples where their meanings are compared.
        model: role of the model.

    Raises:
        LanguageModelError: the model failed at a prompt.
    """
    limit = max_tokens or gauge.options.max_step_tokens
    sampled = any(e.cost >= Cost.SAMPLES for e in (gauge.estimator, *gauge.also))
    greedy = [Generate(p, _greedy(gauge, stop, limit), model) for p in prompts]
    samples = [Generate(p, _sampling(gauge, stop, limit), model) for p in prompts] if sampled else []
    results: list[Generation] = yield Together((*greedy, *samples))
    drafts = [g.samples[0] for g in results[: len(prompts)]]
    draws = [g.samples for g in results[len(prompts) :]] or [()] * len(prompts)
    statistics = yield from _statistics(prompts, drafts, draws, gauge, question, model)
    return [
        Measurement(
            draft, gauge.estimator.estimate(s), drawn, {e.name: e.estimate(s) for e in gauge.also}
        )
        for draft, drawn, s in zip(drafts, draws, statistics)
    ]  # fmt: skip


def _needs(gauge: Gauge) -> set[str]:
    return {need for e in (gauge.estimator, *gauge.also) for need in e.needs}


def _greedy(gauge: Gauge, stop: tuple[str, ...], limit: int) -> SamplingParams:
    return SamplingParams(
        max_tokens=limit,
        stop=stop,
        include_stop=True,
        logprobs=gauge.logprobs,
        token_statistics="token_statistics" in _needs(gauge),
        seed=gauge.seed,
    )


def _sampling(gauge: Gauge, stop: tuple[str, ...], limit: int) -> SamplingParams:
    options, needs = gauge.options, _needs(gauge)
    capture = Capture(options.layer, options.hidden, append_eos=True) if "hidden_states" in needs else None
    return SamplingParams(
        n=options.samples,
        max_tokens=limit,
        temperature=options.temperature,
        top_k=options.top_k_sampling,
        top_p=options.top_p,
        stop=stop,
        include_stop=True,
        logprobs="token_logprobs" in needs,
        capture=capture,
        seed=gauge.seed,
    )


def _statistics(
    prompts: Sequence[Prompt],
    drafts: Sequence[Sample],
    draws: Sequence[tuple[Sample, ...]],
    gauge: Gauge,
    question: str,
    model: str,
) -> Flow[list[SampleStatistics]]:
    needs = _needs(gauge)
    count = len(prompts)
    meanings: Sequence[tuple[NDArray[np.float64] | None, tuple[int, ...] | None]] = [(None, None)] * count
    if needs & {"similarity", "entailment"}:
        meanings = yield from _meanings(draws, gauge, question)
    replies: Sequence[tuple[str, ...] | None] = [None] * count
    if "verbalised" in needs or "sufficiency" in needs:
        replies = yield from _stated(prompts, drafts, needs, model)
    truth: Sequence[tuple[float, float] | None] = [None] * count
    if "p_true" in needs:
        truth = yield from _p_true(prompts, drafts, model)
    return [
        SampleStatistics(
            texts=tuple(s.text for s in drawn) if drawn else None,
            token_logprobs=_logprobs(drawn),
            states=_states(drawn),
            similarity=similarity,
            cluster_ids=clusters,
            answer_logprobs=draft.logprobs,
            answer_entropies=draft.entropy,
            answer_logsumexp=draft.logsumexp,
            verbalised=reply if "verbalised" in needs else None,
            sufficiency=reply if "sufficiency" in needs else None,
            p_true=pair,
        )
        for draft, drawn, (similarity, clusters), reply, pair in zip(drafts, draws, meanings, replies, truth)
    ]


def _logprobs(drawn: Sequence[Sample]) -> tuple[tuple[float, ...], ...] | None:
    found = tuple(s.logprobs for s in drawn if s.logprobs is not None)
    return found if drawn and len(found) == len(drawn) else None


def _states(drawn: Sequence[Sample]) -> NDArray[np.float64] | None:
    found = [s.hidden_state for s in drawn if s.hidden_state is not None]
    return np.stack(found).astype(np.float64) if drawn and len(found) == len(drawn) else None


def _meanings(
    draws: Sequence[tuple[Sample, ...]], gauge: Gauge, question: str
) -> Flow[list[tuple[NDArray[np.float64] | None, tuple[int, ...] | None]]]:
    """(similarity, cluster ids) of each prompt's samples, over pairs of different texts only, in one batch."""
    judge = gauge.judge
    plans = [plan_pairs([s.text for s in drawn], question=question, symmetric=not judge) for drawn in draws]
    found: list[tuple[NDArray[np.float64] | None, tuple[int, ...] | None]] = []
    if judge:
        scores = yield Together(tuple(Judge(p.pairs) for p in plans))
        for plan, values in zip(plans, scores):
            matrix = plan.matrix(values)
            found.append(((matrix + matrix.T) / 2, cluster_by_entailment(matrix)))
        return found
    vectors = yield Together(tuple(Embed(p.unique) for p in plans))
    for plan, rows in zip(plans, vectors):
        cosine = np.clip(np.asarray(rows, dtype=np.float64) @ np.asarray(rows, dtype=np.float64).T, 0.0, 1.0)
        matrix = plan.expand(cosine)
        found.append((matrix, cluster_by_similarity(matrix, SAME_MEANING)))
    return found


def _stated(
    prompts: Sequence[Prompt], drafts: Sequence[Sample], needs: set[str], model: str
) -> Flow[list[tuple[str, ...]]]:
    ask = (
        "\n\nHow sure are you that what was just written is right, from 0 to 100? Reply with the number only.\n"
        "Confidence:"
        if "verbalised" in needs
        else "\n\nIs the knowledge at hand sufficient to answer? Reply with yes or no only.\nSufficient:"
    )
    requests = [
        Generate(p + Prompt.untrusted(d.text) + Prompt.trusted(ask), SamplingParams(max_tokens=12), model)
        for p, d in zip(prompts, drafts)
    ]
    results = yield Together(tuple(requests), return_errors=True)
    return [(r.text,) if isinstance(r, Generation) else ("",) for r in _model_errors_only(results)]


def _p_true(prompts: Sequence[Prompt], drafts: Sequence[Sample], model: str) -> Flow[list[tuple[float, float]]]:
    ask = Prompt.trusted("\n\nIs what was just written true or false? It is")
    requests = [Score(p + Prompt.untrusted(d.text) + ask, (_TRUE, _FALSE), model) for p, d in zip(prompts, drafts)]
    results = yield Together(tuple(requests), return_errors=True)
    unknown = (math.nan, math.nan)
    return [(r.totals[0], r.totals[1]) if isinstance(r, Scores) else unknown for r in _model_errors_only(results)]


def _model_errors_only(results: list[object]) -> list[object]:
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, LanguageModelError):
            raise result
    return results


@dataclass(frozen=True, slots=True)
class Threshold:
    """From which uncertainty on to retrieve; ``value`` is ``None`` where none is known (then always)."""

    value: float | None
    source: str

    def retrieve(self, uncertainty: float) -> bool:
        """Whether to retrieve. Unknown uncertainty, or no threshold: yes."""
        return self.value is None or not (math.isfinite(uncertainty) and uncertainty <= self.value)


PAPER_THRESHOLD = -6.0
"""SeaKR's δ for the Gram score of Llama-2-7B at k = 20 (Yao et al. 2024, section 4.1)."""


def choose_threshold(gauge: Gauge, settings: SelfReflectSettings, context: Context, role: str = "default") -> Threshold:
    """The settings' threshold, else the calibrated one, else the paper's for the Gram score, else none.

    Raises:
        CalibrationError: the calibration is of another model or way of sampling.
    """
    if settings.seakr.threshold is not None:
        return Threshold(settings.seakr.threshold, "settings")
    calibration = context.calibrations.get("gate")
    if calibration is not None and calibration.threshold is not None:
        calibration.require(model=context.model_name(role), **gauge.binding)
        return Threshold(calibration.threshold, f"calibrated on {calibration.n} questions")
    if gauge.estimator.name == "gram":
        return Threshold(PAPER_THRESHOLD, "the paper's, not calibrated for this model")
    return Threshold(None, f"none is known for {gauge.estimator.name}: retrieving always; run `selfreflect calibrate`")


def gauge_report(gauge: Gauge, threshold: Threshold, trace: Trace) -> Report:
    """The trace entry that names the estimator and the threshold, and where they are from."""
    return trace.add(
        "estimator", gauge.estimator.name, f"{gauge.reason}; threshold: {threshold.source}", threshold=threshold.value
    )
