"""``selfreflect calibrate``: fit confidences, thresholds and promises to the user's documents, model and questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from shared_core.cli.calibrate_options import (
    Alpha,
    CalibrateOptions,
    ClaimsFile,
    FlagOptions,
    Labelled,
    LabelSource,
    PromisedAccuracy,
    Questions,
    Rule,
    RuleTarget,
    label_claims,
    tell_estimate,
)
from shared_core.cli.common import (
    FAILED,
    DefaultGroup,
    answers_closed_book,
    check_output,
    check_output_folder,
    check_questions_and_docs,
    reports_errors,
)
from shared_core.cli.console import err, note, out, question_progress
from shared_core.errors import CalibrationError, CalibrationInputError, InputError
from shared_core.settings import GuaranteeName, SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.calibration.calibration import FitMethod, ThresholdRule
    from shared_core.calibration.stack import AnyCalibration
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.fitting import ClaimLabels, FitOptions, Fitted
    from shared_core.evaluation.fitting.asking import Labels
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.support.run_log import RunLog

_DEFAULTS = SelfReflectSettings()
_RULES = ("balanced_accuracy", "target_accuracy")
_ORDER = ("confidence", "claims", "gate", "answer", "support", "self_evaluation")  # the gate before its answers

calibrate_app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="Fit confidences and thresholds to your documents, model and questions. `calibrate QUESTIONS` fits what the "
    "configuration needs; a subcommand fits one purpose. Use the result with `ask --calibration FILE`.",
)


@calibrate_app.command("default")
@reports_errors
def default_command(questions: Questions, run: CalibrateOptions, flags: FlagOptions) -> None:
    """Fit what the configuration needs; `default` may be left out: `selfreflect calibrate QUESTIONS`.

    Without a model: confidence. With one: claims; for seakr gate and answer, for closed-book research self-evaluation.

    Answers are logged in FILE.rows as they come; after a stop, the same command continues. Each calibration in the file
    is bound to its configuration: another model, number of samples or layer needs its own.
    """
    if flags.guarantee is not None:
        if flags.purpose:
            raise InputError(
                "A guarantee needs scores that were fixed before, and questions of its own.",
                hint="Calibrate first, then run `calibrate guarantee --update` with other questions.",
            )
        _warn("--guarantee", "selfreflect calibrate guarantee QUESTIONS --kind KIND")
        _fit_guarantee(run, questions, flags.guarantee, flags.target_accuracy, flags.alpha, flags.claims_file)
        return
    from shared_core.evaluation.fitting import read_labelled_claims
    from shared_core.evaluation.fitting.asking import check_choice

    for name in flags.purpose:
        check_choice("--purpose", name, _ORDER)
    if "support" in flags.purpose and flags.support_rows is None:
        raise InputError("Calibrating support needs labelled claims.", hint="selfreflect calibrate support CLAIMS")
    wanted = set(flags.purpose or _default_purposes(run)) | ({"support"} if flags.support_rows is not None else set())
    if flags.given:
        names = " and ".join(f"calibrate {name.replace('_', '-')}" for name in _ORDER if name in wanted)
        _warn("--purpose, --support-rows and their flags", f"selfreflect {names}")
    claims = read_labelled_claims(flags.support_rows) if flags.support_rows is not None else []
    options = _fit_options(run, flags.labels, flags.rule, flags.target, claims)
    _fit(run, questions, [name for name in _ORDER if name in wanted], options, claims_file=flags.claims_file)


@calibrate_app.command("confidence")
@reports_errors
def confidence_command(questions: Questions, run: CalibrateOptions) -> None:
    """Fit the confidence of quoted answers, for engines without a model."""
    _fit(run, questions, ["confidence"], _fit_options(run))


@calibrate_app.command("claims")
@reports_errors
def claims_command(questions: Questions, run: CalibrateOptions) -> None:
    """Fit the probability that a model's claim is right, from all its signals."""
    _fit(run, questions, ["claims"], _fit_options(run))


@calibrate_app.command("gate")
@reports_errors
def gate_command(
    questions: Questions,
    run: CalibrateOptions,
    labels: LabelSource = "auto",
    rule: Rule = "balanced_accuracy",
    target: RuleTarget = None,
    answer: Annotated[
        bool, typer.Option("--answer", help="Also fit the model's own answers, asking nothing twice.")
    ] = False,
) -> None:
    """Fit when the model knows an answer without retrieval (pipelines composed and seakr).

    A gate that separates known from unknown no better than chance is not written, and the exit code is 1.
    """
    _fit(run, questions, ["gate", "answer"] if answer else ["gate"], _fit_options(run, labels, rule, target))


@calibrate_app.command("answer")
@reports_errors
def answer_command(questions: Questions, run: CalibrateOptions, labels: LabelSource = "auto") -> None:
    """Fit how often the model's own answers are right (pipelines composed and seakr)."""
    _fit(run, questions, ["answer"], _fit_options(run, labels))


