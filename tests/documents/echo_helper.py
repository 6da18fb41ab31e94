"""A helper process for tests: says how long each file is, and does on request what a bad one makes a parser do."""

from __future__ import annotations

import os
import sys
import time

from shared_core.documents.loaders.isolated import receive, send

if __name__ == "__main__":
    while (received := receive(sys.stdin.buffer)) is not None:
        data = received[1]
        if data == b"die":
            os.abort()
        if data == b"sleep":
            time.sleep(60)
        send(sys.stdout.buffer, {"length": len(data), "process": os.getpid()})
        if data == b"leave":
            sys.exit(0)
