"""Options of every command that trains: how, with what memory, what is kept, who is told.

``takes_training_options`` gives them to a command, which gets the chosen ones as ``changes`` to its recipe. Under
``accelerate launch`` and ``torchrun`` the first process alone prints.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from shared_core.cli.common import exit_code
from shared_core.cli.console import err, note, out
from shared_core.errors import InputError, MissingDependencyError, SettingsError

if TYPE_CHECKING:
    from shared_core.training.trainer import Progress

__all__ = ["takes_training_options", "training_steps"]

R = TypeVar("R")
_HOW, _MEMORY, _KEPT = "How to train", "Memory and speed", "Checkpoints, evaluation, trackers"


def _option(*names: str, panel: str, text: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


_OPTIONS: Mapping[str, Any] = {
    "method": Annotated[
        Literal["full", "lora", "qlora"] | None,
        _option("--method", panel=_HOW, text="All weights, low-rank adapters, or adapters over a base in 4 bits."),
    ],
    "lora": Annotated[
        bool | None, _option("--lora/--full", panel=_HOW, text="The same as --method lora and --method full.")
    ],
    "learning_rate": Annotated[float | None, _option("--learning-rate", panel=_HOW, text="Highest, after warm-up.")],
    "epochs": Annotated[float | None, _option("--epochs", panel=_HOW, text="Times over the rows.")],
    "max_steps": Annotated[int | None, _option("--max-steps", panel=_HOW, text="Steps instead of epochs.")],
    "batch_size": Annotated[
        int | None, _option("--batch-size", panel=_HOW, text="Rows per step, over all processes and accumulation.")
    ],
    "warmup": Annotated[float | None, _option("--warmup", panel=_HOW, text="Share of the steps.")],
    "schedule": Annotated[
        Literal["linear", "cosine", "constant_with_warmup"] | None,
        _option("--schedule", panel=_HOW, text="How the learning rate falls."),
    ],
    "weight_decay": Annotated[float | None, _option("--weight-decay", panel=_HOW, text="AdamW's.")],
    "max_grad_norm": Annotated[float | None, _option("--max-grad-norm", panel=_HOW, text="Gradients are cut to this.")],
    "lora_rank": Annotated[int | None, _option("--lora-rank", panel=_HOW, text="Rank of adapters (16).")],
    "lora_alpha": Annotated[float | None, _option("--lora-alpha", panel=_HOW, text="Scale of adapters (32).")],
    "lora_dropout": Annotated[float | None, _option("--lora-dropout", panel=_HOW, text="Of adapters (0.05).")],
    "seed": Annotated[int | None, _option("--seed", panel=_HOW, text="Of everything random (0).")],
    "micro_batch_size": Annotated[
        int | None,
        _option(
            "--micro-batch-size",
            panel=_MEMORY,
            text="Rows in memory at a time; the rest is accumulated (1 from a billion weights, up to 8 for less).",
        ),
    ],
    "max_length": Annotated[
        int | None, _option("--max-length", panel=_MEMORY, text="Tokens; longer rows are left out, never cut.")
    ],
    "batches": Annotated[
        Literal["random", "length", "packed"] | None,
        _option("--batches", panel=_MEMORY, text="Rows of a batch: any, of about one length, or packed (random)."),
    ],
    "gradient_checkpointing": Annotated[
        bool | None,
        _option(
            "--gradient-checkpointing/--no-gradient-checkpointing",
            panel=_MEMORY,
            text="Less memory, a third more time; on for large models on an accelerator.",
        ),
    ],
    "bf16": Annotated[
        bool | None, _option("--bf16/--no-bf16", panel=_MEMORY, text="bfloat16 passes; on where the accelerator can.")
    ],
    "weights": Annotated[
        Literal["auto", "base", "float32"] | None,
        _option("--weights", panel=_MEMORY, text="Type of weights in memory: auto keeps the base's under adapters."),
    ],
    "optimizer": Annotated[
        Literal["adamw_torch", "adamw_torch_fused", "paged_adamw_8bit", "adafactor"] | None,
        _option("--optimizer", panel=_MEMORY, text="adamw_torch unless given."),
    ],
    "use_cpu": Annotated[bool, _option("--cpu", panel=_MEMORY, text="Do not use an accelerator.")],
    "eval_share": Annotated[
        float | None,
        _option(
            "--eval-share", panel=_KEPT, text="Share of sources kept apart; the best checkpoint is the result (0)."
        ),
    ],
    "save_every": Annotated[
        float | None,
        _option("--save-every", panel=_KEPT, text="Steps between checkpoints, or a share below 1 (0.1); 0 for none."),
    ],
    "report_to": Annotated[
        list[str] | None,
        _option("--report-to", panel=_KEPT, text="Tracker, as TRL names it: tensorboard, wandb, …; repeatable."),
    ],
    "run_name": Annotated[str | None, _option("--run-name", panel=_KEPT, text="What trackers call this training.")],
}


def takes_training_options(command: Callable[..., R]) -> Callable[..., R]:
    """Replace a command's parameter ``changes`` by the options above; it gets those that were given, by name."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> R:
        options = {name: given.pop(name) for name in _OPTIONS}
        _say_little()
        try:
            return command(**given, changes=_changes(options))
        except (InputError, SettingsError, MissingDependencyError) as error:
            if _others():
                raise typer.Exit(exit_code(error)) from error  # the first process says it, too
            raise
        except KeyboardInterrupt:
            if not _others():
                note("The same command goes on from the last checkpoint.", style="yellow")
            raise

    hints = {**get_type_hints(command, include_extras=True), **_OPTIONS}
    hints.pop("changes")
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [p.replace(kind=kind) for p in inspect.signature(command).parameters.values() if p.name != "changes"]
    added = [
        inspect.Parameter(name, kind, default=False if name == "use_cpu" else None, annotation=hint)
        for name, hint in _OPTIONS.items()
    ]
    wrapped.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # any function takes one
    wrapped.__annotations__ = hints
    return wrapped


def _changes(options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {n: v for n, v in options.items() if v is not None and v is not False and v != []}  # 0 is a choice
    chosen |= {n: False for n in ("gradient_checkpointing", "bf16") if options[n] is False}
    lora = options["lora"]
    chosen.pop("lora", None)
    if lora is not None:
        method = "lora" if lora else "full"
        if options["method"] not in (None, method):
            raise InputError(f"--method {options['method']} and --{method} say different things.")
        chosen["method"] = method
    if "report_to" in chosen:
        chosen["report_to"] = tuple(chosen["report_to"])
    return chosen


def _others() -> bool:
    """Whether this is another process of a launch than the first."""
    return int(os.environ.get("RANK", "0")) > 0


def _say_little() -> None:
    """One process prints, and what the libraries would print over it is left out."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")
    try:
        from datasets import disable_progress_bars
        from transformers.utils import logging

        disable_progress_bars()
        logging.disable_progress_bar()
        logging.set_verbosity_error()
    except ImportError:
        pass  # said with a hint where they are needed
    if _others():
        out.quiet = True


@contextmanager
def training_steps() -> Iterator[Progress | None]:
    """A bar over steps with the loss on a terminal; a line every 50 steps elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if _others():
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
