"""Reading the arguments of this room: probabilities, levels, scored answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

from shared_core.errors import InputError, SettingsError


def level(value: object, name: str) -> Fraction:
    """``value`` as an exact number of (0, 1); SettingsError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise SettingsError(
            f"{name} must be a number above 0 and below 1, not {value!r}.", hint=f"For example {name}=0.7."
        )
    return exact(float(value))


def exact(value: float) -> Fraction:
    """The number a person would write for this float: 0.1 is 1/10.

    Thresholds and probabilities are compared as the decimals they were given as, so that p = ρ* is a tie and
    stays one after sums and differences.
    """
    return Fraction(repr(float(value)))


def probability(value: Any) -> Fraction | None:
    """An exact probability, ``None`` for unknown (``None`` or NaN); InputError outside [0, 1]."""
    if value is None:
        return None
    if not isinstance(value, Real):
        raise InputError(
            f"A probability must be a number in [0, 1], or None if unknown, not {value!r}.",
            hint="Parse verbalised probabilities with parse_probability.",
        )
    number = float(value)
    if math.isnan(number):
        return None
    if not 0.0 <= number <= 1.0:
        raise InputError(f"A probability must lie in [0, 1], not {value!r}.", hint="Give None for an unknown one.")
    return exact(number)


def probabilities(values: Iterable[Any]) -> list[Fraction | None]:
    """Exact probabilities of one answer's claims."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(
            f"Claim probabilities must be a sequence of numbers, not {values!r}.", hint="Give one list for each answer."
        )
    return [probability(v) for v in values]


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
