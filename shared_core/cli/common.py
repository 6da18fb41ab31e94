"""What the commands share: errors and exit codes, ``-q`` and ``-v``, and building an engine from options."""

from __future__ import annotations

import errno
import functools
import hashlib
import inspect
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, get_type_hints

import typer

from shared_core.cli.console import Verbosity, detail, err, note, set_verbosity, show_error
from shared_core.cli.progress import indexing_progress
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
    from shared_core.calibration.stack import AnyCalibration
    from shared_core.documents.store import DocumentIndex
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.lm.base import LanguageModel

ANSWERED, FAILED, BAD_INPUT, ABSTAINED, INTERRUPTED = 0, 1, 2, 3, 130

P = ParamSpec("P")
R = TypeVar("R")

_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing beside the result, but errors.")]
_Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Say what is done; twice: everything, with tracebacks.")
]


def exit_code(error: SelfReflectError) -> int:
    """2 where the user gave something unusable, 1 where something failed."""
    return BAD_INPUT if isinstance(error, (InputError, SettingsError, IndexMissingError)) else FAILED


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command ``-q`` and ``-v``, show errors as message and hint, and leave with an exit code: 2 for bad input,
    1 for a failure, 130 if interrupted. A traceback is shown with ``-v`` only, of a fault of this program."""

    @functools.wraps(command)
    def wrapped(*args: Any, quiet: bool = False, verbose: int = 0, **kwargs: Any) -> R:
        set_verbosity(-1 if quiet else verbose)
        try:
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
            show_error(_of_system(error))
            raise typer.Exit(FAILED) from error
        except Exception as error:
            _show_fault(error)
            raise typer.Exit(FAILED) from error

    return _with_verbosity(wrapped, command)


def _with_verbosity(wrapped: Callable[..., R], command: Callable[P, R]) -> Callable[P, R]:
    """The wrapper with the two options in its signature, where typer looks for them."""
    hints = {**get_type_hints(command, include_extras=True), "quiet": _Quiet, "verbose": _Verbose}
    kind = inspect.Parameter.KEYWORD_ONLY
    given = [p.replace(annotation=hints[p.name]) for p in inspect.signature(command).parameters.values()]
    added = [inspect.Parameter(name, kind, default=0, annotation=hints[name]) for name in ("quiet", "verbose")]
    wrapped.__signature__ = inspect.Signature([*given, *added])  # type: ignore[attr-defined]  # any function takes one
    wrapped.__annotations__ = hints
    return wrapped


def _of_system(error: OSError) -> SelfReflectError:
    """An error of the system, in words that help."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(
            f"{where}the disk is full.", hint="Make room and run the same command again; nothing that was done is lost."
        )
    if isinstance(error, PermissionError):
        return StoreError(f"{where}permission denied.", hint="Check who may read and write there.")
    return StoreError(f"{where}{error.strerror or error}.", hint="Check the disk and the path.")


def _show_fault(error: Exception) -> None:
    hint = "Run it again with -v for the traceback, and report it as a defect of this program."
    show_error(SelfReflectError(f"Something went wrong: {type(error).__name__}: {error}", hint=hint))
    if Verbosity.level >= 1:
        err.print("".join(traceback.format_exception(error)), markup=False)


@dataclass(frozen=True)
class BuiltEngine:
    """An engine with the index it reads from (for reports that show a quote in its document); none closed book."""

    engine: SelfReflectEngine
    index: DocumentIndex | None


def default_index(docs: Sequence[Path]) -> Path:
    """Where the index of these documents is kept if no place is named: a folder for each set of paths in the user's
    cache (``~/.cache/selfreflect`` on Linux; ``XDG_CACHE_HOME`` moves it)."""
    import platformdirs

    key = "\n".join(sorted(os.path.realpath(p) for p in docs))
    return platformdirs.user_cache_path("selfreflect", appauthor=False) / hashlib.sha256(key.encode()).hexdigest()[:12]


