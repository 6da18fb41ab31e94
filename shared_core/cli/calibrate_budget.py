"""Options that limit the cost of calibrating, and the estimate before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli.console import note

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.evaluation.fitting import Budget, FitOptions
    from shared_core.facades.engine import SelfReflectEngine


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """Options that limit what is asked.

    >>> limits = BudgetOptions(budget=["500calls"]).limits()
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

    def limits(self) -> Budget | None:
        """Return the limits of what asking may cost; ``None`` without any. InputError if they cannot be read."""
        from shared_core.evaluation.fitting import Budget, Prices

        prices = Prices.parse(self.price) if self.price is not None else None
        if not (self.budget or self.interval or prices):
            return None
        return Budget.parse(self.budget, prices, self.interval)


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
