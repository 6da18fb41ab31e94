"""Recipes of the fits, by purpose: where the rows come from, what the probability is of, what it is bound to.

The arithmetic is in ``shared_core.calibration``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared_core.calibration.binding import BindingValue
from shared_core.calibration.calibration import Calibration, choose_threshold, fit_calibration
from shared_core.calibration.guarantees import fit_guarantee
from shared_core.calibration.stack import AnyCalibration, fit_stack
from shared_core.errors import CalibrationError
from shared_core.evaluation.fitting import observe
from shared_core.evaluation.fitting.asking import FitJob, Observation, Observed
from shared_core.evaluation.fitting.replies import fit_replies, observe_replies
from shared_core.pipelines.confidence import SIGNALS, models_in_general
from shared_core.pipelines.decision.question_run import Abilities
from shared_core.pipelines.gating.choose import ChosenEstimator, answer_binding, choose_estimator, form_of
from shared_core.pipelines.research.evaluate import evaluation_binding
from shared_core.pipelines.support import support_binding


def _fit_curve(job: FitJob, observed: Observed, purpose: Purpose) -> Calibration:
    rows = observed.judged
    if not rows:
        raise CalibrationError("No row can be judged.", hint="Give answers, or let the model label: labels='self'.")
    return fit_calibration(
        [r.score for r in rows],
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
    rows = observed.judged
    fitted = _fit_curve(job, observed, purpose)
    threshold = choose_threshold([r.score for r in rows], [bool(r.held) for r in rows], rule=rule, target=target)
    named = rule.replace("_", " ") + (f" {target:g}" if target is not None and rule == "target_accuracy" else "")
    return fitted.with_threshold(threshold, named)


def _fit_stack(job: FitJob, observed: Observed, purpose: Purpose) -> AnyCalibration:
    rows = observed.judged
    return fit_stack(
        SIGNALS,
        [r.signals for r in rows],
        [bool(r.held) for r in rows],
        bound_to=purpose.bind(job),
        before=[r.known_score for r in rows],
        groups=[r.id for r in rows],
        questions=observed.questions,
        start=models_in_general(),
    )


def _fit_guarantee(job: FitJob, observed: Observed, purpose: Purpose) -> AnyCalibration:
    settings = job.engine.settings
    by_answer: dict[str, list[Observation]] = {id_: [] for id_ in observed.answered}
    for row in observed.judged:
        by_answer[row.id].append(row)
    drift = list(observed.answered.values())
    return fit_guarantee(
        job.options.guarantee,
        [[r.known_score for r in rows] for rows in by_answer.values()],
        [[bool(r.held) for r in rows] for rows in by_answer.values()],
        target_accuracy=settings.target_accuracy,
        alpha=settings.guarantee_alpha,
        signals={name: [one[name] for one in drift] for name in drift[0]},
        bound_to=job.engine.guarantee_binding(job.options.guarantee),
        questions=observed.questions,
        reused=observed.reused,
    )


def _bind_gate(job: FitJob) -> Mapping[str, BindingValue]:
    context, estimator = _estimator(job)
    return {"model": context.model_identity("default"), **estimator.binding}


def _bind_answer(job: FitJob) -> Mapping[str, BindingValue]:
    context, estimator = _estimator(job)
    return answer_binding(estimator, job.engine.settings, context)


def _estimator(job: FitJob) -> tuple[Abilities, ChosenEstimator]:
    context = observe.run_of(job.engine).abilities
    return context, choose_estimator(job.engine.settings, context, form=form_of(job.engine.settings))


def _fit_replies(job: FitJob, observed: Observed, purpose: Purpose) -> AnyCalibration:
    return fit_replies(observed.rows, bound_to=purpose.bind(job), digests=observed.questions)


@dataclass(frozen=True, slots=True)
class Purpose:
    """Recipe for one purpose: where its rows come from, and how they are fitted.

    Attributes:
        event: what the probability is of.
        bind: returns the configuration that the calibration holds for.
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
    "support": Purpose(
        "the quote supports the claim",
        observe.observe_support,
        lambda job: support_binding(observe.run_of(job.engine).abilities),
    ),
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
    "replies": Purpose(
        "the reader's best quote is right", observe_replies, lambda job: job.engine.replies_binding, _fit_replies
    ),
}
"""Recipes by name; ``gate`` comes before ``answer``, which may need it."""
