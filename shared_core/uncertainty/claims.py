"""Claim-conditioned probability: how sure a model is of what a claim says, whatever words it might have used.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, log_probabilities, numbers

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

    Returns:
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
