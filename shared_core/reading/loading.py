"""Load the shipped network once per process, for all readers and critics that use the same files."""

from __future__ import annotations

import threading
from pathlib import Path

from shared_core.reading.model import ReadingModel
from shared_core.reading.weights import Weights
from shared_core.retrieval.minilm import load_model

_known: dict[Path, tuple[ReadingModel, Weights]] = {}
_lock = threading.Lock()


def load_network(path: Path) -> tuple[ReadingModel, Weights]:
    """Return the network of a file of weights (with its JSON beside it), over the encoder's word vectors.

    Raises:
        ModelLoadError, MissingDependencyError, CalibrationError: encoder, network or calibration are not usable.
    """
    with _lock:
        key = path.resolve()
        if key not in _known:
            loaded = Weights.load(path)
            _known[key] = ReadingModel(load_model(), loaded.network), loaded
        return _known[key]
