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
    """P = 1 / (1 + exp(-(intercept + coefficients · s + sᵀ products s))), s = (x - mean) / scale.

    Figures are clipped to what was seen. Products of two figures say what neither does alone: a good score means less
    where a name of the question is missing.

    Attributes:
        names: of the n figures, in order.
        mean, scale, low, high, coefficients: one number for each.
        intercept: one number.
        products: (n, n), upper triangular.
    """

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercept: float
    products: NDArray[np.float64]

    def probability(self, rows: NDArray[np.float64], names: Sequence[str]) -> list[float | None]:
        """A probability for each row of figures (columns ``names``); ``None`` where a figure is not finite."""
        columns = [list(names).index(name) for name in self.names]
        x = rows[:, columns]
        s = (np.clip(x, self.low, self.high) - self.mean) / self.scale
        z = self.intercept + s @ self.coefficients + ((s @ self.products) * s).sum(axis=1)
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
            "products": {
                name: [float(v) for v in row[i:]] for i, (name, row) in enumerate(zip(self.names, self.products))
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Logistic:
        """The reverse of ``to_dict``; CalibrationError if it is none."""
        try:
            table = np.array(list(data["figures"].values()), dtype=np.float64).reshape(-1, 5).T
            mean, scale, low, high, coefficients = table
            products = np.zeros((len(mean), len(mean)))
            for i, name in enumerate(data["figures"]):
                products[i, i:] = data["products"][name]
            out = cls(tuple(data["figures"]), mean, scale, low, high, coefficients, float(data["intercept"]), products)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"The reader's calibration is damaged: {error}", hint="Reinstall.") from error
        if not (
            np.isfinite(table).all()
            and np.isfinite(products).all()
            and np.isfinite(out.intercept)
            and (out.scale > 0).all()
        ):
            raise CalibrationError("The reader's calibration holds numbers that cannot be used.", hint="Reinstall.")
        return out
