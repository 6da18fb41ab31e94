"""Detect drift: do current questions still resemble those that a guarantee was fitted on?

A guarantee holds for questions like the calibration's. Signals of each question and its answer (support of the best
claim, number of claims, …) are compared, in windows, with those of the calibration by the two-sample
Kolmogorov–Smirnov statistic. Its permutation distribution is exact with ties, of which signals are full.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import InputError

WINDOW = 50
"""Questions in a window."""
LEVEL = 0.01
"""Largest probability of a false alarm per window."""
_SHUFFLES = 1999


def two_sample_p(reference: Sequence[float], recent: Sequence[float], *, shuffles: int = _SHUFFLES) -> float:
    """Return the p-value of the two-sample Kolmogorov–Smirnov test, by permutation.

    Args:
        reference, recent: (n,) and (m,) finite numbers, at least one each.
        shuffles: number of permutations; no p is below 1 / (shuffles + 1).

    Raises:
        InputError: a sample is empty or not finite.
    """
    values = np.concatenate([np.asarray(reference, dtype=np.float64), np.asarray(recent, dtype=np.float64)])
    if not len(reference) or not len(recent) or not np.isfinite(values).all():
        raise InputError("A two-sample test needs finite numbers in both samples.")
    order = np.argsort(values, kind="stable")
    last = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)  # equal values make one step
    own = (np.arange(len(values)) >= len(reference))[order]
    generator = np.random.default_rng(0)
    drawn = generator.permuted(np.broadcast_to(own, (shuffles, len(own))), axis=1)
    distances = _distance(np.vstack([own, drawn]), last, len(reference), len(recent))
    return float((1 + np.sum(distances[1:] >= distances[0] - 1e-12)) / (shuffles + 1))


def _distance(recent: NDArray[np.bool_], last: NDArray[np.int64], n: int, m: int) -> NDArray[np.float64]:
    """Return (rows,) the largest difference of the two distribution functions.

    ``recent``: (rows, n + m) whether the value belongs to the recent sample, in order of value.
    """
    second = np.cumsum(recent, axis=1)[:, last]
    first = (last + 1)[None, :] - second
    distances: NDArray[np.float64] = np.abs(first / n - second / m).max(axis=1)
    return distances


class DriftWatch:
    """Watch that compares each full window of questions with the calibration's, signal by signal.

    Each signal is tested at ``level`` over the number of signals (Bonferroni). The result of a window stands until the
    next one is full. Thread-safe.

    >>> watch = DriftWatch({"claims": [1.0, 2.0, 3.0] * 20}, window=30)
    >>> for _ in range(30):
    ...     watch.see({"claims": 9.0})
    >>> sorted(watch.drifted)
    ['claims']

    Args:
        reference: values of the calibration by signal; nothing is watched without any.
        window: questions compared at a time.
        level: largest probability of a false alarm per window.
    """

    def __init__(self, reference: Mapping[str, Sequence[float]], *, window: int = WINDOW, level: float = LEVEL) -> None:
        self._reference = {name: list(values) for name, values in reference.items() if len(values)}
        self._window, self._level = window, level
        self._seen: dict[str, list[float]] = {name: [] for name in self._reference}
        self._checked, self._drifted = 0, dict[str, float]()
        self._lock = threading.Lock()

    def see(self, signals: Mapping[str, float]) -> None:
        """Add a question's signals; unwatched ones are ignored."""
        with self._lock:
            for name, seen in self._seen.items():
                if name in signals:
                    seen.append(signals[name])
            if not self._seen or min(map(len, self._seen.values())) < self._window:
                return
            found = {name: two_sample_p(self._reference[name], seen) for name, seen in self._seen.items()}
            self._drifted = {name: p for name, p in found.items() if p <= self._level / len(found)}
            self._checked += self._window
            self._seen = {name: [] for name in self._reference}

    @property
    def checked(self) -> int:
        """Number of questions in full windows so far."""
        return self._checked

    @property
    def drifted(self) -> dict[str, float]:
        """Signals that drifted in the last full window, with their p-values."""
        return dict(self._drifted)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
