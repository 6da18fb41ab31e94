"""Estimators over token log-probabilities and the statistics of the token distribution.

Log-probabilities are natural logarithms of the raw distribution. Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, finite, known, log_probabilities, numbers, positive, shares

_LARGEST = math.log(sys.float_info.max)
"""Exponentials of more are no finite numbers."""


def perplexity(logprobs: ArrayLike) -> float:
    """Perplexity of one sequence, ``exp(-mean log p)``.

    Args:
        logprobs: (T,) log-probabilities of its tokens.

    Returns:
        At least 1; +inf for no tokens or an entry that is not finite.

    Raises:
        InputError: an entry is above 0.
    """
    nll = mean_negative_log_likelihood(logprobs)
    return math.exp(nll) if nll < _LARGEST else math.inf


def mean_negative_log_likelihood(logprobs: ArrayLike) -> float:
    """``-mean log p`` in nats, the logarithm of ``perplexity``: at least 0, +inf as there."""
    values = _usable(logprobs)
    return math.inf if values is None else known(-float(np.mean(values)))


def multi_perplexity(samples: Sequence[ArrayLike]) -> float:
    """Mean of the perplexities of k samples (SeaKR, Table 3). Empty samples are left out; +inf if all are."""
    values = [perplexity(s) for s in map(log_probabilities, samples) if len(s)]
    return sum(v / len(values) for v in values) if values else math.inf


def max_sequence_probability(logprobs: ArrayLike) -> float:
    """``-log p`` of the most likely (greedy) sequence in nats: its token log-probabilities, summed and negated.

    +inf for no tokens or an entry that is not finite.
    """
    values = _usable(logprobs)
    return math.inf if values is None else -float(np.sum(values)) + 0.0


def length_normalized_entropy(samples: Sequence[ArrayLike]) -> float:
    """Length-normalised predictive entropy (Malinin & Gales 2021): mean over samples of ``-mean log p``, in nats.

    Args:
        samples: k sequences of token log-probabilities, of any lengths.

    Returns:
        At least 0. Samples without tokens have no such mean and are left out; +inf if there is no other, or if an
        entry is not finite.

    Raises:
        InputError: an entry is above 0.
    """
    arrays = [log_probabilities(s) for s in samples]
    some = [a for a in arrays if len(a)]
    if not some or not all(map(finite, arrays)):
        return math.inf
    return -float(np.mean([np.sum(a) / len(a) for a in some])) + 0.0


def monte_carlo_entropy(sequence_logprobs: ArrayLike) -> float:
    """Monte-Carlo estimate of the entropy over sequences: ``-mean log p(sequence)`` in nats; +inf for none."""
    return mean_negative_log_likelihood(sequence_logprobs) + 0.0


def mean_token_entropy(entropies: ArrayLike) -> float:
    """Mean over a sequence's positions of the entropy of the token distribution, nats; +inf for none or NaN."""
    values = numbers(entropies, "entropies", 1)
    if values.size == 0 or not finite(values):
        return math.inf
    if values.min() < -1e-3:
        raise InputError("An entropy is at least 0.", hint="Give entropies, not log-probabilities.")
    return max(float(np.mean(values)), 0.0)


def energy(logsumexp: ArrayLike) -> float:
    """Energy (Liu et al. 2020): mean over positions of ``-logsumexp(logits)``; +inf for none or not finite."""
    values = numbers(logsumexp, "logsumexp", 1)
    return -float(np.mean(values)) + 0.0 if values.size and finite(values) else math.inf


def min_token_probability(logprobs: ArrayLike) -> float:
    """``1 - min p`` over a sequence's tokens (FLARE's trigger, Jiang et al. 2023): in [0, 1]; +inf for none or NaN.

    A token of probability 0 (-inf) is maximally uncertain; as everywhere, what is not finite counts as unknown.
    """
    values = _usable(logprobs)
    return math.inf if values is None else 1.0 - math.exp(float(np.min(values)))


def p_true(logp_true: float, logp_false: float) -> float:
    """``1 - P(True)`` (Kadavath et al. 2022) from the log-probabilities of the two verdicts, normalised over both.

    Args:
        logp_true: log-probability of "True" (of -inf: impossible); ``logp_false``: likewise of "False".

    Returns:
        In [0, 1]; +inf (unknown) where one is NaN or +inf, or neither is possible.
    """
    t, f = float(logp_true), float(logp_false)
    if math.isnan(t) or math.isnan(f) or math.inf in (t, f) or t == f == -math.inf:
        return math.inf
    difference = t - f
    if difference >= 0:
        return math.exp(-difference) / (1.0 + math.exp(-difference))
    return 1.0 / (1.0 + math.exp(difference))


