"""``selfreflect eval`` of several configurations, or of one whose answers are kept: ask, show, merge."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli.common import FAILED, check_output, reports_errors
from shared_core.cli.console import cell, err, note, out
from shared_core.cli.progress import question_progress
from shared_core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared_core.evaluation.compare import Comparison, Estimate, FigureOptions, Shard
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.runner import AnswersMany

Resamples = Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap draws for the intervals; 0: none.")]
Baseline = Annotated[
    str, typer.Option("--baseline", help="Configuration that the others are compared with; by default the first.")
]


def read_shard(text: str | None) -> Shard | None:
    """Parse ``2/4`` as (2, 4); InputError for anything else."""
    if text is None:
        return None
    number, slash, count = text.partition("/")
    if not slash or not number.strip().isdecimal() or not count.strip().isdecimal():
        raise InputError(f"--shard takes I/N, not {text!r}.", hint="--shard 1/4")
    return int(number), int(count)


def ask_all(
    systems: Mapping[str, AnswersMany],
    rows: Sequence[Question],
    *,
    output: Path | None,
    shard: Shard | None,
    batch_size: int,
    about: Mapping[str, Any],
    **options: Unpack[FigureOptions],
) -> Comparison:
    """Ask with a progress bar; answers in the folder survive an interruption. Arguments as ``evaluation.compare``."""
    from shared_core.evaluation.compare import compare

    asked = len(rows) if shard is None else len(rows[shard[0] - 1 :: shard[1]])
    try:
        with question_progress(err, asked * len(systems), "asking") as progress:
            return compare(
                systems,
                rows,
                folder=output,
                shard=shard,
                batch_size=batch_size,
                about=about,
                progress=progress,
                **options,
            )
    except KeyboardInterrupt:
        if output is not None:
            note(f"Answers so far are kept in {output}: the same command continues there.", style="yellow")
        raise


def drawn(comparison: Comparison) -> Comparison:
    """Compute a comparison's figures, with a progress bar."""
    with question_progress(err, comparison.resamples, "drawing") as progress:
        comparison = dataclasses.replace(comparison, progress=progress)
        assert comparison.figures
    return comparison


def save_all(comparison: Comparison, folder: Path) -> None:
    """Write every file and print their paths, the page last."""
    paths = comparison.save(folder)
    for path in paths[:-1]:
        err.print(f"written: {path}", markup=False, highlight=False)
    err.print(f"report: {paths[-1]}", markup=False, highlight=False)


def show_comparison(comparison: Comparison) -> None:
    """Print the main figures, one line per figure and configuration, and the failures."""
    from shared_core.evaluation.compare.page import headline, show_figure

    columns = ["figure", "configuration", f"value [{comparison.level:.0%}]", "n"]
    if len(comparison.names) > 1:
        columns.append(f"difference from {comparison.reference}")
    table = Table(*map(cell, columns), header_style="bold")
    for figure in headline(comparison):
        for number, name in enumerate(comparison.names):
            estimate = comparison.figures[name].get(figure)
            over = "" if estimate is None or estimate.over is None else str(estimate.over)
            line = [figure.replace("_", " ") if not number else "", cell(name), cell(show_figure(estimate)), over]
            difference = comparison.differences.get((name, comparison.reference), {}).get(figure)
            if len(comparison.names) > 1:
                line.append(cell(_shown(difference)))
            table.add_row(*line, end_section=number == len(comparison.names) - 1)
    out.print(table)
    out.print(Text(f"over {len(comparison.questions)} questions · {_note(comparison)}", style="dim"))
    for name in comparison.names:
        for error, ids in comparison.errors(name).items():
            which = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
            err.print(
                f"failed with {name} ({len(ids)}: {which}): {error}", style="yellow", markup=False, highlight=False
            )
    if comparison.left_out:
        note(
            f"{comparison.left_out} answers left out: not every configuration was asked their questions.",
            style="yellow",
        )


def _shown(difference: Estimate | None) -> str:
    from shared_core.evaluation.compare.page import show_figure

    if difference is None or not math.isfinite(difference.value):
        return ""
    return show_figure(difference, signed=True) + (" *" if difference.differs else "")


def _note(comparison: Comparison) -> str:
    if not comparison.resamples:
        return "no intervals: --resamples 0"
    starred = " · * the interval excludes 0" if len(comparison.names) > 1 else ""
    return f"intervals: paired bootstrap, {comparison.resamples} draws, seed {comparison.seed}{starred}"


def all_failed(comparison: Comparison) -> bool:
    """Return whether every question failed."""
    return all(row.record.error for rows in comparison.rows.values() for row in rows)


Folders = Annotated[list[Path], typer.Argument(help="Folders of `selfreflect eval -o`: shards, or other runs.")]
MergedInto = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for all answers, figures and the page; may be one of FOLDERS.")
]
ComparisonFile = Annotated[Path | None, typer.Option("--json", help="Also write the comparison as JSON here.")]


@reports_errors
def eval_merge_command(
    folders: Folders,
    output: MergedInto,
    baseline: Baseline = "",
    resamples: Resamples = 1000,
    json_file: ComparisonFile = None,
) -> None:
    """Merge shards, or runs of several models on the same questions; for one folder, write figures and page again.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    _merge(folders, output, baseline, resamples, json_file)


@reports_errors
def old_merge_command(
    folders: Folders,
    output: MergedInto,
    baseline: Baseline = "",
    resamples: Resamples = 1000,
    json_file: ComparisonFile = None,
) -> None:
    """Run `selfreflect eval merge`, which replaces this command."""
    note("warning: `selfreflect eval-merge` will go; use: selfreflect eval merge", style="yellow")
    _merge(folders, output, baseline, resamples, json_file)


def _merge(folders: list[Path], output: Path, baseline: str, resamples: int, json_file: Path | None) -> None:
    from shared_core.evaluation.compare import merge, missing_shards
    from shared_core.evaluation.plots import require_matplotlib

    check_output(json_file, "--json")
    require_matplotlib()
    comparison = drawn(merge(folders, output, baseline=baseline, resamples=resamples))
    show_comparison(comparison)
    missing = missing_shards(comparison.run.sessions)
    if missing:
        note(f"Missing shards: {', '.join(missing)}.", style="yellow")
    save_all(comparison, output)
    if json_file is not None:
        err.print(f"comparison: {comparison.write(json_file)}", markup=False, highlight=False)
    if all_failed(comparison):
        raise typer.Exit(FAILED)
