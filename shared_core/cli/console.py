"""Print to the terminal; control characters of documents, file names and models never reach it.

Lines are wrapped on a terminal only; in a pipe or a file they are not, so that a quote can be searched for.
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


out = PlainConsole(highlight=False)
err = PlainConsole(stderr=True, highlight=False)


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


def cell(value: object) -> str:
    """Escape markup in a table's cell."""
    return escape(str(value))
