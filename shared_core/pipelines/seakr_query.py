"""When to retrieve and what to search for, from a tentative sentence: SeaKR, FLARE, DRAGIN's query form."""

from __future__ import annotations

import math

from shared_core.pipelines.measure import Measurement, Threshold
from shared_core.settings import SeakrSettings
from shared_core.uncertainty import flare_triggered, masked_query, seakr_query


def probabilities(draft: Measurement) -> tuple[list[str], list[float]] | None:
    """(tokens, probabilities) of the greedy sentence; ``None`` where the model gives none."""
    sample = draft.greedy
    if sample.logprobs is None or sample.tokens is None or len(sample.tokens) != len(sample.logprobs):
        return None
    return list(sample.tokens), [math.exp(min(p, 0.0)) if not math.isnan(p) else math.nan for p in sample.logprobs]


def triggered(draft: Measurement, threshold: Threshold, options: SeakrSettings) -> tuple[bool, str]:
    """Whether to retrieve for this sentence, and why."""
    if not draft.text:
        return True, "nothing was written"
    if options.gate == "always":
        return True, "the gate is always open"
    if options.gate == "flare":
        found = probabilities(draft)
        if found is None:
            return True, "token probabilities are not known"
        wanted = flare_triggered(found[1], options.flare_threshold)
        return wanted, f"{'a' if wanted else 'no'} token has p ≤ {options.flare_threshold:g}"
    if threshold.value is None:
        return True, "no threshold is known"
    if not math.isfinite(draft.uncertainty):
        return True, "the uncertainty is unknown"
    wanted = threshold.retrieve(draft.uncertainty)
    return wanted, f"uncertainty {draft.uncertainty:.3f} {'>' if wanted else '≤'} {threshold.value:.3f}"


def formulate(question: str, draft: Measurement, previous_step: str, options: SeakrSettings) -> str:
    """The search query; the question where the sentence leaves no word, or its probabilities are not known."""
    found = probabilities(draft)
    if found is None or not draft.text:
        return question
    tokens, p = found
    if options.gate == "flare":
        return masked_query(tokens, p, threshold=options.flare_mask) or question
    return seakr_query(
        question,
        tokens,
        p,
        previous_step=previous_step,
        threshold=options.query_token_probability,
        max_tokens=options.max_query_tokens,
    )
