"""Read PDFs, office documents, books and reStructuredText in a helper process, where time and memory can be bounded.

``read_isolated`` runs in the calling process. The helper runs ``python -m shared_core.documents.loaders.isolated``: it
takes files on standard input and answers on standard output (``process.py`` defines the messages) until its input ends
or it has been idle for a while.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from shared_core.documents.loaders.extracted import Extracted, Heading, Page, Problem, Segment
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.process import IDLE_SECONDS, MEMORY_BYTES, Helper, receive, send
from shared_core.errors import DocumentError, MissingDependencyError, SelfReflectError

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
