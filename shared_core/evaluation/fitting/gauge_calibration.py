"""Calibrating what a language model's uncertainty means: when it knows by itself, and how often its answers are right.

Labels come from questions with known answers, or, without any, from the model itself: its answer from memory counts as
right where it agrees with its answer from the passages found.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from shared_core.calibration.binding import BindingValue
from shared_core.calibration.calibration import (
    Calibration,
    Method,
    ThresholdRule,
    choose_threshold,
    fit_calibration,
    held_out,
)
from shared_core.errors import CalibrationError, InputError, SelfReflectError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import Progress, ask_each, digest_of
from shared_core.evaluation.fitting.calibration import PLATT_BELOW, HeldOut, draw_held_out
from shared_core.evaluation.fitting.enough import require_enough, require_enough_claims
from shared_core.evaluation.fitting.seen import digests_of
from shared_core.evaluation.judging import is_right
from shared_core.evaluation.metrics.answers import contains_answer
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.choose import Form, answer_binding, choose_gauge, form_of
from shared_core.pipelines.gating.closed_book import Recalled, closed_book, open_book
from shared_core.pipelines.support import support, support_binding
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Flow
from shared_core.support.run_log import RunLog
from shared_core.types import Answer

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

Labels = Literal["auto", "gold", "self"]
"""``gold``: judged by the known answers; ``self``: by agreement with the answer from passages; ``auto``: gold where
answers are known, self elsewhere."""
T = TypeVar("T")
WITH_GATE = ("composed", "seakr")
"""Pipelines that apply a calibrated gate, and calibrated answers from memory."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One question (or claim): its raw score and whether the event held, ``None`` where nobody can tell."""

    id: str
    score: float
    held: bool | None
    text: str = ""


@dataclass(frozen=True)
class FittedPurpose:
    """A calibration, what it is for (``gate``, ``answer``, ``support``) and the rows it was fitted on.

    ``note``: what is to be known of its figures.
    """

    purpose: str
    calibration: Calibration
    rows: tuple[Observation, ...]
    note: str = ""

    def summary(self) -> str:
        """What was fitted and how good it is, in a line each."""
        c = self.calibration
        lines = [f"{self.purpose}: {c.method} on {c.n} rows, {c.positives} of them true: {c.event}"]
        lines += [f"  left out: {len(self.rows) - c.n} (no score, or nobody can tell)"] if len(self.rows) > c.n else []
        if c.threshold_rule:
            found = "none" if c.threshold is None else f"{c.threshold:.4f}"
            lines.append(f"  threshold: {found} ({c.threshold_rule})")
        lines += [f"  {name}: {c.metrics[name]:.3f}" for name in sorted(c.metrics)]
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])

    def plot(self, folder: str | Path) -> list[Path]:
        """Reliability and risk–coverage of the rows, each held out of the fit that rates it."""
        return draw_held_out(self.held_out(), Path(folder), self.purpose)

    def held_out(self) -> HeldOut | None:
        """(probability, whether the event held) of each row that can be judged, by a fit without it and its question.

        The probability is ``None`` where the score is unknown; ``None`` for all where none can be held out.
        """
        rows = [r for r in self.rows if r.held is not None]
        found = held_out(
            [r.score if math.isfinite(r.score) else math.nan for r in rows],
            [bool(r.held) for r in rows],
            method=self.calibration.method,
            increasing=self.calibration.increasing,
            groups=[r.id for r in rows],
        )
        return None if found is None else [(p, bool(r.held)) for p, r in zip(found, rows, strict=True)]


