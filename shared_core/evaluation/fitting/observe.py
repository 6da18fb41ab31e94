"""Ask an engine the questions of a fit and turn what comes back into rows: a score, and whether the event held.

Every question is asked once. Rows are stored as they come, so that a run that was stopped continues where it was.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shared_core.calibration.stack import Stack
from shared_core.errors import CalibrationError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import BATCH, FitJob, Observation, Observed, digest_of, require_some
from shared_core.evaluation.judging import ClaimLabels, can_be_judged, is_right, judge
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.evaluation.runner import digests_of, known_or_nan
from shared_core.pipelines.confidence import GENERAL, models_in_general, signal_values
from shared_core.pipelines.decision.decide import signals_of
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.choose import form_of
from shared_core.pipelines.research.loop import searched
from shared_core.pipelines.research.search import Search
from shared_core.pipelines.seakr.answer import Recalled, closed_book, open_book
from shared_core.pipelines.support import support
from shared_core.runtime import flow as flows
from shared_core.types import Answer, Claim

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

_LOG = logging.getLogger(__name__)
_LONG_BATCH = 8  # questions asked at once; fewer than ``BATCH`` where one takes many calls of a model


def run_of(engine: SelfReflectEngine, measured: dict[Hashable, object] | None = None) -> QuestionRun:
    """Return a run in the engine's context without any calibration, because raw scores are fitted.

    ``measured``: uncertainties measured so far, read and added to.
    """
    return QuestionRun(
        engine.settings, dataclasses.replace(engine.context, calibrations={}, stack=None, measured=measured)
    )


# --- answers of the engine: confidence, claims, guarantee -------------------------------------------------------------


def observe_confidence(job: FitJob) -> Observed:
    """Observe the confidence of each answer, and whether it is right."""
    label = job.options.label or ClaimLabels(job.questions)
    rows = []
    known, found = _ask_answers(job, "confidence answers", BATCH)
    for question, answer in _answered(known, found):
        record = judge(question, answer)
        labels = [label(question, claim) for claim in _shown(answer)] or [record.correct]
        held = True if any(labels) else None if None in labels else False
        rows.append(Observation(question.question, known_or_nan(record.confidence), held, record.prediction))
    return Observed(tuple(rows), digests_of(known), require_some(found), answered=_drift_signals(known, found))


def _with_the_models_claims_only(job: FitJob) -> FitJob:
    """Leave the default's own quotes out: what they are worth depends on the questions asked before."""
    engine = job.engine
    settings = engine.settings.model_copy(update={"compete": False})
    assert engine.resources.retriever is not None, "an engine has a retriever"
    return dataclasses.replace(job, engine=engine.over(engine.resources.retriever, settings))


def _as_beside_a_stack(job: FitJob) -> FitJob:
    """Answer as beside the stack to be fitted: by the shipped stack's support, without the default's own quotes.

    That support depends on nothing but the question.
    """
    job = _with_the_models_claims_only(job)
    first = Stack((GENERAL,), (1.0,), (0.0,), 0.0, before=models_in_general().n)
    job.engine.context = dataclasses.replace(job.engine.context, stack=first)
    return job


def observe_claims(job: FitJob) -> Observed:
    """Observe the signals of each cited claim, shown or not, and whether it is a right answer."""
    job = _as_beside_a_stack(job)

    label = job.options.label or ClaimLabels(job.questions)
    known, found = _ask_answers(job, "claims answers", _LONG_BATCH)
    rows = [
        Observation(
            question.question,
            known_or_nan(claim.support),
            label(question, claim),
            claim.text,
            tuple(signal_values(claim.signals)),
        )
        for question, answer in _answered(known, found)
        for claim in answer.claims
        if claim.citations
    ]
    return Observed(tuple(rows), digests_of(known), require_some(found), answered=_drift_signals(known, found))


def _answered(known: Sequence[Question], found: Sequence[Answer | Exception]) -> list[tuple[Question, Answer]]:
    return [(q, answer) for q, answer in zip(known, found, strict=True) if isinstance(answer, Answer)]


def _drift_signals(known: Sequence[Question], found: Sequence[Answer | Exception]) -> dict[str, dict[str, float]]:
    """Return the drift signals of each answered question, without supports: the fit is about to change these."""
    watched = dict[str, dict[str, float]]()
    for number, (question, answer) in enumerate(_answered(known, found)):
        signals = signals_of(question.question, [c.support for c in answer.claims], answer.metadata["answerable"])
        watched[str(number)] = {name: value for name, value in signals.items() if not name.endswith("support")}
    return watched


