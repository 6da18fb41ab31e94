"""The folder of a training: what it was begun with, its checkpoints, and what came of it.

``run.json`` is written first and ``training.json`` last. In between, a training that was ended at any moment goes on
from its last whole checkpoint when it is asked for again with the same options on the same rows; with others it is
refused. A checkpoint counts once it holds the mark that is set behind everything else in it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared_core.errors import DocumentError, InputError
from shared_core.support.files import replace_file

__all__ = ["CARD", "CHECKPOINTS", "RUN", "TrainingFolder"]

CARD = "training.json"
"""Name of the file that describes a training, in its output folder."""
RUN = "run.json"
CHECKPOINTS = "checkpoints"
_MARK = "complete.json"
_LOCK = ".training.lock"
_NAME = re.compile(r"checkpoint-(\d+)")


class TrainingFolder:
    """Where a training writes.

    Raises:
        InputError: it holds something else, or a training that is done.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and (not self.path.is_dir() or self._taken()):
            raise InputError(f"{self.path} is in use.", hint="Give an output folder that does not exist or is empty.")

    def _taken(self) -> bool:
        names = {p.name for p in self.path.iterdir()} - {_LOCK}
        return bool(names) and (RUN not in names or CARD in names)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / CHECKPOINTS

    def begin(self, card: Mapping[str, Any]) -> None:
        """Write down what the training is begun with, or compare it with what it was begun with.

        Raises:
            InputError: it was begun with something else.
            DocumentError: the folder cannot be used.
        """
        plain = json.loads(json.dumps(card, default=str))
        file = self.path / RUN
        try:
            if not file.exists():
                with replace_file(file) as out:
                    out.write(json.dumps(plain, indent=2, ensure_ascii=False) + "\n")
                return
            before = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise DocumentError(f"{self.path} cannot be used: {error.strerror or error}.") from error
        except ValueError as error:
            raise InputError(f"{file} is no JSON: {error}.", hint="Give a folder of its own.") from error
        different = [n for n in sorted({*before, *plain}) if before.get(n) != plain.get(n)]
        if different:
            told = "; ".join(f"{n} {before.get(n)!r}, not {plain.get(n)!r}" for n in different)
            raise InputError(
                f"The training in {self.path} was begun with {told}.",
                hint="Go on with the same options and rows, or give a folder of its own.",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time writes here.

        Raises:
            InputError: another one does.
            DocumentError: the folder cannot be made.
        """
        from filelock import FileLock, Timeout

        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / _LOCK)
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(f"Another training writes to {self.path}.", hint="Wait for it, or end it.") from error
        except OSError as error:
            raise DocumentError(f"{self.path} cannot be used: {error.strerror or error}.") from error
        try:
            yield
        finally:
            (self.path / _LOCK).unlink(missing_ok=True)
            lock.release()

    def mark(self, step: int) -> None:
        """Everything of the checkpoint of this step is written."""
        folder = self.checkpoints / f"checkpoint-{step}"
        with replace_file(folder / _MARK) as file:
            file.write(json.dumps({"step": step}) + "\n")

    def last(self) -> Path | None:
        """The last whole checkpoint. Those that were torn are deleted."""
        whole: dict[int, Path] = {}
        for path in self.checkpoints.glob("checkpoint-*"):
            name = _NAME.fullmatch(path.name)
            if name and (path / _MARK).exists():
                whole[int(name[1])] = path
            else:
                shutil.rmtree(path, ignore_errors=True)
        return whole[max(whole)] if whole else None

    def finish(self, card: Mapping[str, Any]) -> None:
        """Write the card: the training is done, and needs its checkpoints no more."""
        with replace_file(self.path / CARD) as file:
            file.write(json.dumps(card, indent=2, ensure_ascii=False) + "\n")
        shutil.rmtree(self.checkpoints, ignore_errors=True)
