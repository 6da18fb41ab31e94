"""Estimators over meanings: entropy over clusters of samples, and graphs of their pairwise similarity.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, finite, numbers, similarity_matrix


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
    weights = np.exp(sums - _logsumexp(sums))
    # 0 ln 0 counts as 0; rounding may leave a single cluster a hair below 0.
    return max(float(-np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)))), 0.0)


def discrete_semantic_entropy(cluster_ids: Sequence[Hashable]) -> float:
    """Entropy of the share of samples per meaning, nats: in [0, ln k]; needs text only. +inf for no samples."""
    if len(cluster_ids) == 0:
        return math.inf
    shares = np.array(list(_counts(cluster_ids).values()), dtype=np.float64) / len(cluster_ids)
    return max(float(-np.sum(shares * np.log(shares))), 0.0)


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


def _counts(ids: Sequence[Hashable]) -> dict[Hashable, int]:
    counts: dict[Hashable, int] = {}
    for i in ids:
        counts[i] = counts.get(i, 0) + 1
    return counts


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
    return np.array([_logsumexp(values[m]) for m in members.values()])


def _logsumexp(values: Float64) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))
