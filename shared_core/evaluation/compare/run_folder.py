"""The folder of an evaluation: a run log of every answer, and of what each system was.

``rows.jsonl`` has a line for each question and configuration, on the disk before the next batch is asked. ``run.json``
has the description of every configuration by name, and an entry for each session that worked here: when, which
questions, which shard, which versions. Two configurations of one name are refused unless they are the same; those of
other names are kept apart.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from shared_core import __version__
from shared_core.errors import DocumentError, InputError
from shared_core.evaluation.baselines import SETTINGS, Plain
from shared_core.evaluation.compare.outcomes import ComparisonRow
from shared_core.lm.identity import WEIGHTS, identity_of, identity_of_files
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.support.run_log import Configuration, RunLog, digest_of_values

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.lm.base import LanguageModel

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
    """Read the folder of a run; InputError if it is none, or damaged (DocumentError if it cannot be read)."""
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


T = TypeVar("T")
_PACKAGES = (
    "numpy", "torch", "transformers", "tokenizers", "llguidance", "vllm", "openai", "chromadb", "bm25s",
    "onnxruntime", "llama-index-core", "langchain-core",
)  # fmt: skip
_SOME = 1000  # passages read at a time


def versions() -> dict[str, str]:
    """Return the versions of this project, Python, the platform, and installed packages that answers depend on."""
    own = {"selfreflect": __version__, "python": platform.python_version(), "platform": platform.platform()}
    return own | installed(_PACKAGES)


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


Known = dict[int, dict[str, Any]]
"""Descriptions of models and retrievers by the object's ``id``, so that gigabytes are hashed once."""


def describe(system: object, known: Known | None = None) -> dict[str, Any]:
    """Describe everything that a system's answers depend on, in plain values.

    A retriever that does not list its passages has a hash of ``None``. Systems other than our engines are described by
    their class alone. ``known`` caches models and documents that several living systems share.
    """
    known = {} if known is None else known
    if isinstance(system, Plain):
        return _describe_plain(system, known)
    if not _has_parts(system):
        return {"kind": f"{type(system).__module__}.{type(system).__qualname__}"}
    return _describe_engine(system, known)


def _has_parts(system: object) -> TypeGuard[SelfReflectEngine]:
    """Return whether a system has an engine's attributes, engine or not."""
    return getattr(system, "resources", None) is not None and hasattr(system, "settings") and hasattr(system, "context")


def _describe_engine(engine: SelfReflectEngine, known: Known) -> dict[str, Any]:
    parts = engine.resources
    settings = engine.settings.model_dump(mode="json", exclude={"calibration"})
    named = {"reader": parts.reader, "critic": parts.critic, "judge": parts.judge, "embedder": parts.embedder}
    calibrations = {name: c.to_dict() for name, c in engine.context.every_calibration.items()}
    return {
        "kind": engine.settings.pipeline,
        "settings": settings,
        "models": {role: _once(describe_model, lm, known) for role, lm in parts.models.items()},
        "documents": _once(describe_retriever, parts.retriever, known),
        **{part: getattr(found, "name", None) for part, found in named.items()},
        "calibrations": {name: digest_of_values(content) for name, content in calibrations.items()},
    }


def _describe_plain(system: Plain, known: Known) -> dict[str, Any]:
    engine = system.engine
    models = {role: lm for role, lm in engine.resources.models.items() if role == "default"}
    return {
        "kind": system.name,
        "settings": engine.settings.model_dump(mode="json", include=set(SETTINGS[system.name])),
        "models": {role: _once(describe_model, lm, known) for role, lm in models.items()},
        "documents": _once(describe_retriever, engine.resources.retriever, known) if system.retrieve else None,
        "prompt": f"{system.prompt.__module__}.{system.prompt.__qualname__}",
    }


def _once(describing: Callable[[T], dict[str, Any]], what: T, known: Known) -> dict[str, Any]:
    if id(what) not in known:
        known[id(what)] = describing(what)
    return known[id(what)]


def describe_model(lm: LanguageModel) -> dict[str, Any]:
    """Describe a model by name, backend and identity: a digest of its weights, else its own name."""
    folder = Path(lm.name.partition("#")[0])
    here = (folder / "config.json").is_file()
    name = folder.resolve().name if here else lm.name
    identity = identity_of(lm)
    if here and WEIGHTS not in identity:  # a path does not identify the weights in it
        identity = identity_of_files(folder, type(lm).__name__) or name
    return {"name": name, "backend": type(lm).__name__, "identity": identity}


def describe_retriever(retriever: Retriever | None) -> dict[str, Any]:
    """Describe a retriever by kind, number of passages and a hash of their ids, titles and texts, if it lists them."""
    kind = type(retriever).__name__
    ids, get = getattr(retriever, "ids", None), getattr(retriever, "get", None)
    if not callable(ids) or not callable(get):
        return {"kind": kind, "passages": None, "sha256": None}
    names = sorted(ids())
    digest = hashlib.sha256()
    for first in range(0, len(names), _SOME):
        for passage in sorted(get(names[first : first + _SOME]), key=lambda p: p.id):
            digest.update(json.dumps([passage.id, passage.title, passage.text]).encode())
    return {"kind": kind, "passages": len(names), "sha256": digest.hexdigest()}
