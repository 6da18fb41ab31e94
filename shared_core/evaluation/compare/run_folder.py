"""The folder of an evaluation: every answer as it comes, and what it was made with. Killed at any moment, it goes on.

``rows.jsonl`` has a line for each question and configuration, on the disk before the next batch is asked. ``run.json``
has the description of every configuration by name, and an entry for each session that worked here: when, which
questions, which shard, which versions. Two configurations of one name are refused unless they are the same; of other
names they are kept apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core.errors import DocumentError, InputError
from shared_core.evaluation.compare.provenance import differences
from shared_core.evaluation.compare.rows import Row
from shared_core.support.files import replace_file
from shared_core.support.run_log import Journal

ROWS, CARD = "rows.jsonl", "run.json"
FORMAT, VERSION = "selfreflect-evaluation", 1
_OWN_FOLDER = "Give a folder of its own: -o DIR"


@dataclass(frozen=True, slots=True)
class Run:
    """What a folder holds.

    Attributes:
        configurations: description by name.
        sessions: what worked on it, in order.
        rows: of all configurations, in the order in which they were written; of a question that failed and was asked
            again, both.
    """

    configurations: Mapping[str, Mapping[str, Any]]
    sessions: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]


def read_run(folder: str | Path) -> Run:
    """What is in the folder of a run.

    Raises:
        InputError: it is none, or is damaged.
        DocumentError: it cannot be read.
    """
    folder = Path(folder)
    card = _read_card(folder)
    if card is None:
        raise InputError(f"{folder} is no folder of an evaluation.", hint="Name one that selfreflect eval -o made.")
    return Run(card["configurations"], card["sessions"], _read_rows(folder))


@contextmanager
def continue_run(
    folder: str | Path, configurations: Mapping[str, Mapping[str, Any]], session: Mapping[str, Any]
) -> Iterator[tuple[Run, Callable[[Sequence[Row]], None]]]:
    """What is there already, and a function that adds rows and returns once they are on the disk.

    Args:
        folder: made if it is not there.
        configurations: what is going to be asked; added to what was.
        session: what is known of this one; added to the others.

    Raises:
        InputError: a configuration of that name was another, other files are there, the folder is damaged, or another
            process is writing to it.
        DocumentError: it cannot be read or written.
    """
    folder = Path(folder)
    _make(folder)
    plain = json.loads(json.dumps(configurations, default=str))
    with Journal(folder / ROWS).writing() as write:
        card = _read_card(folder) or {"configurations": {}, "sessions": []}
        rows = _read_rows(folder)
        strange = sorted({row.configuration for row in rows} - card["configurations"].keys())
        if strange:
            raise InputError(f"{folder} has answers of {strange[0]!r}, which {CARD} does not know.", hint=_OWN_FOLDER)
        require_same(card["configurations"], plain, str(folder))
        run = Run({**card["configurations"], **plain}, [*card["sessions"], dict(session)], rows)
        _write_card(folder, run)
        yield run, lambda rows: write([row.to_dict() for row in rows])


def write_run(folder: str | Path, run: Run) -> None:
    """Put a whole run into a folder, in place of what was there; errors as ``continue_run``."""
    folder = Path(folder)
    _make(folder)
    with Journal(folder / ROWS).writing(), replace_file(folder / ROWS) as file:
        file.writelines(json.dumps(row.to_dict(), ensure_ascii=True, allow_nan=False) + "\n" for row in run.rows)
    _write_card(folder, run)


def require_same(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]], where: str) -> None:
    """InputError if a configuration in both is not the same; it says in what they differ."""
    for name in before.keys() & now.keys():
        found = differences(before[name], now[name])
        if found:
            told = "; ".join(found[:5]) + ("; …" if len(found) > 5 else "")
            raise InputError(f"In {where} the configuration {name!r} has {told}.", hint=_OWN_FOLDER)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    except OSError as error:
        raise DocumentError(f"{folder} cannot be used: {error.strerror or error}.", hint=_OWN_FOLDER) from error
    if others and CARD not in others and others != [ROWS]:  # rows alone: killed before the card was written
        raise InputError(f"{folder} is no folder of an evaluation and holds {others[0]}.", hint=_OWN_FOLDER)


def _read_card(folder: Path) -> dict[str, Any] | None:
    path = folder / CARD
    try:
        if not path.exists():
            return None
        card = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}.", hint=_OWN_FOLDER) from error
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not isinstance(card, dict) or (card.get("format"), card.get("version")) != (FORMAT, VERSION):
        raise InputError(f"{path} describes no evaluation of version {VERSION}.", hint=_OWN_FOLDER)
    return card


def _write_card(folder: Path, run: Run) -> None:
    card = {
        "format": FORMAT,
        "version": VERSION,
        "configurations": run.configurations,
        "sessions": run.sessions,
    }
    with replace_file(folder / CARD) as file:
        file.write(json.dumps(card, indent=2, ensure_ascii=False, default=str) + "\n")


def _read_rows(folder: Path) -> list[Row]:
    journal = Journal(folder / ROWS)
    found: list[Row] = []
    for number, entry in enumerate(journal.read(), 1):
        try:
            found.append(Row.from_dict(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{journal.path}, line {number}: no answer ({error}).", hint=_OWN_FOLDER) from error
    return found
