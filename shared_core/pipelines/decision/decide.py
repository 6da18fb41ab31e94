"""The decision: which claims an answer shows, or why there is no answer.

Three steps. *Choose*: a claim is kept if its score is above the bar, the target accuracy ρ* or a guarantee's threshold.
Keeping exactly the claims with P > ρ* maximises expected utility (Piché et al. 2024), so no search is needed.
*Judge*: every claim gets its status (kept, flagged, dropped). *Lay out*: the kept claims become the text with its
markers; where none is kept, the answer abstains, and its reason is the most specific true one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from shared_core.abstention import expected_utility
from shared_core.abstention.statements import LEANING
from shared_core.calibration import DriftWatch, FittedGuarantee
from shared_core.pipelines.decision.links import without_own_references
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import (
    BELOW_GUARANTEE,
    CANNOT_JUDGE,
    DOCUMENTS_DISAGREE,
    NOTHING_RETRIEVED,
    PASSAGES_DO_NOT_ANSWER,
    SUPPORT_BELOW_TARGET,
    SUPPORT_UNKNOWN,
    explain,
    limit_reason,
)
from shared_core.pipelines.decision.wording import abstention_text, assemble, assemble_uncited, one_line
from shared_core.runtime.flow import Flow
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, ClaimStatus, Passage

# --- claims beside each other --------------------------------------------------------------------------------------


def merge_duplicates(claims: Sequence[Claim], bar: float = 0.0) -> list[Claim]:
    """Merge claims with the same text: the first keeps its place, and has the better support with its quotes.

    Args:
        claims: not weighed yet, so that all quotes of a text are judged together, or weighed.
        bar: support in [0, 1] that a weighed claim must exceed so that its quotes are kept beside those of a surer one.
    """
    merged: dict[str, Claim] = {}
    for claim in claims:
        key = one_line(claim.text).casefold().rstrip(".")
        first = merged.get(key)
        if first is None:
            merged[key] = claim
            continue
        surer = max((first, claim), key=lambda c: -1.0 if c.support is None else c.support)  # unknown is the least
        # Quotes that were found not to support the text must not be shown with the support of others.
        good = [c for c in (first, claim) if c.support == surer.support or (c.support is not None and c.support > bar)]
        quotes = tuple(dict.fromkeys(quote for c in good for quote in c.citations))
        # Support and the signals it was made of stay together, so that the trace can explain the number.
        merged[key] = dataclasses.replace(
            first, citations=quotes, support=surer.support, signals=surer.signals, critique=surer.critique
        )
    return list(merged.values())


def leans(text: str) -> bool:
    """Return whether a statement begins with a pronoun, so that it needs the statement before it.

    >>> leans("She died in 1899."), leans("Mira Holm died in 1899.")
    (True, False)
    """
    return LEANING.match(text) is not None


def standing(claims: Sequence[Claim], eligible: Collection[int] | None = None) -> list[float | None]:
    """Return the score each claim is kept by: its support, or the score of the claim it leans on if that is lower.

    So at any bar, each kept claim is shown together with the claim that says who "she" is.

    Args:
        claims: in the order of the text, with their support.
        eligible: numbers of the claims that may be kept; all by default.

    Returns:
        One score in [0, 1] for each claim; ``None`` for a claim that is never kept.

    >>> standing([Claim("Mira Holm built it.", 0.2), Claim("She died in 1899.", 0.9)])
    [0.2, 0.2]
    """
    found: list[float | None] = []
    for i, claim in enumerate(claims):
        score = claim.support if eligible is None or i in eligible else None
        if i > 0 and score is not None and leans(claim.text) and not _is_quote(claim):
            before = found[-1]  # a score, not a support: "It … She … They …" all lean on the first
            score = None if before is None else min(score, before)
        found.append(score)
    return found


def _is_quote(claim: Claim) -> bool:
    """Return whether the claim is its own quote: a sentence of a document is shown as it is, pronouns and all."""
    # The passages' words: a model's own may differ from them (``match``).
    return any(one_line(" ".join(s.text for s in c.primary)) == one_line(claim.text) for c in claim.citations)


# --- drift and guarantees ------------------------------------------------------------------------------------------


UNKNOWN = -1.0
"""The value of an unknown figure among the signals: more unknown figures than before are drift like any other."""


def signals_of(question: str, supports: Sequence[float | None], answerable: float | None) -> dict[str, float]:
    """Describe a question and its claims in figures whose distribution stays the same while the questions do."""
    known = [s for s in supports if s is not None]
    return {
        "best support": max(known, default=UNKNOWN),
        "mean support": sum(known) / len(known) if known else UNKNOWN,
        "claims": float(len(supports)),
        "answerable": UNKNOWN if answerable is None else answerable,
        "words of the question": float(len(question.split())),
    }


def note_drift(
    question: str, supports: Sequence[float | None], answerable: float | None, run: QuestionRun
) -> Flow[None]:
    """Add the question to the drift watch, and note in the trace if a calibration or guarantee is in doubt."""
    guarantee, watch = run.guarantee, run.abilities.drift
    # Exchangeability with the calibration's questions is the one assumption of every conformal promise (Vovk et al.
    # 2005), and it cannot be proved; drift in these signals refutes it.
    if watch is not None:
        watch.see(signals_of(question, supports, answerable))
    drifted = watch.drifted if watch is not None else {}
    if guarantee is None:
        if drifted:
            why = f"questions differ from the calibration's in {', '.join(drifted)}: calibrate again"
            yield run.note("drift", "the calibration is in doubt", why)
        return
    yield run.note(
        "guarantee",
        "in doubt" if drifted else "vacuous" if guarantee.vacuous else "holds",
        f"questions differ from the calibration's in {', '.join(drifted)}" if drifted else guarantee.kind,
        threshold=guarantee.threshold if math.isfinite(guarantee.threshold) else None,  # JSON has no infinity
        n=guarantee.n,
        kept_share=guarantee.kept_share,
    )


def describe_guarantee(guarantee: FittedGuarantee, watch: DriftWatch | None) -> dict[str, Any]:
    """Describe the promise, its conditions, and whether recent questions still look like the calibration's."""
    described = guarantee.describe()
    drifted = watch.drifted if watch is not None else {}
    if drifted:
        described["text"] = (
            f"In doubt: the questions last asked differ from the calibration's in {', '.join(drifted)}, so it may not "
            f"hold for them. {described['text']}"
        )
    return {**described, "holds": not drifted, "drift": drifted, "checked": watch.checked if watch is not None else 0}