def calibrate_gate(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    *,
    method: str = "auto",
    labels: Labels = "auto",
    rule: ThresholdRule = "balanced_accuracy",
    target: float | None = None,
    progress: Progress | None = None,
    kept: RunLog | None = None,
) -> FittedPurpose:
    """Fit "right without retrieval" to the uncertainty of closed-book answers, and choose the gate's threshold.

    Args:
        engine: with a language model; of its settings ``seakr``, ``pipeline`` and ``seed`` count. Pipeline ``seakr``
            with ``multi_hop`` is calibrated on steps, anything else on short answers.
        questions: with answers, or known as unanswerable; others need ``labels`` of ``auto`` or ``self``.
        method: ``isotonic``, ``platt``, or ``auto`` (isotonic from 200 rows on).
        labels: where the labels come from.
        rule, target: as ``choose_threshold``.
        progress: told after every batch.
        kept: what was asked before is taken from there, and what is asked now is put there: with the same one
            ``calibrate_answer`` does not ask again what the gate was fitted on.

    Raises:
        InputError: unknown method or labels.
        CalibrationInputError: too few rows, all unanswerable, every score unknown, or all right or all wrong.
        CapabilityError: there is no model, or it cannot serve the estimator.
    """
    form = form_of(engine.settings)
    _check(questions, "gate", method, labels, engine.settings.pipeline)
    context = run_of(engine).abilities
    rows = _observe_recall(engine, questions, labels, form, progress, kept or RunLog())
    gauge = choose_gauge(engine.settings, context, form=form)
    bound: dict[str, BindingValue] = {"model": context.model_identity("default"), **gauge.binding}
    event = _event("the answer without passages is right", rows, questions, labels)
    fitted = fit_observations(rows, bound, method, event=event, questions=digests_of(questions))
    usable = [r for r in rows if r.held is not None]
    threshold = choose_threshold([r.score for r in usable], [bool(r.held) for r in usable], rule=rule, target=target)
    told = rule.replace("_", " ") + (f" {target:g}" if target is not None and rule == "target_accuracy" else "")
    return FittedPurpose("gate", fitted.with_threshold(threshold, told), tuple(rows))


def calibrate_answer(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    *,
    method: str = "auto",
    labels: Labels = "auto",
    gate: Calibration | None = None,
    progress: Progress | None = None,
    kept: RunLog | None = None,
) -> FittedPurpose:
    """Fit "the answer is right" to the uncertainty of the pipeline's answers.

    For the pipeline ``seakr`` these are its final answers, retrieval and all, with the given gate; for the others,
    which use the model's own answer only where the gate says that it knows, the closed-book answers. With the gate's
    ``kept`` what the gate measured is not measured again.

    Args, errors: as ``calibrate_gate``. ``gate``: from there; without it the engine's own, if it has one.
    """
    _check(questions, "answer", method, labels, engine.settings.pipeline)
    kept = kept or RunLog()
    context = run_of(engine).abilities
    form = form_of(engine.settings)
    if engine.settings.pipeline == "seakr":
        rows = _observe_answers(engine, questions, labels, form, gate, progress, kept)
    else:
        rows = _observe_recall(engine, questions, labels, form, progress, kept)
    gauge = choose_gauge(engine.settings, context, form=form)
    bound = answer_binding(gauge, engine.settings, context)
    event = _event("the answer is right", rows, questions, labels)
    fitted = fit_observations(rows, bound, method, event=event, questions=digests_of(questions))
    return FittedPurpose("answer", fitted, tuple(rows), _say_reused(gate, engine, questions))


def calibrate_support(
    engine: SelfReflectEngine, claims: Sequence[tuple[str, str, bool]], *, method: str = "auto"
) -> FittedPurpose:
    """Fit "the quote supports the claim" to the support scores of labelled (quote, claim, label) rows.

    Raises:
        InputError: unknown method. CalibrationInputError: too few rows, or all of one label.
    """
    _check_method(method)
    require_enough_claims(claims)
    run = run_of(engine)
    scores = flows.run(support([(q, c) for q, c, _ in claims], run), engine.resources)
    rows = [
        Observation(str(i), math.nan if s is None else s, label, c)
        for i, (s, (_, c, label)) in enumerate(zip(scores, claims))
    ]
    bound: dict[str, BindingValue] = {**support_binding(run.abilities)}
    fitted = fit_observations(rows, bound, method, increasing=True, event="the quote supports the claim")
    return FittedPurpose("support", fitted, tuple(rows))


