"""Paired bootstrap: how far figures, and differences between configurations, would move with other questions.

Questions are drawn with replacement, the same ones for every configuration, and every figure is computed anew from each
draw by the very function that gives its value; an interval lies between percentiles of the outcomes (Efron 1979; Efron
and Tibshirani 1993, chapter 13). Own numpy, not ``scipy.stats.bootstrap``: all figures of all configurations share
their draws, so that any difference between any two is paired, and draws in which a figure is not defined (no answer
above 0.9 among them) can be counted instead of spoiling the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import SettingsError

Statistic = Callable[[NDArray[np.int64]], Mapping[str, float]]
"""From numbers of questions, some of them several times, to figures; NaN where one is not defined."""

MOST_UNDEFINED = 0.1
"""A figure that is undefined in more of the draws than this has no interval."""

_ROUNDING = 1e-12


class Interval(NamedTuple):
    """Between which values a figure lies."""

    low: float
    high: float


class Draws:
    """What the figures of several configurations came to in each draw.

    Args:
        statistics: of each configuration, over the same questions.
        size: how many questions there are.
        resamples: draws; 0 gives no intervals.
        seed: the same one gives the same draws.
        progress: told (done, all) after every draw.

    Raises:
        SettingsError: fewer than 0 draws.
    """

    def __init__(
        self,
        statistics: Mapping[str, Statistic],
        size: int,
        *,
        resamples: int = 1000,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if resamples < 0:
            raise SettingsError(f"resamples must be at least 0, not {resamples!r}.")
        random = np.random.default_rng(seed)
        found: dict[str, list[Mapping[str, float]]] = {name: [] for name in statistics}
        for done in range(1, resamples + 1 if size else 1):
            drawn = random.integers(0, size, size)
            for name, statistic in statistics.items():
                found[name].append(statistic(drawn))
            if progress is not None:
                progress(done, resamples)
        self._found = {name: _columns(rows) for name, rows in found.items()}

    def interval(self, name: str, figure: str, level: float = 0.95) -> Interval | None:
        """Of a configuration's figure; ``None`` where the draws cannot tell (see ``percentiles``)."""
        return percentiles(self._of(name, figure), level)

    def difference(self, first: str, second: str, figure: str, level: float = 0.95) -> Interval | None:
        """Of a figure of the first configuration minus the second's, draw by draw."""
        return percentiles(self._of(first, figure) - self._of(second, figure), level)

    def _of(self, name: str, figure: str) -> NDArray[np.float64]:
        return self._found[name].get(figure, np.empty(0))


def percentiles(outcomes: Sequence[float] | NDArray[np.float64], level: float = 0.95) -> Interval | None:
    """The middle ``level`` of the outcomes.

    ``None`` where they cannot tell: there are none, more than ``MOST_UNDEFINED`` of them are NaN, or all are the same
    (of 20 right answers every draw is right, and yet the 21st may be wrong).

    Raises:
        SettingsError: a level outside (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise SettingsError(f"A confidence level must be above 0 and below 1, not {level!r}.")
    values = np.asarray(outcomes, dtype=np.float64)
    known = values[~np.isnan(values)]
    if not len(known) or len(values) - len(known) > MOST_UNDEFINED * len(values) or np.ptp(known) < _ROUNDING:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    names = rows[0] if rows else ()
    return {name: np.array([row.get(name, math.nan) for row in rows], dtype=np.float64) for name in names}
