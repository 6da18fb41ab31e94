"""Estimators over hidden states: how far apart do k continuations lie inside the model?

``states`` is always (k, d): one row per sampled continuation. Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shared_core.uncertainty.arrays import Float64, finite, known, numbers, positive

_BLOCK = 512  # columns at a time: small products stay on one thread, and waking others costs more than they do
_PRECISION = 1e-7  # of a pivot: rounding may reach that share of it


def gram_uncertainty(states: ArrayLike, alpha: float = 1e-3) -> float:
    """Uncertainty of SeaKR (Yao et al. 2024, eq. 3): ``ln det(Z J Zᵀ + alpha I) / k`` in nats, in float64.

    J centres each row over its d features. The value depends on k and on the scale of the states, so a threshold
    belongs to one model, layer and k; see ``normalized_gram`` for a form that does not depend on them.

    Args:
        states: (k, d). k identical rows of centred norm² v give ``((k-1) ln alpha + ln(k v + alpha)) / k``.
        alpha: regulariser, above 0.

    Returns:
        A number of at least ``ln alpha``; +inf (unknown) for no rows or an entry that is not finite. One row says
        nothing about agreement, only about its own norm.

    Raises:
        InputError: ``states`` has not two axes, or ``alpha`` is not above 0.
    """
    return _mean_log_spectrum(numbers(states, "states", 2), positive(alpha, "alpha"))


def eigenscore(states: ArrayLike, alpha: float = 1e-3) -> float:
    """EigenScore of INSIDE (Chen et al. 2024): ``mean_i log10 σ_i(cov(Z) + alpha I)``, rows as variables.

    ``gram_uncertainty(Z, a) == ln(d - 1) + ln(10) * eigenscore(Z, a / (d - 1))``.

    Args:
        states: (k, d) with d of at least 2.
        alpha: regulariser, above 0.

    Returns:
        Base-10 logarithm; +inf (unknown) for no rows, d < 2 or an entry that is not finite.

    Raises:
        InputError: as ``gram_uncertainty``.
    """
    array, alpha = numbers(states, "states", 2), positive(alpha, "alpha")
    if array.shape[0] == 0 or array.shape[1] < 2:
        return math.inf
    return _mean_log_spectrum(array, alpha, scale=1.0 / (array.shape[1] - 1)) / math.log(10.0)


def normalized_gram(states: ArrayLike, alpha: float = 1e-3) -> float:
    """The Gram determinant without k and scale: 0 = all rows alike, 1 = all rows orthogonal.

    Rows are centred and scaled to unit norm; over all pairs of rows the logarithm of their 2×2 Gram determinant is
    averaged and mapped linearly so that equal directions give 0 and orthogonal ones 1. Being an average over pairs,
    its expectation is the same for every k (a U-statistic), which no determinant of the whole matrix can offer.

    Args:
        states: (k, d), k of at least 2.
        alpha: regulariser, above 0; the smaller, the more the score resolves between nearly equal rows.

    Returns:
        A number in [0, 1]; +inf (unknown) for fewer than two rows, an entry that is not finite, or a row without
        direction (all its features equal).

    Raises:
        InputError: as ``gram_uncertainty``.
    """
    array, alpha = numbers(states, "states", 2), positive(alpha, "alpha")
    if array.shape[0] < 2 or array.shape[1] < 2 or not finite(array):
        return math.inf
    peak = np.abs(array).max(axis=1, keepdims=True)  # (k, 1): squares of what is scaled by it cannot overflow
    if np.any(peak == 0):
        return math.inf
    centred = _centre(array / peak)
    norms = np.linalg.norm(centred, axis=1)
    # What is left of a constant row after centring is rounding, not a direction.
    if np.any(norms <= 1e-12 * math.sqrt(array.shape[1])):
        return math.inf
    unit = centred / norms[:, None]  # (k, d), rows of norm 1
    cosines = (unit @ unit.T)[np.triu_indices(len(unit), 1)]  # (k (k - 1) / 2,), each pair once
    # det [[1 + a, c], [c, 1 + a]] = (1 + a)² - c², between that of orthogonal rows (c = 0) and of equal ones (c = 1).
    top, bottom = 2 * math.log1p(alpha), math.log(alpha * (2 + alpha))
    logs = np.log(np.maximum((1 + alpha) ** 2 - cosines**2, alpha * (2 + alpha)))
    return known(float(np.clip((np.mean(logs) - bottom) / (top - bottom), 0.0, 1.0)))


def _centre(array: Float64) -> Float64:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(array - array.mean(axis=1, keepdims=True))


def _mean_log_spectrum(array: Float64, alpha: float, scale: float = 1.0) -> float:
    """``ln det(scale · Z J Zᵀ + alpha I) / k``: k×k, where the published form works on d×d."""
    k, d = array.shape
    if k == 0 or d == 0 or not finite(array):
        return math.inf
    centred = _centre(array)  # (k, d)
    with np.errstate(over="ignore", invalid="ignore"):
        # (k, k): Z J Zᵀ and its d × d twin share their non-zero eigenvalues, and k is some twenty where d is thousands.
        gram = (centred @ centred.T) * scale
    if not finite(gram):
        return math.inf
    shifted = gram.copy()
    shifted.flat[:: k + 1] += alpha  # the diagonal: every (k + 1)-th entry
    # What the product's rounding can add to an eigenvalue: a pivot has to stand well above it to be believed.
    rounding = float(np.trace(gram)) * k * np.finfo(np.float64).eps
    try:
        pivots = np.diagonal(np.linalg.cholesky(shifted)) ** 2  # (k,): their product is the determinant
    except np.linalg.LinAlgError:  # rounding has eaten the smallest eigenvalues altogether
        pivots = np.zeros(k)
    if pivots.min() * _PRECISION > rounding:
        return float(np.log(pivots).mean())
    return known(_log_determinant_rotated(centred, gram, alpha, scale) / k)


def _log_determinant_rotated(centred: Float64, gram: Float64, alpha: float, scale: float) -> float:
    """``ln det`` where rows are so long and so alike that the smallest eigenvalues drown in the product's rounding.

    They are not lost in Z itself: turned along the Gram matrix' eigenvectors its rows become nearly orthogonal, each
    of its own size, and the determinant of their Gram matrix, scaled to a unit diagonal, is exact to rounding.
    """
    _, vectors = np.linalg.eigh(gram)  # (k, k), one eigenvector a column
    k, d = centred.shape
    turn = np.ascontiguousarray(vectors.T) * math.sqrt(scale)
    graded = np.zeros((k, k))
    for start in range(0, d, _BLOCK):
        rotated = turn @ centred[:, start : start + _BLOCK]  # (k, at most _BLOCK)
        graded += rotated @ rotated.T
    graded.flat[:: k + 1] += alpha
    sizes = np.diagonal(graded).copy()  # from the largest eigenvalue to alpha: many orders of magnitude apart
    sign, logdet = np.linalg.slogdet(graded / np.sqrt(sizes[:, None] * sizes[None, :]))
    return float(logdet + np.log(sizes).sum()) if sign > 0 else math.inf
