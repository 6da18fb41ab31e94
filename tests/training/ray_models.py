"""Scripted models that go to other processes: these find them by the name of this module."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from shared_core.errors import GenerationError
from tests.pipelines.research_scripts import Model, kind

LIT, SANK = "The lamp was lit in 1871.", "The lamp sank in 1900."


class Numbered(Model):
    """Writes another answer to each question, refuses lamp 5, and leaves a file behind each time it writes."""

    seen: str = ""
    processes: int = 1

    def _reply(self, request: Any) -> Any:
        if kind(request) != "write":
            return super()._reply(request)
        number = request.prompt.text.split("lamp ")[1].split()[0]
        if self.seen:
            (Path(self.seen) / f"{number}.{os.getpid()}").touch()
            self._wait_for_others()
        if number == "5":
            return GenerationError("Not this one.")
        return [f"Lamp {number} was lit in 187{number}. {SANK}", LIT][: request.params.n]

    def _wait_for_others(self) -> None:
        """Until as many processes have been at it as are wanted: else a quick one may do all before another starts."""
        end = time.monotonic() + 120
        while len({p.suffix for p in Path(self.seen).iterdir()}) < self.processes and time.monotonic() < end:
            time.sleep(0.05)


class Broken(Model):
    def _reply(self, request: Any) -> Any:
        os._exit(1)
