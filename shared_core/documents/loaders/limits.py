"""Limits on the time and memory that reading a file may take.

Loaders check the time between their steps and bound memory through what it grows with: bytes unpacked, elements, cells.
Parsers that cannot be stopped from outside run in a helper process (``isolated.py``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import IO

from shared_core.errors import DocumentError

MAX_SECONDS = 120.0
"""For one file; the slowest ordinary ones (PDFs of a thousand pages) take a few seconds."""

MAX_UNPACKED_BYTES = 128 * 2**20
"""For what an archive (DOCX, EPUB …) unpacks to; counted while unpacking, because headers may state anything."""

CHUNK = 65_536  # bytes or characters passed to a parser between two checks of the time


class Budget:
    """The time a file may take, from the creation of this object.

    >>> Budget(120).remaining() > 119
    True
    """

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds left; zero or less when the time is used up."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise DocumentError if the time is used up."""
        if self.remaining() <= 0:
            raise too_slow(self.seconds)


def too_slow(seconds: float) -> DocumentError:
    """Return the error for a file that takes too long to read."""
    return DocumentError(
        f"Reading it took longer than {seconds:g} seconds and was given up.",
        hint="Split the file, save it again from the program that made it, or allow more time (--max-file-seconds N).",
    )


def too_much(what: str, number: int, limit: int) -> DocumentError:
    """Return the error for a file with more of something (``what``) than is read into memory."""
    return DocumentError(f"It holds {number:,} {what}; at most {limit:,} are read.", hint="Split the file.")


def read_unpacked(stream: IO[bytes], budget: Budget, limit: int, *, before: int = 0) -> Iterator[bytes]:
    """Read a decompressing stream in chunks; the budget is checked after each.

    DocumentError if the time is used up, or more than ``limit`` bytes come out, with those ``before`` of others of its
    document.
    """
    total = before
    while chunk := stream.read(CHUNK):
        budget.check()
        total += len(chunk)
        if total > limit:
            raise DocumentError(
                f"It unpacks to more than {limit:,} bytes.",
                hint="Split the document; if it looks small when opened, save it again from the program that made it.",
            )
        yield chunk
