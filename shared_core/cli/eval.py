"""``selfreflect eval``: measure answers on questions with known answers."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from shared_core.cli.common import (
    FAILED,
    DefaultGroup,
    check_calibration,
    check_output,
    check_output_folder,
    check_questions_and_docs,
    reports_errors,
)
from shared_core.cli.console import err, note, out, question_progress
from shared_core.cli.eval_compare import (
    KINDS,
    Baseline,
    Resamples,
    Wanted,
    all_failed,
    drawn,
    eval_merge_command,
    make_systems,
    read_shard,
    save_all,
    show_comparison,
    show_failed,
    show_written,
    wanted_systems,
)
from shared_core.cli.options import AnswerOptions, Limit
from shared_core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared_core.evaluation.compare import Comparison
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.runner import Evaluation
    from shared_core.facades.engine import SelfReflectEngine


@dataclass(frozen=True, kw_only=True)
class EvalOptions(AnswerOptions):
    """Options of ``selfreflect eval``: the engine, what to compare it with, and where the results go.

    >>> EvalOptions(compare=["composed,plain"]).several
    True
    """

    limit: Limit = None
    batch_size: Annotated[int, typer.Option(min=1, help="Questions asked at once.")] = 16
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File for the metrics and every record, as JSON.")
    ] = None
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for the plots.")] = None
    compare: Annotated[
        list[str], typer.Option("--compare", help=f"Several at once, separated by commas: {', '.join(KINDS)}.")
    ] = field(default_factory=list)
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="NAME=VALUE,VALUE", help="A setting with each of these values, repeatable."),
    ] = field(default_factory=list)
    configurations: Annotated[
        Path | None, typer.Option("--configurations", help="JSON file: settings of more configurations by name.")
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder that keeps every answer; a run that was stopped continues in it."),
    ] = None
    shard: Annotated[str | None, typer.Option("--shard", metavar="I/N", help="Ask every N-th question only.")] = None
    baseline: Baseline = ""
    resamples: Resamples = 1000

    @property
    def several(self) -> bool:
        """Whether several configurations are compared."""
        return bool(self.compare or self.vary or self.configurations is not None)


eval_app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="Measure answers on questions with known answers: `eval QUESTIONS`, `eval merge FOLDERS -o FOLDER`.",
)


@eval_app.command("run")
@reports_errors
def eval_command(
    questions: Annotated[Path, typer.Argument(help="Questions with answers: jsonl, json, csv or tsv (.gz too).")],
    options: EvalOptions,
) -> None:
    """Ask every question, compare with the known answers, and print a table; `run` may be left out.

    Several configurations in one run: --compare composed,plain and --vary target_accuracy=0.5,0.8, with intervals and
    paired differences. plain: the same model and retriever, without our checks; closed-book: from memory.
    With -o DIR every answer is kept as it comes; if stopped at any moment, the same command continues.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.runner import evaluate

    _check(options)
    rows = read_questions(questions)[: options.limit]
    settings = options.settings()
    wanted = wanted_systems(settings, options.compare, options.vary, options.configurations)
    first = settings.replace(pipeline="composed", calibration=None, guarantee=None) if options.several else settings
    engine = options.build(first).engine
    if options.several or options.output is not None:
        digest = hashlib.sha256(questions.read_bytes()).hexdigest()
        file = {"name": questions.name, "sha256": digest}
        about = {"file": file, "limit": options.limit, "base_url": options.base_url}
        _compare(options, engine, wanted, rows, about)
        return
    with question_progress(err, len(rows), "asking") as progress:
        result = evaluate(engine, rows, batch_size=options.batch_size, progress=progress)
    _finish(result, options)


eval_app.command("merge")(eval_merge_command)


