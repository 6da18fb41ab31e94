"""Options of ``selfreflect calibrate``, and the estimate of what they will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli.console import note
from shared_core.cli.options import EngineOptions, Limit
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.fitting import Budget, FitOptions
    from shared_core.facades.engine import SelfReflectEngine


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
    float, typer.Option("--target-accuracy", "-t", help="Share of the claims shown that is promised to be right.")
]
Alpha = Annotated[float, typer.Option(help="Probability that the promise may fail.")]


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
            help="Stop asking once the share right among what would be shown is known this well (half of its 95 % "
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
