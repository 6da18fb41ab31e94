"""A stack: the probability that a claim is right from what several witnesses say, of which some may be silent.

Logistic in the witnesses' log-odds, with a weight of its own for each that is silent. Fitting goes through
scikit-learn; applying needs nothing. Bound, like a calibration, to the configuration it was fitted for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from shared_core.abstention.binding import require_same
from shared_core.abstention.guarantees import FittedGuarantee
from shared_core.errors import CalibrationError, MissingDependencyError
from shared_core.uncertainty.calibration import BindingValue, Calibration

VERSION = 1
LEAST = 40
"""Claims needed at least, right and wrong ones together; five of each kind."""
_FEWEST = 5
_LIMIT = 6.0  # log-odds beyond it count as it: 0.9975
_REFIT = "Fit it again: selfreflect calibrate"


@dataclass(frozen=True, slots=True)
class Stack:
    """P(right) = sigmoid(intercept + Σ weight · log-odds of what was said + Σ silent weight of what was not).

    Attributes:
        names: of the witnesses, in order.
        weights, silent: one number for each.
        intercept: one number.
        bound_to: the configuration it holds for.
        n, positives: claims it was fitted on, and how many of them were right; no probability is nearer to 0 or 1 than
            one further claim of the other kind would have it: 1 / (n + 2).
        metrics: of the fit, out of fold: ``auroc``, ``brier``, ``ece``; and ``brier_constant``, of the base rate.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    silent: tuple[float, ...]
    intercept: float
    bound_to: Mapping[str, BindingValue] = field(default_factory=dict)
    n: int = 0
    positives: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        """Refuse what is no stack; keep read-only copies."""
        object.__setattr__(self, "bound_to", MappingProxyType(dict(self.bound_to)))
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        numbers = (*self.weights, *self.silent, self.intercept)
        whole = len(self.names) == len(self.weights) == len(self.silent) and self.names
        if self.version != VERSION or not whole or not all(map(math.isfinite, numbers)) or self.n < 0:
            raise CalibrationError("This stack of witnesses cannot be used.", hint=_REFIT)

    def __hash__(self) -> int:
        return hash((self.names, self.weights, self.silent, self.intercept))

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies do not pickle by themselves
        return (Stack.from_dict, (self.to_dict(),))

    def combine(self, said: Sequence[float | None]) -> float | None:
        """P(right) of a claim of which the witnesses, in the order of ``names``, say this; ``None`` if all are silent.

        Args:
            said: probabilities in [0, 1]; ``None`` and NaN are silence.
        """
        known = [p if p is not None and math.isfinite(p) else None for p in said]
        if all(p is None for p in known):
            return None
        z = self.intercept + sum(
            quiet if p is None else weight * _log_odds(p) for p, weight, quiet in zip(known, self.weights, self.silent)
        )
        room = 1 / (self.n + 2)
        return min(max(1 / (1 + math.exp(-max(min(z, 50.0), -50.0))), room), 1 - room)

    def require(self, **configuration: BindingValue) -> Stack:
        """Itself, if it was fitted for exactly this configuration (a value of ``None`` is as if left out).

        Raises:
            CalibrationError: it was fitted for another; names every difference.
        """
        require_same("The calibration of claims", self.bound_to, configuration, _REFIT)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        lists = {name: list(plain[name]) for name in ("names", "weights", "silent")}
        return {**plain, **lists, "bound_to": dict(self.bound_to), "metrics": dict(self.metrics)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stack:
        """The reverse of ``to_dict``; CalibrationError if it is none."""
        try:
            lists = {name: tuple(data[name]) for name in ("names", "weights", "silent")}
            return cls(**{**data, **lists})
        except (KeyError, TypeError) as error:
            raise CalibrationError(f"This is no stack of witnesses: {error}.", hint=_REFIT) from error


AnyCalibration = Calibration | Stack | FittedGuarantee
"""What a file of calibrations holds by purpose; ``claims`` is a stack, ``guarantee`` one of those, the others map one
score."""


def fit_stack(
    names: Sequence[str],
    said: Sequence[Sequence[float | None]],
    right: Sequence[bool],
    *,
    bound_to: Mapping[str, BindingValue] | None = None,
    strength: float = 0.3,
    folds: int = 5,
) -> Stack:
    """Fit a stack on claims that were judged.

    Args:
        names: of the witnesses.
        said: (claims, witnesses), what each said of each claim.
        right: (claims,) whether the claim was right.
        bound_to: the configuration it holds for.
        strength: inverse of the L2 penalty.
        folds: for the metrics, which are of claims not fitted on.

    Raises:
        CalibrationError: fewer than ``LEAST`` claims of which any witness says anything, or nearly all of a kind.
        MissingDependencyError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import brier_score_loss, roc_auc_score
        from sklearn.model_selection import StratifiedKFold, cross_val_predict
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose="Fitting a stack of witnesses") from error
    kept = [(row, bool(y)) for row, y in zip(said, right) if any(p is not None and math.isfinite(p) for p in row)]
    positives = sum(y for _, y in kept)
    if len(kept) < LEAST or min(positives, len(kept) - positives) < _FEWEST:
        raise CalibrationError(
            f"{len(kept)} claims, {positives} of them right, are too few to fit how far witnesses are to be believed "
            f"(of {len(said) - len(kept)} more no witness said anything).",
            hint=f"Give questions for {LEAST} claims or more, with at least {_FEWEST} right and {_FEWEST} wrong ones.",
        )
    x = np.array([_figures(row) for row, _ in kept])
    y = np.array([label for _, label in kept])
    model = LogisticRegression(C=strength, max_iter=1000)
    splits = StratifiedKFold(min(folds, positives, len(kept) - positives), shuffle=True, random_state=0)
    held_out = cross_val_predict(model, x, y, cv=splits, method="predict_proba")[:, 1]
    model.fit(x, y)
    slopes = model.coef_[0]
    rate = float(y.mean())
    metrics = {
        "auroc": float(roc_auc_score(y, held_out)),
        "brier": float(brier_score_loss(y, held_out)),
        "brier_constant": rate * (1 - rate),
        "ece": _calibration_error(held_out, y),
    }
    count = len(names)
    return Stack(
        tuple(names), tuple(map(float, slopes[:count])), tuple(map(float, slopes[count:])),
        float(model.intercept_[0]), dict(bound_to or {}), len(kept), int(positives), metrics,
    )  # fmt: skip


def _log_odds(p: float) -> float:
    if p <= 0 or p >= 1:
        return math.copysign(_LIMIT, p - 0.5)
    return min(max(math.log(p) - math.log1p(-p), -_LIMIT), _LIMIT)


def _figures(row: Sequence[float | None]) -> list[float]:
    quiet = [p is None or not math.isfinite(p) for p in row]
    heard = [0.0 if q or p is None else _log_odds(p) for p, q in zip(row, quiet)]
    return [*heard, *(float(q) for q in quiet)]


def _calibration_error(p: np.ndarray[Any, np.dtype[np.float64]], y: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((p * 10).astype(int), 9)
    gaps = [abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(sum(gaps))