def check_questions_and_docs(questions: Sequence[str], docs: Sequence[Path]) -> None:
    """Refuse paths that are not there, and paths that stand where a question is expected.

    Raises:
        InputError: which, and what to do.
    """
    missing = [str(path) for path in docs if not os.path.lexists(path)]
    if missing:
        raise InputError(
            f"There is no such file or folder: {', '.join(missing)}.", hint="Check the path; quote it if it has spaces."
        )
    slipped = [q for q in questions if docs and len(q) < 4096 and "\n" not in q and os.path.lexists(q)]
    if slipped:
        raise InputError(
            f"{slipped[0]!r} is a file or folder, and stands where a question is expected.",
            hint="Put --docs before each path: --docs A --docs B.",
        )


def check_output(path: Path | None, option: str) -> None:
    """Refuse a file that cannot be written, before any work is done. Folders are made.

    Raises:
        InputError: why.
    """
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder.", hint=f"Name a file: {option} {path / 'report.html'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), option) from error
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, "permission denied", option)


def _unwritable(path: Path, why: str, option: str) -> InputError:
    return InputError(f"{path} cannot be written: {why}.", hint=f"Name another place: {option} FILE")


def read_calibration(path: Path | None) -> dict[str, AnyCalibration] | None:
    """The calibrations of a file named by the user.

    Raises:
        InputError: there is no such file, or it is none that ``selfreflect calibrate`` wrote.
    """
    if path is None:
        return None
    from shared_core.calibration import io as calibration_io

    try:
        return calibration_io.load(path)
    except CalibrationError as error:
        raise InputError(error.message, hint=error.hint) from error


def open_index(docs: Sequence[Path], index: Path | None, vectors: str | None) -> DocumentIndex:
    """The index at ``index`` (or the default place), brought up to date with ``docs`` if any are given."""
    from shared_core.documents.store import DocumentIndex, IndexSettings

    if not docs and index is None:
        raise InputError("No documents to answer from.", hint="Give --docs PATH (files or folders) or --index DIR.")
    where = index if index is not None else default_index(docs)
    if not docs and not where.exists():
        raise IndexMissingError(f"There is no index at {where}.", hint="Make one: selfreflect index DOCS --index DIR")
    first = not where.exists()
    opened = DocumentIndex(where, settings=None if vectors is None else IndexSettings(vectors=vectors))
    if docs:
        with indexing_progress(err) as progress:
            report = opened.update([Path(d) for d in docs], progress=progress)
        for failure in report.failed:
            note(f"not indexed: {failure.source}: {failure.message}", style="yellow")
            detail(f"    hint: {failure.hint}")
        if index is None:
            (note if first else detail)(f"The index of these documents is kept in {where}")
    return opened


def build_model(model: str | None, base_url: str | None) -> LanguageModel | None:
    """The backend that ``--model`` and ``--base-url`` ask for; ``None`` for the embedded default."""
    if base_url is not None:
        from shared_core.lm.openai import OpenAICompatibleLM

        return OpenAICompatibleLM(base_url, model=model, api_key=os.environ.get("OPENAI_API_KEY"))
    if model is not None:
        from shared_core.lm.transformers import TransformersLM

        return TransformersLM(model)
    return None


def answers_closed_book(settings: SelfReflectSettings) -> bool:
    """Whether nothing is ever retrieved: ReSearch as the paper has it."""
    return settings.pipeline == "research" and settings.research.closed_book


def build(
    *,
    docs: Sequence[Path] | None,
    index: Path | None,
    vectors: str | None,
    model: str | None,
    base_url: str | None,
    settings: SelfReflectSettings,
    judge: str | None = None,
    **parts: Any,
) -> BuiltEngine:
    """An engine over documents, with its index; without any, where the settings answer closed book.

    ``judge``: path of an NLI cross-encoder that scores support.
    """
    from shared_core.facades.engine import SelfReflectEngine

    lm = build_model(model, base_url)
    if judge is not None:
        from shared_core.reading.support import CrossEncoderSupportScorer

        parts["judge"] = CrossEncoderSupportScorer(judge)
    if answers_closed_book(settings) and not docs and index is None:
        from shared_core.retrieval import BM25Retriever

        return BuiltEngine(SelfReflectEngine(BM25Retriever(), lm, settings, **parts), None)
    opened = open_index(docs or (), index, vectors)
    return BuiltEngine(SelfReflectEngine(opened.retriever(), lm, settings, **parts), opened)
