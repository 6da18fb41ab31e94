"""Ranking, rejection and calibration metrics of confidences, in numpy.

``confidence`` is higher for surer answers; where only the ranking counts any scale will do (``-uncertainty``). NaN,
``None`` and -inf are unknown and rank as least confident. Calibration metrics need probabilities, and count unknown as
0. ``correct`` is 0/1, or a quality in [0, 1] where documented.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared_core.abstention import realised_utility
from shared_core.calibration import held_out
from shared_core.errors import InputError

Ties = Literal["stable", "mean"]
"""Order of equal confidences: ``stable`` keeps the given order (as published metrics do), ``mean`` takes the
expectation over all orders, which does not depend on the order of the data."""

Floats = NDArray[np.float64]


def auroc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Return P(a right answer is more confident than a wrong one), ties counting half; NaN without both kinds.

    >>> auroc([0.9, 0.8, 0.3, 0.2], [1, 0, 1, 0])
    0.75

    Args:
        confidence: (N,) any scale.
        correct: (N,) 0/1.

    Raises:
        InputError: different lengths, or ``correct`` is not 0/1.
    """
    sure, right = _arrays(confidence, correct)
    if not np.isin(right, (0.0, 1.0)).all():
        raise InputError("correct must be 0 or 1 for every answer.", hint="The arguments are (confidence, correct).")
    return held_out.auroc(sure, right) if len(set(right)) == 2 else math.nan


class RiskCoverage(NamedTuple):
    """Result of ``risk_coverage_curve``: one point per number of answers given, the most confident first.

    >>> risk_coverage_curve([0.9, 0.2], [1, 0]).risk.tolist()
    [0.0, 0.5]

    Attributes:
        coverage: (N,) share of questions answered, 1/N … 1.
        risk: (N,) mean error of these answers.
        threshold: (N,) confidence of the last of them.
    """

    coverage: Floats
    risk: Floats
    threshold: Floats


def risk_coverage_curve(confidence: ArrayLike, correct: ArrayLike, *, ties: Ties = "stable") -> RiskCoverage:
    """Compute the error rate of the most confident answers for every share of questions answered.

    Args:
        confidence: (N,) any scale.
        correct: (N,) quality in [0, 1]; the error is one minus it.

    Raises:
        InputError: different lengths, no answers, or a quality outside [0, 1].
    """
    sure, right = _arrays(confidence, correct, empty=False)
    order, ordered = _by_confidence(sure, right, ties)
    n = np.arange(1, len(sure) + 1)
    return RiskCoverage(n / len(sure), np.cumsum(1.0 - ordered) / n, sure[order])


def aurc(confidence: ArrayLike, correct: ArrayLike, *, ties: Ties = "stable") -> float:
    """Return the area under the risk-coverage curve: its mean risk over the coverages 1/N … 1. Lower is better.

    Arguments and errors as for ``risk_coverage_curve``. In [0, 1].
    """
    return float(risk_coverage_curve(confidence, correct, ties=ties).risk.mean())


def prediction_rejection_ratio(
    confidence: ArrayLike, quality: ArrayLike, *, max_rejection: float = 1.0, ties: Ties = "stable"
) -> float:
    """Return PRR: the gain of rejecting the least confident answers first, as a share of an oracle's gain.

    (area - random) / (oracle - random), where area is the mean quality of the remaining answers over rejecting 0, 1, …
    of them, and random is the mean quality: 1 for the oracle's order, 0 for a random one; NaN if all are equally good.

    Source: lm-polygraph ``PredictionRejectionArea`` and ``normalize_metric``, with the exact expectation of a random
    order instead of 1,000 shuffles.

    Args:
        confidence: (N,) any scale.
        quality: (N,) in [0, 1], or 0/1.
        max_rejection: reject at most this share, in (0, 1].

    Raises:
        InputError: different lengths, no answers, a quality outside [0, 1], or a share too small to reject any.
    """
    sure, values = _arrays(confidence, quality, empty=False)
    if not 0.0 < max_rejection <= 1.0 or int(max_rejection * len(sure)) < 1:
        raise InputError(f"max_rejection={max_rejection!r} of {len(sure)} answers rejects none.")
    oracle, random = _rejection_area(values, values, max_rejection, ties), float(values.mean())
    if values.min() == values.max():
        return math.nan
    return (_rejection_area(sure, values, max_rejection, ties) - random) / (oracle - random)


