"""Fit a calibration for one purpose: ``fit("claims", engine, questions)``.

A budget limits what it asks: rounds of questions, each a sample of all, until it is spent or the result is precise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from shared_core.abstention.conformal import answers_needed
from shared_core.calibration import io as calibration_io
from shared_core.calibration.binding import question_digest
from shared_core.calibration.calibration import Calibration, held_out
from shared_core.calibration.guarantees import FittedGuarantee
from shared_core.calibration.held_out import find_shortfall
from shared_core.calibration.replies import FittedReplies
from shared_core.calibration.stack import AnyCalibration, Stack, held_out_of_stack
from shared_core.errors import CalibrationInputError, SelfReflectError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import (
    GIVE,
    FitJob,
    FitOptions,
    Observation,
    Observed,
    check_choice,
    check_engine,
    check_questions,
)
from shared_core.evaluation.fitting.budget import PREVIEWED, Budget, Preview, Prices, describe, wilson_interval
from shared_core.evaluation.fitting.purposes import PURPOSES
from shared_core.evaluation.fitting.replies import built_in_questions
from shared_core.evaluation.judging import CLAIMS_FIELD, gold_passages
from shared_core.runtime.budget import Meter
from shared_core.settings import SelfReflectSettings
from shared_core.support.run_log import Progress, RunLog
from shared_core.types import Usage

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

_LOG = logging.getLogger(__name__)
_WATCHED = 1000  # questions whose drift signals a calibration keeps
_ROUND = 8
"""Questions asked before the budget is looked at again, while there are few."""
_HeldOut = list[tuple[float | None, bool]]


@dataclass(frozen=True)
class Fitted:
    """A calibration with the rows that it was fitted on.

    >>> from shared_core.calibration import fit_calibration
    >>> rows = [Observation(str(i), i / 40, i % 4 > 0) for i in range(40)]
    >>> curve = fit_calibration([r.score for r in rows], [bool(r.held) for r in rows], bound_to={}, method="platt")
    >>> Fitted("gate", curve, Observed(tuple(rows))).summary().splitlines()[0]
    'gate: platt on 40 rows, 30 of them true: the answer is right'

    Attributes:
        purpose: key of ``PURPOSES``.
        calibration: to be saved under that name.
        usage: what asking has cost; logged rows cost nothing again.
        target: accuracy that the engine answers at.
        partial: a budget or an interval left questions unasked.
    """

    purpose: str
    calibration: AnyCalibration
    observed: Observed
    usage: Usage = Usage()
    target: float = 0.5
    prices: Prices | None = None
    partial: bool = False

    @property
    def rows(self) -> tuple[Observation, ...]:
        """Rows that were observed, those that could not be used included."""
        return self.observed.rows

    @property
    def shortfall(self) -> str:
        """Reason not to use it: it does no better than what it would replace. Empty if there is none."""
        if isinstance(self.calibration, (FittedGuarantee, FittedReplies)):
            return ""
        return find_shortfall(self.calibration.metrics, ranks_only=PURPOSES[self.purpose].ranks_only)

    def summary(self) -> str:
        """Describe the fit and its figures, one a line."""
        c = self.calibration
        if isinstance(c, FittedGuarantee):
            lines = _describe_guarantee(c)
        elif isinstance(c, FittedReplies):
            lines = _describe_replies(c)
        else:
            method = "stack of signals" if isinstance(c, Stack) else c.method
            event = "the claim is a right answer" if isinstance(c, Stack) else c.event
            lines = [f"{self.purpose}: {method} on {c.n} rows, {c.positives} of them true: {event}"]
            left_out = len(self.rows) - c.n
            lines += [f"{left_out} left out (no score, or they cannot be judged)"] if left_out else []
            if isinstance(c, Calibration) and c.threshold_rule:
                threshold = "none" if c.threshold is None else f"{c.threshold:.4f}"
                lines.append(f"threshold: {threshold} ({c.threshold_rule})")
            lines += [f"{name}: {c.metrics[name]:.3f}" for name in sorted(c.metrics)]
            if isinstance(c, Stack):
                lines += [self._describe_signal(c, i) for i in range(len(c.names)) if c.weights[i]]
            right, shown = self.shown
            low, high = wilson_interval(right, shown)
            lines.append(f"above {self.target:g}, out of fold: {right} of {shown} right, 95 %: {low:.2f}-{high:.2f}")
        if self.observed.failed:
            lines.append(f"{self.observed.failed} questions failed")
        if isinstance(c, (Calibration, Stack)) and c.metrics.get("brier", 0.0) >= c.metrics["brier_constant"]:
            lines.append("out of fold it predicts no better than the base rate for every row")
        if self.usage.calls:
            lines.append(f"cost: {describe(self.usage, self.prices)}")
        return "\n  ".join([*lines, *self.observed.notes])

    def _describe_signal(self, stack: Stack, number: int) -> str:
        known = sum(row.signals[number] is not None for row in self.rows)
        return f"{stack.names[number]}: known for {known} claims, weight {stack.weights[number]:.2f}"

    def held_out(self) -> _HeldOut | None:
        """Return (probability, whether the event held) per judged row, by a fit without the row and its question.

        The probability is ``None`` if the score is unknown. ``None`` instead of the list if rows cannot be held out.
        """
        rows = self.observed.judged
        right, groups = [bool(r.held) for r in rows], [r.id for r in rows]
        if isinstance(self.calibration, (FittedGuarantee, FittedReplies)):
            return None
        if isinstance(self.calibration, Calibration):
            method, increasing = self.calibration.method, self.calibration.increasing
            found = held_out([r.score for r in rows], right, method=method, increasing=increasing, groups=groups)
        else:
            started = isinstance(self.calibration, Stack) and self.calibration.before > 0
            found = held_out_of_stack([r.signals for r in rows], right, groups=groups, started=started)
        return None if found is None else list(zip(found, right, strict=True))

    @property
    def shown(self) -> tuple[int, int]:
        """Right rows, and all rows, whose held-out probability is above the target accuracy."""
        above = [right for p, right in self.held_out() or () if p is not None and p > self.target]
        return sum(above), len(above)

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw reliability and risk–coverage of the held-out rows (for ``confidence``, the target accuracy too).

        The reliability covers rows of known score, as the printed figures do; the others rank last in risk–coverage.
        Returns the files, none if rows cannot be held out.
        """
        from shared_core.evaluation import plots

        rows = self.held_out()
        if rows is None:
            return []
        alone = self.purpose == "confidence"
        title, prefix = (" (out of fold)", "") if alone else (f": {self.purpose} (out of fold)", f"{self.purpose}_")
        known = [p for p, _ in rows if p is not None], [float(held) for p, held in rows if p is not None]
        sure, right = [math.nan if p is None else p for p, _ in rows], [float(held) for _, held in rows]

        def file(name: str) -> Path:
            return Path(folder) / f"{prefix}{name}.png"

        drawn = [
            plots.reliability({"": known}, file("reliability"), title=f"Reliability{title}"),
            plots.risk_coverage({"": (sure, right)}, file("risk_coverage"), title=f"Risk–coverage{title}"),
        ]
        if alone:
            title = f"What a target accuracy gives{title}"
            drawn.append(plots.target_accuracy(sure, right, file("target_accuracy"), title=title))
        return drawn


