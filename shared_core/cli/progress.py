"""Show progress: bars on a terminal, a line every few seconds elsewhere, nothing with ``-q``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from shared_core.cli.console import Verbosity

if TYPE_CHECKING:
    from shared_core.documents.store import IndexProgress

EVERY_SECONDS = 5.0
_LABELS = {"reading": "Reading files", "embedding": "Embedding passages"}


@contextmanager
def indexing_progress(console: Console) -> Iterator[Callable[[IndexProgress], None] | None]:
    """Yield a callback for ``DocumentIndex.update``; ``None`` with ``-q``."""
    if Verbosity.level < 0:
        yield None
        return
    if not console.is_terminal:
        lines = _Lines(console)
        yield lambda state: lines.tell(_LABELS.get(state.phase, state.phase), state.done, state.total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[source]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(state: IndexProgress) -> None:
            if state.phase not in tasks:
                tasks[state.phase] = bar.add_task(_LABELS.get(state.phase, state.phase), source="")
            bar.update(tasks[state.phase], completed=state.done, total=state.total, source=state.source[-40:])

        yield show


@contextmanager
def question_progress(console: Console, total: int, label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that shows how many of ``total`` questions are done."""
    if Verbosity.level < 0:
        yield lambda done, _: None
        return
    if not console.is_terminal:
        lines = _Lines(console)
        yield lambda done, _: lines.tell(label, done, total)
        return
    columns = (TextColumn(label, markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, _: bar.update(task, completed=done)


class _Lines:
    """Plain lines for logs and pipes; none for work that takes seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = self._told = time.monotonic()
        self._first = 0  # how much was done when this label first came
        self._label = ""

    def tell(self, label: str, done: int, total: int) -> None:
        """Take the state of the work; print a line if the last one is some seconds old."""
        now = time.monotonic()
        if label != self._label:
            self._label, self._started, self._first = label, now, done
        if now - self._told < EVERY_SECONDS:
            return
        self._told = now
        since = done - self._first
        left = (now - self._started) * (total - done) / since if since > 0 and done < total else 0.0
        self._console.print(Text(f"{label}: {done} of {total}" + (f", about {left:.0f} s left" if left >= 1 else "")))
