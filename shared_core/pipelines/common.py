"""What the pipelines share: a question's run, the assembly of an answer from claims, and the decision to abstain."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared_core.abstention import expected_utility, keep_claims
from shared_core.errors import CapabilityError, DeadlineError, LanguageModelError, LimitError
from shared_core.flow import Flow, Report, Resources
from shared_core.lm.base import Capabilities
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, ClaimStatus, Decided, Decision, MetadataValue, Passage, Span
from shared_core.uncertainty.calibration import Calibration

NOTHING_RETRIEVED = "nothing retrieved"
PASSAGES_DO_NOT_ANSWER = "passages do not answer"
SUPPORT_BELOW_TARGET = "support below target"
SUPPORT_UNKNOWN = "support unknown"
OUT_OF_TIME = "out of time"
OUT_OF_BUDGET = "out of budget"


@dataclass(frozen=True)
class Context:
    """What a pipeline may know of its surroundings.

    Attributes:
        capabilities: of each model by role; empty without a language model.
        names: of each model by role, for calibrations and traces.
        calibrations: by purpose (``confidence``, ``gate``, …), as loaded from ``settings.calibration``.
        scorer: name of what carries ``Judge`` requests out (an NLI model, …); ``None`` if nothing does.
        has_embedder: whether ``Embed`` requests can be carried out.
    """

    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    scorer: str | None = None
    has_embedder: bool = False

    @classmethod
    def of(cls, resources: Resources, calibrations: Mapping[str, Calibration] | None = None) -> Context:
        """What these resources can do and how they are called; without calibrations scores are raw."""
        return cls(
            capabilities={role: model.capabilities for role, model in resources.models.items()},
            names={role: model.name for role, model in resources.models.items()},
            calibrations=calibrations or {},
            scorer=resources.judge.name if resources.judge is not None else None,
            has_embedder=resources.embedder is not None,
        )

    def model(self, role: str) -> Capabilities | None:
        """Capabilities of the model of that role (the default one stands in), ``None`` if there is none."""
        return self.capabilities.get(role) or self.capabilities.get("default")

    def model_name(self, role: str) -> str:
        """Name of the model of that role."""
        return self.names.get(role) or self.names.get("default", "none")


class Trace:
    """Collects decisions; ``yield trace.add(…)`` also tells whoever listens.

    Attributes:
        decisions: so far, in order.
        limit: the limit that ended the work before it was done, where one did.
    """

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.limit: LimitError | None = None

    def add(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """Note a decision; figures are rounded to six places, for people."""
        rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
        decision = Decision(kind, outcome, reason, rounded)
        self.decisions.append(decision)
        return Report(Decided(decision))


@dataclass(frozen=True, slots=True)
class Run:
    """One question on its way through a pipeline: what holds for all of it, and where its decisions are noted."""

    settings: SelfReflectSettings = field(default_factory=SelfReflectSettings)
    context: Context = field(default_factory=Context)
    trace: Trace = field(default_factory=Trace)

    def note(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """``yield run.note(…)`` puts a decision into the trace and tells whoever listens."""
        return self.trace.add(kind, outcome, reason, **values)

    def stop(self, error: LimitError) -> Report:
        """Note that a limit ended the work; an abstention after it gives it as its reason."""
        self.trace.limit = error
        return self.note("limit", _limit_reason(error), error.message)


def raise_faults(results: Sequence[object]) -> None:
    """Raise the first error among the results that is no failure of a model to say something.

    Such a failure makes what was asked for unknown. A capability that the model lacks, a limit of the settings and
    anything that is no error of a model's at all would fail again, or are a fault of ours.
    """
    for result in results:
        failed = isinstance(result, Exception) and not isinstance(result, LanguageModelError)
        if failed or isinstance(result, CapabilityError):
            assert isinstance(result, Exception)
            raise result


def decide(
    question: str,
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    run: Run,
    *,
    pipeline: str,
    answerable: float | None = None,
    confidence: float | None = None,
) -> Flow[Answer]:
    """Keep the claims that raise expected utility at the target accuracy (``abstention``); abstain if none does.

    A claim of unknown support is never kept. ``confidence`` defaults to the best claim's support, and is given for
    abstentions too, where it says how near the answer was.
    """
    settings = run.settings
    target = settings.target_accuracy
    supports = [c.support for c in claims]
    keep = set(keep_claims(supports, target))
    known = [s for s in supports if s is not None]
    best = max(known) if known else None
    judged = tuple(dataclasses.replace(c, status=_status(i in keep, settings)) for i, c in enumerate(claims))
    yield run.note(
        "keep",
        f"{len(keep)} of {len(claims)} claims",
        f"a claim is kept if its support is above the target accuracy {target:g}",
        target_accuracy=target,
        best_support=best,
    )
    if confidence is None:
        confidence = best
    metadata: dict[str, object] = {"pipeline": pipeline, "target_accuracy": target, "answerable": answerable}
    if not keep:
        reason = _reason(claims, known, passages, answerable, run.trace.limit)
        yield run.note(
            "abstain", reason, explain(reason), best_support=best, target_accuracy=target, answerable=answerable
        )
        dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in claims)
        text = abstention_text(question, reason, dropped, passages, settings)
        return Answer(
            question, text, dropped, tuple(passages), True, reason, confidence, 0.0, tuple(run.trace.decisions),
            metadata=metadata,
        )  # fmt: skip
    text, placed = assemble(judged)
    utility = expected_utility([s for i, s in enumerate(supports) if i in keep and s is not None], target)
    yield run.note("answer", f"{len(keep)} claims kept", utility=utility, confidence=confidence)
    return Answer(
        question, text, placed, tuple(passages), False, "", confidence, utility, tuple(run.trace.decisions),
        metadata=metadata,
    )  # fmt: skip


def _status(kept: bool, settings: SelfReflectSettings) -> ClaimStatus:
    if kept:
        return "kept"
    return "flagged" if settings.unsupported == "flag" else "dropped"


def _reason(
    claims: Sequence[Claim],
    known: Sequence[float],
    passages: Sequence[Passage],
    answerable: float | None,
    limit: LimitError | None,
) -> str:
    if limit is not None:
        return _limit_reason(limit)
    if not passages:
        return NOTHING_RETRIEVED
    if not claims:
        return PASSAGES_DO_NOT_ANSWER
    if not known:
        return SUPPORT_UNKNOWN
    # That the passages do not suffice names the reason and decides nothing: models are still right on 35% of such
    # questions and more (Joren et al. 2024, "Sufficient Context", arXiv:2411.06037).
    if answerable is not None and answerable < 0.5:
        return PASSAGES_DO_NOT_ANSWER
    return SUPPORT_BELOW_TARGET


def _limit_reason(limit: LimitError) -> str:
    return OUT_OF_TIME if isinstance(limit, DeadlineError) else OUT_OF_BUDGET


def explain(reason: str) -> str:
    """A sentence for people about why there is no answer; the figures behind it stand in the trace."""
    return {
        NOTHING_RETRIEVED: "No passage of the documents matches the question.",
        PASSAGES_DO_NOT_ANSWER: "The passages found do not answer the question.",
        SUPPORT_UNKNOWN: "Whether the passages support the candidate answers could not be determined.",
        SUPPORT_BELOW_TARGET: "No candidate answer is supported well enough.",
        OUT_OF_TIME: "There was not enough time to find an answer that can be stood behind.",
        OUT_OF_BUDGET: "The model calls or tokens allowed for a question were spent before it could be answered.",
    }[reason]


def abstention_text(
    question: str, reason: str, claims: Sequence[Claim], passages: Sequence[Passage], settings: SelfReflectSettings
) -> str:
    """What to say instead of an answer: ``settings.abstain_text`` or our own words, by ``settings.on_abstain``."""
    own = settings.abstain_text
    said = (
        f"I can't answer that from these documents. {explain(reason)}"
        if own is None
        else own.format(question=question, reason=explain(reason))
    )
    if settings.on_abstain != "show" or not passages:
        return said
    spans = [s for c in claims for citation in c.citations for s in citation.primary]
    nearest = spans or [p.span(0, min(len(p.text), 300)) for p in passages]
    by_id = {p.id: p for p in passages}
    lines = [f"- “{_one_line(s.text)}” ({source_of(by_id[s.passage_id])})" for s in nearest[: settings.max_claims]]
    heading = ["The nearest passages say:"] if own is None else []  # not in another language than the rest
    return "\n".join([said, *heading, *lines])


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
