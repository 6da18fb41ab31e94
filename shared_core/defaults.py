"""The parts an engine takes when it is given none, loaded when first used."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared_core.errors import SelfReflectError
from shared_core.reading.base import Read, Reader, ReadResult
from shared_core.retrieval.base import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LazyReader:
    """The shipped extractive reader."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Name of the shipped reader."""
        return self._get().name

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        """Read with the shipped reader."""
        return self._get().read(requests)

    def _get(self) -> Reader:
        with self._lock:
            if self._reader is None:
                from shared_core.reading.extractive import ExtractiveReader

                self._reader = ExtractiveReader()
            return self._reader


class LazyEmbedder:
    """MiniLM."""

    def __init__(self) -> None:
        self._embedder: Embedder | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Name of the shipped embedder."""
        return self._get().name

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed with the shipped embedder."""
        return self._get().embed(texts)

    def _get(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                from shared_core.retrieval.embedding import MiniLMEmbedder

                self._embedder = MiniLMEmbedder()
            return self._embedder
