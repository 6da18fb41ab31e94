"""Rates of one model's replies to questions with known answers, beside the quotes of the reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

from shared_core.calibration.binding import BindingValue, Bound, plain_questions
from shared_core.errors import CalibrationError

Reply = Literal["agrees", "differs", "declines", "contradicts"]
"""It says what the reader's best quote says; something else; that there is no answer; or what its own quote refutes, no
passage holds, or says nothing."""
REPLIES: tuple[Reply, ...] = get_args(Reply)
Rates = tuple[float, float, float, float]
"""One probability for each of ``REPLIES``, in their order."""
ReplyRates = Mapping[str, Mapping[str, float]]
"""P(reply | R) as ``right`` and P(reply | not R) as ``wrong``, by reply, where R is "the reader's best quote answers";
each above 0, and they add up to 1. As ``own`` P(what the model itself says is right | reply), of replies for which that
was measured."""
VERSION = 1
_REFIT = "Measure them again: selfreflect calibrate replies"


@dataclass(frozen=True, slots=True)
class FittedReplies(Bound):
    """Rates of a model's replies, and how much oftener its claims are right than those of models in general.

    >>> rates = {"agrees": 0.7, "differs": 0.1, "declines": 0.1, "contradicts": 0.1}
    >>> fitted = FittedReplies({"right": rates, "wrong": rates}, shift=1.5, n=96)
    >>> FittedReplies.from_dict(fitted.to_dict()) == fitted
    True

    Attributes:
        shift: log odds to be added to those by the stack for models in general.
        n, positives: questions asked, and those of them whose best quote by the reader is right.
        claims, claims_right: questions to which the model claimed something, and those of them where it was right.
        questions: digests of the questions (``question_digest``).
        signals: none; other calibrations keep their drift signals there.
    """

    _what: ClassVar[str] = "The measurement of replies"
    _refit: ClassVar[str] = _REFIT
    rates: ReplyRates
    shift: float = 0.0
    n: int = 0
    positives: int = 0
    claims: int = 0
    claims_right: int = 0
    bound_to: Mapping[str, BindingValue] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    signals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        """Check the numbers, and keep read-only copies."""
        self._keep_copies()
        read_rates(self.rates)
        copied = {name: MappingProxyType(dict(row)) for name, row in self.rates.items()}
        object.__setattr__(self, "rates", MappingProxyType(copied))
        sound = 0 <= self.positives <= self.n and 0 <= self.claims_right <= self.claims <= self.n
        if self.version != VERSION or not math.isfinite(self.shift) or not sound:
            raise CalibrationError("Invalid rates of replies.", hint=_REFIT)

    def __hash__(self) -> int:
        return hash((self.shift, self.n, self.positives, self.claims, self.claims_right))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("questions", "signals")}
        rates = {name: dict(row) for name, row in self.rates.items()}
        return {**plain, "rates": rates, "bound_to": dict(self.bound_to), **plain_questions(self.questions, {})}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FittedReplies:
        """Build it from ``to_dict``'s output; CalibrationError for anything else."""
        try:
            return cls(**data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CalibrationError(f"Not rates of replies: {error}.", hint=_REFIT) from error


def read_rates(rates: ReplyRates) -> tuple[Rates, Rates]:
    """Return P(reply | R) and P(reply | not R) in the order of ``REPLIES``; CalibrationError if they are no rates."""
    found = []
    for given in ("right", "wrong"):
        row = rates.get(given, {})
        if (
            set(row) != set(REPLIES)
            or not all(0 < p < 1 for p in row.values())
            or not math.isclose(sum(row.values()), 1, abs_tol=1e-3)  # of four digits each
        ):
            raise CalibrationError(
                f"{dict(row)} are no rates of replies ({given}).",
                hint=f"Give one above 0 for each of {', '.join(REPLIES)}; they add up to 1.",
            )
        found.append((row["agrees"], row["differs"], row["declines"], row["contradicts"]))
    if any(not 0 <= p <= 1 for p in rates.get("own", {}).values()):
        raise CalibrationError(f"{dict(rates['own'])} are no probabilities (own).", hint="Give numbers from 0 to 1.")
    return found[0], found[1]
