"""What several systems on the same questions came to: figures with intervals, paired differences, what each costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.compare.bootstrap import Draws
from shared_core.evaluation.compare.rows import Row, figures, over
from shared_core.evaluation.compare.run_folder import Run
from shared_core.evaluation.runner import TARGETS

FORMAT, VERSION = "selfreflect-comparison", 1
METHOD = (
    "paired bootstrap over questions (own, numpy.random.default_rng), percentile intervals; no interval where all "
    "draws agree or more than a tenth of them leave the figure undefined"
)
COUNTED = ("questions", "errors")
"""Figures that are counts, and have no interval."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, or a difference of two.

    Attributes:
        value: NaN where it is not defined for these questions.
        low, high: its interval; ``None`` where the draws cannot tell (``bootstrap.percentiles``).
        over: how many questions it is over, where known.
    """

    value: float
    low: float | None = None
    high: float | None = None
    over: int | None = None

    @property
    def differs(self) -> bool:
        """Of a difference: its interval leaves 0 out."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values; NaN becomes ``None``."""
        value = self.value if math.isfinite(self.value) else None
        return {"value": value, "low": self.low, "high": self.high, "over": self.over}


@dataclass(frozen=True)
class Compared:
    """What came of asking several configurations the same questions.

    Figures are over the questions that every configuration was asked (``questions``); ``left_out`` counts the others.
    Questions that failed are among them: unanswered, wrong, and counted as ``errors``.

    Args:
        run: all that was asked, and of whom. Of a question asked again the last answer counts.
        targets: as of ``compare``.
        baseline: what the others are compared with; the first if not named.
        resamples, level, seed: of the bootstrap.
        only: the ids of the questions to look at; all if not given.
        progress: told of the draws.

    Raises:
        InputError: nothing was asked, or there is no such baseline.
        SettingsError: a figure above is out of range.
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
        """Refuse what nothing can be said of."""
        for rho in self.targets:
            if not 0.0 < rho < 1.0:
                raise SettingsError(f"A target accuracy must be above 0 and below 1, not {rho!r}.")
        if not 0.0 < self.level < 1.0:
            raise SettingsError(f"A confidence level must be above 0 and below 1, not {self.level!r}.")
        if not self.names:
            raise InputError("Nothing was asked yet.")
        if self.baseline and self.baseline not in self.names:
            raise InputError(
                f"There is no configuration {self.baseline!r}.", hint=f"There are: {', '.join(self.names)}."
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the configurations that were asked, in the order in which they were given."""
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
        """The name of the baseline."""
        return self.baseline or self.names[0]

    @cached_property
    def _latest(self) -> dict[str, dict[str, Row]]:
        found: dict[str, dict[str, Row]] = {name: {} for name in self.names}
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
        """How many answers are left out because not every configuration was asked that question."""
        return sum(len(rows) for rows in self._latest.values()) - len(self.names) * len(self.questions)

    @cached_property
    def rows(self) -> Mapping[str, tuple[Row, ...]]:
        """By configuration: one for each of ``questions``, in their order."""
        return {name: tuple(rows[i] for i in self.questions) for name, rows in self._latest.items()}

    def _figures(self, name: str, numbers: NDArray[np.int64]) -> dict[str, float]:
        rows = self.rows[name]
        return figures([rows[i] for i in numbers], self.rhos)

    @cached_property
    def _values(self) -> dict[str, dict[str, float]]:
        return {name: figures(rows, self.rhos) for name, rows in self.rows.items()}

    @cached_property
    def _draws(self) -> Draws:
        statistics = {name: partial(self._figures, name) for name in self.names}
        return Draws(statistics, len(self.questions), resamples=self.resamples, seed=self.seed, progress=self.progress)

    @cached_property
    def figures(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Configuration → figure → estimate."""
        return {
            name: {figure: self._estimate(name, figure, value) for figure, value in values.items()}
            for name, values in self._values.items()
        }

    def _estimate(self, name: str, figure: str, value: float) -> Estimate:
        interval = None if figure in COUNTED else self._draws.interval(name, figure, self.level)
        low, high = interval or (None, None)
        return Estimate(value, low, high, over(self.rows[name], figure))

    @cached_property
    def differences(self) -> Mapping[tuple[str, str], Mapping[str, Estimate]]:
        """(one, other) → figure → the first's minus the other's: each against the baseline, then all other pairs."""
        others = [name for name in self.names if name != self.reference]
        pairs = [(name, self.reference) for name in others] + [(b, a) for a, b in combinations(others, 2)]
        return {pair: self._difference(*pair) for pair in pairs}

    def _difference(self, one: str, other: str) -> dict[str, Estimate]:
        found = {}
        for figure, value in self._values[one].items():
            if figure in COUNTED:
                continue
            interval = self._draws.difference(one, other, figure, self.level)
            low, high = interval or (None, None)
            found[figure] = Estimate(value - self._values[other].get(figure, math.nan), low, high)
        return found

    def alone(self, name: str) -> Self:
        """One configuration by itself: over all the questions that it was asked.

        Raises:
            InputError: it was not asked any.
        """
        run = dataclasses.replace(self.run, rows=[row for row in self.run.rows if row.configuration == name])
        return dataclasses.replace(self, run=run, baseline="")

    def errors(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """What went wrong with a configuration → ids of the questions."""
        found: dict[str, list[str]] = {}
        for row in self.rows[name]:
            if row.record.error:
                found.setdefault(row.record.error, []).append(row.record.id)
        return {error: tuple(ids) for error, ids in found.items()}

    # --- as plain values ---------------------------------------------------------------------------------------

    def table(self, wanted: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """A row for each figure and configuration: its value, interval and number of questions, and its difference from
        the baseline with that one's interval. ``wanted``: only these figures."""
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
        """What was asked, of whom, and what came of it, in plain values; the answers themselves are in ``rows``."""
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
