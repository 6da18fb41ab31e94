"""``selfreflect ask``: one question over documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from shared_core.commands.common import ABSTAINED, build, err, out, reports_errors
from shared_core.errors import AbstainedError
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim

Docs = Annotated[list[Path], typer.Option("--docs", "-d", help="Files or folders to answer from; indexed as needed.")]
Index = Annotated[Path | None, typer.Option("--index", "-i", help="Folder of an index made by `selfreflect index`.")]
ChromaUrl = Annotated[str | None, typer.Option("--chroma-url", help="Chroma server that holds the vectors.")]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="transformers model: hub name or path; or the name on the server."),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible server (vLLM, llama.cpp, Ollama, …).")
]
Pipeline = Annotated[str, typer.Option("--pipeline", "-p", help="composed, self_rag, seakr, reclaim or research.")]
Target = Annotated[
    float, typer.Option("--target-accuracy", "-t", help="Answer only what is right at least this often.")
]
TopK = Annotated[int, typer.Option("--top-k", "-k", help="Passages to read.")]
OnAbstain = Annotated[str, typer.Option("--on-abstain", help="say, show, raise or fallback.")]
JudgePath = Annotated[
    str | None, typer.Option("--judge", help="NLI cross-encoder (path) that scores how far quotes support claims.")
]
Calibration = Annotated[Path | None, typer.Option("--calibration", help="File written by `selfreflect calibrate`.")]

_DEFAULTS = SelfReflectSettings()


@reports_errors
def ask_command(
    questions: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="The question, or several.")],
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    chroma_url: ChromaUrl = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pipeline: Pipeline = _DEFAULTS.pipeline,
    target_accuracy: Target = _DEFAULTS.target_accuracy,
    top_k: TopK = _DEFAULTS.top_k,
    on_abstain: OnAbstain = _DEFAULTS.on_abstain,
    calibration: Calibration = None,
    judge: JudgePath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print whole answers as JSON (a list if several).")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Also write an HTML report.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every decision.")] = False,
) -> None:
    """Ask over documents: a cited answer, or an honest "not in these documents".

    Exit codes: 0 answered (at least one, if several were asked), 3 abstained, 2 bad usage or input, 1 failure.
    """
    settings = SelfReflectSettings(
        target_accuracy=target_accuracy, pipeline=pipeline, top_k=top_k, on_abstain=on_abstain, calibration=calibration
    )
    built = build(
        docs=docs,
        index=index,
        chroma_url=chroma_url,
        model=model,
        base_url=base_url,
        settings=settings,
        judge=judge,
    )
    answers = [_unwrap(a) for a in built.engine.answer_many(questions)]
    if as_json:
        found = [a.to_dict() for a in answers]
        typer.echo(json.dumps(found if len(found) > 1 else found[0], ensure_ascii=False, indent=2, allow_nan=False))
    else:
        for answer in answers:
            show(answer, trace=trace, heading=len(answers) > 1)
    if html is not None:
        from shared_core.evaluation.report import write_report

        write_report(answers, html, document_text=built.index.document_text)
        err.print(f"report: {html}", markup=False, highlight=False)
    if all(a.abstained for a in answers):
        raise typer.Exit(ABSTAINED)


def _unwrap(result: Answer | Exception) -> Answer:
    if isinstance(result, AbstainedError):
        return result.answer
    if isinstance(result, Exception):
        raise result
    return result


def show(answer: Answer, *, trace: bool = False, heading: bool = False) -> None:
    """Print an answer for people: the text, its numbered quotes with source and offsets, the confidence."""
    if heading:
        out.rule(Text(answer.question, style="bold"), align="left")
    spans = answer.numbered_spans()
    if answer.abstained:
        out.print(Text(answer.text, style="yellow"))
        _show_dropped(answer)
    for claim in answer.kept_claims:
        out.print(_mark(claim, answer))
    if spans:
        out.print()
    for number, span in enumerate(spans, 1):
        passage = answer.passage(span.passage_id)
        base = passage.metadata.get("start")
        offset = base if isinstance(base, int) else 0
        place = (
            f"{passage.metadata.get('source') or passage.title or passage.id}:{offset + span.start}-{offset + span.end}"
        )
        out.print(Text.assemble((f"[{number}] ", "bold cyan"), f"“{span.text}”\n    ", (place, "dim")))
    confidence = "unknown" if answer.confidence is None else f"{answer.confidence:.2f}"
    target = answer.metadata.get("target_accuracy")
    state = f"abstained: {answer.reason}" if answer.abstained else "answered"
    out.print(
        Text(f"\n{state} · confidence {confidence} · target {target} · utility {answer.utility:.2f}", style="dim")
    )
    if trace:
        _show_trace(answer)


def _mark(claim: Claim, answer: Answer) -> Text:
    numbers = {(s.passage_id, s.start, s.end): i for i, s in enumerate(answer.numbered_spans(), 1)}
    text = Text(claim.text)
    if claim.short_answer:
        text.highlight_words([claim.short_answer], "bold green")
    marks = dict.fromkeys(numbers[(s.passage_id, s.start, s.end)] for c in claim.citations for s in c.primary)
    text.append("".join(f" [{n}]" for n in marks), "bold cyan")
    if claim.status == "flagged":
        text.append(" (unsupported)", "yellow")
    return text


def _show_dropped(answer: Answer) -> None:
    known = [c for c in answer.claims if c.support is not None][:1]
    for claim in known:
        out.print(Text(f"nearest, but not good enough ({claim.support:.2f}): “{claim.text}”", style="dim"))


def _show_trace(answer: Answer) -> None:
    table = Table("decision", "outcome", "why", "figures", title="trace")
    for d in answer.trace:
        figures = "  ".join(f"{k}={v}" for k, v in d.values.items() if v is not None)
        table.add_row(escape(d.kind), escape(d.outcome), escape(d.reason), escape(figures))
    out.print(table)
