"""Immutable values that are passed between all packages: passages, spans, citations, claims, answers, events.

Offsets are code points of the original passage text, half open: ``passage.text[span.start:span.end] == span.text``.
Probabilities are floats in [0, 1]; ``None`` means "unknown", which must never be treated as "confident".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared_core.errors import InputError, PassageError
from shared_core.evidence import (
    Citation,
    Critique,
    MatchKind,
    MetadataValue,
    Necessity,
    Passage,
    Signals,
    Span,
    _check_probability,
)
from shared_core.support.read_only import ReadOnlyDict

__all__ = [
    "AbstainReason", "Answer", "Citation", "Claim", "ClaimSealed", "ClaimStatus", "ClaimVerdict", "Critique", "Decided",
    "Decision", "Event", "Finished", "MatchKind", "MetadataValue", "Necessity", "Passage", "ReferenceSealed",
    "Retrieved", "Signals", "Span", "TextDelta", "Usage", "iter_spans",
]  # fmt: skip


ClaimStatus = Literal["kept", "flagged", "dropped"]
ClaimVerdict = Literal["supported", "contradicted", "unsupported", "unknown"]
"""Result of checking a claim: the passages support it, contradict it, do neither, or it could not be judged."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of an answer, with its evidence and the probability that it is right.

    >>> Claim("The lamp was lit in 1871.", support=0.93).status
    'kept'

    Attributes:
        text: the statement.
        support: probability that it is a right answer to the question, or a right part of one; ``None`` if unknown.
            ``Answer.calibrated`` says whether it was calibrated or follows a rule.
        citations: quotes it was written from.
        start, end: range in ``Answer.text`` (code points); ``None`` if it is not part of the text.
        status: ``kept`` in the answer, ``flagged`` as weak but shown, or ``dropped``.
        short_answer: words of the quote that answer the question, on one line, if they could be found.
        signals: signals that ``support`` was computed from.
        critique: Self-RAG's verdicts, if there are any.
        necessity: whether the model states the claim because of its quote, if requested (``check``, ``necessary``).
        verdict: verdict on a claim of an answer that was checked; its citations then support it, contradict it, or are
            the nearest sentences.
    """

    text: str
    support: float | None = None
    citations: tuple[Citation, ...] = ()
    start: int | None = None
    end: int | None = None
    status: ClaimStatus = "kept"
    short_answer: str | None = None
    signals: Signals = Signals()
    critique: Critique | None = None
    verdict: ClaimVerdict | None = None
    necessity: Necessity | None = None

    def __post_init__(self) -> None:
        """Refuse a support that is not a probability."""
        _check_probability(self.support, "Claim.support")


@dataclass(frozen=True, slots=True)
class Decision:
    """One entry of the trace: a decision, its outcome and the figures behind it.

    >>> Decision("keep", "1 of 2 claims", values={"target_accuracy": 0.5}).outcome
    '1 of 2 claims'

    Attributes:
        kind: kind of decision (``retrieve``, ``rerank``, ``keep``, ``abstain``, …).
        outcome: result, in a word or a short phrase.
        reason: explanation for a person.
        values: figures behind it; plain values only, never a secret.
    """

    kind: str
    outcome: str
    reason: str = ""
    values: Mapping[str, MetadataValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep a read-only copy of the figures."""
        object.__setattr__(self, "values", ReadOnlyDict(self.values))

    def __hash__(self) -> int:
        return hash((self.kind, self.outcome, self.reason))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.kind, self.outcome, self.reason, dict(self.values)))


@dataclass(frozen=True, slots=True)
class Usage:
    """Cost of an answer; supports ``+``.

    >>> (Usage(calls=1) + Usage(calls=2, prompt_tokens=40)).calls
    3

    Attributes:
        calls: requests sent to a language model. One that is tried again after a failure counts once, and what a
            server is asked to find its abilities belongs to no answer.
        prompt_tokens: tokens of the prompts; a prefix that the backend shared counts once.
        generated_tokens: tokens written by the model, forced ones included.
        forwards: forward passes of the model, if the backend counts them.
        forwards_saved: tokens forced by a grammar, which needed no forward pass.
        cached_tokens: prompt tokens taken from a cache.
        seconds: wall-clock time from question to answer; for a batch, of the whole batch. Ignored by ``==``.
    """

    calls: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    forwards: int = 0
    forwards_saved: int = 0
    cached_tokens: int = 0
    seconds: float = field(default=0.0, compare=False)

    def __add__(self, other: Usage) -> Usage:
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Usage(*(a + b for a, b in zip(mine, theirs)))


