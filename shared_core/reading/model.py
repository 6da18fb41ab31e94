"""Run the reading network over single texts; the result for one never depends on the others."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.features import Surface
from shared_core.reading.network import REFUTED, SUPPORTED, UNSUPPORTED, Network, States
from shared_core.reading.pieces import Pieces, PieceTokenizer
from shared_core.reading.weights import Weights
from shared_core.retrieval.minilm import MiniLM, load_model


@dataclass(frozen=True, slots=True)
class Apart:
    """A text with its states after the lower layers."""

    pieces: Pieces
    states: States


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


class ReadingModel:
    """The network with the encoder, whose word vectors and word pieces it uses. Thread-safe."""

    def __init__(self, encoder: MiniLM, network: Network) -> None:
        self.tokenizer = PieceTokenizer(encoder)
        self._encoder, self._network = encoder, network

    def apart(self, pieces: Pieces) -> Apart:
        """Run the lower layers on one text."""
        return Apart(pieces, self._network.lower(self._encoder.words(pieces.ids)))

    def score_cheaply(self, asked: Apart, window: Apart, seen: Surface) -> float:
        """Score a window before it is read together with the question; comparable among windows."""
        covered = float(seen.tokens[:, -1].max(initial=0.0))
        features = _spread(asked.pieces, seen.question)
        return self._network.score_cheaply(asked.states, window.states, window.pieces.body, features, covered)

    def together(self, asked: Apart, window: Apart, seen: Surface, *, claim: bool = False) -> Logits:
        """Run the upper layers on a question (or claim) together with a window (or evidence)."""
        of_question, of_window = _spread(asked.pieces, seen.question), _spread(window.pieces, seen.tokens)
        logits, verdict, support = self._network.upper(asked.states, window.states, of_question, of_window, claim)
        start, end, sentence = logits[window.pieces.body].astype(np.float64).T
        return Logits(start, end, sentence, verdict, support - np.logaddexp.reduce(support.astype(np.float64)))


_known: dict[Path, tuple[ReadingModel, Weights]] = {}
_lock = threading.Lock()


def load_network(path: Path) -> tuple[ReadingModel, Weights]:
    """Return the network of a file of weights (with its JSON beside it), over the encoder's word vectors.

    It is loaded once per process, for all readers and critics that use the same files.

    Raises:
        ModelLoadError, MissingDependencyError, CalibrationError: encoder, network or calibration are not usable.
    """
    with _lock:
        key = path.resolve()
        if key not in _known:
            loaded = Weights.load(path)
            _known[key] = ReadingModel(load_model(), loaded.network), loaded
        return _known[key]


def _spread(pieces: Pieces, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features of a text's own pieces as those of all its pieces: zeros for the title and the marks."""
    out = np.zeros((len(pieces.ids), features.shape[1]), np.float32)
    out[pieces.body] = features
    return out
