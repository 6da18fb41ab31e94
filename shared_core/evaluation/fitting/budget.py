"""Limit what a calibration may cost, and tell beforehand what it will cost at least."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from shared_core.errors import BudgetError, InputError
from shared_core.runtime.flow import Flow, Request, intercept, leaves_of
from shared_core.runtime.requests import ASKS_MODEL
from shared_core.types import Usage

T = TypeVar("T")

PREVIEWED = 3
"""Questions that an estimate looks at."""
_FORM = "500calls, 200ktokens, 10min, or with --price 2USD"
_UNITS = {
    "call": "calls", "token": "tokens", "s": "seconds", "second": "seconds", "min": "minutes", "minute": "minutes",
    "h": "hours", "hour": "hours",
}  # fmt: skip
_FACTORS = {"minutes": 60.0, "hours": 3600.0}
_LETTERS = 4  # of English text a token, about


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, and their currency.

    >>> Prices(0.5, 2.0, "USD").cost(Usage(prompt_tokens=2_000_000, generated_tokens=500_000))
    2.0
    """

    prompt: float
    generated: float
    currency: str = ""

    @classmethod
    def parse(cls, text: str) -> Prices:
        """Read ``PROMPT,GENERATED``, each for a million tokens; InputError for anything else."""
        try:
            prompt, generated = (float(part) for part in text.split(","))
        except ValueError:
            prompt = generated = math.nan
        if not (0 <= prompt < math.inf and 0 <= generated < math.inf):
            raise InputError(f"--price takes two prices of a million tokens, not {text!r}.", hint="--price 0.15,0.60")
        return cls(prompt, generated)

    def cost(self, usage: Usage) -> float:
        """Return the price of what was used."""
        return (usage.prompt_tokens * self.prompt + usage.generated_tokens * self.generated) / 1e6


@dataclass(frozen=True)
class Budget:
    """The most that a calibration may use; ``None`` is no limit.

    >>> budget = Budget.parse(["20 calls", "1.5k tokens", "2min"])
    >>> budget.calls, budget.tokens, budget.seconds
    (20.0, 1500.0, 120.0)
    >>> budget.affordable(Usage(calls=12), 4)  # three calls a question so far
    2

    Attributes:
        calls, tokens, seconds: of the model, prompt and reply together, and of the clock.
        money: in the currency of the prices.
        interval: half of the 95 % interval of the share right among what would be shown; reached, no more is asked.
    """

    calls: float | None = None
    tokens: float | None = None
    seconds: float | None = None
    money: float | None = None
    prices: Prices | None = None
    interval: float | None = None

    @classmethod
    def parse(cls, texts: Sequence[str], prices: Prices | None = None, interval: float | None = None) -> Budget:
        """Read limits such as ``500calls``, ``200k tokens``, ``10min``; any other unit is the prices' currency.

        InputError for what is no number and unit or not positive, two limits of a kind, or money without prices.
        """
        limits: dict[str, float] = {}
        for text in texts:
            found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(k|M)?\s*([^\W\d_]+|[$€£¥])\s*", text)
            if found is None or not float(found[1]):
                raise InputError(f"A budget is a positive number and a unit, not {text!r}.", hint=_FORM)
            word = found[3] if len(found[3]) == 1 else found[3].lower().removesuffix("s")
            unit = _UNITS.get(word, "money")
            kind = "seconds" if unit in _FACTORS else unit
            if kind in limits:
                raise InputError(f"There are two budgets in {kind}.", hint="Give one of each kind.")
            limits[kind] = float(found[1]) * {"k": 1e3, "M": 1e6}.get(found[2] or "", 1.0) * _FACTORS.get(unit, 1.0)
            if kind == "money":
                if prices is None:
                    raise InputError(f"A budget in {found[3]} needs the prices of tokens.", hint="--price 0.15,0.60")
                prices = replace(prices, currency=found[3])
        return cls(**limits, prices=prices, interval=interval)

    def affordable(self, used: Usage, asked: int) -> int | None:
        """Return how many more questions the budget allows, if they cost what the ``asked`` ones did on average.

        Before any was asked one is allowed. ``None`` without a limit.
        """
        money = self.prices.cost(used) if self.prices else 0.0
        tokens = used.prompt_tokens + used.generated_tokens
        spent = (
            (self.calls, float(used.calls)),
            (self.tokens, float(tokens)),
            (self.seconds, used.seconds),
            (self.money, money),
        )
        most: list[int] = []
        for limit, value in spent:
            if limit is not None and (not asked or value >= limit):
                most.append(int(value < limit))
            elif limit is not None and value:
                most.append(int((limit - value) * asked / value))
        return min(most) if most else None


def wilson_interval(right: int, shown: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share (Wilson 1927); (0, 1) of nothing."""
    if not shown:
        return 0.0, 1.0
    z, share = 1.96, right / shown
    middle = (share + z * z / (2 * shown)) / (1 + z * z / shown)
    half = z * math.sqrt(share * (1 - share) / shown + z * z / (4 * shown * shown)) / (1 + z * z / shown)
    return middle - half, middle + half


class Preview:
    """Replaces a meter: lets no request through to a model, and counts what the refused ones would have cost.

    Flows end at their first request, so what it counts is the least that a question costs.

    >>> Preview().usage.calls
    0
    """

    def __init__(self) -> None:
        self.usage = Usage()

    def watch(self, flow: Flow[T]) -> Flow[T]:
        """Wrap a flow as ``Meter.watch`` does; its first request to a model raises BudgetError in it."""
        return intercept(flow, self._refuse, lambda request, result: None)

    def _refuse(self, request: Request) -> Request:
        asked = [leaf for leaf in leaves_of(request) if isinstance(leaf, ASKS_MODEL)]
        for leaf in asked:
            prompt = getattr(leaf, "prompt", None)
            self.usage += Usage(calls=1, prompt_tokens=len(prompt.text) // _LETTERS if prompt is not None else 0)
        if asked:
            raise BudgetError("An estimate asks nothing.", hint="Ask without it.")
        return request


def describe(usage: Usage, prices: Prices | None = None, *, seconds: bool = True) -> str:
    """Describe calls, tokens, seconds and cost in a few words."""
    tokens = usage.prompt_tokens + usage.generated_tokens
    parts = [f"{usage.calls:,} calls", f"{tokens:,} tokens", *([f"{usage.seconds:.0f} s"] if seconds else [])]
    parts += [f"{prices.cost(usage):,.3g}{f' {prices.currency}' if prices.currency else ''}"] if prices else []
    return ", ".join(parts)
