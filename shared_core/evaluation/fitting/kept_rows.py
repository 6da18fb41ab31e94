"""Rows of a long run, kept as they come: what was asked is not asked again, by the next purpose or after a stop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import InputError
from shared_core.evaluation.dataset import Question
from shared_core.support.run_log import Journal

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""``progress(done, total)`` after every batch."""


class KeptRows:
    """What came of questions, by what was asked of them and in which configuration.

    Args:
        path: a ``Journal``, read now and added to; ``None`` keeps them in memory only.

    Attributes:
        path: as given.
        read: how many rows the file held.

    Raises:
        InputError: the file cannot be read or written, or is no such file.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self._journal = Journal(self.path, nan=True) if self.path is not None else None
        self._rows: dict[str, Any] = {}
        if self._journal is not None:
            self._rows = _read(self._journal)
        self.read = len(self._rows)
        self._measured: dict[str, dict[Hashable, object]] = {}

    def find(self, key: str) -> Any:
        """The row of that key, ``None`` if there is none."""
        return self._rows.get(key)

    def add(self, rows: Mapping[str, Any]) -> None:
        """Keep rows by their keys. InputError if the file cannot be written."""
        self._rows.update(rows)
        if self._journal is not None and rows:
            with _telling(self._journal.path, "written"), self._journal.writing() as write:
                write([{"key": key, "row": row} for key, row in rows.items()])

    def measured(self, configuration: str) -> dict[Hashable, object]:
        """Uncertainties measured so far in that configuration (``digest_of``); in memory only, and filled by others."""
        return self._measured.setdefault(configuration, {})

    def drop(self) -> None:
        """The run is done: remove the file."""
        if self._journal is not None:
            with _telling(self._journal.path, "removed"):
                self._journal.remove()


def _read(journal: Journal) -> dict[str, Any]:
    with _telling(journal.path, "read"):
        try:
            return {str(entry["key"]): entry["row"] for entry in journal.read()}
        except (InputError, KeyError) as error:
            why = error.message if isinstance(error, InputError) else f"{journal.path} holds no rows of a calibration."
            raise InputError(why, hint="Delete or move it; what it held is asked anew.") from error


@contextmanager
def _telling(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be {what}: {error.strerror or error}.") from error


def digest_of(engine: SelfReflectEngine, more: Mapping[str, Any] | None = None) -> str:
    """Of all that decides what the engine says: models, parts, settings, calibrations applied; and of ``more``."""
    told = {
        "binding": engine.claims_binding,
        "settings": engine.settings.model_dump(mode="json", exclude={"calibration"}),
        "calibrations": {n: c.to_dict() for n, c in engine.context.every_calibration.items()},
        "more": more,
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def ask_each(
    questions: Sequence[Question],
    ask: Callable[[Sequence[Question]], Sequence[T | Exception]],
    *,
    kept: KeptRows,
    part: str,
    dump: Callable[[T], Any],
    load: Callable[[Any], T],
    together: int,
    progress: Progress | None = None,
) -> list[T | Exception]:
    """What ``ask`` says of each question, in batches; what is kept already is not asked.

    Args:
        questions: to ask.
        ask: says of each of a batch what came of it, or its error, which is not kept.
        kept: where rows are found and put.
        part: names what is asked and the configuration, so that nothing else is taken for it.
        dump, load: to plain values and back.
        together: questions of a batch.
        progress: told after every batch.
    """
    keys = [_key(part, q) for q in questions]
    found: dict[int, T | Exception] = {i: load(row) for i, k in enumerate(keys) if (row := kept.find(k)) is not None}
    open_ = [i for i in range(len(questions)) if i not in found]
    done = len(questions) - len(open_)
    for start in range(0, len(open_), together):
        batch = open_[start : start + together]
        made = dict(zip(batch, ask([questions[i] for i in batch]), strict=True))
        found |= made
        kept.add({keys[i]: dump(result) for i, result in made.items() if not isinstance(result, Exception)})
        done += len(batch)
        if progress is not None:
            progress(done, len(questions))
    return [found[i] for i in range(len(questions))]


def _key(part: str, question: Question) -> str:
    told = [part, question.question, question.answers, question.answerable is False]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:24]
