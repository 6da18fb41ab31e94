"""Short trainings, and how to interrupt them at a step."""

from __future__ import annotations

from typing import Any

from shared_core.training.settings import TrainingSettings


class Interrupted(Exception):
    """Raised by ``interrupt_at``."""


def interrupt_at(step: int) -> Any:
    """Return a ``progress`` that raises ``Interrupted`` when ``step`` steps are done."""

    def progress(done: int, total: int, loss: float | None) -> None:
        if loss is not None and done == step:
            raise Interrupted

    return progress


def options(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**{"batch_size": 4, "max_steps": 4, "learning_rate": 1e-3, "use_cpu": True, **changes})