AbstainReason = str
"""``nothing retrieved``, ``passages do not answer``, ``support below target``, ``support unknown``, …"""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, or an abstention, with its evidence.

    >>> answer = Answer("When was the lamp lit?", "In 1871.", (Claim("In 1871.", 0.93),), confidence=0.93)
    >>> answer.abstained, answer.kept_claims[0].support
    (False, 0.93)

    Attributes:
        question: the question as asked.
        text: the answer; if it abstained, the text that the policy ``on_abstain`` shows.
        claims: kept and flagged claims in the order of the text, then the dropped ones.
        passages: passages that were retrieved and read, best first.
        abstained: whether no claim met the target.
        reason: reason of an abstention, otherwise empty.
        confidence: probability that the text is a right answer (for an abstention: that the best claim would have
            been); ``None`` if unknown.
        calibrated: whether ``confidence`` was fitted for this configuration; otherwise it follows a conservative rule.
        utility: expected utility of the kept claims at the target accuracy (0 for an abstention).
        trace: all decisions, in order.
        usage: cost of the answer.
        metadata: further figures of the pipeline (its name, the guarantee, …).
    """

    question: str
    text: str
    claims: tuple[Claim, ...] = ()
    passages: tuple[Passage, ...] = ()
    abstained: bool = False
    reason: AbstainReason = ""
    confidence: float | None = None
    utility: float = 0.0
    trace: tuple[Decision, ...] = ()
    usage: Usage = Usage()
    calibrated: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a confidence that is not a probability and an abstention without a reason."""
        _check_probability(self.confidence, "Answer.confidence")
        if self.abstained and not self.reason:
            raise InputError("An abstention needs a reason.")
        object.__setattr__(self, "metadata", ReadOnlyDict(self.metadata))

    def __hash__(self) -> int:
        return hash((self.question, self.text))

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, f.name) for f in dataclasses.fields(self)]
        return (type(self), (*values[:-1], dict(self.metadata)))

    @property
    def kept_claims(self) -> tuple[Claim, ...]:
        """The claims that the text consists of."""
        return tuple(c for c in self.claims if c.status != "dropped")

    def numbered_spans(self) -> list[Span]:
        """List the quotes of the kept claims without repetition; entry ``i`` is shown as ``[i + 1]``."""
        seen: dict[tuple[str, int, int], Span] = {}
        for claim in self.kept_claims:
            for citation in claim.citations:
                for span in citation.primary:
                    seen.setdefault((span.passage_id, span.start, span.end), span)
        return list(seen.values())

    def pieces(self) -> list[str]:
        """Cut the text before each claim, for streams; the pieces joined are the text."""
        cuts = sorted({0, len(self.text), *(c.start for c in self.claims if c.start)})
        return [self.text[a:b] for a, b in itertools.pairwise(cuts)]

    def passage(self, passage_id: str) -> Passage:
        """Return the passage with this id; KeyError if there is none."""
        for passage in self.passages:
            if passage.id == passage_id:
                return passage
        raise KeyError(passage_id)

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Convert to plain values for JSON; NaN and infinities become ``None``.

        Args:
            texts: include whole passages, not only their ids, titles and scores (quotes are in the citations).
        """
        plain = _plain({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        assert isinstance(plain, dict)
        if not texts:
            plain["passages"] = [{k: p[k] for k in ("id", "title", "score")} for p in plain["passages"]]
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """Create an answer from what ``to_dict`` returned; passages without texts are left out."""
        values = dict(data)
        values["claims"] = tuple(_claim_from(c) for c in data.get("claims", ()))
        values["passages"] = tuple(Passage.from_dict(p) for p in data.get("passages", ()) if "text" in p)
        values["trace"] = tuple(Decision(**d) for d in data.get("trace", ()))
        values["usage"] = Usage(**data.get("usage", {}))
        return cls(**values)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _claim_from(data: Mapping[str, Any]) -> Claim:
    citations = tuple(
        Citation(tuple(Span(**s) for s in c["spans"]), c["match"], c["ambiguous"], c["quote"])
        for c in data["citations"]
    )
    signals = Signals(**(data.get("signals") or {}))
    critique = Critique(**data["critique"]) if data.get("critique") else None
    necessity = Necessity(**data["necessity"]) if data.get("necessity") else None
    more = {"citations": citations, "signals": signals, "critique": critique, "necessity": necessity}
    return Claim(**{**data, **more})


# --- events of a stream ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """Base of the events of a stream.

    >>> TextDelta("In 1871.").kind
    'TextDelta'
    """

    @property
    def kind(self) -> str:
        """Name of the event's class."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Retrieved(Event):
    """Passages were retrieved for ``query``."""

    query: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A decision was made; the answer's trace contains it too."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class ReferenceSealed(Event):
    """A quote is complete; its claim comes next."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class ClaimSealed(Event):
    """A claim and its quotes are complete."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of the final text; the pieces joined are ``Answer.text``."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The answer; always the last event of a stream."""

    answer: Answer


def iter_spans(claims: tuple[Claim, ...]) -> Iterator[Span]:
    """Iterate over the spans of all citations of the claims."""
    for claim in claims:
        for citation in claim.citations:
            yield from citation.spans


def check_passages(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Return the passages without repetitions; PassageError where two of one id differ or one is no passage."""
    seen: dict[str, Passage] = {}
    for passage in passages:
        if not isinstance(passage, Passage):
            raise PassageError(f"Expected a Passage, not {type(passage).__name__}.", hint="Passage(id=…, text=…)")
        if seen.setdefault(passage.id, passage).text != passage.text:
            raise PassageError(
                f"Two passages have the id {passage.id!r} and different texts.", hint="Ids must be unique."
            )
    return tuple(seen.values())
