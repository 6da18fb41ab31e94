"""Progress bars of the commands: shown on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from shared_core.retrieval.store import IndexProgress

_LABELS = {"reading": "Reading files", "embedding": "Embedding passages"}


@contextmanager
def indexing_progress(console: Console) -> Iterator[Callable[[IndexProgress], None] | None]:
    """Shows ``DocumentIndex.update``'s progress on a terminal; ``None`` elsewhere."""
    if not console.is_terminal:
        yield None
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
    """A bar over questions on a terminal; nothing elsewhere."""
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, _: bar.update(task, completed=done)
