"""``selfreflect ask``: questions over documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli.common import (
    ABSTAINED,
    BuiltEngine,
    build,
    check_output,
    check_questions_and_docs,
    exit_code,
    read_calibration,
    reports_errors,
)
from shared_core.cli.console import cell, note, out, show_error, write_json
from shared_core.cli.options import Guarantee, Set, Vectors, with_set
from shared_core.errors import AbstainedError, InputError, SelfReflectError
from shared_core.settings import PipelineName, SelfReflectSettings
from shared_core.support.sanitize import to_printable_line
from shared_core.types import Answer, Claim

Docs = Annotated[
    list[Path],
    typer.Option(
        "--docs", "-d", help="File or folder to answer from, repeatable; indexed as needed, in your cache folder."
    ),
]
Index = Annotated[Path | None, typer.Option("--index", "-i", help="Folder of an index made by `selfreflect index`.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="transformers model: hub name, path, GGUF file, smollm2; or the name on the server."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible server (vLLM, llama.cpp, Ollama, …).")
]
Pipeline = Annotated[str, typer.Option("--pipeline", "-p", help=f"One of {', '.join(get_args(PipelineName))}.")]
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


FROM_INPUT = "-"
BATCH = 16
"""Questions asked at once: what they have in common is computed once, and answers are shown while others wait."""


@reports_errors
def ask_command(
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION...", help="The question, or several; - reads them from standard input."),
    ] = None,
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    vectors: Vectors = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pipeline: Pipeline = _DEFAULTS.pipeline,
    target_accuracy: Target = _DEFAULTS.target_accuracy,
    top_k: TopK = _DEFAULTS.top_k,
    on_abstain: OnAbstain = _DEFAULTS.on_abstain,
    calibration: Calibration = None,
    guarantee: Guarantee = None,
    changes: Set = [],  # noqa: B006
    judge: JudgePath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print whole answers as JSON (a list if several).")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Also write an HTML report.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every decision.")] = False,
) -> None:
    """Ask over documents: a cited answer, or an honest "not in these documents".

    Questions may come from standard input, one a line: `selfreflect ask - < questions.txt`. Into a pipe nothing is
    wrapped: each quote is one line.

    Exit codes: 0 answered (at least one, if several were asked), 3 abstained, 2 bad usage or input, 1 failure.
    """
    settings = SelfReflectSettings(
        target_accuracy=target_accuracy,
        pipeline=pipeline,
        top_k=top_k,
        on_abstain=on_abstain,
        calibration=calibration,
        guarantee=guarantee,
    )
    settings = with_set(settings, changes)
    asked = read_questions(questions or [])
    check_questions_and_docs(asked, docs)
    check_output(html, "--html")
    read_calibration(calibration)
    built = build(
        docs=docs,
        index=index,
        vectors=vectors,
        model=model,
        base_url=base_url,
        settings=settings,
        judge=judge,
    )
    several = len(asked) > 1
    answers: list[Answer] = []
    failures: list[SelfReflectError] = []
    told: list[dict[str, Any]] = []
    for question, result in _ask(built, asked):
        if isinstance(result, Answer):
            answers.append(result)
            told.append(result.to_dict())
        else:
            failures.append(result)
            told.append({"question": question, "error": result.message, "hint": result.hint})
        if not as_json:
            _show_result(question, result, trace=trace, heading=several)
    if as_json and (answers or several):
        write_json(told if several else told[0])
    if as_json and not several and failures:
        show_error(failures[0])
    if html is not None and answers:
        write_html(answers, html, built)
    if failures:
        raise typer.Exit(exit_code(failures[0]))
    if all(a.abstained for a in answers):
        raise typer.Exit(ABSTAINED)


def read_questions(given: Sequence[str]) -> list[str]:
    """The questions on the command line; with ``-``, or if there are none and something is piped in, one of each line
    of standard input that is not empty.

    Raises:
        InputError: there are none, or standard input is not UTF-8.
    """
    if list(given) not in ([], [FROM_INPUT]):
        return list(given)
    if not given and sys.stdin.isatty():
        raise InputError("No question was asked.", hint='selfreflect ask "QUESTION" --docs PATH; - reads questions.')
    try:
        lines = sys.stdin.read().splitlines()
    except UnicodeDecodeError as error:
        raise InputError("Standard input is not UTF-8.", hint="iconv -t UTF-8 FILE | selfreflect ask -") from error
    found = [line.strip().lstrip("\ufeff") for line in lines if line.strip()]
    if not found:
        raise InputError("No question was asked: standard input is empty.", hint="One question a line.")
    return found


def _ask(built: BuiltEngine, questions: Sequence[str]) -> Iterator[tuple[str, Answer | SelfReflectError]]:
    """Answers in order; an error of ours about one question leaves the others alone."""
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        for question, result in zip(batch, built.engine.answer_many(batch), strict=True):
            if isinstance(result, AbstainedError):
                yield question, result.answer
            elif isinstance(result, (Answer, SelfReflectError)):
                yield question, result
            else:
                raise result


def _show_result(question: str, result: Answer | SelfReflectError, *, trace: bool, heading: bool) -> None:
    if isinstance(result, Answer):
        show(result, trace=trace, heading=heading)
        return
    if heading:
        _show_heading(question)
    show_error(result)


def write_html(
    answers: Sequence[Answer], path: Path, built: BuiltEngine, *, title: str = "Answers with their quotes"
) -> None:
    """Write the report of answers and say where it is; InputError if it cannot be written."""
    from shared_core.evaluation.report import write_report

    try:
        document_text = built.index.document_text if built.index is not None else None
        write_report(answers, path, title=title, document_text=document_text)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"The report cannot be written to {path}: {why}.", hint="Name another --html FILE.") from error
    note(f"report: {path}")


def show(answer: Answer, *, trace: bool = False, heading: bool = False) -> None:
    """Print an answer for people: the text, its numbered quotes each on a line with file, page, section and offsets
    below, the confidence."""
    if heading:
        _show_heading(answer.question)
    if answer.abstained:
        out.print(Text(answer.text, style="yellow"))
        _show_dropped(answer)
    if any(answer.text[c.start : c.end] != c.text for c in answer.kept_claims):
        out.print(Text(answer.text))  # as it was written: claims that stand alone are worded otherwise
    else:
        for claim in answer.kept_claims:
            out.print(_mark(claim, answer))
    show_quotes(answer)
    confidence = "unknown" if answer.confidence is None else f"{answer.confidence:.2f}"
    target = answer.metadata.get("target_accuracy")
    state = f"abstained: {answer.reason}" if answer.abstained else "answered"
    out.print(
        Text(f"\n{state} · confidence {confidence} · target {target} · utility {answer.utility:.2f}", style="dim")
    )
    if guarantee := answer.metadata.get("guarantee"):
        kept = f"keeps {guarantee['kept_share']:.0%} of claims"
        out.print(Text(f"guarantee ({kept}): {guarantee['text']}", style="dim"))
    if trace:
        show_trace(answer)


def show_quotes(answer: Answer) -> None:
    """Print the numbered quotes of an answer, each with file, page, section and offsets below."""
    from shared_core.citation import find_place

    spans = answer.numbered_spans()
    if spans:
        out.print()
    for number, span in enumerate(spans, 1):
        place = find_place(answer.passage(span.passage_id), span)
        where = f"{place.document}:{place.offsets}" if place.offsets else place.document
        below = " · ".join(to_printable_line(part) for part in (where, place.section) if part)
        quote = to_printable_line(span.text)
        out.print(Text.assemble((f"[{number}] ", "bold cyan"), f"“{quote}”\n    ", (below, "dim")))


def _show_heading(question: str) -> None:
    if out.is_terminal:
        out.rule(Text(to_printable_line(question), style="bold"), align="left")
    else:
        out.print(Text(f"\n## {to_printable_line(question)}"))


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
    said = " ".join(answer.text.split())  # an abstention may quote the nearest itself
    for claim in [c for c in answer.claims if c.support is not None][:1]:
        if " ".join(claim.text.split()) in said:
            continue
        out.print(
            Text(f"nearest, but not good enough ({claim.support:.2f}): “{to_printable_line(claim.text)}”", style="dim")
        )


def show_trace(answer: Answer) -> None:
    """Print every decision of an answer."""
    table = Table("decision", "outcome", "why", "figures", title="trace")
    for d in answer.trace:
        figures = "  ".join(f"{k}={v}" for k, v in d.values.items() if v is not None)
        table.add_row(*map(cell, (d.kind, d.outcome, d.reason, figures)))
    out.print(table)
