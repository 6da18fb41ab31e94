"""What reads passages without writing: extractive readers and support scorers, as the rest sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from shared_core.errors import SelfReflectError
from shared_core.types import Passage, Span


@dataclass(frozen=True, slots=True)
class Read:
    """Find the sentences of ``passages`` that answer ``question``. Result: ``ReadResult``.

    Attributes:
        question: as asked.
        passages: best first.
        limit: readings to return at most.
    """

    question: str
    passages: tuple[Passage, ...]
    limit: int = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """One candidate quote.

    Attributes:
        quote: whole sentence(s) of one passage.
        probability: calibrated, that the quote holds a right answer to the question, given what was read; ``None``
            if the reader is not calibrated.
        score: what the reader ranks by, higher is better; comparable within one result only.
        short_answer: the words within the quote that answer, where they could be found.
    """

    quote: Span
    probability: float | None
    score: float
    short_answer: Span | None = None


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Result of ``Read``.

    Attributes:
        readings: best first.
        answerable: calibrated probability that the passages answer the question at all; ``None`` if unknown.
    """

    readings: tuple[Reading, ...]
    answerable: float | None = None


@runtime_checkable
class Reader(Protocol):
    """An extractive reader."""

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        ...

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        """Read for many questions at once; a failing one gives its error as the result."""
        ...


@dataclass(frozen=True, slots=True)
class Judge:
    """How far does each premise support its hypothesis? Result: a tuple of probabilities, ``None`` where unknown."""

    pairs: tuple[tuple[str, str], ...]


@runtime_checkable
class SupportScorer(Protocol):
    """Estimates whether a quote (premise) supports a claim (hypothesis): an NLI model, verdict tokens, a prompt."""

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        ...

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """P(premise supports hypothesis) in [0, 1] for each (premise, hypothesis); ``None`` where unknown."""
        ...
