"""What the commands share: building an engine from options, exit codes, errors on the terminal."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.console import Console

from shared_core.commands.progress import indexing_progress
from shared_core.errors import IndexMissingError, InputError, SelfReflectError, SettingsError
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.engine import SelfReflectEngine
    from shared_core.lm.base import LanguageModel
    from shared_core.retrieval.store import DocumentIndex

ANSWERED, FAILED, BAD_INPUT, ABSTAINED = 0, 1, 2, 3

out = Console()
err = Console(stderr=True)

P = ParamSpec("P")
R = TypeVar("R")


def exit_code(error: SelfReflectError) -> int:
    """2 where the user gave something unusable, 1 where something failed."""
    return BAD_INPUT if isinstance(error, (InputError, SettingsError, IndexMissingError)) else FAILED


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Show errors of our own as message and hint, and leave with an exit code: 2 for bad input, 1 for a failure."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except SelfReflectError as error:
            show_error(error)
            raise typer.Exit(exit_code(error)) from error

    return wrapped


def show_error(error: SelfReflectError) -> None:
    """Message and hint on standard error; never a traceback."""
    err.print("error:", style="bold red", end=" ")
    err.print(error.message, markup=False, highlight=False)
    if error.hint:
        err.print("hint:", style="bold", end=" ")
        err.print(error.hint, markup=False, highlight=False)


@dataclass(frozen=True)
class BuiltEngine:
    """An engine with the index it reads from (for reports that show a quote in its document)."""

    engine: SelfReflectEngine
    index: DocumentIndex


def default_index(docs: Sequence[Path]) -> Path:
    """Where the index of these documents is kept: one folder for each set of paths, under ``.selfreflect``."""
    key = "\n".join(sorted(str(p.resolve()) for p in docs))
    return Path(".selfreflect") / hashlib.sha256(key.encode()).hexdigest()[:12]


def open_index(docs: Sequence[Path], index: Path | None, chroma_url: str | None) -> DocumentIndex:
    """The index at ``index`` (or the default place), brought up to date with ``docs`` if any are given."""
    from shared_core.retrieval.store import DocumentIndex

    if not docs and index is None and chroma_url is None:
        raise InputError("No documents to answer from.", hint="Give --docs PATH (files or folders) or --index DIR.")
    where = index if index is not None else default_index(docs)
    if not docs and not where.exists():
        raise IndexMissingError(f"There is no index at {where}.", hint="Make one: selfreflect index DOCS --index DIR")
    opened = DocumentIndex(where, chroma_url=chroma_url)
    if docs:
        with indexing_progress(err) as progress:
            report = opened.update([Path(d) for d in docs], progress=progress)
        for failure in report.failed:
            err.print(f"not indexed: {failure.source}: {failure.message}", style="yellow", markup=False)
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


def build(
    *,
    docs: Sequence[Path] | None,
    index: Path | None,
    chroma_url: str | None,
    model: str | None,
    base_url: str | None,
    settings: SelfReflectSettings,
    judge: str | None = None,
    **parts: Any,
) -> BuiltEngine:
    """An engine over documents, with its index. ``judge``: path of an NLI cross-encoder that scores support."""
    from shared_core.engine import SelfReflectEngine

    lm = build_model(model, base_url)
    if judge is not None:
        from shared_core.reading.support import CrossEncoderSupportScorer

        parts["judge"] = CrossEncoderSupportScorer(judge)
    opened = open_index(docs or (), index, chroma_url)
    return BuiltEngine(SelfReflectEngine(opened.retriever(), lm, settings, **parts), opened)
