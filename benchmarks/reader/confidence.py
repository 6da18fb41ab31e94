"""Fit the reader's and the critic's probabilities on questions and claims that the network was not trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reader.sets import Case
from shared_core.errors import CalibrationError, MissingDependencyError
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.reading.candidates import FIGURES, figures
from shared_core.reading.confidence import Logistic
from shared_core.reading.conflicts import CONFLICTS
from shared_core.reading.extractive import VERIFIED, ExtractiveReader

LEAST = 100
"""Fewest questions to fit on."""
BEFORE = (1.0, 10.0)
"""Right and wrong answers in conflict with their question, as if seen besides the few that the data hold: another value
or the opposite is seldom what was asked for."""


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """The first candidates of one question.

    Attributes:
        rows: (candidates, len(FIGURES)).
        right: (candidates,) whether each holds a right answer.
        held: whether the passages read hold an answer.
        conflicts: of each candidate with the question.
        weight: weight of the question.
    """

    rows: NDArray[np.float64]
    right: NDArray[np.bool_]
    held: bool
    conflicts: Sequence[frozenset[str]]
    weight: float = 1.0


def measure(reader: ExtractiveReader, case: Case) -> MeasuredCase | None:
    """Compute figures and labels of a case's first candidates; ``None`` if the reader found none."""
    every = reader.candidates(case.question, case.passages)
    if not every:
        return None
    # Shares and margins are computed over all candidates, as in answering; only the first ones are fitted on.
    found, rows = every[:VERIFIED], figures(every, reader.shape_of(case.question))[:VERIFIED]
    texts = [case.passages[c.passage].text for c in found]
    right = [contains_answer(text[c.start : c.end], case.answers) for text, c in zip(texts, found)]
    held = any(contains_answer(p.text, case.answers) for p in case.passages)
    return MeasuredCase(rows, np.array(right, dtype=bool), held and bool(case.answers), [c.conflicts for c in found])


def fit(
    measured: Sequence[MeasuredCase], more: Sequence[MeasuredCase] = (), *, strength: float = 0.001
) -> dict[str, Any]:
    """Fit the two probability models and the share of questions with an answer, as written beside the weights.

    Args:
        measured: results of ``measure``, one for each question.
        more: such results that only tell what conflicts take off.
        strength: inverse of the L2 penalty.

    Raises:
        CalibrationError: fewer than LEAST questions, or all of one kind.
    """
    if len(measured) < LEAST:
        raise CalibrationError(
            f"{len(measured)} questions are too few to fit probabilities.", hint=f"Give {LEAST} or more."
        )
    weights = np.array([m.weight for m in measured])
    first = np.stack([m.rows[0] for m in measured])
    held = np.array([m.held for m in measured])
    with_answer = [m for m in measured if m.held]
    rows = np.concatenate([m.rows for m in with_answer])
    right = np.concatenate([m.right for m in with_answer])
    # The first quote is the answer, so the others weigh less.
    each = np.concatenate([m.weight * np.where(np.arange(len(m.right)) == 0, 1.0, 0.3) for m in with_answer])
    without = tuple(n for n in FIGURES if n != "first")
    answerable = logistic(first, held, weights, without, strength)
    chosen = logistic(rows, right, each, FIGURES, strength)
    return {
        "answerable": answerable.to_dict(),
        "right": chosen.to_dict(),
        "conflicts": fit_conflicts(answerable, chosen, [*measured, *more]),
        "expected": float((weights * held).sum() / weights.sum()),
    }


def fit_conflicts(
    answerable: Logistic, chosen: Logistic, measured: Sequence[MeasuredCase]
) -> dict[str, dict[str, float]]:
    """Fit what conflicts with the question take off the two models' log-odds: of the first candidates, and of all."""
    first = np.stack([m.rows[0] for m in measured])
    held = np.array([m.held for m in measured])
    weights = np.array([m.weight for m in measured])
    some = [(m.rows, m.right, m.conflicts, m.weight) for m in measured if m.held]
    rows = np.concatenate([r for r, *_ in some])
    each = np.concatenate([w * np.where(np.arange(len(r)) == 0, 1.0, 0.3) for r, _, _, w in some])
    right = np.concatenate([right for _, right, _, _ in some])
    conflicts = [c for _, _, found, _ in some for c in found]
    return {
        "answerable": fit_terms(answerable.log_odds(first, FIGURES), [m.conflicts[0] for m in measured], held, weights),
        "right": fit_terms(chosen.log_odds(rows, FIGURES), conflicts, right, each),
    }