@calibrate_app.command("support")
@reports_errors
def support_command(
    claims: Annotated[Path, typer.Argument(help="Labelled claims (quote, claim, label): jsonl, csv or tsv.")],
    run: CalibrateOptions,
) -> None:
    """Fit the probability that a quote supports a claim, from support scores."""
    from shared_core.evaluation.fitting import read_labelled_claims

    _fit(run, None, ["support"], _fit_options(run, claims=read_labelled_claims(claims)))


@calibrate_app.command("self-evaluation")
@reports_errors
def self_evaluation_command(questions: Questions, run: CalibrateOptions, claims_file: ClaimsFile = None) -> None:
    """Fit the probability that a claim is right, from the one that the model states (closed-book research)."""
    _fit(run, questions, ["self_evaluation"], _fit_options(run), claims_file=claims_file)


@calibrate_app.command("replies")
@reports_errors
def replies_command(
    run: CalibrateOptions,
    questions: Annotated[
        Path | None,
        typer.Argument(help="Questions with answers, about --docs or --index; by default built-in ones are asked."),
    ] = None,
) -> None:
    """Measure how far a model's replies can be trusted. Needs no questions or documents of your own.

    Without QUESTIONS the model is asked 96 built-in ones about everyday documents that come with the package.
    """
    from shared_core.evaluation.fitting.replies import BUILT_IN_DOCUMENTS, BUILT_IN_QUESTIONS

    if questions is None:
        if run.reads:
            raise InputError(
                "Which questions are to be asked of these documents?",
                hint="Name a file of questions with answers, or leave --docs and --index out: built-in ones are asked.",
            )
        questions, run = BUILT_IN_QUESTIONS, dataclasses.replace(run, docs=[BUILT_IN_DOCUMENTS])
    _fit(run, questions, ["replies"], _fit_options(run))


@calibrate_app.command("guarantee")
@reports_errors
def guarantee_command(
    questions: Questions,
    run: CalibrateOptions,
    kind: Annotated[
        str, typer.Option(help="conformal_factuality, conformal_risk_control or learn_then_test.")
    ] = "conformal_factuality",
    target_accuracy: PromisedAccuracy = _DEFAULTS.target_accuracy,
    alpha: Alpha = _DEFAULTS.guarantee_alpha,
    claims_file: ClaimsFile = None,
) -> None:
    """Fit the threshold at which a guarantee for the claims shown at --target-accuracy holds.

    Use other questions than the file's calibrations were fitted on; with --update these calibrations are applied and
    kept. Fewer questions than the guarantee needs are refused.
    """
    _fit_guarantee(run, questions, kind, target_accuracy, alpha, claims_file)


@calibrate_app.command("label")
@reports_errors
def label_command(questions: Questions, run: CalibrateOptions, labelled: Labelled = Path("labelled.jsonl")) -> None:
    """Label claims yourself: shows each question, the claim and its quote, and asks whether it is a right answer.

    Only claims that known answers or passages do not judge are shown. Quit when you like: the same command goes on.
    Then calibrate with the file of --labelled as QUESTIONS; nothing is asked twice.
    """
    label_claims(run, questions, labelled)


# --- what they share --------------------------------------------------------------------------------------------------


def _warn(old: str, new: str) -> None:
    note(f"warning: {old} of `selfreflect calibrate` will go; use: {new}", style="yellow")


def _fit_options(
    run: CalibrateOptions,
    labels: str = "auto",
    rule: str = "balanced_accuracy",
    target: float | None = None,
    claims: Sequence[tuple[str, str, bool]] = (),
) -> FitOptions:
    from shared_core.evaluation.fitting import FitOptions
    from shared_core.evaluation.fitting.asking import check_choice

    check_choice("--rule", rule, _RULES)
    if (rule == "target_accuracy") != (target is not None):
        raise InputError("--rule target_accuracy and --target need each other.", hint="--target 0.9, for example.")
    return FitOptions(
        cast("FitMethod", run.method),
        cast("Labels", labels),
        cast("ThresholdRule", rule),
        target,
        claims=claims,
        budget=run.limits(),
    )


def _default_purposes(run: CalibrateOptions) -> Sequence[str]:
    if not run.has_model:
        return ["confidence"]
    if answers_closed_book(run.settings()):
        return ["self_evaluation"]
    return ["gate", "answer"] if run.pipeline == "seakr" else ["claims"]


def _check_purposes(run: CalibrateOptions, purposes: Sequence[str]) -> None:
    """Refuse purposes that the engine to be built cannot serve: an InputError says why, and what to do."""
    from shared_core.evaluation.fitting.asking import check_configuration

    for name in purposes:
        if name in ("gate", "answer", "self_evaluation") and not run.has_model:
            raise InputError(f"Calibrating {name} needs a language model.", hint="--model or --base-url")
        if name == "confidence" and run.has_model:
            raise InputError(
                "With a model the confidence is that of its claims.", hint="selfreflect calibrate claims QUESTIONS"
            )
        check_configuration(name, run.settings(), has_model=run.has_model)


def _fit_guarantee(
    run: CalibrateOptions, questions: Path, kind: str, target_accuracy: float, alpha: float, claims_file: Path | None
) -> None:
    settings = run.settings(target_accuracy=target_accuracy, guarantee_alpha=alpha)
    name = cast(GuaranteeName, settings.replace(guarantee=kind).guarantee)  # refuses an unknown kind
    options = dataclasses.replace(_fit_options(run), guarantee=name)
    _fit(run, questions, ["guarantee"], options, settings=settings, claims_file=claims_file)


