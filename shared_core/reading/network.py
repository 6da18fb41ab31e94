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

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.retrieval.graphs import Graph

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


class Network:
    """The graphs of the network. Thread-safe.

    Args:
        archive: arrays of the file of weights.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelLoadError: a graph is missing or cannot be loaded.
        KeyError: an array is missing.
    """

    def __init__(self, archive: Mapping[str, NDArray[Any]]) -> None:
        self._lower, self._upper = Graph(archive, "lower"), Graph(archive, "upper")
        self._weigh, self._scale = archive["weigh"], archive["cheap_scale"]

    def lower(self, words: NDArray[np.float32]) -> States:
        """Run the lower layers on the (1, n, 384) word vectors of a text."""
        return States(*(out[0] for out in self._lower(words=words)))

    def score_cheaply(
        self,
        question: States,
        window: States,
        body: slice,
        question_features: NDArray[np.float32],
        covered: float,
    ) -> float:
        """Score how far a window looks like answering, before both are read together; any scale.

        Args:
            question, window: of m and n pieces.
            body: the window's own pieces, without title and marks.
            question_features: (m, QUESTION_FEATURES).
            covered: the window's and title's share of the question's words.
        """
        held = window.near[body]
        near = (question.near @ held.T).max(axis=1) if len(held) else np.full(len(question.near), -1.0)
        weight = question.weight + question_features @ self._weigh
        shares = np.exp(weight - weight.max())
        return float(self._scale[0] * (shares @ near) / shares.sum() + self._scale[1] * covered)

    def upper(
        self,
        question: States,
        window: States,
        question_features: NDArray[np.float32],
        window_features: NDArray[np.float32],
        claim: bool,
    ) -> tuple[NDArray[np.float32], float, NDArray[np.float32]]:
        """Run the upper layers on a question (or claim) of m pieces together with a window of n.

        Args:
            question, window: of ``lower``.
            question_features: (m, QUESTION_FEATURES); ``window_features``: (n, TOKEN_FEATURES).
            claim: whether the question is a claim.

        Returns:
            (n, 3) logits of start, end and sentence, compared with 0 for "no answer"; the window's part of them; (3,)
            logits of SUPPORTED, UNSUPPORTED and REFUTED.
        """
        logits, verdict, support = self._upper(
            question=question.states[None],
            window=window.states[None],
            question_features=question_features[None],
            window_features=window_features[None],
            side=np.array([int(claim)], np.int64),
        )
        return logits[0], float(verdict[0, 0]), support[0]
