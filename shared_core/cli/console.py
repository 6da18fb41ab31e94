"""The terminal: the one place that prints. Nothing from documents, file names or models reaches it as it is.

On a terminal lines are wrapped; into a pipe or a file they are not, so that a quote can be searched for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from shared_core.errors import SelfReflectError
from shared_core.support.sanitize import to_printable, to_printable_json

_UNWRAPPED = 1_000_000


class PlainConsole(Console):
    """A console that shows printable text only, and wraps it on terminals only."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of what is to be shown; only those that rich itself makes to steer the terminal stay untouched."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(to_printable(segment.text), segment.style)

    @property
    def size(self) -> ConsoleDimensions:
        """That of the terminal; off one, lines of any length."""
        found = super().size
        return found if self.is_terminal else ConsoleDimensions(_UNWRAPPED, found.height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size


out = PlainConsole(highlight=False)
err = PlainConsole(stderr=True, highlight=False)


class Verbosity:
    """How much is said beside the answer: -1 errors only, 0 warnings and progress, 1 what is done, 2 everything."""

    level = 0


def set_verbosity(level: int) -> None:
    """From now on. Warnings and messages of the library's own log are shown accordingly."""
    Verbosity.level = level
    logger = logging.getLogger("shared_core")
    for handler in [h for h in logger.handlers if isinstance(h, _ToConsole)]:
        logger.removeHandler(handler)
    logger.addHandler(_ToConsole())
    logger.setLevel({-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(level, logging.DEBUG))


class _ToConsole(logging.Handler):
    """The library's log on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line: ``warning: …``."""
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        err.print(Text(f"{record.levelname.lower()}: {record.getMessage()}", style=style))


def note(text: str, *, style: str = "") -> None:
    """Something beside the answer, on standard error; not with ``-q``."""
    if Verbosity.level >= 0:
        err.print(Text(text, style=style))


def detail(text: str) -> None:
    """Something that is shown with ``-v`` only."""
    if Verbosity.level >= 1:
        err.print(Text(text, style="dim"))


def show_error(error: SelfReflectError) -> None:
    """Message and hint on standard error; never a traceback."""
    err.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.hint:
        err.print(Text.assemble(("hint: ", "bold"), error.hint))


def write_json(values: Any) -> None:
    """Values as JSON on standard output, for programs: not wrapped, not coloured."""
    out.file.write(to_printable_json(values) + "\n")


def cell(value: object) -> str:
    """A table's cell that is no markup."""
    return escape(str(value))