def _rejection_area(sure: Floats, values: Floats, max_rejection: float, ties: Ties) -> float:
    _, ordered = _by_confidence(sure, values, ties)
    means = np.cumsum(ordered) / np.arange(1, len(values) + 1)
    return float(means[-int(max_rejection * len(values)) :].mean())


class ReliabilityBins(NamedTuple):
    """Result of ``reliability_bins``, (bins,) each; confidence and accuracy are NaN in empty bins.

    >>> reliability_bins([0.9, 0.8], [1, 0], bins=2).accuracy.tolist()
    [nan, 0.5]

    Attributes:
        lower, upper: a bin holds lower < confidence <= upper (the first also 0).
        size: number of answers.
        confidence: mean confidence.
        accuracy: mean correctness.
    """

    lower: Floats
    upper: Floats
    size: NDArray[np.int64]
    confidence: Floats
    accuracy: Floats


def reliability_bins(confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10) -> ReliabilityBins:
    """Compute mean confidence and accuracy in bins of equal width.

    Args:
        confidence: (N,) probabilities; unknown counts as 0.
        correct: (N,) in [0, 1].

    Raises:
        InputError: different lengths, a confidence outside [0, 1], or no bins.
    """
    _check_bins(bins)
    p, right = _probabilities(confidence, correct)
    edges = np.arange(bins + 1) / bins
    where = np.searchsorted(edges[1:-1], p, side="left")
    count = np.bincount(where, minlength=bins).astype(np.int64)
    with np.errstate(invalid="ignore"):
        sums = [np.bincount(where, weights=w, minlength=bins) / count for w in (p, right)]
    return ReliabilityBins(edges[:-1], edges[1:], count, sums[0], sums[1])


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10) -> float:
    """Return ECE: |accuracy - mean confidence| per bin, weighted by the number of answers in it.

    Source: Guo et al. 2017; bins of equal width, [0, 1/bins], then (lower, upper].

    Arguments and errors as for ``reliability_bins``. In [0, 1]; NaN without answers.
    """
    _check_bins(bins)
    return held_out.calibration_error(*_probabilities(confidence, correct), bins)


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Return the mean squared difference of confidence (unknown counts as 0) and correctness; NaN without answers.

    InputError for different lengths, or a confidence outside [0, 1].
    """
    p, right = _probabilities(confidence, correct)
    return float(np.mean((p - right) ** 2)) if len(p) else math.nan


class Kept(NamedTuple):
    """Result of ``accuracy_at``: accuracy of the answers above ρ* (NaN if none), and their share."""

    accuracy: float
    coverage: float


def accuracy_at(confidence: ArrayLike, correct: ArrayLike, target_accuracy: float) -> Kept:
    """Return accuracy and coverage of the answers with confidence > ρ*; unknown confidences are never kept.

    InputError for different lengths, no answers, or a ρ* outside [0, 1].
    """
    if not 0.0 <= target_accuracy <= 1.0:
        raise InputError(f"A target accuracy lies in (0, 1), not {target_accuracy!r}.")
    sure, right = _arrays(confidence, correct, empty=False)
    kept = sure > target_accuracy
    return Kept(float(right[kept].mean()) if kept.any() else math.nan, float(kept.mean()))


def recall_at_k(retrieved: Sequence[Any], relevant: Collection[Any], k: int) -> float:
    """Return the share of relevant ids among the first ``k`` (at least 1) retrieved; NaN if nothing is relevant."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k!r}.")
    wanted = set(relevant)
    return len(wanted & set(retrieved[:k])) / len(wanted) if wanted else math.nan


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise InputError(f"There must be at least one bin, not {bins!r}.")


