"""``selfreflect doctor``: what is installed, whether the default works, which models and servers answer."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from shared_core import __version__
from shared_core.cli.common import FAILED, build_model, cache_folder, reports_errors, require_index
from shared_core.cli.console import Verbosity, err, note, out, write_json
from shared_core.errors import SelfReflectError, StoreError
from shared_core.settings import SelfReflectSettings, Settings

PACKAGES = {
    "onnxruntime": "offline", "tokenizers": "offline, transformers", "py3langid": "offline", "torch": "transformers",
    "safetensors": "transformers", "chromadb": "chroma", "pypdfium2": "documents", "lxml": "documents",
    "office-oxide": "documents", "transformers": "transformers", "llguidance": "transformers", "vllm": "vllm",
    "openai": "openai", "llama-index-core": "llamaindex", "langchain-core": "langchain", "fastapi": "serve",
    "trl": "train", "ray": "ray", "peft": "train", "matplotlib": "eval", "scikit-learn": "eval", "rouge-score": "eval",
    "MAPIE": "eval", "rank-bm25": "base", "bm25s": "base",
}  # fmt: skip
"""Packages and the extras that bring them."""

_DEFAULT_EXTRAS = ("offline", "documents")
_QUESTION = "Who keeps the lamp?"
_TEXT = "The lamp at the harbour is kept by Agnes Rowe."
_PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Length 37>>stream
BT /F 9 Tf 9 50 Td (It is read.) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>"""


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
    """Say what is installed, whether the default works, what is reachable and what each can do.

    The default is tried out: a small text is indexed and asked, a small PDF read.
    Exit code 1 if something that was asked for, or the default, does not work.
    """
    if settings:
        _show_settings(as_json)
        return
    packages = _packages()
    report: dict[str, Any] = {
        "selfreflect": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "device": _device(),
        "cache": str(cache_folder()),
        "embedded_default": _probe(_default, packages),
        "documents": _probe(_documents, packages),
    }
    if model is not None or base_url is not None:
        report["model"] = _probe(lambda: _model(model, base_url))
    if chroma_url is not None:
        report["chroma_server"] = _probe(lambda: _chroma(chroma_url))
    if index is not None:
        report["index"] = _probe(lambda: _index(index))
    if as_json:
        write_json(report)
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
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name(0)}"
    return "mps" if torch.backends.mps.is_available() else f"cpu, {torch.get_num_threads()} threads"


def _probe(what: Callable[[], dict[str, Any]], packages: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    try:
        return {"ok": True, **what()}
    except SelfReflectError as error:
        message, hint = error.message, error.hint
    except Exception as error:  # a doctor reports what is broken, whatever it is
        message, hint = f"{type(error).__name__}: {error}", ""
    absent = [name for name, version in (packages or {}).items() if version is None]
    lacking = {extra: [name for name in absent if extra in PACKAGES[name].split(", ")] for extra in _DEFAULT_EXTRAS}
    if any(lacking.values()):
        named = ", ".join(dict.fromkeys(name for names in lacking.values() for name in names))
        message = f"{message} (not installed: {named})"
        hint = (
            f"pip install 'selfreflect-rag[default]' (missing of it: {', '.join(e for e, n in lacking.items() if n)})"
        )
    return {"ok": False, "error": message, "hint": hint}


def _default() -> dict[str, Any]:
    """Index a text and ask it a question, as ``ask --docs`` does."""
    from shared_core.documents.store import DocumentIndex
    from shared_core.facades.engine import SelfReflectEngine

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "lamp.txt"
        text.write_text(_TEXT, encoding="utf-8")
        with DocumentIndex(Path(folder) / "index") as index:
            index.update([text])
            answer = SelfReflectEngine(index.retriever()).answer(_QUESTION)
            embedder = index.stats().embedder
    if not answer.passages:
        raise StoreError("A passage that was indexed is not found.", hint="Report it as a defect of this program.")
    return {"embedder": embedder, "confidence": answer.confidence}


def _documents() -> dict[str, Any]:
    """Read a PDF and an HTML page."""
    from shared_core.documents.load import LoadOptions, parse_document

    for name, data in (("a.pdf", _PDF), ("a.html", b"<p>It is read.</p>")):
        if parse_document(data, name, LoadOptions(max_seconds=30), file_name=name).text != "It is read.":
            raise StoreError(f"A {name[2:].upper()} file is read wrongly.", hint="Report it as a defect.")
    return {"formats": "PDF, HTML, DOCX, PPTX, XLSX, EPUB"}


def _model(model: str | None, base_url: str | None) -> dict[str, Any]:
    from shared_core.lm.openai import OpenAICompatibleLM
    from shared_core.pipelines.self_rag.choose import has_reflection_tokens

    lm = build_model(model, base_url)
    assert lm is not None
    if isinstance(lm, OpenAICompatibleLM):
        lm.probe(fresh=True)  # the server may have been started with other flags
    can = [*lm.capabilities.names(), *(["reflection_tokens"] if has_reflection_tokens(lm) else [])]
    return {"name": lm.name, "can": can, "context_length": lm.capabilities.context_length}


def _chroma(url: str) -> dict[str, Any]:
    from shared_core.retrieval import ChromaRetriever

    return {"url": url, "passages": len(ChromaRetriever(url=url))}


def _index(path: Path) -> dict[str, Any]:
    from shared_core.documents.store import DocumentIndex

    require_index(path)
    return {"path": str(path), **vars(DocumentIndex(path).stats())}


def _show(report: dict[str, Any]) -> None:
    out.print(Text(f"selfreflect {report['selfreflect']} · Python {report['python']} · {report['device']}"))
    out.print(Text(f"indexes of `ask --docs`: {report['cache']}"))
    table = Table("package", "version", "extra")
    for name, version in report["packages"].items():
        table.add_row(name, version or Text("not installed", style="dim"), PACKAGES[name])
    out.print(table)
    for part in ("embedded_default", "documents", "model", "chroma_server", "index"):
        if part in report:
            _show_part(part.replace("_", " "), report[part])


def _show_part(name: str, part: dict[str, Any]) -> None:
    if part["ok"]:
        figures = "  ".join(f"{k}={v}" for k, v in part.items() if k != "ok")
        out.print(Text.assemble(("works", "green"), f"  {name}: {figures}"))
        return
    err.print(Text.assemble(("fails", "red"), f"  {name}: {part['error']}"))
    if part["hint"]:
        err.print(Text(f"       hint: {part['hint']}"))


def _show_settings(as_json: bool) -> None:
    if as_json:
        write_json(SelfReflectSettings.model_json_schema())
        return
    table = Table("setting", "type", "default", "meaning")
    _add_settings(table, SelfReflectSettings, "")
    out.print(table)
    if Verbosity.level < 1:
        note("Settings that exist to compare papers with their code (published.*) are listed with -v.")


def _add_settings(table: Table, group: type[Settings], prefix: str) -> None:
    for name, field in group.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            if name != "published" or Verbosity.level >= 1:
                _add_settings(table, kind, f"{prefix}{name}.")
            continue
        label = kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
        limits = ", ".join(str(m) for m in field.metadata)
        default = field.get_default(call_default_factory=True)
        about = [prefix + name, f"{label} {limits}".strip(), str(default), field.description or ""]
        table.add_row(*about)
