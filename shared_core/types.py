"""The frozen values that everything else passes around.

Offsets are code points of the original passage text, half open: ``passage.text[span.start:span.end] == span.text``.
Probabilities are floats in [0, 1]; ``None`` means "unknown" and is never to be read as "confident".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from shared_core.errors import InputError, PassageError

MetadataValue = str | int | float | bool | None
MatchKind = Literal["verbatim", "normalised", "fuzzy"]
"""How a quote was found in its passage; only ``verbatim`` may be shown as a quotation."""


def _check_probability(value: float | None, name: str) -> None:
    if value is not None and not (0.0 <= value <= 1.0):  # also refuses NaN
        raise InputError(f"{name} must be a probability in [0, 1] or None, not {value!r}.")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, the unit of retrieval.

    Attributes:
        id: unique within an index.
        text: what is quoted; offsets of spans point into it.
        title: of the document, shown to models and searched along with the text.
        metadata: flat values; ``source``, ``start`` and ``end`` (code points in the file's text) where known.
        score: of the retrieval that found it, higher is better; ``None`` if it was not retrieved.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    score: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be retrieved or cited."""
        if not isinstance(self.id, str) or not self.id:
            raise PassageError(f"A passage needs a non-empty string id, not {self.id!r}.")
        if not isinstance(self.text, str) or not isinstance(self.title, str):
            raise PassageError(f"Text and title of passage {self.id!r} must be strings.")
        # A read-only copy: a retriever's caller must not be able to change what an answer cites.
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def __hash__(self) -> int:
        return hash((self.id, self.text))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy does not pickle by itself
        return (type(self), (self.id, self.text, self.title, dict(self.metadata), self.score))

    def with_score(self, score: float | None, **metadata: MetadataValue) -> Passage:
        """A copy with that score and the metadata added."""
        return dataclasses.replace(self, score=score, metadata={**self.metadata, **metadata})

    def span(self, start: int, end: int) -> Span:
        """The span ``text[start:end]``; InputError if it does not lie within the text."""
        if not 0 <= start <= end <= len(self.text):
            raise InputError(
                f"[{start}, {end}) does not lie within passage {self.id!r} of {len(self.text)} characters."
            )
        return Span(self.id, start, end, self.text[start:end])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "id": self.id,
            "text": self.text,
            "title": self.title,
            "metadata": dict(self.metadata),
            "score": self.score,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Passage:
        """The reverse of ``to_dict``."""
        return cls(data["id"], data["text"], data.get("title", ""), data.get("metadata") or {}, data.get("score"))


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one passage: ``passage.text[start:end] == text``, in code points."""

    passage_id: str
    start: int
    end: int
    text: str

    def __post_init__(self) -> None:
        """Refuse offsets that cannot hold."""
        if not 0 <= self.start <= self.end or self.end - self.start != len(self.text):
            raise InputError(f"Span [{self.start}, {self.end}) of passage {self.passage_id!r} does not fit its text.")


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a quote stands in the passages.

    Attributes:
        spans: every place the quoted text occurs at, at least one, in the order of the passages; a quote
            of several sentences that do not adjoin has one span (or more) for each.
        match: how it was found.
        ambiguous: the same text occurs at more than one place.
        quote: the text as the model wrote it (equal to the passage's where ``match`` is ``verbatim``).
    """

    spans: tuple[Span, ...]
    match: MatchKind = "verbatim"
    ambiguous: bool = False
    quote: str = ""

    def __post_init__(self) -> None:
        """Refuse a citation of nothing; fill in the quote."""
        if not self.spans:
            raise InputError("A citation needs at least one span.")
        if not self.quote:
            object.__setattr__(self, "quote", " ".join(s.text for s in self.primary))

    @property
    def primary(self) -> tuple[Span, ...]:
        """The first occurrence of each distinct quoted text: what to show where one place is enough."""
        seen: dict[str, Span] = {}
        for span in self.spans:
            seen.setdefault(span.text, span)
        return tuple(seen.values())


