"""A helper process for parsers that can hang, fill the memory or crash.

In a process of its own, such a file costs only itself. The process is kept between files, ends by itself when it is
idle or its parent is gone, and is restarted after a failure. A message is two lengths (8 bytes each), a JSON object and
the file's bytes; nothing that the helper sends is ever executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from shared_core.documents.loaders.limits import Budget, too_slow
from shared_core.errors import DocumentError

MEMORY_BYTES = 2**30
"""Address space of the helper process (on Linux; other systems have no such limit)."""

IDLE_SECONDS = 30.0
"""Without a request for so long, the helper process exits."""

_LENGTHS = struct.Struct(">QQ")


class Helper:
    """A process running ``python -m MODULE`` that answers about one file at a time. Safe to use from several threads.

    Args:
        module: to run; it reads requests with ``receive`` and answers with ``send``.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def ask(self, data: bytes, budget: Budget, kind: str = "") -> dict[str, Any]:
        """Send a file of this kind to the helper and return its answer.

        DocumentError if there is none within the budget, or the helper died of the file (out of memory, a crash).
        """
        with self._lock:
            if self._owner != os.getpid():  # after a fork the pipe belongs to the parent
                self._process, self._owner = None, os.getpid()
            for fresh in (False, True):
                process = self._started(fresh)
                reply, timed_out = _exchange(process, kind, data, budget)
                if reply is not None:
                    return reply
                self._process = None
                code = _end(process)
                if timed_out:
                    raise too_slow(budget.seconds)
                if code != 0:  # 0: it was idle and exited just as the request was sent, so ask again
                    break
            raise DocumentError(
                f"Reading it needed more than {MEMORY_BYTES // 2**20:,} MB of memory, or crashed the parser.",
                hint="Save it again from the program that made it, export it to text or PDF, or split it.",
            )

    def close(self) -> None:
        """End the process; the next file starts a new one."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                _end(self._process)
            self._process = None

    def _started(self, fresh: bool) -> subprocess.Popen[bytes]:
        if self._process is not None and not fresh and self._process.poll() is None:
            return self._process
        root = str(Path(__file__).resolve().parents[3])
        places = [root, *(os.path.abspath(place) for place in sys.path if place)]
        # -P: the helper must not import modules from the folder it is started in.
        command = [sys.executable, "-P", "-m", self._module]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            )
        except (OSError, ValueError) as error:
            raise DocumentError(
                f"The process that reads such files cannot be started: {error}.",
                hint="Allow this program to start processes, or convert the file to text.",
            ) from error
        return self._process


def _exchange(
    process: subprocess.Popen[bytes], kind: str, data: bytes, budget: Budget
) -> tuple[dict[str, Any] | None, bool]:
    """Return the reply, ``None`` without one, and whether the time ran out."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        process.kill()

    left = max(0.0, budget.remaining())
    timer = threading.Timer(left, expire)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, {"kind": kind, "seconds": left, "limit": budget.seconds}, data)
        received = receive(process.stdout)
        return (None if received is None else received[0]), expired.is_set()
    except (OSError, ValueError):  # the pipe broke, or the answer is malformed
        return None, expired.is_set()
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a process, killing it if necessary, and return its exit status."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    try:
        return process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait() or 1


def send(stream: IO[bytes], values: dict[str, Any], data: bytes = b"") -> None:
    """Write a message."""
    head = json.dumps(values, ensure_ascii=True).encode()
    stream.write(_LENGTHS.pack(len(head), len(data)) + head)
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Read the next message, ``None`` at the end of the stream; ValueError if it is cut short or malformed."""
    lengths = stream.read(_LENGTHS.size)
    if not lengths:
        return None
    if len(lengths) < _LENGTHS.size:
        raise ValueError("the message is cut short")
    head_length, data_length = _LENGTHS.unpack(lengths)
    head, data = stream.read(head_length), stream.read(data_length)
    if len(head) < head_length or len(data) < data_length:
        raise ValueError("the message is cut short")
    values = json.loads(head)
    if not isinstance(values, dict):
        raise ValueError("the message is not an object")
    return values, data
