"""Training that is interrupted at a step."""

from __future__ import annotations

from typing import Any


class Interrupted(Exception):
    """Raised by ``interrupt_at``."""


def interrupt_at(step: int) -> Any:
    """Return a ``progress`` that raises ``Interrupted`` when ``step`` steps are done."""

    def progress(done: int, total: int, loss: float | None) -> None:
        if loss is not None and done == step:
            raise Interrupted

    return progress
