"""Run the reading network over single texts; the result for one never depends on the others.

Every text and every pair runs by itself, padded to a length of its own, so ``run`` and ``run_many`` give equal answers;
several cores are used by reading several pairs at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError
from shared_core.reading.features import Surface
from shared_core.reading.network import REFUTED, SUPPORTED, UNSUPPORTED
from shared_core.reading.pieces import Pieces, PieceTokenizer
from shared_core.retrieval.base import Embedder
from shared_core.retrieval.minilm import WEIGHTS_FILE, check_weights, fast_bfloat16, find_model, one_thread

if TYPE_CHECKING:
    from torch import Tensor

    from shared_core.reading.network import Inputs

T = TypeVar("T")
R = TypeVar("R")
_PAD = 32  # lengths are multiples of it: a CPU builds its kernels anew for every length


@dataclass(frozen=True, slots=True)
class Apart:
    """A text with its states after the lower layers, (tokens, D)."""

    pieces: Pieces
    states: Tensor


class Logits(NamedTuple):
    """The network's output for one pair.

    Attributes:
        start, end, sentence: (tokens of the text,) float64, compared with 0 for "no answer".
        window: part of all of them: how far the window answers.
        support: (3,) float64 log-probabilities of SUPPORTED, UNSUPPORTED, REFUTED.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    sentence: NDArray[np.float64]
    window: float
    support: NDArray[np.float64]


def log_odds(support: NDArray[np.float64]) -> float:
    """Log-odds of SUPPORTED against the other classes, of (3,) log-probabilities; between -15 and 15."""
    rest = float(np.logaddexp(support[UNSUPPORTED], support[REFUTED]))
    return float(np.clip(support[SUPPORTED] - rest, -15.0, 15.0))


def model_folder(embedder: Embedder | None) -> Callable[[], Path]:
    """Return a function that finds the embedding model's folder and checks its weights.

    Raises:
        InputError: ``embedder`` is no ``MiniLMEmbedder``: the reader's word vectors are those of that model.
    """
    from shared_core.retrieval.embedding import MiniLMEmbedder

    if embedder is not None and not isinstance(embedder, MiniLMEmbedder):
        raise InputError(
            f"The reader reads word pieces of all-MiniLM-L6-v2, not of {embedder.name}.",
            hint="Leave embedder out; the retriever may use any other.",
        )

    def find() -> Path:
        path = (embedder.path if embedder else None) or find_model()
        check_weights(path)
        return path

    return find


class ReadingModel:
    """The network with its word vectors and tokenizer. Thread-safe.

    Args:
        folder: of all-MiniLM-L6-v2, whose word vectors and word pieces are used.
        network: parameters (``network.initial``).

    Raises:
        MissingDependencyError: torch, safetensors or tokenizers is not installed.
        ModelLoadError: there is no such model in ``folder``.
    """

    def __init__(self, folder: Path, network: Mapping[str, Tensor]) -> None:
        try:
            import torch
            from safetensors import safe_open
        except ImportError as error:
            raise MissingDependencyError(error.name or "torch", extra="offline", purpose="The reader") from error
        self.tokenizer = PieceTokenizer(folder)
        precision = torch.bfloat16 if fast_bfloat16() else torch.float32
        try:
            with safe_open(folder / WEIGHTS_FILE, "pt") as file:
                words = file.get_tensor("embeddings.word_embeddings.weight")
        except Exception as error:  # whatever a missing or damaged file raises
            raise ModelLoadError(
                f"No word vectors could be read from {folder}: {error}", hint="pip install 'selfreflect-rag[offline]'"
            ) from error
        self._words = words.to(precision)
        self._network = {name: value.to(precision) for name, value in network.items()}

    def apart(self, pieces: Pieces) -> Apart:
        """Run the lower layers on one text."""
        import torch

        from shared_core.reading.network import read_apart

        n = len(pieces.ids)
        ids, mask = torch.zeros(1, _rounded(n), dtype=torch.long), torch.zeros(1, _rounded(n), dtype=torch.bool)
        ids[0, :n], mask[0, :n] = torch.from_numpy(pieces.ids), True
        with torch.inference_mode():
            return Apart(pieces, read_apart(self._network, self._words, ids, mask)[0, :n])

    def score_cheaply(self, asked: Apart, window: Apart, seen: Surface) -> float:
        """Score a window before it is read together with the question; comparable among windows."""
        import torch

        from shared_core.reading.network import score_cheaply

        with torch.inference_mode():
            return float(score_cheaply(self._network, self._inputs(asked, window, seen, False)))

    def together(self, asked: Apart, window: Apart, seen: Surface, *, claim: bool = False) -> Logits:
        """Run the upper layers on a question (or claim) together with a window (or evidence)."""
        import torch

        from shared_core.reading.network import forward

        with torch.inference_mode():
            out = forward(self._network, self._inputs(asked, window, seen, claim))
        body = window.pieces.body
        start, end, sentence = (v[0, body].double().numpy() for v in out[:3])
        support = out.support[0].double().log_softmax(-1).numpy()
        return Logits(start, end, sentence, float(out.window[0]), support)

    def _inputs(self, asked: Apart, window: Apart, seen: Surface, claim: bool) -> Inputs:
        import torch
        from torch.nn import functional as f

        from shared_core.reading.network import Inputs

        m, n = len(asked.pieces.ids), len(window.pieces.ids)
        spare = _rounded(m + n) - m - n  # only the window is padded, so a question's vectors stay as they are
        real = torch.zeros(1, n + spare, dtype=torch.bool)
        body = real.clone()
        real[0, :n], body[0, window.pieces.body] = True, True
        precision = window.states.dtype
        of_tokens = torch.zeros(1, n + spare, seen.tokens.shape[1], dtype=precision)
        of_tokens[0, window.pieces.body] = torch.from_numpy(seen.tokens).to(precision)
        of_question = torch.zeros(1, m, seen.question.shape[1], dtype=precision)
        of_question[0, asked.pieces.body] = torch.from_numpy(seen.question).to(precision)
        return Inputs(
            f.pad(window.states, (0, 0, 0, spare))[None],
            asked.states[None],
            real,
            torch.ones(1, m, dtype=torch.bool),
            body,
            of_tokens,
            of_question,
            torch.tensor([claim]),
        )


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply ``function`` to each item, in order, on all cores that this process may use."""
    workers = min(len(items), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with one_thread():
        if workers < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers, "reading") as pool:
            return list(pool.map(function, items))


def _rounded(length: int) -> int:
    return -(-length // _PAD) * _PAD
