"""Estimators over meanings: entropy over clusters of samples, and graphs of their pairwise similarity.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, finite, numbers, positive, similarity_matrix


def semantic_entropy(log_likelihoods: ArrayLike, cluster_ids: Sequence[Hashable]) -> float:
    """Semantic entropy (Farquhar et al. 2024), probability-weighted: entropy over meanings, in nats.

    A sample's weight is its likelihood, normalised over the samples; a cluster's is the sum of its samples'.

    Args:
        log_likelihoods: (k,) of the samples, usually length-normalised; a constant added to all changes nothing.
        cluster_ids: k ids, equal where the samples mean the same.

    Returns:
        In [0, ln(number of clusters)]; +inf (unknown) for no samples or an entry that is not finite.

    Raises:
        InputError: the two differ in length.
    """
    sums = _cluster_sums(log_likelihoods, cluster_ids)
    if sums is None:
        return math.inf
    return _entropy(np.exp(sums - np.logaddexp.reduce(sums)))


def discrete_semantic_entropy(cluster_ids: Sequence[Hashable]) -> float:
    """Entropy of the share of samples per meaning, nats: in [0, ln k]; needs text only. +inf for no samples."""
    if len(cluster_ids) == 0:
        return math.inf
    return _entropy(np.array(list(Counter(cluster_ids).values())) / len(cluster_ids))


def number_of_semantic_sets(cluster_ids: Sequence[Hashable]) -> float:
    """Number of meanings (Lin et al. 2024): 1 … k, as a float; +inf for no samples."""
    return float(len(set(cluster_ids))) if len(cluster_ids) else math.inf


def degree_matrix(similarity: ArrayLike) -> float:
    """Mean pairwise dissimilarity, ``trace(kI - D) / k²`` (Lin et al. 2024): in [0, 1).

    Args:
        similarity: (k, k), in [0, 1] (negative counts as 0); symmetrised, its diagonal counts as 1.

    Returns:
        0 = all alike; +inf (unknown) for no samples or an entry that is not finite. One sample gives 0.

    Raises:
        InputError: not square, or outside [-1, 1].
    """
    w = _usable(similarity)
    return math.inf if w is None else float(1.0 - w.sum() / len(w) ** 2)


def eigenvalue_laplacian(similarity: ArrayLike) -> float:
    """Sum of ``max(0, 1 - λ)`` over the eigenvalues of the normalised graph Laplacian (Lin et al. 2024).

    A continuous count of the meanings: 1 = all alike, k = all different. Arguments, unknowns as ``degree_matrix``.
    """
    w = _usable(similarity)
    return math.inf if w is None else float(np.maximum(1.0 - _laplacian(w)[0], 0.0).sum())


def eccentricity(similarity: ArrayLike, threshold: float = 0.9) -> float:
    """Spread of the samples in the Laplacian's leading eigenvectors (Lin et al. 2024): at least 0, 0 = all alike.

    Args:
        similarity: as ``degree_matrix``.
        threshold: eigenvectors with an eigenvalue below it are kept.

    Returns:
        Frobenius norm of the kept coordinates about their mean; unknowns as ``degree_matrix``.
    """
    w = _usable(similarity)
    if w is None:
        return math.inf
    values, vectors = _laplacian(w)
    kept = vectors[:, values < threshold]  # (k, kept): each sample's coordinates in the graph's smoothest directions
    return float(np.linalg.norm(kept - kept.mean(axis=0, keepdims=True)))


def _usable(matrix: ArrayLike) -> Float64 | None:
    w = similarity_matrix(matrix)
    return w if w.size and finite(w) else None


def _laplacian(w: Float64) -> tuple[Float64, Float64]:
    """Eigenvalues (k,), rising, and eigenvectors (k, k), one a column, of ``I - D^-½ W D^-½``."""
    root = 1.0 / np.sqrt(w.sum(axis=1))  # (k,); degrees are at least 1: the diagonal
    values, vectors = np.linalg.eigh(np.eye(len(w)) - root[:, None] * w * root[None, :])
    return values, vectors


def _entropy(weights: Float64) -> float:
    """Entropy of weights that sum to 1, nats: 0 ln 0 counts as 0, and rounding never takes it below 0."""
    return max(float(-np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)))), 0.0)


def _cluster_sums(log_likelihoods: ArrayLike, ids: Sequence[Hashable]) -> Float64 | None:
    """Log of the summed likelihood of each cluster, in order of first appearance; ``None`` if unknown."""
    values = numbers(log_likelihoods, "log_likelihoods", 1)
    if len(values) != len(ids):
        raise InputError(f"There are {len(values)} log-likelihoods and {len(ids)} cluster ids.")
    if len(values) == 0 or not finite(values):
        return None
    members: dict[Hashable, list[int]] = {}
    for i, cluster in enumerate(ids):
        members.setdefault(cluster, []).append(i)
    return np.array([np.logaddexp.reduce(values[m]) for m in members.values()])


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
    return _entropy(values)


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
