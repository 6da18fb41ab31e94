"""Probabilities from figures: logistic models fitted once on held-out questions and shipped as plain numbers.

Also the share of questions that the documents answer, on which probabilities depend.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CalibrationError, InputError
from shared_core.reading.base import ReadResult
from shared_core.support.pickling import Portable

_MOST_STEPS = 200
LEAST_QUESTIONS = 20
"""Minimum questions before the estimate is used."""
KEPT_QUESTIONS = 2000
"""Maximum recent questions in the estimate."""
USUAL_SHARE = 0.75
"""Default share: most questions to an app are about its documents."""


def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)), without overflow."""
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))


def logit(p: float) -> float:
    """ln(p / (1 - p)) for p in (0, 1)."""
    return math.log(p) - math.log1p(-p)


def add_log_odds(p: float, by: float) -> float:
    """Add to the log-odds of a probability; 0 and 1 stay as they are."""
    return sigmoid(logit(p) + by) if 0 < p < 1 else p


def shift(p: float, assumed: float, expected: float) -> float:
    """Adjust a probability fitted with a share ``assumed`` of positives to a share ``expected``; all in (0, 1).

    Source: Saerens, Latinne & Decaestecker 2002, "Adjusting the outputs of a classifier to new a priori
    probabilities", equation 2.4.
    """
    return add_log_odds(p, logit(expected) - logit(assumed))


@dataclass(frozen=True, slots=True)
class Rescaling:
    """P' = sigmoid(slope · logit(P) + intercept): probabilities of another kind of documents than they were fitted on.

    Attributes:
        slope: above 0; above 1 where scores separate right and wrong answers more clearly.
        intercept: finite.

    Raises:
        CalibrationError: one is not.

    Source: Platt 1999, "Probabilistic outputs for support vector machines", section 2.2.

    >>> round(Rescaling(2.0, 0.0)(0.8), 2), Rescaling(2.0, 0.0)(0.5), Rescaling(2.0, 0.0)(0.0)
    (0.94, 0.5, 0.0)
    """

    slope: float = 1.0
    intercept: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.slope < math.inf and math.isfinite(self.intercept)):
            raise CalibrationError("The reader's calibration holds numbers that cannot be used.", hint="Reinstall.")

    def __call__(self, p: float) -> float:
        """Rescale a probability; 0 and 1 stay as they are."""
        return sigmoid(self.slope * logit(p) + self.intercept) if 0 < p < 1 else p


def estimate_share(probabilities: Sequence[float], assumed: float) -> float:
    """Estimate the share of positives among unlabelled cases by expectation maximisation.

    Args:
        probabilities: of each case, as fitted where the share of positives was ``assumed``.
        assumed: in (0, 1).

    Returns:
        In (0, 1): never nearer to either end than half a case; ``assumed`` without cases.

    Source: Saerens, Latinne & Decaestecker 2002, equation 3.2.
    """
    if not probabilities:
        return assumed
    room = 0.5 / len(probabilities)
    share = assumed
    for _ in range(_MOST_STEPS):
        moved = sum(shift(p, assumed, share) for p in probabilities) / len(probabilities)
        moved = min(max(moved, room), 1 - room)
        if abs(moved - share) < 1e-6:
            break
        share = moved
    return share


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
        """Return a probability per row of figures (columns ``names``); ``None`` if a figure is not finite."""
        return [None if np.isnan(z) else sigmoid(float(z)) for z in self.log_odds(rows, names)]

    def log_odds(self, rows: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.float64]:
        """Return the logits, (rows,); NaN if a figure is not finite."""
        x = rows[:, [list(names).index(name) for name in self.names]]
        s = (np.clip(x, self.low, self.high) - self.mean) / self.scale
        z = self.intercept + s @ self.coefficients + ((s @ self.products) * s).sum(axis=1)
        return np.where(np.isfinite(x).all(axis=1), z, np.nan)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
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
        """Create a model from what ``to_dict`` returned; CalibrationError for anything else."""
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


class ExpectedShare(Portable):
    """Tracks the share of questions that the documents answer. Thread-safe.

    Args:
        stated: the share, in (0, 1); ``auto`` begins at ``USUAL_SHARE`` and estimates it from the questions asked
            (without labels, by expectation maximisation) as soon as ``LEAST_QUESTIONS`` have been. Then what a question
            is answered with depends on the ones before it.

    Raises:
        InputError: ``stated`` out of range.
    """

    def __init__(self, stated: float | str = USUAL_SHARE) -> None:
        self._estimated = stated == "auto"
        self._stated = USUAL_SHARE if isinstance(stated, str) else stated
        if not 0 < self._stated < 1 or (isinstance(stated, str) and not self._estimated):
            raise InputError(f"The expected share must be in (0, 1) or 'auto', not {stated!r}.", hint="Usual: 0.75.")
        self._seen: deque[float] = deque(maxlen=KEPT_QUESTIONS)
        self._value = self._stated
        self._lock = threading.Lock()

    @property
    def value(self) -> float:
        """Current estimate of the share."""
        return self._value

    def see(self, result: ReadResult) -> None:
        """Add the result of another question."""
        if not self._estimated or result.answerable is None or result.expected is None:
            return
        with self._lock:
            # all at one assumed share, whatever was assumed when they were asked
            self._seen.append(shift(result.answerable, result.expected, self._stated))
            if len(self._seen) >= LEAST_QUESTIONS:
                self._value = estimate_share(list(self._seen), self._stated)
