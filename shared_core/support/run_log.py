"""Files of JSON lines that grow while work is done: killed at any moment, they hold what was done before.

Lines are appended and flushed to the disk before the next piece of work begins. A line that a crash tore is cut off by
the next one that writes, and only one process writes at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from shared_core.errors import InputError

Entry = Mapping[str, Any]
"""A line: plain values, ready for JSON."""


class Journal:
    """A file of JSON lines.

    Args:
        path: of the file, in a folder that exists; made when something is written.
        nan: NaN and infinity are written as Python reads them; refused otherwise, since JSON has none.
    """

    def __init__(self, path: str | Path, *, nan: bool = False) -> None:
        self.path, self._nan = Path(path), nan

    def read(self) -> list[dict[str, Any]]:
        """What was written, in order; nothing where there is no file yet. What stands behind the last line break was
        not written to its end, and is left out.

        Raises:
            InputError: a line is no JSON object.
            OSError: the file cannot be read.
        """
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        found: list[dict[str, Any]] = []
        for number, line in enumerate(content[: content.rfind(b"\n") + 1].split(b"\n")[:-1], 1):
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise InputError(f"{self.path}, line {number}: no JSON ({error}).", hint=_DAMAGED) from error
            if not isinstance(entry, dict):
                raise InputError(f"{self.path}, line {number}: no JSON object.", hint=_DAMAGED)
            found.append(entry)
        return found

    @contextmanager
    def writing(self) -> Iterator[Callable[[Sequence[Entry]], None]]:
        """A function that appends entries and returns once they are on the disk; one process at a time.

        What an earlier run wrote is whole from here on: a torn last line is cut off.

        Raises:
            InputError: another process is at it.
            OSError: the file cannot be written.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                f"Another run is writing to {self.path.parent}.", hint="Wait for it, or end it."
            ) from error
        try:
            # A model's reply may hold half a surrogate pair, which is no reason to lose what was done.
            with self.path.open("a", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
                self._cut_torn_line()
                yield lambda entries: _append(file, entries, self._nan)
        finally:
            lock.release()

    def remove(self) -> None:
        """Remove the file, if there is one; OSError if it cannot be removed."""
        for path in (self.path, self._lock):
            path.unlink(missing_ok=True)

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f".{self.path.stem}.lock")

    def _cut_torn_line(self) -> None:
        with self.path.open("r+b") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)


_DAMAGED = "Something else wrote into it. Give a folder of its own."


def _append(file: TextIO, entries: Sequence[Entry], nan: bool) -> None:
    file.write("".join(json.dumps(e, ensure_ascii=False, allow_nan=nan) + "\n" for e in entries))
    file.flush()
    os.fsync(file.fileno())
