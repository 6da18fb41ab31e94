"""Thresholds on claim scores that come with a guarantee.

All three calibrate per *answer* (claims of one answer are not independent, answers are), on scores frozen before, for
one configuration (retriever, model, prompts, domain). Then keep exactly the claims with ``score > threshold``; a
threshold of +inf abstains always, one of -inf keeps every claim of known score.

Each threshold is a float that carries a ``Guarantee``. With fewer calibration answers than the guarantee needs the
threshold is +inf and no guarantee is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from numbers import Real
from typing import Any, Literal

from shared_core.abstention.utility import exact, read_level
from shared_core.errors import InputError, MissingDependencyError, SettingsError

GuaranteeKind = Literal["conformal_factuality", "conformal_risk_control", "learn_then_test"]

_CONDITIONS = (
    "It holds for new answers exchangeable with the {n} calibration answers: the same retriever, model, prompts and "
    "kind of questions and documents, scores fixed before calibration. {average}, not for a single question or "
    "subgroup."
)
_NEEDED: Mapping[GuaranteeKind, Callable[[Fraction, Fraction], int]] = {
    "conformal_factuality": lambda rho, alpha: math.ceil((1 - alpha) / alpha),
    "conformal_risk_control": lambda rho, alpha: math.ceil(rho / (1 - rho)),
    # Even a risk of 0 must pass the test.
    "learn_then_test": lambda rho, alpha: math.ceil(math.log(alpha) / math.log(rho) - 1e-9),
}
"""Fewest calibration answers, of ρ* and α."""
_MARGINAL = "It is an average over calibration sets and questions"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A statement that holds for answers filtered by a threshold.

    Attributes:
        level: what it is for: 1-α (conformal factuality), the target accuracy ρ* (the others).
        n: calibration answers.
        needed_n: calibration answers without which nothing but abstaining always could be guaranteed.
        text: the guarantee and its conditions in words, or why there is none.

    >>> guarantee = conformal_factuality_threshold([[0.9], [0.8]], [[True], [True]], alpha=0.1).guarantee
    >>> guarantee.n, guarantee.needed_n
    (2, 9)
    """

    kind: GuaranteeKind
    level: float
    n: int
    needed_n: int
    text: str

    @property
    def claimed(self) -> bool:
        """There were enough calibration answers to claim it."""
        return self.n >= self.needed_n


class CalibratedThreshold(float):
    """A threshold: keep the claims with ``score > threshold``. A float, with its ``guarantee``.

    >>> scores, labels = [[0.9, 0.2], [0.8, 0.4], [0.7, 0.1]], [[True, False]] * 3
    >>> threshold = conformal_factuality_threshold(scores, labels, alpha=0.25)
    >>> float(threshold), threshold.guarantee.n
    (0.4, 3)
    """

    guarantee: Guarantee

    def __new__(cls, value: float, guarantee: Guarantee) -> CalibratedThreshold:
        """A float that remembers where it comes from."""
        self = super().__new__(cls, value)
        self.guarantee = guarantee
        return self

    def __getnewargs__(self) -> tuple[float, Guarantee]:  # type: ignore[override]  # a float's are (float,)
        return (float(self), self.guarantee)

    def __repr__(self) -> str:
        return f"CalibratedThreshold({float(self)!r}, kind={self.guarantee.kind!r}, claimed={self.guarantee.claimed})"

    @property
    def threshold(self) -> float:
        """The bare number."""
        return float(self)

    def keep(self, scores: Sequence[float | None]) -> list[int]:
        """Indices of the claims to keep; those of unknown score (``None``, NaN) never are."""
        return [i for i, s in enumerate(scores) if s is not None and s > float(self)]