def _describe_guarantee(c: FittedGuarantee) -> list[str]:
    return [
        f"guarantee: {c.kind} on {c.n} answers ({c.needed_n} needed), {c.claims} claims, {c.right} of them right",
        f"keeps the claims that score above {c.bar:.4g}: {c.kept} of {c.claims} ({c.kept_share:.0%})",
        f"{c.describe()['text']}",
    ]


def _describe_replies(c: FittedReplies) -> list[str]:
    lines = [f"replies: to {c.n} questions; the reader's best quote is right for {c.positives}"]
    for name, given in (("right", "the quote is right"), ("wrong", "the quote is wrong")):
        rates = ", ".join(f"{reply} {p:.2f}" for reply, p in c.rates[name].items())
        lines.append(f"where {given}, the model {rates}")
    lines.append(f"the model's own claims are right for {c.claims_right} of the {c.claims} questions it answers")
    return [*lines, f"odds that a claim of it is right: {math.exp(c.shift):.2g} times those of models in general"]


def fit(
    purpose: str,
    engine: SelfReflectEngine,
    questions: Sequence[Question] = (),
    options: FitOptions | None = None,
    *,
    progress: Progress | None = None,
    kept: RunLog | None = None,
    meter: Meter | None = None,
) -> Fitted:
    """Ask an engine questions with known answers and fit a calibration for one purpose to what comes back.

    ``confidence``: P(the answer shown is right) from the confidence of an engine without a model. ``claims``: P(a claim
    is a right answer) from its signals. ``gate``: P(right without retrieval) from the uncertainty of answers from
    memory, with the gate's threshold. ``answer``: P(the model's own answer is right) from its uncertainty. ``support``:
    P(the quote supports the claim) from support scores. ``self_evaluation``: P(a claim is right) from what the model
    states of it (closed-book ReSearch). ``guarantee``: the threshold at which a promise about shown claims holds.
    ``replies``: how the model's replies go with the reader's quotes, and how far its claims can be trusted
    (``built_in_questions`` has questions for it).

    The scores of a guarantee must be fixed before: fit the other purposes on other questions first and give the engine
    those calibrations. Include questions that the documents do not answer, or the fit cannot learn to abstain.

    Args:
        purpose: key of ``PURPOSES``.
        engine: in the configuration that the calibration is for, without one for this purpose.
        questions: with answers, or known to be unanswerable. ``gate`` and ``answer`` take others too, with
            ``options.labels`` of ``auto`` or ``self``; ``self_evaluation`` and ``guarantee`` take labelled claims.
            ``support`` takes none: its rows are ``options.claims``.
        progress: called as ``progress(done, total)`` after every batch.
        kept: log of rows. Logged rows are not asked again, and new rows are added. Fits that share one share what they
            ask: ``answer`` does not repeat what ``gate`` asked.
        meter: counts what is used; the budget is of all fits that share one.

    Raises:
        InputError: unknown purpose or option, or an engine that the purpose does not fit.
        CalibrationInputError: too few rows or too few of a kind, or every score is unknown.
        CalibrationError: every question failed, or fewer answers than a guarantee needs.
        CapabilityError: there is no model, or it lacks what the estimator needs.
        MissingDependencyError: scikit-learn is not installed (for ``learn_then_test``, MAPIE).
    """
    options = options or FitOptions()
    meter = meter or Meter(SelfReflectSettings())
    questions = _distinct(purpose, questions)
    job = FitJob(engine, questions, options, kept or RunLog(), progress, meter)
    if left := _check(purpose, job):
        _LOG.warning(
            "%s: %d of %d questions cannot be judged and are not asked. %s", purpose, left, len(questions), GIVE
        )
    before = meter.usage
    fitted = _fit_once(purpose, job) if options.budget is None else _fit_within(purpose, job, options.budget)
    prices = options.budget.prices if options.budget is not None else None
    spent = zip(dataclasses.astuple(meter.usage), dataclasses.astuple(before), strict=True)
    return dataclasses.replace(fitted, usage=Usage(*(now - then for now, then in spent)), prices=prices)


