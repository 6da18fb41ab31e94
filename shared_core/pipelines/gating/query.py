"""When to retrieve and what to search for, from a tentative sentence: SeaKR, FLARE, DRAGIN."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shared_core.pipelines.gating.choose import Threshold
from shared_core.pipelines.gating.measure import Measurement
from shared_core.pipelines.gating.statistics import attended_words, attention_from, probabilities
from shared_core.settings import SeakrSettings
from shared_core.uncertainty import (
    Trigger,
    answer_lead,
    dragin_query,
    dragin_trigger,
    flare_triggered,
    is_answer,
    masked_query,
    seakr_query,
)

_PUBLISHED_IGNORED = frozenset({"thus", "answer", "is", "so"})
"""Words that the published code leaves out of every query, by name."""


def decide_retrieval(draft: Measurement, threshold: Threshold, options: SeakrSettings) -> tuple[bool, str]:
    """Whether to retrieve for this sentence, and why. What is unknown retrieves."""
    if not draft.text:
        return True, "nothing was written"
    # Retrieve whatever the uncertainty: a model can be very certain that it does not know.
    if not is_answer(draft.text):
        return True, "the model says that it does not know"
    if options.gate == "always":
        return True, "the gate is always open"
    if options.gate == "flare":
        found = probabilities(draft.greedy)
        if found is None:
            return True, "token probabilities are not known"
        wanted = flare_triggered(found[1], options.published.flare_threshold)
        return wanted, f"{'a' if wanted else 'no'} token has p ≤ {options.published.flare_threshold:g}"
    if options.gate == "dragin":
        return _decide_by_attention(draft, options)
    return threshold.decide(draft.uncertainty)


def _decide_by_attention(draft: Measurement, options: SeakrSettings) -> tuple[bool, str]:
    words = attended_words(draft.greedy)
    if words is None or not words.words:
        return True, "attention weights are not known"
    trigger = _find_trigger(draft, options)
    limit = options.published.dragin_threshold
    if trigger is None:
        return False, f"no word has a value > {limit:g}"
    value = trigger.values[trigger.word]
    if math.isnan(value):
        return True, "the values of its words are unknown"
    return True, f"the word {words.words[trigger.word].text!r} has the value {value:.3f} > {limit:g}"


def _find_trigger(draft: Measurement, options: SeakrSettings) -> Trigger | None:
    words = attended_words(draft.greedy)
    if words is None or not words.words:
        return None
    entropies = words.weighted_entropies(published=options.published.follows_code)
    return dragin_trigger(words.attention, entropies, [len(words.words)], options.published.dragin_threshold)


def formulate(question: str, draft: Measurement, steps: list[str], options: SeakrSettings) -> str:
    """The search query; the question where the sentence leaves no word, or what it takes is not known."""
    if options.gate == "dragin":
        return _query_by_attention(question, draft, steps, options) or question
    found = probabilities(draft.greedy)
    if found is None or not draft.text:
        return question
    pieces, p = found if options.published.follows_code else _without_lead(*found)
    if options.gate == "flare":
        return masked_query(pieces, p, threshold=options.published.flare_mask) or question
    return seakr_query(
        question,
        pieces,
        p,
        previous_step=steps[-1] if steps else "",
        threshold=options.published.query_token_probability,
        max_tokens=options.published.max_query_tokens,
        ignored=_PUBLISHED_IGNORED if options.published.follows_code else frozenset(),
    )


def _without_lead(pieces: Sequence[str], p: Sequence[float]) -> tuple[list[str], list[float]]:
    """The pieces of a sentence, and their probabilities, but for "so the answer is", which is nothing to search for."""
    lead = answer_lead("".join(pieces))
    if lead is None:
        return list(pieces), list(p)
    kept, at = [], 0
    for i, piece in enumerate(pieces):
        middle = at + len(piece) / 2  # the blank before a word that follows may lie within the lead
        at += len(piece)
        if not lead[0] <= middle < lead[1]:
            kept.append(i)
    return [pieces[i] for i in kept], [p[i] for i in kept]


def _query_by_attention(question: str, draft: Measurement, steps: list[str], options: SeakrSettings) -> str:
    words, trigger = attended_words(draft.greedy), _find_trigger(draft, options)
    if words is None or trigger is None:
        return ""
    before, weights = attention_from(draft.greedy, words, trigger.word, question, " ".join(steps))
    return dragin_query(before, weights, options.published.dragin_words)