def factuality_scores(
    scores: Sequence[Sequence[float | None]], labels: Sequence[Sequence[bool]], accuracy: float = 1.0
) -> list[float]:
    """r of each calibration answer: the highest score s such that of its claims scored >= s fewer than ``accuracy``
    are true; -inf if there is none. Keeping claims with score > q is right for that answer whenever q >= r.

    Source: Mohri & Hashimoto, "Language models with conformal factuality guarantees", section 3.
    Args and Raises as for ``conformal_factuality_threshold``.
    """
    if isinstance(accuracy, bool) or not isinstance(accuracy, (int, float)) or not 0.0 < accuracy <= 1.0:
        raise SettingsError(f"accuracy must be above 0 and at most 1, not {accuracy!r}.")
    return [_r(claims, exact(accuracy)) for claims in scored_answers(scores, labels)]


def _r(claims: list[tuple[float, bool]], accuracy: Fraction) -> float:
    kept = true = 0
    score: float
    for score, block in groupby(claims, key=lambda c: c[0]):  # equal scores are kept or dropped together
        for _, is_true in block:
            kept, true = kept + 1, true + is_true
        if true < accuracy * kept:
            return score
    return -math.inf


def answers_needed(kind: GuaranteeKind, target_accuracy: float, alpha: float) -> int:
    """Return how many calibration answers a guarantee needs at least, whatever their scores.

    >>> answers_needed("conformal_factuality", 0.5, 0.1), answers_needed("learn_then_test", 0.9, 0.1)
    (9, 22)

    SettingsError for a ρ* or α outside (0, 1).
    """
    return _NEEDED[kind](read_level(target_accuracy, "target_accuracy"), read_level(alpha, "alpha"))


def conformal_factuality_threshold(
    scores: Sequence[Sequence[float | None]],
    labels: Sequence[Sequence[bool]],
    alpha: float = 0.1,
    accuracy: float = 1.0,
) -> CalibratedThreshold:
    """The threshold with P(kept claims are true to at least ``accuracy``) >= 1-α (conformal factuality).

    The k-th smallest of the answers' r (``factuality_scores``), k = ⌈(n+1)(1-α)⌉ computed exactly; for k > n, where
    the published code fails with an IndexError, +inf: abstain. An answer left without claims counts as a success.
    Differences to the published code: it keeps scores >= the threshold, with which the very answer that set it still
    fails, and computes k in floats, which is one too large at places.

    Source: Mohri & Hashimoto, sections 3 and 4.

    Args:
        scores: for each of n calibration answers the scores of its claims, any finite range, higher is surer;
            ``None`` and NaN are unknown and never kept.
        labels: whether each of these claims is true.
        alpha: α, in (0, 1).
        accuracy: a, in (0, 1]; 1 means no false claim at all.

    Returns:
        The threshold with its guarantee (needs n >= (1-α)/α).

    Raises:
        SettingsError: α or a out of range.
        InputError: scores and labels do not fit together.
    """
    exact_alpha = read_level(alpha, "alpha")
    r = sorted(factuality_scores(scores, labels, accuracy))
    n, needed = len(r), _NEEDED["conformal_factuality"](Fraction(1), exact_alpha)
    k = math.ceil((n + 1) * (1 - exact_alpha))
    promise = (
        f"With probability at least {float(1 - exact_alpha):.4g} a new answer's kept claims are true to at least "
        f"{accuracy:.4g} (an answer left without claims counts as a success)."
    )
    guarantee = _guarantee("conformal_factuality", float(1 - exact_alpha), n, needed, promise)
    return CalibratedThreshold(r[k - 1] if k <= n else math.inf, guarantee)


