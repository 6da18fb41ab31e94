"""Trust in a model's word, learnt in use from how its replies go with the reader's probabilities.

Nobody labels questions in use. But a model that agrees with the reader where the reader is sure, and declines where it
is not, behaves differently from one that declines everything, quotes whatever is nearest, or says something else. So a
model is taken to be of one of four ``TYPES``, each with its rates P(reply | R) and P(reply | not R), where R is "the
reader's best quote answers" and p the reader's calibrated P(R). By Bayes' rule, over types t with weights w,

    P(R | reply) = Σ w_t p P_t(reply | R) / Σ w_t (p P_t(reply | R) + (1 - p) P_t(reply | not R))

and w_t is multiplied by p P_t(reply | R) + (1 - p) P_t(reply | not R) after each question. So one refusal of an unknown
model counts much, the tenth refusal in a row hardly at all.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Literal

Reply = Literal["agrees", "differs", "declines"]
_REPLIES: tuple[Reply, ...] = ("agrees", "differs", "declines")
TYPES: dict[str, tuple[float, tuple[float, float, float], tuple[float, float, float]]] = {
    "competent": (0.7, (0.85, 0.10, 0.05), (0.05, 0.15, 0.80)),
    "nearest": (0.12, (0.65, 0.34, 0.01), (0.10, 0.89, 0.01)),
    "other": (0.09, (0.03, 0.94, 0.03), (0.03, 0.94, 0.03)),
    "declining": (0.09, (0.02, 0.03, 0.95), (0.02, 0.03, 0.95)),
}
"""Prior, P(agrees, differs, declines | R) and P(… | not R) of each type; chosen on simulated models of each kind
(benchmarks/models.py, the tune part)."""
_LEAST = 1e-4  # no type is ever out of the question: another model may answer under the same name tomorrow
_BOOST = 3.0  # log-odds that a claim of a surely competent model gains, on the same simulated models


class ModelTrust:
    """Weights of the types that a model may be of. May be used from several threads.

    Example:
        >>> trust = ModelTrust()
        >>> round(trust.posterior(0.7, "declines"), 2)
        0.31
        >>> for _ in range(10):
        ...     trust.observe(0.9, "declines")  # it declines whatever it is asked
        >>> round(trust.posterior(0.7, "declines"), 2)
        0.7
    """

    def __init__(self) -> None:
        self._weights = {name: prior for name, (prior, _, _) in TYPES.items()}
        self._lock = threading.Lock()

    @property
    def competent(self) -> float:
        """P(the model answers what the passages answer, and declines the rest), as far as is known."""
        with self._lock:
            return self._weights["competent"]

    def posterior(self, probability: float, reply: Reply) -> float:
        """P(the reader's best quote answers), given how the model replied.

        Args:
            probability: of the reader, in [0, 1].
            reply: of the model to the same question.
        """
        with self._lock:
            weights = dict(self._weights)
        right = sum(w * _joint(name, probability, reply)[0] for name, w in weights.items())
        wrong = sum(w * _joint(name, probability, reply)[1] for name, w in weights.items())
        return right / (right + wrong)

    def observe(self, probability: float, reply: Reply) -> None:
        """Learn from one more reply; ``probability`` as for ``posterior``."""
        with self._lock:
            likely = {name: w * sum(_joint(name, probability, reply)) for name, w in self._weights.items()}
            total = sum(likely.values())
            bounded = {name: max(_LEAST, value / total) for name, value in likely.items()}
            self._weights = {name: value / sum(bounded.values()) for name, value in bounded.items()}

    def raised(self, support: float) -> float:
        """Raise the support of a claim that its quote bears out, as far as the model is known to be competent.

        A small reader finds many right quotes of a strong model doubtful; one that has shown to know when to decline
        is believed more. Support of 0 and 1 stays.
        """
        if not 0 < support < 1:
            return support
        return 1 / (1 + math.exp(-(math.log(support / (1 - support)) + _BOOST * self.competent)))

    def __getstate__(self) -> dict[str, Any]:
        return {"_weights": self._weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._weights = state["_weights"]
        self._lock = threading.Lock()


def _joint(name: str, probability: float, reply: Reply) -> tuple[float, float]:
    """P(reply, R) and P(reply, not R) for a type."""
    _, if_right, if_wrong = TYPES[name]
    at = _REPLIES.index(reply)
    return probability * if_right[at], (1 - probability) * if_wrong[at]
