"""Check an answer made elsewhere: do the passages support each of its claims?

The answer is cut into claims (``abstention.statements``). Each is compared with the windows of the passages most like
it, of the passages given or of those that the retriever finds for it. The engine's judge decides, else the critic; the
model is asked about claims that neither can judge. A claim's support is that of the window that supports it best, but
no more than 1 - P(contradicted) by the window that contradicts it most. It is the probability that the passages support
the claim; whether the claim answers the question is not checked. A short answer ("1871") states nothing by itself: it
is supported as far as the critic says so of question and answer, or the reader finds the same answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shared_core.abstention import expected_utility, keep_claims
from shared_core.abstention.statements import Statement, Statements, cut_statements, joined
from shared_core.citation.facts import REFUTED_AT_MOST, Comparison, compare_claim
from shared_core.citation.facts.attributions import without_attribution
from shared_core.citation.facts.tokens import keys_of
from shared_core.errors import DeadlineError, LimitError
from shared_core.pipelines.decision.links import Addresses
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
from shared_core.pipelines.evidence import Evidence, Window, gather, titled
from shared_core.pipelines.necessity import ask_necessity, require_scores
from shared_core.pipelines.support import (
    MODEL_ALONE,
    MODEL_ALONE_AT_MOST,
    ask_model,
    find_short_answers,
    model_method,
    support,
    support_method,
    verdicts,
)
from shared_core.reading.base import Verdict
from shared_core.runtime.flow import Flow, Judge, Report, Retrieve, Together
from shared_core.types import Answer, Citation, Claim, ClaimSealed, ClaimVerdict, Passage, Retrieved, Signals, Span

T = TypeVar("T")
NOTHING_STATED = "nothing to check"
CONTRADICTED = "contradicted"
STACK_LEFT_OUT = "the calibration of claims is of a pipeline's own answers; checking applies that of support only"
VERDICTS: tuple[ClaimVerdict, ...] = ("supported", "contradicted", "unsupported", "unknown")
BATCH = 32
"""Claims of one batch: judges run them together, and events of one batch arrive before the next begins."""
WINDOWS = 3
"""Windows that a claim is compared with: the right one is among the first three nearly always (docs/check.md)."""
_QUERIES = 64  # retrievals in one batch
_SENTENCES = 4  # of the decisive window that are tried one by one for the citation
_NEARLY = 0.8  # a sentence replaces its window as the citation if it keeps this share of the window's support
_REFUTED = 0.5  # above it, contradiction is more probable than support and silence together


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one statement: probabilities in [0, 1] or ``None``, and the sentences to cite."""

    supported: float | None = None
    refuted: float | None = None
    spans: tuple[Span, ...] = ()

    @property
    def support(self) -> float | None:
        """The support; if one passage supports and another contradicts, the lower of the two probabilities."""
        if self.supported is None or self.refuted is None or self.refuted <= _REFUTED:
            return self.supported
        return min(self.supported, 1 - self.refuted)


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
        sources) and ``judged_by``.

    Raises:
        CapabilityError: ``necessary`` is asked for, and the model cannot score given texts.
    """
    if necessary:
        require_scores(run.abilities)  # before any judge runs: the check would be thrown away
    cut = cut_statements(answer)
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
    evidence = Evidence(passages)
    claims: list[Claim] = []
    known: dict[tuple[str, str, str], Judged] = {}
    for batch in _batches(list(zip(cut.found, near, strict=True)), BATCH):
        sealed = yield from judge_statements(batch, question, evidence, known, run)
        claims += sealed
        for claim in sealed:
            yield Report(ClaimSealed(claim))
    if necessary and claims and run.trace.limit is None:
        claims = yield from ask_necessity(question, claims, evidence.passages, run)
    return (yield from conclude(answer, question, claims, cut, evidence, run))


def judge_statements(
    batch: Sequence[tuple[Statement, Sequence[str]]],
    question: str,
    evidence: Evidence,
    known: dict[tuple[str, str, str], Judged],
    run: QuestionRun,
) -> Flow[list[Claim]]:
    """Judge the statements of a batch; one that is repeated is judged once and remembered in ``known``."""
    fresh = {_key(s): (s, ids) for s, ids in batch if _key(s) not in known}
    # Spent calls or tokens do not stop judge and critic, which use none; only the deadline does.
    if evidence.windows and not isinstance(run.trace.limit, DeadlineError):
        found = yield from _judge_batch(list(fresh.values()), question, evidence, run)
        known.update(zip(fresh, found, strict=True))
    return [_claim(statement, known.get(_key(statement), Judged()), run) for statement, _ in batch]


def _key(statement: Statement) -> tuple[str, str, str]:
    return statement.plain, statement.context, statement.written


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _query(statement: Statement, question: str) -> str:
    """Word the query: the statement with the context it cannot be understood without."""
    return joined((question if statement.fragment else "", statement.context, statement.plain))


def _hypothesis(statement: Statement, question: str, windows: Sequence[Window]) -> str:
    """Word the claim for the judge: the statement alone, or a fragment after the line or question it completes.

    "According to the handbook," is left out: it only names what the claim is compared with.
    """
    if statement.fragment:
        return joined((statement.context or question, statement.plain))
    around = [question, *(text for w in windows for text in (w.passage.title, w.text))]
    return without_attribution(statement.plain, lambda key: any(key in keys_of(text) for text in around))


# --- passages ------------------------------------------------------------------------------------------------------


def look_up(
    statements: Sequence[Statement], question: str, run: QuestionRun
) -> Flow[tuple[tuple[Passage, ...], list[list[str]]]]:
    """Retrieve for the question and each statement; return all passages, and for each statement the ids of its own."""
    queries = list(dict.fromkeys([*([question] if question and statements else []),
                                  *(_query(s, question) for s in statements)]))  # fmt: skip
    found: dict[str, Sequence[Passage]] = {}
    k, where = run.settings.top_k, run.settings.where
    try:
        for batch in _batches(queries, _QUERIES):
            results = yield Together(tuple(Retrieve(query, k, where) for query in batch))
            found.update(zip(batch, results, strict=True))
            for query in batch:
                yield Report(Retrieved(query, tuple(found[query])))
    except LimitError as error:
        yield run.stop(error)
    passages = gather(found.values())
    yield run.note("retrieve", f"{len(passages)} passages", "no passages were given", queries=len(found), k=k)
    return tuple(passages.values()), [[p.id for p in found.get(_query(s, question), ())] for s in statements]


# --- judging -------------------------------------------------------------------------------------------------------


def _judge_batch(
    items: Sequence[tuple[Statement, Sequence[str]]], question: str, evidence: Evidence, run: QuestionRun
) -> Flow[list[Judged]]:
    windows = evidence.best([_query(s, question) for s, _ in items], [ids for _, ids in items], WINDOWS)
    known = Addresses(question, evidence.passages)
    said = [
        known.without_references(_hypothesis(s, question, some)) for (s, _), some in zip(items, windows, strict=True)
    ]
    around = [[f"{question}\n{w.passage.title}\n{w.passage.text}" for w in some] for some in windows]
    written = [known.unknown_in(s.written) for s, _ in items]
    pairs = [[(w.text, claim) for w in some] for some, claim in zip(windows, said, strict=True)]
    told = yield from _ask(pairs, run, around, written)
    told = yield from _ask_critic_for_contradiction(windows, said, told, run)
    facts = [
        [compare_claim(claim, w.text, text, code) for w, text in zip(some, texts, strict=True)]
        for claim, some, texts, code in zip(said, windows, around, written, strict=True)
    ]
    told = [_without_silence(some, compared, run) for some, compared in zip(told, facts, strict=True)]
    spans = yield from _choose_sentences(windows, said, told, evidence, run)
    out = [
        Judged(_most(v.supported for v in some if v), _refutation(some, compared), shown)
        for some, compared, shown in zip(told, facts, spans, strict=True)
    ]
    out = yield from _ask_the_reader([s for s, _ in items], windows, question, out, run)
    return (yield from _ask_the_model(windows, said, out, run))


def _ask_the_reader(
    statements: Sequence[Statement],
    windows: Sequence[Sequence[Window]],
    question: str,
    judged: Sequence[Judged],
    run: QuestionRun,
) -> Flow[list[Judged]]:
    """Support short answers to the question that the reader finds, too, as far as the reader does."""
    short = [i for i, s in enumerate(statements) if s.fragment and not s.context]  # not items of a list, which have one
    passages = list({w.passage.id: w.passage for i in short for w in windows[i]}.values())
    found = yield from find_short_answers(question, [statements[i].plain for i in short], passages, run)
    out = list(judged)
    for i, reading in zip(short, found, strict=True):
        if reading is not None and (reading.probability or 0.0) > (out[i].supported or 0.0):
            out[i] = dataclasses.replace(out[i], supported=reading.probability, spans=(reading.quote,))
    return out


def _without_silence(
    judged: list[Verdict | None], facts: Sequence[Comparison], run: QuestionRun
) -> list[Verdict | None]:
    """Return the verdicts on a claim's windows; all unknown where the window that decides is.

    That is the one most like the claim, if nobody can judge it (another language) and it holds the claim's facts. Then
    windows that lack a fact say nothing.
    """
    unjudged = bool(judged) and judged[0] is None and facts[0].agrees
    supported = _most(v.supported for v in judged if v) or 0.0
    return [None] * len(judged) if unjudged and supported <= run.settings.target_accuracy else judged


def _refutation(judged: Sequence[Verdict | None], facts: Sequence[Comparison]) -> float | None:
    """Largest P(a window contradicts the claim), by its judge or by its facts.

    Beside a window that supports the claim, another one counts only if its facts refute the claim and it speaks of the
    same subject: what another lake's depth is says nothing about this one's, and a passage that leaves a fact out
    contradicts none.
    """
    pairs = [(v, f) for v, f in zip(judged, facts, strict=True) if v is not None]
    supported = any(v.supported > _REFUTED and f.agrees for v, f in pairs)
    by_judge = [v.refuted for v, f in pairs if not supported or (f.refuted and f.same_subject)]
    by_facts = any(f.refuted and (f.same_subject or not supported) for _, f in pairs)
    return _most(iter([*by_judge, 1 - REFUTED_AT_MOST if by_facts else None]))  # the cap on support, turned round


def _most(values: Iterator[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


def _ask(
    pairs: Sequence[Sequence[tuple[str, str]]],
    run: QuestionRun,
    around: Sequence[Sequence[str]] | None = None,
    written: Sequence[str] | None = None,
) -> Flow[list[list[Verdict | None]]]:
    """Verdicts in the shape of the pairs; all unknown when the time is over.

    Args:
        pairs: (evidence, claim) of each claim.
        around: in the same shape, text that may name what the evidence speaks of.
        written: each claim with its backticks, and with the addresses that no passage has.
    """
    codes = [code for some, code in zip(pairs, written, strict=True) for _ in some] if written is not None else None
    contexts = [text for some in around for text in some] if around is not None else None
    try:
        told = iter((yield from verdicts([pair for some in pairs for pair in some], run, contexts, codes)))
    except LimitError as error:
        yield run.stop(error)
        return [[None] * len(some) for some in pairs]
    return [[next(told) for _ in some] for some in pairs]


def _ask_critic_for_contradiction(
    windows: Sequence[Sequence[Window]], said: Sequence[str], told: list[list[Verdict | None]], run: QuestionRun
) -> Flow[list[list[Verdict | None]]]:
    """Ask the critic for contradictions of claims that a judge without refutations does not support."""
    target = run.settings.target_accuracy
    open_ = [i for i, some in enumerate(told) if any(some) and all(v is None or v.refuted is None for v in some)
             and (_most(v.supported for v in some if v) or 0.0) <= target]  # fmt: skip
    # Without a judge, the critic has judged all of these already.
    if not open_ or run.abilities.critic is None or run.abilities.scorer is None:
        return told
    pairs = tuple((w.text, said[i]) for i in open_ for w in windows[i])
    try:
        found: Iterator[Verdict | None] = iter((yield Judge(pairs, by="critic", verdicts=True)))
    except LimitError as error:
        yield run.stop(error)
        return told
    out = list(told)
    for i in open_:
        out[i] = [_with_refutation(v, next(found)) for v in told[i]]
    return out


def _with_refutation(judged: Verdict | None, by_critic: Verdict | None) -> Verdict | None:
    if judged is None or by_critic is None or by_critic.refuted is None:
        return judged
    return dataclasses.replace(judged, refuted=min(by_critic.refuted, 1 - judged.supported))  # else above 1 in sum


def _ask_the_model(
    windows: Sequence[Sequence[Window]], said: Sequence[str], judged: list[Judged], run: QuestionRun
) -> Flow[list[Judged]]:
    """Ask the model about claims that neither judge nor critic could judge: one prompt each, with all its windows."""
    unknown = [i for i, j in enumerate(judged) if j.supported is None and windows[i]]
    method = model_method(run.abilities)
    if not unknown or method is None or run.trace.limit is not None:
        return judged
    quotes = ["\n".join(dict.fromkeys(w.text for w in windows[i])) for i in unknown]
    if support_method(run.abilities) == method:  # no judge, no critic: a calibration of support is of the model
        found = yield from support([(quote, said[i]) for quote, i in zip(quotes, unknown)], run)
    else:
        found = yield from ask_model([(quote, said[i], "") for quote, i in zip(quotes, unknown)], run)
    if run.abilities.critic is not None:  # it could not judge these, and there is no judge
        found = [None if p is None else min(p, MODEL_ALONE_AT_MOST) for p in found]
        yield run.note("support", f"{method} for {len(unknown)}", MODEL_ALONE)
    out = list(judged)
    for i, p in zip(unknown, found, strict=True):
        out[i] = dataclasses.replace(judged[i], supported=p)
    return out


# --- the sentences to show -----------------------------------------------------------------------------------------


def _choose_sentences(
    windows: Sequence[Sequence[Window]],
    said: Sequence[str],
    told: Sequence[Sequence[Verdict | None]],
    evidence: Evidence,
    run: QuestionRun,
) -> Flow[list[tuple[Span, ...]]]:
    """Choose for each claim one sentence to cite, or two: those that support it best, of the window that does.

    If a window contradicts the claim more than any supports it, the sentence that contradicts it; if nothing is known
    or none supports it, the sentence most like it.
    """
    decisive = [_decisive(some, verdict) for some, verdict in zip(windows, told, strict=True)]
    like = [evidence.like(claim, d.window.sentences) if d.window else [] for claim, d in zip(said, decisive)]
    chosen: list[tuple[Span, ...]] = [(spans[0],) if spans else () for spans in like]
    scores = [-1.0] * len(said)  # below all probabilities: any sentence that was judged replaces the one most like it

    def improve(candidates: dict[int, list[tuple[Span, ...]]]) -> Flow[None]:
        pairs = [(some, said[i], decisive[i]) for i, some in candidates.items()]
        for i, found in zip(candidates, (yield from _score(pairs, run)), strict=True):
            best = max(range(len(found)), key=lambda j: found[j])
            if found[best] > scores[i]:
                scores[i], chosen[i] = found[best], candidates[i][best]

    target = run.settings.target_accuracy
    open_ = [i for i, d in enumerate(decisive) if (d.against or (d.probability or 0.0) > target) and len(like[i]) > 1]
    # First single sentences; then, for claims that no single one supports nearly as well as the window, pairs.
    yield from improve({i: [(span,) for span in like[i][:_SENTENCES]] for i in open_})
    open_ = [i for i in open_ if scores[i] < _NEARLY * (decisive[i].probability or 0.0)]
    yield from improve({i: [_in_order(chosen[i][0], s) for s in like[i][:3] if s != chosen[i][0]] for i in open_})
    return chosen


@dataclass(frozen=True, slots=True)
class _Decisive:
    """The window that decides, and its probability of supporting (if ``against``, contradicting) the claim."""

    window: Window | None = None
    probability: float | None = None
    against: bool = False


def _decisive(windows: Sequence[Window], told: Sequence[Verdict | None]) -> _Decisive:
    known = [(v, w) for v, w in zip(told, windows, strict=True) if v is not None]
    if not known:
        return _Decisive(windows[0] if windows else None)
    supports, window = max(known, key=lambda pair: pair[0].supported)
    against, other = max(known, key=lambda pair: pair[0].refuted or 0.0)
    if (against.refuted or 0.0) > max(_REFUTED, supports.supported):  # probable in itself, and more so than support
        return _Decisive(other, against.refuted, True)
    return _Decisive(window, supports.supported)


def _in_order(one: Span, other: Span) -> tuple[Span, ...]:
    return (one, other) if one.start < other.start else (other, one)


def _score(
    items: Sequence[tuple[Sequence[tuple[Span, ...]], str, _Decisive]], run: QuestionRun
) -> Flow[list[list[float]]]:
    """Score how far each candidate supports (or contradicts) its claim, in [0, 1]; -1 if that is unknown."""
    pairs = [
        [(titled(d.window.passage, " ".join(s.text for s in spans)), claim) for spans in some if d.window]
        for some, claim, d in items
    ]
    told = yield from _ask(pairs, run)
    return [
        [-1.0 if v is None else (v.refuted or 0.0) if d.against else v.supported for v in some]
        for some, (_, _, d) in zip(told, items, strict=True)
    ]


# --- the result ----------------------------------------------------------------------------------------------------


def _claim(statement: Statement, judged: Judged, run: QuestionRun) -> Claim:
    supported = bool(keep_claims([judged.support], run.settings.target_accuracy))  # exact: a tie with ρ* fails
    verdict: ClaimVerdict
    if judged.support is None:
        verdict = "unknown"
    elif supported:
        verdict = "supported"
    else:
        verdict = "contradicted" if (judged.refuted or 0.0) > _REFUTED else "unsupported"
    return Claim(
        statement.text,
        judged.support,
        (Citation(judged.spans),) if judged.spans else (),
        statement.start,
        statement.end,
        "kept" if supported else "flagged",
        signals=Signals(entailed=judged.supported, refuted=judged.refuted),
        verdict=verdict,
    )


def conclude(
    answer: str, question: str, claims: Sequence[Claim], cut: Statements, evidence: Evidence, run: QuestionRun
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
            "judged_by": method,
        },
    )


def _weakest(claims: Sequence[Claim], target: float) -> float | None:
    """Return the support of the weakest claim; unknown if a claim is, unless another one is below the target anyway."""
    known = [c.support for c in claims if c.support is not None]
    least = min(known, default=None)
    return least if least is not None and (len(known) == len(claims) or least <= target) else None


def _reason(counts: dict[ClaimVerdict, int], evidence: Evidence, run: QuestionRun) -> str:
    if not sum(counts.values()):
        return NOTHING_STATED
    if run.trace.limit is not None:  # claims not reached are unknown, which says nothing of the documents
        return limit_reason(run.trace.limit)
    if not evidence.windows:
        return NOTHING_RETRIEVED
    if counts["contradicted"]:
        return CONTRADICTED
    if counts["unsupported"]:
        return SUPPORT_BELOW_TARGET
    return SUPPORT_UNKNOWN if support_method(run.abilities) is not None else CANNOT_JUDGE
