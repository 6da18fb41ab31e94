"""Logistic regression that combines several support signals, any of which may be missing.

It is linear in the log-odds of each signal, with a separate weight for each missing one. A fit may start from one
signal that is a probability of being right already (the support by the shipped stack): few claims then only rescale it,
which keeps its order, and the other signals get weights once they are shown to help. Fitting uses SciPy; applying needs
nothing. Like a calibration, a stack is bound to the configuration it was fitted for.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shared_core.calibration.binding import BindingValue, Bound, plain_questions
from shared_core.calibration.calibration import LEAST_EACH, Calibration
from shared_core.calibration.guarantees import FittedGuarantee
from shared_core.calibration.held_out import auroc, calibration_error, import_module, predict_held_out
from shared_core.calibration.replies import FittedReplies
from shared_core.errors import CalibrationError, CalibrationInputError
from shared_core.uncertainty.arrays import Float64

VERSION = 1
LEAST_CLAIMS = 20
"""Fewest claims that a stack is fitted on, right and wrong ones together."""
STRENGTH = 0.3
"""Variance of the normal prior of a weight, the inverse of its L2 penalty."""
_LEAST_EACH = 2  # claims of each kind, for a fit that starts from one signal
_FEW = 100  # claims; with fewer, a fit that starts from one signal weighs the others only if they help beyond doubt
_LEAST_SLOPE = 0.1  # of the signal that a fit starts from: few claims may flatten its order, never reverse it
_SHIFT = 1.0  # variance of the intercept of a fit that starts from one signal
_LIMIT = 6.0  # log-odds are clipped here: a probability of 0.9975
_REFIT = "Fit it again: selfreflect calibrate claims"


@dataclass(frozen=True, slots=True)
class Stack(Bound):
    """P(right) = sigmoid(intercept + Σ weight · log-odds of each known signal + Σ weight of each missing one).

    >>> stack = Stack(("entailed", "answers"), weights=(1.0, 0.5), missing=(0.0, -1.0), intercept=0.0, n=98)
    >>> round(stack.combine([0.9, None]), 3)
    0.768
    >>> stack.combine([None, None]) is None
    True

    Attributes:
        weights, missing: one number per signal: its weight, and the term that counts if it is missing.
        n, positives: claims it was fitted on, and right ones among them. No probability is nearer to 0 or 1 than one
            more claim of the other kind would put it: 1 / (n + before + 2).
        before: claims that the signal it starts from was fitted on.
        signals: drift signals of the questions (``DriftWatch``).
        metrics: out of fold: ``auroc``, ``brier``, ``ece``; also ``brier_constant`` (the base rate for every claim) and
            ``brier_before`` (the support that the stack replaces).
        questions: digests of the questions it was fitted on (``binding.question_digest``), if known.
    """

    _what: ClassVar[str] = "The calibration of claims"
    _refit: ClassVar[str] = _REFIT
    names: tuple[str, ...]
    weights: tuple[float, ...]
    missing: tuple[float, ...]
    intercept: float
    bound_to: Mapping[str, BindingValue] = field(default_factory=dict)
    n: int = 0
    positives: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: int = VERSION
    questions: tuple[str, ...] = ()
    before: int = 0
    signals: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the numbers fit together, and keep read-only copies."""
        self._keep_copies()
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        numbers = (*self.weights, *self.missing, self.intercept)
        whole = len(self.names) == len(self.weights) == len(self.missing) and self.names
        if self.version != VERSION or not whole or not all(map(math.isfinite, numbers)) or min(self.n, self.before) < 0:
            raise CalibrationError("Invalid calibration of claims.", hint=_REFIT)

    def __hash__(self) -> int:
        return hash((self.names, self.weights, self.missing, self.intercept))

    def combine(self, signals: Sequence[float | None]) -> float | None:
        """Return P(right) of a claim; ``None`` if every signal is missing.

        Args:
            signals: probabilities in [0, 1], in the order of ``names``; ``None`` and NaN are missing.
        """
        row = log_odds_of(signals)
        count = len(self.names)
        if all(row[count:]):
            return None
        z = self.intercept + sum(w * x for w, x in zip((*self.weights, *self.missing), row, strict=True))
        margin = 1 / (self.n + self.before + 2)
        return min(max(1 / (1 + math.exp(-max(min(z, 50.0), -50.0))), margin), 1 - margin)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold."""
        # Without what older files do not have, so that their hashes stay valid.
        left_out = ("questions", "missing", "signals", *(() if self.before else ("before",)))
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        lists = {"names": list(self.names), "weights": list(self.weights), "silent": list(self.missing)}
        known = plain_questions(self.questions, self.signals)
        return {**plain, **lists, "bound_to": dict(self.bound_to), "metrics": dict(self.metrics), **known}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stack:
        """Build a stack from ``to_dict``'s output; CalibrationError for anything else."""
        try:
            lists = {name: tuple(data[key]) for name, key in _LISTS.items()}
            return cls(**{name: value for name, value in data.items() if name != "silent"} | lists)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"Not a calibration of claims: {error}.", hint=_REFIT) from error


