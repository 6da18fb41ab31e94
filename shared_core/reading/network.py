"""The reading network as it ships: locates answers in a window, and classifies whether evidence supports a claim.

all-MiniLM-L6-v2's six layers, trained on, in 8 bits. The lower two see question and window apart, so a passage's states
are computed once and serve every question; the upper four read both together (DeFormer: Cao et al., ACL 2020, sec. 3).
What the uncased model blurs (names, numbers, rare words, exact matches) comes in between as surface features
(``features``). A cheap score of each window by late interaction over the lower states (ColBERT: Khattab & Zaharia,
SIGIR 2020, sec. 3) says which windows are worth reading together.

All windows of a question compete in one softmax with a "no answer" whose logit is 0 (shared normalisation: Clark and
Gardner, ACL 2018, sec. 3.3), so scores of different passages compare. A critic's claim is read in the place of a
question. ``benchmarks/reader`` trains the network and makes the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.features import Surface
from shared_core.retrieval.graphs import Graph
from shared_core.retrieval.minilm import MiniLM

MAX_TOKENS = 256
"""Text tokens in one window; the model has 512 positions, and the title takes some."""
MAX_TITLE_TOKENS = 32
MAX_ASKED_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Pieces:
    """A question, a claim, or a window of a passage behind its title: ``[CLS] (title [SEP]) text [SEP]``.

    Attributes:
        ids: (n,) word piece ids, with the marks and the title.
        body: where the text's own pieces are in ``ids``.
        starts, ends: (pieces of the text,) code points: ``text[starts[i]:ends[i]]`` is piece ``i`` of ``body``.
    """

    ids: NDArray[np.int64]
    body: slice
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def body_ids(self) -> NDArray[np.int64]:
        """(pieces of the text,) their ids."""
        return self.ids[self.body]


class PieceTokenizer:
    """Cuts texts into word pieces of the encoder. Safe from several threads."""

    def __init__(self, encoder: MiniLM) -> None:
        self._encoder = encoder

    def asked(self, text: str) -> Pieces:
        """A question or claim; pieces past ``MAX_ASKED_TOKENS`` are left out."""
        ids, starts, ends = (part[:MAX_ASKED_TOKENS] for part in self._cut(text))
        return self._framed([], ids, starts, ends)

    def number(self, word: str) -> int | None:
        """The number of a word in small letters that is one piece, most frequent words first; ``None`` of others."""
        return self._encoder.number(word)

    def windows(self, text: str, title: str, sentences: Sequence[tuple[int, int]]) -> list[Pieces]:
        """A passage in windows of whole sentences, each behind the title; offsets are the passage's.

        A sentence longer than a window is cut at the window's end and goes on in the next one; nothing is left out.
        """
        ids, starts, ends = self._cut(text)
        head = [int(i) for i in self._cut(title)[0][:MAX_TITLE_TOKENS]]
        return [self._framed(head, ids[a:b], starts[a:b], ends[a:b]) for a, b in ranges(starts, sentences)]

    def _cut(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        (encoding,) = self._encoder.tokenize([text])
        offsets = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        return np.asarray(encoding.ids, dtype=np.int64), offsets[:, 0], offsets[:, 1]

    def _framed(
        self, head: list[int], ids: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Pieces:
        prefix = [self._encoder.cls, *head, self._encoder.sep] if head else [self._encoder.cls]
        whole = np.concatenate([np.array(prefix, dtype=np.int64), ids, np.array([self._encoder.sep], dtype=np.int64)])
        return Pieces(whole, slice(len(prefix), len(prefix) + len(ids)), starts, ends)


def ranges(starts: NDArray[np.int64], sentences: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of word pieces: as many whole sentences as fit ``MAX_TOKENS``.

    Args:
        starts: (n,) code points at which pieces begin.
        sentences: (start, end) code points of each sentence.
    """
    if not len(starts):
        return []
    # the first piece of every sentence; the end of all
    cuts = sorted({0, len(starts), *(int(np.searchsorted(starts, s)) for s, _ in sentences)})
    out: list[tuple[int, int]] = []
    begin = 0
    for cut, following in zip(cuts[1:], [*cuts[2:], None]):
        while cut - begin > MAX_TOKENS:  # one sentence is longer than a window
            out.append((begin, begin + MAX_TOKENS))
            begin += MAX_TOKENS
        if following is None or following - begin > MAX_TOKENS:
            if cut > begin:
                out.append((begin, cut))
            begin = cut
    return out


SUPPORTED, UNSUPPORTED, REFUTED = range(3)
"""Classes of the critic."""


class States(NamedTuple):
    """A text of n word pieces after the lower layers.

    Attributes:
        states: (n, 384) float32.
        near: (n, 64) float32, of unit norm, for the cheap score.
        weight: (n,) float32, how much a question's pieces weigh in the cheap score, but for their features.
    """

    states: NDArray[np.float32]
    near: NDArray[np.float32]
    weight: NDArray[np.float32]


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


class Network:
    """The graphs of the network, run over single texts: the result for one never depends on the others. Thread-safe.

    Args:
        encoder: its word vectors and word pieces are used.
        archive: arrays of the file of weights.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelLoadError: a graph is missing or cannot be loaded.
        KeyError: an array is missing.
    """

    def __init__(self, encoder: MiniLM, archive: Mapping[str, NDArray[Any]]) -> None:
        self.tokenizer = PieceTokenizer(encoder)
        self.lower: Callable[..., list[NDArray[Any]]] = Graph(archive, "lower")
        self.upper: Callable[..., list[NDArray[Any]]] = Graph(archive, "upper")
        self._encoder = encoder
        self._weigh, self._scale = archive["weigh"], archive["cheap_scale"]

    def apart(self, pieces: Pieces) -> Apart:
        """Run the lower layers on one text."""
        return Apart(pieces, States(*(out[0] for out in self.lower(words=self._encoder.words(pieces.ids)))))

    def score_cheaply(self, asked: Apart, window: Apart, seen: Surface) -> float:
        """Score a window before it is read together with the question; comparable among windows."""
        covered = float(seen.tokens[:, -1].max(initial=0.0))
        held = window.states.near[window.pieces.body]
        near = (asked.states.near @ held.T).max(axis=1) if len(held) else np.full(len(asked.states.near), -1.0)
        weight = asked.states.weight + _spread(asked.pieces, seen.question) @ self._weigh
        shares = np.exp(weight - weight.max())
        return float(self._scale[0] * (shares @ near) / shares.sum() + self._scale[1] * covered)

    def together(self, asked: Apart, window: Apart, seen: Surface, *, claim: bool = False) -> Logits:
        """Run the upper layers on a question (or claim) together with a window (or evidence)."""
        logits, verdict, support = self.upper(
            question=asked.states.states[None],
            window=window.states.states[None],
            question_features=_spread(asked.pieces, seen.question)[None],
            window_features=_spread(window.pieces, seen.tokens)[None],
            side=np.array([int(claim)], np.int64),
        )
        start, end, sentence = logits[0, window.pieces.body].astype(np.float64).T
        known = support[0] - np.logaddexp.reduce(support[0].astype(np.float64))
        return Logits(start, end, sentence, float(verdict[0, 0]), known)


def _spread(pieces: Pieces, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features of a text's own pieces as those of all its pieces: zeros for the title and the marks."""
    out = np.zeros((len(pieces.ids), features.shape[1]), np.float32)
    out[pieces.body] = features
    return out
