"""The helper process that reads PDFs: ``python -m shared_core.documents.loaders.pdf_helper MEMORY_BYTES IDLE_SECONDS``.

It takes files on standard input and answers on standard output (``process.py`` has the form), until its input ends or
nothing comes for a while.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.pdf import read_pdf, to_message
from shared_core.documents.loaders.process import receive, send
from shared_core.errors import SelfReflectError


def main() -> None:
    """Serve until the input ends."""
    _limit_memory(int(sys.argv[1]))
    idle = float(sys.argv[2])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library that prints must not garble the answers
    while True:
        watch = threading.Timer(idle, os._exit, (0,))
        watch.daemon = True
        watch.start()
        received = receive(sys.stdin.buffer)
        watch.cancel()
        if received is None:
            return
        values, data = received
        send(answers, _answer(data, float(values["seconds"])))


def _answer(data: bytes, seconds: float) -> dict[str, Any]:
    try:
        return to_message(read_pdf(data, Budget(seconds)))
    except SelfReflectError as error:
        return {"error": error.message, "hint": error.hint}
    except MemoryError:
        raise  # the parent says what ran out
    except Exception as error:  # a fault in here must be told apart from a crash
        return {"error": f"It cannot be read: {type(error).__name__}: {error}", "hint": "Print it to a new PDF."}


def _limit_memory(limit: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = min(value for value in (limit, soft, hard) if value != resource.RLIM_INFINITY)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here and needs no dump
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    main()
