"""Do the questions asked now still look like those that a guarantee was fitted on?

A guarantee holds for questions like the calibration's. What each question and its answer looked like (signals: how sure
the best claim, how many claims, …) is compared in windows with what the calibration's looked like, by the two-sample
Kolmogorov–Smirnov statistic and its permutation distribution, which is exact with ties too, and signals are full of
ties.
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
"""How often a window of questions like the calibration's is told of as unlike them, at most."""
_SHUFFLES = 1999


def two_sample_p(reference: Sequence[float], recent: Sequence[float], *, shuffles: int = _SHUFFLES) -> float:
    """P(a Kolmogorov–Smirnov distance at least as large, if both samples are of one distribution), by permutation.

    Args:
        reference, recent: finite numbers, at least one each.
        shuffles: of the labels; no p is below 1 / (shuffles + 1).

    Raises:
        InputError: a sample is empty, or holds what is not finite.
    """
    values = np.concatenate([np.asarray(reference, dtype=np.float64), np.asarray(recent, dtype=np.float64)])
    if not len(reference) or not len(recent) or not np.isfinite(values).all():
        raise InputError("A two-sample test needs finite numbers in both samples.")
    order = np.argsort(values, kind="stable")
    last = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)  # one step for equal values
    own = (np.arange(len(values)) >= len(reference))[order]
    generator = np.random.default_rng(0)
    drawn = generator.permuted(np.broadcast_to(own, (shuffles, len(own))), axis=1)
    distances = _distance(np.vstack([own, drawn]), last, len(reference), len(recent))
    return float((1 + np.sum(distances[1:] >= distances[0] - 1e-12)) / (shuffles + 1))


def _distance(recent: NDArray[np.bool_], last: NDArray[np.int64], n: int, m: int) -> NDArray[np.float64]:
    """(rows,) largest difference of the two distribution functions; ``recent``: (rows, n + m) in order of value."""
    second = np.cumsum(recent, axis=1)[:, last]
    first = (last + 1)[None, :] - second
    distances: NDArray[np.float64] = np.abs(first / n - second / m).max(axis=1)
    return distances


class DriftWatch:
    """Looks at each question's signals, and at every full window says which look otherwise than the calibration's.

    Each signal is tested at ``level`` over the number of signals (Bonferroni). What was found stands until the next
    window is full. May be used from several threads.

    Args:
        reference: the calibration's values by signal; without any nothing is watched.
        window: questions compared at a time.
        level: probability of a false alarm for a window, at most.
    """

    def __init__(self, reference: Mapping[str, Sequence[float]], *, window: int = WINDOW, level: float = LEVEL) -> None:
        self._reference = {name: list(values) for name, values in reference.items() if len(values)}
        self._window, self._level = window, level
        self._seen: dict[str, list[float]] = {name: [] for name in self._reference}
        self._checked, self._drifted = 0, dict[str, float]()
        self._lock = threading.Lock()

    def see(self, signals: Mapping[str, float]) -> None:
        """Take another question into account; signals that are not watched are left aside."""
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
        """Questions of the full windows so far."""
        return self._checked

    @property
    def drifted(self) -> dict[str, float]:
        """Signals that looked otherwise in the last full window, with their p."""
        return dict(self._drifted)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
