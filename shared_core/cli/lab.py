"""``selfreflect lab``: the closed world as a tutorial, and its documents as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from shared_core.cli.ask import show
from shared_core.cli.common import ABSTAINED, reports_errors
from shared_core.cli.console import out, show_heading, write_json
from shared_core.cli.options import Trace
from shared_core.errors import InputError

if TYPE_CHECKING:
    from shared_core.lab.setup import LabSetup, MeasuredAnswer
    from shared_core.types import Answer

_SHOWN = ("gate", "retrieve", "rerank", "segment", "path", "search", "confidence", "keep")
"""Kinds of decisions that are shown without ``--trace``."""

lab_app = typer.Typer(
    help="A small synthetic world, and a model trained on half of its facts.", invoke_without_command=True
)

Model = Annotated[
    Path | None, typer.Option("--model", "-m", help="Folder of a checkpoint, instead of the shipped one.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the choice of questions.")]


@reports_errors
def tour_command(
    context: typer.Context,
    model: Model = None,
    seed: Seed = 0,
    brief: Annotated[bool, typer.Option("--brief", help="Only one question through each pipeline.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
    trace: Trace = False,
) -> None:
    """Show what the lab's model knows, and run one question through every pipeline.

    The model (a few million parameters, part of the package) was trained from scratch on the facts of a synthetic
    world: on all facts about popular entities, half of those about middling ones, none about obscure ones. So it is
    known exactly which facts it knows.

    Exit codes: 0 answered, 3 every pipeline abstained, 2 bad usage or input, 1 failure.
    """
    if context.invoked_subcommand is not None:
        return
    from shared_core.lab import World
    from shared_core.lab.setup import PIPELINES, LabSetup, lab_calibrations, lab_settings, load_lab_model

    lab = LabSetup(World(0), load_lab_model(model), seed)
    (question,) = lab.questions(("single",), 1, "test", known=False, name="tour")
    if not as_json:
        _introduce(lab)
        if not brief:
            _recall(lab)
        show_heading(f"A question about a fact it was not trained on: {question.text}")
        out.print(Text(f"truth: {' or '.join(question.answers)}", style="dim"))
    answers: dict[str, Answer] = {}
    for pipeline in PIPELINES:
        engine = lab.engine(lab_settings(pipeline), lab_calibrations(pipeline, model))
        answer = answers[pipeline] = engine.answer(question.text)
        if not as_json:
            out.print(Text(f"\n{pipeline}", style="bold cyan"))
            if not brief:
                _tell_decisions(answer)
            show(answer, trace=trace)
    if not brief:
        (nobody,) = lab.questions(("invented",), 1, "test", name="tour")
        engine = lab.engine(lab_settings("composed"), lab_calibrations("composed", model))
        found = answers["invented"] = engine.answer(nobody.text)
        if not as_json:
            show_heading(f"A question about an invented name: {nobody.text}")
            show(found, trace=trace)
    if as_json:
        write_json({name: answer.to_dict() for name, answer in answers.items()})
    if all(a.abstained for a in answers.values()):
        raise typer.Exit(ABSTAINED)


def _introduce(lab: LabSetup) -> None:
    world = lab.world
    real = sum(e.tier != "invented" for e in world.entities)
    show_heading("A synthetic world")
    out.print(
        f"{real} people, places and things, {len(world.facts)} facts about them, {len(world.documents())} passages. "
        f"The model was trained on {sum(f.known for f in world.facts)} of the facts."
    )


def _recall(lab: LabSetup) -> None:
    from shared_core.lab.setup import measure_answers

    show_heading("Answers from memory, and their uncertainty (Gram: lower is surer)")
    for title, known in (("trained on", True), ("never seen", False)):
        for row in measure_answers(lab, lab.questions(("single",), 3, "test", known=known, name="tour")):
            _recalled(title, row)


def _recalled(title: str, row: MeasuredAnswer) -> None:
    right = "right" if row.right else f"wrong: {row.question.answers[0]}"
    answer = row.text or "unknown"
    out.print(
        Text.assemble(
            (f"{title}  ", "dim"), f"{row.question.text} → ", (answer, "bold"),
            (f"  {right}", "green" if row.right else "red"),
            (f"  {row.values['gram']:.2f}", "dim"),
        )
    )  # fmt: skip


def _tell_decisions(answer: Answer) -> None:
    """Print the main decisions behind an answer, one a line."""
    for decision in answer.trace:
        if decision.kind in _SHOWN:
            why = f" ({decision.reason})" if decision.reason else ""
            out.print(Text(f"{decision.kind}: {decision.outcome}{why}", style="dim"))


@reports_errors
def write_command(
    folder: Annotated[Path, typer.Argument(help="A folder that is empty or does not exist.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the world.")] = 0,
    size: Annotated[float, typer.Option("--size", help="1 gives about a thousand entities.")] = 1.0,
) -> None:
    """Write a world as files: documents in `docs`, the questions of each split in `questions_SPLIT.jsonl`.

    Use them with `selfreflect index`, `ask`, `eval` and `calibrate`, and any model.
    """
    from shared_core.lab import World
    from shared_core.lab.facts import SPLITS

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder.", hint="Name another folder.")
    world = World(seed, size=size)
    (folder / "docs").mkdir(parents=True)
    for document in world.files():
        text = f"# {document.title}\n\n" + "\n\n".join(p.text for p in document.passages) + "\n"
        (folder / "docs" / f"{document.id}.md").write_text(text, encoding="utf-8")
    for split in SPLITS:
        lines = [json.dumps(q.to_dict(), ensure_ascii=False) for q in world.questions(split=split)]
        (folder / f"questions_{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out.print(f"written: {folder}")


@reports_errors
def train_command() -> None:
    """Name the script that trains the lab's model: it is part of the project's source, not of the package."""
    raise InputError(
        "The lab's model is trained by a script in the project's source.",
        hint="In a checkout of the project: python -m benchmarks.lab.train --out DIR --minutes 90",
    )


lab_app.callback()(tour_command)
lab_app.command("write")(write_command)
lab_app.command("train", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(
    train_command
)
