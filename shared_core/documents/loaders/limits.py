"""Bounds on the work a file may cause, whatever it says of itself.

Time is looked at between the steps of a loader, memory is bounded through what it grows with: bytes unpacked, elements,
cells. Parsers that cannot be stopped from outside run in a process of their own (``process.py``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import IO

from shared_core.errors import DocumentError

MAX_SECONDS = 120.0
"""A file may be read for so long; the slowest honest ones (PDFs of a thousand pages) take a few seconds."""

MAX_UNPACKED_BYTES = 128 * 2**20
"""What may come out of an archive (DOCX, EPUB, .gz …); counted while it comes, as headers can lie."""

CHUNK = 65_536  # bytes or characters handed to a parser between two looks at the clock


class Budget:
    """The time a file may take, counted from the making of this object."""

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left; zero or less when used up."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise DocumentError if the time is used up."""
        if self.remaining() <= 0:
            raise too_slow(self.seconds)


def too_slow(seconds: float) -> DocumentError:
    """The error of a file whose reading was given up after so many seconds."""
    return DocumentError(
        f"Reading it took longer than {seconds:g} seconds and was given up.",
        hint="Split the file or save it anew from the program that made it, or allow more (--max-file-seconds N).",
    )


def too_much(what: str, number: int, limit: int) -> DocumentError:
    """The error of a file that holds more of something than is read into memory."""
    return DocumentError(f"It holds {number:,} {what}; at most {limit:,} are read.", hint="Split the file.")


def read_unpacked(stream: IO[bytes], budget: Budget, limit: int, *, before: int = 0) -> Iterator[bytes]:
    """What a decompressing stream gives, in chunks.

    Args:
        stream: gives it.
        budget: looked at before each chunk.
        limit: bytes at most, of this stream and of others of its document.
        before: bytes that the others gave.

    Raises:
        DocumentError: more than ``limit`` bytes come out, or the time is used up.
    """
    total = before
    while chunk := stream.read(CHUNK):
        budget.check()
        total += len(chunk)
        if total > limit:
            raise DocumentError(
                f"It unpacks to more than {limit:,} bytes.",
                hint="Split the document; if it is small when opened, save it anew from the program that made it.",
            )
        yield chunk
