"""``selfreflect ask``: questions over documents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli.common import (
    ABSTAINED,
    BuiltEngine,
    check_calibration,
    check_output,
    check_questions_and_docs,
    exit_code,
    reports_errors,
)
from shared_core.cli.console import JsonList, note, out, show_error, show_heading, write_json
from shared_core.cli.options import AnswerOptions, Html, Json, Trace
from shared_core.errors import AbstainedError, InputError, SelfReflectError
from shared_core.settings import SelfReflectSettings
from shared_core.support.sanitize import to_printable_line
from shared_core.types import Answer, Claim, Event, Finished

_DEFAULTS = SelfReflectSettings()
FROM_INPUT = "-"
BATCH = 16
"""Questions asked at once: computation that they share is done once."""
Result = Answer | SelfReflectError


@reports_errors
def ask_command(
    engine: AnswerOptions,
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION...", help="The question, or several; - reads them from standard input."),
    ] = None,
    on_abstain: Annotated[
        str, typer.Option(help="If it abstains: say, show, raise or fallback.")
    ] = _DEFAULTS.on_abstain,
    as_json: Json = False,
    html: Html = None,
    trace: Trace = False,
    trace_prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every prompt and reply of the model to a text file.")
    ] = None,
) -> None:
    """Ask over documents: a cited answer, or an honest "not in these documents".

    Questions may come from standard input, one a line: `selfreflect ask - < questions.txt`. Into a pipe nothing is
    wrapped: each quote is one line.

    Exit codes: 0 answered (at least one, if several were asked), 3 abstained, 2 bad usage or input, 1 failure.
    """
    settings = engine.settings(on_abstain=on_abstain)
    asked = read_questions(questions or [])
    check_questions_and_docs(asked, engine.docs)
    engine.require_judge_in_use()
    check_output(html, "--html")
    check_output(trace_prompts, "--trace-prompts")
    check_calibration(engine.calibration)
    built = engine.build(settings, trace_prompts=trace_prompts)
    several = len(asked) > 1
    results: list[Result] = []
    with JsonList(enabled=as_json and several) as listed:

        def show_next(question: str, result: Result) -> None:
            results.append(result)
            if not as_json:
                _show_result(question, result, trace=trace, heading=several)
            elif several:
                listed.write(_plain(question, result))
            elif isinstance(result, Answer):
                write_json(result.to_dict())
            else:
                show_error(result)

        _ask(built, asked, show_next)
    answers = [r for r in results if isinstance(r, Answer)]
    failures = [r for r in results if not isinstance(r, Answer)]
    if html is not None and answers:
        write_html(answers, html, built)
    if failures:
        raise typer.Exit(exit_code(failures[0]))
    if all(a.abstained for a in answers):
        raise typer.Exit(ABSTAINED)


def _plain(question: str, result: Result) -> dict[str, object]:
    if isinstance(result, Answer):
        return result.to_dict()
    return {"question": question, "error": result.message, "hint": result.hint}


def read_questions(given: Sequence[str]) -> list[str]:
    """Return the questions on the command line; with ``-``, or with none and a pipe, those on standard input.

    Standard input holds one question a line; empty lines are skipped.

    Raises:
        InputError: there are none, or standard input is not UTF-8.
    """
    if list(given) not in ([], [FROM_INPUT]):
        return list(given)
    if not given and sys.stdin.isatty():
        raise InputError("No question was asked.", hint='selfreflect ask "QUESTION" --docs PATH; - reads questions.')
    try:
        # Decoded here: the stream itself lets any bytes through in the locale C.UTF-8.
        lines = sys.stdin.buffer.read().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError("Standard input is not UTF-8.", hint="iconv -t UTF-8 FILE | selfreflect ask -") from error
    found = [line.strip().lstrip("\ufeff") for line in lines if line.strip()]
    if not found:
        raise InputError("No question was asked: standard input is empty.", hint="One question a line.")
    return found


def _ask(built: BuiltEngine, questions: Sequence[str], show_next: Callable[[str, Result], None]) -> None:
    """Ask in batches; each result is passed on, in order, once it and all before it are there."""
    size = BATCH if built.tracer is None else 1  # a trace holds one question after another
    for start in range(0, len(questions), size):
        if built.tracer is not None:
            built.tracer.heading(questions[start])
        _ask_batch(built, questions[start : start + size], show_next)


def _ask_batch(built: BuiltEngine, batch: Sequence[str], show_next: Callable[[str, Result], None]) -> None:
    done: dict[int, Answer | Exception] = {}
    shown = 0
    not_shown: list[Exception] = []

    def show_done() -> None:
        nonlocal shown
        while shown in done:
            question, result = batch[shown], done[shown]
            shown += 1
            if isinstance(result, AbstainedError):
                result = result.answer
            if not isinstance(result, (Answer, SelfReflectError)):
                raise result
            show_next(question, result)

    def take(number: int, event: Event) -> None:
        if not isinstance(event, Finished) or not_shown:
            return
        done[number] = event.answer
        try:
            show_done()
        except Exception as error:  # raised here, it would count as the question's own and be lost
            not_shown.append(error)

    done |= dict(enumerate(built.engine.answer_many(batch, take)))
    if not_shown:
        raise not_shown[0]
    show_done()


def _show_result(question: str, result: Result, *, trace: bool, heading: bool) -> None:
    if isinstance(result, Answer):
        show(result, trace=trace, heading=heading)
        return
    if heading:
        show_heading(to_printable_line(question))
    show_error(result)


def write_html(
    answers: Sequence[Answer], path: Path, built: BuiltEngine, *, title: str = "Answers with their quotes"
) -> None:
    """Write the HTML report of answers and print its path; InputError if it cannot be written."""
    from shared_core.evaluation.report import write_report

    try:
        document_text = built.index.document_text if built.index is not None else None
        write_report(answers, path, title=title, document_text=document_text)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"The report cannot be written to {path}: {why}.", hint="Name another --html FILE.") from error
    note(f"report: {path}")


def show(answer: Answer, *, trace: bool = False, heading: bool = False) -> None:
    """Print an answer for people: text, numbered quotes with file, page, section and offsets, confidence."""
    from shared_core.pipelines.decision.wording import UNCITED  # slow to import, and `--help` does without

    if heading:
        show_heading(to_printable_line(answer.question))
    if answer.abstained:
        out.print(Text(answer.text, style="yellow"))
        _show_dropped(answer)
    if any(answer.text[c.start : c.end] != c.text for c in answer.kept_claims):
        out.print(Text(answer.text))  # as written: claims are reworded to stand alone
    else:
        for claim in answer.kept_claims:
            out.print(_mark(claim, answer))
        if answer.kept_claims and answer.text.endswith(UNCITED):
            out.print(Text(UNCITED, style="yellow"))
    show_quotes(answer)
    confidence = "unknown" if answer.confidence is None else f"{answer.confidence:.2f}"
    target = answer.metadata.get("target_accuracy")
    state = f"abstained: {answer.reason}" if answer.abstained else "answered"
    out.print(
        Text(f"\n{state} · confidence {confidence} · target {target} · utility {answer.utility:.2f}", style="dim")
    )
    if (steps := answer.metadata.get("steps")) and not answer.abstained:
        told = " · ".join(f"{step['question']} {step['answer']}" for step in steps)
        if chosen := answer.metadata.get("chosen"):
            told += f" → {chosen}"
        out.print(Text(f"in steps: {to_printable_line(told)}", style="dim"))
    if guarantee := answer.metadata.get("guarantee"):
        kept = f"keeps {guarantee['kept_share']:.0%} of claims"
        out.print(Text(f"guarantee ({kept}): {guarantee['text']}", style="dim"))
    if trace:
        show_trace(answer)


def show_quotes(answer: Answer) -> None:
    """Print the numbered quotes of an answer, each followed by file, page, section and offsets."""
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


def _mark(claim: Claim, answer: Answer) -> Text:
    from shared_core.pipelines.decision.wording import flag_mark
    from shared_core.pipelines.evidence import quote_numbers

    text = Text(claim.text)
    if claim.short_answer:
        text.highlight_words([claim.short_answer], "bold green")
    text.append("".join(f" [{n}]" for n in quote_numbers(claim, answer)), "bold cyan")
    text.append(flag_mark(claim), "yellow")
    return text


def _show_dropped(answer: Answer) -> None:
    said = " ".join(answer.text.split())  # the text of an abstention may quote the nearest claim
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
        table.add_row(d.kind, d.outcome, d.reason, figures)
    out.print(table)