_LISTS = {"names": "names", "weights": "weights", "missing": "silent"}
"""Attributes that are lists, and their names in files of format 1."""
AnyCalibration = Calibration | Stack | FittedGuarantee | FittedReplies
"""Content of a calibration file by purpose: ``claims`` is a stack, ``guarantee`` a guarantee, ``replies`` rates of
replies; others map one score."""


def fit_stack(
    names: Sequence[str],
    signals: Sequence[Sequence[float | None]],
    right: Sequence[bool],
    *,
    bound_to: Mapping[str, BindingValue] | None = None,
    before: Sequence[float | None] | None = None,
    groups: Sequence[Hashable] | None = None,
    questions: Sequence[str] = (),
    start: Stack | None = None,
) -> Stack:
    """Fit a stack on judged claims.

    Args:
        signals: (claims, signals) values in [0, 1]; ``None`` is missing.
        right: (claims,) whether the claim was right.
        before: (claims,) support without the stack, which the fit is compared with. An unknown support counts as 0: the
            claim would not be shown.
        groups: (claims,) question of each claim; claims about one question are held out together.
        questions: digests of all questions that were asked.
        start: stack whose probability is the first signal, and which the fit starts from; used if that signal is known
            for most claims.

    Raises:
        CalibrationError: fewer than ``LEAST_CLAIMS`` claims with a signal, or fewer than ``LEAST_EACH`` of a kind (with
            ``start`` 2).
        MissingDependencyError: scikit-learn is not installed.
    """
    kept = _known(signals)
    x, y = _matrix(signals, kept), np.array([bool(right[i]) for i in kept])
    positives = int(y.sum())
    started = start is not None and len(kept) > 0 and float(x[:, len(names)].mean()) < 0.5
    least = _LEAST_EACH if started else LEAST_EACH
    if len(kept) < LEAST_CLAIMS or min(positives, len(kept) - positives) < least:
        raise CalibrationInputError(
            f"{len(kept)} claims, {positives} of them right, are too few to calibrate claims "
            f"({len(signals) - len(kept)} more have no signal).",
            hint=f"Give questions for {LEAST_CLAIMS} claims or more, {least} or more right and as many wrong.",
        )
    free, predicted = _choose(x, y, _select(groups, kept), started=started)
    weights, intercept = fit_weights(x, y, **free)
    metrics = _metrics(y.astype(np.float64), predicted)
    if before is not None:
        old = np.array([before[i] or 0.0 for i in kept])
        metrics["brier_before"] = float(np.mean((old - y) ** 2))
        metrics["auroc_before"] = auroc(old, y.astype(np.float64))
    return Stack(
        tuple(names),
        tuple(map(float, weights[: len(names)])),
        tuple(map(float, weights[len(names) :])),
        intercept,
        dict(bound_to or {}),
        len(kept),
        positives,
        metrics,
        questions=tuple(dict.fromkeys(questions)),
        before=start.n if start is not None and started else 0,
    )


