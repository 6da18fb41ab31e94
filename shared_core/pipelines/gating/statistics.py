"""From greedy continuations and samples to the statistics that estimators read, further prompts included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.flow import Embed, Flow, Generate, Judge, Score, Together
from shared_core.lm.base import Generation, Prompt, Sample, SamplingParams, Scores
from shared_core.pipelines.common import raise_faults
from shared_core.pipelines.gating.attended import attended_words
from shared_core.pipelines.gating.choose import Gauge
from shared_core.pipelines.gating.prompts import CONFIDENCE_ASK, SUFFICIENCY_ASK, TRUTH_ASK
from shared_core.uncertainty import SampleStatistics, cluster_by_entailment, cluster_by_similarity, plan_pairs

SAME_MEANING = 0.85
"""Cosine of MiniLM embeddings from which two samples count as saying the same, where nothing judges entailment."""

_ASKS = {"verbalised": CONFIDENCE_ASK, "sufficiency": SUFFICIENCY_ASK}
_TRUE, _FALSE = " True", " False"

Meanings = tuple[NDArray[np.float64] | None, tuple[int, ...] | None]
"""(similarity, cluster ids) of one prompt's samples"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A prompt with its greedy continuation and the samples drawn for it (none, where the estimators need none)."""

    prompt: Prompt
    draft: Sample
    samples: tuple[Sample, ...] = ()

    def then(self, text: str) -> Prompt:
        """The prompt, the greedy continuation, and a further text of ours."""
        return self.prompt + Prompt.untrusted(self.draft.text) + Prompt.trusted(text)


def gather(
    drawn: Sequence[Drawn], gauge: Gauge, needs: set[str], question: str, model: str
) -> Flow[list[SampleStatistics]]:
    """The statistics of each prompt, no more than ``needs``; further prompts go out in one batch for each kind.

    What the model fails to say at a further prompt is unknown; a capability it lacks is an error.
    """
    meanings: Sequence[Meanings] = [(None, None)] * len(drawn)
    if needs & {"similarity", "entailment"}:
        meanings = yield from _compare_meanings(drawn, gauge, question)
    stated: dict[str, Sequence[tuple[str, ...] | None]] = {}
    for name, ask in _ASKS.items():
        stated[name] = [None] * len(drawn)
        if name in needs:
            stated[name] = yield from _ask_each(drawn, ask, model)
    truth: Sequence[tuple[float, float] | None] = [None] * len(drawn)
    if "p_true" in needs:
        truth = yield from _ask_for_truth(drawn, gauge, model)
    found = []
    for i, one in enumerate(drawn):
        words = attended_words(one.draft) if "attention" in needs else None
        found.append(
            SampleStatistics(
                texts=tuple(s.text for s in one.samples) if one.samples else None,
                token_logprobs=_logprobs(one.samples),
                states=_states(one.samples),
                similarity=meanings[i][0],
                cluster_ids=meanings[i][1],
                answer_logprobs=one.draft.logprobs,
                answer_entropies=one.draft.entropy,
                answer_logsumexp=one.draft.logsumexp,
                word_attention=words.attention if words else (),
                word_entropies=words.weighted_entropies(published=gauge.options.published) if words else (),
                verbalised=stated["verbalised"][i],
                sufficiency=stated["sufficiency"][i],
                p_true=truth[i],
                alpha=gauge.options.alpha,
            )
        )
    return found


def _logprobs(samples: Sequence[Sample]) -> tuple[tuple[float, ...], ...] | None:
    """(k, tokens of each), unless a sample lacks them."""
    found = tuple(s.logprobs for s in samples if s.logprobs is not None)
    return found if samples and len(found) == len(samples) else None


def _states(samples: Sequence[Sample]) -> NDArray[np.float64] | None:
    """(k, d), in double precision: a Gram determinant of near-equal states loses its digits in float32."""
    found = [s.hidden_state for s in samples if s.hidden_state is not None]
    return np.stack(found).astype(np.float64) if samples and len(found) == len(samples) else None


def _compare_meanings(drawn: Sequence[Drawn], gauge: Gauge, question: str) -> Flow[list[Meanings]]:
    """Over pairs of different texts only, in one batch."""
    plans = [plan_pairs([s.text for s in d.samples], question=question, symmetric=not gauge.judge) for d in drawn]
    found: list[Meanings] = []
    if gauge.judge:
        scores = yield Together(tuple(Judge(p.pairs) for p in plans))
        for plan, values in zip(plans, scores):
            matrix = plan.matrix(values)  # (k, k), [i, j]: sample i entails sample j
            # Similarity is symmetric and entailment is not: the mean of both ways. Clusters look at each way.
            found.append(((matrix + matrix.T) / 2, cluster_by_entailment(matrix)))
        return found
    vectors = yield Together(tuple(Embed(p.unique) for p in plans))
    for plan, rows in zip(plans, vectors):
        array = np.asarray(rows, dtype=np.float64)  # (different texts, d), rows of unit norm
        cosine = np.clip(array @ array.T, 0.0, 1.0)  # opposite meanings are no less alike than unrelated ones
        nothing = [i for i, text in enumerate(plan.unique) if not text]
        cosine[nothing, :] = cosine[:, nothing] = 0.0  # an empty text is like no other
        np.fill_diagonal(cosine, 1.0)
        matrix = plan.expand(cosine)  # (k, k): texts that are equal share their row
        found.append((matrix, cluster_by_similarity(matrix, SAME_MEANING)))
    return found


def _ask_each(drawn: Sequence[Drawn], ask: str, model: str) -> Flow[list[tuple[str, ...]]]:
    params = SamplingParams(max_tokens=12)
    results = yield Together(tuple(Generate(d.then(ask), params, model) for d in drawn), return_errors=True)
    raise_faults(results)
    return [(r.text,) if isinstance(r, Generation) else ("",) for r in results]


def _ask_for_truth(drawn: Sequence[Drawn], gauge: Gauge, model: str) -> Flow[list[tuple[float, float]]]:
    """(log P(true), log P(false)) for each."""
    asked = [d.then(TRUTH_ASK) for d in drawn]
    requests: list[Generate | Score]
    if "score" in gauge.abilities:
        verdicts = (Prompt.trusted(_TRUE), Prompt.trusted(_FALSE))
        requests = [Score(p, verdicts, model) for p in asked]
    else:
        params = SamplingParams(max_tokens=1, verdicts=(_TRUE, _FALSE))
        requests = [Generate(p, params, model) for p in asked]
    results = yield Together(tuple(requests), return_errors=True)
    raise_faults(results)
    return [_read_truth(r) for r in results]


def _read_truth(result: object) -> tuple[float, float]:
    if isinstance(result, Scores):
        return result.totals[0], result.totals[1]
    if isinstance(result, Generation):
        verdicts = result.samples[0].verdict_logprobs  # (positions, 2)
        if verdicts is not None and len(verdicts):
            return float(verdicts[0, 0]), float(verdicts[0, 1])
    return math.nan, math.nan
