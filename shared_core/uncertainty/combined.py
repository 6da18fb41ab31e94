"""Estimators of one answer beside its samples: how sure the model was of it, times how far the samples leave it.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, finite, known, log_probabilities, numbers
from shared_core.uncertainty.tokens import max_sequence_probability, mean_negative_log_likelihood, mean_token_entropy


def cocoa(confidence: float, similarity: ArrayLike) -> float:
    """CoCoA (Vashurin et al. 2025, arXiv 2502.04964): how uncertain an answer is by itself × how unlike it samples are.

    ``u(y) · mean_i (1 - s(y, y_i))``: neither counts without the other. A sure answer stays sure though samples stray,
    and an improbable wording does not count where every sample says the same.

    Args:
        confidence: u(y), the uncertainty of the answer itself, at least 0 (0 = certain).
        similarity: (k,) of the answer with each sample, in [0, 1]; negative ones count as 0.

    Returns:
        At least 0 and at most ``confidence``; +inf (unknown) for no samples, or anything that is not finite.

    Raises:
        InputError: ``confidence`` is negative, or a similarity lies outside [-1, 1].
    """
    like = _shares(similarity, "similarity")
    if math.isnan(confidence):
        return math.inf
    if confidence < 0:
        raise InputError(f"An answer's own uncertainty is at least 0, not {confidence:g}.")
    if like is None or not math.isfinite(confidence):
        return math.inf
    return float(confidence * np.mean(1.0 - like))


def cocoa_msp(logprobs: ArrayLike, similarity: ArrayLike) -> float:
    """``cocoa`` with ``-log p`` of the answer (its tokens' log-probabilities (T,), summed): nats, at least 0."""
    return cocoa(max_sequence_probability(logprobs), similarity)


def cocoa_ppl(logprobs: ArrayLike, similarity: ArrayLike) -> float:
    """``cocoa`` with the answer's ``-mean log p`` (the logarithm of its perplexity): nats, at least 0."""
    return cocoa(mean_negative_log_likelihood(logprobs), similarity)


def cocoa_mte(entropies: ArrayLike, similarity: ArrayLike) -> float:
    """``cocoa`` with the mean entropy (T,) of the answer's token distributions: nats, at least 0."""
    return cocoa(mean_token_entropy(entropies), similarity)


def semantic_density(log_likelihoods: ArrayLike, agreement: ArrayLike) -> float:
    """One less the semantic density of an answer (Qiu & Miikkulainen 2024, arXiv 2405.13845): higher = less certain.

    The density is the mean over different references of a kernel, weighted by their length-normalised likelihoods. The
    kernel (Epanechnikov's without its factor) is 1 less the expected squared distance, which is
    ``P(contradiction) + P(neutral) / 2``: the ``agreement`` asked for here.

    Args:
        log_likelihoods: (n,) length-normalised log-likelihoods of the references, each text once, the answer itself
            among them; a constant added to all changes nothing.
        agreement: (n,) of the answer with each: 1 says the same, 1/2 has nothing to do with it, 0 contradicts it.

    Returns:
        In [0, 1]; +inf (unknown) for no references or anything that is not finite.

    Raises:
        InputError: of different lengths, a log-likelihood above 0, or an agreement outside [-1, 1].
    """
    values = log_probabilities(log_likelihoods, "log_likelihoods")
    kernel = _shares(agreement, "agreement")
    if len(values) != np.size(agreement):
        raise InputError(f"There are {len(values)} log-likelihoods and {np.size(agreement)} agreements.")
    if kernel is None or not finite(values):
        return math.inf
    weights = np.exp(values - values.max())  # (n,); the most likely has 1, so that none of them all vanish
    return min(max(known(1.0 - float(weights @ kernel / weights.sum())), 0.0), 1.0)


def _shares(values: ArrayLike, name: str) -> Float64 | None:
    """(n,) in [0, 1]; ``None`` where there is nothing or something is unknown."""
    array = numbers(values, name, 1)
    if np.any(np.abs(array[np.isfinite(array)]) > 1.0 + 1e-4):
        raise InputError(f"{name} must lie in [-1, 1].", hint="Use cosine similarities or entailment probabilities.")
    return np.clip(array, 0.0, 1.0) if array.size and finite(array) else None
