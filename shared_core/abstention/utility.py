"""Expected utility at a target accuracy, and what it says to answer.

Source: "LLMs can learn self-restraint through iterative self-reflection" (Piché et al.), equations 1, 2 and 4 and
Algorithm 1. A true claim is worth 1, a false one costs λ = ρ*/(1-ρ*), abstaining is worth 0; so a claim of
probability p gains p - λ(1-p) = (p-ρ*)/(1-ρ*), which is positive exactly if p > ρ*.

Everything is computed exactly on the decimals the arguments were given as: with floats, ties (p = ρ*, an answer of
utility 0, two answers of the same utility) would be decided by rounding.

An unknown probability (``None`` or NaN) counts as 0: the worst case. It is never kept, and it costs λ where it is part
of an answer. All functions here raise SettingsError (a ValueError) for a target accuracy ρ* outside (0, 1), and
InputError for a probability outside [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple

from shared_core.errors import InputError, SettingsError


class Selection(NamedTuple):
    """The choice of ``select_answer``.

    Attributes:
        index: of the chosen candidate, ``None`` to abstain.
        utility: its expected utility; 0 for an abstention.

    >>> select_answer([[0.9, 0.8], [0.6]], target_accuracy=0.7)
    Selection(index=0, utility=1.0)
    >>> select_answer([[0.6]], target_accuracy=0.7).abstained
    True
    """

    index: int | None  # type: ignore[assignment]  # hides tuple.index, which nobody needs of a pair
    utility: float

    @property
    def abstained(self) -> bool:
        """No candidate is worth more than saying nothing."""
        return self.index is None


def penalty(target_accuracy: float) -> float:
    """λ = ρ*/(1-ρ*) > 0: what a false claim costs where a true one is worth 1."""
    rho = read_level(target_accuracy, "target_accuracy")
    return float(rho / (1 - rho))


def expected_utility(probabilities: Iterable[float | None], target_accuracy: float) -> float:
    """E[U] = Σ [p - λ(1-p)] = (Σp - ρ*N)/(1-ρ*) of an answer made of all these claims, in units of one true claim.

    Args:
        probabilities: (N,) that each claim is true, in [0, 1]; ``None`` or NaN is unknown and counts as 0.
        target_accuracy: ρ*, in (0, 1).
    """
    return float(_utility(probabilities, read_level(target_accuracy, "target_accuracy")))


def keep_claims(probabilities: Iterable[float | None], target_accuracy: float) -> list[int]:
    """Indices, ascending, of the claims to keep: those with p > ρ*, which maximises E[U] over all subsets.

    Arguments as for ``expected_utility``. An empty list means abstain.
    """
    rho = read_level(target_accuracy, "target_accuracy")
    return [i for i, p in enumerate(read_probabilities(probabilities)) if p is not None and p > rho]


def select_answer(candidates: Sequence[Iterable[float | None]], target_accuracy: float) -> Selection:
    """The first candidate answer of the highest expected utility, or abstention if none is worth more than 0.

    A tie with abstention is an abstention (``index=None``), as in Algorithm 1, where it stands first.

    Args:
        candidates: for each candidate answer the probabilities of its claims, in [0, 1]; unknown ones count as 0.
        target_accuracy: ρ*, in (0, 1).
    """
    rho = read_level(target_accuracy, "target_accuracy")
    index, best = None, Fraction(0)
    for i, candidate in enumerate(candidates):
        utility = _utility(candidate, rho)
        if utility > best:
            index, best = i, utility
    return Selection(index, float(best))


def realised_utility(true: int, false: int, target_accuracy: float) -> float:
    """U = #true - λ·#false of an answer whose claims have been judged (equation 1).

    Args:
        target_accuracy: ρ*, in (0, 1).
    """
    rho = read_level(target_accuracy, "target_accuracy")
    return float(true - rho / (1 - rho) * false)


def _utility(values: Iterable[float | None], rho: Fraction) -> Fraction:
    known = read_probabilities(values)
    return (sum((p for p in known if p is not None), Fraction(0)) - rho * len(known)) / (1 - rho)


# --- reading arguments ------------------------------------------------------------------------------------------------


def read_level(value: object, name: str) -> Fraction:
    """Read a number of (0, 1) exactly; SettingsError for anything else."""
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


def read_probability(value: Any) -> Fraction | None:
    """Read a probability exactly; ``None`` and NaN are unknown (``None``). InputError outside [0, 1]."""
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


def read_probabilities(values: Iterable[Any]) -> list[Fraction | None]:
    """Read the probabilities of one answer's claims exactly."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(
            f"Claim probabilities must be a sequence of numbers, not {values!r}.", hint="Give one list for each answer."
        )
    return [read_probability(v) for v in values]
