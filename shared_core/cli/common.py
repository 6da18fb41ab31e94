"""Shared by all commands: errors and exit codes, ``-q`` and ``-v``, checks of paths, and building an engine."""

from __future__ import annotations

import copy
import errno
import functools
import hashlib
import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from shared_core.cli.console import Verbosity, detail, err, indexing_progress, note, set_verbosity, show_error
from shared_core.errors import (
    CalibrationError,
    IndexMissingError,
    InputError,
    SelfReflectError,
    SettingsError,
    StoreError,
)
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.documents.load import Failure
    from shared_core.documents.store import DocumentIndex
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.lm.base import LanguageModel
    from shared_core.lm.tracing import TracingLM

_APART = 3  # files that fail alike and are named line by line
ANSWERED, FAILED, BAD_INPUT, ABSTAINED, INTERRUPTED = 0, 1, 2, 3, 130

P = ParamSpec("P")
R = TypeVar("R")

_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result and errors.")]
_Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Say what is being done; twice: everything, with tracebacks.")
]


def exit_code(error: SelfReflectError) -> int:
    """Return 2 for bad usage or input, 1 for a failure."""
    return BAD_INPUT if isinstance(error, (InputError, SettingsError, IndexMissingError)) else FAILED


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command ``-q`` and ``-v``, expand its option dataclasses, and turn errors into messages and exit codes.

    Exit codes: 2 for bad usage or input, 1 for a failure, 130 if interrupted. Tracebacks are shown with ``-v`` only, of
    defects of this program.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}

    @functools.wraps(command)
    def wrapped(*args: Any, quiet: bool = False, verbose: int = 0, **kwargs: Any) -> R:
        set_verbosity(-1 if quiet else verbose)
        try:
            for name, kind in groups.items():
                kwargs[name] = kind(**{f.name: kwargs.pop(f.name) for f in fields(kind)})
            return command(*args, **kwargs)
        except SelfReflectError as error:
            show_error(error)
            raise typer.Exit(exit_code(error)) from error
        except KeyboardInterrupt as error:
            note("Interrupted.", style="yellow")
            raise typer.Exit(INTERRUPTED) from error
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except OSError as error:
            show_error(of_system(error))
            raise typer.Exit(FAILED) from error
        except Exception as error:
            _show_fault(error)
            raise typer.Exit(FAILED) from error

    parameters = _parameters(command, hints)
    # typer reads the signature of the wrapper, not of the command.
    wrapped.__dict__["__signature__"] = inspect.Signature(parameters)
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return cast(Callable[P, R], wrapped)


def renamed(command: Callable[P, R], old: str, new: str) -> Callable[P, R]:
    """Return the command for its old name: it warns (not with ``-q``) and does the same."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.get("quiet"):
            note(f"warning: `selfreflect {old}` will go; use: selfreflect {new}", style="yellow")
        return command(*args, **kwargs)

    return wrapped


def _parameters(command: Callable[..., Any], hints: dict[str, Any]) -> list[inspect.Parameter]:
    """Return the command's own parameters with each dataclass replaced by its fields, then ``-q`` and ``-v``."""
    found: list[inspect.Parameter] = []
    kind = inspect.Parameter.KEYWORD_ONLY
    for parameter in inspect.signature(command).parameters.values():
        group = hints[parameter.name]
        if not (isinstance(group, type) and is_dataclass(group)):
            found.append(parameter.replace(annotation=_with_checked_path(group), kind=kind))
            continue
        options = get_type_hints(group, include_extras=True)
        for f in fields(group):
            default = f.default if f.default_factory is MISSING else f.default_factory()
            default = inspect.Parameter.empty if default is MISSING else default
            annotation = _with_checked_path(options[f.name])
            found.append(inspect.Parameter(f.name, kind, default=default, annotation=annotation))
    added = [("quiet", _Quiet), ("verbose", _Verbose)]
    return [*found, *(inspect.Parameter(name, kind, default=0, annotation=hint) for name, hint in added)]


