"""``selfreflect train self-rag``: Self-RAG's critic and generator from rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer

from shared_core.cli.common import reports_errors
from shared_core.cli.console import out
from shared_core.cli.train import Base, EvalRows, Output, Rows, run_training
from shared_core.cli.train_rows import self_rag_rows_command
from shared_core.cli.training_options import takes_training_options

self_rag_app = typer.Typer(help="Self-RAG's rows, critic and generator.", no_args_is_help=True)
self_rag_app.command("rows")(self_rag_rows_command)


@self_rag_app.command("critic")
@reports_errors
@takes_training_options
def critic_command(
    rows: Rows,
    model: Base,
    output: Output,
    changes: dict[str, Any],
    eval_rows: EvalRows = [],  # noqa: B006 - typer's way of a repeatable option
) -> None:
    """Train Self-RAG's critic on rows in the published form (docs/self_rag.md).

    Reflection tokens that the model lacks are added to it. What is not given is as the paper has it. Ended at any
    moment, the same command goes on from its last checkpoint.
    """
    _train("critic", rows, model, output, changes, eval_rows)


@self_rag_app.command("generator")
@reports_errors
@takes_training_options
def generator_command(
    rows: Rows,
    model: Base,
    output: Output,
    changes: dict[str, Any],
    eval_rows: EvalRows = [],  # noqa: B006
) -> None:
    """Train Self-RAG's generator on rows in the published form (docs/self_rag.md).

    Reflection tokens that the model lacks are added to it. What is not given is as the paper has it. Ended at any
    moment, the same command goes on from its last checkpoint.
    """
    _train("generator", rows, model, output, changes, eval_rows)


def _train(
    role: Literal["critic", "generator"],
    rows: list[Path],
    model: str,
    output: Path,
    changes: dict[str, Any],
    eval_rows: list[Path],
) -> None:
    from shared_core.training.self_rag.recipe import self_rag_recipe, train_self_rag
    from shared_core.training.self_rag.rows import balance, read_critic_rows, read_generator_rows

    settings = self_rag_recipe(**changes)
    read = read_critic_rows if role == "critic" else read_generator_rows
    every = [row for path in rows for row in read(path)]
    apart = [row for path in eval_rows for row in read(path)]
    for task, counts in balance(every).items():
        shares = ", ".join(f"{token} {count}" for token, count in counts.items())
        out.print(f"{task}: {shares}", markup=False, highlight=False)
    run_training(partial(train_self_rag, every, model, output, settings, evaluate_on=apart), [*rows, *eval_rows])
