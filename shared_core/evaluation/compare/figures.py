"""Figures of several configurations on the same questions: intervals, paired differences, costs.

Intervals come from a paired bootstrap: questions are drawn with replacement, the same ones for every configuration, and
every figure is computed from each draw by the function that gives its value; the interval lies between percentiles of
the outcomes (Efron 1979; Efron and Tibshirani 1993, chapter 13). ``scipy.stats.bootstrap`` is not used: all figures of
all configurations share their draws here, so that every difference is paired, and draws that leave a figure undefined
(no answer above 0.9 among them) are counted instead of making the whole interval NaN.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.compare.outcomes import ComparisonRow, figures
from shared_core.evaluation.compare.run_folder import Run
from shared_core.evaluation.runner import TARGETS, Figure, errors_of

FORMAT, VERSION = "selfreflect-comparison", 1
METHOD = (
    "paired bootstrap over questions (own, numpy.random.default_rng), percentile intervals; no interval where all "
    "draws agree or more than a tenth of them leave the figure undefined"
)
COUNTED = ("questions", "errors")
"""Figures that are counts and have no interval."""


Statistic = Callable[[NDArray[np.int64]], Mapping[str, float]]
"""Maps (n,) question numbers, repeats allowed, to figures; NaN where one is undefined."""

MOST_UNDEFINED = 0.1
"""A figure that is undefined in a larger share of the draws has no interval."""

_ROUNDING = 1e-12


class Interval(NamedTuple):
    """Interval of a figure."""

    low: float
    high: float


class Draws:
    """Figures of several configurations in each bootstrap draw.

    >>> right = np.array([1.0, 0.0, 1.0, 1.0])
    >>> draws = Draws({"a": lambda drawn: {"accuracy": right[drawn].mean()}}, size=4)
    >>> draws.interval("a", "accuracy")
    Interval(low=0.25, high=1.0)

    Args:
        statistics: one per configuration, over the same questions.
        resamples: number of draws, at least 0; 0 gives no intervals.
        progress: called as ``progress(done, total)`` after every draw.
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
        """Return the interval of a configuration's figure; ``None`` as for ``percentiles``."""
        return percentiles(self._of(name, figure), level)

    def difference(self, first: str, second: str, figure: str, level: float = 0.95) -> Interval | None:
        """Return the interval of the first configuration's figure minus the second's, draw by draw."""
        return percentiles(self._of(first, figure) - self._of(second, figure), level)

    def _of(self, name: str, figure: str) -> NDArray[np.float64]:
        return self._found[name].get(figure, np.empty(0))


def percentiles(outcomes: Sequence[float] | NDArray[np.float64], level: float = 0.95) -> Interval | None:
    """Return the middle ``level``, in (0, 1), of the outcomes.

    ``None`` if there are none, if more than ``MOST_UNDEFINED`` of them are NaN, or if all are equal: every draw from 20
    right answers is right, and yet the 21st may be wrong.
    """
    values = np.asarray(outcomes, dtype=np.float64)
    known = values[~np.isnan(values)]
    if not len(known) or len(values) - len(known) > MOST_UNDEFINED * len(values) or np.ptp(known) < _ROUNDING:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    names = rows[0] if rows else ()
    return {name: np.array([row.get(name, math.nan) for row in rows], dtype=np.float64) for name in names}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Figure, or difference of two, with its interval.

    >>> Estimate(0.1, low=-0.02, high=0.2).differs
    False

    Attributes:
        value: NaN if it is undefined for these questions.
        low, high: interval; ``None`` as for ``percentiles``.
        over: number of questions it is over, if known.
    """

    value: float
    low: float | None = None
    high: float | None = None
    over: int | None = None

    @property
    def differs(self) -> bool:
        """Whether the interval of a difference excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, float | int | None]:
        """Convert to plain values; NaN becomes ``None``."""
        value = self.value if math.isfinite(self.value) else None
        return {"value": value, "low": self.low, "high": self.high, "over": self.over}


