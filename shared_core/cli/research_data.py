"""``selfreflect research-data``: searches over many questions, and training rows from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli.common import FAILED, answers_closed_book, build, read_calibration, reports_errors
from shared_core.cli.console import err, out
from shared_core.cli.options import (
    BaseUrl,
    Calibration,
    Docs,
    Index,
    JudgePath,
    Limit,
    Model,
    Set,
    Target,
    TopK,
    Vectors,
    with_set,
)
from shared_core.cli.progress import question_progress
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings
from shared_core.support.files import replace_file

if TYPE_CHECKING:
    from shared_core.training.research.on_ray import OnRay
    from shared_core.training.research.rows import Rows

_DEFAULTS = SelfReflectSettings()


@reports_errors
def research_data_command(
    questions: Annotated[Path, typer.Argument(help="Questions: jsonl, json, csv or tsv (.gz too).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of searches and rows; a run that was ended goes on in it.")
    ],
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    vectors: Vectors = None,
    model: Model = None,
    base_url: BaseUrl = None,
    target_accuracy: Target = _DEFAULTS.target_accuracy,
    top_k: TopK = _DEFAULTS.top_k,
    judge: JudgePath = None,
    abstention: Annotated[str, typer.Option(help="What abstaining is to say.")] = "I do not know.",
    pairs: Annotated[int, typer.Option(min=1, help="So many best before so many worst for DPO.")] = 2,
    limit: Limit = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions searched at once.")] = 8,
    ray: Annotated[
        bool, typer.Option("--ray", help="Search on Ray Data, several batches at the same time (needs the extra ray).")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="With --ray: engines at work at the same time.")] = 2,
    gpus: Annotated[float, typer.Option("--ray-gpus", min=0, help="With --ray: GPUs of each engine.")] = 0.0,
    ray_address: Annotated[
        str | None,
        typer.Option(help="With --ray: a running cluster (auto, or its address); without it this machine alone."),
    ] = None,
    calibration: Calibration = None,
    changes: Set = [],  # noqa: B006
) -> None:
    """Search for the answer worth most to every question, and make rows of it: sft.jsonl, dpo.jsonl, rloo.jsonl.

    Closed book without --docs or --index, else from passages. Searches are kept as they are done: ended at any moment,
    the same command goes on where it was, and asks again what failed, with or without --ray.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.training.research.rows import make_rows
    from shared_core.training.research.searches import run_searches

    carrier = _carrier(ray, workers, gpus, ray_address)
    read_calibration(calibration)
    rows = read_questions(questions)[:limit]
    reads = bool(docs) or index is not None
    settings = with_set(
        SelfReflectSettings(
            pipeline="research",
            target_accuracy=target_accuracy,
            top_k=top_k,
            research={"closed_book": not reads},
            calibration=calibration,
        ),
        changes,
    )
    if model is None and base_url is None:
        raise InputError("Searches are a language model's.", hint="Give --model or --base-url.")
    if not reads and not answers_closed_book(settings):
        raise InputError("There are no documents to search from.", hint="Give --docs PATH or --index DIR.")
    engine = build(
        docs=docs,
        index=index,
        vectors=vectors,
        model=model,
        base_url=base_url,
        settings=settings,
        judge=judge,
    ).engine
    with question_progress(err, len(rows), "Searching") as progress:
        searches, failed = run_searches(
            engine, rows, output, abstention=abstention, batch_size=batch_size, progress=progress, carrier=carrier
        )
    for error in sorted(set(failed.values())):
        ids = [i for i, e in failed.items() if e == error]
        err.print(f"failed ({len(ids)}: {', '.join(ids[:5])}): {error}", style="yellow", markup=False, highlight=False)
    if not searches:
        raise typer.Exit(FAILED)
    made = make_rows(searches, pairs=pairs)
    _write(made, output, {"failed": len(failed), "tokens": sum(s.tokens for s in searches)})


def _carrier(ray: bool, workers: int, gpus: float, address: str | None) -> OnRay | None:
    if not ray:
        if address is not None or gpus:
            raise InputError("--ray-address and --ray-gpus are for --ray.", hint="Add --ray, or leave them out.")
        return None
    from shared_core.training.research.on_ray import OnRay

    return OnRay(workers, gpus, address)


def _write(made: Rows, folder: Path, more: dict[str, int]) -> None:
    from shared_core.training.rows import write_json_lines, write_rows

    write_rows(made.sft, folder / "sft.jsonl")
    write_json_lines(made.dpo, folder / "dpo.jsonl")
    write_json_lines(made.rloo, folder / "rloo.jsonl")
    report = {**made.counts, **more, "utility_sd": made.utility_sd}
    with replace_file(folder / "report.json") as file:
        file.write(json.dumps(report, indent=2) + "\n")
    told = ", ".join(f"{count} {name}" for name, count in made.counts.items())
    out.print(told, markup=False, highlight=False)
    out.print(f"written: {folder}", markup=False, highlight=False)