class _Answering(Protocol):
    """A chain or query engine of a framework."""

    @property
    def engine(self) -> SelfReflectEngine: ...


def measure_replies(
    answering: SelfReflectEngine | _Answering,
    path: str | Path | None = None,
    options: FitOptions | None = None,
    *,
    progress: Progress | None = None,
) -> Fitted:
    """Ask a model the built-in questions, to learn how far its replies can be trusted; as ``calibrate replies`` does.

    Needs no questions or documents of the user, and 100 to 450 requests of about 650 tokens each. With
    ``calibrations={"replies": fitted.calibration}`` an engine takes the result without a file.

    Args:
        answering: engine, or a framework's chain or query engine, with the model.
        path: calibration file to write; give it as ``settings.calibration``. Others in the file are kept.
        options: the budget counts.
        progress: called as ``progress(done, total)`` after every batch.

    Raises:
        InputError: there is no model, or nothing is compared with the reader's quotes in this configuration.
        CalibrationError: every question failed, or the file cannot be written.
    """
    engine = cast("SelfReflectEngine", answering if hasattr(answering, "resources") else answering.engine)
    with built_in_questions() as (retriever, questions):
        fitted = fit("replies", engine.over(retriever), questions, options, progress=progress)
    if path is not None:
        before = calibration_io.load(path) if Path(path).exists() else {}
        calibration_io.save(path, {**before, "replies": fitted.calibration})
    return fitted


def estimate(
    purpose: str, engine: SelfReflectEngine, questions: Sequence[Question], options: FitOptions | None = None
) -> Usage:
    """Return the least that ``fit`` will use, from the first requests of some questions; no model is asked.

    Tokens are those of the prompts, about four characters each; later requests and replies come on top. Errors of
    options and questions are those of ``fit``.
    """
    preview = Preview()
    job = FitJob(engine, questions, options or FitOptions(), RunLog(), meter=preview, documents={})
    _check(purpose, job)
    some = _sample(questions)[:PREVIEWED]
    with contextlib.suppress(SelfReflectError):  # an observation without a reply may be no observation
        PURPOSES[purpose].observe(dataclasses.replace(job, questions=some))
    each = len(questions) / max(1, len(some))
    return Usage(calls=round(preview.usage.calls * each), prompt_tokens=round(preview.usage.prompt_tokens * each))


