"""Print to the terminal; control characters of documents, file names and models never reach it.

Lines are wrapped on a terminal only; in a pipe or a file they are not, so that a quote can be searched for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from shared_core.errors import SelfReflectError
from shared_core.support.sanitize import to_printable, to_printable_json

if TYPE_CHECKING:
    from shared_core.documents.store import IndexProgress

_UNWRAPPED = 1_000_000


class PlainConsole(Console):
    """Console that prints printable text only, and wraps it on terminals only."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Replace unprintable characters in every segment, except in rich's own control segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(to_printable(segment.text), segment.style)

    @property
    def size(self) -> ConsoleDimensions:
        """Size of the terminal; elsewhere lines of any length."""
        found = super().size
        return found if self.is_terminal else ConsoleDimensions(_UNWRAPPED, found.height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size


out = PlainConsole(markup=False, emoji=False, highlight=False)
err = PlainConsole(stderr=True, markup=False, emoji=False, highlight=False)


class Verbosity:
    """Verbosity of the process: -1 errors only, 0 warnings and progress, 1 each step, 2 everything."""

    level = 0


def set_verbosity(level: int) -> None:
    """Set the verbosity and show the library's log accordingly."""
    Verbosity.level = level
    logger = logging.getLogger("shared_core")
    for handler in [h for h in logger.handlers if isinstance(h, _ToConsole)]:
        logger.removeHandler(handler)
    logger.addHandler(_ToConsole())
    logger.setLevel({-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(level, logging.DEBUG))


class _ToConsole(logging.Handler):
    """Handler that prints the library's log on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line: ``warning: …``."""
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        err.print(Text(f"{record.levelname.lower()}: {record.getMessage()}", style=style))


def note(text: str, *, style: str = "") -> None:
    """Print a remark on standard error; not with ``-q``."""
    if Verbosity.level >= 0:
        err.print(Text(text, style=style))


def detail(text: str) -> None:
    """Print a remark on standard error, with ``-v`` only."""
    if Verbosity.level >= 1:
        err.print(Text(text, style="dim"))


def show_heading(text: str) -> None:
    """Print a heading: a rule on a terminal, elsewhere a line that begins with ##."""
    out.print()
    if out.is_terminal:
        out.rule(Text(text, style="bold"), align="left")
    else:
        out.print(Text(f"## {text}"))


def show_error(error: SelfReflectError) -> None:
    """Print message and hint on standard error; never a traceback."""
    err.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.hint:
        err.print(Text.assemble(("hint: ", "bold"), error.hint))


def write_json(values: Any) -> None:
    """Print values as JSON on standard output, neither wrapped nor coloured."""
    out.file.write(to_printable_json(values) + "\n")


class JsonList:
    """JSON list on standard output whose entries are printed as they come; nothing at all unless ``enabled``."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._before = "[\n"

    def __enter__(self) -> JsonList:
        return self

    def write(self, values: Any) -> None:
        """Print one entry and flush it."""
        out.file.write(self._before + to_printable_json(values))
        out.file.flush()
        self._before = ",\n"

    def __exit__(self, *_: object) -> None:
        """Close the list, after an error too, so that a program can read what was printed."""
        if self._enabled:
            out.file.write("[]\n" if self._before == "[\n" else "\n]\n")


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
def question_progress(
    console: Console, total: int, label: str, spent: Callable[[], str] = str
) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that shows how many of ``total`` questions are done, the time left, and what was ``spent``."""
    if Verbosity.level < 0:
        yield lambda done, _: None
        return
    if not console.is_terminal:
        lines = _Lines(console)
        yield lambda done, _: lines.tell(label, done, total, spent())
        return
    said = TextColumn("{task.fields[spent]}", style="dim", markup=False)
    columns = (TextColumn(label, markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), said)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total, spent="")
        yield lambda done, _: bar.update(task, completed=done, spent=spent())


class _Lines:
    """Plain lines for logs and pipes; none for work that takes seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = self._told = time.monotonic()
        self._first = 0  # how much was done when this label first came
        self._label = ""

    def tell(self, label: str, done: int, total: int, spent: str = "") -> None:
        """Take the state of the work; print a line if the last one is some seconds old."""
        now = time.monotonic()
        if label != self._label:
            self._label, self._started, self._first = label, now, done
        if now - self._told < EVERY_SECONDS:
            return
        self._told = now
        since = done - self._first
        left = (now - self._started) * (total - done) / since if since > 0 else 0.0
        rest = [f"about {left:.0f} s left"] if left >= 1 else []
        self._console.print(Text(", ".join([f"{label}: {done} of {total}", *rest, *([spent] if spent else [])])))