@dataclass(frozen=True)
class ComparisonFigures:
    """Figures of several configurations that were asked the same questions.

    They are over the questions that every configuration was asked (``questions``); ``left_out`` counts the others.
    Questions that failed count as unanswered and wrong, and as ``errors``.

    Args:
        run: everything that was asked. If a question was asked again, its last answer counts.
        targets: see ``compare``.
        baseline: configuration that the others are compared with; by default the first.
        resamples, level, seed: of the bootstrap.
        only: ids of the questions to look at; by default all.
        progress: called as ``progress(done, total)`` for the draws.

    Raises:
        InputError: nothing was asked, or there is no such baseline.
        SettingsError: a target, level or number of draws is out of range.
    """

    run: Run = field(repr=False)
    targets: Sequence[float] = ()
    baseline: str = ""
    resamples: int = 1000
    level: float = 0.95
    seed: int = 0
    only: frozenset[str] | None = field(default=None, repr=False)
    progress: Callable[[int, int], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        for rho in self.targets:
            if not 0.0 < rho < 1.0:
                raise SettingsError(f"A target accuracy must be above 0 and below 1, not {rho!r}.")
        if not 0.0 < self.level < 1.0:
            raise SettingsError(f"A confidence level must be above 0 and below 1, not {self.level!r}.")
        if self.resamples < 0:
            raise SettingsError(f"resamples must be at least 0, not {self.resamples!r}.")
        if not self.names:
            raise InputError("Nothing was asked yet.")
        if self.baseline and self.baseline not in self.names:
            raise InputError(
                f"There is no configuration {self.baseline!r}.", hint=f"There are: {', '.join(self.names)}."
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the configurations that were asked, in their order."""
        asked = {row.configuration for row in self.run.rows}
        return tuple(name for name in self.run.configurations if name in asked)

    @cached_property
    def rhos(self) -> tuple[float, ...]:
        """Target accuracies ρ* at which accuracy, coverage and utility are given."""
        if self.targets:
            return tuple(self.targets)
        settings = [self.run.configurations[name].get("settings") or {} for name in self.names]
        return tuple(sorted({*TARGETS, *(float(s["target_accuracy"]) for s in settings if "target_accuracy" in s)}))

    @property
    def reference(self) -> str:
        """Name of the baseline."""
        return self.baseline or self.names[0]

    @cached_property
    def _latest(self) -> dict[str, dict[str, ComparisonRow]]:
        found: dict[str, dict[str, ComparisonRow]] = {name: {} for name in self.names}
        for row in self.run.rows:
            if self.only is None or row.record.id in self.only:
                found[row.configuration][row.record.id] = row
        return found

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """Ids of the questions that every configuration was asked, in their order."""
        per_name = list(self._latest.values())
        common = set.intersection(*(set(rows) for rows in per_name))
        return tuple(sorted(common, key=lambda i: (per_name[0][i].position, i)))

    @property
    def left_out(self) -> int:
        """Number of answers left out because not every configuration was asked that question."""
        return sum(len(rows) for rows in self._latest.values()) - len(self.names) * len(self.questions)

    @cached_property
    def rows(self) -> Mapping[str, tuple[ComparisonRow, ...]]:
        """Rows by configuration, one for each of ``questions``, in their order."""
        return {name: tuple(rows[i] for i in self.questions) for name, rows in self._latest.items()}

    def _figures(self, name: str, numbers: NDArray[np.int64]) -> dict[str, float]:
        rows = self.rows[name]
        found = figures([rows[i] for i in numbers], self.rhos)
        return {figure: value for figure, (value, _) in found.items()}

    @cached_property
    def _values(self) -> dict[str, dict[str, Figure]]:
        return {name: figures(rows, self.rhos) for name, rows in self.rows.items()}

    @cached_property
    def _draws(self) -> Draws:
        statistics = {name: partial(self._figures, name) for name in self.names}
        return Draws(statistics, len(self.questions), resamples=self.resamples, seed=self.seed, progress=self.progress)

    @cached_property
    def figures(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Estimates by configuration and figure."""
        return {
            name: {figure: self._estimate(name, figure, found) for figure, found in values.items()}
            for name, values in self._values.items()
        }

    def _estimate(self, name: str, figure: str, found: Figure) -> Estimate:
        interval = None if figure in COUNTED else self._draws.interval(name, figure, self.level)
        low, high = interval or (None, None)
        return Estimate(found.value, low, high, found.over)

    @cached_property
    def differences(self) -> Mapping[tuple[str, str], Mapping[str, Estimate]]:
        """Differences by (one, other) and figure: each configuration minus the baseline, then all other pairs."""
        others = [name for name in self.names if name != self.reference]
        pairs = [(name, self.reference) for name in others] + [(b, a) for a, b in combinations(others, 2)]
        return {pair: self._difference(*pair) for pair in pairs}

    def _difference(self, one: str, other: str) -> dict[str, Estimate]:
        found = {}
        unknown = Figure(math.nan, 0)
        for figure, (value, _) in self._values[one].items():
            if figure in COUNTED:
                continue
            low, high = self._draws.difference(one, other, figure, self.level) or (None, None)
            found[figure] = Estimate(value - self._values[other].get(figure, unknown).value, low, high)
        return found

    def alone(self, name: str) -> Self:
        """Return one configuration alone, over all questions it was asked; InputError if there are none."""
        run = dataclasses.replace(self.run, rows=[row for row in self.run.rows if row.configuration == name])
        return dataclasses.replace(self, run=run, baseline="")

    def errors(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Return the errors of a configuration, with the ids of their questions."""
        return errors_of(row.record for row in self.rows[name])

    # --- as plain values ---------------------------------------------------------------------------------------

    def table(self, wanted: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return one row per figure and configuration: value, interval, questions, difference from the baseline.

        ``wanted``: only these figures.
        """
        found = []
        every = dict.fromkeys(figure for of in self.figures.values() for figure in of)
        for figure in every if wanted is None else wanted:
            for name in self.names:
                estimate = self.figures[name].get(figure, Estimate(math.nan))
                against = self.differences.get((name, self.reference), {}).get(figure)
                difference = {f"difference_{k}": v for k, v in against.to_dict().items()} if against else {}
                difference.pop("difference_over", None)
                found.append({"figure": figure, "configuration": name, **estimate.to_dict(), **difference})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Convert configurations, figures and differences to plain values; the answers are in ``rows``."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "questions": {"compared": len(self.questions), "answers_left_out": self.left_out},
            "baseline": self.reference,
            "targets": list(self.rhos),
            "intervals": {"method": METHOD, "level": self.level, "resamples": self.resamples, "seed": self.seed},
            "configurations": {
                name: {
                    "made_with": self.run.configurations[name],
                    "figures": {figure: e.to_dict() for figure, e in self.figures[name].items()},
                    "errors": {error: list(ids) for error, ids in self.errors(name).items()},
                }
                for name in self.names
            },
            "differences": [
                {"of": one, "from": other, "figures": {figure: e.to_dict() for figure, e in found.items()}}
                for (one, other), found in self.differences.items()
            ],
            "sessions": list(self.run.sessions),
        }
