"""Process-wide default reader, critic and embedder, loaded lazily.

Models are loaded at first use. A pickled or copied default becomes the default of the process that receives it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from shared_core.reading.base import Reader, SupportScorer
    from shared_core.retrieval.base import Embedder

T = TypeVar("T")

_LOCK = threading.Lock()


def default_reader() -> Reader:
    """The shipped extractive reader."""
    with _LOCK:
        return _reader()


def default_embedder() -> Embedder:
    """The MiniLM embedder."""
    with _LOCK:
        return _embedder()


def default_critic() -> SupportScorer | None:
    """The shipped critic; ``None`` if its packages are not installed."""
    with _LOCK:
        return _critic()


@cache
def _critic() -> SupportScorer | None:
    if any(find_spec(name) is None for name in ("onnxruntime", "tokenizers", "py3langid")):
        return None
    from shared_core.reading.critic import CriticSupportScorer

    return _one_in_a_process(CriticSupportScorer, default_critic)


@cache
def _reader() -> Reader:
    from shared_core.reading.extractive import ExtractiveReader

    return _one_in_a_process(ExtractiveReader, default_reader)


@cache
def _embedder() -> Embedder:
    from shared_core.retrieval.embedding import MiniLMEmbedder

    return _one_in_a_process(MiniLMEmbedder, default_embedder)


def _one_in_a_process(kind: type[T], find: Callable[[], object]) -> T:
    """Create an object whose pickles and copies become the result of ``find``."""

    def reduce(self: object) -> tuple[Callable[[], object], tuple[()]]:
        return find, ()

    def copy(self: T, memo: object) -> T:
        return self

    names = {"__reduce__": reduce, "__deepcopy__": copy, "__module__": kind.__module__, "__doc__": kind.__doc__}
    made: T = type(kind.__name__, (kind,), names)()
    return made