# --- the decision --------------------------------------------------------------------------------------------------


Layout = Callable[[Sequence[Claim]], tuple[str, tuple[Claim, ...]]]
"""Turns claims with their status into the text and the claims with their offsets in it, dropped claims last."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """The claims of a pipeline, ready to be decided on.

    Attributes:
        claims: with their support, a probability in [0, 1] or ``None`` for unknown.
        passages: that were read, best first.
        answerable: P(the passages answer the question); ``None`` if unknown.
        calibrated: whether supports come from a calibration fitted for this configuration.
        unknown: why supports are unknown, where they are.
        confidence: of the answer; by default that of the weakest claim shown (all are right only if that one is), or,
            of an abstention, that of the best claim (how near it came to an answer).
        scores: a number for each claim to compare with the bar, at most its support, where it depends on other claims
            too; ``standing(claims)`` by default.
        whole: show all claims together or none: all if their joint expected utility is above 0.
        layout: lays out the kept claims; ``assemble`` by default.
        reason: for abstaining, if the pipeline knows more than claims and passages tell. A limit that was reached and
            a guarantee come before it.
        contradiction: numbers of two claims from documents that contradict each other, the surer one first. The other
            is shown beside it, marked; where neither is kept, that is the reason, if it cost the answer.
        undisputed: support that the surer one of the two has without the other; ``None`` if it is unknown.

    >>> from shared_core.pipelines.decision.decide import DecisionRequest, decide
    >>> from shared_core.runtime.flow import Resources, run
    >>> claims = [Claim("The dam was built in 1911.", 0.9), Claim("It is 83 m high.", 0.2)]
    >>> request = DecisionRequest("How old is the dam?", claims, [Passage("a", "…")], pipeline="composed")
    >>> answer = run(decide(request, QuestionRun()), Resources())
    >>> answer.text, [claim.status for claim in answer.claims]
    ('The dam was built in 1911.', ['kept', 'dropped'])
    """

    question: str
    claims: Sequence[Claim]
    passages: Sequence[Passage]
    _: KW_ONLY
    pipeline: str
    answerable: float | None = None
    calibrated: bool = False
    unknown: str = ""
    confidence: float | None = None
    scores: Sequence[float | None] | None = None
    whole: bool = False
    layout: Layout = assemble
    reason: str = ""
    contradiction: tuple[int, int] | None = None
    undisputed: float | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """The chosen claims: scores and statuses of all, the numbers of the kept ones, the best known support."""

    scores: list[float | None]
    claims: tuple[Claim, ...]
    kept: set[int]
    best: float | None


def decide(request: DecisionRequest, run: QuestionRun) -> Flow[Answer]:
    """Keep the claims that raise expected utility at the target accuracy; abstain if there is none.

    A claim of unknown support is never kept. Under a guarantee (``settings.guarantee``) a claim's score must be above
    the guarantee's threshold as well. The trace gets ``keep``, ``guarantee`` where there is one, then ``answer`` or
    ``abstain``; ``metadata["claim_scores"]`` the score of each of ``Answer.claims``, in their order, and
    ``metadata["guarantee"]`` the promise and whether it holds.
    """
    target = run.settings.target_accuracy
    if request.layout in (assemble, assemble_uncited):  # others put the claims back into a text of their own
        claims = without_own_references(request.claims, request.question, request.passages)
        request = dataclasses.replace(request, claims=claims)
    choice = _choose(request, run)
    yield run.note(
        "keep",
        f"{len(choice.kept)} of {len(request.claims)} claims",
        f"a claim is kept if its support is above the target accuracy {target:g}",
        target_accuracy=target,
        best_support=choice.best,
    )
    if request.contradiction is not None:
        one, other = (request.claims[i] for i in request.contradiction)
        yield run.note("contradiction", "documents disagree", f"{one.text} / {other.text}"[:500])
    metadata: dict[str, object] = {
        "pipeline": request.pipeline,
        "target_accuracy": target,
        "answerable": request.answerable,
        "claim_scores": list(choice.scores),
    }
    yield from note_drift(request.question, [c.support for c in request.claims], request.answerable, run)
    if run.guarantee is not None:
        metadata["guarantee"] = describe_guarantee(run.guarantee, run.abilities.drift)
    elif run.abilities.drift is not None and run.abilities.drift.drifted:
        metadata["drift"] = run.abilities.drift.drifted
    finish = _show if choice.kept else _abstain
    return (yield from finish(request, choice, metadata, run))


def _choose(request: DecisionRequest, run: QuestionRun) -> _Choice:
    """Choose the claims to keep, and give every claim its status."""
    claims, bar = request.claims, run.bar
    scores = standing(claims) if request.scores is None else list(request.scores)
    # Strictly above: at p = ρ* a claim's expected utility is 0, no more than that of saying nothing.
    kept = {i for i, score in enumerate(scores) if score is not None and score > bar}
    supports = [c.support for c in claims]
    # A guarantee is a promise about single claims, so claims that would fail alone cannot be carried by the others.
    whole = request.whole and run.guarantee is None and expected_utility(supports, run.settings.target_accuracy) > 0
    if whole:
        kept = set(range(len(claims)))
    first, second = request.contradiction or (None, None)
    marked = second if first in kept else None
    kept -= {marked}  # shown beside the first, but not kept: the answer must not assert both
    judged = []
    for i, claim in enumerate(claims):
        # Its own support, not its score: a claim that leans on a dropped one may well be supported.
        supported = claim.support is not None and claim.support > bar
        if i == marked:  # shown, so that nobody takes the first for undisputed
            judged.append(dataclasses.replace(claim, status="flagged", verdict="contradicted"))
            continue
        judged.append(dataclasses.replace(claim, status=_status(i in kept, supported, whole, run.settings)))
    return _Choice(scores, tuple(judged), kept, max((s for s in supports if s is not None), default=None))


def _status(kept: bool, supported: bool, whole: bool, settings: SelfReflectSettings) -> ClaimStatus:
    if whole and not supported:
        return "flagged"  # it is shown for the sake of the whole, and marked
    if kept:
        return "kept"
    # A supported claim that is not kept leans on a dropped one: marking it "unsupported" would be untrue.
    return "flagged" if settings.unsupported_claims == "flag" and not supported else "dropped"


def _show(request: DecisionRequest, choice: _Choice, metadata: dict[str, object], run: QuestionRun) -> Flow[Answer]:
    """Lay out the kept claims."""
    text, placed = request.layout(choice.claims)
    # Layouts move dropped claims to the end; the scores follow them (sorting is stable).
    dropped_last = sorted(range(len(choice.claims)), key=lambda i: choice.claims[i].status == "dropped")
    metadata["claim_scores"] = [choice.scores[i] for i in dropped_last]
    shown = [request.claims[i].support for i in sorted(choice.kept)]
    utility = expected_utility(shown, run.settings.target_accuracy)
    confidence = request.confidence
    if confidence is None and None not in shown:  # `whole` may show a claim of unknown support
        confidence = min(s for s in shown if s is not None)
    yield run.note("answer", f"{len(choice.kept)} claims kept", utility=utility, confidence=confidence)
    return Answer(
        request.question,
        text,
        placed,
        tuple(request.passages),
        confidence=confidence,
        utility=utility,
        trace=tuple(run.trace.decisions),
        calibrated=request.calibrated,
        metadata=metadata,
    )


def _abstain(request: DecisionRequest, choice: _Choice, metadata: dict[str, object], run: QuestionRun) -> Flow[Answer]:
    """Give the reason, in a word and in a sentence, with what came nearest to an answer."""
    settings = run.settings
    reason = _reason(request, choice, run)
    sentence = explain(reason, request.unknown)
    yield run.note(
        "abstain",
        reason,
        sentence,
        best_support=choice.best,
        target_accuracy=settings.target_accuracy,
        answerable=request.answerable,
    )
    # From the request, not the choice: an abstention shows no claim, not even a flagged one.
    dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in request.claims)
    pair = request.contradiction if reason == DOCUMENTS_DISAGREE else None  # else the surest claim's quote
    nearest: Sequence[Claim] = dropped if pair is None else [dropped[i] for i in pair]
    confidence = choice.best if request.confidence is None else request.confidence
    if reason == CANNOT_JUDGE:
        nearest, confidence = [c for c in dropped if c.support is None], None
    return Answer(
        request.question,
        abstention_text(request.question, reason, sentence, nearest, request.passages, settings),
        dropped,
        tuple(request.passages),
        abstained=True,
        reason=reason,
        confidence=confidence,
        trace=tuple(run.trace.decisions),
        calibrated=request.calibrated,
        metadata=metadata,
    )


_ANSWERABLE_AT_ALL = 0.25
"""P(the passages answer) below which the reason is the passages; above it, the claims' support."""