def _check(options: EvalOptions) -> None:
    """Refuse before any work what cannot succeed.

    Raises:
        InputError: a path that is missing or cannot be written, a shard without a folder, or a judge without a model.
        MissingDependencyError: plots are wanted (a folder of results holds some) and matplotlib is not installed.
    """
    check_output(options.json_file, "--json")
    check_output_folder(options.plots, "--plots")
    check_questions_and_docs((), options.docs)
    options.require_judge_in_use()
    check_calibration(options.calibration)
    if read_shard(options.shard) is not None and options.output is None:
        raise InputError("A shard needs a folder that it can be merged from.", hint="--shard 1/4 -o DIR")
    if options.output is not None or options.plots is not None:
        from shared_core.evaluation.plots import require_matplotlib

        require_matplotlib()


def _compare(
    options: EvalOptions,
    engine: SelfReflectEngine,
    wanted: Sequence[Wanted],
    rows: Sequence[Question],
    about: Mapping[str, Any],
) -> None:
    """Ask all configurations, then print, write and draw the comparison; of one, its own table."""
    from shared_core.evaluation.compare import compare
    from shared_core.evaluation.runner import AnswersMany, Evaluation, fitted_on, metrics

    if options.output is None:
        note("Answers of this run are not kept; with -o DIR they are, and a run that was stopped can continue.")
    shard = read_shard(options.shard)
    asked = len(rows) if shard is None else len(rows[shard[0] - 1 :: shard[1]])
    systems: dict[str, AnswersMany] = make_systems(engine, wanted) if options.several else {wanted[0].name: engine}
    try:
        with question_progress(err, asked * len(systems), "asking") as progress:
            comparison = compare(
                systems,
                rows,
                folder=options.output,
                batch_size=options.batch_size,
                shard=shard,
                about=about,
                progress=progress,
                baseline=options.baseline,
                resamples=options.resamples,
            )
    except KeyboardInterrupt:
        if options.output is not None:
            note(f"Answers so far are kept in {options.output}: the same command continues there.", style="yellow")
        raise
    comparison = drawn(comparison)
    if options.output is not None:
        save_all(comparison, options.output)
    if not options.several:
        name = wanted[0].name
        alone = comparison if comparison.names == (name,) else drawn(comparison.alone(name))
        records = tuple(row.record for row in alone.rows[name])
        _finish(Evaluation(metrics(records), records, fitted_on(engine, rows)), options, alone)
        return
    show_comparison(comparison)
    show_written("comparison", comparison, options.json_file, options.plots)
    if all_failed(comparison):
        raise typer.Exit(FAILED)


def _finish(result: Evaluation, options: EvalOptions, drawn_from: Comparison | None = None) -> None:
    _show(result, drawn_from)
    show_written("metrics", result, options.json_file, options.plots)
    if all(r.error for r in result.records):
        raise typer.Exit(FAILED)


def _show(result: Evaluation, drawn_from: Comparison | None = None) -> None:
    """Print the table of metrics, with intervals and numbers of questions if they were drawn."""
    from shared_core.evaluation.runner import errors_of

    columns = ["figure", "value"] if drawn_from is None else ["figure", "value", f"{drawn_from.level:.0%}", "n"]
    table = Table(*columns, title=None, header_style="bold")
    table.columns[1].justify = "right"
    for name, value in result.metrics.items():
        if math.isfinite(value):
            whole = name in ("questions", "errors")
            line = [name.replace("_", " "), str(int(value)) if whole else f"{value:.3f}"]
            if drawn_from is not None:
                estimate = drawn_from.figures[drawn_from.reference][name]
                known = estimate.low is not None and estimate.high is not None
                line.append(f"{estimate.low:.3f} … {estimate.high:.3f}" if known else "")
                line.append("" if whole or estimate.over is None else str(estimate.over))
            table.add_row(*line)
    out.print(table)
    undefined = [name.replace("_", " ") for name, value in result.metrics.items() if not math.isfinite(value)]
    if undefined:
        err.print(f"not defined for these questions: {', '.join(undefined)}")
    show_failed(errors_of(result.records))
