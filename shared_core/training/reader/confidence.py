"""Fits the extractive reader's probabilities on questions held out from the network's training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CalibrationError, MissingDependencyError
from shared_core.evaluation.answers import contains_answer
from shared_core.reading.candidates import FIGURES, figures
from shared_core.reading.confidence import Logistic
from shared_core.reading.extractive import ExtractiveReader
from shared_core.types import Passage

CANDIDATES = 3
"""How many quotes of each question the fit sees: the first ones are what gets shown."""
LEAST = 100
"""Questions needed at least."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question with what was retrieved for it and its right answers (none if the passages hold no answer)."""

    question: str
    passages: tuple[Passage, ...]
    answers: tuple[str, ...]


def measure(reader: ExtractiveReader, rows: Sequence[Labelled]) -> tuple[list[NDArray[np.float64]], list[list[bool]]]:
    """Figures and labels of the first candidates of each question.

    Returns:
        For each question an array (candidates, len(FIGURES)), and whether each candidate holds a right answer.
    """
    tables, labels = [], []
    for row in rows:
        found = reader.candidates(row.question, row.passages)
        words = reader.count_words(row.question)
        tables.append(figures(found, words)[:CANDIDATES])
        labels.append(
            [contains_answer(row.passages[c.passage].text[c.start : c.end], row.answers) for c in found[:CANDIDATES]]
        )
    return tables, labels


def fit(
    tables: Sequence[NDArray[np.float64]], labels: Sequence[Sequence[bool]], *, strength: float = 0.001
) -> dict[str, Any]:
    """The two probability models as they are written beside the weights.

    Args:
        tables, labels: of ``measure``.
        strength: inverse of the L2 penalty.

    Raises:
        CalibrationError: fewer than LEAST questions, or all of one kind.
    """
    kept = [(t, y) for t, y in zip(tables, labels) if len(t)]
    if len(kept) < LEAST:
        raise CalibrationError(
            f"{len(kept)} questions are too few to fit probabilities.", hint=f"Give {LEAST} or more."
        )
    rows = np.concatenate([t for t, _ in kept])
    right = np.concatenate([np.asarray(y, dtype=bool) for _, y in kept])
    # the first quote is the answer; the others weigh less
    weights = np.concatenate([np.where(np.arange(len(y)) == 0, 1.0, 0.3) for _, y in kept])
    first = np.stack([t[0] for t, _ in kept])
    any_right = np.array([any(y) for _, y in kept])
    without = tuple(n for n in FIGURES if n != "first")
    return {
        "correct": _logistic(rows, right, weights, FIGURES, strength).to_dict(),
        "answerable": _logistic(first, any_right, np.ones(len(first)), without, strength).to_dict(),
    }


def _logistic(
    rows: NDArray[np.float64],
    labels: NDArray[np.bool_],
    weights: NDArray[np.float64],
    names: tuple[str, ...],
    strength: float,
) -> Logistic:
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
    # figures and products of two alike have mean 0 and deviation 1, so that the penalty is fair
    terms = PolynomialFeatures(2, include_bias=False).fit_transform((x - mean) / scale)
    fair = StandardScaler().fit(terms)
    model = LogisticRegression(C=strength, max_iter=2000).fit(fair.transform(terms), labels, sample_weight=weights)
    slopes = model.coef_[0] / fair.scale_
    products = np.zeros((len(names), len(names)))
    products[np.triu_indices(len(names))] = slopes[len(names) :]
    intercept = float(model.intercept_[0] - slopes @ fair.mean_)
    return Logistic(names, mean, scale, low, high, slopes[: len(names)], intercept, products)
