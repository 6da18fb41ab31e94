"""Watch a training: learning rate, divergence, signals that end it, and the change from its first to its last steps."""

from __future__ import annotations

import math
import os
import signal
import statistics
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from shared_core.errors import GenerationError

Progress = Callable[[int, int, float | None], None]
"""Called with (steps done, steps in all, last loss or ``None``)."""

_WINDOW = 5  # losses whose median counts, since a single batch may be hard
_GROWTH = 10.0  # times that all weights together may grow in one step
_PATIENCE = 20  # steps for which an untrained model may stay at the loss of guessing
_UNIFORM = 1e-3  # nats around ln(vocabulary), where every token is equally likely
_HINT = "Lower learning_rate (or raise batch_size); checkpoints written before are kept."


def rate_at(
    step: int, total: int, warmup: float, schedule: Literal["linear", "cosine", "constant_with_warmup"]
) -> float:
    """Compute the learning rate of a step as a share in (0, 1] of the highest; it is never 0.

    Args:
        step: from 0.
        warmup: share of the steps over which the rate rises linearly.
        schedule: how it falls afterwards, if at all.

    >>> [rate_at(step, 4, 0.5, "linear") for step in range(4)]
    [0.3333333333333333, 0.6666666666666666, 1.0, 0.5]
    """
    rising = math.ceil(total * warmup)
    if step < rising:
        return (step + 1) / (rising + 1)
    if schedule == "constant_with_warmup":
        return 1.0
    left = max(total - step, 0) / max(total - rising, 1)
    return left if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * (1 - left)))


def first_and_last(values: Sequence[float]) -> dict[str, float | None]:
    """Average a figure, one value for each step, over the first and over the last steps of a training.

    A single step at either end would compare two different batches. Each end is a tenth of the steps, but at least ten
    of them, or half where there are fewer than twenty.

    >>> first_and_last([3.5, 1.5, 2.0, 0.0])
    {'first': 2.5, 'last': 1.0}
    """
    count = max(len(values) // 10, min(10, len(values) // 2), 1)
    if not values:
        return {"first": None, "last": None}
    return {"first": sum(values[:count]) / count, "last": sum(values[-count:]) / count}


class LossWatch:
    """Detector of divergence, fed with each step.

    These count as divergence: a loss or gradient that is not a number; weights that grow tenfold in one step; a loss
    (median of the last five) above its first value and above that of guessing, ln(vocabulary); a loss that rises to
    that of guessing; and, after twenty steps, exactly the loss of guessing whatever the batch.

    Args:
        vocabulary: number of tokens that the model chooses among; ``None`` where the loss is not a mean of -log p per
            token (then only non-finite values and weights are checked).

    >>> LossWatch(vocabulary=1000).see(1, float("nan"))
    Traceback (most recent call last):
    shared_core.errors.GenerationError: The training diverged at step 1: its loss is nan, not a number.
    Hint: Lower learning_rate (or raise batch_size); checkpoints written before are kept.
    """

    def __init__(self, vocabulary: int | None) -> None:
        self.guessing = math.log(vocabulary) if vocabulary else None
        self._first: float | None = None
        self._last: deque[float] = deque(maxlen=_WINDOW)
        self._norm: float | None = None

    def see(self, step: int, loss: float | None, gradient: float | None = None) -> None:
        """Take in the loss (nats) and gradient norm of a logged step; GenerationError if the training has diverged."""
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
        """Take in the norm of all trained weights together, after a step.

        GenerationError if it is not finite, or grew tenfold in one step.
        """
        if not math.isfinite(norm):
            raise _diverged(step, "its weights are not numbers")
        if self._norm and norm > _GROWTH * self._norm:
            raise _diverged(step, f"its weights grew {norm / self._norm:.3g}-fold in one step")
        self._norm = norm


def _diverged(step: int, why: str) -> GenerationError:
    return GenerationError(f"The training diverged at step {step}: {why}.", hint=_HINT)


# --- inside of TRL's trainers --------------------------------------------------------------------------------------


@dataclass
class Stop:
    """A request to end the training, made by a signal and read between steps.

    >>> Stop().asked
    False
    """

    asked: bool = False


@contextmanager
def interruptible(stop: Stop, processes: int) -> Iterator[None]:
    """Let the step end and keep a checkpoint on SIGINT or SIGTERM; a second one ends the training at once.

    Launches of several processes are left alone: they would have to agree on the step.
    """
    if processes > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: object) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def trainer_callback(
    watch: LossWatch, stop: Stop, mark: Callable[[int], None], saves: bool, progress: Progress | None
) -> Any:
    """Make the callback of transformers that watches, marks whole checkpoints, stops when asked, and reports.

    Args:
        mark: called with the step of each checkpoint, once it is written.
        saves: a stopped training keeps a checkpoint.
    """
    import torch
    from transformers import TrainerCallback

    sharded = "FSDP_VERSION" in os.environ or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"

    def look(step: int, model: Any) -> None:
        if not sharded:  # the norm of a shard says nothing about the whole
            trained = [p.detach() for p in model.parameters() if p.requires_grad]
            watch.see_weights(step, float(torch.nn.utils.get_total_norm(trained)))

    class Watch(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            look(state.global_step, model)
            if progress is not None:
                progress(state.global_step, state.max_steps, None)

        def on_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            look(state.global_step + 1, model)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if stop.asked:
                control.should_training_stop = True
                control.should_save = saves

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            logs = logs or {}
            watch.see(state.global_step, logs.get("loss"), logs.get("grad_norm"))
            if progress is not None and "loss" in logs:
                progress(state.global_step, state.max_steps, logs["loss"])

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.is_world_process_zero:
                mark(state.global_step)

    return Watch()