def _ask_answers(
    job: FitJob, part: str, together: int, known: Sequence[Question] | None = None
) -> tuple[Sequence[Question], list[Answer | Exception]]:
    """Return the questions that can be judged (or those given), and what came of each.

    Answers are logged rather than labels, so that corrected labels cost no question.
    """
    known = [q for q in job.questions if can_be_judged(q)] if known is None else known

    def dump(answer: Answer) -> dict[str, Any]:
        return dataclasses.replace(answer, passages=(), trace=()).to_dict()

    return known, job.ask(part, known, job.answers, dump=dump, load=Answer.from_dict, together=together)


def claims_to_label(job: FitJob) -> Iterator[tuple[Question, Sequence[Claim]]]:
    """Ask one question after the other, as ``claims`` does (without a model ``confidence``), and yield its claims.

    The answers are logged as those of the fit, which then does not ask again. A question that fails has no claims.
    """
    model = bool(job.engine.resources.models)
    part = "claims answers" if model else "confidence answers"
    job = _as_beside_a_stack(job) if model else job
    for question in job.questions:
        answer = _ask_answers(job, part, 1, [question])[1][0]
        claims: Sequence[Claim] = ()
        if isinstance(answer, Answer):
            claims = [c for c in answer.claims if c.citations] if model else _shown(answer)
        yield question, claims


def _shown(answer: Answer) -> Sequence[Claim]:
    """Return the claims shown, or an abstention's nearest one."""
    return answer.kept_claims or sorted(answer.claims, key=lambda c: -(c.support or 0.0))[:1]


def observe_guarantee(job: FitJob) -> Observed:
    """Observe the score and the label of every claim, and the drift signals of every answer."""
    job = _with_the_models_claims_only(job)
    label = job.options.label or ClaimLabels(job.questions)
    known, found = _ask_answers(job, "guarantee", _LONG_BATCH)
    digests = digests_of(known)
    before = {digest for c in job.engine.context.every_calibration.values() for digest in c.questions}
    reused = len(before.intersection(digests))
    if reused:
        _LOG.warning(
            "Calibrations of this engine were fitted on %d of these %d questions: the guarantee is in doubt.",
            reused,
            len(known),
        )

    failed = require_some(found)
    rows: list[Observation] = []
    answered: dict[str, dict[str, float]] = {}
    for number, (question, answer) in enumerate(_answered(known, found)):
        key = str(number)  # ids and texts may occur twice; every answer counts
        supports = [c.support for c in answer.claims]
        answered[key] = signals_of(question.question, supports, answer.metadata["answerable"])
        for score, claim in zip(answer.metadata["claim_scores"], answer.claims, strict=True):
            rows.append(Observation(key, known_or_nan(score), label(question, claim), claim.text))
    return Observed(tuple(rows), digests, failed, answered=answered, reused=reused)


# --- a model's own answers: gate, answer ------------------------------------------------------------------------------


def observe_recall(job: FitJob) -> Observed:
    """Observe the uncertainty of the model's answers from memory, and whether they are right."""
    engine, form = job.engine, form_of(job.engine.settings)
    measured = job.kept.memo.setdefault(digest_of(engine), {})

    def ask(batch: Sequence[Question]) -> list[Recalled | Exception]:
        return job.run_many([closed_book(q.question, run_of(engine, measured), form) for q in batch])

    found = job.ask(f"recall {form}", job.questions, ask, dump=dataclasses.asdict, load=lambda row: Recalled(**row))
    return Observed(_recalled_rows(job, found), digests_of(job.questions))


def _recalled_rows(job: FitJob, found: Sequence[Recalled | Exception]) -> tuple[Observation, ...]:
    """Return the rows of answers from memory; a question that failed has no answer, which is wrong."""
    recalled = [r if isinstance(r, Recalled) else Recalled(None, math.nan) for r in found]
    right = _label_answers(job, [r.text for r in recalled])
    labelled = zip(job.questions, recalled, right, strict=True)
    return tuple(Observation(q.id, r.uncertainty, held, r.text or "") for q, r, held in labelled)


def observe_own_answers(job: FitJob) -> Observed:
    """Observe the uncertainty of the answers that the pipeline takes from the model, and whether they are right.

    For ``seakr`` these are its final answers, retrieval included, with the given gate. Other pipelines use the model's
    own answer only where the gate skips retrieval: these are its answers from memory.
    """
    engine, settings = job.engine, job.engine.settings
    if settings.pipeline != "seakr":
        return observe_recall(job)
    assert engine.resources.retriever is not None
    gate = job.options.gate
    calibrations = {"gate": gate} if gate is not None else {}
    settings = settings.replace(on_abstain="say", calibration=None)
    gated = engine.over(engine.resources.retriever, settings, calibrations=calibrations)
    gated.context = dataclasses.replace(gated.context, measured=job.kept.memo.setdefault(digest_of(engine), {}))

    def ask(batch: Sequence[Question]) -> list[Recalled | Exception]:
        return [_uncertainty_of(a) if isinstance(a, Answer) else a for a in job.answers(batch, gated)]

    found = job.ask(
        "answer", job.questions, ask, dump=dataclasses.asdict, load=lambda row: Recalled(**row), engine=gated
    )
    rows = _recalled_rows(job, found)
    # where there is no answer there is no confidence to calibrate
    rows = tuple(row if row.text else dataclasses.replace(row, held=None) for row in rows)
    digests = digests_of(job.questions)
    again = len(set(gate.questions).intersection(digests)) if gate is not None else 0
    note = f"the gate's threshold was chosen on {again} of these questions: the figures are optimistic"
    return Observed(rows, digests, notes=(note,) if again else ())


