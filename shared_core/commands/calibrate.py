"""``selfreflect calibrate``: confidences and thresholds for the user's own documents, model and questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shared_core.commands.ask import BaseUrl, ChromaUrl, Docs, Index, Model, Pipeline, TopK
from shared_core.commands.common import build, out, question_progress, reports_errors
from shared_core.settings import SelfReflectSettings

_DEFAULTS = SelfReflectSettings()


@reports_errors
def calibrate_command(
    questions: Annotated[Path, typer.Argument(help="Questions with answers: jsonl, json or csv.")],
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    chroma_url: ChromaUrl = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pipeline: Pipeline = _DEFAULTS.pipeline,
    top_k: TopK = _DEFAULTS.top_k,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path("calibration.json"),
    method: Annotated[str, typer.Option(help="isotonic or platt; auto takes platt below 200 questions.")] = "auto",
    plots: Annotated[Path | None, typer.Option(help="Folder for the reliability and risk–coverage plots.")] = None,
) -> None:
    """Fit confidences to your own documents and questions; use the file with `ask --calibration FILE`.

    Every question is answered once; its confidence is fitted to whether the first quote holds a right answer
    (questions without answers count as not answerable). The file is bound to this configuration and refused by others.
    """
    from shared_core import calibration_io
    from shared_core.evaluation.calibration import calibrate_confidence
    from shared_core.evaluation.dataset import read_questions

    rows = read_questions(questions)
    settings = SelfReflectSettings(pipeline=pipeline, top_k=top_k)
    built = build(docs=docs, index=index, chroma_url=chroma_url, model=model, base_url=base_url, settings=settings)
    with question_progress(len(rows), "Answering") as progress:
        result = calibrate_confidence(built.engine, rows, method=method, progress=progress)
    calibration_io.save(output, {"confidence": result.calibration})
    out.print(result.summary(), markup=False, highlight=False)
    out.print(f"written: {output}", markup=False, highlight=False)
    if plots is not None:
        for path in result.plot(plots):
            out.print(f"plot: {path}", markup=False, highlight=False)
