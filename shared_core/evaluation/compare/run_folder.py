"""The folder of an evaluation: a run log of every answer, and of what each system was.

``rows.jsonl`` has a line for each question and configuration, on the disk before the next batch is asked. ``run.json``
has the description of every configuration by name, and an entry for each session that worked here: when, which
questions, which shard, which versions. Two configurations of one name are refused unless they are the same; those of
other names are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core.errors import DocumentError, InputError
from shared_core.evaluation.compare.outcomes import ComparisonRow
from shared_core.settings import SelfReflectSettings
from shared_core.support.run_log import Configuration, RunLog

ROWS, CARD = "rows.jsonl", "run.json"
_OWN_FOLDER = "Give a folder of its own: -o DIR"


@dataclass(frozen=True, slots=True)
class Run:
    """The contents of a run's folder.

    Attributes:
        configurations: description by name.
        sessions: what worked on it, in order.
        rows: of all configurations, in the order in which they were written. A question that failed and was asked
            again has both.
    """

    configurations: Mapping[str, Configuration]
    sessions: Sequence[Mapping[str, Any]]
    rows: Sequence[ComparisonRow]


def read_run(folder: str | Path) -> Run:
    """Read the folder of a run.

    Raises:
        InputError: it is not a run's folder, or is damaged.
        DocumentError: it cannot be read.
    """
    log = _log_of(Path(folder))
    configurations, sessions = log.description()
    if not configurations:
        hint = "Name one that selfreflect eval -o made."
        raise InputError(f"{folder} is not the folder of an evaluation.", hint=hint)
    return Run(_with_present_names(configurations), sessions, _read_rows(log))


@contextmanager
def continue_run(
    folder: str | Path, configurations: Mapping[str, Configuration], session: Mapping[str, Any]
) -> Iterator[tuple[Run, Callable[[Sequence[ComparisonRow]], None]]]:
    """Open a run's folder to add to it. Gives what is there, and a function that adds rows.

    Args:
        folder: made if it is not there.
        configurations: of the systems that are about to be asked; added to those before.
        session: facts about this process; added to those of earlier ones.

    Raises:
        InputError: a configuration of that name was another, other files are there, the folder is damaged, or another
            process is writing to it.
        DocumentError: it cannot be read or written.
    """
    log = _log_of(Path(folder))
    with log.locked():
        before, sessions = log.description()
        if (renamed := _with_present_names(before)) != before:
            log.describe(renamed, sessions)
        log.bind(configurations, session)
        rows = _read_rows(log)
        known, sessions = log.description()
        unknown = sorted({row.configuration for row in rows} - known.keys())
        if unknown:
            raise InputError(f"{folder} has answers of {unknown[0]!r}, which {CARD} does not list.", hint=_OWN_FOLDER)
        yield Run(known, sessions, rows), lambda rows: log.append([row.to_dict() for row in rows])


def _with_present_names(configurations: Mapping[str, Configuration]) -> dict[str, dict[str, Any]]:
    """Translate the settings of runs that 0.1.0 recorded under other names."""
    made = {name: dict(configuration) for name, configuration in configurations.items()}
    for configuration in made.values():
        if isinstance(settings := configuration.get("settings"), Mapping):
            configuration["settings"] = SelfReflectSettings.upgrade(settings)
    return made


def write_run(folder: str | Path, run: Run) -> None:
    """Put a whole run into a folder, in place of what was there; errors as ``continue_run``."""
    log = _log_of(Path(folder))
    with log.locked():
        log.replace(row.to_dict() for row in run.rows)
        log.describe(run.configurations, run.sessions)


def _log_of(folder: Path) -> RunLog:
    """The log of a folder, if nothing else lies there."""
    try:
        others = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) if folder.exists() else []
    except OSError as error:
        raise DocumentError(f"{folder} cannot be used: {error.strerror or error}.", hint=_OWN_FOLDER) from error
    if others and CARD not in others and others != [ROWS]:
        raise InputError(f"{folder} is not the folder of an evaluation: it holds {others[0]}.", hint=_OWN_FOLDER)
    return RunLog(folder / ROWS, card=CARD)


def _read_rows(log: RunLog) -> list[ComparisonRow]:
    found: list[ComparisonRow] = []
    for number, line in enumerate(log.read(), 1):
        try:
            found.append(ComparisonRow.from_dict(line))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise log.damaged(number, f"not an answer ({error})") from error
    return found
