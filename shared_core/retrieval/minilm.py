"""all-MiniLM-L6-v2 (Apache-2.0): weights, word pieces and forward passes, by a few lines of torch.

A model class and what it drags in take several times as long to import as torch itself, and would be used for a mean of
vectors. Several parts of the project use one loaded model: it is loaded once a process for each device and precision.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError
from shared_core.retrieval.bert import embed_tokens, rename, run_layers
from shared_core.retrieval.threads import one_thread
from shared_core.retrieval.weights import MODEL, TOKENIZER_FILE, WEIGHTS_FILE, check_weights, find_model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer
    from torch import Tensor

DIMENSION = 384
LAYERS = 6
Precision = Literal["auto", "float32", "bfloat16"]
"""Of the layers; ``auto`` takes bfloat16 where the CPU has instructions for it, float32 elsewhere."""

_TOGETHER = 1024  # word pieces in a batch: larger ones fall out of the processor's cache
_STEP = 16
"""Passes that run together are padded to a multiple of it. Of each shape that it has met, a CPU's matrix library keeps
compiled code and buffers, most of a megabyte, up to a thousand shapes (oneDNN): with lengths as they come, indexing
took 10 kB a passage for nothing else."""
_MOST_THREADS = 8
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: a Python string may hold one, the tokenizer may not

_loaded: dict[tuple[Path, str, str], MiniLM] = {}
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass.

    Attributes:
        ids: word pieces, [CLS] and [SEP] included.
        ranges: half-open ranges of them to average, each not empty.
    """

    ids: Sequence[int]
    ranges: Sequence[tuple[int, int]] = ()


def load_model(path: Path | None = None, device: str | None = None, precision: Precision = "auto") -> MiniLM:
    """The model, loaded at the first call after its hash was checked.

    Args:
        path: its folder; ``None`` looks in the usual places (``weights.find_model``).
        device: ``cpu``, ``cuda``, …; ``None`` takes the best there is.
        precision: of the layers.

    Raises:
        InputError: a precision that is not known.
        ModelLoadError: there is no model, its weights are not the published ones, or the device does not exist.
        MissingDependencyError: torch, safetensors or tokenizers is not installed.
    """
    if precision not in ("auto", "float32", "bfloat16"):
        raise InputError(f"There is no precision {precision!r}.", hint="Known: auto, float32, bfloat16.")
    folder = (path or find_model()).resolve()
    key = folder, device or "", precision
    with _loading:
        if key not in _loaded:
            check_weights(folder)
            _loaded[key] = _load(folder, device, precision)
        return _loaded[key]


def fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices by instructions of its own (AMX, AVX-512 BF16).

    With them a pass takes a half (AVX-512) to a third (AMX) of float32's time; without them it takes longer.
    """
    import torch

    try:
        able = torch.cpu.get_capabilities()
    except AttributeError:  # an older torch
        return False
    return bool(able.get("amx_bf16") or able.get("avx512_bf16"))


class MiniLM:
    """The loaded model. May be used from several threads at once.

    Attributes:
        parameters: as ``bert`` names them; those of the layers in ``dtype``, the embeddings in float32.
        dtype, device: of the layers.
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
        """Word pieces with their offsets (code points), without [CLS] and [SEP]; half characters become U+FFFD."""
        return self._tokenizer.encode_batch([_SURROGATE.sub("\ufffd", t) for t in texts], add_special_tokens=False)

    def states(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, N) word pieces → (B, N, 384) last hidden states in ``dtype``; ``mask`` is true where a piece counts."""
        hidden = embed_tokens(self.parameters, ids).to(self.dtype)
        return run_layers(self.parameters, hidden, range(LAYERS), mask)

    def means(self, passes: Sequence[Pass], *, alone: bool = False) -> list[NDArray[np.float32]]:
        """For each pass the mean of all its states, then that of each of its ranges: (1 + ranges, 384) float32.

        Args:
            passes: in any order; passes of like length run together, on as many threads as torch has.
            alone: run each by itself. Slower for short ones, and then the result depends on nothing else to the last
                bit; together, other neighbours round differently (cosines differ by less than 0.001 in bfloat16).
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
                with ThreadPoolExecutor(workers) as pool:  # the long ones first: none is left over at the end
                    list(pool.map(run, reversed(batches)))
        return [out[i] for i in range(len(passes))]

    def _means(self, passes: Sequence[Pass], step: int) -> list[NDArray[np.float32]]:
        import torch

        longest = _padded(max(len(p.ids) for p in passes), step)
        ids = torch.zeros(len(passes), longest, dtype=torch.long)
        weights = torch.zeros(len(passes), 1 + max(len(p.ranges) for p in passes), longest)  # (B, means, N)
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
    """Passes of like length together, up to ``_TOGETHER`` word pieces with their padding."""
    batches: list[list[int]] = []
    for i in order:
        if batches and (len(batches[-1]) + 1) * _padded(len(passes[i].ids), _STEP) <= _TOGETHER:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _padded(length: int, step: int) -> int:
    """The next multiple of ``step``."""
    return -(-length // step) * step


def _id_of(tokenizer: Tokenizer, mark: str) -> int:
    identifier = tokenizer.token_to_id(mark)
    if identifier is None:
        raise ModelLoadError(f"The tokenizer of {MODEL} knows no {mark}.", hint="Is the directory complete?")
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
        # The embeddings stay as they lie in the file, of which only the rows that are used are read.
        parameters = {
            name: value.to(where, dtype if name.startswith("layer") else torch.float32)
            for name, value in rename(load_file(path / WEIGHTS_FILE)).items()
        }
    except Exception as error:  # whatever torch, tokenizers or a broken file raise
        raise ModelLoadError(
            f"{MODEL} in {path} cannot be loaded: {error}", hint="Is the directory complete, and does the device exist?"
        ) from error
    return MiniLM(tokenizer, parameters, dtype, where)
