"""From greedy continuations and samples to the statistics that estimators read, further prompts included."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CapabilityError, LanguageModelError
from shared_core.flow import Embed, Flow, Generate, Judge, Score, Together
from shared_core.lm.base import Generation, Prompt, Sample, SamplingParams, Scores
from shared_core.pipelines.gating.attended import attended_words
from shared_core.pipelines.gating.choose import Gauge
from shared_core.uncertainty import SampleStatistics, cluster_by_entailment, cluster_by_similarity, plan_pairs

SAME_MEANING = 0.85
"""Cosine of MiniLM embeddings from which two samples count as saying the same, where nothing judges entailment."""

_ASKS = {
    "verbalised": "\n\nHow sure are you that what was just written is right, from 0 to 100? Reply with the number only."
    "\nConfidence:",
    "sufficiency": "\n\nIs the knowledge at hand sufficient to answer? Reply with yes or no only.\nSufficient:",
}
_IS_IT_TRUE = "\n\nIs what was just written true or false? It is"
_TRUE, _FALSE = " True", " False"

Meanings = tuple[NDArray[np.float64] | None, tuple[int, ...] | None]
"""(similarity, cluster ids) of one prompt's samples"""


def gather(
    prompts: Sequence[Prompt],
    drafts: Sequence[Sample],
    draws: Sequence[tuple[Sample, ...]],
    gauge: Gauge,
    needs: set[str],
    question: str,
    model: str,
) -> Flow[list[SampleStatistics]]:
    """The statistics of each prompt, no more than ``needs``; further prompts go out in one batch for each kind.

    What the model fails to say at a further prompt is unknown; a capability it lacks is an error.
    """
    count = len(prompts)
    meanings: Sequence[Meanings] = [(None, None)] * count
    if needs & {"similarity", "entailment"}:
        meanings = yield from _meanings(draws, gauge, question)
    stated: dict[str, Sequence[tuple[str, ...] | None]] = {}
    for name, ask in _ASKS.items():
        stated[name] = [None] * count
        if name in needs:
            stated[name] = yield from _stated(prompts, drafts, ask, model)
    truth: Sequence[tuple[float, float] | None] = [None] * count
    if "p_true" in needs:
        truth = yield from _p_true(prompts, drafts, gauge, model)
    found = []
    for i, (draft, drawn) in enumerate(zip(drafts, draws)):
        words = attended_words(draft) if "attention" in needs else None
        found.append(
            SampleStatistics(
                texts=tuple(s.text for s in drawn) if drawn else None,
                token_logprobs=_logprobs(drawn),
                states=_states(drawn),
                similarity=meanings[i][0],
                cluster_ids=meanings[i][1],
                answer_logprobs=draft.logprobs,
                answer_entropies=draft.entropy,
                answer_logsumexp=draft.logsumexp,
                word_attention=words.attention if words else (),
                word_entropies=words.entropies if words else (),
                verbalised=stated["verbalised"][i],
                sufficiency=stated["sufficiency"][i],
                p_true=truth[i],
                alpha=gauge.options.alpha,
            )
        )
    return found


def _logprobs(drawn: Sequence[Sample]) -> tuple[tuple[float, ...], ...] | None:
    found = tuple(s.logprobs for s in drawn if s.logprobs is not None)
    return found if drawn and len(found) == len(drawn) else None


def _states(drawn: Sequence[Sample]) -> NDArray[np.float64] | None:
    found = [s.hidden_state for s in drawn if s.hidden_state is not None]
    return np.stack(found).astype(np.float64) if drawn and len(found) == len(drawn) else None


def _meanings(draws: Sequence[tuple[Sample, ...]], gauge: Gauge, question: str) -> Flow[list[Meanings]]:
    """Over pairs of different texts only, in one batch."""
    plans = [plan_pairs([s.text for s in drawn], question=question, symmetric=not gauge.judge) for drawn in draws]
    found: list[Meanings] = []
    if gauge.judge:
        scores = yield Together(tuple(Judge(p.pairs) for p in plans))
        for plan, values in zip(plans, scores):
            matrix = plan.matrix(values)
            found.append(((matrix + matrix.T) / 2, cluster_by_entailment(matrix)))
        return found
    vectors = yield Together(tuple(Embed(p.unique) for p in plans))
    for plan, rows in zip(plans, vectors):
        array = np.asarray(rows, dtype=np.float64)
        cosine = np.clip(array @ array.T, 0.0, 1.0)
        nothing = [i for i, text in enumerate(plan.unique) if not text]
        cosine[nothing, :] = cosine[:, nothing] = 0.0  # an empty text is like no other
        np.fill_diagonal(cosine, 1.0)
        matrix = plan.expand(cosine)
        found.append((matrix, cluster_by_similarity(matrix, SAME_MEANING)))
    return found


def _stated(prompts: Sequence[Prompt], drafts: Sequence[Sample], ask: str, model: str) -> Flow[list[tuple[str, ...]]]:
    params = SamplingParams(max_tokens=12)
    requests = [
        Generate(p + Prompt.untrusted(d.text) + Prompt.trusted(ask), params, model) for p, d in zip(prompts, drafts)
    ]
    results = yield Together(tuple(requests), return_errors=True)
    return [(r.text,) if isinstance(r, Generation) else ("",) for r in _unknown_allowed(results)]


def _p_true(
    prompts: Sequence[Prompt], drafts: Sequence[Sample], gauge: Gauge, model: str
) -> Flow[list[tuple[float, float]]]:
    asked = [p + Prompt.untrusted(d.text) + Prompt.trusted(_IS_IT_TRUE) for p, d in zip(prompts, drafts)]
    requests: list[Generate | Score]
    if "score" in gauge.abilities:
        verdicts = (Prompt.trusted(_TRUE), Prompt.trusted(_FALSE))
        requests = [Score(p, verdicts, model) for p in asked]
    else:
        params = SamplingParams(max_tokens=1, verdicts=(_TRUE, _FALSE))
        requests = [Generate(p, params, model) for p in asked]
    results = yield Together(tuple(requests), return_errors=True)
    return [_pair(r) for r in _unknown_allowed(results)]


def _pair(result: object) -> tuple[float, float]:
    if isinstance(result, Scores):
        return result.totals[0], result.totals[1]
    if isinstance(result, Generation):
        verdicts = result.samples[0].verdict_logprobs
        if verdicts is not None and len(verdicts):
            return float(verdicts[0, 0]), float(verdicts[0, 1])
    return math.nan, math.nan


def _unknown_allowed(results: list[object]) -> list[object]:
    for result in results:
        failed = isinstance(result, Exception) and not isinstance(result, LanguageModelError)
        if failed or isinstance(result, CapabilityError):
            assert isinstance(result, Exception)
            raise result
    return results
