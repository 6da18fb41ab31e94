"""Estimators over meanings: entropy over clusters of samples, and graphs of their pairwise similarity.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, finite, nothing_agrees, numbers, positive, similarity_matrix, square


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
    values = numbers(log_likelihoods, "log_likelihoods", 1)
    if len(values) != len(cluster_ids):
        raise InputError(f"There are {len(values)} log-likelihoods and {len(cluster_ids)} cluster ids.")
    if len(values) == 0 or not finite(values):
        return math.inf
    members: dict[Hashable, list[int]] = {}
    for i, cluster in enumerate(cluster_ids):
        members.setdefault(cluster, []).append(i)
    sums = np.array([np.logaddexp.reduce(values[m]) for m in members.values()])  # (clusters,)
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
    w = similarity_matrix(similarity)
    return math.inf if w is None else float(1.0 - w.sum() / len(w) ** 2)


def eigenvalue_laplacian(similarity: ArrayLike) -> float:
    """Sum of ``max(0, 1 - λ)`` over the eigenvalues of the normalised graph Laplacian (Lin et al. 2024).

    A continuous count of the meanings: 1 = all alike, k = all different. Arguments, unknowns as ``degree_matrix``.
    """
    w = similarity_matrix(similarity)
    return math.inf if w is None else float(np.maximum(1.0 - _laplacian(w)[0], 0.0).sum())


def eccentricity(similarity: ArrayLike, threshold: float = 0.9) -> float:
    """Spread of the samples in the Laplacian's leading eigenvectors (Lin et al. 2024): at least 0, 0 = all alike.

    Args:
        similarity: as ``degree_matrix``.
        threshold: eigenvectors with an eigenvalue below it are kept.

    Returns:
        Frobenius norm of the kept coordinates about their mean; unknowns as ``degree_matrix``.
    """
    w = similarity_matrix(similarity)
    if w is None:
        return math.inf
    values, vectors = _laplacian(w)
    kept = vectors[:, values < threshold]  # (k, kept): each sample's coordinates in the graph's smoothest directions
    return float(np.linalg.norm(kept - kept.mean(axis=0, keepdims=True)))


def _laplacian(w: Float64) -> tuple[Float64, Float64]:
    """Eigenvalues (k,), rising, and eigenvectors (k, k), one a column, of ``I - D^-½ W D^-½``."""
    root = 1.0 / np.sqrt(w.sum(axis=1))  # (k,); degrees are at least 1: the diagonal
    values, vectors = np.linalg.eigh(np.eye(len(w)) - root[:, None] * w * root[None, :])
    return values, vectors


def _entropy(weights: Float64) -> float:
    """Entropy of weights that sum to 1, nats: 0 ln 0 counts as 0, and rounding never takes it below 0."""
    return max(float(-np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)))), 0.0) + 0.0  # -0.0 becomes 0.0


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
    if mean is None:
        return math.inf
    weights = 2.0 * mean  # (k, k), both directions; what stands on the diagonal cancels out of the Laplacian
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    kernel = (vectors * spectrum(np.clip(values, 0.0, None))) @ vectors.T
    root = np.sqrt(np.clip(np.diag(kernel), np.finfo(float).tiny, None))
    return von_neumann_entropy(kernel / np.outer(root, root) / len(kernel))


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The pairs of k samples that have to be scored: each pair of different texts once, so that one batch does it.

    Attributes:
        unique: the different texts (white space apart), in order of first appearance; also what to embed.
        index: (k,) place of each sample in ``unique``.
        places: (i, j) places in ``unique`` of each pair.
        pairs: the texts of each pair, the question in front where one was given: (premise, hypothesis).
        symmetric: each pair stands for both directions.

    >>> plan = plan_pairs(["Paris", "Lyon", "Paris"])
    >>> plan.pairs
    (('Paris', 'Lyon'), ('Lyon', 'Paris'))
    >>> plan.matrix([0.9, 0.2]).tolist()
    [[1.0, 0.9, 1.0], [0.2, 1.0, 0.2], [1.0, 0.9, 1.0]]
    """

    unique: tuple[str, ...]
    index: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[str, str], ...]
    symmetric: bool

    def matrix(self, scores: Sequence[float | None]) -> Float64:
        """(k, k) matrix of the scores of ``pairs``, ``[i, j]`` for premise i and hypothesis j.

        Equal texts have 1, an empty text and any other sample 0 (another empty one too), a score of ``None`` becomes
        NaN (unknown).

        Raises:
            InputError: there are not as many scores as pairs.
        """
        if len(scores) != len(self.pairs):
            raise InputError(f"There are {len(self.pairs)} pairs and {len(scores)} scores.")
        small = np.eye(len(self.unique))
        for (i, j), score in zip(self.places, scores):
            small[i, j] = np.nan if score is None else score
            if self.symmetric:
                small[j, i] = small[i, j]
        return self.expand(small)

    def expand(self, unique_matrix: ArrayLike) -> Float64:
        """(k, k) from a matrix over the unique texts (cosines of their embeddings, say); empty ones agree with none."""
        small = numbers(unique_matrix, "unique_matrix", 2)
        if small.shape != (len(self.unique),) * 2:
            raise InputError(f"The matrix has shape {small.shape}; there are {len(self.unique)} different texts.")
        return nothing_agrees(small[np.ix_(self.index, self.index)], [self.unique[i] for i in self.index])


