"""An embedder for tests: a fixed random direction for each word, so that texts with the same words are near."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class HashingEmbedder:
    def __init__(self, name: str = "hashing-64", dimension: int = 64) -> None:
        self.name = name
        self.dimension = dimension
        self.batches: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        out = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(out, texts):
            for word in text.lower().split() or [""]:
                seed = int.from_bytes(hashlib.sha256(word.strip(".,?").encode()).digest()[:4], "big")
                row += np.random.default_rng(seed).standard_normal(self.dimension)
        unit: NDArray[np.float32] = (out / np.linalg.norm(out, axis=1, keepdims=True)).astype(np.float32)
        return unit
