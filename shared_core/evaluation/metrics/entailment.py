"""Judge entailment of many pairs by a function or a support scorer, each distinct pair once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shared_core.errors import InputError
from shared_core.reading.base import SupportScorer

Nli = Callable[[str, str], Any] | SupportScorer
"""``nli(premise, hypothesis)`` returning true/false, 0/1 or a probability; or a ``SupportScorer``, asked in batches."""


class Entailment:
    """Judge of entailment that asks ``nli`` once per distinct pair, in batches if it takes them.

    >>> Entailment(lambda premise, hypothesis: hypothesis in premise).ask([("It rains.", "rains"), ("a", "b")])
    [True, False]

    Args:
        nli: function or scorer to ask.
        threshold: least probability that counts as entailed; unknown (``None``, NaN) never does.

    Raises:
        InputError: ``nli`` is neither callable nor a ``SupportScorer``.
    """

    def __init__(self, nli: Nli, threshold: float = 0.5) -> None:
        if not isinstance(nli, SupportScorer) and not callable(nli):
            raise InputError(
                f"An NLI model must be a function (premise, hypothesis) or a SupportScorer, not {nli!r}.",
                hint="No model is downloaded by default; pass your own.",
            )
        if not 0.0 < threshold <= 1.0:
            raise InputError(f"The entailment threshold must lie in (0, 1], not {threshold!r}.")
        self._nli = nli
        self._threshold = threshold
        self._known: dict[tuple[str, str], bool] = {}

    def ask(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return whether each premise entails its hypothesis."""
        new = list(dict.fromkeys(p for p in pairs if p not in self._known))
        if new:
            self._known.update(zip(new, map(self._decide, self._judge(new), new)))
        return [self._known[p] for p in pairs]

    def _judge(self, pairs: list[tuple[str, str]]) -> list[Any]:
        if not isinstance(self._nli, SupportScorer):
            return [self._nli(premise, hypothesis) for premise, hypothesis in pairs]
        scores = list(self._nli.score(pairs))
        if len(scores) != len(pairs):
            raise InputError(f"The SupportScorer gave {len(scores)} scores for {len(pairs)} pairs.")
        return scores

    def _decide(self, verdict: Any, pair: tuple[str, str]) -> bool:
        if verdict is None:
            return False
        try:
            value = float(verdict)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The NLI model answered {verdict!r} about {pair!r}.", hint="Return true/false or a probability."
            ) from error
        if math.isnan(value):
            return False
        if not 0.0 <= value <= 1.0:
            raise InputError(f"The NLI model answered {value!r}, not a probability.", hint="Apply its softmax.")
        return value >= self._threshold
