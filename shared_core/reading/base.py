"""Interfaces of extractive readers and support scorers, with their requests and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from shared_core.errors import InputError, SelfReflectError
from shared_core.types import Passage, Span

NO_WORDS = "the question holds no word to look for"
OTHER_QUESTION = "the question does not look like English, and the reader reads English only"
OTHER_TEXT = "what was found does not look like English, and the reader reads English only"


@dataclass(frozen=True, slots=True)
class Read:
    """Find the sentences of ``passages`` that answer ``question``. Result: ``ReadResult``.

    Attributes:
        passages: best first.
        limit: maximum readings to return.
        expected: prior probability that the passages answer the question, in (0, 1); ``None`` uses the prior that the
            reader's calibration assumes.
        spans: quotes chosen elsewhere, to be judged whatever else answers better.
        by_words: give probabilities in other languages than the reader's too, by shared words. Without it they are
            unknown, and a language model's word counts.
    """

    question: str
    passages: tuple[Passage, ...]
    limit: int = 5
    expected: float | None = None
    spans: tuple[Span, ...] = ()
    by_words: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """One candidate quote.

    Attributes:
        quote: whole sentence(s) of one passage.
        probability: calibrated probability that the quote contains a right answer; ``None`` if unknown.
        score: ranking score, higher is better; comparable within one result only.
        short_answer: words of the quote that answer, if they could be found.
    """

    quote: Span
    probability: float | None
    score: float
    short_answer: Span | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One of the questions into which another one was split, with the best quote for it.

    Attributes:
        question: as asked, with the answers of the steps before it.
        reading: as probable as if it had been the only question.
    """

    question: str
    reading: Reading


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Result of ``Read``.

    Attributes:
        readings: best first.
        answerable: calibrated probability that the passages answer the question at all; ``None`` if unknown.
        passage_scores: score of the best quote of each passage of the request; passages in which none was found score
            below all others. Comparable within one result only; empty if the reader has none.
        expected: the prior that the probabilities assume; ``None`` if unknown.
        judged: reading of the best sentence that each of the request's spans overlaps; ``None`` if it overlaps none.
            Empty if the reader judges no spans.
        unknown: reason for unknown probabilities.
        read_as: the question in the passages' words, if that is not how it was asked: a misspelt word corrected, an
            amount as the range that holds it, an abbreviation with what it stands for.
        steps: questions answered one after the other, if the readings answer the last of them; their probabilities are
            then those of the whole chain.
        answer: the short answer, where the first reading has none of its own: one of two that were compared.
        rest: title and headings of the list that the first reading is only a part of, as it seems: what to retrieve.
        rest_of: id of a passage that holds another part of it; "" for the one with the first reading.
        parts: number of the first readings that are parts of one list, or rows chosen together.
        by_words: probabilities are those of another language, by shared words.
    """

    readings: tuple[Reading, ...]
    answerable: float | None = None
    passage_scores: tuple[float, ...] = ()
    expected: float | None = None
    judged: tuple[Reading | None, ...] = ()
    unknown: str = ""
    read_as: str = ""
    steps: tuple[Step, ...] = ()
    answer: str = ""
    rest: str = ""
    parts: int = 1
    rest_of: str = ""
    by_words: bool = False

    @property
    def remark(self) -> str:
        """Remark for the trace: why probabilities are unknown, or how they and the question were read."""
        if self.by_words:
            return "another language: judged by the words it shares with the question"
        return self.unknown or (f"read as: {self.read_as}" if self.read_as else "")


@runtime_checkable
class Reader(Protocol):
    """Interface of extractive readers."""

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        ...

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        """Read for many questions together; a failing one gives its error as the result."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a claim given its evidence.

    Attributes:
        supported: P(the evidence supports the claim), in [0, 1].
        refuted: P(the evidence contradicts the claim), in [0, 1 - supported], not calibrated; ``None`` if the scorer
            does not distinguish contradiction from missing support.
    """

    supported: float
    refuted: float | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Score whether each premise supports its hypothesis. Result: a tuple of probabilities, ``None`` if unknown.

    Attributes:
        pairs: (premise, hypothesis).
        by: scorer: the engine's ``judge`` or the shipped ``critic``.
        verdicts: return a tuple of ``Verdict`` instead, ``None`` if unknown.
    """

    pairs: tuple[tuple[str, str], ...]
    by: Literal["judge", "critic"] = "judge"
    verdicts: bool = False


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate how likely each passage alone answers the question. Result: a tuple of probabilities, ``None`` if unknown.

    Attributes:
        passages: in any order; each is rated independently of the others.
    """

    question: str
    passages: tuple[Passage, ...]


@runtime_checkable
class PassageRater(Protocol):
    """Interface for rating how likely single passages answer a question."""

    def rate(self, requests: Sequence[Rate]) -> list[list[float | None]]:
        """P(it answers) in [0, 1] for each passage of each request; ``None`` where unknown."""
        ...


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


@runtime_checkable
class VerdictScorer(SupportScorer, Protocol):
    """A support scorer that distinguishes evidence against a claim from evidence about something else."""

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict | None]:
        """Judge each (premise, hypothesis); ``None`` if unknown."""
        ...


def check_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Raise InputError unless all are pairs of strings."""
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise InputError(f"score takes (premise, hypothesis) pairs of strings, not {pair!r}.")
