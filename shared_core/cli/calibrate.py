"""``selfreflect calibrate``: confidences and thresholds for the user's own documents, model and questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from shared_core.cli.ask import BaseUrl, Docs, Index, JudgePath, Model, Pipeline, Target, TopK
from shared_core.cli.common import (
    answers_closed_book,
    build,
    check_output,
    check_questions_and_docs,
    reports_errors,
)
from shared_core.cli.console import err, note, out
from shared_core.cli.guarantee import calibrate_guarantee_command, write_claims
from shared_core.cli.options import Guarantee, Set, Vectors, with_set
from shared_core.cli.progress import question_progress
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_core.calibration.calibration import Calibration, ThresholdRule
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.fitting.calibration import CalibrationRun
    from shared_core.evaluation.fitting.claims_calibration import FittedClaims
    from shared_core.evaluation.fitting.gauge_calibration import FittedPurpose, Labels
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.support.run_log import RunLog

_DEFAULTS = SelfReflectSettings()
PURPOSES = ("confidence", "claims", "gate", "answer", "support", "self_evaluation")


@reports_errors
def calibrate_command(
    questions: Annotated[Path, typer.Argument(help="Questions, with answers where known: jsonl, json or csv.")],
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    vectors: Vectors = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pipeline: Pipeline = _DEFAULTS.pipeline,
    top_k: TopK = _DEFAULTS.top_k,
    judge: JudgePath = None,
    purpose: Annotated[
        list[str],
        typer.Option(
            help="What to calibrate, repeatable: confidence (of quoted answers, without a model), claims (how far the "
            "witnesses of a model's claims are to be believed), gate (when the model knows without retrieval), answer "
            "(the model's own answers), support (needs --support-rows), self_evaluation (what a model says of its own "
            "claims, closed-book research). By default confidence without a model; with one claims, for seakr gate and "
            "answer, for closed-book research self_evaluation."
        ),
    ] = [],  # noqa: B006
    labels: Annotated[
        str,
        typer.Option(
            help="For gate and answer: gold (known answers), self (agreement of the model's answer from memory with "
            "its answer from passages), or auto: gold where answers are known, self elsewhere."
        ),
    ] = "auto",
    rule: Annotated[
        str, typer.Option(help="How the gate's threshold is chosen: balanced_accuracy or target_accuracy.")
    ] = "balanced_accuracy",
    target: Annotated[
        float | None, typer.Option(help="For --rule target_accuracy: share of right answers below the threshold.")
    ] = None,
    support_rows: Annotated[
        Path | None, typer.Option(help="Labelled claims (quote, claim, label) in jsonl or csv: calibrates support.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path("calibration.json"),
    update: Annotated[bool, typer.Option("--update", help="Keep what else the file holds already.")] = False,
    method: Annotated[str, typer.Option(help="isotonic or platt; auto takes platt below 200 questions.")] = "auto",
    plots: Annotated[Path | None, typer.Option(help="Folder for the reliability and risk–coverage plots.")] = None,
    guarantee: Guarantee = None,
    target_accuracy: Target = _DEFAULTS.target_accuracy,
    alpha: Annotated[
        float, typer.Option(help="Of --guarantee: the probability that it may fail.")
    ] = _DEFAULTS.guarantee_alpha,
    claims_file: Annotated[
        Path | None,
        typer.Option(
            "--write-claims",
            help="With --guarantee or self_evaluation: also write the questions with all claims made and their labels; "
            "corrected, the file can stand in for QUESTIONS.",
        ),
    ] = None,
    changes: Set = [],  # noqa: B006
) -> None:
    """Fit confidences and thresholds to your documents, model and questions; use them with `ask --calibration FILE`.

    What is asked is kept in FILE.rows as it comes: a run that was stopped goes on where it was, with the same command.
    All calibrations of a run go into one file, each bound to the configuration it was made with and refused by others:
    another model, number of samples or layer needs its own.

    --guarantee fits what may be promised of the claims shown at --target-accuracy, on all the questions, which must be
    others than those that the file's calibrations were fitted on; those are used and kept with --update. With fewer
    questions than the promise needs it is refused.
    """
    from shared_core.calibration import io as calibration_io
    from shared_core.calibration.calibration import Calibration
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.fitting.enough import require_enough, require_enough_claims
    from shared_core.evaluation.fitting.labelled_claims import read_labelled_claims
    from shared_core.support.run_log import RunLog

    if guarantee is not None and purpose:
        raise InputError(
            "A guarantee holds for scores fixed before: --guarantee and --purpose need questions of their own.",
            hint="Calibrate first, then run --guarantee --update with other questions.",
        )
    settings = with_set(SelfReflectSettings(pipeline=pipeline, top_k=top_k), changes)
    wanted = _purposes(purpose, model or base_url, settings, support_rows)
    _check_known("--labels", labels, ("auto", "gold", "self"))
    _check_known("--rule", rule, ("balanced_accuracy", "target_accuracy"))
    if (rule == "target_accuracy") != (target is not None):
        raise InputError("--rule target_accuracy and --target belong together.", hint="--target 0.9, for example.")
    _check_known("--method", method, ("auto", "isotonic", "platt"))
    check_output(output, "--output")
    check_output(plots / "plot.png" if plots is not None else None, "--plots")
    check_output(claims_file, "--write-claims")
    check_questions_and_docs((), docs)
    rows = read_questions(questions)
    claims = read_labelled_claims(support_rows) if support_rows is not None else []
    for name in () if guarantee is not None else wanted:
        if name == "support":
            require_enough_claims(claims)
        else:
            require_enough(name, rows, labels if name in ("gate", "answer") else "gold")
    asked = RunLog(output.with_name(f"{output.name}.rows"))
    kept = dict(calibration_io.load(output)) if update and output.exists() else {}

    def made(settings: SelfReflectSettings) -> SelfReflectEngine:
        return build(
            docs=docs,
            index=index,
            vectors=vectors,
            model=model,
            base_url=base_url,
            settings=settings,
            judge=judge,
        ).engine

    if len(asked.rows):
        note(
            f"{len(asked.rows)} rows of a run that did not end are in {asked.path}; "
            "what they answer is not asked again (delete it to ask anew)."
        )
    if guarantee is not None:
        settings = settings.replace(target_accuracy=target_accuracy, guarantee_alpha=alpha)
        calibrate_guarantee_command(guarantee, rows, made, settings, output, kept, claims_file, asked)
        asked.remove()
        return
    engine = made(settings)
    todo = _Fitting(
        engine,
        rows,
        claims,
        method,
        cast("Labels", labels),
        cast("ThresholdRule", rule),
        target,
        asked,
        claims_file,
    )
    fitted: dict[str, CalibrationRun | FittedClaims | FittedPurpose] = {}
    for name in wanted:
        with question_progress(err, len(rows), f"Calibrating: {name}") as progress:
            gate = fitted["gate"].calibration if "gate" in fitted else None
            fitted[name] = todo.fit(name, gate if isinstance(gate, Calibration) else None, progress)
        out.print(fitted[name].summary(), markup=False, highlight=False)
    calibration_io.save(output, {**kept, **{name: f.calibration for name, f in fitted.items()}})
    asked.remove()
    out.print(f"written: {output}", markup=False, highlight=False)
    if "gate" in fitted and pipeline == "composed":
        note(
            "Where the gate skips retrieval the answer is from memory, without a quote: it is shown only with "
            "allow_answers_without_citation."
        )
    if "gate" in fitted and pipeline == "seakr":
        note("Where the gate stays shut the answer is from memory, without a quote; its text says so.")
    if plots is not None:
        for result in fitted.values():
            drawn = result.plot(plots)
            for path in drawn:
                out.print(f"plot: {path}", markup=False, highlight=False)
            if not drawn:
                note("Of one kind (right, wrong) there are too few rows to hold any out: nothing is plotted.")


@dataclass(frozen=True)
class _Fitting:
    """What to fit on, and how; the options are checked where they are used."""

    engine: SelfReflectEngine
    rows: list[Question]
    claims: list[tuple[str, str, bool]]
    method: str
    labels: Labels
    rule: ThresholdRule
    target: float | None
    kept: RunLog
    claims_file: Path | None = None

    def fit(
        self, name: str, gate: Calibration | None, progress: Callable[[int, int], None]
    ) -> CalibrationRun | FittedClaims | FittedPurpose:
        """The calibration of one purpose; ``gate``: fitted before, for the answers that it decides on."""
        from shared_core.evaluation.fitting import gauge_calibration as gauges
        from shared_core.evaluation.fitting.calibration import calibrate_confidence
        from shared_core.evaluation.fitting.claims_calibration import calibrate_claims

        if name == "claims":
            return calibrate_claims(self.engine, self.rows, progress=progress, kept=self.kept)
        if name == "self_evaluation":
            from shared_core.evaluation.fitting.claim_labels import ClaimLabels
            from shared_core.evaluation.fitting.self_evaluation_calibration import calibrate_self_evaluation

            judged = ClaimLabels(self.rows)
            try:
                return calibrate_self_evaluation(
                    self.engine, self.rows, method=self.method, label=judged, progress=progress, kept=self.kept
                )
            finally:
                write_claims(judged, self.claims_file)
        if name == "confidence":
            return calibrate_confidence(self.engine, self.rows, method=self.method, progress=progress, kept=self.kept)
        if name == "support":
            return gauges.calibrate_support(self.engine, self.claims, method=self.method)
        if name == "answer":
            return gauges.calibrate_answer(
                self.engine,
                self.rows,
                method=self.method,
                labels=self.labels,
                gate=gate,
                progress=progress,
                kept=self.kept,
            )
        return gauges.calibrate_gate(
            self.engine,
            self.rows,
            method=self.method,
            labels=self.labels,
            rule=self.rule,
            target=self.target,
            progress=progress,
            kept=self.kept,
        )


def _purposes(
    given: list[str], model: str | None, settings: SelfReflectSettings, support_rows: Path | None
) -> list[str]:
    from shared_core.evaluation.fitting.gauge_calibration import WITH_GATE

    for name in given:
        _check_known("--purpose", name, PURPOSES)
    if "support" in given and support_rows is None:
        raise InputError("Calibrating support needs labelled claims.", hint="--support-rows FILE")
    wanted = set(given)
    if not given:
        own = {"seakr": {"gate", "answer"}}.get(settings.pipeline, {"claims"})
        own = {"self_evaluation"} if answers_closed_book(settings) else own
        wanted = own if model else {"confidence"}
    if support_rows is not None:
        wanted.add("support")
    if "self_evaluation" in wanted and not answers_closed_book(settings):
        raise InputError(
            "Self-evaluation is what closed-book research judges claims by.",
            hint="--pipeline research --set research.closed_book=true",
        )
    if model is None and wanted & {"claims", "gate", "answer", "self_evaluation"}:
        raise InputError(
            "Claims, gate, answer and self-evaluation are a language model's.", hint="Give --model or --base-url."
        )
    if model is not None and "confidence" in wanted:
        raise InputError("With a model the confidence is that of its claims.", hint="--purpose claims")
    if wanted & {"gate", "answer"} and settings.pipeline not in WITH_GATE:
        raise InputError(
            f"The pipeline {settings.pipeline} retrieves by itself: calibrations of gate and answer would be applied "
            "nowhere.",
            hint="--purpose claims",
        )
    return [name for name in PURPOSES if name in wanted]  # the gate before the answers that it decides on


def _check_known(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"Unknown {option} {value!r}.", hint=f"There are: {', '.join(known)}.")
