"""The parts an engine takes when it is given none: one of each in a process, for everything that needs one.

Both load what is heavy at first use, so that having them costs nothing.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared_core.reading.base import Reader
    from shared_core.retrieval.base import Embedder

_LOCK = threading.Lock()


def default_reader() -> Reader:
    """The shipped extractive reader."""
    with _LOCK:
        return _reader()


def default_embedder() -> Embedder:
    """MiniLM."""
    with _LOCK:
        return _embedder()


@cache
def _reader() -> Reader:
    from shared_core.reading.extractive import ExtractiveReader

    return ExtractiveReader()


@cache
def _embedder() -> Embedder:
    from shared_core.retrieval.embedding import MiniLMEmbedder

    return MiniLMEmbedder()
