"""Passages, quotes of them, and the signals about a claim; ``types`` exports them with all other values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared_core.errors import InputError, PassageError
from shared_core.support.read_only import ReadOnlyDict

MetadataValue = str | int | float | bool | None
MatchKind = Literal["verbatim", "normalised", "fuzzy"]
"""Kind of match between a quote and its passage; only ``verbatim`` may be shown as a quotation."""


def _check_probability(value: float | None, name: str) -> None:
    if value is not None and not (0.0 <= value <= 1.0):  # also refuses NaN
        raise InputError(f"{name} must be a probability in [0, 1] or None, not {value!r}.")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document: the unit of retrieval.

    >>> passage = Passage("log", "The lamp was lit in 1871.", title="Harbour log")
    >>> passage.span(20, 24).text
    '1871'

    Attributes:
        id: unique within an index.
        text: text that is quoted; offsets of spans point into it.
        title: title of the document, shown to models and searched together with the text.
        metadata: flat values; ``source``, ``start`` and ``end`` (code points in the file's text) where known.
        score: retrieval score, higher is better; ``None`` if the passage was not retrieved.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    score: float | None = None

    def __post_init__(self) -> None:
        """Refuse an empty id and text that is not a string."""
        if not isinstance(self.id, str) or not self.id:
            raise PassageError(f"A passage needs a non-empty string id, not {self.id!r}.")
        if not isinstance(self.text, str) or not isinstance(self.title, str):
            raise PassageError(f"Text and title of passage {self.id!r} must be strings.")
        # A read-only copy: a retriever's caller must not be able to change what an answer cites.
        object.__setattr__(self, "metadata", ReadOnlyDict(self.metadata))

    def __hash__(self) -> int:
        return hash((self.id, self.text))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.id, self.text, self.title, dict(self.metadata), self.score))

    def with_score(self, score: float | None, **metadata: MetadataValue) -> Passage:
        """Return a copy with another score and added metadata."""
        return dataclasses.replace(self, score=score, metadata={**self.metadata, **metadata})

    def span(self, start: int, end: int) -> Span:
        """Return the span ``text[start:end]``; InputError if it does not lie within the text."""
        if not 0 <= start <= end <= len(self.text):
            raise InputError(
                f"[{start}, {end}) does not lie within passage {self.id!r} of {len(self.text)} characters."
            )
        return Span(self.id, start, end, self.text[start:end])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "id": self.id,
            "text": self.text,
            "title": self.title,
            "metadata": dict(self.metadata),
            "score": self.score,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Passage:
        """Create a passage from what ``to_dict`` returned."""
        return cls(data["id"], data["text"], data.get("title", ""), data.get("metadata") or {}, data.get("score"))


@dataclass(frozen=True, slots=True)
class Span:
    """A range of one passage: ``passage.text[start:end] == text``, in code points.

    >>> Span("log", 20, 24, "1871").end
    24
    """

    passage_id: str
    start: int
    end: int
    text: str

    def __post_init__(self) -> None:
        """Refuse offsets that do not fit the text."""
        if not 0 <= self.start <= self.end or self.end - self.start != len(self.text):
            raise InputError(f"Span [{self.start}, {self.end}) of passage {self.passage_id!r} does not fit its text.")


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote and its places in the passages.

    >>> Citation((Span("log", 0, 25, "The lamp was lit in 1871."),)).quote
    'The lamp was lit in 1871.'

    Attributes:
        spans: all occurrences of the quoted text, at least one, in the order of the passages; a quote of several
            sentences that are not adjacent has one span (or more) for each.
        ambiguous: whether the same text occurs more than once.
        quote: the text as the model wrote it (equal to the passage's if ``match`` is ``verbatim``).
    """

    spans: tuple[Span, ...]
    match: MatchKind = "verbatim"
    ambiguous: bool = False
    quote: str = ""

    def __post_init__(self) -> None:
        """Refuse a citation without spans; fill in the quote."""
        if not self.spans:
            raise InputError("A citation needs at least one span.")
        if not self.quote:
            object.__setattr__(self, "quote", " ".join(s.text for s in self.primary))

    @property
    def primary(self) -> tuple[Span, ...]:
        """The first occurrence of each distinct quoted text, for displays that show one place."""
        seen: dict[str, Span] = {}
        for span in self.spans:
            seen.setdefault(span.text, span)
        return tuple(seen.values())


@dataclass(frozen=True, slots=True)
class Necessity:
    """Log-probabilities that a model gives to a whole claim as the answer, in nats, at most 0.

    Attributes:
        with_all: given all the passages.
        without_quote: given the passages without the sentences that the claim cites.
        quote_alone: given these sentences alone.
    """

    with_all: float
    without_quote: float
    quote_alone: float

    @property
    def necessary(self) -> bool:
        """Whether the claim is less than half as probable without its quote."""
        return self.with_all - self.without_quote > _HALF

    @property
    def sufficient(self) -> bool:
        """Whether the claim is at least half as probable given its quote alone as given all passages."""
        return self.with_all - self.quote_alone <= _HALF


_HALF = 0.6931471805599453  # ln 2


@dataclass(frozen=True, slots=True)
class Critique:
    """Self-RAG's verdicts on one segment (``shared_core.reflection``); ``None`` if not judged.

    >>> Critique(relevance=0.9, support=0.8).usefulness is None
    True

    Attributes:
        relevance: relevance of the passage, [0, 1].
        support: support of the segment by the passage, [0, 1].
        usefulness: usefulness of the segment for the question, [-1, 1].
        score: weighted sum (``critique_score``).
    """

    relevance: float | None = None
    support: float | None = None
    usefulness: float | None = None
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals about one claim, each kept separately: probabilities in [0, 1], ``None`` if unknown.

    Attributes:
        entailed: the quotes support the claim (critic, or the engine's judge).
        answers: the passage around the quote supports the claim as an answer to the question (critic).
        quoted: the quoted sentence contains a right answer to the question (reader).
        sufficient: the passages answer the question at all (reader).
        certain: the model's own certainty: stated, from log-probabilities, or one minus its samples' uncertainty.
        named: share of the question's names and numbers that occur in the cited passages. A passage about something
            with nearly the same name otherwise looks as good. Used by a fitted stack only.
        likely: geometric mean of the model's probabilities of the words that it wrote, given the passages. This is not
            a probability of being right, so only a fitted stack uses it.
        agreement: share of independent answers (the reader's, other samples') that say the same.
        seconded: probability of the reader's own best quote, given the model's reply, where it says the same as the
            claim.
        rival: that probability where it says something else.
        trusted: how far the model's replies have been borne out so far (``ModelTrust``).
        refuted: the passages contradict the claim (critic); not calibrated, set only for answers that are checked.
    """

    entailed: float | None = None
    answers: float | None = None
    quoted: float | None = None
    sufficient: float | None = None
    certain: float | None = None
    agreement: float | None = None
    named: float | None = None
    likely: float | None = None
    refuted: float | None = None
    seconded: float | None = None
    rival: float | None = None
    trusted: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that are not probabilities."""
        for f in dataclasses.fields(self):
            _check_probability(getattr(self, f.name), f"Signals.{f.name}")
