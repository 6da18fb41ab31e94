"""What the pipelines share: a question's run, the assembly of an answer from claims, and the decision to abstain."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from shared_core.abstention import expected_utility, keep_claims
from shared_core.calibration import DriftWatch, FittedGuarantee
from shared_core.calibration.calibration import Calibration
from shared_core.calibration.stack import AnyCalibration, Stack
from shared_core.errors import CapabilityError, LanguageModelError, LimitError
from shared_core.lm.base import Capabilities
from shared_core.lm.identity import Identities
from shared_core.pipelines.decision.guarantees import signals_of, tell
from shared_core.pipelines.decision.reasons import (
    ANSWERABLE_AT_ALL,
    BELOW_GUARANTEE,
    CANNOT_JUDGE,
    CERTAINTY_UNKNOWN,
    FROM_MEMORY,
    NOT_KNOWN,
    NOTHING_ASKED,
    NOTHING_RETRIEVED,
    OUT_OF_BUDGET,
    OUT_OF_TIME,
    PASSAGES_DO_NOT_ANSWER,
    REPLIES_UNUSABLE,
    SUPPORT_BELOW_TARGET,
    SUPPORT_UNKNOWN,
    UNSUPPORTED_HERE,
    explain,
    limit_reason,
    reason_of,
)
from shared_core.pipelines.decision.wording import (
    UNCITED,
    abstention_text,
    assemble,
    assemble_uncited,
    one_line,
    source_of,
)
from shared_core.reading.expected import ExpectedShare
from shared_core.runtime.flow import Flow, Report, Resources
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, ClaimStatus, Decided, Decision, MetadataValue, Passage

__all__ = [
    "ANSWERABLE_AT_ALL", "BELOW_GUARANTEE", "CANNOT_JUDGE", "CERTAINTY_UNKNOWN", "FROM_MEMORY", "NOTHING_ASKED",
    "NOTHING_RETRIEVED", "NOT_KNOWN", "OUT_OF_BUDGET", "OUT_OF_TIME", "PASSAGES_DO_NOT_ANSWER", "REPLIES_UNUSABLE",
    "SUPPORT_BELOW_TARGET", "SUPPORT_UNKNOWN", "UNCITED", "UNSUPPORTED_HERE", "Context", "Layout", "Run", "Trace",
    "abstention_text", "assemble", "assemble_uncited", "decide", "explain", "leans", "merge_duplicates",
    "raise_faults", "source_of", "standing",
]  # fmt: skip


@dataclass(frozen=True)
class Context:
    """What a pipeline may know of its surroundings.

    Attributes:
        capabilities: of each model by role; empty without a language model.
        names: of each model by role, for traces.
        identities: of each model by role, for calibrations (``lm.identity``).
        calibrations: by purpose (``confidence``, ``gate``, …), as loaded from ``settings.calibration``.
        scorer: name of what carries ``Judge`` requests out (an NLI model, …); ``None`` if nothing does.
        critic: name of the shipped critic; ``None`` where its packages are not installed.
        has_embedder: whether ``Embed`` requests can be carried out.
        has_reader: whether the reader is asked about a model's claims.
        expected: the share of questions that the documents answer.
        stack: puts what the witnesses say of a claim together, where one was fitted.
        measured: uncertainties that were measured before, kept by calibrations, which ask the same more than once.
        guarantee: fitted for answers, applied where the settings ask for it; ``drift`` watches that it still fits.
    """

    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    scorer: str | None = None
    has_embedder: bool = False
    critic: str | None = None
    has_reader: bool = False
    expected: ExpectedShare = field(default_factory=ExpectedShare, compare=False)
    stack: Stack | None = None
    guarantee: FittedGuarantee | None = None
    drift: DriftWatch | None = field(default=None, compare=False)
    identities: Mapping[str, str] = field(default_factory=dict, compare=False)
    measured: dict[Hashable, object] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        resources: Resources,
        calibrations: Mapping[str, Calibration] | None = None,
        expected: ExpectedShare | None = None,
        stack: Stack | None = None,
        guarantee: FittedGuarantee | None = None,
    ) -> Context:
        """What these resources can do and how they are called; without calibrations scores are raw."""
        return cls(
            capabilities={role: model.capabilities for role, model in resources.models.items()},
            names={role: model.name for role, model in resources.models.items()},
            identities=Identities(resources.models),
            calibrations=calibrations or {},
            scorer=resources.judge.name if resources.judge is not None else None,
            critic=resources.critic.name if resources.critic is not None else None,
            has_embedder=resources.embedder is not None,
            has_reader=resources.reader is not None,
            expected=expected if expected is not None else ExpectedShare(),
            stack=stack,
            guarantee=guarantee,
            drift=DriftWatch(guarantee.signals) if guarantee is not None else None,
        )

    @property
    def every_calibration(self) -> Mapping[str, AnyCalibration]:
        """Calibrations by purpose, the stack as ``claims``, the guarantee as ``guarantee``."""
        found: dict[str, AnyCalibration] = dict(self.calibrations)
        if self.stack is not None:
            found["claims"] = self.stack
        if self.guarantee is not None:
            found["guarantee"] = self.guarantee
        return found

    def model(self, role: str) -> Capabilities | None:
        """Capabilities of the model of that role (the default one stands in), ``None`` if there is none."""
        return self.capabilities.get(role) or self.capabilities.get("default")

    def model_name(self, role: str) -> str:
        """Name of the model of that role."""
        return self.names.get(role) or self.names.get("default", "none")

    def model_identity(self, role: str) -> str:
        """What calibrations of the model of that role are bound to."""
        known = role if role in self.identities else "default"
        return self.identities[known] if known in self.identities else self.model_name(role)


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

    @property
    def guarantee(self) -> FittedGuarantee | None:
        """The guarantee that holds for this run, where the settings ask for one."""
        return self.context.guarantee if self.settings.guarantee is not None else None

    @property
    def bar(self) -> float:
        """What a claim's support must be above to be shown: the target accuracy, or the guarantee's threshold."""
        return self.settings.target_accuracy if self.guarantee is None else self.guarantee.bar

    def note(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """``yield run.note(…)`` puts a decision into the trace and tells whoever listens."""
        return self.trace.add(kind, outcome, reason, **values)

    def stop(self, error: LimitError) -> Report:
        """Note that a limit ended the work; an abstention after it gives it as its reason."""
        self.trace.limit = error
        return self.note("limit", limit_reason(error), error.message)


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


Layout = Callable[[Sequence[Claim]], tuple[str, tuple[Claim, ...]]]
"""From claims with their status to the answer's text and the claims with their places in it, the dropped ones last."""


