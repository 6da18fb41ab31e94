"""``selfreflect train self-rag``: Self-RAG's critic and generator from rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from shared_core.commands.common import reports_errors
from shared_core.commands.console import out
from shared_core.commands.train import Base, EvalRows, Output, Rows, file_digests, tell_result
from shared_core.commands.training_options import takes_training_options, training_steps


@reports_errors
@takes_training_options
def self_rag_command(
    role: Annotated[Literal["critic", "generator"], typer.Argument(help="What to train.")],
    rows: Rows,
    model: Base,
    output: Output,
    changes: dict[str, Any],
    eval_rows: EvalRows = [],  # noqa: B006 - typer's way of a repeatable option
) -> None:
    """Train Self-RAG's critic or generator on rows in the published form (docs/self_rag.md).

    Reflection tokens that the model lacks are added to it. What is not given is as the paper has it. Ended at any
    moment, the same command goes on from its last checkpoint.
    """
    from shared_core.training.self_rag.recipe import self_rag_recipe, train_self_rag
    from shared_core.training.self_rag.rows import balance, read_critic_rows, read_generator_rows

    settings = self_rag_recipe(**changes)
    read = read_critic_rows if role == "critic" else read_generator_rows
    every = [row for path in rows for row in read(path)]
    apart = [row for path in eval_rows for row in read(path)]
    for task, counts in balance(every).items():
        shares = ", ".join(f"{token} {count}" for token, count in counts.items())
        out.print(f"{task}: {shares}", markup=False, highlight=False)
    with training_steps() as progress:
        result = train_self_rag(
            every,
            model,
            output,
            settings,
            sources=file_digests([*rows, *eval_rows]),
            progress=progress,
            evaluate_on=apart,
        )
    tell_result(result)
