"""Uncertainty of a model about what it would write: one sampling pass, all the estimators asked for.

Every prompt's greedy continuation and its samples go out as one batch with those of the other prompts, so that a
backend with tree decoding shares their prefixes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shared_core.errors import ContextOverflowError
from shared_core.lm.base import Capture, Generation, Prompt, Sample, SamplingParams
from shared_core.pipelines.gating.alternatives import MOST, ClaimUncertainty
from shared_core.pipelines.gating.choose import ChosenEstimator
from shared_core.pipelines.gating.sentences import finish_sentences
from shared_core.pipelines.gating.statistics import Drawn, gather
from shared_core.runtime.flow import Flow, Generate, Together
from shared_core.uncertainty import Cost, Estimator, SampleStatistics


@dataclass(frozen=True, slots=True)
class Measurement:
    """A draft of the model with its uncertainty.

    Attributes:
        greedy: the greedy continuation, with token log-probabilities where the model gives them.
        uncertainty: higher = less certain; +inf where it is unknown, as it is of an empty continuation.
        samples: the sampled continuations; empty for estimators that need none.
        others: uncertainties of the further estimators asked for.
        empty: how many of the samples are empty.
        claims: the greedy continuation's sentences with their claim-conditioned uncertainty, where that was asked for.
        error: why there is none of this, where the prompt did not fit (only if that was to be tolerated).
    """

    greedy: Sample
    uncertainty: float
    samples: tuple[Sample, ...] = ()
    others: dict[str, float] = field(default_factory=dict)
    empty: int = 0
    error: ContextOverflowError | None = None
    claims: tuple[ClaimUncertainty, ...] = ()

    @property
    def text(self) -> str:
        """The greedy continuation on one line."""
        return " ".join(self.greedy.text.split())

    @property
    def known(self) -> float | None:
        """The uncertainty, ``None`` where it is unknown (for traces)."""
        return self.uncertainty if math.isfinite(self.uncertainty) else None


def measure(
    prompts: Sequence[Prompt],
    chosen: ChosenEstimator,
    *,
    stop: tuple[str, ...] = (),
    max_tokens: int | None = None,
    question: str | Sequence[str] = "",
    attention: bool = False,
    tolerate_overflow: bool = False,
    draft_only: bool = False,
) -> Flow[list[Measurement]]:
    """Measure the greedy continuation and the uncertainty of each prompt; requests of a kind go out in one batch.

    Results in the cache (``ChosenEstimator.measured``) are not asked for again, if a seed makes them repeatable.

    Args:
        stop: ends a continuation; kept in the text.
        max_tokens: at most; ``max_step_tokens`` of the settings if not given.
        question: stands before samples where a judge compares their meanings; one for all prompts, or each its own.
        attention: have the greedy continuations' attention weights and entropies as well (DRAGIN).
        tolerate_overflow: a prompt that does not fit the context gives a measurement with ``error`` instead of
            raising, and the others go on.
        draft_only: only write the greedy continuation: its uncertainty is unknown, and costs nothing.

    Raises:
        LanguageModelError: the model failed at a prompt.
    """
    limit = max_tokens or chosen.options.max_step_tokens
    estimators = () if draft_only else (chosen.estimator, *chosen.also)
    needs: set[str] = {need for e in estimators for need in e.needs}
    ask = _Ask(
        greedy=_greedy(chosen, needs, stop, limit, attention),
        sampling=_sampling(chosen, needs, stop, limit) if any(e.cost >= Cost.SAMPLES for e in estimators) else None,
        estimators=tuple(e.name for e in estimators),
    )
    asked = [question] * len(prompts) if isinstance(question, str) else list(question)
    # Without a seed two measurements are two draws, and a cached one would hide the difference.
    known = chosen.measured if chosen.seed is not None else None
    before = [known.get((*pair, ask)) if known is not None else None for pair in zip(prompts, asked, strict=True)]
    found = [m if isinstance(m, Measurement) else None for m in before]
    open_ = [i for i, m in enumerate(found) if m is None]
    if open_:
        some = [prompts[i] for i in open_], [asked[i] for i in open_]
        made = yield from _measure(*some, ask, chosen, needs, tolerate_overflow)
        for i, one in zip(open_, made, strict=True):
            found[i] = one
            if known is not None and one.error is None:
                # the states are large, and were read
                known[prompts[i], asked[i], ask] = replace(
                    one, samples=tuple(replace(s, hidden_state=None) for s in one.samples)
                )
    return [m for m in found if m is not None]


@dataclass(frozen=True, slots=True)
class _Ask:
    """The requests for each prompt, and how their results are read."""

    greedy: SamplingParams
    sampling: SamplingParams | None
    estimators: tuple[str, ...]


def _measure(
    prompts: Sequence[Prompt],
    questions: Sequence[str],
    ask: _Ask,
    chosen: ChosenEstimator,
    needs: set[str],
    tolerate_overflow: bool,
) -> Flow[list[Measurement]]:
    # Order: P greedy requests, then P sampling requests, so result i belongs to prompt i % P.
    requests = [Generate(p, ask.greedy) for p in prompts]
    requests += [Generate(p, ask.sampling) for p in prompts] if ask.sampling is not None else []
    written = yield Together(tuple(requests), return_errors=True)
    results = yield from finish_sentences(requests, written)
    found: list[Measurement | None] = [None] * len(prompts)
    for i, result in enumerate(results):
        if isinstance(result, ContextOverflowError) and tolerate_overflow:
            found[i % len(prompts)] = Measurement(Sample("", finish_reason="length"), math.inf, error=result)
        elif isinstance(result, Exception):
            raise result
    # Prompts whose greedy and sampled requests both fit.
    fine = [i for i, m in enumerate(found) if m is None]
    texts = [r.samples if isinstance(r, Generation) else () for r in results]  # errors were raised or are tolerated
    drawn = [Drawn(prompts[i], texts[i][0], texts[len(prompts) + i] if ask.sampling else ()) for i in fine]
    if not ask.estimators:
        for i, one in zip(fine, drawn):
            found[i] = Measurement(one.draft, math.inf)
        return [m for m in found if m is not None]
    every = yield from gather(drawn, chosen, needs, [questions[i] for i in fine])
    for i, one, gathered in zip(fine, drawn, every):
        told = gathered.statistics
        others = {e.name: _estimate(e, told, one.draft) for e in chosen.also}
        uncertainty = _estimate(chosen.estimator, told, one.draft)
        found[i] = Measurement(one.draft, uncertainty, one.samples, others, told.empty_samples, claims=gathered.claims)
    return [m for m in found if m is not None]


def _estimate(estimator: Estimator, statistics: SampleStatistics, draft: Sample) -> float:
    """Unknown where nothing was written, and where most of the samples are empty: silence is no agreement."""
    # Empty samples are all alike, so spread and agreement would call a silent model certain.
    if not draft.text.strip() or (statistics.k and 2 * statistics.empty_samples > statistics.k):
        return math.inf
    return estimator.estimate(statistics)


def _greedy(
    chosen: ChosenEstimator, needs: set[str], stop: tuple[str, ...], limit: int, attention: bool
) -> SamplingParams:
    # Attention weights cost another pass (transformers): only where the gate or the estimator reads them.
    attention = attention or bool(needs & {"attention", "previous_attention"})
    return SamplingParams(
        max_tokens=limit,
        stop=stop,
        include_stop=True,
        logprobs="token_logprobs" in chosen.abilities,
        token_statistics=attention or "token_statistics" in needs,
        attention=attention,
        alternatives=MOST if "alternatives" in needs else 0,
        seed=chosen.seed,
    )


def _sampling(chosen: ChosenEstimator, needs: set[str], stop: tuple[str, ...], limit: int) -> SamplingParams:
    options = chosen.options
    # By default SeaKR's state: the MLP output of the middle layer at the end-of-sequence token, one (d,) per sample.
    capture = Capture(options.published.layer, options.published.hidden, options.published.position)
    return SamplingParams(
        n=options.samples,
        max_tokens=limit,
        temperature=options.published.temperature,
        top_k=options.published.top_k_sampling,
        top_p=options.published.top_p,
        stop=stop,
        include_stop=True,
        logprobs="token_logprobs" in needs,
        capture=capture if "hidden_states" in needs else None,
        seed=chosen.seed,
    )
