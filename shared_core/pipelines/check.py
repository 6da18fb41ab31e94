"""Check an answer made elsewhere: do the passages support each of its claims?

The answer is cut into claims (``abstention.statements``). Each is compared with the windows of the passages most like
it, of the passages given or of those that the retriever finds for it. The engine's judge decides, else the critic; the
model is asked about claims that neither can judge. A claim's support is that of the window that supports it best, but
no more than 1 - P(contradicted) by the window that contradicts it most. It is the probability that the passages support
the claim; whether the claim answers the question is not checked. A short answer ("1871") states nothing by itself: it
is supported as far as the critic says so of question and answer, or the reader finds the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shared_core.abstention import expected_utility
from shared_core.abstention.statements import Statement, Statements, cut_statements
from shared_core.citation.facts import MISSING_AT_MOST
from shared_core.errors import LimitError
from shared_core.pipelines.check_claims import anywhere, claim_of, judge_statements, query_for
from shared_core.pipelines.check_code import lines_with_unknown_addresses
from shared_core.pipelines.deciding import Judged
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import (
    CANNOT_JUDGE,
    DECLINES,
    NOTHING_RETRIEVED,
    SUPPORT_BELOW_TARGET,
    SUPPORT_UNKNOWN,
    explain,
    limit_reason,
)
from shared_core.pipelines.evidence import Evidence, gather
from shared_core.pipelines.necessity import ask_necessity, require_scores
from shared_core.pipelines.support import support_method
from shared_core.retrieval.base import batches
from shared_core.runtime.flow import Compute, Flow, Report, Retrieve, Together
from shared_core.types import Answer, Claim, ClaimSealed, ClaimVerdict, Passage, Retrieved

NOTHING_STATED = "nothing to check"
CONTRADICTED = "contradicted"
STACK_LEFT_OUT = "the calibration of claims is of a pipeline's own answers; checking applies that of support only"
VERDICTS: tuple[ClaimVerdict, ...] = ("supported", "contradicted", "unsupported", "unknown")
BATCH = 32
"""Claims of one batch: judges run them together, and events of one batch arrive before the next begins."""
_QUERIES = 64  # retrievals in one batch


def check(
    answer: str, question: str, passages: Sequence[Passage] | None, run: QuestionRun, *, necessary: bool = False
) -> Flow[Answer]:
    """Check a written answer.

    Args:
        question: that it answers; empty if there is none. Fragments such as "1871." are judged together with it.
        passages: to check against; ``None`` retrieves ``top_k`` for each claim, and for the question.
        necessary: also test whether the model states each claim because of what it cites (``Claim.necessity``).

    Returns:
        The same text with its claims at their offsets: ``kept`` if the support is above the target accuracy, else
        ``flagged``. ``confidence`` is the weakest claim's; unknown if a claim's support is, unless another one is below
        the target anyway. ``abstained`` means here that no claim is supported. ``metadata`` has ``passing`` (all claims
        are supported, or it only declines to answer), ``verdicts`` and ``shares`` (the number and share of claims with
        each verdict), ``unchecked`` (ranges of the text that state nothing, or are code, headings, refusals or lists of
        sources), ``disputed`` (ranges of claims that one passage supports and another contradicts) and ``judged_by``.

    Raises:
        CapabilityError: ``necessary`` is asked for, and the model cannot score given texts.
    """
    if necessary:
        require_scores(run.abilities)  # before any judge runs: the check would be thrown away
    try:
        cut = yield Compute(partial(cut_statements, answer))
    except LimitError as error:
        yield run.stop(error)
        cut = Statements((), ((0, len(answer)),))
    yield run.note(
        "split",
        f"{len(cut.found)} claims",
        "code, headings, questions, lists of sources and refusals are not checked" if cut.left_out else "",
        claims=len(cut.found),
        left_out=len(cut.left_out),
    )
    if run.abilities.stack is not None:
        yield run.note("calibration", "claims left out", STACK_LEFT_OUT)
    near: list[list[str]] = [[] for _ in cut.found]  # ids of a claim's own retrieval; none where passages are given
    if passages is None:
        passages, near = yield from look_up(cut.found, question, run)
    evidence = yield from gather_evidence(passages, run)
    claims: list[Claim] = []
    known: dict[Statement, Judged] = {}
    for batch in batches(list(zip(cut.found, near, strict=True)), BATCH):
        sealed = yield from judge_statements(batch, question, evidence, known, run)
        claims += sealed
        for claim in sealed:
            yield Report(ClaimSealed(claim))
    disputed = [(s.start, s.end) for s in cut.found if known.get(anywhere(s), Judged()).disputed]
    lines, cut = lines_with_unknown_addresses(answer, cut, question, evidence)
    for line in lines:
        claims.append(claim_of(line, Judged(MISSING_AT_MOST, None, evidence.nearest(line.plain)), run))
        yield Report(ClaimSealed(claims[-1]))
    claims.sort(key=lambda c: c.start or 0)
    if necessary and claims and run.trace.limit is None:
        claims = yield from ask_necessity(question, claims, evidence.passages, run)
    return (yield from conclude(answer, question, claims, cut, evidence, run, disputed))


def gather_evidence(passages: Sequence[Passage], run: QuestionRun) -> Flow[Evidence]:
    """Cut and index the passages; there are none once the time is over."""
    try:
        evidence: Evidence = yield Compute(partial(Evidence, passages))
    except LimitError as error:
        yield run.stop(error)
        return Evidence(())
    return evidence


# --- passages ------------------------------------------------------------------------------------------------------


def look_up(
    statements: Sequence[Statement], question: str, run: QuestionRun
) -> Flow[tuple[tuple[Passage, ...], list[list[str]]]]:
    """Retrieve for the question and each statement; return all passages, and for each statement the ids of its own."""
    queries = list(dict.fromkeys([*([question] if question and statements else []),
                                  *(query_for(s, question) for s in statements)]))  # fmt: skip
    found: dict[str, Sequence[Passage]] = {}
    k, where = run.settings.top_k, run.settings.where
    try:
        for batch in batches(queries, _QUERIES):
            results = yield Together(tuple(Retrieve(query, k, where) for query in batch))
            found.update(zip(batch, results, strict=True))
            for query in batch:
                yield Report(Retrieved(query, tuple(found[query])))
    except LimitError as error:
        yield run.stop(error)
    passages = gather(found.values())
    yield run.note("retrieve", f"{len(passages)} passages", "no passages were given", queries=len(found), k=k)
    return tuple(passages.values()), [[p.id for p in found.get(query_for(s, question), ())] for s in statements]


# --- the result ----------------------------------------------------------------------------------------------------


def conclude(
    answer: str,
    question: str,
    claims: Sequence[Claim],
    cut: Statements,
    evidence: Evidence,
    run: QuestionRun,
    disputed: Sequence[tuple[int, int]] = (),
) -> Flow[Answer]:
    """Make the answer of judged claims, as ``check`` describes it."""
    target = run.settings.target_accuracy
    counts = {verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS}
    kept = [c.support for c in claims if c.status == "kept" and c.support is not None]
    weakest = _weakest(claims, target)
    method = support_method(run.abilities)
    yield run.note(
        "keep",
        f"{len(kept)} of {len(claims)} claims",
        f"a claim is supported if its support is above the target accuracy {target:g}",
        target_accuracy=target,
        judged_by=method,
        **counts,
    )
    declines = cut.declines and not claims
    reason = "" if kept else DECLINES if declines else _reason(counts, evidence, run)
    passing = declines or (bool(claims) and len(kept) == len(claims))
    told = "all claims are supported" if passing and kept else reason or "not all are"
    yield run.note("check", told, explain(DECLINES) if declines else "", confidence=weakest)
    return Answer(
        question,
        answer,
        tuple(claims),
        evidence.passages,
        abstained=not kept,
        reason=reason,
        confidence=weakest,
        utility=expected_utility(kept, target),
        trace=tuple(run.trace.decisions),
        calibrated="support" in run.abilities.calibrations,
        metadata={
            "pipeline": "check",
            "target_accuracy": target,
            "passing": passing,
            "verdicts": counts,
            "shares": {v: n / len(claims) if claims else None if declines else 0.0 for v, n in counts.items()},
            "unchecked": [list(place) for place in cut.left_out],
            "disputed": [list(place) for place in disputed],
            "judged_by": method,
        },
    )


def _weakest(claims: Sequence[Claim], target: float) -> float | None:
    """Return the support of the weakest claim; unknown if a claim is, unless another one is below the target anyway."""
    known = [c.support for c in claims if c.support is not None]
    least = min(known, default=None)
    return least if least is not None and (len(known) == len(claims) or least <= target) else None


def _reason(counts: dict[ClaimVerdict, int], evidence: Evidence, run: QuestionRun) -> str:
    if run.trace.limit is not None:  # claims not reached are unknown, which says nothing of the documents
        return limit_reason(run.trace.limit)
    if not sum(counts.values()):
        return NOTHING_STATED
    if not evidence.windows:
        return NOTHING_RETRIEVED
    if counts["contradicted"]:
        return CONTRADICTED
    if counts["unsupported"]:
        return SUPPORT_BELOW_TARGET
    return SUPPORT_UNKNOWN if support_method(run.abilities) is not None else CANNOT_JUDGE
