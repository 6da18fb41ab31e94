"""Watching a training: its learning rate, and whether it still learns or has diverged.

Pure functions and values; ``trainer`` hangs them into TRL's trainers.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import Literal

from shared_core.errors import GenerationError

__all__ = ["LossWatch", "rate_at"]

_WINDOW = 5  # losses whose median is looked at: a single batch may be hard
_GROWTH = 10.0  # times that all weights together may grow in one step
_PATIENCE = 20  # steps in which a model that knows nothing may say so
_UNIFORM = 1e-3  # nats from ln(vocabulary) within which every token is as likely as any other
_HINT = "Lower learning_rate (or raise batch_size); the checkpoints that were written before are kept."


def rate_at(
    step: int, total: int, warmup: float, schedule: Literal["linear", "cosine", "constant_with_warmup"]
) -> float:
    """The learning rate of a step as a share of the highest, above 0 at every step, the first and the last included.

    Args:
        step: from 0.
        total: steps in all.
        warmup: share of them over which the rate rises in a line.
        schedule: how it falls afterwards, if it does.
    """
    rising = math.ceil(total * warmup)
    if step < rising:
        return (step + 1) / (rising + 1)
    if schedule == "constant_with_warmup":
        return 1.0
    left = max(total - step, 0) / max(total - rising, 1)
    return left if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * (1 - left)))


class LossWatch:
    """Says at once when a training has diverged.

    Diverged is: a loss or gradient that is not a number; weights that grow tenfold in one step; losses (the median of
    the last five) above where they began and above that of guessing, ln(vocabulary); losses at that of guessing where
    they began below it; and, after twenty steps, the same loss whatever the batch: exactly that of guessing.

    Args:
        vocabulary: tokens that the model chooses among; ``None`` where the loss is no mean of -log p per token (then
            only numbers and weights are looked at).
    """

    def __init__(self, vocabulary: int | None) -> None:
        self.guessing = math.log(vocabulary) if vocabulary else None
        self._first: float | None = None
        self._last: deque[float] = deque(maxlen=_WINDOW)
        self._norm: float | None = None

    def see(self, step: int, loss: float | None, gradient: float | None = None) -> None:
        """One logged step.

        Raises:
            GenerationError: the training has diverged.
        """
        for name, value in (("loss", loss), ("gradient's norm", gradient)):
            if value is not None and not math.isfinite(value):
                raise _diverged(step, f"its {name} is {value}, not a number")
        if loss is None or self.guessing is None:
            return
        if self._first is None:
            self._first = loss
        self._last.append(loss)
        if len(self._last) < _WINDOW:
            return
        now, first, guessing = statistics.median(self._last), self._first, self.guessing
        if now > max(first, guessing) + 1:
            raise _diverged(step, f"its loss is {now:.2f}, worse than guessing ({guessing:.2f} = ln(vocabulary))")
        worse = first < 0.9 * guessing and now > 0.98 * guessing
        stuck = step >= _PATIENCE and all(abs(loss - guessing) < _UNIFORM for loss in self._last)
        if worse:
            raise _diverged(
                step, f"its loss went from {first:.2f} to that of guessing, {guessing:.2f} = ln(vocabulary)"
            )
        if stuck:
            raise _diverged(step, f"after {step} steps its loss is still that of guessing, {now:.2f}")

    def see_weights(self, step: int, norm: float) -> None:
        """The norm of all trained weights together, after a step.

        Raises:
            GenerationError: it is no number, or grew tenfold in one step.
        """
        if not math.isfinite(norm):
            raise _diverged(step, "its weights are not numbers")
        if self._norm and norm > _GROWTH * self._norm:
            raise _diverged(step, f"its weights grew {norm / self._norm:.3g}-fold in one step")
        self._norm = norm


def _diverged(step: int, why: str) -> GenerationError:
    return GenerationError(f"The training diverged at step {step}: {why}.", hint=_HINT)
