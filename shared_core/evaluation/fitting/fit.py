"""Fit a calibration for one purpose: ``fit("claims", engine, questions)``.

``PURPOSES`` is the table of what can be fitted: where the rows come from, what the probability is of, and what the
calibration is bound to. The arithmetic is in ``shared_core.calibration``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.calibration.binding import BindingValue
from shared_core.calibration.calibration import (
    Calibration,
    choose_threshold,
    fit_calibration,
    held_out,
)
from shared_core.calibration.guarantees import FittedGuarantee, fit_guarantee
from shared_core.calibration.held_out import find_shortfall
from shared_core.calibration.stack import AnyCalibration, Stack, fit_stack, held_out_of_stack
from shared_core.errors import CalibrationError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting import observe
from shared_core.evaluation.fitting.asking import (
    FitJob,
    FitOptions,
    Observation,
    Observed,
    check_choice,
    check_engine,
    check_questions,
)
from shared_core.pipelines.confidence import SIGNALS
from shared_core.pipelines.decision.abilities import Abilities
from shared_core.pipelines.gating.choose import ChosenEstimator, answer_binding, choose_estimator, form_of
from shared_core.pipelines.research.evaluate import evaluation_binding
from shared_core.pipelines.support import support_binding
from shared_core.support.run_log import Progress, RunLog
from shared_core.types import Usage

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

__all__ = ["PURPOSES", "FitOptions", "Fitted", "fit"]

_HeldOut = list[tuple[float | None, bool]]


@dataclass(frozen=True)
class Fitted:
    """A calibration with the rows that it was fitted on.

    >>> rows = [Observation(str(i), i / 40, i % 4 > 0) for i in range(40)]
    >>> curve = fit_calibration([r.score for r in rows], [bool(r.held) for r in rows], bound_to={}, method="platt")
    >>> Fitted("gate", curve, Observed(tuple(rows))).summary().splitlines()[0]
    'gate: platt on 40 rows, 30 of them true: the answer is right'

    Attributes:
        purpose: key of ``PURPOSES``.
        calibration: to be saved under that name.
        observed: its rows.
        usage: what asking has cost; logged rows cost nothing again.
    """

    purpose: str
    calibration: AnyCalibration
    observed: Observed
    usage: Usage = Usage()

    @property
    def rows(self) -> tuple[Observation, ...]:
        """Rows that were observed, those that could not be used included."""
        return self.observed.rows

    @property
    def shortfall(self) -> str:
        """Reason not to use it: it does no better than what it would replace. Empty if there is none."""
        if isinstance(self.calibration, FittedGuarantee):
            return ""
        return find_shortfall(self.calibration.metrics, ranks_only=PURPOSES[self.purpose].ranks_only)

    def summary(self) -> str:
        """Describe the fit and its figures, one a line."""
        c = self.calibration
        if isinstance(c, FittedGuarantee):
            lines = _describe_guarantee(c)
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
                lines += [self._describe_signal(c, i) for i in range(len(c.names))]
        if self.observed.failed:
            lines.append(f"{self.observed.failed} questions failed")
        if not isinstance(c, FittedGuarantee) and c.metrics.get("brier", 0.0) >= c.metrics["brier_constant"]:
            lines.append("out of fold it predicts no better than the base rate for every row")
        if self.usage.calls:
            tokens = self.usage.prompt_tokens + self.usage.generated_tokens
            lines.append(f"cost: {self.usage.calls} calls, {tokens} tokens, {self.usage.seconds:.0f} s")
        return "\n  ".join([*lines, *self.observed.notes])

    def _describe_signal(self, stack: Stack, number: int) -> str:
        known = sum(row.signals[number] is not None for row in self.rows)
        return f"{stack.names[number]}: known for {known} claims, weight {stack.weights[number]:.2f}"

    def held_out(self) -> _HeldOut | None:
        """Return (probability, whether the event held) per judged row, by a fit without the row and its question.

        The probability is ``None`` if the score is unknown. ``None`` instead of the list if rows cannot be held out.
        """
        rows = [r for r in self.rows if r.held is not None]
        right, groups = [bool(r.held) for r in rows], [r.id for r in rows]
        if isinstance(self.calibration, Calibration):
            method, increasing = self.calibration.method, self.calibration.increasing
            found = held_out([r.score for r in rows], right, method=method, increasing=increasing, groups=groups)
        else:
            found = held_out_of_stack([r.signals for r in rows], right, groups=groups)
        return None if found is None else list(zip(found, right, strict=True))

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw reliability and risk–coverage of the held-out rows (for ``confidence``, the target accuracy too).

        The reliability covers rows of known score, as the printed figures do; the others rank last in risk–coverage.
        Returns the files, none if rows cannot be held out.
        """
        from shared_core.evaluation import plots

        rows = None if isinstance(self.calibration, FittedGuarantee) else self.held_out()
        if rows is None:
            return []
        alone = self.purpose == "confidence"
        title, prefix = (" (out of fold)", "") if alone else (f": {self.purpose} (out of fold)", f"{self.purpose}_")
        known = [(p, float(held)) for p, held in rows if p is not None]
        sure, right = [math.nan if p is None else p for p, _ in rows], [float(held) for _, held in rows]

        def file(name: str) -> Path:
            return Path(folder) / f"{prefix}{name}.png"

        drawn = [
            plots.reliability(
                [p for p, _ in known], [y for _, y in known], file("reliability"), title=f"Reliability{title}"
            ),
            plots.risk_coverage(sure, right, file("risk_coverage"), title=f"Risk–coverage{title}"),
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


def fit(
    purpose: str,
    engine: SelfReflectEngine,
    questions: Sequence[Question] = (),
    options: FitOptions | None = None,
    *,
    progress: Progress | None = None,
    kept: RunLog | None = None,
) -> Fitted:
    """Ask an engine questions with known answers and fit a calibration for one purpose to what comes back.

    ``confidence``: P(the answer shown is right) from the confidence of an engine without a model. ``claims``: P(a claim
    is a right answer) from its signals. ``gate``: P(right without retrieval) from the uncertainty of answers from
    memory, with the gate's threshold. ``answer``: P(the model's own answer is right) from its uncertainty. ``support``:
    P(the quote supports the claim) from support scores. ``self_evaluation``: P(a claim is right) from what the model
    states of it (closed-book ReSearch). ``guarantee``: the threshold at which a promise about shown claims holds.

    The scores of a guarantee must be fixed before: fit the other purposes on other questions first and give the engine
    those calibrations. Include questions that the documents do not answer, or the fit cannot learn to abstain.

    Args:
        purpose: key of ``PURPOSES``.
        engine: in the configuration that the calibration is for, without one for this purpose.
        questions: with answers, or known to be unanswerable. ``gate`` and ``answer`` take others too, with
            ``options.labels`` of ``auto`` or ``self``; ``self_evaluation`` and ``guarantee`` take labelled claims.
            ``support`` takes none: its rows are ``options.claims``.
        options: see ``FitOptions``.
        progress: called as ``progress(done, total)`` after every batch.
        kept: log of rows. Logged rows are not asked again, and new rows are added. Fits that share one share what they
            ask: ``answer`` does not repeat what ``gate`` asked.

    Raises:
        InputError: unknown purpose or option, or an engine that the purpose does not fit.
        CalibrationInputError: too few rows or too few of a kind, or every score is unknown.
        CalibrationError: every question failed, or fewer answers than a guarantee needs.
        CapabilityError: there is no model, or it lacks what the estimator needs.
        MissingDependencyError: scikit-learn is not installed (for ``learn_then_test``, MAPIE).
    """
    options = options or FitOptions()
    check_choice("purpose", purpose, tuple(PURPOSES))
    check_questions(purpose, questions, options)
    check_engine(purpose, engine)
    job = FitJob(engine, questions, options, kept or RunLog(), progress)
    chosen = PURPOSES[purpose]
    observed = chosen.observe(job)
    usage = job.meter.usage
    return Fitted(purpose, chosen.fit(job, observed, chosen), observed, usage)


# --- rows to calibrations ---------------------------------------------------------------------------------------------


def _fit_curve(job: FitJob, observed: Observed, purpose: Purpose) -> Calibration:
    rows = [r for r in observed.rows if r.held is not None]
    if not rows:
        raise CalibrationError("No row can be judged.", hint="Give answers, or let the model label: labels='self'.")
    return fit_calibration(
        [r.score if math.isfinite(r.score) else math.nan for r in rows],
        [bool(r.held) for r in rows],
        bound_to=purpose.bind(job),
        method=job.options.method,
        increasing=not purpose.ranks_only,
        event=_event(job, purpose),
        groups=[r.id for r in rows],
        questions=observed.questions,
    )


def _event(job: FitJob, purpose: Purpose) -> str:
    labels = job.options.labels
    own = labels == "self" or (labels == "auto" and not all(q.judgeable for q in job.questions))
    agreed = "as far as the model's answer from passages agrees with it"
    return f"{purpose.event}, {agreed}" if own and purpose.ranks_only else purpose.event


def _fit_gate(job: FitJob, observed: Observed, purpose: Purpose) -> AnyCalibration:
    rule, target = job.options.rule, job.options.target
    rows = [r for r in observed.rows if r.held is not None]
    fitted = _fit_curve(job, observed, purpose)
    threshold = choose_threshold([r.score for r in rows], [bool(r.held) for r in rows], rule=rule, target=target)
    named = rule.replace("_", " ") + (f" {target:g}" if target is not None and rule == "target_accuracy" else "")
    return fitted.with_threshold(threshold, named)


def _fit_stack(job: FitJob, observed: Observed, purpose: Purpose) -> AnyCalibration:
    return fit_stack(
        SIGNALS,
        [r.signals for r in observed.rows],
        [bool(r.held) for r in observed.rows],
        bound_to=purpose.bind(job),
        before=[r.score if math.isfinite(r.score) else None for r in observed.rows],
        groups=[r.id for r in observed.rows],
        questions=observed.questions,
    )


def _fit_guarantee(job: FitJob, observed: Observed, purpose: Purpose) -> AnyCalibration:
    settings = job.engine.settings
    by_answer: dict[str, list[Observation]] = {id_: [] for id_ in observed.answered}
    for row in observed.rows:
        if row.held is not None:
            by_answer[row.id].append(row)
    drift = list(observed.answered.values())
    return fit_guarantee(
        job.options.guarantee,
        [[r.score if math.isfinite(r.score) else None for r in rows] for rows in by_answer.values()],
        [[bool(r.held) for r in rows] for rows in by_answer.values()],
        target_accuracy=settings.target_accuracy,
        alpha=settings.guarantee_alpha,
        signals={name: [one[name] for one in drift] for name in drift[0]},
        bound_to=job.engine.guarantee_binding(job.options.guarantee),
        questions=observed.questions,
        reused=observed.reused,
    )


# --- the table of purposes --------------------------------------------------------------------------------------------


def _bind_gate(job: FitJob) -> Mapping[str, BindingValue]:
    context, estimator = _estimator(job)
    return {"model": context.model_identity("default"), **estimator.binding}


def _bind_answer(job: FitJob) -> Mapping[str, BindingValue]:
    context, estimator = _estimator(job)
    return answer_binding(estimator, job.engine.settings, context)


def _estimator(job: FitJob) -> tuple[Abilities, ChosenEstimator]:
    context = observe.run_of(job.engine).abilities
    return context, choose_estimator(job.engine.settings, context, form=form_of(job.engine.settings))


def _bind_support(job: FitJob) -> Mapping[str, BindingValue]:
    return {**support_binding(observe.run_of(job.engine).abilities)}


@dataclass(frozen=True, slots=True)
class Purpose:
    """Recipe for one purpose: where its rows come from, and how they are fitted.

    Attributes:
        event: what the probability is of.
        observe: asks the engine and returns the rows.
        bind: returns the configuration that the calibration holds for.
        fit: makes the calibration of the rows.
        ranks_only: the raw score is an uncertainty: the lower, the likelier the event, and no probability itself.
    """

    event: str
    observe: Callable[[FitJob], Observed]
    bind: Callable[[FitJob], Mapping[str, BindingValue]]
    fit: Callable[[FitJob, Observed, Purpose], AnyCalibration] = _fit_curve
    ranks_only: bool = False


PURPOSES: Mapping[str, Purpose] = {
    "confidence": Purpose(
        "the answer shown is right", observe.observe_confidence, lambda job: job.engine.calibration_binding
    ),
    "claims": Purpose(
        "the claim is a right answer", observe.observe_claims, lambda job: job.engine.claims_binding, _fit_stack
    ),
    "gate": Purpose(
        "the answer without passages is right", observe.observe_recall, _bind_gate, _fit_gate, ranks_only=True
    ),
    "answer": Purpose("the answer is right", observe.observe_own_answers, _bind_answer, ranks_only=True),
    "support": Purpose("the quote supports the claim", observe.observe_support, _bind_support),
    "self_evaluation": Purpose(
        "the claim is right",
        observe.observe_self_evaluation,
        lambda job: evaluation_binding(job.engine.settings, job.engine.context),
    ),
    "guarantee": Purpose(
        "the claims shown are right as promised",
        observe.observe_guarantee,
        lambda job: job.engine.guarantee_binding(job.options.guarantee),
        _fit_guarantee,
    ),
}
"""Recipes by name; ``gate`` comes before ``answer``, which may need it."""
