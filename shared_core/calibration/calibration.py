"""Calibrations: from a raw score to a probability, bound to the configuration they were fitted for.

Fitting goes through scikit-learn; applying needs only numpy. Files are read and written elsewhere
(``shared_core.calibration.io``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from shared_core.calibration.binding import BindingValue, plain_questions, require_same
from shared_core.calibration.held_out import FOLDS, calibration_error, deal_folds
from shared_core.errors import CalibrationError, CalibrationInputError, InputError, MissingDependencyError
from shared_core.uncertainty.arrays import Float64, numbers

VERSION = 1
LEAST_ROWS = 20
"""Rows needed at least to fit a calibration of one score."""
Method = Literal["isotonic", "platt"]
ThresholdRule = Literal["balanced_accuracy", "target_accuracy"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A monotone map from a raw score to the probability of what it was fitted to.

    Attributes:
        method: ``isotonic`` (piecewise linear through ``points``) or ``platt`` (logistic in the score).
        increasing: whether a higher score means a higher probability (uncertainties: ``False``).
        bound_to: the configuration it holds for: model, estimator, k, layer, hidden, reader, retriever, …
        event: what the probability is of, in words.
        points: (score, probability) knots of ``isotonic``, scores rising.
        slope, intercept: of ``platt``: ``1 / (1 + exp(-(slope · score + intercept)))``.
        low, high: of ``platt``: the range of the scores it was fitted on; beyond it the value at its end holds.
        floor, ceiling: of ``platt``: no probability lies outside, however steep it is.
        threshold: raw score chosen for a decision, ``None`` if none was (or none meets the aim).
        threshold_rule: how it was chosen, in words.
        n: rows it was fitted on; ``positives`` of them true; ``unknown``: rows left out for a score that is not finite.
        metrics: of the fit: ``auroc``, ``brier_constant`` (the base rate for everyone), ``brier``, ``ece`` (both out
            of fold), and ``brier_before``, ``ece_before`` where the raw scores were probabilities already.
        questions: digests of those that it was fitted on (``bindings.question_digest``), where they are known.
    """

    method: Method
    increasing: bool
    bound_to: Mapping[str, BindingValue]
    event: str = "the answer is right"
    points: tuple[tuple[float, float], ...] = ()
    slope: float = 0.0
    intercept: float = 0.0
    threshold: float | None = None
    threshold_rule: str = ""
    n: int = 0
    positives: int = 0
    unknown: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: int = VERSION
    low: float | None = None
    high: float | None = None
    floor: float = 0.0
    ceiling: float = 1.0
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a map that is not monotone or leaves [0, 1]; keep read-only copies."""
        object.__setattr__(self, "bound_to", MappingProxyType(dict(self.bound_to)))
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        object.__setattr__(self, "points", tuple((float(x), float(y)) for x, y in self.points))
        object.__setattr__(self, "questions", tuple(self.questions))
        problem = self._problem()
        if problem:
            raise CalibrationError(f"This calibration cannot be used: {problem}.", hint=_REFIT)

    def _problem(self) -> str:
        if self.version != VERSION:
            return f"its version is {self.version!r}, and {VERSION} is understood"
        if self.method not in ("isotonic", "platt"):
            return f"its method is {self.method!r}"
        if self.increasing not in (True, False):
            return f"its direction is {self.increasing!r}"
        if self.threshold is not None and not math.isfinite(self.threshold):
            return "its threshold is not finite"
        if not 0 <= self.floor <= self.ceiling <= 1:
            return "its floor or ceiling is no probability"
        if any(end is not None and not math.isfinite(end) for end in (self.low, self.high)):
            return "its range is not finite"
        if self.method == "platt":
            if not (math.isfinite(self.slope) and math.isfinite(self.intercept)):
                return "its slope or intercept is not finite"
            return "" if self.slope == 0 or (self.slope > 0) == self.increasing else "its slope goes the wrong way"
        if not self.points:
            return "it has no points"
        x, y = np.array(self.points).T
        if not (np.isfinite(x).all() and np.all((y >= 0) & (y <= 1))):
            return "a point is not finite or no probability"
        rising = np.diff(y) >= 0 if self.increasing else np.diff(y) <= 0
        return "" if np.all(np.diff(x) > 0) and rising.all() else "its points are not monotone"

    def __hash__(self) -> int:
        return hash((self.method, self.increasing, self.event, self.points, self.slope, self.intercept))

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies do not pickle by themselves
        return (_from_dict, (self.to_dict(),))

    def probability(self, score: float | None) -> float | None:
        """The probability at ``score``: in [0, 1], monotone; ``None`` (unknown) for ``None``, NaN or an infinity."""
        if score is None or not math.isfinite(score):
            return None
        return float(self._apply(np.array([float(score)]))[0])

    def probabilities(self, scores: Sequence[float | None]) -> list[float | None]:
        """``probability`` of each."""
        return [self.probability(s) for s in scores]

    def _apply(self, scores: Float64) -> Float64:
        if self.method == "isotonic":
            x, y = np.array(self.points).T
            return np.asarray(np.clip(np.interp(scores, x, y), 0.0, 1.0))
        scores = np.clip(scores, -np.inf if self.low is None else self.low, np.inf if self.high is None else self.high)
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-(self.slope * scores + self.intercept)))
        return np.asarray(np.clip(p, self.floor, self.ceiling))

    def exceeds(self, score: float | None) -> bool | None:
        """Whether ``score`` lies above the threshold; ``None`` (unknown) where it is not finite or there is none."""
        if self.threshold is None or score is None or not math.isfinite(score):
            return None
        return score > self.threshold

    def require(self, **configuration: BindingValue) -> Calibration:
        """Itself, if it was fitted for exactly this configuration (a value of ``None`` is as if left out).

        Raises:
            CalibrationError: it was fitted for another; names every difference.
        """
        require_same("The calibration", self.bound_to, configuration, hint=_REFIT)
        return self

    def with_threshold(self, threshold: float | None, rule: str) -> Calibration:
        """A copy with that threshold."""
        return dataclasses.replace(self, threshold=threshold, threshold_rule=rule)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "questions"}
        return {
            **plain,
            "bound_to": dict(self.bound_to),
            "metrics": dict(self.metrics),
            "points": [list(p) for p in self.points],
            **plain_questions(self.questions),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Calibration:
        """The reverse of ``to_dict``; CalibrationError if the data is not such a dictionary."""
        known = {f.name for f in dataclasses.fields(cls)}
        try:
            if set(data) - known:
                raise ValueError(f"unknown entries {sorted(set(data) - known)}")
            values: dict[str, Any] = {**data, "points": tuple((float(x), float(y)) for x, y in data.get("points", ()))}
            if values.get("method") == "platt" and "ceiling" not in values and values.get("n"):
                values |= _bounds(values["positives"], values["n"])  # of an earlier version, which had none
            return cls(**values)
        except (TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"This is no calibration: {error}.", hint=_REFIT) from error


_REFIT = "Calibrate this configuration: selfreflect calibrate"


def _from_dict(data: dict[str, Any]) -> Calibration:
    return Calibration.from_dict(data)


def fit_calibration(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    bound_to: Mapping[str, BindingValue],
    method: Method = "isotonic",
    increasing: bool = False,
    event: str = "the answer is right",
    min_rows: int = LEAST_ROWS,
    folds: int = FOLDS,
    groups: Sequence[Hashable] | None = None,
    questions: Sequence[str] = (),
) -> Calibration:
    """Fit a calibration through scikit-learn.

    Isotonic values are kept within [1/(n+2), 1 - 1/(n+2)]. Platt's targets are smoothed as Platt (1999) does, and no
    probability goes beyond them: at most (r+1)/(r+2) after r rows where the event held, at least 1/(w+2) after w where
    it did not (Laplace's rule of succession), nor does the curve go on beyond the scores seen. Rows whose score is
    not finite are left out and counted.

    Args:
        scores: (n,) raw scores; ``labels``: (n,) of 0/1 or booleans, whether the event held.
        bound_to: the configuration the scores came from.
        method: ``isotonic`` needs more rows (hundreds), ``platt`` makes do with few.
        increasing: whether the event is more likely at higher scores; ``False`` for uncertainties.
        event: what the probability is of.
        min_rows: fewer rows are refused.
        folds: of the cross-fitted metrics.
        groups: (n,) what a row is of; rows of one group are held out together.
        questions: digests of those that the rows came from.

    Raises:
        CalibrationError: too few rows, or only one kind of label.
        InputError: lengths differ, labels other than 0/1, unknown method.
        MissingDependencyError: no scikit-learn.
    """
    if method not in ("isotonic", "platt"):
        raise InputError(f"Unknown method {method!r}.", hint="isotonic or platt")
    x, y, unknown = _rows(scores, labels)
    if len(x) < min_rows or y.min() == y.max():
        raise CalibrationInputError(
            f"{len(x)} rows with {int(y.sum())} positives are not enough to calibrate{_unknown(unknown, len(x))}.",
            hint=f"Give at least {min_rows} questions, some with right and some with wrong answers.",
        )
    made = _fit(x, y, method, increasing)
    return Calibration(
        method,
        increasing,
        bound_to,
        event,
        **made,
        n=len(x),
        positives=int(y.sum()),
        unknown=unknown,
        metrics=_metrics(x, y, method, increasing, _held_out(scores, labels, method, increasing, groups, folds)),
        questions=tuple(dict.fromkeys(questions)),
    )


def held_out(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    method: Method,
    increasing: bool = False,
    groups: Sequence[Hashable] | None = None,
    folds: int = FOLDS,
) -> list[float | None] | None:
    """For each row the probability that a fit without it (and without its group) gives: what metrics are made of.

    Args:
        scores, labels, method, increasing, groups, folds: as ``fit_calibration``.

    Returns:
        (n,) in order, ``None`` where the score is not finite; ``None`` for all where a kind of label is too rare to be
        held out.
    """
    found = _held_out(scores, labels, method, increasing, groups, folds)
    return None if found is None else [float(p) if math.isfinite(p) else None for p in found]


def _unknown(unknown: int, known: int) -> str:
    if not unknown:
        return ""
    return f": of {unknown} more the score is unknown" if known else f": every score, of {unknown} rows, is unknown"


def choose_threshold(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    rule: ThresholdRule = "balanced_accuracy",
    target: float | None = None,
    increasing: bool = False,
) -> float | None:
    """The raw score that best parts true from false events; what lies on the threshold counts as the low side.

    Args:
        scores, labels, increasing: as ``fit_calibration``. With ``increasing=False`` the event is predicted where
            score ≤ threshold: for SeaKR's gate, "right without retrieval", so retrieve where score > threshold.
        rule: ``balanced_accuracy`` maximises the mean of both classes' recall; ``target_accuracy`` accepts as many rows
            as possible while at least ``target`` of the accepted ones are true.
        target: in (0, 1], for ``target_accuracy``.

    Returns:
        A finite score (midway between neighbours), or ``None`` if no threshold reaches the target.

    Raises:
        CalibrationError: no usable rows, or for ``balanced_accuracy`` only one kind of label.
        InputError: as ``fit_calibration``, or no target where one is needed.
    """
    x, y, _ = _rows(scores, labels)
    if len(x) == 0 or (rule == "balanced_accuracy" and y.min() == y.max()):
        raise CalibrationError("No threshold can be chosen from these rows.", hint="Give right and wrong answers.")
    if rule == "target_accuracy" and (target is None or not 0 < target <= 1):
        raise InputError(f"target must be in (0, 1], not {target!r}.")
    sign = 1.0 if increasing else -1.0
    order = np.argsort(-sign * x, kind="stable")  # surest first
    x, y = x[order], y[order]
    last = np.append(np.flatnonzero(np.diff(x)), len(x) - 1)  # a threshold cannot part equal scores
    true, count = np.cumsum(y)[last], last + 1.0
    if rule == "balanced_accuracy":
        value = true / y.sum() + 1.0 - (count - true) / (len(y) - y.sum())
        best = int(np.argmax(value))
    else:
        reaching = np.flatnonzero(true / count >= cast(float, target) - 1e-12)
        if len(reaching) == 0:
            return None
        best = int(reaching[-1])
    end = int(last[best])
    if end + 1 < len(x):
        middle = (x[end] + x[end + 1]) / 2
        if min(x[end], x[end + 1]) < middle < max(x[end], x[end + 1]):
            return float(middle)
        return float(min(x[end], x[end + 1]))
    # All are accepted: just beyond the last one, on whichever side that is.
    return float(np.nextafter(x[end], -np.inf)) if increasing else float(x[end])


def _rows(scores: ArrayLike, labels: ArrayLike) -> tuple[Float64, Float64, int]:
    x, y = numbers(scores, "scores", 1), numbers(labels, "labels", 1)
    if len(x) != len(y):
        raise InputError(f"There are {len(x)} scores and {len(y)} labels.")
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError("Labels must be 0 or 1.")
    usable = np.isfinite(x)
    return x[usable], y[usable], int((~usable).sum())


def _fit(x: Float64, y: Float64, method: Method, increasing: bool) -> dict[str, Any]:
    return _isotonic(x, y, increasing) if method == "isotonic" else _platt(x, y, increasing)


def _isotonic(x: Float64, y: Float64, increasing: bool) -> dict[str, Any]:
    try:
        from sklearn.isotonic import IsotonicRegression
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose="Calibration") from error
    margin = 1.0 / (len(x) + 2)
    model = IsotonicRegression(y_min=margin, y_max=1 - margin, increasing=increasing, out_of_bounds="clip").fit(x, y)
    # Knots only where the float really moves on, so that "scores rising" holds strictly.
    knots: dict[float, float] = dict(zip(map(float, model.X_thresholds_), map(float, model.y_thresholds_)))
    return {"points": tuple(sorted(knots.items()))}


def _platt(x: Float64, y: Float64, increasing: bool) -> dict[str, Any]:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose="Calibration") from error
    positives, negatives = float(y.sum()), float(len(y) - y.sum())
    bounds = _bounds(positives, positives + negatives)
    targets = np.where(y == 1, bounds["ceiling"], bounds["floor"])
    centre, spread = float(np.median(x)), float(np.std(x)) or 1.0
    z = ((x - centre) / spread)[:, None]
    model = LogisticRegression(C=1e6, max_iter=1000)
    classes = np.repeat([1, 0], len(x))
    model.fit(np.concatenate([z, z]), classes, sample_weight=np.concatenate([targets, 1 - targets]))
    slope = float(model.coef_[0, 0]) / spread
    if slope == 0 or (slope > 0) != increasing:  # the score tells nothing in its own direction: the base rate, then
        rate = float(targets.mean())
        return {"slope": 0.0, "intercept": math.log(rate / (1 - rate)), **bounds}
    ends = {"low": float(x.min()), "high": float(x.max())}
    return {"slope": slope, "intercept": float(model.intercept_[0]) - slope * centre, **ends, **bounds}


def _bounds(positives: float, n: float) -> dict[str, float]:
    """What as many rows allow to be said: the chance of one more of the other kind is never nought."""
    return {"floor": 1 / (n - positives + 2), "ceiling": (positives + 1) / (positives + 2)}


def _metrics(x: Float64, y: Float64, method: Method, increasing: bool, held: Float64 | None) -> dict[str, float]:
    found = {"auroc": _auroc(x if increasing else -x, y), "brier_constant": float(np.mean((y - y.mean()) ** 2))}
    raw = x if increasing else 1 - x
    if raw.min() >= 0 and raw.max() <= 1:
        found |= {"brier_before": float(np.mean((raw - y) ** 2)), "ece_before": calibration_error(raw, y)}
    if held is not None:
        predicted = held[np.isfinite(held)]  # of the rows of known score, which x and y are of
        found |= {"brier": float(np.mean((predicted - y) ** 2)), "ece": calibration_error(predicted, y)}
    return found


def _held_out(
    scores: ArrayLike,
    labels: ArrayLike,
    method: Method,
    increasing: bool,
    groups: Sequence[Hashable] | None,
    folds: int,
) -> Float64 | None:
    """(n,) for each row the prediction of a fit without it, NaN for an unknown score; ``None`` as ``held_out``."""
    usable = np.isfinite(numbers(scores, "scores", 1))
    x, y, _ = _rows(scores, labels)
    of = [group for group, use in zip(groups, usable, strict=True) if use] if groups is not None else None
    fold = deal_folds(y, of, folds)
    if fold is None:
        return None
    predicted = np.empty(len(y))
    for i in range(int(fold.max()) + 1):
        held = fold == i
        made = Calibration(method, increasing, {}, **_fit(x[~held], y[~held], method, increasing))
        predicted[held] = made._apply(x[held])
    found = np.full(len(usable), np.nan)
    found[usable] = predicted
    return found


def _auroc(x: Float64, y: Float64) -> float:
    """Probability that a true row scores above a false one, ties half."""
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = y.sum()
    return float(
        (ranks[y == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(values[inverse]) - positives))
    )