def logistic(
    rows: NDArray[np.float64],
    labels: NDArray[np.bool_],
    weights: NDArray[np.float64],
    names: tuple[str, ...],
    strength: float,
) -> Logistic:
    """Fit a logistic model of figures and their products, with an L2 penalty.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
        CalibrationError: all labels are the same.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    except ImportError as error:
        raise MissingDependencyError("scikit-learn", extra="eval", purpose="Fitting probabilities") from error
    if labels.all() or not labels.any():
        raise CalibrationError("The quotes are all right or all wrong.", hint="Give questions of both kinds.")
    x = rows[:, [FIGURES.index(n) for n in names]]
    low, high = np.quantile(x, 0.005, axis=0), np.quantile(x, 0.995, axis=0)
    x = np.clip(x, low, high)
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-3)
    # Figures and their products are all standardised, so that the penalty treats them alike.
    terms = PolynomialFeatures(2, include_bias=False).fit_transform((x - mean) / scale)
    fair = StandardScaler().fit(terms)
    model = LogisticRegression(C=strength, max_iter=2000).fit(fair.transform(terms), labels, sample_weight=weights)
    slopes = model.coef_[0] / fair.scale_
    products = np.zeros((len(names), len(names)))
    products[np.triu_indices(len(names))] = slopes[len(names) :]
    intercept = float(model.intercept_[0] - slopes @ fair.mean_)
    return Logistic(names, mean, scale, low, high, slopes[: len(names)], intercept, products)


def fit_terms(
    log_odds: NDArray[np.float64],
    conflicts: Sequence[frozenset[str]],
    labels: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> dict[str, float]:
    """Fit what each conflict adds to log-odds, given the others; at most 0."""
    applies = {name: np.array([name in some for some in conflicts]) for name in CONFLICTS}
    terms = dict.fromkeys(CONFLICTS, 0.0)
    for _ in range(5):
        for name in CONFLICTS:
            others = sum((terms[n] * applies[n] for n in CONFLICTS if n != name), log_odds)
            terms[name] = fit_term(others, applies[name], labels, weights)
    print({n: (int(applies[n].sum()), int(labels[applies[n]].sum()), terms[n]) for n in CONFLICTS}, flush=True)
    return terms


def fit_term(
    log_odds: NDArray[np.float64], applies: NDArray[np.bool_], labels: NDArray[np.bool_], weights: NDArray[np.float64]
) -> float:
    """Fit what to add to log-odds where a conflict applies; at most 0, and as if ``BEFORE`` had been seen besides."""
    z, y, w = log_odds[applies], labels[applies], weights[applies]
    if not len(z):
        return 0.0
    z, y, w = np.append(z, [z.mean()] * 2), np.append(y, [True, False]), np.append(w, BEFORE)
    low, high = -20.0, 0.0
    while high - low > 1e-3:  # the likelihood's derivative falls with the term
        middle = (low + high) / 2
        expected = (w / (1 + np.exp(-(z + middle)))).sum()
        low, high = (middle, high) if expected < (w * y).sum() else (low, middle)
    return min(0.0, round((low + high) / 2, 2))


def fit_platt(
    log_odds: Sequence[float], labels: Sequence[bool], weights: Sequence[float] | None = None
) -> tuple[float, float]:
    """Fit (slope, intercept) of P = sigmoid(slope · log-odds + intercept), with Platt's (1999) targets.

    ``weights`` are the cases', all alike if not given.

    Raises:
        CalibrationError: the log-odds do not separate the labels.
    """
    from scipy.optimize import minimize

    x, y = np.asarray(log_odds, dtype=float), np.asarray(labels, dtype=bool)
    targets = np.where(y, (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2))

    def cost(p: NDArray[np.float64]) -> float:
        z = p[0] * x + p[1]
        return float(np.average(np.logaddexp(0, z) - targets * z, weights=weights))

    slope, intercept = minimize(cost, np.array([1.0, 0.0])).x
    if not (math.isfinite(slope) and slope > 0):
        raise CalibrationError("The scores do not separate what is right from the rest.", hint="Train further.")
    return float(slope), float(intercept)


def identity(*names: str) -> dict[str, Any]:
    """Return probability models that pass on the network's output, to measure before fitting; all, or those named."""

    def one(figure: str, low: float, high: float) -> dict[str, Any]:
        return {"intercept": 0.0, "figures": {figure: [0.0, 1.0, low, high, 1.0]}, "products": {figure: [0.0]}}

    whole = {
        "answerable": one("log_probability", -9.0, 0.0),
        "right": one("log_probability", -9.0, 0.0),
        "expected": 0.5,
        "support": one("whole", -15.0, 15.0),
        "relevance": [1.0, 0.0],
        "structured": [1.0, 0.0],
    }
    return {name: whole[name] for name in names or whole}
