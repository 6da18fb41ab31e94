"""``selfreflect eval``: how good the answers are on questions with known answers."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from shared_core.cli.ask import (
    BaseUrl,
    Calibration,
    Docs,
    Index,
    JudgePath,
    Model,
    Pipeline,
    Target,
    TopK,
)
from shared_core.cli.common import (
    FAILED,
    build,
    check_output,
    check_questions_and_docs,
    read_calibration,
    reports_errors,
)
from shared_core.cli.console import err, note, out
from shared_core.cli.eval_compare import (
    Baseline,
    Resamples,
    all_failed,
    ask_all,
    drawn,
    read_shard,
    save_all,
    show_comparison,
)
from shared_core.cli.eval_systems import KINDS, make_systems, wanted_systems
from shared_core.cli.options import Guarantee, Set, Vectors, with_set
from shared_core.cli.progress import question_progress
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared_core.evaluation.compare.comparison import Comparison
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.runner import Evaluation

_DEFAULTS = SelfReflectSettings()


@reports_errors
def eval_command(
    questions: Annotated[Path, typer.Argument(help="Questions with answers: jsonl, json, csv or tsv (.gz too).")],
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    vectors: Vectors = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pipeline: Pipeline = _DEFAULTS.pipeline,
    target_accuracy: Target = _DEFAULTS.target_accuracy,
    top_k: TopK = _DEFAULTS.top_k,
    calibration: Calibration = None,
    guarantee: Guarantee = None,
    changes: Set = [],  # noqa: B006
    judge: JudgePath = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only the first so many questions.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions asked at once.")] = 16,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write metrics and every record as JSON.")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for the plots.")] = None,
    compare: Annotated[
        list[str], typer.Option("--compare", help=f"Several at once, separated by commas: {', '.join(KINDS)}.")
    ] = [],  # noqa: B006
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="NAME=VALUE,VALUE", help="A setting with each of these values, repeatable."),
    ] = [],  # noqa: B006
    configurations: Annotated[
        Path | None, typer.Option("--configurations", help="JSON: settings of further configurations by name.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder that keeps every answer; a run that was ended goes on in it."),
    ] = None,
    shard: Annotated[str | None, typer.Option("--shard", metavar="I/N", help="Ask every N-th question only.")] = None,
    baseline: Baseline = "",
    resamples: Resamples = 1000,
) -> None:
    """Ask every question, compare with the known answers, and print a table of metrics.

    Several configurations in one run: --compare composed,plain and --vary target_accuracy=0.5,0.8, with intervals and
    paired differences. plain is the same model answering from the passages found without us, closed-book from memory.
    With -o DIR every answer is kept as it comes; ended at any moment, the same command goes on.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.fitting.seen import fitted_on
    from shared_core.evaluation.runner import evaluate

    several = bool(compare or vary or configurations is not None)
    check_output(json_file, "--json")
    check_questions_and_docs((), docs)
    read_calibration(calibration)
    part = read_shard(shard)
    if part is not None and output is None:
        raise InputError("A shard is of no use without a folder to merge it from.", hint="--shard 1/4 -o DIR")
    rows = read_questions(questions)[:limit]
    settings = SelfReflectSettings(
        target_accuracy=target_accuracy, pipeline=pipeline, top_k=top_k, calibration=calibration, guarantee=guarantee
    )
    settings = with_set(settings, changes)
    wanted = wanted_systems(settings, compare, vary, configurations)
    first = settings if not several else settings.replace(pipeline="composed", calibration=None, guarantee=None)
    engine = build(
        docs=docs, index=index, vectors=vectors, model=model, base_url=base_url, settings=first, judge=judge
    ).engine
    if not several and output is None:
        with question_progress(err, len(rows), "asking") as progress:
            result = evaluate(engine, rows, batch_size=batch_size, progress=progress)
        _finish(result, json_file, plots)
        return
    if output is None:
        note("Nothing of this run is kept: with -o DIR every answer is, and a run that was ended goes on.")
    comparison = ask_all(
        make_systems(engine, wanted) if several else {wanted[0].name: engine},
        rows,
        output=output,
        shard=part,
        batch_size=batch_size,
        baseline=baseline,
        resamples=resamples,
        about=_about(questions, rows, limit, base_url),
    )
    comparison = drawn(comparison)
    if output is not None:
        save_all(comparison, output)
    if not several:
        name = wanted[0].name
        alone = comparison if comparison.names == (name,) else drawn(comparison.alone(name))
        _finish(_evaluation(alone, fitted_on(engine, rows)), json_file, plots, alone)
        return
    show_comparison(comparison)
    if json_file is not None:
        err.print(f"comparison: {comparison.write(json_file)}", markup=False, highlight=False)
    if plots is not None:
        for path in comparison.plot(plots):
            err.print(f"plot: {path}", markup=False, highlight=False)
    if all_failed(comparison):
        raise typer.Exit(FAILED)


def _about(questions: Path, rows: Sequence[Question], limit: int | None, base_url: str | None) -> dict[str, Any]:
    digest = hashlib.sha256(questions.read_bytes()).hexdigest()
    return {"file": {"name": questions.name, "sha256": digest}, "limit": limit, "base_url": base_url}


def _evaluation(comparison: Comparison, seen: Mapping[str, int]) -> Evaluation:
    from shared_core.evaluation.runner import Evaluation, metrics

    records = tuple(row.record for row in comparison.rows[comparison.reference])
    return Evaluation(metrics(records), records, seen)


def _finish(
    result: Evaluation, json_file: Path | None, plots: Path | None, drawn_from: Comparison | None = None
) -> None:
    _show(result, drawn_from)
    if json_file is not None:
        err.print(f"metrics: {result.write(json_file)}", markup=False, highlight=False)
    if plots is not None:
        for path in result.plot(plots):
            err.print(f"plot: {path}", markup=False, highlight=False)
    if all(r.error for r in result.records):
        raise typer.Exit(FAILED)


def _show(result: Evaluation, drawn_from: Comparison | None = None) -> None:
    """The table of metrics; with intervals and numbers of questions where they were drawn."""
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
        err.print(f"not defined for these questions: {', '.join(undefined)}", markup=False, highlight=False)
    failed: dict[str, list[str]] = {}
    for record in result.records:
        if record.error:
            failed.setdefault(record.error, []).append(record.id)
    for error, ids in failed.items():
        which = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
        err.print(f"failed ({len(ids)}: {which}): {error}", style="yellow", markup=False, highlight=False)