def decide(
    question: str,
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    run: Run,
    *,
    pipeline: str,
    answerable: float | None = None,
    confidence: float | None = None,
    calibrated: bool = False,
    unknown: str = "",
    eligible: Collection[int] | None = None,
    unusable: bool = False,
    scores: Sequence[float | None] | None = None,
    whole: bool = False,
    layout: Layout | None = None,
    reason: str = "",
) -> Flow[Answer]:
    """Keep the claims that raise expected utility at the target accuracy (``abstention``); abstain if none does.

    Under a guarantee (``settings.guarantee``) those are kept that score above its threshold, too; what it promises
    stands in ``metadata["guarantee"]``. ``metadata["claim_scores"]`` has what each of ``Answer.claims`` is kept by.
    A claim of unknown support is never kept. ``confidence`` is by default that of the weakest claim shown (all of them
    are right only if that one is), and of an abstention that of the best claim there was: how near the answer was.

    Args:
        question, claims, passages, run: as they are so far.
        pipeline: its name, for the metadata.
        answerable: P(the passages answer the question).
        confidence: in place of the default.
        calibrated: supports were fitted for this configuration.
        unknown: why supports are unknown, where they are.
        eligible: numbers of the claims that may be kept; all if not given.
        unusable: the model's replies could not be used; the reason for abstaining if there are no claims.
        scores: for each claim what it is kept by, at most its support, where other claims decide on it too.
        whole: the eligible claims are shown together or not at all: all if that is worth more than nothing.
        layout: makes the text of the claims and their places in it (``assemble``).
        reason: for abstaining, where it cannot be told from claims and passages; a limit that was reached goes first.
    """
    settings = run.settings
    target = settings.target_accuracy
    supports = [c.support for c in claims]
    worth = keep_claims(supports, target)
    bars = standing(claims, eligible) if scores is None else scores
    guarantee = run.guarantee
    bar = run.bar
    keep = {i for i, score in enumerate(bars) if score is not None and score > bar}
    worth = [i for i in worth if (support := supports[i]) is not None and support > bar]
    whole = whole and guarantee is None and eligible != () and expected_utility(supports, target) > 0
    if whole:
        keep = set(range(len(claims)))
    known = [s for s in supports if s is not None]
    best = max(known) if known else None
    judged = tuple(
        dataclasses.replace(c, status=_status(i in keep, i in worth, settings, whole)) for i, c in enumerate(claims)
    )
    yield run.note(
        "keep",
        f"{len(keep)} of {len(claims)} claims",
        f"a claim is kept if its support is above the target accuracy {target:g}",
        target_accuracy=target,
        best_support=best,
    )
    metadata: dict[str, object] = {"pipeline": pipeline, "target_accuracy": target, "answerable": answerable}
    metadata["claim_scores"] = list(bars)
    if guarantee is not None:
        yield from _watch(question, supports, answerable, guarantee, run)
        metadata["guarantee"] = tell(guarantee, run.context.drift)
    if not keep:
        if guarantee is not None and run.trace.limit is None and any(s is not None and s > target for s in bars):
            reason = BELOW_GUARANTEE
        elif run.trace.limit is not None or not reason:
            reason = reason_of(claims, known, passages, answerable, run.trace.limit, unknown)
        if unusable and not claims and run.trace.limit is None:
            reason = REPLIES_UNUSABLE
        sentence = explain(reason, unknown)
        yield run.note("abstain", reason, sentence, best_support=best, target_accuracy=target, answerable=answerable)
        dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in claims)
        text = abstention_text(question, reason, sentence, dropped, passages, settings)
        confidence = best if confidence is None else confidence
        return Answer(
            question, text, dropped, tuple(passages), True, reason, confidence, 0.0, tuple(run.trace.decisions),
            calibrated=calibrated, metadata=metadata,
        )  # fmt: skip
    text, placed = (layout or assemble)(judged)
    metadata["claim_scores"] = [
        bars[i] for i in sorted(range(len(judged)), key=lambda i: judged[i].status == "dropped")
    ]
    shown = [s for i, s in enumerate(supports) if i in keep]
    utility = expected_utility(shown, target)
    if confidence is None:
        confidence = None if None in shown else min(s for s in shown if s is not None)
    yield run.note("answer", f"{len(keep)} claims kept", utility=utility, confidence=confidence)
    return Answer(
        question, text, placed, tuple(passages), False, "", confidence, utility, tuple(run.trace.decisions),
        calibrated=calibrated, metadata=metadata,
    )  # fmt: skip


