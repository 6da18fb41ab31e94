"""``selfreflect eval``: how good the answers are on questions with known answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from shared_core.commands.ask import (
    BaseUrl,
    Calibration,
    ChromaUrl,
    Docs,
    Index,
    JudgePath,
    Model,
    Pipeline,
    Target,
    TopK,
)
from shared_core.commands.common import (
    FAILED,
    build,
    check_output,
    check_questions_and_docs,
    read_calibration,
    reports_errors,
)
from shared_core.commands.console import err, out
from shared_core.commands.options import Guarantee, Set, with_set
from shared_core.commands.progress import question_progress
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.evaluation.runner import Evaluation

_DEFAULTS = SelfReflectSettings()


@reports_errors
def eval_command(
    questions: Annotated[Path, typer.Argument(help="Questions with answers: jsonl, json, csv or tsv (.gz too).")],
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    chroma_url: ChromaUrl = None,
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
) -> None:
    """Ask every question, compare with the known answers, and print a table of metrics.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.runner import evaluate

    check_output(json_file, "--json")
    check_questions_and_docs((), docs)
    read_calibration(calibration)
    rows = read_questions(questions)[:limit]
    settings = SelfReflectSettings(
        target_accuracy=target_accuracy, pipeline=pipeline, top_k=top_k, calibration=calibration, guarantee=guarantee
    )
    settings = with_set(settings, changes)
    engine = build(
        docs=docs, index=index, chroma_url=chroma_url, model=model, base_url=base_url, settings=settings, judge=judge
    ).engine
    with question_progress(err, len(rows), "asking") as progress:
        result = evaluate(engine, rows, batch_size=batch_size, progress=progress)
    _show(result)
    if json_file is not None:
        err.print(f"metrics: {result.write(json_file)}", markup=False, highlight=False)
    if plots is not None:
        for path in result.plot(plots):
            err.print(f"plot: {path}", markup=False, highlight=False)
    if all(r.error for r in result.records):
        raise typer.Exit(FAILED)


def _show(result: Evaluation) -> None:
    table = Table("figure", "value", title=None, header_style="bold")
    table.columns[1].justify = "right"
    for name, value in result.metrics.items():
        if math.isfinite(value):
            whole = name in ("questions", "errors")
            table.add_row(name.replace("_", " "), str(int(value)) if whole else f"{value:.3f}")
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
