"""Identify models by their weights where they are at hand, else by name and the server's details.

Calibrations are bound to it. A path does not do: other weights may lie in the same folder tomorrow, and the same
weights in another one. The digest reads every weight once (a sum that does not depend on the order) and some of them
one by one; it takes about as long as reading them, and is kept until a weight changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.lm.base import LanguageModel

if TYPE_CHECKING:
    import torch

WEIGHTS = "weights "
"""Stands before the digest in the identity of a model whose weights are at hand."""
_DIGITS = 16  # of sha256 in hexadecimal
_PICKED = 256  # values of a tensor that are read one by one
_PIECES, _PIECE = 64, 4096  # pieces of a file of weights, and their bytes
_FILES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_IGNORED = ("architectures", "transformers_version", "torch_dtype", "dtype")  # say nothing of what is computed


def identity_of(model: LanguageModel) -> str:
    """Return the key that calibrations of this model are bound to: its ``identity`` if it has one, else its name."""
    found = getattr(model, "identity", None)
    return found if isinstance(found, str) and found else plain_name(model.name)


def plain_name(name: str) -> str:
    """Normalise a name or path: ``./mem/`` becomes ``mem``; names on a hub stay unchanged."""
    return os.path.normpath(name) if name.startswith(("./", "../")) or name.endswith("/") else name


def identity_of_module(model: Any, tokenizer: Any = None, *, active: str | None = None) -> str:
    """Return ``LlamaForCausalLM, float32, weights 0123456789abcdef`` for a model in memory.

    Args:
        model: a ``torch.nn.Module``, with a ``config`` of transformers or without.
        tokenizer: with which it is asked: its vocabulary and its chat template count, too.
        active: the adapter that it runs with; the weights of its other adapters do not count.
    """
    config: Any = getattr(model, "config", None)
    digest = hashlib.sha256(_plain_json(config.to_dict() if hasattr(config, "to_dict") else {}))
    digest.update(_tokenizer(tokenizer))
    others = set(getattr(model, "peft_config", None) or ()) - {active} if active is not None else set()
    for name, tensor in sorted(model.state_dict().items()):
        if hasattr(tensor, "detach") and not others.intersection(name.split(".")):
            digest.update(name.encode() + _sketch(tensor))
    kind = str(getattr(model, "dtype", "")).removeprefix("torch.")
    return ", ".join(part for part in (type(model).__name__, kind, f"{WEIGHTS}{digest.hexdigest()[:_DIGITS]}") if part)


def _sketch(tensor: torch.Tensor) -> bytes:
    """Digest a tensor: shape, dtype, the sum of its bits as integers, and some of its values."""
    import torch

    header = f"{tuple(tensor.shape)}{tensor.dtype}".encode()
    if tensor.is_meta or not tensor.numel():
        return header
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.element_size())
    flat = tensor.detach().reshape(-1)
    try:
        bits = flat.view(whole) if whole is not None else torch.view_as_real(flat).view(torch.int64).reshape(-1)
    except (RuntimeError, TypeError, NotImplementedError):  # a tensor of a library's own, quantised perhaps
        return header + repr(flat[:: max(1, len(flat) // _PICKED)].tolist()).encode()
    picked = bits[:: max(1, len(bits) // _PICKED)]  # the sum alone would not see values that change places
    return header + str(int(bits.sum(dtype=torch.int64))).encode() + picked.cpu().numpy().tobytes()


def identity_of_files(folder: str | Path, kind: str) -> str | None:
    """Return ``vllm, weights 0123456789abcdef`` for a checkpoint on disk; ``None`` if there is none.

    Args:
        folder: the checkpoint (or a file of weights): configuration, tokenizer, files of weights. Of these the sizes,
            the first and last bytes and pieces between them are read.
        kind: of what loads it; another one computes other figures of the same weights.
    """
    folder = Path(folder)
    files = [folder] if folder.is_file() else sorted(p for p in folder.glob("*") if p.suffix in _FILES)
    if not files:
        return None
    try:
        configuration = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        configuration = {}
    digest = hashlib.sha256(_plain_json(configuration))
    for name in ("tokenizer.json", "chat_template.jinja"):
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    for path in files:
        digest.update(path.name.encode() + _pieces(path))
    return f"{kind}, {WEIGHTS}{digest.hexdigest()[:_DIGITS]}"


def local_folder(name: str) -> Path:
    """Return the folder of a checkpoint named by path, or by hub name if this machine has a copy."""
    if not Path(name).is_dir():
        try:
            from huggingface_hub import try_to_load_from_cache

            found = try_to_load_from_cache(name, "config.json")
        except (ImportError, ValueError, OSError):  # a name that no hub has
            found = None
        if isinstance(found, str):
            return Path(found).parent
    return Path(name)


def _pieces(path: Path) -> bytes:
    size = path.stat().st_size
    found = [str(size).encode()]
    with path.open("rb") as file:
        for i in range(_PIECES + 1):
            file.seek(max(0, size - _PIECE) * i // _PIECES)
            found.append(file.read(_PIECE))
    return b"".join(found)


def _plain_json(values: Any) -> bytes:
    items = values.items() if isinstance(values, Mapping) else ()
    kept = {k: v for k, v in items if k not in _IGNORED and not k.startswith("_")}
    return json.dumps(kept, sort_keys=True, default=str).encode()


def _tokenizer(tokenizer: Any) -> bytes:
    if tokenizer is None:
        return b""
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    template = getattr(tokenizer, "chat_template", None)
    return json.dumps([sorted(vocabulary.items()), template], default=str).encode()


def module_within(holder: object, *, depth: int = 3) -> Any:
    """Find the ``torch.nn.Module`` inside an object of another library (a pipeline, a framework's LLM), if any."""
    if hasattr(holder, "state_dict") and hasattr(holder, "named_parameters"):
        return holder
    if depth == 0 or holder is None or isinstance(holder, (str, bytes, int, float, dict, list, tuple)):
        return None
    for name in ("_model", "model", "pipeline", "llm"):
        found = module_within(getattr(holder, name, None), depth=depth - 1)
        if found is not None:
            return found
    return None