def _uncertainty_of(answer: Answer) -> Recalled:
    for decision in answer.trace:
        if decision.kind == "uncertainty":
            value = decision.values.get("uncertainty")
            return Recalled(str(decision.values["answer"]), math.nan if value is None else float(value))
    return Recalled(None, math.nan)


def _label_answers(job: FitJob, texts: Sequence[str | None]) -> list[bool | None]:
    """Judge each answer by the known answers, or by the model's answer from passages; a missing answer is wrong."""
    questions, labels, form = job.questions, job.options.labels, form_of(job.engine.settings)
    own = [i for i, q in enumerate(questions) if labels == "self" or (labels == "auto" and not q.judgeable)]

    def ask(batch: Sequence[Question]) -> list[str | Exception | None]:
        return job.run_many([open_book(q.question, run_of(job.engine), form) for q in batch])

    quiet = dataclasses.replace(job, progress=None)
    own_questions = [questions[i] for i in own]
    read = quiet.ask(f"open book {form}", own_questions, ask, dump=lambda text: [text], load=lambda row: row[0])
    right: list[bool | None] = [is_right(q, t or "") if q.judgeable else None for q, t in zip(questions, texts)]
    for i, other in zip(own, read, strict=True):
        text = texts[i]
        right[i] = None if not isinstance(other, str) else bool(text) and agree(text, other)
    return right


def agree(first: str | None, second: str | None) -> bool:
    """Return whether one of two short answers contains the other, as whole normalised words."""
    return bool(first and second) and (contains_answer(first, second or "") or contains_answer(second, first or ""))


# --- claims judged one by one: support, self_evaluation ---------------------------------------------------------------


def observe_support(job: FitJob) -> Observed:
    """Observe the support scores of labelled (quote, claim, label) rows."""
    claims = job.options.claims
    scores = flows.run(support([(q, c) for q, c, _ in claims], run_of(job.engine)), job.engine.resources)
    rows = [
        Observation(str(i), known_or_nan(score), label, claim)
        for i, (score, (_, claim, label)) in enumerate(zip(scores, claims, strict=True))
    ]
    return Observed(tuple(rows))


def observe_self_evaluation(job: FitJob) -> Observed:
    """Observe the probability that a model states for each claim of each candidate, and whether the claim is right.

    The claims of every candidate count, not only those of the chosen one: the search chooses by these probabilities.
    Claims rather than labels are logged, so that corrected labels cost no search.
    """
    label = job.options.label or ClaimLabels(job.questions)
    known = [q for q in job.questions if can_be_judged(q)]

    def ask(batch: Sequence[Question]) -> list[list[Claim] | Exception]:
        waiting = [searched(q.question, run_of(job.engine)) for q in batch]
        states = job.run_many(waiting, job.engine.settings.deadline)
        return [list(s.claims.values()) if isinstance(s, Search) else s for s in states]

    def dump(claims: list[Claim]) -> list[dict[str, Any]]:
        return [{"text": c.text, "support": c.support} for c in claims]

    def load(rows: list[dict[str, Any]]) -> list[Claim]:
        return [Claim(**row) for row in rows]

    found = job.ask("self evaluation", known, ask, dump=dump, load=load, together=_LONG_BATCH)
    failed = require_some(found)
    rows = [
        Observation(q.id, known_or_nan(c.support), label(q, c), c.text)
        for q, claims in zip(known, found, strict=True)
        if not isinstance(claims, Exception)
        for c in claims
    ]
    missing = sum(not math.isfinite(row.score) for row in rows)
    if missing == len(rows):
        raise CalibrationError(
            f"No probability could be read from the model's replies about {missing} claims.",
            hint="Use research.published.evaluation=logits, or a model that states whole numbers from 0 to 100.",
        )
    note = f"{missing} of {len(rows)} claims: no probability could be read from the replies"
    return Observed(tuple(rows), digests_of(known), failed, (note,) if missing else ())
