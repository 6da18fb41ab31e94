"""The output folder of a training: its configuration, its checkpoints, and its result.

``run.json`` is written first and ``training.json`` last. In between, a training that was ended at any moment resumes
from its last whole checkpoint when the same command is given again; other settings, weights or rows are refused. A
checkpoint counts once it holds the mark that is written after everything else in it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared_core.errors import InputError, SelfReflectError
from shared_core.support.files import replace_file
from shared_core.support.regex import lazy_regex
from shared_core.support.run_log import RUN, RunLog

CARD = "training.json"
"""Name of the file that describes a training, in its output folder."""
CHECKPOINTS = "checkpoints"
_RUN, _MARK = "run.json", "complete.json"
_ALL_BUT_FULL = 2**20  # bytes left where a write has just failed
_NAME = lazy_regex(r"checkpoint-(\d+)")


@contextmanager
def tells_full_disk(path: Path) -> Iterator[None]:
    """Turn what libraries raise when they write to a full disk (safetensors an error of its own) into an OSError."""
    try:
        yield
    except (OSError, SelfReflectError):
        raise
    except Exception as error:
        if "os error 28" in str(error) or shutil.disk_usage(path).free < _ALL_BUT_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


class TrainingFolder:
    """An output folder that does not exist, is empty, or holds an interrupted training.

    Raises:
        InputError: it holds something else, or a finished training.

    >>> TrainingFolder("/no/such/folder").last()
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.log = RunLog(self.path / "run.jsonl", card=_RUN)  # only its card and its lock are used
        if self.path.exists() and (not self.path.is_dir() or self._taken()):
            raise InputError(f"{self.path} is in use.", hint="Give an output folder that does not exist or is empty.")

    @staticmethod
    def description(path: Path) -> dict[str, Any]:
        """Read the configuration of the training that was begun in a folder; empty if there was none."""
        return RunLog(path / "run.jsonl", card=_RUN).description()[0].get(RUN, {})

    def _taken(self) -> bool:
        names = {p.name for p in self.path.iterdir() if not p.name.startswith(".")}
        if not self.checkpoints.is_dir() or not any(self.checkpoints.iterdir()):
            names.discard(CHECKPOINTS)  # a trainer makes it while it is set up, before there is a run
        return bool(names) and (_RUN not in names or CARD in names)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / CHECKPOINTS

    def mark(self, step: int) -> None:
        """Mark the checkpoint of a step as whole."""
        with replace_file(self.checkpoints / f"checkpoint-{step}" / _MARK) as file:
            file.write(json.dumps({"step": step}) + "\n")

    def last(self) -> Path | None:
        """Find the last whole checkpoint, and delete those that were torn."""
        whole: dict[int, Path] = {}
        for path in self.checkpoints.glob("checkpoint-*"):
            name = _NAME.fullmatch(path.name)
            if name and (path / _MARK).exists():
                whole[int(name[1])] = path
            else:
                shutil.rmtree(path, ignore_errors=True)
        return whole[max(whole)] if whole else None

    def finish(self, card: Mapping[str, Any]) -> None:
        """Write the card of a finished training, and delete its checkpoints and its lock."""
        with replace_file(self.path / CARD) as file:
            file.write(json.dumps(card, indent=2, ensure_ascii=False) + "\n")
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        (self.path / ".run.lock").unlink(missing_ok=True)