def dragin_scores(attention: ArrayLike, entropies: ArrayLike) -> Float64:
    """DRAGIN's value of each word of one sentence (Su et al. 2024): ``n · a / Σa · H``.

    Args:
        attention: (n,) attention each word receives (``query.word_attention``), at least 0.
        entropies: (n,) entropy of each word's tokens (mean), nats.

    Returns:
        (n,); NaN throughout where nothing is attended to or an entry is not finite: unknown.

    Raises:
        InputError: of different lengths, or negative attention.
    """
    a, h = numbers(attention, "attention", 1), numbers(entropies, "entropies", 1)
    if a.shape != h.shape:
        raise InputError(f"There are {len(a)} attentions and {len(h)} entropies.")
    if np.any(a < 0):
        raise InputError("Attention is at least 0.", hint="Give weights after the softmax.")
    total = float(a.sum())
    if not (finite(a) and finite(h)) or total <= 0:
        return np.full(len(a), np.nan)
    return np.asarray(len(a) * a / total * h, dtype=np.float64)


def dragin(attention: ArrayLike, entropies: ArrayLike) -> float:
    """DRAGIN's trigger value of a sentence: the largest ``dragin_scores``; +inf for no words or unknown values."""
    values = dragin_scores(attention, entropies)
    return known(float(values.max())) if values.size else math.inf


