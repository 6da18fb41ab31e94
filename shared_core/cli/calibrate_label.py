"""Label claims in the terminal: question, claim, quote; y, n or s."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shared_core.cli.common import check_output, check_questions_and_docs
from shared_core.cli.console import note, out
from shared_core.errors import InputError

if TYPE_CHECKING:
    from shared_core.cli.calibrate_options import CalibrateOptions
    from shared_core.evaluation.dataset import Question
    from shared_core.types import Claim

Labelled = Annotated[Path, typer.Option(help="File to write: the questions with their claims and labels (jsonl).")]
_REPLIES = {"y": True, "yes": True, "n": False, "no": False}
_ASKED = "Is this a right answer? y(es), n(o), s(kip), q(uit)"


def label_claims(run: CalibrateOptions, questions: Path, labelled: Path) -> None:
    """Show the claims of each question and write down the user's labels, after every question.

    Raises:
        InputError: the file of labels holds other questions, or is the file of questions itself.
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.fitting import ClaimLabels, FitOptions
    from shared_core.evaluation.fitting.asking import FitJob
    from shared_core.evaluation.fitting.labels import FIELD, row_of
    from shared_core.evaluation.fitting.observe import claims_to_label
    from shared_core.support.run_log import RunLog
    from shared_core.training.rows import write_json_lines

    check_output(labelled, "--labelled")
    check_questions_and_docs((), run.docs)
    rows = read_questions(questions)[: run.limit]
    before = _read_labels(labelled, rows)
    rows = [dataclasses.replace(q, metadata={**q.metadata, FIELD: before[q.id]}) if q.id in before else q for q in rows]
    log = RunLog(run.log_path)
    labels = ClaimLabels(rows)
    done = {q.id: json.loads(json.dumps(q.metadata.get(FIELD, []))) for q in rows}
    job = FitJob(run.build(run.settings()).engine, rows, FitOptions(), log)
    for number, (question, claims) in enumerate(claims_to_label(job), 1):
        unknown = [claim for claim in claims if labels(question, claim) is None]
        given, goes_on = _ask(question, unknown, f"question {number} of {len(rows)}")
        done[question.id] += [{"claim": text, "label": label, "by": "you"} for text, label in given]
        if given:
            write_json_lines([row_of(q, done[q.id]) for q in rows], labelled)
        if not goes_on:
            break
    by_user = [one["label"] for claims in done.values() for one in claims]
    note(f"{len(by_user)} claims are labelled, {sum(map(bool, by_user))} of them right.")
    if labelled.exists():
        out.print(f"labels: {labelled} (calibrate with it in place of {questions})")


def _ask(question: Question, claims: Sequence[Claim], title: str) -> tuple[list[tuple[str, bool]], bool]:
    """Return the labels given, and whether the user goes on."""
    given: list[tuple[str, bool]] = []
    for claim in claims:
        out.print(f"\n{title}: {question.question}", style="bold")
        out.print(f"claim: {claim.text}")
        for citation in claim.citations:
            where = ", ".join(dict.fromkeys(span.passage_id for span in citation.spans))
            out.print(f"  quote ({where}): {citation.quote}")
        reply = _read_reply()
        if reply in ("q", "quit"):
            return given, False
        if reply in _REPLIES:
            given.append((claim.text, _REPLIES[reply]))
    return given, True


def _read_reply() -> str:
    """Return y, n, s or q, or their long forms; q at the end of the input."""
    while True:
        try:
            reply = str(typer.prompt(_ASKED, prompt_suffix=": ", default="s", show_default=False)).strip().lower()
        except typer.Abort:
            return "q"
        if reply in (*_REPLIES, "s", "skip", "q", "quit"):
            return reply


def _read_labels(path: Path, rows: Sequence[Question]) -> dict[str, list[dict[str, Any]]]:
    """Return the claims labelled before, by question id; InputError if the file holds other questions."""
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.fitting.labels import FIELD

    if not path.exists():
        return {}
    asked = {q.id: q.question for q in rows}
    found = {q.id: q for q in read_questions(path)}
    for id_, question in found.items():
        if asked.get(id_, question.question) != question.question:
            raise InputError(f"{path} holds another question {id_!r}.", hint="Name another file: --labelled FILE")
    return {id_: list(q.metadata.get(FIELD, [])) for id_, q in found.items()}