def run_of(engine: SelfReflectEngine, measured: dict[Hashable, object] | None = None) -> QuestionRun:
    """A run in the engine's surroundings, but without any calibration: what is fitted are raw scores.

    ``measured``: what was measured before, to be looked into and added to.
    """
    return QuestionRun(
        engine.settings, dataclasses.replace(engine.context, calibrations={}, stack=None, measured=measured)
    )


def _say_reused(gate: Calibration | None, engine: SelfReflectEngine, questions: Sequence[Question]) -> str:
    """That the gate's threshold was chosen on the questions of the answers, where it was (SeaKR's answers go by it)."""
    again = set(gate.questions).intersection(digests_of(questions)) if gate is not None else ()
    if not again or engine.settings.pipeline != "seakr":
        return ""
    return f"the gate's threshold was chosen on {len(again)} of these questions: the figures lean to the good side"


# --- rows ----------------------------------------------------------------------------------------------------------


def _observe_recall(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    labels: Labels,
    form: Form,
    progress: Progress | None,
    kept: RunLog,
) -> list[Observation]:
    measured = kept.memo.setdefault(digest_of(engine), {})

    def ask(batch: Sequence[Question]) -> list[Recalled | Exception]:
        return _each(engine, [closed_book(q.question, run_of(engine, measured), form) for q in batch])

    found = ask_each(
        questions, ask, kept=kept, part=f"recall {form} {digest_of(engine)}", dump=dataclasses.asdict,
        load=lambda row: Recalled(**row), together=_BATCH, progress=progress,
    )  # fmt: skip
    recalled = [r if isinstance(r, Recalled) else Recalled(None, math.nan) for r in found]
    right = _label(engine, questions, [r.text for r in recalled], labels, form, kept)
    return [Observation(q.id, r.uncertainty, held, r.text or "") for q, r, held in zip(questions, recalled, right)]


def _observe_answers(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    labels: Labels,
    form: Form,
    gate: Calibration | None,
    progress: Progress | None,
    kept: RunLog,
) -> list[Observation]:
    assert engine.resources.retriever is not None
    settings = engine.settings.replace(on_abstain="say", calibration=None)
    again = engine.over(engine.resources.retriever, settings, calibrations={"gate": gate} if gate is not None else {})
    again.context = dataclasses.replace(again.context, measured=kept.memo.setdefault(digest_of(engine), {}))

    def ask(batch: Sequence[Question]) -> list[Recalled | Exception]:
        return [_read_uncertainty(a) for a in again.answer_many([q.question for q in batch])]

    found = ask_each(
        questions, ask, kept=kept, part=f"answer {digest_of(again)}", dump=dataclasses.asdict,
        load=lambda row: Recalled(**row), together=_BATCH, progress=progress,
    )  # fmt: skip
    said = [(r.text, r.uncertainty) if isinstance(r, Recalled) else (None, math.nan) for r in found]
    right = _label(engine, questions, [text for text, _ in said], labels, form, kept)
    # Without an answer there is nothing to be confident of.
    return [
        Observation(q.id, score, held if text else None, text or "")
        for q, (text, score), held in zip(questions, said, right)
    ]


def _read_uncertainty(answer: Answer | Exception) -> Recalled | Exception:
    if isinstance(answer, Exception):
        raise_if_all(answer)
        return answer
    for decision in answer.trace:
        if decision.kind == "uncertainty":
            value = decision.values.get("uncertainty")
            return Recalled(str(decision.values["answer"]), math.nan if value is None else float(value))
    return Recalled(None, math.nan)


