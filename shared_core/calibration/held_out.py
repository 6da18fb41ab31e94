"""Judge a fit on rows that it did not see: folds, calibration error, and whether the fit is worth keeping."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared_core.errors import MissingDependencyError
from shared_core.uncertainty.arrays import Float64

FOLDS = 5
"""Folds that rows are dealt into; each is predicted by a fit on the others."""


def import_module(module: str, purpose: str = "Calibration") -> Any:
    """Import a module of scikit-learn or SciPy, slow to load; MissingDependencyError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose=purpose) from error


def deal_folds(labels: ArrayLike, groups: Sequence[Hashable] | None = None) -> NDArray[np.int64] | None:
    """Assign each row to one of ``FOLDS`` folds, counted from 0, with both kinds of label in every fold; deterministic.

    There are fewer folds if one kind of label has fewer groups; ``None`` if holding out rows of a kind would leave none
    to fit on.

    Args:
        labels: (n,) of 0/1.
        groups: (n,) group of each row, never divided (claims about one question resemble each other); by default each
            row is a group of its own.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    selection = import_module("sklearn.model_selection")
    y = np.asarray(labels).astype(bool)
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))} if groups is not None else {}
    of = np.array([number[g] for g in groups]) if groups is not None else np.arange(len(y))
    count = min(FOLDS, len(set(of[y])), len(set(of[~y])))
    if count < 2:
        return None
    alone = len(set(of)) == len(y)
    kind = selection.StratifiedKFold if alone else selection.StratifiedGroupKFold
    splitter = kind(count, shuffle=True, random_state=0)
    found = np.zeros(len(y), dtype=np.int64)
    for i, (rest, held) in enumerate(splitter.split(np.zeros(len(y)), y, None if alone else of)):
        if len(set(y[rest])) < 2:
            return None
        found[held] = i
    return found


def predict_held_out(
    labels: ArrayLike,
    groups: Sequence[Hashable] | None,
    predict: Callable[[NDArray[np.bool_], NDArray[np.bool_]], Float64],
) -> Float64 | None:
    """Predict each row by a fit on the rows of the other folds: (n,) probabilities; ``None`` if there are no folds.

    Args:
        labels, groups: see ``deal_folds``.
        predict: takes two masks of (n,), of the rows to fit on and of the rows held out, and predicts the latter.
    """
    fold = deal_folds(labels, groups)
    if fold is None:
        return None
    found = np.empty(len(fold))
    for i in range(int(fold.max()) + 1):
        found[fold == i] = predict(fold != i, fold == i)
    return found


def calibration_error(probabilities: Float64, labels: Float64, bins: int = 10) -> float:
    """Return the expected calibration error (Guo et al. 2017), in [0, 1]; NaN without rows.

    ``bins`` are of equal width: the first is [0, 1/bins], the others are (lower, upper].

    Args:
        probabilities: (n,) in [0, 1].
        labels: (n,) of 0/1.
    """
    if not len(probabilities):
        return math.nan
    place = np.searchsorted(np.arange(1, bins) / bins, probabilities, side="left")
    gaps = [abs(float(probabilities[place == b].sum() - labels[place == b].sum())) for b in range(bins)]
    return sum(gaps) / len(probabilities)


def auroc(scores: Float64, labels: Float64) -> float:
    """Return the probability that a true row scores above a false one; ties count half.

    Args:
        scores: (n,) finite.
        labels: (n,) of 0/1, both kinds present.
    """
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # mean rank of each group of equal scores, from 1
    positives = labels.sum()
    above = ranks[labels == 1].sum() - positives * (positives + 1) / 2  # Mann–Whitney U
    return float(above / (positives * (len(labels) - positives)))


def find_shortfall(metrics: Mapping[str, float], *, ranks_only: bool = False) -> str:
    """Say why a fit should not replace what it was fitted to improve; empty if it should.

    Args:
        metrics: of a ``Calibration`` or a ``Stack``.
        ranks_only: the raw score is no probability, so that only its order can be judged. The map is monotone and its
            direction fixed, so the AUROC of the raw score is that of the fit on unseen rows too.
    """
    if ranks_only:
        area = metrics.get("auroc", math.nan)
        return "" if area > 0.5 else f"its AUROC is {area:.3f}, no better than chance (.5)"
    before, after = metrics.get("brier_before"), metrics.get("brier")
    if before is None or after is None or after < before:
        return ""
    return f"out of fold its Brier score is {after:.3f}, no better than the {before:.3f} without it"
