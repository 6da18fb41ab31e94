"""Trust in a model's word, learnt in use from how its replies go with the reader's probabilities.

Nobody labels questions in use. But a model that agrees with the reader where the reader is sure, and declines where it
is not, behaves differently from one that declines everything, quotes whatever is nearest, or says something else. So a
model is taken to be of one of the ``TYPES``, each with its rates P(reply | R) and P(reply | not R), where R is "the
reader's best quote answers" and p the reader's calibrated P(R). By Bayes' rule, over types t with weights w,

    P(R | reply) = Σ w_t p P_t(reply | R) / Σ w_t (p P_t(reply | R) + (1 - p) P_t(reply | not R))

and w_t is the prior times p P_t(reply | R) + (1 - p) P_t(reply | not R) of each other question. So one refusal of an
unknown model counts much, the tenth refusal in a row hardly at all.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import Any, Literal, get_args

Reply = Literal["agrees", "differs", "declines", "contradicts"]
"""It says what the reader's best quote says; something else; that there is no answer; or what its own quote refutes."""
_REPLIES: tuple[Reply, ...] = get_args(Reply)
_Rates = tuple[float, float, float, float]
TYPES: dict[str, tuple[float, _Rates, _Rates]] = {
    "competent": (0.35, (0.84, 0.12, 0.03, 0.01), (0.05, 0.27, 0.67, 0.01)),
    "nearest": (0.38, (0.68, 0.30, 0.01, 0.01), (0.55, 0.43, 0.01, 0.01)),
    "weak": (0.08, (0.25, 0.68, 0.02, 0.05), (0.06, 0.84, 0.02, 0.08)),
    "unrelated": (0.06, (0.03, 0.93, 0.02, 0.02), (0.03, 0.93, 0.02, 0.02)),
    "declining": (0.08, (0.02, 0.03, 0.94, 0.01), (0.02, 0.03, 0.94, 0.01)),
    "contradicting": (0.05, (0.40, 0.03, 0.02, 0.55), (0.20, 0.25, 0.02, 0.53)),
}
"""Prior, P(reply | R) and P(reply | not R) of each type, replies in the order of ``Reply``. The rates are those of
simulated models of each kind on training questions (benchmarks/model_stack.py), the prior is a judgement."""
_KEPT = 200  # questions remembered: another model may answer under the same name tomorrow


class ModelTrust:
    """Weights of the types that a model may be of. May be used from several threads.

    What a question itself taught does not count for it, so the same question gets the same answer again.

    Example:
        >>> trust = ModelTrust()
        >>> round(trust.posterior(0.7, "declines"), 2)
        0.41
        >>> for i in range(10):
        ...     trust.observe(0.9, "declines", f"question {i}")  # it declines whatever it is asked
        >>> round(trust.posterior(0.7, "declines"), 2)
        0.7
    """

    def __init__(self) -> None:
        self._learnt: OrderedDict[str, tuple[float, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def competent(self, question: str = "") -> float:
        """Return P(the model answers what the passages answer, and declines the rest), as far as is known.

        Args:
            question: that it is wanted for; what was learnt from it is left out.
        """
        return self._weights(question)["competent"]

    def posterior(self, probability: float, reply: Reply, question: str = "") -> float:
        """Return P(the reader's best quote answers), given how the model replied.

        Args:
            probability: of the reader, in [0, 1].
            reply: of the model to the same question.
            question: what was learnt from it is left out.
        """
        weights = self._weights(question)
        right = sum(w * _joint(name, probability, reply)[0] for name, w in weights.items())
        wrong = sum(w * _joint(name, probability, reply)[1] for name, w in weights.items())
        return right / (right + wrong)

    def observe(self, probability: float, reply: Reply, question: str) -> None:
        """Learn from one more reply, in place of what was learnt from the same question before."""
        likely = tuple(math.log(sum(_joint(name, probability, reply))) for name in TYPES)
        with self._lock:
            self._learnt.pop(question, None)
            self._learnt[question] = likely
            if len(self._learnt) > _KEPT:
                self._learnt.popitem(last=False)

    def _weights(self, question: str) -> dict[str, float]:
        with self._lock:
            learnt = [row for asked, row in self._learnt.items() if asked != question]
        logs = [math.log(prior) for prior, _, _ in TYPES.values()]
        logs = [math.fsum(terms) for terms in zip(logs, *learnt, strict=True)]
        shares = [math.exp(value - max(logs)) for value in logs]
        return {name: share / sum(shares) for name, share in zip(TYPES, shares, strict=True)}

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"_learnt": OrderedDict(self._learnt)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._learnt = state["_learnt"]
        self._lock = threading.Lock()


def _joint(name: str, probability: float, reply: Reply) -> tuple[float, float]:
    """Return P(reply, R) and P(reply, not R) for a type."""
    _, if_right, if_wrong = TYPES[name]
    at = _REPLIES.index(reply)
    return probability * if_right[at], (1 - probability) * if_wrong[at]