def _label(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    said: Sequence[str | None],
    labels: Labels,
    form: Form,
    kept: RunLog,
) -> list[bool | None]:
    """Whether each answer is right; an answer that is missing is not."""
    own = [i for i, q in enumerate(questions) if labels == "self" or (labels == "auto" and not q.judgeable)]
    read = ask_each(
        [questions[i] for i in own],
        lambda batch: _each(engine, [open_book(q.question, run_of(engine), form) for q in batch]),
        kept=kept, part=f"open book {form} {digest_of(engine)}", dump=lambda text: [text], load=lambda row: row[0],
        together=_BATCH,
    )  # fmt: skip
    right: list[bool | None] = [is_right(q, text or "") if q.judgeable else None for q, text in zip(questions, said)]
    for i, other in zip(own, read):
        text = said[i]
        right[i] = None if not isinstance(other, str) else bool(text) and agree(text, other)
    return right


def agree(first: str | None, second: str | None) -> bool:
    """Whether one of two short answers holds the other, as whole normalised words."""
    return bool(first and second) and (contains_answer(first, second or "") or contains_answer(second, first or ""))


_BATCH = 16


def _each(engine: SelfReflectEngine, todo: Sequence[Flow[T]]) -> list[T | Exception]:
    """Results of the flows, as one batch; an error counts against its question only, unless nothing can work."""
    results = flows.run_many(todo, engine.resources)
    for result in results:
        if isinstance(result, Exception):
            raise_if_all(result)
    return results


def _check(questions: Sequence[Question], purpose: str, method: str, labels: str, pipeline: str) -> None:
    """What can be known beforehand to be of no use is refused beforehand."""
    if pipeline not in WITH_GATE:
        raise InputError(
            f"The pipeline {pipeline} retrieves by itself: a calibration of {purpose} would be applied nowhere.",
            hint=f"Calibrate claims, or one of the pipelines {', '.join(WITH_GATE)}.",
        )
    _check_method(method)
    if labels not in ("auto", "gold", "self"):
        raise InputError(f"Unknown labels {labels!r}.", hint="auto, gold or self")
    require_enough(purpose, questions, labels)


def _check_method(method: str) -> None:
    if method not in ("auto", "isotonic", "platt"):
        raise InputError(f"Unknown method {method!r}.", hint="auto, isotonic or platt")


def raise_if_all(error: Exception) -> None:
    """Errors that every question would end in, and faults of ours, are not a question's failure."""
    from shared_core.errors import (
        BackendUnavailableError,
        CapabilityError,
        MissingDependencyError,
        SettingsError,
        StoreError,
    )

    fatal = (BackendUnavailableError, CapabilityError, MissingDependencyError, SettingsError, StoreError, InputError)
    if isinstance(error, fatal) or not isinstance(error, SelfReflectError):
        raise error


def _event(what: str, rows: Sequence[Observation], questions: Sequence[Question], labels: Labels) -> str:
    own = labels == "self" or (labels == "auto" and not all(q.judgeable for q in questions))
    return f"{what}, as far as the model's answer from passages agrees with it" if own else what


def fit_observations(
    rows: Sequence[Observation],
    bound: dict[str, BindingValue],
    method: str,
    *,
    event: str,
    increasing: bool = False,
    questions: Sequence[str] = (),
) -> Calibration:
    """P(event) fitted to the scores of the rows that can be judged; unknown scores are left out and counted.

    ``questions``: digests of those that were asked. Rows of one id are held out of the figures together.

    Raises:
        CalibrationError: too few rows, or all of one kind.
    """
    usable = [r for r in rows if r.held is not None]
    if not usable:
        raise CalibrationError("No row can be judged.", hint="Give answers, or let the model label: labels='self'.")
    chosen: Method = "platt" if method == "platt" or (method == "auto" and len(usable) < PLATT_BELOW) else "isotonic"
    scores = [r.score if math.isfinite(r.score) else math.nan for r in usable]
    return fit_calibration(
        scores,
        [bool(r.held) for r in usable],
        bound_to=bound,
        method=chosen,
        increasing=increasing,
        event=event,
        groups=[r.id for r in usable],
        questions=questions,
    )