def risk_control_threshold(
    scores: Sequence[Sequence[float | None]], labels: Sequence[Sequence[bool]], target_accuracy: float
) -> CalibratedThreshold:
    """The lowest threshold t with n/(n+1)·mean L(t) + 1/(n+1) <= 1-ρ* (conformal risk control).

    L_i(t) is the false share of the claims of answer i kept at t (0 if none is), made monotone: its largest value
    over all thresholds from t upwards. It bounds E[false share of a new answer's kept claims] by 1-ρ*, which is
    "accuracy ρ*" of the answers that are given and of abstentions counted as right.

    Source: Angelopoulos et al., "Conformal risk control", section 2; Algorithm in its equation 4.

    Args:
        scores, labels: as for ``conformal_factuality_threshold``; so are the errors.
        target_accuracy: ρ*, in (0, 1).

    Returns:
        The threshold with its guarantee (needs n >= ρ*/(1-ρ*)); +inf if no threshold keeps the risk.
    """
    rho = read_level(target_accuracy, "target_accuracy")
    answers = scored_answers(scores, labels)
    n, needed = len(answers), _NEEDED["conformal_risk_control"](rho, 1 - rho)
    threshold = _lowest_threshold(answers, (1 - rho) * (n + 1) - 1)
    promise = (
        f"The expected false share among a new answer's kept claims is at most {float(1 - rho):.4g} "
        "(an answer left without claims has none)."
    )
    return CalibratedThreshold(threshold, _guarantee("conformal_risk_control", float(rho), n, needed, promise))


def _lowest_threshold(answers: list[list[tuple[float, bool]]], budget: Fraction) -> float:
    """The lowest t in {scores} and -inf with Σ L_i(t) <= budget; +inf if there is none."""
    kept, false = [0] * len(answers), [0] * len(answers)
    loss, total = [Fraction(0)] * len(answers), Fraction(0)
    events = sorted(((s, i, t) for i, claims in enumerate(answers) for s, t in claims), key=lambda e: -e[0])
    lowest = math.inf
    for score, block in groupby(events, key=lambda e: e[0]):
        if total > budget:  # L only grows as t falls
            return lowest
        lowest = score
        touched = set()
        for _, i, is_true in block:
            kept[i], false[i] = kept[i] + 1, false[i] + (not is_true)
            touched.add(i)
        for i in touched:
            raised = max(loss[i], Fraction(false[i], kept[i]))
            total, loss[i] = total + raised - loss[i], raised
    return lowest if total > budget else -math.inf


def learn_then_test_threshold(
    scores: Sequence[Sequence[float | None]],
    labels: Sequence[Sequence[bool]],
    target_accuracy: float,
    confidence: float = 0.9,
    thresholds: Sequence[float] | None = None,
) -> CalibratedThreshold:
    """The lowest threshold of a grid whose risk is at most 1-ρ* with high probability (learn then test).

    Tests the grid from the highest threshold down (fixed-sequence testing) with Hoeffding-Bentkus p-values of the
    false share per answer, both from MAPIE. Unlike conformal risk control the promise is not an average over
    calibrations: with probability ``confidence`` over the calibration answers drawn, the threshold is a good one.

    Source: Angelopoulos et al., "Learn then test"; MAPIE ``risk_control``.

    Args:
        scores, labels: as for ``conformal_factuality_threshold``.
        target_accuracy: ρ*, in (0, 1).
        confidence: 1-δ, in (0, 1).
        thresholds: the grid, chosen without looking at these data; 0, 0.01, …, 0.99 by default.

    Returns:
        The threshold with its guarantee; +inf if no threshold passes.

    Raises:
        SettingsError: ρ* or the confidence is not in (0, 1).
        InputError: scores, labels or the grid cannot be used.
        MissingDependencyError: MAPIE is not installed.
    """
    try:
        from mapie.risk_control.fwer_control import control_fwer
        from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value
    except ImportError as error:
        raise MissingDependencyError("MAPIE", extra="eval", purpose="Learn-then-test calibration") from error
    import numpy as np

    rho, sure = read_level(target_accuracy, "target_accuracy"), read_level(confidence, "confidence")
    answers = scored_answers(scores, labels)
    grid = sorted({float(t) for t in (np.arange(100) / 100 if thresholds is None else thresholds)}, reverse=True)
    if not grid or not all(map(math.isfinite, grid)):
        raise InputError("The grid of thresholds must hold finite numbers, and at least one.")
    n, risk = len(answers), float(1 - rho)
    needed = _NEEDED["learn_then_test"](rho, 1 - sure)
    means = np.mean([_false_shares(claims, grid) for claims in answers], axis=0)
    p_values = compute_hoeffding_bentkus_p_value(means, n, risk)[:, 0]
    passed: Any = control_fwer(p_values, float(1 - sure), "fixed_sequence")
    promise = (
        f"With probability at least {float(sure):.4g} over the calibration answers, the expected false share among a "
        f"new answer's kept claims is at most {float(1 - rho):.4g} (an answer left without claims has none)."
    )
    guarantee = _guarantee("learn_then_test", float(rho), n, needed, promise)
    return CalibratedThreshold(grid[max(passed)] if len(passed) else math.inf, guarantee)


