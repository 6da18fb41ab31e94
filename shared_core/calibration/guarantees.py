"""Fit a statistical guarantee for one configuration: threshold, conditions, and share of claims kept."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from shared_core.abstention.conformal import (
    CalibratedThreshold,
    GuaranteeKind,
    conformal_factuality_threshold,
    learn_then_test_threshold,
    risk_control_threshold,
    scored_answers,
)
from shared_core.abstention.utility import exact, read_level
from shared_core.calibration.binding import Bound, plain_questions
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.support.pickling import Portable
from shared_core.types import MetadataValue

VERSION = 1
GUARANTEES: tuple[GuaranteeKind, ...] = get_args(GuaranteeKind)
_REFIT = "Fit it for this configuration: selfreflect calibrate guarantee QUESTIONS"
_GRID = 100  # learn then test holds at hundredths


@dataclass(frozen=True, slots=True)
class FittedGuarantee(Bound):
    """Threshold above which claims may be shown so that a promise about them holds.

    >>> answers = [[i / 100] for i in range(100)]  # one claim each, right from a score of .5 on
    >>> made = fit_guarantee("conformal_risk_control", answers, [[a[0] >= 0.5] for a in answers], target_accuracy=0.8)
    >>> made.n, made.vacuous
    (100, False)

    Attributes:
        threshold: claims scored above it are kept; +inf keeps none, -inf all of known score.
        target_accuracy: ρ*, the promised accuracy of the kept claims.
        alpha: α, the probability that the promise may fail (unused by conformal risk control, which is on average).
        n, needed_n: calibration answers, and the fewest that the promise needs.
        text: the promise and its conditions in words.
        claims, kept, right: claims of known score in those answers, those above the bar, and right ones.
        signals: drift signals of the calibration answers (``DriftWatch``).
        questions: digests of the questions it was fitted on (``binding.question_digest``), if known.
        reused: number of those questions that the underlying calibrations were fitted on, too.
    """

    _what: ClassVar[str] = "The guarantee"
    _refit: ClassVar[str] = _REFIT
    kind: GuaranteeKind
    threshold: float
    target_accuracy: float
    alpha: float
    n: int
    needed_n: int
    text: str
    claims: int = 0
    kept: int = 0
    right: int = 0
    signals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    bound_to: Mapping[str, MetadataValue] = field(default_factory=dict)
    version: int = VERSION
    questions: tuple[str, ...] = ()
    reused: int = 0

    def __post_init__(self) -> None:
        """Check the numbers and keep read-only copies."""
        self._keep_copies()
        sound = self.kind in GUARANTEES and not math.isnan(self.threshold) and 0 <= self.kept <= self.claims
        if self.version != VERSION or not sound:
            raise CalibrationError("Invalid guarantee.", hint=_REFIT)
        if self.n < self.needed_n:
            raise CalibrationError(
                f"{self.n} calibration answers are too few for {self.kind}: at least {self.needed_n} are needed.",
                hint="Give more questions, or promise less (a lower target accuracy, a larger alpha).",
            )

    def __hash__(self) -> int:
        return hash((self.kind, self.threshold, self.n, self.text))

    @property
    def kept_share(self) -> float:
        """Share of the calibration claims of known score that it keeps; 0 without any."""
        return self.kept / self.claims if self.claims else 0.0

    @property
    def vacuous(self) -> bool:
        """Whether it keeps nothing, so that the promise holds trivially."""
        return self.kept == 0

    @property
    def bar(self) -> float:
        """Score that claims must exceed to be shown: the threshold, or ρ* if that is higher.

        A higher threshold keeps the promise of the conformal kinds. Learn-then-test holds only at the thresholds that
        were tested: there ρ* is rounded up to the next one.
        """
        least = self.target_accuracy
        if self.kind == "learn_then_test":
            least = math.ceil(exact(least) * _GRID) / _GRID
        return max(self.threshold, least)

    def describe(self) -> dict[str, Any]:
        """Describe it for an answer's metadata: plain values, infinite thresholds as ``None``."""
        words = self.text
        if self.reused:
            words = (
                f"In doubt: the scores were fitted on {self.reused} of the calibration's questions, so they are better "
                f"on these than on new ones. {words}"
            )
        if self.vacuous:
            words = f"Vacuous: it keeps none of {self.claims} calibration claims, so it always abstains. {words}"
        return {
            "kind": self.kind,
            "target_accuracy": self.target_accuracy,
            "alpha": self.alpha if self.kind != "conformal_risk_control" else None,
            "n": self.n,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "kept_share": self.kept_share,
            "vacuous": self.vacuous,
            "reused": self.reused,
            "text": words,
        }

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold; an infinite threshold becomes ``"inf"`` or ``"-inf"``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("questions", "reused")}
        plain["threshold"] = self.threshold if math.isfinite(self.threshold) else str(self.threshold)
        signals = {name: list(values) for name, values in self.signals.items()}
        known = {**plain_questions(self.questions, {}), **({"reused": self.reused} if self.reused else {})}
        return {**plain, "signals": signals, "bound_to": dict(self.bound_to), **known}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FittedGuarantee:
        """Build a guarantee from ``to_dict``'s output; CalibrationError for anything else."""
        try:
            return cls(**{**data, "threshold": float(data["threshold"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"Not a guarantee: {error}.", hint=_REFIT) from error


def fit_guarantee(
    kind: GuaranteeKind,
    scores: Sequence[Sequence[float | None]],
    labels: Sequence[Sequence[bool]],
    *,
    target_accuracy: float,
    alpha: float = 0.1,
    signals: Mapping[str, Sequence[float]] | None = None,
    bound_to: Mapping[str, MetadataValue] | None = None,
    questions: Sequence[str] = (),
    reused: int = 0,
) -> FittedGuarantee:
    """Fit a guarantee to answers whose claims were judged.

    ``conformal_factuality``: with probability ≥ 1-α the kept claims of a new answer are right to at least ρ*.
    ``conformal_risk_control``: their expected false share is at most 1-ρ*. ``learn_then_test``: the same, with
    probability ≥ 1-α over the calibration answers.

    Args:
        scores: per calibration answer the scores of its claims in [0, 1], fixed before; ``None`` is never kept.
        labels: whether each of these claims is right.
        target_accuracy: ρ*, in (0, 1).
        alpha: α, in (0, 1).
        signals: drift signals (``DriftWatch``), one value per answer and signal.
        questions: digests of the questions that were asked.
        reused: number of those that the scores were fitted on.

    Raises:
        SettingsError: unknown kind, or ρ* or α out of range.
        InputError: scores and labels do not fit together.
        CalibrationError: fewer answers than the promise needs.
        MissingDependencyError: learn then test without MAPIE.
    """
    if kind not in GUARANTEES:
        raise SettingsError(f"Unknown guarantee {kind!r}.", hint=f"Choose from: {', '.join(GUARANTEES)}.")
    read_level(target_accuracy, "target_accuracy")
    read_level(alpha, "alpha")
    made: CalibratedThreshold
    if kind == "conformal_factuality":
        made = conformal_factuality_threshold(scores, labels, alpha, target_accuracy)
    elif kind == "conformal_risk_control":
        made = risk_control_threshold(scores, labels, target_accuracy)
    else:
        made = learn_then_test_threshold(scores, labels, target_accuracy, 1 - alpha)
    told, threshold = made.guarantee, made.threshold
    claims = [pair for answer in scored_answers(scores, labels) for pair in answer]
    right = sum(is_right for _, is_right in claims)
    text = told.text
    if claims and right in (0, len(claims)):
        text += f" All {len(claims)} calibration claims are {'right' if right else 'wrong'}."
    bare = FittedGuarantee(kind, threshold, target_accuracy, alpha, told.n, told.needed_n, text)
    return replace(
        bare,
        claims=len(claims),
        kept=sum(score > bare.bar for score, _ in claims),
        right=right,
        signals={name: tuple(values) for name, values in (signals or {}).items()},
        bound_to=bound_to or {},
        questions=tuple(dict.fromkeys(questions)),
        reused=reused,
    )


WINDOW = 50
"""Questions in a window."""
LEVEL = 0.01
"""Largest probability of a false alarm per window."""
_SHUFFLES = 1999


def two_sample_p(reference: Sequence[float], recent: Sequence[float], *, shuffles: int = _SHUFFLES) -> float:
    """Return the p-value of the two-sample Kolmogorov–Smirnov test, by permutation: at least 1 / (shuffles + 1).

    InputError if a sample is empty or not finite.
    """
    values = np.concatenate([np.asarray(reference, dtype=np.float64), np.asarray(recent, dtype=np.float64)])
    if not len(reference) or not len(recent) or not np.isfinite(values).all():
        raise InputError("A two-sample test needs finite numbers in both samples.")
    order = np.argsort(values, kind="stable")
    last = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)  # equal values make one step
    own = (np.arange(len(values)) >= len(reference))[order]
    generator = np.random.default_rng(0)
    drawn = generator.permuted(np.broadcast_to(own, (shuffles, len(own))), axis=1)
    distances = _distance(np.vstack([own, drawn]), last, len(reference), len(recent))
    return float((1 + np.sum(distances[1:] >= distances[0] - 1e-12)) / (shuffles + 1))


def _distance(recent: NDArray[np.bool_], last: NDArray[np.int64], n: int, m: int) -> NDArray[np.float64]:
    """Return (rows,) the largest difference of the two distribution functions.

    ``recent``: (rows, n + m) whether the value belongs to the recent sample, in order of value.
    """
    second = np.cumsum(recent, axis=1)[:, last]
    first = (last + 1)[None, :] - second
    distances: NDArray[np.float64] = np.abs(first / n - second / m).max(axis=1)
    return distances


class DriftWatch(Portable):
    """Watch that compares each full window of questions with the calibration's, signal by signal.

    Each signal is tested at ``LEVEL`` over the number of signals (Bonferroni). The result of a window stands until the
    next one is full. Thread-safe.

    >>> watch = DriftWatch({"claims": [1.0, 2.0, 3.0] * 20}, window=30)
    >>> for _ in range(30):
    ...     watch.see({"claims": 9.0})
    >>> sorted(watch.drifted)
    ['claims']

    Args:
        reference: values of the calibration by signal; nothing is watched without any.
        window: questions compared at a time.
    """

    def __init__(self, reference: Mapping[str, Sequence[float]], *, window: int = WINDOW) -> None:
        self._reference = {name: list(values) for name, values in reference.items() if len(values)}
        self._window = window
        self._seen: dict[str, list[float]] = {name: [] for name in self._reference}
        self._checked, self._drifted = 0, dict[str, float]()
        self._lock = threading.Lock()

    def see(self, signals: Mapping[str, float]) -> None:
        """Add a question's signals; unwatched ones are ignored."""
        with self._lock:
            for name, seen in self._seen.items():
                if name in signals:
                    seen.append(signals[name])
            if not self._seen or min(map(len, self._seen.values())) < self._window:
                return
            found = {name: two_sample_p(self._reference[name], seen) for name, seen in self._seen.items()}
            self._drifted = {name: p for name, p in found.items() if p <= LEVEL / len(found)}
            self._checked += self._window
            self._seen = {name: [] for name in self._reference}

    @property
    def checked(self) -> int:
        """Number of questions in full windows so far."""
        return self._checked

    @property
    def drifted(self) -> dict[str, float]:
        """Signals that drifted in the last full window, with their p-values."""
        return dict(self._drifted)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signals watched."""
        return tuple(self._reference)
