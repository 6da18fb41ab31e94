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
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shared_core.cli.common import exit_code
from shared_core.cli.console import err, note, out
from shared_core.errors import InputError, MissingDependencyError, SettingsError

if TYPE_CHECKING:
    from shared_core.training.trainer import Progress

__all__ = ["TrainingOptions", "launched", "training_steps"]


def _how(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="How to train")


def _memory(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Memory and speed")


def _kept(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Checkpoints, evaluation, trackers")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of a command that trains; ``None`` leaves a setting to the recipe.

    >>> TrainingOptions(rows=[], model="base", output=Path("out"), lora=True, epochs=1).changes()
    {'epochs': 1, 'method': 'lora'}
    """

    rows: Annotated[list[Path], typer.Option("--rows", "-r", help="Files of rows; repeatable.")]
    model: Annotated[str, typer.Option("--model", "-m", help="Model to start from: hub name or path.")]
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to make, with model, tokenizer, training.json.")
    ]
    eval_rows: Annotated[
        list[Path],
        typer.Option("--eval-rows", help="Files of rows to evaluate on, instead of --eval-share; repeatable."),
    ] = field(default_factory=list)
    method: Annotated[
        Literal["full", "lora", "qlora"] | None,
        _how("All weights, low-rank adapters, or adapters over a base in 4 bits."),
    ] = None
    lora: Annotated[bool | None, _how("The same as --method lora and --method full.", "--lora/--full")] = None
    learning_rate: Annotated[float | None, _how("Highest, after warm-up.")] = None
    epochs: Annotated[float | None, _how("Passes over the rows.")] = None
    max_steps: Annotated[int | None, _how("Steps instead of epochs.")] = None
    batch_size: Annotated[int | None, _how("Rows per step, over all processes and accumulation.")] = None
    warmup: Annotated[float | None, _how("Share of the steps.")] = None
    schedule: Annotated[
        Literal["linear", "cosine", "constant_with_warmup"] | None, _how("How the learning rate falls.")
    ] = None
    weight_decay: Annotated[float | None, _how("AdamW's.")] = None
    max_grad_norm: Annotated[float | None, _how("Gradients are scaled down to this norm.")] = None
    lora_rank: Annotated[int | None, _how("Rank of adapters (16).")] = None
    lora_alpha: Annotated[float | None, _how("Scale of adapters (32).")] = None
    lora_dropout: Annotated[float | None, _how("Of adapters (0.05).")] = None
    lora_layers: Annotated[int | None, _how("Adapters on the last so many layers only (all).")] = None
    seed: Annotated[int | None, _how("Of everything random (0).")] = None
    micro_batch_size: Annotated[
        int | None,
        _memory("Rows in memory at a time; the rest is accumulated (1 from a billion weights, up to 8 for less)."),
    ] = None
    max_length: Annotated[int | None, _memory("Tokens; longer rows are left out, never cut.")] = None
    batches: Annotated[
        Literal["random", "length", "packed", "trees"] | None,
        _memory("Rows of a batch: any, of about one length, packed, or merged where they begin alike (random)."),
    ] = None
    gradient_checkpointing: Annotated[
        bool | None, _memory("Less memory, a third more time; on for large models on an accelerator.")
    ] = None
    bf16: Annotated[bool | None, _memory("bfloat16 passes; on where the accelerator can.")] = None
    weights: Annotated[
        Literal["auto", "base", "float32"] | None,
        _memory("Type of weights in memory: auto keeps the base's under adapters."),
    ] = None
    optimizer: Annotated[
        Literal["adamw_torch", "adamw_torch_fused", "paged_adamw_8bit", "adafactor"] | None,
        _memory("adamw_torch unless given."),
    ] = None
    use_cpu: Annotated[bool, _memory("Do not use an accelerator.", "--cpu")] = False
    eval_share: Annotated[float | None, _kept("Share of sources held out; the best checkpoint is the result (0).")] = (
        None
    )
    save_every: Annotated[float | None, _kept("Steps between checkpoints, or a share below 1 (0.1); 0 for none.")] = (
        None
    )
    report_to: Annotated[list[str] | None, _kept("Tracker, as TRL names it: tensorboard, wandb, …; repeatable.")] = None
    run_name: Annotated[str | None, _kept("Name of this training in trackers.")] = None

    def changes(self) -> dict[str, Any]:
        """Return the settings that were given, by name.

        Raises:
            InputError: --method and --lora or --full contradict each other.
        """
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
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")
    try:
        from datasets import disable_progress_bars
        from transformers.utils import logging

        disable_progress_bars()
        logging.disable_progress_bar()
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
                err.print(f"step {done} of {total}, loss {loss:.4f}", highlight=False)

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
