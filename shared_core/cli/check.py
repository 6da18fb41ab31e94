"""``selfreflect check``: check an answer made elsewhere against documents."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.text import Text

from shared_core.cli.ask import show_quotes, show_trace, write_html
from shared_core.cli.common import (
    ABSTAINED,
    BuiltEngine,
    check_calibration,
    check_output,
    check_questions_and_docs,
    reports_errors,
)
from shared_core.cli.console import err, note, out, question_progress, write_json
from shared_core.cli.options import Calibration, DocumentOptions, Html, Json, Trace
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings
from shared_core.support.sanitize import to_printable_line
from shared_core.types import Answer, Claim, ClaimSealed, Event

_DEFAULTS = SelfReflectSettings()
_FROM_INPUT = "-"
_TEXTS = (".txt", ".md", ".markdown")
_LARGEST = 20_000_000  # bytes
_STYLES = {"supported": "green", "contradicted": "red", "unsupported": "yellow", "unknown": "dim"}


@reports_errors
def check_command(
    answer: Annotated[
        str, typer.Argument(metavar="ANSWER", help="The text to check, a file that holds it, or - for standard input.")
    ],
    documents: DocumentOptions,
    question: Annotated[str, typer.Option("--question", "-Q", help="The question that it answers.")] = "",
    target_accuracy: Annotated[
        float, typer.Option("--target-accuracy", "-t", help="A claim is supported if its support is above this.")
    ] = _DEFAULTS.target_accuracy,
    calibration: Calibration = None,
    necessary: Annotated[
        bool,
        typer.Option(
            "--necessary",
            help="Also say whether the model states each claim because of its quote: by its log-probability without "
            "the quote and with nothing else (needs --model, or a server that scores given texts).",
        ),
    ] = False,
    as_json: Json = False,
    html: Html = None,
    trace: Trace = False,
) -> None:
    """Check an answer made elsewhere against documents: which of its claims do they support?

    Each claim is supported, contradicted, unsupported (neither), or unknown (it could not be judged), with the sentence
    of the documents that says so, or the nearest one. No language model is needed.

    Exit codes: 0 every claim is supported (or it only declines), 3 one is not, 2 bad usage or input, 1 failure.
    """
    settings = SelfReflectSettings(target_accuracy=target_accuracy, top_k=documents.top_k, calibration=calibration)
    text = read_answer(answer)
    check_questions_and_docs([question], documents.docs)
    check_output(html, "--html")
    check_calibration(calibration)
    if necessary and not documents.has_model:
        raise InputError("--necessary needs a language model.", hint="Give --model or --base-url.")
    built = documents.build(settings)
    checked = _check(built, text, question, necessary)
    if as_json:
        write_json(checked.to_dict())
    else:
        show(checked, trace=trace)
    if html is not None:
        write_html([checked], html, built, title="An answer checked against documents")
    if not checked.metadata["passing"]:
        raise typer.Exit(ABSTAINED)


def read_answer(given: str) -> str:
    """Return the text to check: from standard input (``-``), from the file of that name, or ``given`` itself.

    InputError if it is empty, a folder, not UTF-8, too large, or names a text file that does not exist.
    """
    if given == _FROM_INPUT:
        return _decoded(sys.stdin.buffer.read(_LARGEST + 1), "Standard input")
    is_name = len(given) < 4096 and "\n" not in given and "\0" not in given
    if is_name and os.path.isdir(given):
        raise InputError(f"{given!r} is a folder.", hint="Name the file that holds the answer, or give its text.")
    if is_name and os.path.isfile(given):
        with open(given, "rb") as file:
            return _decoded(file.read(_LARGEST + 1), repr(given))
    if is_name and given.lower().endswith(_TEXTS) and not given.split()[1:]:
        raise InputError(f"There is no file {given!r}.", hint="Check the path, or give the answer's text.")
    return _decoded(given.encode("utf-8", "replace"), "The answer")


def _decoded(raw: bytes, what: str) -> str:
    if len(raw) > _LARGEST:
        raise InputError(f"{what} is larger than {_LARGEST // 1_000_000} MB.", hint="Check it in parts.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is not UTF-8.", hint="iconv -t UTF-8 FILE | selfreflect check -") from error
    if not text.strip():
        raise InputError(f"{what} is empty: there is nothing to check.", hint='selfreflect check "TEXT" --docs PATH')
    return text


def _check(built: BuiltEngine, text: str, question: str, necessary: bool) -> Answer:
    from shared_core.abstention.statements import cut_statements  # slow to import, and `--help` does without
    from shared_core.facades.checker import require_answer
    from shared_core.lm.chat.thoughts import without_thoughts

    require_answer(text)
    total = len(cut_statements(without_thoughts(text)).found)
    with question_progress(err, total, "Checking claims") as progress:
        done = 0

        def tell(_: int, event: Event) -> None:
            nonlocal done
            if isinstance(event, ClaimSealed):
                done += 1
                progress(min(done, total), total)  # lines of code with unknown addresses come on top

        (checked,) = built.engine.check_many([text], [question], on_event=tell, necessary=necessary)
    if not isinstance(checked, Answer):
        raise checked
    return checked


def show(answer: Answer, *, trace: bool = False) -> None:
    """Print a checked answer for people: each claim with its verdict, then the quotes and the totals."""
    for claim in answer.claims:
        out.print(_line(claim, answer))
    show_quotes(answer)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in answer.metadata["verdicts"].items() if n)
    confidence = "unknown" if answer.confidence is None else f"{answer.confidence:.2f}"
    supported = answer.metadata["passing"] and not answer.abstained  # a refusal passes, too
    state = "all supported" if supported else answer.reason or "not all supported"
    target = answer.metadata["target_accuracy"]
    out.print(Text(f"\n{state} · {counts or 'no claims'} · confidence {confidence} · target {target}", style="dim"))
    if answer.metadata["unchecked"]:
        n = len(answer.metadata["unchecked"])
        parts = f"{n} part{'s' if n > 1 else ''}"
        note(f"{parts} of the text not checked: code, headings, questions, lists of sources, refusals.")
    if trace:
        show_trace(answer)


def _line(claim: Claim, answer: Answer) -> Text:
    from shared_core.pipelines.evidence import quote_numbers
    from shared_core.pipelines.necessity import describe_necessity

    support = "    " if claim.support is None else f"{claim.support:.2f}"
    verdict = claim.verdict or "unknown"
    return Text.assemble(
        (f"{verdict:12} {support}  ", _STYLES[verdict]),
        to_printable_line(claim.text),
        ("".join(f" [{n}]" for n in quote_numbers(claim, answer)), "bold cyan"),
        (f" ({describe_necessity(claim.necessity)})" if claim.necessity is not None else "", "dim"),
    )