def _fit(
    run: CalibrateOptions,
    questions: Path | None,
    purposes: Sequence[str],
    options: FitOptions,
    *,
    settings: SelfReflectSettings | None = None,
    claims_file: Path | None = None,
) -> None:
    """Check everything that can be known before any work, fit each purpose, and write those that are worth it."""
    from shared_core.calibration import io as calibration_io
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.fitting import ClaimLabels
    from shared_core.evaluation.fitting.asking import check_questions
    from shared_core.support.run_log import RunLog

    settings = settings or run.settings()
    _check_purposes(run, purposes)
    check_output(run.output, "--output")
    check_output(claims_file, "--write-claims")
    _check_plots(run.plots)
    check_questions_and_docs((), run.docs)
    rows = read_questions(questions)[: run.limit] if questions is not None else []
    for name in purposes:
        check_questions(name, rows, options)
    before = dict(calibration_io.load(run.output)) if run.update and run.output.exists() else {}
    if purposes == ["guarantee"]:  # the promise is about scores as the other calibrations leave them
        before.pop("guarantee", None)
        settings = settings.replace(calibration=run.output) if before else settings
    asked = RunLog(run.log_path)
    if len(asked.rows):
        note(
            f"{len(asked.rows)} rows of a run that did not end are in {asked.path}; these are not asked again "
            "(delete it to ask anew)."
        )
    engine = run.build(settings).engine
    labels = ClaimLabels(rows)
    options = dataclasses.replace(options, label=labels)
    try:
        fitted = _fit_each(engine, rows, purposes, options, asked)
    finally:  # the claims are worth having even if there were too few
        _write_claims(labels, claims_file)
    if labels.by:
        out.print(labels.summary())
    _write(run, before, fitted, asked)


def _check_plots(folder: Path | None) -> None:
    if folder is not None:
        from shared_core.evaluation.plots import require_matplotlib

        check_output_folder(folder, "--plots")
        require_matplotlib()


def _fit_each(
    engine: SelfReflectEngine, rows: list[Question], purposes: Sequence[str], options: FitOptions, asked: RunLog
) -> dict[str, Fitted]:
    from shared_core.evaluation.fitting import fit
    from shared_core.evaluation.fitting.budget import describe
    from shared_core.runtime.budget import Meter

    tell_estimate(engine, rows, purposes, options, known=len(asked.rows))
    fitted: dict[str, Fitted] = {}
    meter = Meter(SelfReflectSettings())
    prices = options.budget.prices if options.budget is not None else None
    for name in purposes:
        gate = fitted.get("gate")
        if gate is not None and not gate.shortfall:
            options = dataclasses.replace(options, gate=gate.calibration)
        spent = (lambda: describe(meter.usage, prices)) if engine.resources.models else str
        with question_progress(err, len(rows), f"Calibrating: {name}", spent) as progress:
            try:
                fitted[name] = fit(name, engine, rows, options, progress=progress, kept=asked, meter=meter)
            except CalibrationInputError as error:  # known only now that all was asked: a failure, not wrong usage
                raise CalibrationError(error.message, hint=error.hint) from error
        out.print(fitted[name].summary())
    return fitted


def _write(run: CalibrateOptions, before: dict[str, AnyCalibration], fitted: dict[str, Fitted], asked: RunLog) -> None:
    """Write and draw the fits that are worth it; FAILED if one is not."""
    from shared_core.calibration import io as calibration_io

    useful = {name: f for name, f in fitted.items() if not f.shortfall}
    if useful:
        calibration_io.save(run.output, {**before, **{name: f.calibration for name, f in useful.items()}})
        out.print(f"written: {run.output}")
    if "gate" in useful:
        note(
            "Where the gate skips retrieval the answer is from memory, without a quote: "
            "it is shown only with allow_answers_without_citation."
        )
    for result in fitted.values() if run.plots is not None else ():
        drawn = result.plot(cast(Path, run.plots))
        for path in drawn:
            out.print(f"plot: {path}")
        if not drawn:
            note(f"{result.purpose}: nothing is plotted, as no rows can be held out.")
    for name in fitted.keys() - useful.keys():
        err.print(f"not written: {name}: {fitted[name].shortfall}", style="red")
    if len(useful) < len(fitted):
        note(f"What was asked is kept in {asked.path}: add questions, or try another method or model.")
        raise typer.Exit(FAILED)
    if any(f.partial for f in fitted.values()):
        note(f"What was asked is kept in {asked.path}: with a larger budget the same command goes on.")
    else:
        asked.remove()


def _write_claims(labels: ClaimLabels, path: Path | None) -> None:
    """Write the questions with their claims and labels, if a file is named and claims were made."""
    if path is None or not labels.seen:
        return
    from shared_core.training.rows import write_json_lines

    write_json_lines(labels.rows(), path)
    out.print(f"claims: {path} (correct the labels, then calibrate with it)")
