"""Probabilities from figures: logistic models fitted once on held-out questions and shipped as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CalibrationError


@dataclass(frozen=True, slots=True)
class Logistic:
    """P = 1 / (1 + exp(-(intercept + coefficients · (x - mean) / scale))), with figures clipped to what was seen.

    Attributes:
        names: of the figures, in order.
        mean, scale, low, high, coefficients: one number for each.
        intercept: one number.
    """

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercept: float

    def probability(self, rows: NDArray[np.float64], names: Sequence[str]) -> list[float | None]:
        """A probability for each row of figures (columns ``names``); ``None`` where a figure is not finite."""
        columns = [list(names).index(name) for name in self.names]
        x = rows[:, columns]
        z = self.intercept + ((np.clip(x, self.low, self.high) - self.mean) / self.scale) @ self.coefficients
        finite = [bool(np.isfinite(row).all()) for row in x]
        return [float(1.0 / (1.0 + np.exp(-v))) if ok else None for v, ok in zip(z, finite)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "intercept": self.intercept,
            "figures": {
                name: [float(v) for v in values]
                for name, *values in zip(self.names, self.mean, self.scale, self.low, self.high, self.coefficients)
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Logistic:
        """The reverse of ``to_dict``; CalibrationError if it is none."""
        try:
            table = np.array(list(data["figures"].values()), dtype=np.float64).reshape(-1, 5).T
            mean, scale, low, high, coefficients = table
            out = cls(tuple(data["figures"]), mean, scale, low, high, coefficients, float(data["intercept"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"The reader's calibration is damaged: {error}", hint="Reinstall.") from error
        if not (np.isfinite(table).all() and np.isfinite(out.intercept) and (out.scale > 0).all()):
            raise CalibrationError("The reader's calibration holds numbers that cannot be used.", hint="Reinstall.")
        return out
