"""Read PDFs, office documents, books and reStructuredText in a helper process, where time and memory can be bounded.

``read_isolated`` runs in the calling process. The helper runs ``python -m shared_core.documents.loaders.isolated``: it
takes files on standard input and answers on standard output (``send`` and ``receive``) until its input ends
or it has been idle for a while.

In a process of its own, a file on which a parser hangs, fills the memory or crashes costs only itself. The process is
kept between files, ends by itself when it is idle or its parent is gone, and is restarted after a failure. A message is
two lengths (8 bytes each), a JSON object and the file's bytes; nothing that the helper sends is ever executed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from shared_core.documents.loaders.extracted import Budget, Extracted, Heading, Page, Problem, Segment, too_slow
from shared_core.errors import DocumentError, MissingDependencyError, SelfReflectError

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


_PACKAGES = {
    "pdf": ("pypdfium2",),
    "xls": ("xlrd",),
    "rst": ("docutils", "lxml"),
    **dict.fromkeys(("docx", "pptx", "xlsx", "doc", "ppt"), ("office_oxide", "lxml")),
    **dict.fromkeys(("epub", "rtf", "odt", "odp", "ods"), ("lxml",)),
}
_helper = Helper("shared_core.documents.loaders.isolated")


def read_isolated(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a file in the helper process.

    Args:
        kind: a value of ``loaders.formats.BINARY``, or ``rst``.
        budget: the time it may take; the helper is killed when it is used up.

    Raises:
        DocumentError: the file cannot be read, or not within the limits of time and memory (1 GiB of address space).
        MissingDependencyError: the package that reads this format is not installed.
    """
    for package in _PACKAGES[kind]:
        if importlib.util.find_spec(package) is None:
            name = package.replace("_", "-")
            raise MissingDependencyError(name, extra="documents", purpose=f"Reading {kind.upper()} files")
    if getattr(sys, "frozen", False):  # a program packed into one file has no interpreter to start
        return _reader(kind)(data, budget)
    reply = _helper.ask(data, budget, kind)
    if "error" in reply:
        raise DocumentError(str(reply["error"]), hint=str(reply.get("hint", "")))
    return Extracted(
        str(reply["text"]),
        str(reply["title"]),
        tuple(Heading(*entry) for entry in reply["headings"]),
        segments=tuple(Segment(*entry) for entry in reply["segments"]),
        problems=tuple(Problem(*entry) for entry in reply["problems"]),
        pages=tuple(Page(*entry) for entry in reply["pages"]),
    )


def _reader(kind: str) -> Callable[[bytes, Budget], Extracted]:
    # Imported here, so that a helper loads only the parsers it uses.
    if kind == "pdf":
        from shared_core.documents.loaders.pdf import read_pdf

        return read_pdf
    if kind == "rst":
        from shared_core.documents.loaders.rst import read_rst

        return read_rst
    if kind == "rtf":
        from shared_core.documents.loaders.rtf import read_rtf

        return read_rtf
    if kind in ("odt", "odp", "ods"):
        from shared_core.documents.loaders.opendocument import read_opendocument

        return partial(read_opendocument, kind)
    if kind == "xlsx":
        from shared_core.documents.loaders.sheets import read_xlsx

        return read_xlsx
    if kind in ("doc", "ppt", "xls"):
        from shared_core.documents.loaders.office97 import read_office97, read_xls

        return read_xls if kind == "xls" else partial(read_office97, kind)
    from shared_core.documents.loaders.office import read_epub, read_office

    return read_epub if kind == "epub" else partial(read_office, kind)


def _serve() -> None:
    _limit_memory()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library that prints must not corrupt the answers
    while True:
        watch = threading.Timer(IDLE_SECONDS, os._exit, (0,))
        watch.daemon = True
        watch.start()
        received = receive(sys.stdin.buffer)
        watch.cancel()
        if received is None:
            return
        values, data = received
        budget = Budget(float(values["seconds"]))
        budget.seconds = float(values["limit"])  # for error messages: some of the time may be used up already
        send(answers, _answer(str(values["kind"]), data, budget))


def _answer(kind: str, data: bytes, budget: Budget) -> dict[str, Any]:
    try:
        found = _reader(kind)(data, budget)
    except SelfReflectError as error:
        return {"error": error.message, "hint": error.hint}
    except MemoryError:
        raise  # the calling process reports that the helper died
    except Exception as error:  # our own bug, to be told apart from a crash of the parser
        return {"error": f"It cannot be read: {type(error).__name__}: {error}", "hint": "Export it to text or PDF."}
    segments = [(part.start, part.end, part.title, dict(part.metadata)) for part in found.segments]
    fields = {name: getattr(found, name) for name in ("text", "title", "headings", "problems", "pages")}
    return {**fields, "segments": segments}


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = min(value for value in (MEMORY_BYTES, soft, hard) if value != resource.RLIM_INFINITY)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here and needs no dump
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    _serve()
