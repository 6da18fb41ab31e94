"""A stack: the probability that a claim is right from what several witnesses say, of which some may be silent.

Logistic in the witnesses' log-odds, with a weight of its own for each that is silent. Fitting goes through
scikit-learn; applying needs nothing. Bound, like a calibration, to the configuration it was fitted for.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.calibration.binding import BindingValue, plain_questions, require_same
from shared_core.calibration.calibration import Calibration
from shared_core.calibration.guarantees import FittedGuarantee
from shared_core.calibration.held_out import FOLDS, calibration_error, deal_folds
from shared_core.errors import CalibrationError, CalibrationInputError, MissingDependencyError
from shared_core.uncertainty.arrays import Float64

VERSION = 1
LEAST = 40
"""Claims needed at least, right and wrong ones together; five of each kind."""
STRENGTH = 0.3
"""Inverse of the L2 penalty on a stack's weights."""
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
        questions: digests of those that it was fitted on (``bindings.question_digest``), where they are known.
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
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no stack; keep read-only copies."""
        object.__setattr__(self, "bound_to", MappingProxyType(dict(self.bound_to)))
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        object.__setattr__(self, "questions", tuple(self.questions))
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
        require_same("The calibration of claims", self.bound_to, configuration, hint=_REFIT)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "questions"}
        lists = {name: list(plain[name]) for name in ("names", "weights", "silent")}
        known = plain_questions(self.questions)
        return {**plain, **lists, "bound_to": dict(self.bound_to), "metrics": dict(self.metrics), **known}

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
    strength: float = STRENGTH,
    folds: int = FOLDS,
    groups: Sequence[Hashable] | None = None,
    questions: Sequence[str] = (),
) -> Stack:
    """Fit a stack on claims that were judged.

    Args:
        names: of the witnesses.
        said: (claims, witnesses), what each said of each claim.
        right: (claims,) whether the claim was right.
        bound_to: the configuration it holds for.
        strength: inverse of the L2 penalty.
        folds: for the metrics, which are of claims not fitted on.
        groups: (claims,) the question of each; claims of one question are held out together.
        questions: digests of all that were asked.

    Raises:
        CalibrationError: fewer than ``LEAST`` claims of which any witness says anything, or nearly all of a kind.
        MissingDependencyError: scikit-learn is not installed.
    """
    kept = _heard(said)
    x, y = _figures_of(said, kept), np.array([bool(right[i]) for i in kept])
    positives = int(y.sum())
    if len(kept) < LEAST or min(positives, len(kept) - positives) < _FEWEST:
        raise CalibrationInputError(
            f"{len(kept)} claims, {positives} of them right, are too few to fit how far witnesses are to be believed "
            f"(of {len(said) - len(kept)} more no witness said anything).",
            hint=f"Give questions for {LEAST} claims or more, with at least {_FEWEST} right and {_FEWEST} wrong ones.",
        )
    model = _logistic(x, y, strength)
    slopes = model.coef_[0]
    count = len(names)
    return Stack(
        tuple(names), tuple(map(float, slopes[:count])), tuple(map(float, slopes[count:])),
        float(model.intercept_[0]), dict(bound_to or {}), len(kept), positives,
        _metrics(y.astype(np.float64), _predict_held_out(x, y, _some(groups, kept), strength, folds)),
        questions=tuple(dict.fromkeys(questions)),
    )  # fmt: skip


def held_out_of_stack(
    said: Sequence[Sequence[float | None]],
    right: Sequence[bool],
    *,
    strength: float = STRENGTH,
    folds: int = FOLDS,
    groups: Sequence[Hashable] | None = None,
) -> list[float | None] | None:
    """For each claim the probability by a stack fitted without it (and its group): what the metrics are made of.

    Args:
        said, right, strength, folds, groups: as ``fit_stack``.

    Returns:
        In order, ``None`` where no witness says anything; ``None`` for all where they cannot be held out.
    """
    kept = _heard(said)
    y = np.array([bool(right[i]) for i in kept])
    predicted = _predict_held_out(_figures_of(said, kept), y, _some(groups, kept), strength, folds)
    if predicted is None:
        return None
    found: list[float | None] = [None] * len(said)
    for i, p in zip(kept, predicted):
        found[i] = float(p)
    return found


def _logistic(x: Float64, y: NDArray[np.bool_], strength: float) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose="Fitting a stack of witnesses") from error
    return LogisticRegression(C=strength, max_iter=1000).fit(x, y)


def _predict_held_out(
    x: Float64, y: NDArray[np.bool_], groups: Sequence[Hashable] | None, strength: float, folds: int
) -> Float64 | None:
    """(claims,) P(right) of each by a fit without its fold; ``None`` where they cannot be dealt."""
    fold = deal_folds(y, groups, folds)
    if fold is None:
        return None
    found = np.empty(len(y))
    for i in range(int(fold.max()) + 1):
        held = fold == i
        found[held] = _logistic(x[~held], y[~held], strength).predict_proba(x[held])[:, 1]
    return found


def _metrics(y: Float64, held: Float64 | None) -> dict[str, float]:
    rate = float(y.mean())
    found = {"brier_constant": rate * (1 - rate)}
    if held is not None:
        from sklearn.metrics import brier_score_loss, roc_auc_score

        found["auroc"] = float(roc_auc_score(y, held))
        found["brier"] = float(brier_score_loss(y, held))
        found["ece"] = calibration_error(held, y)
    return found


def _heard(said: Sequence[Sequence[float | None]]) -> list[int]:
    """Numbers of the claims of which a witness says something."""
    return [i for i, row in enumerate(said) if any(p is not None and math.isfinite(p) for p in row)]


def _some(groups: Sequence[Hashable] | None, kept: Sequence[int]) -> list[Hashable] | None:
    return None if groups is None else [groups[i] for i in kept]


def _log_odds(p: float) -> float:
    if p <= 0 or p >= 1:
        return math.copysign(_LIMIT, p - 0.5)
    return min(max(math.log(p) - math.log1p(-p), -_LIMIT), _LIMIT)


def _figures_of(said: Sequence[Sequence[float | None]], kept: Sequence[int]) -> Float64:
    """(claims kept, 2 · witnesses): the log-odds of what each says, then 1 for each that is silent."""
    return np.array([_figures(said[i]) for i in kept])


def _figures(row: Sequence[float | None]) -> list[float]:
    quiet = [p is None or not math.isfinite(p) for p in row]
    heard = [0.0 if q or p is None else _log_odds(p) for p, q in zip(row, quiet)]
    return [*heard, *(float(q) for q in quiet)]