def _by_confidence(sure: Floats, values: Floats, ties: Ties) -> tuple[NDArray[np.int64], Floats]:
    """Return the order by falling confidence, and the values in that order (the mean over ties, if asked)."""
    if ties not in ("stable", "mean"):
        raise InputError(f"ties must be 'stable' or 'mean', not {ties!r}.")
    order = np.argsort(-sure, kind="stable")
    if ties == "mean":
        _, group = np.unique(sure, return_inverse=True)
        values = (np.bincount(group, weights=values) / np.bincount(group))[group]
    return order, values[order]


def _arrays(confidence: ArrayLike, quality: ArrayLike, *, empty: bool = True) -> tuple[Floats, Floats]:
    try:
        sure, values = np.asarray(confidence, dtype=np.float64), np.asarray(quality, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Confidences and correctness must be numbers: {error}") from error
    if sure.ndim != 1 or sure.shape != values.shape:
        raise InputError(
            f"Confidences and correctness must be lists of one length, not of shapes {sure.shape} and {values.shape}."
        )
    if not empty and not len(sure):
        raise InputError("There are no answers to score.")
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("Correctness must be known, and in [0, 1].", hint="The arguments are (confidence, correct).")
    if np.isposinf(sure).any():
        raise InputError("A confidence is +inf.", hint="Use NaN for a failed estimate, and -u for an uncertainty u.")
    return np.where(np.isnan(sure), -np.inf, sure), values


def _probabilities(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    sure, right = _arrays(confidence, correct)
    p = np.where(np.isneginf(sure), 0.0, sure)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("Calibration metrics need confidences in [0, 1].")
    return p, right


class SelfRestraint(NamedTuple):
    """Result of ``self_restraint`` over N answers with C claims in all, N_a of the answers abstentions.

    >>> self_restraint([[True, True, False], None]).utility  # (2 - 1) / 2
    0.5

    Attributes:
        accuracy: micro: share of all claims that are true; NaN without claims.
        macro_accuracy: mean over given answers of the share of their claims that are true; NaN if all abstained.
        claims_per_answer: C / N, an abstention being 0 claims.
        claims_per_given_answer: C / (N - N_a); NaN if all abstained.
        abstention_rate: N_a / N.
        utility: mean of #true - λ·#false over all answers.
        answers: N.
    """

    accuracy: float
    macro_accuracy: float
    claims_per_answer: float
    claims_per_given_answer: float
    abstention_rate: float
    utility: float
    answers: int


def self_restraint(labels: Iterable[Sequence[bool] | None], target_accuracy: float = 0.5) -> SelfRestraint:
    """Compute accuracy, claims per answer, abstention rate and utility.

    At ρ* = 0.5 utility = claims_per_answer · (2·accuracy - 1) exactly, with the micro accuracy (not with the macro
    accuracy that tables usually show); claims_per_answer = (1 - abstention_rate) · claims_per_given_answer.

    Source: Piché et al., section 5 and equation 1.

    Args:
        labels: truth of each answer's claims; ``None`` or an empty list is an abstention.
        target_accuracy: ρ*, in (0, 1).

    Raises:
        SettingsError: ρ* is not in (0, 1).
        InputError: no answers, or a label that is neither true nor false.
    """
    answers = [[_label(value) for value in (answer if answer is not None else ())] for answer in labels]
    if not answers:
        raise InputError("There are no answers to score.")
    given = [answer for answer in answers if answer]
    true, claims = sum(map(sum, given)), sum(map(len, given))
    shares = [sum(answer) / len(answer) for answer in given]
    return SelfRestraint(
        accuracy=true / claims if claims else math.nan,
        macro_accuracy=math.fsum(shares) / len(shares) if shares else math.nan,
        claims_per_answer=claims / len(answers),
        claims_per_given_answer=claims / len(given) if given else math.nan,
        abstention_rate=1 - len(given) / len(answers),
        utility=realised_utility(true, claims - true, target_accuracy) / len(answers),
        answers=len(answers),
    )


def _label(value: Any) -> bool:
    if value not in (0, 1):  # also True, False and numpy's
        raise InputError(f"A claim is true or false, not {value!r}.", hint="Leave out claims that were not judged.")
    return bool(value)