def _reason(request: DecisionRequest, choice: _Choice, run: QuestionRun) -> str:
    """Choose the most specific true reason why nothing was kept."""
    target = run.settings.target_accuracy
    if run.trace.limit is not None:  # whatever was found until then says nothing about the documents
        return limit_reason(run.trace.limit)
    # Above ρ* and still not kept: nothing but the guarantee's threshold was in the way.
    if run.guarantee is not None and any(score is not None and score > target for score in choice.scores):
        return BELOW_GUARANTEE
    if request.reason:
        return request.reason
    # What is not sure enough by itself was not lost to what contradicts it.
    if request.contradiction is not None and (request.undisputed is None or request.undisputed > run.bar):
        return DOCUMENTS_DISAGREE
    if not request.passages:
        return NOTHING_RETRIEVED
    # The claim that ranks first could not be judged, whatever others are worth.
    if request.unknown and (choice.best is None or request.claims[0].support is None):
        return CANNOT_JUDGE
    if choice.best is None:  # no claim could be judged
        return SUPPORT_UNKNOWN if request.claims else PASSAGES_DO_NOT_ANSWER  # no claims: nothing was found to claim
    # Whether passages suffice names the reason only; it does not decide: a third of the questions with insufficient
    # context are answered rightly (Joren et al. 2024, "Sufficient context", section 4).
    if request.answerable is not None and request.answerable < _ANSWERABLE_AT_ALL:
        return PASSAGES_DO_NOT_ANSWER
    return SUPPORT_BELOW_TARGET