def _with_checked_path(annotation: Any) -> Any:
    """Return the annotation of a parameter; one that takes paths refuses an empty one."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, info, *more = get_args(annotation)
    if Path not in (kind, *get_args(kind)):
        return annotation
    checked = copy.copy(info)
    checked.parser = path
    return Annotated[(kind, checked, *more)]


def path(value: str | Path) -> Path:
    """Read a path from the command line (some versions of typer show this function's name in ``--help``).

    An empty one is refused: Python would take it for the current folder, and an unset variable of the shell is a
    likelier cause.
    """
    if not str(value):
        raise typer.BadParameter("the path is empty.")
    return Path(value)


class DefaultGroup(TyperGroup):
    """Group of commands that runs its first command if the first word names none: ``eval Q`` is ``eval run Q``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command's name where the words do not begin with a command or a call for help."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [next(iter(self.commands)), *args]
        return list(super().parse_args(ctx, args))


def of_system(error: OSError) -> SelfReflectError:
    """Describe an error of the operating system, with a hint."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(
            f"{where}the disk is full.", hint="Free some space and run the same command again; finished work is kept."
        )
    if isinstance(error, PermissionError):
        return StoreError(f"{where}permission denied.", hint="Check the permissions.")
    return StoreError(f"{where}{error.strerror or error}.", hint="Check the disk and the path.")


def _show_fault(error: Exception) -> None:
    hint = "Run it again with -v for the traceback, and report it as a bug."
    show_error(SelfReflectError(f"Something went wrong: {type(error).__name__}: {error}", hint=hint))
    if Verbosity.level >= 1:
        err.print("".join(traceback.format_exception(error)))


@dataclass(frozen=True)
class BuiltEngine:
    """Engine with the index it reads from (reports show quotes in their documents); no index if closed book.

    ``tracer`` records the model's prompts and replies, if they are traced.
    """

    engine: SelfReflectEngine
    index: DocumentIndex | None
    tracer: TracingLM | None = None


def default_index(docs: Sequence[Path]) -> Path:
    """Return the default index folder of these documents: one for each set of paths, in the user's cache.

    That is ``~/.cache/selfreflect`` on Linux; ``XDG_CACHE_HOME`` moves it.
    """
    key = "\n".join(sorted(os.path.realpath(p) for p in docs))
    return cache_folder() / hashlib.sha256(key.encode()).hexdigest()[:12]


def cache_folder() -> Path:
    """Return the folder of default indexes."""
    import platformdirs

    return platformdirs.user_cache_path("selfreflect", appauthor=False)


def check_questions_and_docs(questions: Sequence[str], docs: Sequence[Path]) -> None:
    """Refuse missing paths, and paths in place of a question: an InputError names the path and the way out."""
    missing = [str(path) for path in docs if not os.path.lexists(path)]
    if missing:
        raise InputError(
            f"There is no such file or folder: {', '.join(missing)}.", hint="Check the path; quote it if it has spaces."
        )
    slipped = [q for q in questions if docs and len(q) < 4096 and "\n" not in q and os.path.lexists(q)]
    if slipped:
        raise InputError(
            f"Expected a question, got the file or folder {slipped[0]!r}.",
            hint="Put --docs before each path: --docs A --docs B.",
        )


def check_output(path: Path | None, option: str) -> None:
    """Refuse (InputError) a file that cannot be written, before any work is done.

    Nor may its folder be missing: a mistyped path must not make folders.
    """
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder.", hint=f"Name a file in it: {option} {path / 'NAME'}")
    if not path.parent.is_dir():
        raise _unwritable(path, f"there is no folder {path.parent}", option)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, "permission denied", option)


def check_output_folder(path: Path | None, option: str) -> None:
    """Make a folder that results go into, before any work is done; InputError if it cannot be made or written to."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), option) from error
    if not os.access(path, os.W_OK):
        raise _unwritable(path, "permission denied", option)


def _unwritable(path: Path, why: str, option: str) -> InputError:
    return InputError(f"{path} cannot be written: {why}.", hint=f"Give another path to {option}, or make the folder.")


def check_calibration(path: Path | None) -> None:
    """Refuse (InputError) a file that ``selfreflect calibrate`` did not write, or that is missing, before any work."""
    if path is None:
        return
    from shared_core.calibration import io as calibration_io

    try:
        calibration_io.load(path)
    except CalibrationError as error:
        raise InputError(error.message, hint=error.hint) from error


def open_index(docs: Sequence[Path], index: Path | None, vectors: str | None) -> DocumentIndex:
    """Open the index (at its default place unless named) and bring it up to date with ``docs``, if any."""
    from shared_core.documents.store import DocumentIndex, IndexSettings

    if not docs and index is None:
        raise InputError("No documents to answer from.", hint="Give --docs PATH (files or folders) or --index DIR.")
    where = index if index is not None else default_index(docs)
    if not docs:
        require_index(where)
    first = not where.exists()
    opened = DocumentIndex(where, settings=None if vectors is None else IndexSettings(vectors=vectors))
    if docs:
        with indexing_progress(err) as progress:
            report = opened.update([Path(d) for d in docs], progress=progress)
        for files, failure in group_failures(report.failed):
            note(f"not indexed: {files}: {failure.message}", style="yellow")
            detail(f"    hint: {failure.hint}")
        if index is None:
            (note if first else detail)(f"The index of these documents is kept in {where}")
    return opened


def require_index(path: Path) -> None:
    """Raise IndexMissingError if there is nothing at this place."""
    if not path.exists():
        raise IndexMissingError(f"There is no index at {path}.", hint="Make one: selfreflect index DOCS --index DIR")


def group_failures(failures: Iterable[Failure]) -> list[tuple[str, Failure]]:
    """Name the files of each failure: one by one, or together where many fail alike (``index --json`` names all)."""
    alike: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        alike.setdefault((failure.message, failure.hint), []).append(failure)
    named: list[tuple[str, Failure]] = []
    for same in alike.values():
        if len(same) <= _APART:
            named += [(failure.source, failure) for failure in same]
        else:
            first = ", ".join(failure.source for failure in same[:_APART])
            named.append((f"{first} and {len(same) - _APART} more", same[0]))
    return named


def build_model(model: str | None, base_url: str | None, dtype: str | None = None) -> LanguageModel | None:
    """Build the backend that ``--model`` and ``--base-url`` name; ``None`` for the embedded default.

    InputError if ``--model`` is a path that does not exist, or ``--dtype`` has no effect or does not exist.
    """
    if dtype is not None and (base_url is not None or model is None):
        raise InputError(
            "--dtype has no effect without a model in this process.", hint="Leave it out, or give --model."
        )
    if base_url is not None:
        from shared_core.lm.openai import OpenAICompatibleLM

        return OpenAICompatibleLM(base_url, model=model, api_key=os.environ.get("OPENAI_API_KEY"))
    if model is not None:
        is_path = os.path.isabs(model) or model.startswith(".")  # names on the hub never begin so
        if is_path and not os.path.lexists(model):
            raise InputError(f"There is no model at {model}.", hint="Check --model: a folder, or a name on the hub.")
        if not err.is_terminal:  # in a file each step of a bar would be a piece of one endless line
            hide_bars()
        from shared_core.lm.transformers import TransformersLM

        return TransformersLM(model, dtype=dtype)
    return None


def hide_bars() -> None:
    """Keep the libraries that load models from drawing progress bars in this process."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from transformers.utils import logging
    except ImportError:
        return  # reported with a hint where it is needed
    logging.disable_progress_bar()


def answers_closed_book(settings: SelfReflectSettings) -> bool:
    """Return whether nothing is ever retrieved: ReSearch as published."""
    return settings.pipeline == "research" and settings.research.closed_book