def fit_weights(
    x: Float64,
    y: NDArray[np.bool_],
    *,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    centre: Float64 | None = None,
    shares: Float64 | None = None,
) -> tuple[Float64, float]:
    """Fit a logistic regression whose weights are normal around ``centre`` with variance ``STRENGTH``.

    Args:
        x: (rows, 2 · signals), see ``log_odds_of``.
        y: (rows,) whether the event held.
        bounds: (2 · signals,) of each weight; by default a signal's is not negative, as more of it never is worse, and
            that of a missing one is free.
        centre: (2 · signals,) means of the weights; 0 by default. With it the intercept is near 0, too.
        shares: (rows,) weight of each row; 1 by default.

    Returns:
        (2 · signals,) weights, and the intercept.

    Raises:
        MissingDependencyError: SciPy is not installed; it comes with scikit-learn.
    """
    count = x.shape[1]
    middle = np.zeros(count + 1) if centre is None else np.append(centre, 0.0)
    variance = np.append(np.full(count, STRENGTH), math.inf if centre is None else _SHIFT)
    share = np.ones(len(y)) if shares is None else shares
    bounds = bounds if bounds is not None else [(0, None)] * (count // 2) + [(None, None)] * (count // 2)

    def loss(t: Float64) -> tuple[float, Float64]:
        z, away = x @ t[:-1] + t[-1], t - middle
        slope = share * (1 / (1 + np.exp(-np.clip(z, -50, 50))) - y)
        value = (share * (np.logaddexp(0, z) - y * z)).sum() + (away**2 / variance).sum() / 2
        return float(value), np.append(x.T @ slope, slope.sum()) + away / variance

    optimize = import_module("scipy.optimize", "Calibrating claims")
    found = optimize.minimize(loss, middle, jac=True, bounds=[*bounds, (None, None)], method="L-BFGS-B").x
    return np.asarray(found[:-1], dtype=np.float64), float(found[-1])


def held_out_of_stack(
    signals: Sequence[Sequence[float | None]],
    right: Sequence[bool],
    *,
    groups: Sequence[Hashable] | None = None,
    started: bool = False,
) -> list[float | None] | None:
    """Predict each claim by a stack fitted without it and its group; the metrics come from these.

    Arguments as of ``fit_stack``; ``started``: the fit starts from the first signal. A claim of which every signal is
    missing has ``None``; and so has the whole, if claims cannot be held out.
    """
    kept = _known(signals)
    y = np.array([bool(right[i]) for i in kept])
    predicted = _choose(_matrix(signals, kept), y, _select(groups, kept), started=started)[1]
    if predicted is None:
        return None
    found: list[float | None] = [None] * len(signals)
    for i, p in zip(kept, predicted):
        found[i] = float(p)
    return found


def _choose(
    x: Float64, y: NDArray[np.bool_], groups: Sequence[Hashable] | None, *, started: bool
) -> tuple[dict[str, Any], Float64 | None]:
    """Return the form of the fit, as arguments of ``fit_weights``, and its out-of-fold predictions, if there are folds.

    A fit that starts from the first signal only rescales it, unless weights of all signals predict better out of fold,
    by more than two standard errors of the difference in log loss (four with few claims).
    """

    def held_out(form: dict[str, Any]) -> Float64 | None:
        def predict(rest: NDArray[np.bool_], held: NDArray[np.bool_]) -> Float64:
            weights, intercept = fit_weights(x[rest], y[rest], **form)
            return np.asarray(1 / (1 + np.exp(-(x[held] @ weights + intercept))))

        return predict_held_out(y, groups, predict)

    if not started:
        return {}, held_out({})
    half = x.shape[1] // 2
    centre = np.zeros(2 * half)
    centre[0] = 1.0
    slopes: list[tuple[float | None, float | None]] = [(_LEAST_SLOPE, None)]
    alone = {"centre": centre, "bounds": [*slopes, *[(0, 0)] * (half - 1), (None, None), *[(0, 0)] * (half - 1)]}
    whole = {"centre": centre, "bounds": [*slopes, *[(0, None)] * (half - 1), *[(None, None)] * half]}
    first, second = held_out(alone), held_out(whole)
    if first is None or second is None:
        return alone, first
    gained = _log_loss(first, y) - _log_loss(second, y)
    errors = 4 if len(y) < _FEW else 2
    better = float(gained.mean()) > errors * float(gained.std(ddof=1)) / math.sqrt(len(gained))
    return (whole, second) if better else (alone, first)


def _log_loss(p: Float64, y: NDArray[np.bool_]) -> Float64:
    losses: Float64 = -np.log(np.clip(np.where(y, p, 1 - p), 1e-6, None))
    return losses


def _metrics(y: Float64, held: Float64 | None) -> dict[str, float]:
    rate = float(y.mean())
    found = {"brier_constant": rate * (1 - rate)}
    if held is not None:
        found["auroc"] = auroc(held, y)
        found["brier"] = float(np.mean((held - y) ** 2))
        found["ece"] = calibration_error(held, y)
    return found


def _known(signals: Sequence[Sequence[float | None]]) -> list[int]:
    """Return the numbers of the claims that have at least one signal."""
    return [i for i, row in enumerate(signals) if any(p is not None and math.isfinite(p) for p in row)]


def _select(groups: Sequence[Hashable] | None, kept: Sequence[int]) -> list[Hashable] | None:
    return None if groups is None else [groups[i] for i in kept]


def _log_odds(p: float) -> float:
    if p <= 0 or p >= 1:
        return math.copysign(_LIMIT, p - 0.5)
    return min(max(math.log(p) - math.log1p(-p), -_LIMIT), _LIMIT)


def _matrix(signals: Sequence[Sequence[float | None]], kept: Sequence[int]) -> Float64:
    """Return (claims kept, 2 · signals): see ``log_odds_of``."""
    return np.array([log_odds_of(signals[i]) for i in kept])


def log_odds_of(row: Sequence[float | None]) -> list[float]:
    """Return the log-odds of each signal (0 if missing), then an indicator for each: 1 if missing."""
    missing = [p is None or not math.isfinite(p) for p in row]
    known = [0.0 if gone or p is None else _log_odds(p) for p, gone in zip(row, missing)]
    return [*known, *(float(gone) for gone in missing)]
