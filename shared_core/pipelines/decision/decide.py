"""The decision: which claims are shown, or why there is no answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence

from shared_core.abstention import expected_utility, keep_claims
from shared_core.calibration import FittedGuarantee
from shared_core.pipelines.decision.guarantees import signals_of, tell
from shared_core.pipelines.decision.keeping import standing
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import BELOW_GUARANTEE, REPLIES_UNUSABLE, explain, reason_of
from shared_core.pipelines.decision.wording import abstention_text, assemble
from shared_core.runtime.flow import Flow
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, ClaimStatus, Passage

Layout = Callable[[Sequence[Claim]], tuple[str, tuple[Claim, ...]]]
"""From claims with their status to the answer's text and the claims with their places in it, the dropped ones last."""


def decide(
    question: str,
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    run: QuestionRun,
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
        metadata["guarantee"] = tell(guarantee, run.abilities.drift)
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
    question: str,
    supports: Sequence[float | None],
    answerable: float | None,
    guarantee: FittedGuarantee,
    run: QuestionRun,
) -> Flow[None]:
    """Note the guarantee, and in what the questions asked last differ from those it was fitted on."""
    watch = run.abilities.drift
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


def _status(kept: bool, supported: bool, settings: SelfReflectSettings, whole: bool) -> ClaimStatus:
    if whole and not supported:
        return "flagged"
    if kept:
        return "kept"
    return "flagged" if settings.unsupported == "flag" and not supported else "dropped"