def _check(purpose: str, job: FitJob) -> int:
    """Raise the errors of ``fit``; return the number of questions that cannot be judged."""
    check_choice("purpose", purpose, tuple(PURPOSES))
    left = check_questions(purpose, job.questions, job.options)
    check_engine(purpose, job.engine)
    if purpose == "guarantee":
        kind, settings = job.options.guarantee, job.engine.settings
        needed = answers_needed(kind, settings.target_accuracy, settings.guarantee_alpha)
        usable = len(job.questions) - (0 if job.options.label else left)
        if 0 < usable < needed:
            few = f"{usable} questions are too few for {kind}: at least {needed} are needed."
            raise CalibrationInputError(few, hint=GIVE)
    return left


def _distinct(purpose: str, questions: Sequence[Question]) -> list[Question]:
    """Leave out questions that repeat another one with all its labels; warn of these, and of labels that differ."""
    first: dict[tuple[str, ...], Question] = {}
    for q in questions:
        labels = (q.answers, q.answerable, q.metadata.get(CLAIMS_FIELD), gold_passages(q))
        first.setdefault((question_digest(q.question), *map(repr, labels)), q)
    if left := len(questions) - len(first):
        _LOG.warning(
            "%s: %d of %d questions repeat others and are left out: a repeated question is no further evidence.",
            purpose,
            left,
            len(questions),
        )
    texts = Counter(digest for digest, *_ in first)
    if unlike := [q.question for (digest, *_), q in first.items() if texts[digest] > 1]:
        _LOG.warning(
            "%s: %d rows give other labels to a question than another row does, for example %r.",
            purpose,
            len(unlike),
            unlike[0],
        )
    return list(first.values())


def _sample(questions: Sequence[Question]) -> list[Question]:
    """Order questions so that each beginning is a sample of all, the same one in every run."""
    return sorted(questions, key=lambda q: question_digest(q.question))


def _fit_once(purpose: str, job: FitJob) -> Fitted:
    chosen = PURPOSES[purpose]
    observed = chosen.observe(job)
    target = job.engine.settings.target_accuracy
    calibration = chosen.fit(job, observed, chosen)
    if observed.answered and isinstance(calibration, (Calibration, Stack)):
        watched = list(observed.answered.values())[:_WATCHED]
        signals = {name: tuple(round(one[name], 4) for one in watched) for name in watched[0]}
        calibration = dataclasses.replace(calibration, signals=signals)
    return Fitted(purpose, calibration, observed, target=target)


def _count_logged(purpose: str, job: FitJob, questions: Sequence[Question]) -> int:
    """Return how many of the first questions the log holds; no model is asked."""
    if not len(job.kept.rows):
        return 0
    scratch = RunLog()
    scratch.rows.update(job.kept.rows)
    for number, question in enumerate(questions):
        preview = Preview()
        one = dataclasses.replace(job, questions=[question], kept=scratch, meter=preview, progress=None)
        with contextlib.suppress(SelfReflectError):
            PURPOSES[purpose].observe(one)
        if preview.usage.calls:
            return number
    return len(questions)


def _fit_within(purpose: str, job: FitJob, budget: Budget) -> Fitted:
    """Ask more and more of the questions, until the budget is spent or the result is precise enough; then fit.

    Rounds grow with what was asked, so that looking at the result after each costs little. Logged rows cost nothing.
    """
    questions = _sample(job.questions)
    size, new, stop = _count_logged(purpose, job, questions), 0, ""
    step = 0 if size else 1  # first what is logged already
    progress = job.progress
    while True:
        fitted: Fitted | None = None
        failure: CalibrationInputError | None = None
        part = dataclasses.replace(
            job,
            questions=questions[: size + step],
            started=size > 0,
            progress=progress and (lambda done, _: progress(done, len(questions))),
        )
        try:
            fitted = _fit_once(purpose, part)
        except CalibrationInputError as error:  # too few so far
            failure = error
        size, new = size + step, new + step
        if fitted is not None and budget.interval is not None and isinstance(fitted.calibration, (Calibration, Stack)):
            low, high = wilson_interval(*fitted.shown)
            stop = "the interval is narrow enough" if high - low <= 2 * budget.interval else ""
        if stop or size == len(questions):
            break
        step = min(max(1, min(_ROUND, size), size // 8), len(questions) - size)
        most = budget.affordable(job.meter.usage, new)
        step = step if most is None else min(step, most)
        if not step:
            stop = f"the budget is spent ({describe(job.meter.usage, budget.prices)})"
            break
    if fitted is None:
        assert failure is not None
        raise failure
    if size < len(questions):
        note = f"{size} of {len(questions)} questions were asked: {stop}"
        observed = dataclasses.replace(fitted.observed, notes=(*fitted.observed.notes, note))
        fitted = dataclasses.replace(fitted, observed=observed, partial=True)
    return fitted