def plan_pairs(texts: Sequence[str], *, question: str = "", symmetric: bool = False) -> PairPlan:
    """The pairs to score so that every two of ``texts`` are compared: no text twice, none with itself, none empty.

    Args:
        texts: k samples.
        question: put before both texts of a pair, as entailment between short answers needs it.
        symmetric: ask each pair in one direction only (similarities); otherwise in both (entailment).

    Raises:
        InputError: ``texts`` is one string.
    """
    if isinstance(texts, str):
        raise InputError("texts must be a sequence of samples, not one string.")
    clean = [" ".join(t.split()) for t in texts]
    unique = tuple(dict.fromkeys(clean))
    place = {t: i for i, t in enumerate(unique)}
    places = tuple(
        (i, j)
        for i, a in enumerate(unique)
        for j, b in enumerate(unique)
        if i != j and a and b and (i < j or not symmetric)
    )
    front = f"{question.strip()} " if question.strip() else ""
    pairs = tuple((front + unique[i], front + unique[j]) for i, j in places)
    return PairPlan(unique, tuple(place[t] for t in clean), places, pairs, symmetric)


def cluster_by_entailment(entailment: ArrayLike) -> tuple[int, ...]:
    """Cluster ids by bidirectional entailment (Kuhn et al. 2023): i ≡ j if each entails the other.

    Args:
        entailment: (k, k), ``[i, j]`` the probability that i entails j; an unknown (NaN) pair is not equivalent, so
            that what is not known adds uncertainty. A probability of at least 0.5 is entailment.

    Returns:
        k ids, counted from 0 in order of first appearance.
    """
    matrix = square(entailment, "entailment")
    holds = np.nan_to_num(matrix, nan=-np.inf) >= 0.5
    return greedy_clusters(holds & holds.T)


def cluster_by_similarity(similarity: ArrayLike, threshold: float) -> tuple[int, ...]:
    """Cluster ids by a similarity threshold: i ≡ j if the mean of both directions reaches it. NaN never does."""
    matrix = square(similarity, "similarity")
    return greedy_clusters(np.nan_to_num((matrix + matrix.T) / 2, nan=-np.inf) >= threshold)


def greedy_clusters(equivalent: ArrayLike, *, on_conflict: Literal["first", "last"] = "first") -> tuple[int, ...]:
    """Clusters by comparison with each cluster's first member, in order.

    Args:
        equivalent: (k, k) booleans, symmetric.
        on_conflict: where a sample matches several clusters: it joins the ``first`` and stays (so that later samples
            cannot move it), or ends up in the ``last`` (what the published code of semantic entropy does).
    """
    same = square(equivalent, "equivalent").astype(bool)
    ids = np.full(len(same), -1)
    count = 0
    for i in range(len(same)):
        if ids[i] >= 0:
            continue
        ids[i] = count
        for j in range(i + 1, len(same)):
            if same[i, j] and (ids[j] < 0 or on_conflict == "last"):
                ids[j] = count
        count += 1
    return tuple(map(int, ids))
