"""Parts of ``selfreflect calibrate``: its options, the estimate of what they will cost, and its dialogue for labels."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shared_core.cli.common import check_output, check_questions_and_docs
from shared_core.cli.console import note, out
from shared_core.cli.options import EngineOptions, Limit
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.fitting import Budget, FitOptions
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.types import Claim

_DEFAULTS = SelfReflectSettings()


Questions = Annotated[Path, typer.Argument(help="Questions, with answers where known: jsonl, json, csv or tsv.")]
LabelSource = Annotated[
    str,
    typer.Option(
        "--labels",
        help="gold (known answers), self (agreement of the model's answer from memory with its answer from passages), "
        "or auto: gold where answers are known, self elsewhere.",
    ),
]
Rule = Annotated[str, typer.Option(help="How the threshold is chosen: balanced_accuracy or target_accuracy.")]
RuleTarget = Annotated[
    float | None, typer.Option("--target", help="For --rule target_accuracy: share right below the threshold.")
]
ClaimsFile = Annotated[
    Path | None,
    typer.Option(
        "--write-claims",
        help="Also write the questions with all claims made and their labels; corrected, the file can be given as "
        "QUESTIONS.",
    ),
]
PromisedAccuracy = Annotated[
    float, typer.Option("--target-accuracy", "-t", help="Guaranteed share of right claims among those shown.")
]
Alpha = Annotated[float, typer.Option(help="Probability that the guarantee may fail.")]


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(EngineOptions):
    """Options of every purpose: the engine, the method, what asking may cost, and where the result goes.

    >>> CalibrateOptions(model="smollm2").output
    PosixPath('calibration.json')
    >>> limits = CalibrateOptions(budget=["500calls"]).limits()
    >>> limits is not None and limits.calls
    500.0
    """

    budget: Annotated[
        list[str],
        typer.Option(
            metavar="AMOUNT",
            help="Stop asking before this is spent, repeatable: 500calls, 200ktokens, 10min, or with --price 2USD.",
        ),
    ] = field(default_factory=list)
    price: Annotated[
        str | None, typer.Option(metavar="PROMPT,GENERATED", help="Prices of a million tokens: 0.15,0.60.")
    ] = None
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.5,
            help="Stop asking once the share right of the answers to be shown is known this well (half of its 95 % "
            "interval): 0.05.",
        ),
    ] = None
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("calibration.json")
    update: Annotated[bool, typer.Option("--update", help="Keep the file's other calibrations.")] = False
    method: Annotated[str, typer.Option(help="isotonic or platt; auto takes platt below 200 questions.")] = "auto"
    plots: Annotated[Path | None, typer.Option(help="Folder for the reliability and risk–coverage plots.")] = None
    limit: Limit = None

    @property
    def log_path(self) -> Path:
        """File of what was asked, beside the output."""
        return self.output.with_name(f"{self.output.name}.rows")

    def limits(self) -> Budget | None:
        """Return the limits of what asking may cost; ``None`` without any. InputError if they cannot be read."""
        from shared_core.evaluation.fitting import Budget, Prices

        prices = Prices.parse(self.price) if self.price is not None else None
        if not (self.budget or self.interval or prices):
            return None
        return Budget.parse(self.budget, prices, self.interval)


@dataclass(frozen=True, kw_only=True)
class FlagOptions:
    """Flags of ``calibrate`` before it had subcommands; each still works, with a warning that names the new form."""

    purpose: Annotated[list[str], typer.Option(hidden=True)] = field(default_factory=list)
    labels: Annotated[str, typer.Option(hidden=True)] = "auto"
    rule: Annotated[str, typer.Option(hidden=True)] = "balanced_accuracy"
    target: Annotated[float | None, typer.Option(hidden=True)] = None
    support_rows: Annotated[Path | None, typer.Option(hidden=True)] = None
    guarantee: Annotated[str | None, typer.Option(hidden=True)] = None
    target_accuracy: Annotated[float, typer.Option("--target-accuracy", "-t", hidden=True)] = _DEFAULTS.target_accuracy
    alpha: Annotated[float, typer.Option(hidden=True)] = _DEFAULTS.guarantee_alpha
    claims_file: Annotated[Path | None, typer.Option("--write-claims", hidden=True)] = None

    @property
    def given(self) -> bool:
        """Whether any of them was used."""
        return self != FlagOptions()


def tell_estimate(
    engine: SelfReflectEngine, rows: list[Question], purposes: Sequence[str], options: FitOptions, *, known: int
) -> None:
    """Say what the questions will cost at least, before the model is asked anything."""
    from shared_core.evaluation.fitting import estimate
    from shared_core.evaluation.fitting.budget import describe
    from shared_core.types import Usage

    if not engine.resources.models or not rows:
        return
    least = sum((estimate(name, engine, rows, options) for name in purposes), Usage())
    prices = options.budget.prices if options.budget is not None else None
    logged = f"; {known} rows are logged and cost nothing" if known else ""
    note(f"{len(rows)} questions take at least {describe(least, prices, seconds=False)} (first requests only){logged}.")


# --- labels ----------------------------------------------------------------------------------------------------------


Labelled = Annotated[Path, typer.Option(help="File to write: the questions with their claims and labels (jsonl).")]
_REPLIES = {"y": True, "yes": True, "n": False, "no": False}
_ASKED = "Is this a right answer? y(es), n(o), s(kip), q(uit)"


def label_claims(run: CalibrateOptions, questions: Path, labelled: Path) -> None:
    """Show the claims of each question and write down the user's labels, after every question.

    InputError if the file of labels holds other questions, or is the file of questions itself.
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.evaluation.fitting import ClaimLabels, FitOptions
    from shared_core.evaluation.fitting.asking import FitJob
    from shared_core.evaluation.fitting.observe import claims_to_label
    from shared_core.evaluation.judging import CLAIMS_FIELD, row_of
    from shared_core.support.run_log import RunLog
    from shared_core.training.rows import write_json_lines

    check_output(labelled, "--labelled")
    check_questions_and_docs((), run.docs)
    rows = read_questions(questions)[: run.limit]
    before = _read_labels(labelled, rows)
    rows = [
        dataclasses.replace(q, metadata={**q.metadata, CLAIMS_FIELD: before[q.id]}) if q.id in before else q
        for q in rows
    ]
    log = RunLog(run.log_path)
    labels = ClaimLabels(rows)
    done = {q.id: json.loads(json.dumps(q.metadata.get(CLAIMS_FIELD, []))) for q in rows}
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
    from shared_core.evaluation.judging import CLAIMS_FIELD

    if not path.exists():
        return {}
    asked = {q.id: q.question for q in rows}
    found = {q.id: q for q in read_questions(path)}
    for id_, question in found.items():
        if asked.get(id_, question.question) != question.question:
            raise InputError(f"{path} holds another question {id_!r}.", hint="Name another file: --labelled FILE")
    return {id_: list(q.metadata.get(CLAIMS_FIELD, [])) for id_, q in found.items()}
