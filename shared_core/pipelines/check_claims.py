"""Judge the claims of an answer by the windows of the passages: judge, critic, reader and model, each where it can."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial

from shared_core.abstention.statements import Statement, joined
from shared_core.citation.facts import Comparison, compare_claim
from shared_core.citation.facts.attributions import without_attribution
from shared_core.citation.facts.tokens import keys_of
from shared_core.errors import DeadlineError, LimitError
from shared_core.pipelines.check_rules import settle
from shared_core.pipelines.deciding import Judged, ask, choose_sentences, decide, most, verdict_of
from shared_core.pipelines.decision.links import Addresses
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import Evidence, Window, lowest
from shared_core.pipelines.support import (
    MODEL_ALONE,
    MODEL_ALONE_AT_MOST,
    ask_model,
    find_short_answers,
    model_method,
    support,
    support_method,
)
from shared_core.reading.base import Verdict
from shared_core.runtime.flow import Compute, Flow, Judge
from shared_core.types import Citation, Claim, Signals

WINDOWS = 3
"""Windows that a claim is compared with: the right one is among the first three nearly always (docs/check.md)."""


def judge_statements(
    batch: Sequence[tuple[Statement, Sequence[str]]],
    question: str,
    evidence: Evidence,
    known: dict[Statement, Judged],
    run: QuestionRun,
) -> Flow[list[Claim]]:
    """Judge the statements of a batch; one that is repeated is judged once and remembered in ``known``."""
    fresh = {anywhere(s): (s, ids) for s, ids in batch if anywhere(s) not in known}
    # Spent calls or tokens do not stop judge and critic, which use none; only the deadline does.
    if evidence.windows and not isinstance(run.trace.limit, DeadlineError):
        found = yield from _judge_batch(list(fresh.values()), question, evidence, run)
        for key, judged in zip(fresh, found, strict=True):
            known[key] = dataclasses.replace(judged, spans=evidence.quoted(judged.spans, key.plain))
    return [claim_of(statement, known.get(anywhere(statement), Judged()), run) for statement, _ in batch]


def anywhere(statement: Statement) -> Statement:
    """Return the statement without its place, by which repeated ones are equal."""
    return dataclasses.replace(statement, text="", start=0, end=0)


def claim_of(statement: Statement, judged: Judged, run: QuestionRun) -> Claim:
    """Make a claim of a judged statement."""
    verdict = verdict_of(judged, run)
    return Claim(
        statement.text,
        judged.support,
        (Citation(judged.spans),) if judged.spans else (),
        statement.start,
        statement.end,
        "kept" if verdict == "supported" else "flagged",
        signals=Signals(entailed=judged.supported, refuted=judged.refuted),
        verdict=verdict,
    )


def query_for(statement: Statement, question: str) -> str:
    """Word the query for a statement: the statement with the context it cannot be understood without."""
    return joined((question if statement.fragment else "", statement.context, statement.plain))


def _hypothesis(statement: Statement, question: str, windows: Sequence[Window]) -> str:
    """Word the claim for the judge: the statement alone, or a fragment after the line or question it completes.

    "According to the handbook," is left out: it only names what the claim is compared with.
    """
    if statement.fragment:
        return joined((statement.context or question, statement.plain))
    around = [question, *(text for w in windows for text in (w.passage.title, w.text))]
    return without_attribution(statement.plain, lambda key: any(key in keys_of(text) for text in around))


@dataclasses.dataclass(frozen=True, slots=True)
class _Prepared:
    """Statements of a batch, ready to be judged: their wordings, and the windows to judge them by."""

    said: list[str]
    written: list[str]
    ranked: list[list[Window]]
    windows: list[list[Window]]


def _prepare(items: Sequence[tuple[Statement, Sequence[str]]], question: str, evidence: Evidence) -> _Prepared:
    ranked = evidence.best([query_for(s, question) for s, _ in items], [ids for _, ids in items], WINDOWS)
    known = Addresses(question, evidence.passages)
    said = [
        known.without_references(_hypothesis(s, question, some)) for (s, _), some in zip(items, ranked, strict=True)
    ]
    written = [known.unknown_in(s.written) for s, _ in items]
    windows = [evidence.narrowed(claim, some) for claim, some in zip(said, ranked, strict=True)]
    _compare(said, windows, written, question)  # remembered: whoever compares them again need not wait
    return _Prepared(said, written, ranked, windows)


def _compare(
    said: Sequence[str], windows: Sequence[Sequence[Window]], written: Sequence[str], question: str
) -> list[list[Comparison]]:
    return [
        [compare_claim(claim, w.text, text, code) for w, text in zip(some, _around(some, question), strict=True)]
        for claim, some, code in zip(said, windows, written, strict=True)
    ]


def _judge_batch(
    items: Sequence[tuple[Statement, Sequence[str]]], question: str, evidence: Evidence, run: QuestionRun
) -> Flow[list[Judged]]:
    try:
        ready: _Prepared = yield Compute(partial(_prepare, items, question, evidence))
        out = yield from _judge_prepared([s for s, _ in items], ready, question, evidence, run)
        settled: list[Judged] = yield Compute(partial(settle, [s for s, _ in items], ready.windows, out, question, run))
    except LimitError as error:
        yield run.stop(error)
        return [Judged()] * len(items)
    return settled


def _judge_prepared(
    statements: Sequence[Statement], ready: _Prepared, question: str, evidence: Evidence, run: QuestionRun
) -> Flow[list[Judged]]:
    said, written, ranked, windows = ready.said, ready.written, ready.ranked, ready.windows
    told = yield from _ask_windows(windows, said, written, question, run)
    # A row may be too short to tell its language, which the table or list as a whole does.
    unknown = [i for i, some in enumerate(told) if not any(some) and windows[i] != ranked[i]]
    again = yield from _ask_windows(
        [ranked[i] for i in unknown], [said[i] for i in unknown], [written[i] for i in unknown], question, run
    )
    for i, found in zip(unknown, again, strict=True):
        windows[i], told[i] = ranked[i], found
    told = yield from _ask_critic_for_contradiction(windows, said, told, run)
    facts = _compare(said, windows, written, question)
    told = [_without_silence(some, compared, run) for some, compared in zip(told, facts, strict=True)]
    decisive = [decide(*of_claim, run) for of_claim in zip(windows, told, facts, strict=True)]
    chosen = yield from choose_sentences(said, decisive, evidence, run)
    out = [
        Judged(lowest(d.supported, limit), d.refuted, shown, d.disputed)
        for d, (shown, limit) in zip(decisive, chosen, strict=True)
    ]
    out = yield from _ask_the_reader(statements, windows, question, out, run)
    return (yield from _ask_the_model(windows, said, out, run))


def _around(windows: Sequence[Window], question: str) -> list[str]:
    return [f"{question}\n{w.around}" for w in windows]


def _ask_windows(
    windows: Sequence[Sequence[Window]], said: Sequence[str], written: Sequence[str], question: str, run: QuestionRun
) -> Flow[list[list[Verdict | None]]]:
    pairs = [[(w.text, claim) for w in some] for some, claim in zip(windows, said, strict=True)]
    return (yield from ask(pairs, run, [_around(some, question) for some in windows], written))


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
    supported = most(v.supported for v in judged if v) or 0.0
    return [None] * len(judged) if unjudged and supported <= run.settings.target_accuracy else judged


def _ask_critic_for_contradiction(
    windows: Sequence[Sequence[Window]], said: Sequence[str], told: list[list[Verdict | None]], run: QuestionRun
) -> Flow[list[list[Verdict | None]]]:
    """Ask the critic for contradictions of claims that a judge without refutations does not support."""
    target = run.settings.target_accuracy
    open_ = [i for i, some in enumerate(told) if any(some) and all(v is None or v.refuted is None for v in some)
             and (most(v.supported for v in some if v) or 0.0) <= target]  # fmt: skip
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
