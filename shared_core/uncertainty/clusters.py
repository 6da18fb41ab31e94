"""Cluster samples by meaning: plan the pairs to score, each once, and cluster by the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, nothing_agrees, numbers


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


def cluster_by_entailment(entailment: ArrayLike, threshold: float = 0.5) -> tuple[int, ...]:
    """Cluster ids by bidirectional entailment (Kuhn et al. 2023): i ≡ j if each entails the other.

    Args:
        entailment: (k, k), ``[i, j]`` the probability that i entails j; an unknown (NaN) pair is not equivalent, so
            that what is not known adds uncertainty.
        threshold: a probability of at least this is entailment.

    Returns:
        k ids, counted from 0 in order of first appearance.
    """
    matrix = _square(entailment, "entailment")
    holds = np.nan_to_num(matrix, nan=-np.inf) >= threshold
    return greedy_clusters(holds & holds.T)


def cluster_by_similarity(similarity: ArrayLike, threshold: float) -> tuple[int, ...]:
    """Cluster ids by a similarity threshold: i ≡ j if the mean of both directions reaches it. NaN never does."""
    matrix = _square(similarity, "similarity")
    return greedy_clusters(np.nan_to_num((matrix + matrix.T) / 2, nan=-np.inf) >= threshold)


def greedy_clusters(equivalent: ArrayLike, *, on_conflict: Literal["first", "last"] = "first") -> tuple[int, ...]:
    """Clusters by comparison with each cluster's first member, in order.

    Args:
        equivalent: (k, k) booleans, symmetric.
        on_conflict: where a sample matches several clusters: it joins the ``first`` and stays (so that later samples
            cannot move it), or ends up in the ``last`` (what the published code of semantic entropy does).
    """
    same = _square(equivalent, "equivalent").astype(bool)
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
    return _in_order(ids)


def _in_order(ids: NDArray[np.int_]) -> tuple[int, ...]:
    order: dict[int, int] = {}
    return tuple(order.setdefault(int(i), len(order)) for i in ids)


def _square(matrix: ArrayLike, name: str) -> Float64:
    array = numbers(matrix, name, 2)
    if array.shape[0] != array.shape[1]:
        raise InputError(f"{name} must be square, not of shape {array.shape}.")
    return array