def _watch(
    question: str, supports: Sequence[float | None], answerable: float | None, guarantee: FittedGuarantee, run: Run
) -> Flow[None]:
    """Note the guarantee, and in what the questions asked last differ from those it was fitted on."""
    watch = run.context.drift
    if watch is not None:
        watch.see(signals_of(question, supports, answerable))
    drifted = watch.drifted if watch is not None else {}
    yield run.note(
        "guarantee",
        "in doubt" if drifted else "vacuous" if guarantee.vacuous else "holds",
        f"questions differ from the calibration's in {', '.join(drifted)}" if drifted else guarantee.kind,
        threshold=guarantee.threshold if math.isfinite(guarantee.threshold) else None,
        n=guarantee.n,
        kept_share=guarantee.kept_share,
    )


def merge_duplicates(claims: Sequence[Claim]) -> list[Claim]:
    """Each statement once: one said again adds its quotes to the first, and the surer of the two supports counts."""
    merged: dict[str, Claim] = {}
    for claim in claims:
        key = one_line(claim.text).casefold().rstrip(".")
        first = merged.get(key)
        if first is None:
            merged[key] = claim
            continue
        quotes = (*first.citations, *(c for c in claim.citations if c not in first.citations))
        surer = max((first, claim), key=lambda c: -1.0 if c.support is None else c.support)
        merged[key] = dataclasses.replace(
            first, citations=quotes, support=surer.support, signals=surer.signals, critique=surer.critique
        )
    return list(merged.values())


_LEANING = re.compile(
    r"(?:(?:and|but|so|then|also|however|therefore|thus)\b,?\s+)?"
    r"(?:he|she|it|they|his|her|hers|its|their|theirs|this|these|those|that|such|both|the former|the latter)\b",
    re.IGNORECASE,
)


def leans(text: str) -> bool:
    """Whether a statement begins with a word for something that was said before it."""
    return _LEANING.match(text) is not None


def standing(claims: Sequence[Claim], eligible: Collection[int] | None = None) -> list[float | None]:
    """What each claim is kept by: its support, or less where it leans on one that is less sure; ``None``: never.

    So whatever the bar, a claim above it can be understood beside the others above it.
    """
    found: list[float | None] = []
    for i, claim in enumerate(claims):
        score = claim.support if eligible is None or i in eligible else None
        if i > 0 and score is not None and leans(claim.text) and not _is_quote(claim):
            before = found[-1]
            score = None if before is None else min(score, before)
        found.append(score)
    return found


def _is_quote(claim: Claim) -> bool:
    """Whether the claim is its own quote: then it is shown as its document has it."""
    return any(one_line(c.quote) == one_line(claim.text) for c in claim.citations)


def _status(kept: bool, supported: bool, settings: SelfReflectSettings, whole: bool) -> ClaimStatus:
    if whole and not supported:
        return "flagged"
    if kept:
        return "kept"
    return "flagged" if settings.unsupported == "flag" and not supported else "dropped"
