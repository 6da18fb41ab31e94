"""``selfreflect train``: training rows from answers, and models from rows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from shared_core.cli.common import build_model, reports_errors
from shared_core.cli.console import err, out
from shared_core.cli.options import BaseUrl
from shared_core.cli.progress import question_progress
from shared_core.cli.training_options import takes_training_options, training_steps
from shared_core.errors import InputError
from shared_core.support.files import replace_file

if TYPE_CHECKING:
    from shared_core.training.recipes import TrainingResult
    from shared_core.training.reclaim.rows import Drop
    from shared_core.training.rows import TrainingRow
    from shared_core.training.trainer import Progress

train_app = typer.Typer(help="Make training rows, and train models on them.", no_args_is_help=True)

SelectingModel = Annotated[
    str | None, typer.Option("--model", "-m", help="Selects citations where answers carry no labels: name or path.")
]
Nli = Annotated[
    Path | None, typer.Option("--nli", help="NLI classifier (folder): keeps clauses that their quotes entail.")
]
Rows = Annotated[list[Path], typer.Option("--rows", "-r", help="Files of rows; repeatable.")]
Base = Annotated[str, typer.Option("--model", "-m", help="Model to start from: hub name or path.")]
EvalRows = Annotated[
    list[Path], typer.Option("--eval-rows", help="Files of rows to evaluate on, instead of --eval-share; repeatable.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to make, with model, tokenizer, training.json.")]


@train_app.command("reclaim-rows")
@reports_errors
def reclaim_rows_command(
    sources: Annotated[Path, typer.Argument(help="Answers with passages, JSON lines (docs/reclaim.md).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the rows.")],
    dropped: Annotated[Path | None, typer.Option(help="Also write what was left out, with reasons.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the counts as JSON.")] = None,
    model: SelectingModel = None,
    base_url: BaseUrl = None,
    nli: Nli = None,
    nli_threshold: Annotated[float, typer.Option(help="Probability from which a clause counts as entailed.")] = 0.5,
    segments: Annotated[str, typer.Option(help="clause or sentence.")] = "clause",
    mode: Annotated[str, typer.Option(help="sentence or span: what may be cited.")] = "sentence",
    max_sentences: Annotated[int, typer.Option(help="Sentences of a reference.")] = 3,
    max_pairs: Annotated[int | None, typer.Option(help="Pairs of an answer.")] = None,
    on_drop: Annotated[str, typer.Option(help="skip, truncate or discard an answer that loses a segment.")] = "skip",
    form: Annotated[
        Literal["conversational", "text"], typer.Option(help="For `train reclaim`, or for other trainers.")
    ] = "conversational",
) -> None:
    """Make rows for ReClaim's reference, claim and unified models from answers.

    Cited sentences must stand verbatim in the passages, and with --nli each must entail its clause; what does not is
    left out, counted, and written to --dropped.
    """
    from shared_core.reading.support import CrossEncoderSupportScorer
    from shared_core.runtime.flow import Resources
    from shared_core.training.reclaim.rows import RowSettings, build_rows
    from shared_core.training.reclaim.sources import read_sources
    from shared_core.training.rows import write_json_lines, write_rows

    settings = RowSettings(
        segments=segments,
        mode=mode,
        max_sentences=max_sentences,
        max_pairs=max_pairs,
        on_drop=on_drop,
        nli_threshold=nli_threshold,
    )
    given = read_sources(sources)
    lm = build_model(model, base_url)
    judge = None if nli is None else CrossEncoderSupportScorer(nli)
    resources = Resources(models={} if lm is None else {"selection": lm}, judge=judge)
    with question_progress(err, len(given), "Answers") as tell:
        made = build_rows(given, settings, resources, progress=lambda done: tell(done, len(given)))
    if dropped is not None:
        write_json_lines(map(_plain, made.drops), dropped)
    if report is not None:
        with replace_file(report) as file:
            file.write(json.dumps(made.report.to_dict(), indent=2, ensure_ascii=False) + "\n")
    out.print(made.report.summary(), markup=False, highlight=False)
    if not made.rows:
        raise InputError("No rows are left.", hint="The reasons are counted above; --dropped FILE writes each of them.")
    write_rows(made.rows, output, form=form)
    out.print(f"written: {output}", markup=False, highlight=False)


def _plain(drop: Drop) -> dict[str, Any]:
    return dataclasses.asdict(drop)


@train_app.command("reclaim")
@reports_errors
@takes_training_options
def reclaim_command(
    rows: Rows,
    model: Base,
    output: Output,
    role: Annotated[str, typer.Option(help="reference, claim or unified: which rows, and the paper's settings.")],
    changes: dict[str, Any],
    eval_rows: EvalRows = [],  # noqa: B006 - typer's way of a repeatable option
) -> None:
    """Train ReClaim's reference, claim or unified model on rows of `train reclaim-rows`.

    What is not given is as the paper has it. Ended at any moment, the same command goes on from its last checkpoint.
    """
    train_rows(rows, model, output, role, changes, eval_rows)


def train_rows(
    rows: list[Path], model: str, output: Path, role: str, changes: dict[str, Any], eval_rows: list[Path]
) -> None:
    """Train on the files' rows of the role, with its recipe and the changes."""
    from shared_core.training.recipes import recipe, train

    settings = recipe(role, **changes)
    chosen, apart = _rows_of(rows, role), _rows_of(eval_rows, role) if eval_rows else []
    run_training(partial(train, chosen, model, output, settings, evaluate_on=apart), [*rows, *eval_rows])


def _rows_of(files: list[Path], role: str) -> list[TrainingRow]:
    from shared_core.training.rows import read_rows

    every = [row for path in files for row in read_rows(path)]
    chosen = [row for row in every if row.role == role]
    if not chosen:
        known = ", ".join(sorted({r.role for r in every})) or "none"
        raise InputError(f"The files hold no rows for the {role} model.", hint=f"Roles they hold: {known}.")
    return chosen


class Training(Protocol):
    """A training that lacks nothing but where its rows come from and who is told of its steps."""

    def __call__(self, *, sources: Mapping[str, str], progress: Progress | None) -> TrainingResult:
        """Train."""


def run_training(training: Training, files: Sequence[Path]) -> TrainingResult:
    """Train on rows of these files, show the steps, and tell what came of it."""
    digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}
    with training_steps() as progress:
        result = training(sources=digests, progress=progress)
    _tell_result(result)
    return result


def _tell_result(result: TrainingResult) -> None:
    if result.dropped:
        limit = result.card["tokens"]["limit"]
        err.print(f"{result.dropped} rows of more than {limit} tokens left out", style="yellow", highlight=False)
    first, last = result.card["loss"]["first"], result.card["loss"]["last"]
    if result.card["resumed_at"]:
        out.print(f"went on from step {result.card['resumed_at']}")
    out.print(f"{result.rows} rows, {result.steps} steps, {result.seconds:.0f} s, loss {first:.3f} → {last:.3f}")
    if result.best is not None:
        loss = dict(result.evaluations)[result.best]
        out.print(f"best on {result.card['rows']['evaluated_on']} rows kept apart: step {result.best}, loss {loss:.3f}")
    out.print(f"written: {result.output}", markup=False, highlight=False)
