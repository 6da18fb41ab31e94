"""Resumable run logs: the rows of a long run, on disk as they are made.

A run that asks a model thousands of questions may be killed at any moment. ``RunLog`` appends its rows to a file of
JSON lines and flushes each batch to the disk before the next one starts. A line torn by a crash is cut off, and only
one process writes at a time. A card beside the file records the configurations that the rows were made with: the same
run goes on where it stopped, and another configuration is refused by the value that differs.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from shared_core.errors import DocumentError, InputError, StoreError
from shared_core.support.files import replace_file

__all__ = ["RUN", "Batches", "Configuration", "Progress", "RunLog", "differences", "digest_of_values", "require_same"]

E = TypeVar("E")
Row = Mapping[str, Any]
"""A line of a log: plain values, ready for JSON."""
Configuration = Mapping[str, Any]
"""Everything that rows depend on, by name: plain values, nested as they are."""
Batches = Sequence[Sequence[str]]
"""Keys of the rows to make, batch by batch."""
Progress = Callable[[int, int], None]
"""``progress(done, total)``, called after every batch."""

RUN = "run"
"""Name of the configuration in a log that has only one."""
_FORMAT, _VERSION = "selfreflect-run", 2
_OLD_FORMAT, _OLD_VERSION = "selfreflect-evaluation", 1  # 0.1.0's evaluations; its other cards were bare configurations
_OWN_FOLDER = "Give a folder of its own: --output DIR"
_BLOCK = 4096  # bytes read at a time when looking for the last line break
_log = logging.getLogger(__name__)


class RunLog:
    """A file of rows that grows while a run works, bound to the configurations that its rows were made with.

    Args:
        path: file of JSON lines; its folder is made when something is written. ``None`` keeps rows in memory.
        key: name of the field that identifies a row. If empty, rows are values of any kind, stored with their key.
        card: name of the file beside it that records configurations. Empty where the keys hold a digest of them.

    NaN and infinity are written as Python reads them, which other readers of JSON may refuse.

    >>> log = RunLog(key="id")
    >>> log.fill(["a", "b"], lambda batches: (({k: {"id": k} for k in batch}, {}) for batch in batches), batch_size=1)
    {}
    >>> log.rows["b"]
    {'id': 'b'}
    """

    def __init__(self, path: str | Path | None = None, *, key: str = "", card: str = "") -> None:
        self.path = None if path is None else Path(path)
        self.card = self.path.with_name(card) if self.path is not None and card else None
        self.memo: dict[str, dict[Hashable, object]] = {}  # shared by the steps of one process; never written
        self._key = key
        self._rows: dict[str, Any] | None = None if self.path is not None else {}
        self._held = False

    # --- rows --------------------------------------------------------------------------------------------------

    def read(self) -> list[dict[str, Any]]:
        """Read every line in order, without a torn last one; nothing where there is no file yet.

        Raises:
            InputError: a line is not a JSON object.
            DocumentError: the file cannot be read.
        """
        if self.path is None or not self.path.exists():
            return []
        with self._explained("read"):
            content = self.path.read_bytes()
        found: list[dict[str, Any]] = []
        for number, line in enumerate(content[: content.rfind(b"\n") + 1].split(b"\n")[:-1], 1):
            try:
                found.append(dict(json.loads(line)))
            except (ValueError, TypeError) as error:
                raise self.damaged(number, f"not a JSON object ({error})") from error
        return found

    def damaged(self, number: int, why: str) -> InputError:
        """Make the error for a line that this log cannot have written."""
        hint = f"Something else wrote to it. Move it away (mv {self.path} {self.path}.old) and run the command again."
        return InputError(f"{self.path}, line {number}: {why}.", hint=hint)

    @property
    def rows(self) -> dict[str, Any]:
        """Rows by key, the last one of each; errors as ``read``, and InputError for a line without a key."""
        if self._rows is None:
            rows: dict[str, Any] = {}
            for number, line in enumerate(self.read(), 1):
                try:
                    rows[str(line[self._key or "key"])] = line if self._key else line["row"]
                except KeyError as error:
                    raise self.damaged(number, f"a row without {error}") from error
            self._rows = rows
        return self._rows

    def add(self, rows: Mapping[str, Any]) -> None:
        """Append rows by their keys; errors as ``append``."""
        self.rows.update(rows)
        self.append(list(rows.values()) if self._key else [{"key": k, "row": row} for k, row in rows.items()])

    def append(self, rows: Sequence[Row]) -> None:
        """Append lines, and return once they are on the disk. Its cost does not grow with the file.

        Raises:
            InputError: another process is writing.
            DocumentError: the file cannot be written; StoreError if the disk is full.
        """
        if self.path is None or not rows:
            return
        # A model's reply may hold half a surrogate pair, which is no reason to lose the rest of the batch.
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        with self._lock(), self._explained("written"), self.path.open("ab+") as file:
            _cut_torn_line(file)
            file.write(text.encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())

    def replace(self, rows: Iterable[Row]) -> None:
        """Write these lines in place of everything that was there; errors as ``append``."""
        assert self.path is not None
        with self._lock(), self._explained("written"), replace_file(self.path) as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        self._rows = None

    def remove(self) -> None:
        """Remove the log, its card and its lock, where there are any. DocumentError if that is not possible."""
        if self.path is not None:
            with self._explained("removed"):
                for path in (self.path, self._lock_path, *([self.card] if self.card is not None else [])):
                    path.unlink(missing_ok=True)
        self._rows = None if self.path is not None else {}

    def fill(
        self,
        keys: Iterable[str],
        work: Callable[[Batches], Generator[tuple[Mapping[str, Any], Mapping[str, E]], None, None]],
        *,
        batch_size: int,
        progress: Progress | None = None,
        grow: bool = False,
    ) -> dict[str, E]:
        """Make every row that the log does not hold yet, batch by batch.

        Args:
            keys: of all the rows that are wanted.
            work: takes batches of keys and yields, for each batch that is done, its rows and its errors by key. It may
                yield them in any order, and stop early.
            batch_size: keys of a batch, at least 1.
            progress: called before the first batch and after every one; rows of earlier runs count as done.
            grow: begin with batches of 1, 2, 4, …, so that progress shows early.

        Returns:
            The errors by key. They are not logged, so the next run tries these keys again.

        Raises:
            InputError: a batch size below 1, or another process is writing.
            DocumentError: the file cannot be written; StoreError if the disk is full.
        """
        if batch_size < 1:
            raise InputError(f"A batch needs at least one question, not {batch_size}.")
        with self.locked():
            wanted = list(dict.fromkeys(keys))
            todo = [key for key in wanted if key not in self.rows]
            done, failed = len(wanted) - len(todo), dict[str, E]()
            batches: list[list[str]] = []
            size, start = (1 if grow else batch_size), 0
            while start < len(todo):
                batches.append(todo[start : start + size])
                start, size = start + size, min(batch_size, 2 * size)
            if progress is not None and todo:
                progress(done, len(wanted))
            with closing(work(batches)) as results:  # what it holds (workers, connections) is freed after an error, too
                for rows, errors in results:
                    self.add(rows)
                    failed.update(errors)
                    done += len(rows) + len(errors)
                    if progress is not None:
                        progress(done, len(wanted))
        return failed

    # --- one process at a time ---------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing until the ``with`` block ends; rows that they wrote before are read.

        Raises:
            InputError: another process is writing.
            DocumentError: the folder cannot be used.
        """
        if self.path is not None and not self._held:
            self._rows = None
        with self._lock():
            yield

    @contextmanager
    def _lock(self) -> Iterator[None]:
        if self.path is None or self._held:
            yield
            return
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock_path)
        try:
            with self._explained("used"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire(timeout=0)
        except Timeout as error:
            hint = "Wait for it, or end it."
            raise InputError(f"Another run is writing to {self.path.parent}.", hint=hint) from error
        self._held = True
        try:
            yield
        finally:
            self._held = False
            lock.release()

    @property
    def _lock_path(self) -> Path:
        assert self.path is not None
        return self.path.with_name(f".{self.path.stem}.lock")

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError:  # of the lock; an OSError, too
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # a failure; the folder is right
                hint = "Free some space and run the same again; what was done before is kept."
                raise StoreError(f"{self.path} cannot be {verb}: the disk is full.", hint=hint) from error
            why = error.strerror or error
            raise DocumentError(f"{self.path} cannot be {verb}: {why}.", hint=_OWN_FOLDER) from error

    # --- configurations ----------------------------------------------------------------------------------------

    def description(self) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
        """Read the card: configurations by name, and the sessions that worked here. Both are empty without a card.

        Raises:
            InputError: the card is damaged, or of a later version.
            DocumentError: it cannot be read.
        """
        return self._read_card()[:2]

    def check(self, configurations: Mapping[str, Configuration]) -> None:
        """Refuse what differs from the card in the values given; used before anything heavy is loaded.

        The InputError names the value.
        """
        assert self.card is not None
        before = self._read_card()[0]
        for name, now in _plain(configurations).items():
            known = {n: value for n, value in before.get(name, {}).items() if n in now}
            require_same({name: known}, {name: {n: now[n] for n in known}}, str(self.card.parent))

    def bind(
        self,
        configurations: Mapping[str, Configuration],
        session: Mapping[str, Any] | None = None,
        *,
        upgrade: Callable[[dict[str, Any]], Configuration] = dict,
    ) -> None:
        """Record the configurations that rows are about to be made with, or refuse others of the same names.

        Args:
            configurations: by name; ``{RUN: …}`` where there is only one.
            session: facts about this process, added to those of earlier ones.
            upgrade: turns a configuration that 0.1.0 wrote into today's form. Values that it did not record are
                recorded now, with a warning.

        Raises:
            InputError: the log was made with another configuration (the message names the value that differs), or
                holds rows without a card.
            DocumentError: the folder cannot be used.
        """
        assert self.path is not None
        assert self.card is not None
        plain = _plain(configurations)
        with self._lock():
            before, sessions, bare = self._read_card()
            if not self.card.exists() and self.path.exists() and self.path.stat().st_size:
                raise InputError(f"{self.path} has no {self.card.name} beside it.", hint=_OWN_FOLDER)
            missing: list[str] = []
            if bare:
                old = _plain({RUN: upgrade(before[RUN])})[RUN]
                missing = sorted(name for name in plain[RUN].keys() - old.keys() if plain[RUN][name] is not None)
                before = {RUN: {**plain[RUN], **old}}
            require_same(before, plain, str(self.card.parent))
            if missing:
                message = "%s was begun by selfreflect 0.1.0, which did not record %s: going on as if unchanged."
                _log.warning(message, str(self.card.parent), " and ".join(missing))
            self.describe({**before, **plain}, sessions if session is None else [*sessions, session])

    def _read_card(self) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]], bool]:
        """Configurations, sessions, and whether it is a bare configuration of 0.1.0."""
        if self.card is None or not self.card.exists():
            return {}, [], False
        with self._explained("used"):
            content = self.card.read_text(encoding="utf-8")
        try:
            card = json.loads(content)
            if isinstance(card, dict) and "format" not in card:
                return {RUN: card}, [], True
            configurations, sessions = dict(card["configurations"]), list(card["sessions"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.card} does not describe a run ({error}).", hint=_OWN_FOLDER) from error
        if (card["format"], card.get("version")) not in ((_FORMAT, _VERSION), (_OLD_FORMAT, _OLD_VERSION)):
            of = f"{card['format']!r}, version {card.get('version')!r}"
            raise InputError(f"{self.card} has the format {of}, which is unknown here.", hint=f"Update. {_OWN_FOLDER}")
        return configurations, sessions, False

    def describe(self, configurations: Mapping[str, Configuration], sessions: Sequence[Mapping[str, Any]] = ()) -> None:
        """Write the card, in place of the one that was there. DocumentError if that is not possible."""
        assert self.card is not None
        card = {"format": _FORMAT, "version": _VERSION, "configurations": configurations, "sessions": sessions}
        with self._explained("written"), replace_file(self.card) as file:
            file.write(json.dumps(card, indent=2, ensure_ascii=False, default=str) + "\n")


def require_same(before: Mapping[str, Configuration], now: Mapping[str, Configuration], where: str) -> None:
    """Compare configurations of the same names; an InputError names the first value that differs."""
    for name in sorted(before.keys() & now.keys()):
        found = differences(before[name], now[name])
        if found:
            others = len(found) - 1
            more = f" (and {others} more such value{'s' if others > 1 else ''})" if others else ""
            run = "run" if name == RUN else f"run {name!r}"
            raise InputError(f"The {run} in {where} was made with {found[0]}{more}.", hint=_OWN_FOLDER)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """List the values in which two configurations differ, as ``settings.top_k 5, not 3``."""
    found: list[str] = []
    for name in sorted({*before, *now}):
        one, other = before.get(name), now.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += differences(one, other, f"{prefix}{name}.")
        elif one != other:
            found.append(f"{prefix}{name} {_short(one)}, not {_short(other)}")
    return found


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:40]}…"


def digest_of_values(values: Any) -> str:
    """Hash plain values (SHA-256, hexadecimal), whatever the order of their names."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def _plain(configurations: Mapping[str, Configuration]) -> dict[str, dict[str, Any]]:
    """Turn tuples into lists and the like, as a card gives them back."""
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(configurations, default=str))
    return plain


def _cut_torn_line(file: BinaryIO) -> None:
    """Truncate a file behind its last line break, which is looked for from the end."""
    keep = end = file.seek(0, os.SEEK_END)
    while keep > 0:
        start = max(0, keep - _BLOCK)
        file.seek(start)
        newline = file.read(keep - start).rfind(b"\n")
        keep = start + newline + 1
        if newline >= 0:
            break
    if keep < end:
        file.truncate(keep)
