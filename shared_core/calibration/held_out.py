"""What a fit is worth on rows that it did not see: how rows are dealt into folds, and how far probabilities are off."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared_core.errors import MissingDependencyError
from shared_core.uncertainty.arrays import Float64

FOLDS = 5
"""Parts that rows are dealt into, each predicted by a fit on the others."""


def deal_folds(
    labels: ArrayLike, groups: Sequence[Hashable] | None = None, folds: int = FOLDS
) -> NDArray[np.int64] | None:
    """The fold of each row, both kinds of label spread over all folds; always the same for the same rows.

    Args:
        labels: (n,) of 0/1.
        groups: (n,) what a row is of (claims of one question are alike): a group is never divided. Each row by itself
            if not given.
        folds: wanted; fewer where a kind of label has fewer rows (groups) than that.

    Returns:
        (n,) from 0; ``None`` where rows of a kind cannot be held out without leaving none to fit on.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    try:
        from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose="Calibration") from error
    y = np.asarray(labels).astype(bool)
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))} if groups is not None else {}
    of = np.array([number[g] for g in groups]) if groups is not None else np.arange(len(y))
    count = min(folds, len(set(of[y])), len(set(of[~y])))
    if count < 2:
        return None
    alone = len(set(of)) == len(y)
    maker = (StratifiedKFold if alone else StratifiedGroupKFold)(count, shuffle=True, random_state=0)
    found = np.zeros(len(y), dtype=np.int64)
    for i, (rest, held) in enumerate(maker.split(np.zeros(len(y)), y, None if alone else of)):
        if len(set(y[rest])) < 2:
            return None
        found[held] = i
    return found


def calibration_error(probabilities: Float64, labels: Float64, bins: int = 10) -> float:
    """Expected calibration error over bins of equal width, [0, 1/bins], then (lower, upper] (Guo et al. 2017).

    Args:
        probabilities: (n,) in [0, 1].
        labels: (n,) of 0/1.
        bins: how many.

    Returns:
        In [0, 1]; NaN without rows.
    """
    if not len(probabilities):
        return math.nan
    place = np.searchsorted(np.arange(1, bins) / bins, probabilities, side="left")
    gaps = [abs(float(probabilities[place == b].sum() - labels[place == b].sum())) for b in range(bins)]
    return sum(gaps) / len(probabilities)
