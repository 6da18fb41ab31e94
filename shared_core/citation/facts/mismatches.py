"""Hold the result of comparing a claim with its evidence: each fact that it does not bear out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "unit", "date", "name", "negation", "opposite", "role", "addition", "exception", "literal"]
REFUTED_AT_MOST = 0.05
"""Largest P(supported) of a claim that its evidence contradicts."""
MISSING_AT_MOST = 0.35
"""Largest P(supported) of a claim with a fact that its evidence does not hold."""

IMPLIED_AT_LEAST = 0.9
"""Least P(supported) of a claim that follows from its evidence by a date, a number or an exception."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A fact of the claim that its evidence does not bear out.

    Attributes:
        held: as the evidence has it instead; empty where it says nothing of the kind.

    >>> str(Mismatch("number", "1878", "1877"))
    "number: '1878', but the evidence has '1877'"
    """

    kind: Kind
    claimed: str
    held: str = ""

    @property
    def refuted(self) -> bool:
        """Whether the evidence says otherwise (else it says nothing)."""
        return bool(self.held)

    def __str__(self) -> str:
        """The mismatch in words."""
        if self.refuted:
            return f"{self.kind}: {self.claimed!r}, but the evidence has {self.held!r}"
        if self.kind == "exception":
            return f"exception: the evidence adds {self.claimed!r}"
        return f"{self.kind}: {self.claimed!r} is not in the evidence"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All mismatches between a claim and its evidence.

    Attributes:
        mismatches: in order of the claim's sentences.
        same_subject: the sentence of the evidence nearest to the claim holds all of its names; if it has none, nearly
            all of its words, and hardly any others: what differs is said of the same thing, not of another of its kind.
        implied: the claim follows by a number, date or exception: "closed on 6 May" from "closed from 4 to 11 May".

    >>> from shared_core.citation import compare_claim
    >>> found = compare_claim("Rufus Hathe built the bridge in 1878.", "Lavinia Hathe built the bridge in 1877.")
    >>> [(m.kind, m.claimed, m.held) for m in found.mismatches]
    [('number', '1878', '1877'), ('name', 'Rufus', 'Lavinia')]
    >>> compare_claim("The lake is 272 ft deep.", "The lake has a depth of 83 metres.").mismatches
    ()
    """

    mismatches: tuple[Mismatch, ...] = ()
    same_subject: bool = False
    implied: bool = False

    @property
    def refuted(self) -> bool:
        """Whether some fact of the claim is contradicted."""
        return any(m.refuted for m in self.mismatches)

    @property
    def agrees(self) -> bool:
        """Whether no mismatch was found; that alone supports nothing."""
        return not self.mismatches

    def cap(self, probability: float, *, names: bool = True) -> float:
        """Limit a probability that the evidence supports the claim to what the mismatches leave of it.

        Args:
            probability: of another judge, in [0, 1].
            names: whether names that the evidence lacks count; not where nobody knows what the text is about.
        """
        if self.refuted:
            return min(probability, REFUTED_AT_MOST)
        missing = any(names or m.kind != "name" for m in self.mismatches)
        return min(probability, MISSING_AT_MOST) if missing else probability
