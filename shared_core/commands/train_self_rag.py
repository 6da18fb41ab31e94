"""``selfreflect train self-rag``: Self-RAG's critic and generator from rows."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import typer

from shared_core.commands.common import reports_errors
from shared_core.commands.console import out
from shared_core.commands.train import Output, Rows, tell_result, training_steps


@reports_errors
def self_rag_command(
    role: Annotated[Literal["critic", "generator"], typer.Argument(help="What to train.")],
    rows: Rows,
    model: Annotated[str, typer.Option("--model", "-m", help="Model to start from: hub name or path.")],
    output: Output,
    learning_rate: Annotated[float | None, typer.Option(help="Instead of the paper's (2e-5).")] = None,
    epochs: Annotated[float | None, typer.Option(help="Instead of the paper's (3).")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Steps instead of epochs.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step (128).")] = None,
    micro_batch_size: Annotated[int | None, typer.Option(help="Rows in memory at a time (1).")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens; longer rows are left out, never cut.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    cpu: Annotated[bool, typer.Option("--cpu", help="Do not use an accelerator.")] = False,
) -> None:
    """Train Self-RAG's critic or generator on rows in the published form (docs/self_rag.md).

    Reflection tokens that the model lacks are added to it.
    """
    from shared_core.training.self_rag.recipe import self_rag_recipe, train_self_rag
    from shared_core.training.self_rag.rows import balance, read_critic_rows, read_generator_rows

    changes = {
        "learning_rate": learning_rate,
        "epochs": epochs,
        "max_steps": max_steps,
        "batch_size": batch_size,
        "micro_batch_size": micro_batch_size,
        "max_length": max_length,
        "seed": seed,
        "use_cpu": True if cpu else None,
    }
    settings = self_rag_recipe(**{name: value for name, value in changes.items() if value is not None})
    sources = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in rows if path.is_file()}
    read = read_critic_rows if role == "critic" else read_generator_rows
    every = [row for path in rows for row in read(path)]
    for task, counts in balance(every).items():
        shares = ", ".join(f"{token} {count}" for token, count in counts.items())
        out.print(f"{task}: {shares}", markup=False, highlight=False)
    with training_steps() as progress:
        result = train_self_rag(every, model, output, settings, sources=sources, progress=progress)
    tell_result(result)
