"""What the pipelines share: the trace, the assembly of an answer from claims, and the decision to abstain."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared_core.abstention import expected_utility, keep_claims
from shared_core.flow import Flow, Report
from shared_core.lm.base import Capabilities
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, ClaimStatus, Decided, Decision, MetadataValue, Passage, Span
from shared_core.uncertainty.calibration import Calibration

NOTHING_RETRIEVED = "nothing retrieved"
PASSAGES_DO_NOT_ANSWER = "passages do not answer"
SUPPORT_BELOW_TARGET = "support below target"
SUPPORT_UNKNOWN = "support unknown"


@dataclass(frozen=True)
class Context:
    """What a pipeline may know of its surroundings.

    Attributes:
        capabilities: of each model by role; empty without a language model.
        names: of each model by role, for calibrations and traces.
        calibrations: by purpose (``confidence``, ``gate``, …), as loaded from ``settings.calibration``.
        has_reader: whether ``Read`` requests can be carried out; ``has_judge`` likewise for ``Judge``.
    """

    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    has_reader: bool = True
    has_judge: bool = False
    has_embedder: bool = False

    def model(self, role: str) -> Capabilities | None:
        """Capabilities of the model of that role (the default one stands in), ``None`` if there is none."""
        return self.capabilities.get(role) or self.capabilities.get("default")

    def model_name(self, role: str) -> str:
        """Name of the model of that role."""
        return self.names.get(role) or self.names.get("default", "none")


class Trace:
    """Collects decisions; ``yield trace.add(…)`` also tells whoever listens."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def add(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """Note a decision; figures are rounded to six places, for people."""
        rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
        decision = Decision(kind, outcome, reason, rounded)
        self.decisions.append(decision)
        return Report(Decided(decision))


def decide(
    question: str,
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    settings: SelfReflectSettings,
    trace: Trace,
    *,
    pipeline: str,
    answerable: float | None = None,
    confidence: float | None = None,
) -> Flow[Answer]:
    """Keep the claims that raise expected utility at the target accuracy; abstain if none does (``research.md``).

    A claim of unknown support is never kept. ``confidence`` defaults to the best claim's support, and is given for
    abstentions too, where it says how near the answer was.
    """
    target = settings.target_accuracy
    supports = [c.support for c in claims]
    keep = set(keep_claims(supports, target))
    known = [s for s in supports if s is not None]
    judged = tuple(dataclasses.replace(c, status=_status(i in keep, settings)) for i, c in enumerate(claims))
    yield trace.add(
        "keep",
        f"{len(keep)} of {len(claims)} claims",
        f"a claim is kept if its support is above the target accuracy {target:g}",
        target_accuracy=target,
        best_support=max(known) if known else None,
    )
    if confidence is None and known:
        confidence = max(known)
    metadata: dict[str, object] = {"pipeline": pipeline, "target_accuracy": target, "answerable": answerable}
    if not keep:
        reason = _reason(claims, known, passages, answerable)
        yield trace.add("abstain", reason, explain(reason, known, target), answerable=answerable)
        dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in claims)
        text = abstention_text(reason, known, dropped, passages, settings)
        return Answer(
            question, text, dropped, tuple(passages), True, reason, confidence, 0.0, tuple(trace.decisions),
            metadata=metadata,
        )  # fmt: skip
    text, placed = assemble(judged)
    utility = expected_utility([s for i, s in enumerate(supports) if i in keep and s is not None], target)
    yield trace.add("answer", f"{len(keep)} claims kept", utility=utility, confidence=confidence)
    return Answer(
        question, text, placed, tuple(passages), False, "", confidence, utility, tuple(trace.decisions),
        metadata=metadata,
    )  # fmt: skip


def _status(kept: bool, settings: SelfReflectSettings) -> ClaimStatus:
    if kept:
        return "kept"
    return "flagged" if settings.unsupported == "flag" else "dropped"


def _reason(
    claims: Sequence[Claim], known: Sequence[float], passages: Sequence[Passage], answerable: float | None
) -> str:
    if not passages:
        return NOTHING_RETRIEVED
    if not claims:
        return PASSAGES_DO_NOT_ANSWER
    if not known:
        return SUPPORT_UNKNOWN
    # Sufficiency names the reason only; it does not decide (research.md: 35% of answers are right without it).
    if answerable is not None and answerable < 0.5:
        return PASSAGES_DO_NOT_ANSWER
    return SUPPORT_BELOW_TARGET


def explain(reason: str, known: Sequence[float], target: float) -> str:
    """A sentence for people about why there is no answer."""
    best = (
        f" The best candidate is right with probability {max(known):.2f}; the target is {target:.2f}." if known else ""
    )
    return {
        NOTHING_RETRIEVED: "No passage of the documents matches the question.",
        PASSAGES_DO_NOT_ANSWER: f"The passages found do not answer the question.{best}",
        SUPPORT_UNKNOWN: "Whether the passages support the candidate answers could not be determined.",
        SUPPORT_BELOW_TARGET: f"No candidate answer is supported well enough.{best}",
    }[reason]


def abstention_text(
    reason: str,
    known: Sequence[float],
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    settings: SelfReflectSettings,
) -> str:
    """What to say instead of an answer, by ``settings.on_abstain``."""
    said = f"I can't answer that from these documents. {explain(reason, known, settings.target_accuracy)}"
    if settings.on_abstain != "show" or not passages:
        return said
    spans = [s for c in claims for citation in c.citations for s in citation.primary]
    nearest = spans or [p.span(0, min(len(p.text), 300)) for p in passages]
    by_id = {p.id: p for p in passages}
    lines = [f"- “{_one_line(s.text)}” ({source_of(by_id[s.passage_id])})" for s in nearest[: settings.max_claims]]
    return "\n".join([said, "The nearest passages say:", *lines])


def source_of(passage: Passage) -> str:
    """Where a passage comes from, for people: its file, else its title, else its id."""
    return str(passage.metadata.get("source") or passage.title or passage.id)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def assemble(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """Join the claims that are not dropped into the answer's text, with markers [1], [2], … after each claim.

    Returns the text and the claims with their places in it: ``text[c.start:c.end] == c.text``. Numbers follow the
    first appearance of each quote, without gaps; a flagged claim is followed by ``(unsupported)``.
    """
    numbers: dict[tuple[str, int, int], int] = {}
    text = ""
    placed: list[Claim] = []
    for claim in claims:
        if claim.status == "dropped":
            placed.append(claim)
            continue
        start = len(text) + bool(text)
        text = f"{text} {claim.text}" if text else claim.text
        placed.append(dataclasses.replace(claim, start=start, end=start + len(claim.text)))
        marks = [numbers.setdefault(_key(s), len(numbers) + 1) for c in claim.citations for s in c.primary]
        text += (" " if marks else "") + "".join(f"[{n}]" for n in dict.fromkeys(marks))
        text += " (unsupported)" if claim.status == "flagged" else ""
    placed.sort(key=lambda c: c.status == "dropped")
    return text, tuple(placed)


def _key(span: Span) -> tuple[str, int, int]:
    return (span.passage_id, span.start, span.end)