def _false_shares(claims: list[tuple[float, bool]], thresholds: list[float]) -> Any:
    """(len(thresholds),) false share of the claims (best first) scored above each threshold."""
    import numpy as np

    if not claims:
        return np.zeros(len(thresholds))
    scores, labels = np.array([s for s, _ in claims]), np.array([t for _, t in claims])
    shares = np.concatenate([[0.0], np.cumsum(~labels) / np.arange(1, len(claims) + 1)])
    return shares[np.searchsorted(-scores, -np.array(thresholds), side="left")]


def _guarantee(kind: GuaranteeKind, value: float, n: int, needed: int, promise: str) -> Guarantee:
    if n < needed:
        text = (
            f"No guarantee: {n} calibration answers, at least {needed} are needed. The threshold is +inf, which "
            "abstains always."
        )
    else:
        average = "It is an average over questions" if kind == "learn_then_test" else _MARGINAL
        text = f"{promise} {_CONDITIONS.format(n=n, average=average)}"
    return Guarantee(kind, value, n, needed, text)


def scored_answers(scores: Sequence[Any], labels: Sequence[Any]) -> list[list[tuple[float, bool]]]:
    """(score, is true) of the claims of each answer, best first.

    Claims of unknown score (``None``, NaN, -inf) are left out: no threshold ever keeps them.
    InputError if the two do not have the same shape, for a score of +inf, for labels that are not true or false,
    and if there is no answer at all.
    """
    if len(scores) != len(labels):
        raise InputError(
            f"There are scores of {len(scores)} answers and labels of {len(labels)}.",
            hint="Give one list of claim scores and one of claim labels for each calibration answer.",
        )
    if not len(scores):
        raise InputError("Calibration needs at least one answer.", hint="Give scores and labels of judged answers.")
    return [_scored_answer(i, s, t) for i, (s, t) in enumerate(zip(scores, labels))]


def _scored_answer(number: int, scores: Any, labels: Any) -> list[tuple[float, bool]]:
    try:
        scores, labels = list(scores), list(labels)
    except TypeError as error:
        raise InputError(
            f"Answer {number} must be a list of claims.",
            hint="Wrap the score and the label of a single claim in lists.",
        ) from error
    if len(scores) != len(labels):
        raise InputError(f"Answer {number} has {len(scores)} scores and {len(labels)} labels.")
    claims = [(_score(number, s), _label(number, t)) for s, t in zip(scores, labels)]
    return sorted((c for c in claims if c[0] > -math.inf), key=lambda c: -c[0])


def _score(number: int, value: Any) -> float:
    if value is None:
        return -math.inf
    if not isinstance(value, Real):
        raise InputError(f"A score of answer {number} is {value!r}, not a number.")
    score = float(value)
    if score == math.inf:
        raise InputError(f"A score of answer {number} is +inf.", hint="Give None for an unknown score.")
    return -math.inf if math.isnan(score) else score


def _label(number: int, value: Any) -> bool:
    if not isinstance(value, Real) and not hasattr(value, "__bool__"):  # numpy's bool is no Real
        raise InputError(f"A label of answer {number} is {value!r}, neither true nor false.")
    if value not in (0, 1):
        raise InputError(
            f"A label of answer {number} is {value!r}, neither true nor false.",
            hint="Leave claims out that nobody judged.",
        )
    return bool(value)
