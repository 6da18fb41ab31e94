"""Options of every command that trains: rows, base, output, and the settings of the training.

Under ``accelerate launch`` and ``torchrun`` only the first process prints.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from shared_core.cli.common import exit_code, hide_bars
from shared_core.cli.console import err, note, out
from shared_core.errors import InputError, MissingDependencyError, SettingsError
from shared_core.training.settings import TrainingSettings

if TYPE_CHECKING:
    from shared_core.training.watch import Progress

_PANELS = {
    "Memory and speed": "micro_batch_size max_length batches token_weights gradient_checkpointing bf16 weights "
    "optimizer",
    "Checkpoints, evaluation, trackers": "eval_share save_every run_name",
    "How to train": "learning_rate epochs max_steps batch_size warmup schedule weight_decay max_grad_norm lora_rank "
    "lora_alpha lora_dropout lora_layers start_adapter seed",
}
"""Settings of a training that are options of the same name, with their descriptions, by the panel of --help."""

_BY_RECIPE = ("learning_rate", "epochs", "batch_size", "warmup", "schedule")


@dataclass(frozen=True, kw_only=True)
class _Given:
    """Options of a command that trains; ``None`` leaves a setting to the recipe.

    >>> TrainingOptions(rows=[], model="base", output=Path("out"), lora=True, epochs=1).changes()
    {'epochs': 1, 'method': 'lora'}
    """

    rows: Annotated[list[Path], typer.Option("--rows", "-r", help="Files of rows; repeatable.")]
    model: Annotated[str, typer.Option("--model", "-m", help="Model to start from: hub name or path.")]
    output: Annotated[Path, typer.Option("--output", "-o", help="Output folder: model, tokenizer, training.json.")]
    eval_rows: Annotated[
        list[Path],
        typer.Option("--eval-rows", help="Files of rows to evaluate on, instead of --eval-share; repeatable."),
    ] = field(default_factory=list)
    method: Annotated[
        Literal["full", "lora", "qlora"] | None,
        typer.Option(help="All weights, low-rank adapters, or adapters over a base in 4 bits."),
    ] = None
    lora: Annotated[bool | None, typer.Option("--lora/--full", help="The same as --method lora and --method full.")] = (
        None
    )
    use_cpu: Annotated[bool, typer.Option("--cpu", help="Do not use an accelerator.")] = False
    report_to: Annotated[
        list[str] | None, typer.Option(help="Tracker, as TRL names it: tensorboard, wandb, …; repeatable.")
    ] = None

    def changes(self) -> dict[str, Any]:
        """Return the settings that were given, by name; InputError if --method contradicts --lora or --full."""
        files = ("rows", "model", "output", "eval_rows", "lora")
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in files}
        chosen = {n: v for n, v in given.items() if v is not None and v != []}  # 0 and False are choices
        if not self.use_cpu:
            del chosen["use_cpu"]
        if self.lora is not None:
            method = "lora" if self.lora else "full"
            if self.method not in (None, method):
                raise InputError(f"--method {self.method} and --{method} contradict each other.", hint="Give one.")
            chosen["method"] = method
        if self.report_to:
            chosen["report_to"] = tuple(self.report_to)
        return chosen


def _settings() -> list[tuple[str, Any, Any]]:
    """Make an option of each setting that ``_PANELS`` names; not given, it is ``None``."""
    found = []
    for panel, names in _PANELS.items():
        for name in names.split():
            info = TrainingSettings.model_fields[name]
            default = "" if info.default is None or name in _BY_RECIPE else f" ({info.default})"
            told = typer.Option(help=f"{(info.description or name).rstrip('.')}{default}.", rich_help_panel=panel)
            kind = info.annotation if info.default is None else Optional[info.annotation]  # noqa: UP045
            found.append((name, Annotated[kind, told], field(default=None)))
    return found


if TYPE_CHECKING:
    TrainingOptions = _Given
else:
    TrainingOptions = dataclasses.make_dataclass(
        "TrainingOptions", _settings(), bases=(_Given,), frozen=True, kw_only=True
    )


@contextmanager
def launched() -> Iterator[None]:
    """Let one process of a launch print, and say how to resume an interrupted training."""
    _say_little()
    try:
        yield
    except (InputError, SettingsError, MissingDependencyError) as error:
        if _is_follower():
            raise typer.Exit(exit_code(error)) from error  # the first process reports it
        raise
    except KeyboardInterrupt:
        if not _is_follower():
            note("The same command resumes from the last checkpoint.", style="yellow")
        raise


def _is_follower() -> bool:
    """Whether this is not the first process of a launch."""
    return int(os.environ.get("RANK", "0")) > 0


def _say_little() -> None:
    """Silence the libraries, and every process of a launch but the first."""
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    hide_bars()
    try:
        from datasets import disable_progress_bars
        from transformers.utils import logging

        disable_progress_bars()
        logging.set_verbosity_error()
    except ImportError:
        pass  # reported with a hint where they are needed
    if _is_follower():
        out.quiet = True


@contextmanager
def training_steps() -> Iterator[Progress | None]:
    """Show steps and loss: a bar on a terminal, a line every 50 steps elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if _is_follower():
        yield None
        return
    if not err.is_terminal:

        def line(done: int, total: int, loss: float | None) -> None:
            if loss is not None and (done % 50 == 0 or done in (1, total)):
                err.print(f"step {done} of {total}, loss {loss:.4f}")

        yield line
        return
    columns = (TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}", style="dim"), console=err, transient=True) as bar:
        task = bar.add_task("Training", total=None, loss="")

        def show(done: int, total: int, loss: float | None) -> None:
            bar.update(task, completed=done, total=total)
            if loss is not None:
                bar.update(task, loss=f"loss {loss:.4f}")

        yield show
