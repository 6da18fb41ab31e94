"""Load the shipped network once per process, for all readers and critics that use the same files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from shared_core.reading.model import ReadingModel
from shared_core.reading.weights import Weights

_known: dict[tuple[Path, Path], tuple[ReadingModel, Weights]] = {}
_lock = threading.Lock()


def load_network(weights: Path, find_folder: Callable[[], Path]) -> tuple[ReadingModel, Weights]:
    """Return the network of a weights file over the embedding model in a folder.

    Args:
        weights: file with its JSON beside it.
        find_folder: finds the embedding model's folder (``model.model_folder``).

    Raises:
        ModelLoadError, MissingDependencyError, CalibrationError: model or weights are not usable.
    """
    with _lock:
        key = weights.resolve(), find_folder().resolve()
        if key not in _known:
            loaded = Weights.load(weights)
            _known[key] = ReadingModel(key[1], loaded.network), loaded
        return _known[key]