def rauq(logprobs: ArrayLike, attention: ArrayLike, alpha: float = 0.2, layers: Sequence[int] | None = None) -> float:
    """RAUQ (Vazhentsev et al. 2025, arXiv 2505.20045): confidence handed on from token to token by attention, nats.

    In each layer the head that on average attends most to the token before is taken. With its weights a, confidence is
    ``c_1 = p_1``, ``c_i = alpha p_i + (1 - alpha) a_i,i-1 c_i-1``; the layer's uncertainty is ``-mean log c_i``, and
    the answer's the largest of them: where a model makes something up, such heads let go of what came before.

    Args:
        logprobs: (T,) log-probabilities of the generated tokens.
        attention: (L, H, T) weight that each generated token gives to the token before it, by layer and head; what the
            first one gives to the prompt is not looked at.
        alpha: share of a token's own probability, in (0, 1]; 1 leaves attention out (then it is ``-mean log p``).
        layers: which to look at; the middle third where not given, its two ends included, as the published code does.

    Returns:
        At least 0 up to rounding; +inf (unknown) for no tokens, layers or heads, or an entry that is not finite.

    Raises:
        InputError: of different lengths, a weight outside [0, 1], no such layer, or ``alpha`` outside (0, 1].
    """
    share = positive(alpha, "alpha")
    if share > 1:
        raise InputError(f"alpha must be in (0, 1], not {alpha!r}.")
    p, a = log_probabilities(logprobs), numbers(attention, "attention", 3)
    if a.size and a.shape[2] != len(p):
        raise InputError(f"There are {len(p)} log-probabilities and attention weights of {a.shape[2]} tokens.")
    if not p.size or not a.size or not finite(p) or not finite(a[:, :, 1:]):
        return math.inf
    if np.any(a[:, :, 1:] < -1e-4) or np.any(a[:, :, 1:] > 1 + 1e-2):
        raise InputError("Attention lies in [0, 1].", hint="Give weights after the softmax.")
    chosen = range(len(a) // 3, min(math.ceil(2 * len(a) / 3) + 1, len(a))) if layers is None else layers
    if any(not 0 <= layer < len(a) for layer in chosen):
        raise InputError(f"There are {len(a)} layers, not all of {list(chosen)}.")
    found = [_confidence_loss(np.exp(p), _attentive(a[layer, :, 1:]), share) for layer in chosen]
    return known(max(found)) + 0.0 if found else math.inf


def _attentive(weights: Float64) -> Float64:
    """(T - 1,) of the head (H, T - 1) that attends most to the token before."""
    head = int(np.argmax(weights.mean(axis=1))) if weights.shape[1] else 0
    return np.asarray(np.clip(weights[head], 0.0, 1.0), dtype=np.float64)


def _confidence_loss(p: Float64, weights: Float64, alpha: float) -> float:
    confidence = [float(p[0])]
    for own, weight in zip(p[1:], weights):
        confidence.append(float(alpha * own + (1.0 - alpha) * weight * confidence[-1]))
    # A probability so small that it has become 0 is as unsure as can be, and no number.
    return -float(np.mean(np.log(confidence))) if min(confidence) > 0 else math.inf


def _usable(values: ArrayLike) -> Float64 | None:
    array = log_probabilities(values)
    return array if array.size and finite(array) else None


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
    like = shares(numbers(similarity, "similarity", 1), "similarity")
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
    kernel = shares(numbers(agreement, "agreement", 1), "agreement")
    given = numbers(agreement, "agreement", 1).size
    if len(values) != given:
        raise InputError(f"There are {len(values)} log-likelihoods and {given} agreements.")
    if kernel is None or not finite(values):
        return math.inf
    weights = np.exp(values - values.max())  # (n,); the most likely has 1, so that none of them all vanish
    return min(max(known(1.0 - float(weights @ kernel / weights.sum())), 0.0), 1.0)


ENTAILS, NEUTRAL, CONTRADICTS = 2.0, 1.0, 0.0
"""What an alternative has to do with the token that was generated; NaN where that is unknown."""


def token_ccp(
    logprobs: Sequence[ArrayLike], classes: Sequence[ArrayLike], *, functional: Sequence[bool] = ()
) -> Float64:
    """Natural log of each token's claim-conditioned probability (Fadeeva et al. 2024, arXiv 2403.04696).

    ``P(alternatives that entail the token) / P(those that entail or contradict it)``. Neutral ones say something else
    (another kind of claim) and count for neither.

    Args:
        logprobs: for each of T tokens the log-probabilities (m_j,) of the likely tokens at its place, the generated one
            first; tokens may have different numbers of them.
        classes: likewise ``ENTAILS``, ``NEUTRAL`` or ``CONTRADICTS``; the generated token's own is not looked at.
        functional: (T,) whether the token belongs to a word without meaning of its own: its probability is 1.

    Returns:
        (T,), at most 0; NaN (unknown) where a token has no alternatives, a log-probability is NaN, or a class is.

    Raises:
        InputError: of different lengths, a log-probability above 0, or a class that is none of the three.
    """
    if len(logprobs) != len(classes) or (len(functional) and len(functional) != len(logprobs)):
        raise InputError(
            f"There are {len(logprobs)} rows of log-probabilities, {len(classes)} of classes, {len(functional)} flags."
        )
    flags = functional or [False] * len(logprobs)
    return np.array([_log_ccp(p, c, f) for p, c, f in zip(logprobs, classes, flags)], dtype=np.float64)


def claim_conditioned_probability(
    logprobs: Sequence[ArrayLike], classes: Sequence[ArrayLike], *, functional: Sequence[bool] = ()
) -> float:
    """``1 - Π`` of the tokens' claim-conditioned probabilities over a whole sequence; arguments as ``token_ccp``.

    In [0, 1]: 0 where no alternative contradicts; +inf (unknown) for no tokens or where one is unknown.
    """
    values = token_ccp(logprobs, classes, functional=functional)
    return claim_uncertainties(values, [range(len(values))])[0]


def claim_uncertainties(token_values: ArrayLike, claims: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """``1 - Π`` over the tokens of each claim (Fadeeva et al. 2024: the CCP of a claim).

    Args:
        token_values: (T,) of ``token_ccp``.
        claims: for each claim the positions of its tokens; a token may belong to several.

    Returns:
        For each claim a number in [0, 1]; +inf (unknown) for no tokens, or where one of them is unknown.

    Raises:
        InputError: a claim names a token that there is not.
    """
    values = log_probabilities(token_values, "token_values")
    if any(not 0 <= i < len(values) for claim in claims for i in claim):
        raise InputError(f"A claim names a token beyond the {len(values)} there are.")
    sums = [float(np.sum(values[list(claim)])) if len(claim) else math.nan for claim in claims]
    return tuple(math.inf if math.isnan(s) else -math.expm1(s) + 0.0 for s in sums)


def _log_ccp(logprobs: ArrayLike, classes: ArrayLike, functional: bool) -> float:
    p, found = log_probabilities(logprobs), numbers(classes, "classes", 1)
    if p.shape != found.shape:
        raise InputError(f"There are {len(p)} alternatives and {len(found)} classes.")
    if not len(p) or np.isnan(p).any() or np.isneginf(p[0]):
        return math.nan  # what cannot have been generated tells nothing
    rest = found[1:]
    if not np.isin(rest[~np.isnan(rest)], (ENTAILS, NEUTRAL, CONTRADICTS)).all():
        raise InputError("A class is 2 (entails), 1 (neutral), 0 (contradicts), or NaN where unknown.")
    if functional:
        return 0.0
    if np.isnan(rest).any():
        return math.nan
    same = np.concatenate([[True], rest == ENTAILS])
    counted = same | np.concatenate([[False], rest == CONTRADICTS])
    entailing, every = float(np.exp(p[same]).sum()), float(np.exp(p[counted]).sum())
    return min(math.log(entailing / every), 0.0) if entailing > 0 else math.nan