ClaimStatus = Literal["kept", "flagged", "dropped"]
ClaimVerdict = Literal["supported", "contradicted", "unsupported", "unknown"]
"""What checking a claim came to: the passages support it, say otherwise, do neither, or it could not be judged."""


@dataclass(frozen=True, slots=True)
class Necessity:
    """How probable a model finds a claim as the answer: log-probabilities of the whole claim, in nats, at most 0.

    Attributes:
        with_all: under all the passages.
        without_quote: under the passages without the sentences that it cites.
        quote_alone: under these sentences and nothing else.
    """

    with_all: float
    without_quote: float
    quote_alone: float

    @property
    def necessary(self) -> bool:
        """Without its quote the claim is less than half as probable."""
        return self.with_all - self.without_quote > _HALF

    @property
    def sufficient(self) -> bool:
        """Under its quote alone the claim is at least half as probable as under everything."""
        return self.with_all - self.quote_alone <= _HALF


_HALF = 0.6931471805599453  # ln 2


@dataclass(frozen=True, slots=True)
class Critique:
    """Self-RAG's judgement of one segment (``reflection``): each part in its own range, ``None`` if not judged.

    Attributes:
        relevance: of the passage, [0, 1].
        support: of the segment by the passage, [0, 1].
        usefulness: of the segment for the question, [-1, 1].
        score: the weighted sum (``critique_score``).
    """

    relevance: float | None = None
    support: float | None = None
    usefulness: float | None = None
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Signals:
    """What the witnesses say of one claim, each apart: probabilities in [0, 1], ``None`` where unknown.

    Attributes:
        entailed: its quotes support the claim (critic, or the engine's judge).
        answers: the passage around the quote supports it as an answer to the question (critic).
        quoted: the quoted sentence holds a right answer to the question (reader).
        sufficient: the passages answer the question at all (reader).
        certain: the model's own certainty: its word, its log-probabilities, or one minus its samples' uncertainty.
        named: share of the question's names and numbers that the passages cited hold: of something with nearly the same
            name they speak as plainly. Heard by a fitted stack only.
        likely: geometric mean of the model's probabilities of the words that it wrote, having read the passages. No
            probability of being right: only a fitted stack makes something of it.
        agreement: share of independent answers (the reader's, other samples') that say the same.
        refuted: the passages say otherwise (critic); not calibrated. Told for answers that are checked.
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

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        for f in dataclasses.fields(self):
            _check_probability(getattr(self, f.name), f"Signals.{f.name}")


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of an answer with what stands behind it.

    Attributes:
        text: the statement.
        support: probability that it is a right answer to the question, or a right part of one; ``None`` is unknown.
            ``Answer.calibrated`` says whether it is calibrated or by rule.
        citations: the quotes it was written from.
        start, end: its place in ``Answer.text`` (code points), ``None`` where it is not part of the text.
        status: ``kept`` in the answer, ``flagged`` as weak but shown, or ``dropped``.
        short_answer: the words of the quote that answer the question, on one line, where they could be found.
        signals: what ``support`` is made of.
        critique: Self-RAG's judgement, where it was made.
        necessity: whether the model states it because of its quote, where that was asked (``check``, ``necessary``).
        verdict: of a claim of an answer that was checked; its citations are what supports it, what contradicts it, or
            the nearest there is.
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
        """Refuse a support that is no probability."""
        _check_probability(self.support, "Claim.support")


@dataclass(frozen=True, slots=True)
class Decision:
    """One entry of the trace: what was decided, how it came out, and on what figures.

    Attributes:
        kind: what was decided, a word of the field (``retrieve``, ``rerank``, ``keep``, ``abstain``, …).
        outcome: how, in a word or a short phrase.
        reason: why, for a person.
        values: the figures it rests on; plain values only, never a secret.
    """

    kind: str
    outcome: str
    reason: str = ""
    values: Mapping[str, MetadataValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep a read-only copy of the figures."""
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def __hash__(self) -> int:
        return hash((self.kind, self.outcome, self.reason))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.kind, self.outcome, self.reason, dict(self.values)))


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost. Adds up with ``+``.

    Attributes:
        calls: requests sent to a language model.
        prompt_tokens: tokens of the prompts, each shared prefix counted once where the backend shared it.
        generated_tokens: tokens written by the model, forced ones included.
        forwards: forward passes of the model, where the backend can count them.
        forwards_saved: tokens that a grammar forced and that so needed no forward of their own.
        cached_tokens: prompt tokens that came from a kept cache.
        seconds: from asking to the answer, on the clock; among many questions asked at once those of all of them. Two
            answers that differ in nothing else are equal.
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
    """What the engine returns.

    Attributes:
        question: as asked.
        text: the answer, or on abstention what the policy says to show.
        claims: kept and flagged claims, in the order of the text; then the dropped ones.
        passages: all that was retrieved and read, best first.
        abstained: no claim met the target.
        reason: why it abstained; empty if it did not.
        confidence: probability that what is shown is a right answer (of an abstention: that the best there was would
            have been), ``None`` if unknown.
        calibrated: ``confidence`` was fitted for this configuration; otherwise it is by a conservative rule.
        utility: expected utility of the kept claims at the target accuracy (0 for an abstention).
        trace: every decision, in order.
        usage: what it cost.
        metadata: further figures of the pipeline (its name, the guarantee claimed, …).
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
        """Refuse a confidence that is no probability and an abstention without a reason."""
        _check_probability(self.confidence, "Answer.confidence")
        if self.abstained and not self.reason:
            raise InputError("An abstention needs a reason.")
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def __hash__(self) -> int:
        return hash((self.question, self.text))

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, f.name) for f in dataclasses.fields(self)]
        return (type(self), (*values[:-1], dict(self.metadata)))

    @property
    def kept_claims(self) -> tuple[Claim, ...]:
        """The claims the text is made of."""
        return tuple(c for c in self.claims if c.status != "dropped")

    def numbered_spans(self) -> list[Span]:
        """The quotes of the kept claims without repetition; entry ``i`` is shown as ``[i + 1]``."""
        seen: dict[tuple[str, int, int], Span] = {}
        for claim in self.kept_claims:
            for citation in claim.citations:
                for span in citation.primary:
                    seen.setdefault((span.passage_id, span.start, span.end), span)
        return list(seen.values())

    def pieces(self) -> list[str]:
        """The text cut before each claim, so that a stream shows it claim by claim; joined they are the text."""
        cuts = sorted({0, len(self.text), *(c.start for c in self.claims if c.start)})
        return [self.text[a:b] for a, b in itertools.pairwise(cuts)]

    def passage(self, passage_id: str) -> Passage:
        """The passage of that id; KeyError if the answer has none."""
        for passage in self.passages:
            if passage.id == passage_id:
                return passage
        raise KeyError(passage_id)

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Plain values, ready for JSON; NaN and infinities become ``None``.

        Args:
            texts: whole passages; else the id, title and score of each (quotes are in the claims' citations).
        """
        plain = _plain({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        assert isinstance(plain, dict)
        if not texts:
            plain["passages"] = [{k: p[k] for k in ("id", "title", "score")} for p in plain["passages"]]
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """The reverse of ``to_dict``; passages that came without their texts are left out."""
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


# --- events: what a stream shows while an answer is being made ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on the way to an answer; ``kind`` names it in plain words."""

    @property
    def kind(self) -> str:
        """The event's name: its class."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Retrieved(Event):
    """Passages were retrieved for ``query``."""

    query: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A decision was made; the same value stands in the answer's trace."""

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
    """Every span of every citation of the claims."""
    for claim in claims:
        for citation in claim.citations:
            yield from citation.spans
