"""Kernel language entropy: von Neumann entropy of a kernel over the graph of what samples have to do with each other.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from shared_core.uncertainty.arrays import Float64, finite, numbers, positive, similarity_matrix


def kle_heat(agreement: ArrayLike, t: float = 0.3) -> float:
    """Kernel language entropy (Nikitin et al. 2024, arXiv 2405.20003) with the kernel ``exp(-t L)``, in nats.

    The graph's weights are the agreements of both directions, ``W_ij = a_ij + a_ji`` (entailment counts 1, neutrality
    1/2); L = D - W its Laplacian. The kernel is scaled to ones on its diagonal and divided by k.

    Args:
        agreement: (k, k) between samples, in [0, 1]: 1 entails, 1/2 neutral, 0 contradicts; symmetrised.
        t: time of diffusion, above 0; samples that agree at all become alike as it grows. 0.3 as in the paper.

    Returns:
        In [0, ln k]: ln k where all contradict each other; small, and 0 for many samples, where all agree. +inf
        (unknown) for no samples or an entry that is not finite. One sample gives 0.

    Raises:
        InputError: not square, an entry outside [-1, 1], or ``t`` not above 0.
    """
    time = positive(t, "t")
    return _entropy_over(agreement, lambda values: np.exp(-time * values))


def kle_matern(agreement: ArrayLike, nu: float = 1.0, kappa: float = 1.0) -> float:
    """The same with the Matérn kernel ``(2 nu / kappa² I + L)^-nu``; range and unknowns as ``kle_heat``.

    Args:
        agreement: as ``kle_heat``.
        nu: smoothness, above 0.
        kappa: length scale, above 0; samples that agree at all become alike as it grows.
    """
    power, shift = positive(nu, "nu"), 2.0 * positive(nu, "nu") / positive(kappa, "kappa") ** 2
    return _entropy_over(agreement, lambda values: (shift + values) ** -power)


def von_neumann_entropy(kernel: ArrayLike) -> float:
    """``-Tr(K ln K)`` of a symmetric positive semidefinite matrix (k, k) of trace 1, in nats: in [0, ln k].

    +inf (unknown) for an empty matrix or an entry that is not finite.
    """
    matrix = numbers(kernel, "kernel", 2)
    if not matrix.size or not finite(matrix):
        return math.inf
    values = np.clip(np.linalg.eigvalsh((matrix + matrix.T) / 2), 0.0, None)  # (k,)
    return max(float(-np.sum(values * np.log(np.where(values > 0, values, 1.0)))), 0.0)


def _entropy_over(agreement: ArrayLike, spectrum: Callable[[Float64], Float64]) -> float:
    """Entropy of the kernel that maps the Laplacian's eigenvalues so."""
    mean = similarity_matrix(agreement, "agreement")
    if not mean.size or not finite(mean):
        return math.inf
    weights = 2.0 * mean  # (k, k), both directions; what stands on the diagonal cancels out of the Laplacian
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    kernel = (vectors * spectrum(np.clip(values, 0.0, None))) @ vectors.T
    root = np.sqrt(np.clip(np.diag(kernel), np.finfo(float).tiny, None))
    return von_neumann_entropy(kernel / np.outer(root, root) / len(kernel))
