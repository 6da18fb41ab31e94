"""Map a raw score to a probability, for the configuration that the map was fitted for.

Fitting uses scikit-learn; applying needs only numpy. ``shared_core.calibration.io`` reads and writes files.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared_core.calibration.binding import BindingValue, Bound, plain_questions
from shared_core.calibration.held_out import auroc, calibration_error, import_module, predict_held_out
from shared_core.errors import CalibrationError, CalibrationInputError, InputError
from shared_core.uncertainty.arrays import Float64, numbers

VERSION = 1
LEAST_ROWS = 20
"""Fewest rows that a calibration of one score is fitted on."""
LEAST_EACH = 5
"""Fewest rows of each kind (event held, event did not hold)."""
_REFIT = "Calibrate this configuration: selfreflect calibrate"
PLATT_BELOW = 200
"""``method="auto"`` fits Platt's two parameters to fewer rows than this, isotonic regression to more."""
Method = Literal["isotonic", "platt"]
FitMethod = Literal["auto", "isotonic", "platt"]
ThresholdRule = Literal["balanced_accuracy", "target_accuracy"]


@dataclass(frozen=True, slots=True)
class Calibration(Bound):
    """Monotone map from a raw score to the probability of an event.

    >>> curve = Calibration("isotonic", increasing=False, bound_to={"model": "tiny"}, points=((-8, 0.9), (-2, 0.1)))
    >>> curve.probability(-5.0)
    0.5
    >>> curve.probability(None) is None  # an unknown score has an unknown probability
    True

    Attributes:
        method: ``isotonic`` (piecewise linear through ``points``) or ``platt`` (logistic in the score).
        increasing: whether a higher score means a higher probability; ``False`` for uncertainties.
        bound_to: configuration that it holds for: model, estimator, k, layer, hidden, reader, retriever, …
        event: the event whose probability it gives, in words.
        points: (score, probability) knots of ``isotonic``, in rising order of score.
        slope, intercept: parameters of ``platt``: ``1 / (1 + exp(-(slope · score + intercept)))``.
        low, high: for ``platt``, range of the scores it was fitted on; scores outside are clipped to it.
        floor, ceiling: for ``platt``, bounds on the probability, however steep the curve is.
        threshold: raw score chosen for a decision; ``None`` if there is none, or none meets the target.
        n, positives, unknown: rows it was fitted on, rows among them where the event held, and rows left out because
            their score was not finite.
        metrics: figures of the fit: ``auroc``, ``brier_constant`` (the base rate for every row), ``brier`` and ``ece``
            (both out of fold), and ``brier_before``, ``ece_before`` if the raw scores already lie in [0, 1].
        questions: digests of the questions it was fitted on (``binding.question_digest``), if known.
        signals: drift signals of these questions (``DriftWatch``).
    """

    _what: ClassVar[str] = "The calibration"
    _refit: ClassVar[str] = _REFIT
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
    signals: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the map is monotone and within [0, 1], and keep read-only copies."""
        self._keep_copies()
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        object.__setattr__(self, "points", tuple((float(x), float(y)) for x, y in self.points))
        problem = self._problem()
        if problem:
            raise CalibrationError(f"Invalid calibration: {problem}.", hint=_REFIT)

    def _problem(self) -> str:
        if self.version != VERSION:
            return f"its version is {self.version!r}, expected {VERSION}"
        if self.method not in ("isotonic", "platt"):
            return f"its method is {self.method!r}"
        if self.increasing not in (True, False):
            return f"its direction is {self.increasing!r}"
        if self.threshold is not None and not math.isfinite(self.threshold):
            return "its threshold is not finite"
        if not 0 <= self.floor <= self.ceiling <= 1:
            return "its floor and ceiling are not probabilities"
        if any(end is not None and not math.isfinite(end) for end in (self.low, self.high)):
            return "its range is not finite"
        if self.low is not None and self.high is not None and self.low > self.high:
            return "its range ends before it begins"
        if self.method == "platt":
            if not (math.isfinite(self.slope) and math.isfinite(self.intercept)):
                return "its slope or intercept is not finite"
            return "" if self.slope == 0 or (self.slope > 0) == self.increasing else "its slope has the wrong sign"
        if not self.points:
            return "it has no points"
        x, y = np.array(self.points).T
        if not (np.isfinite(x).all() and np.all((y >= 0) & (y <= 1))):
            return "a point is not finite or not a probability"
        rising = np.diff(y) >= 0 if self.increasing else np.diff(y) <= 0
        return "" if np.all(np.diff(x) > 0) and rising.all() else "its points are not monotone"

    def __hash__(self) -> int:
        return hash((self.method, self.increasing, self.event, self.points, self.slope, self.intercept))

    def probability(self, score: float | None) -> float | None:
        """Return the probability at ``score``, in [0, 1]; ``None`` (unknown) for ``None``, NaN and infinities."""
        if score is None or not math.isfinite(score):
            return None
        return float(self._apply(np.array([float(score)]))[0])

    def probabilities(self, scores: Sequence[float | None]) -> list[float | None]:
        """Return the ``probability`` at each score."""
        return [self.probability(s) for s in scores]

    def _apply(self, scores: Float64) -> Float64:
        if self.method == "isotonic":
            x, y = np.array(self.points).T
            return np.asarray(np.clip(np.interp(scores, x, y), 0.0, 1.0))
        scores = np.clip(scores, -np.inf if self.low is None else self.low, np.inf if self.high is None else self.high)
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-(self.slope * scores + self.intercept)))
        return np.asarray(np.clip(p, self.floor, self.ceiling))

    def with_threshold(self, threshold: float | None, rule: str) -> Calibration:
        """Return a copy with this threshold."""
        return dataclasses.replace(self, threshold=threshold, threshold_rule=rule)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold."""
        left_out = ("questions", "signals")
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in left_out}
        return {
            **plain,
            "bound_to": dict(self.bound_to),
            "metrics": dict(self.metrics),
            "points": [list(p) for p in self.points],
            **plain_questions(self.questions, self.signals),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Calibration:
        """Build a calibration from ``to_dict``'s output; CalibrationError for anything else."""
        known = {f.name for f in dataclasses.fields(cls)}
        try:
            if set(data) - known:
                raise ValueError(f"unknown entries {sorted(set(data) - known)}")
            values: dict[str, Any] = {**data, "points": tuple((float(x), float(y)) for x, y in data.get("points", ()))}
            if values.get("method") == "platt" and "ceiling" not in values and values.get("n"):
                values |= _bounds(values["positives"], values["n"])  # files of early versions have no bounds
            return cls(**values)
        except (TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"Not a calibration: {error}.", hint=_REFIT) from error


def fit_calibration(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    bound_to: Mapping[str, BindingValue],
    method: FitMethod = "isotonic",
    increasing: bool = False,
    event: str = "the answer is right",
    groups: Sequence[Hashable] | None = None,
    questions: Sequence[str] = (),
) -> Calibration:
    """Fit a calibration with scikit-learn.

    Isotonic values are kept within [1/(n+2), 1 - 1/(n+2)]. Platt's targets are smoothed as in Platt (1999), and no
    probability goes beyond them: at most (r+1)/(r+2) after r rows where the event held, at least 1/(w+2) after w rows
    where it did not (Laplace's rule of succession). The curve is constant outside the range of scores seen. Rows
    whose score is not finite are left out and counted.

    Args:
        scores: (n,) raw scores.
        labels: (n,) of 0/1 or booleans, whether the event held.
        method: ``isotonic`` needs hundreds of rows, ``platt`` works with few; ``auto`` chooses by their number.
        increasing: whether the event is more likely at higher scores; ``False`` for uncertainties.
        groups: (n,) group of each row; rows of one group are held out together.
        questions: digests of the questions that the rows came from.

    Raises:
        CalibrationError: fewer than ``LEAST_ROWS`` rows, or than ``LEAST_EACH`` of a kind.
        InputError: lengths differ, a label is not 0/1, or the method is unknown.
        MissingDependencyError: scikit-learn is not installed.
    """
    if method not in ("auto", "isotonic", "platt"):
        raise InputError(f"Unknown method {method!r}.", hint="auto, isotonic or platt")
    x, y, unknown = _rows(scores, labels)
    positives = int(y.sum())
    if len(x) < LEAST_ROWS or min(positives, len(x) - positives) < LEAST_EACH:
        more = f": {unknown} more have an unknown score" if len(x) else f": every score, of {unknown} rows, is unknown"
        hint = f"Give at least {LEAST_ROWS} questions: {LEAST_EACH} or more answered right, and as many wrong."
        if len(x) >= LEAST_ROWS:
            scarce = "right" if positives < LEAST_EACH else "wrong"
            hint = f"Add questions that are answered {scarce}: it takes {LEAST_EACH} or more of each kind."
        raise CalibrationInputError(
            f"{len(x)} rows with {positives} positives are not enough to calibrate{more if unknown else ''}.", hint=hint
        )
    if method == "auto":
        method = "platt" if len(x) < PLATT_BELOW else "isotonic"
    made = _fit(x, y, method, increasing)
    held = held_out(scores, labels, method=method, increasing=increasing, groups=groups)
    return Calibration(
        method,
        increasing,
        bound_to,
        event,
        **made,
        n=len(x),
        positives=positives,
        unknown=unknown,
        metrics=_metrics(x, y, increasing, held),
        questions=tuple(dict.fromkeys(questions)),
    )


def held_out(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    method: Method,
    increasing: bool = False,
    groups: Sequence[Hashable] | None = None,
) -> list[float | None] | None:
    """Predict each row by a fit without it and without its group; the out-of-fold metrics come from these.

    Arguments as of ``fit_calibration``. A row whose score is not finite has ``None``; and so has the whole, if one kind
    of label is too rare to be held out.
    """
    usable = np.isfinite(numbers(scores, "scores", 1))
    x, y, _ = _rows(scores, labels)
    of = [group for group, use in zip(groups, usable, strict=True) if use] if groups is not None else None

    def predict(rest: NDArray[np.bool_], held: NDArray[np.bool_]) -> Float64:
        return Calibration(method, increasing, {}, **_fit(x[rest], y[rest], method, increasing))._apply(x[held])

    predicted = predict_held_out(y, of, predict)
    if predicted is None:
        return None
    known = iter(predicted)
    return [float(next(known)) if use else None for use in usable]


def choose_threshold(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    rule: ThresholdRule = "balanced_accuracy",
    target: float | None = None,
    increasing: bool = False,
) -> float | None:
    """Choose the raw score that best separates true from false events; a score equal to it counts as below.

    It is midway between two neighbours; ``None`` if no threshold reaches the target.

    Args:
        scores, labels, increasing: see ``fit_calibration``. With ``increasing=False`` the event is predicted where
            score ≤ threshold. For SeaKR's gate the event is "right without retrieval": retrieve above the threshold.
        rule: ``balanced_accuracy`` maximises the mean recall of both classes; ``target_accuracy`` accepts as many rows
            as possible while at least ``target`` of the accepted ones are true.
        target: share in (0, 1], for ``target_accuracy``.

    Raises:
        CalibrationError: there are no usable rows, or for ``balanced_accuracy`` only one kind of label.
        InputError: see ``fit_calibration``; or the target is missing or out of range.
    """
    x, y, _ = _rows(scores, labels)
    if len(x) == 0 or (rule == "balanced_accuracy" and y.min() == y.max()):
        raise CalibrationError("No threshold can be chosen from these rows.", hint="Give right and wrong answers.")
    if rule == "target_accuracy" and (target is None or not 0 < target <= 1):
        raise InputError(f"target must be in (0, 1], not {target!r}.")
    sign = 1.0 if increasing else -1.0
    order = np.argsort(-sign * x, kind="stable")  # most likely first
    x, y = x[order], y[order]
    last = np.append(np.flatnonzero(np.diff(x)), len(x) - 1)  # equal scores fall on one side
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
    # Every row is accepted: place the threshold just beyond the last one.
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
    return (_isotonic if method == "isotonic" else _platt)(x, y, increasing)


def _isotonic(x: Float64, y: Float64, increasing: bool) -> dict[str, Any]:
    margin = 1.0 / (len(x) + 2)
    regression = import_module("sklearn.isotonic").IsotonicRegression
    model = regression(y_min=margin, y_max=1 - margin, increasing=increasing, out_of_bounds="clip").fit(x, y)
    # Two knots may round to the same float: keep one, so that scores rise strictly.
    knots: dict[float, float] = dict(zip(map(float, model.X_thresholds_), map(float, model.y_thresholds_)))
    return {"points": tuple(sorted(knots.items()))}


def _platt(x: Float64, y: Float64, increasing: bool) -> dict[str, Any]:
    bounds = _bounds(float(y.sum()), float(len(y)))
    targets = np.where(y == 1, bounds["ceiling"], bounds["floor"])
    centre, spread = float(np.median(x)), float(np.std(x)) or 1.0
    z = ((x - centre) / spread)[:, None]
    model = import_module("sklearn.linear_model").LogisticRegression(C=1e6, max_iter=1000)
    classes = np.repeat([1, 0], len(x))
    model.fit(np.concatenate([z, z]), classes, sample_weight=np.concatenate([targets, 1 - targets]))
    slope = float(model.coef_[0, 0]) / spread
    if slope == 0 or (slope > 0) != increasing:  # the score does not predict in its direction: use the base rate
        rate = float(targets.mean())
        return {"slope": 0.0, "intercept": math.log(rate / (1 - rate)), **bounds}
    ends = {"low": float(x.min()), "high": float(x.max())}
    return {"slope": slope, "intercept": float(model.intercept_[0]) - slope * centre, **ends, **bounds}


def _bounds(positives: float, n: float) -> dict[str, float]:
    """Bound probabilities by Laplace's rule: n rows never justify 0 or 1."""
    return {"floor": 1 / (n - positives + 2), "ceiling": (positives + 1) / (positives + 2)}


def _metrics(x: Float64, y: Float64, increasing: bool, held: Sequence[float | None] | None) -> dict[str, float]:
    found = {"auroc": auroc(x if increasing else -x, y), "brier_constant": float(np.mean((y - y.mean()) ** 2))}
    raw = x if increasing else 1 - x
    if raw.min() >= 0 and raw.max() <= 1:
        found |= {"brier_before": float(np.mean((raw - y) ** 2)), "ece_before": calibration_error(raw, y)}
    if held is not None:
        predicted = np.array([p for p in held if p is not None])  # rows of known score, as in x and y
        found |= {"brier": float(np.mean((predicted - y) ** 2)), "ece": calibration_error(predicted, y)}
    return found
