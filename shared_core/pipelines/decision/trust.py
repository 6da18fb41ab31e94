"""Trust in a model's word, learnt in use from how its replies go with the reader's probabilities.

Nobody labels questions in use. But a model that agrees with the reader where the reader is sure, and declines where it
is not, behaves differently from one that declines everything, quotes whatever is nearest, or says something else. Let R
be "the reader's best quote answers" and p the reader's calibrated P(R). A model is of one of the ``TYPES`` t, whose
replies tell something of R at known rates P_t(reply | R) and P_t(reply | not R); or its replies tell nothing, whatever
their rates: those have a Dirichlet prior, so that after counts n the next reply has the probability
(α_reply + n_reply) / Σ (α + n), R or not. By Bayes' rule, over types with weights w,

    P(R | reply) = Σ w_t p P_t(reply | R) / Σ w_t (p P_t(reply | R) + (1 - p) P_t(reply | not R))

and w_t is the prior times p' P_t(reply | R) + (1 - p') P_t(reply | not R) of each other question. p' is p as it may be
on these documents: nearer to 1/2, since the reader is surer of other text than it is right, or higher, since more of
the questions asked here have answers; which of the two fits is learnt along. So one refusal of an unknown model counts
much, the tenth refusal in a row hardly at all.

Only contrast can show that replies tell little: the same ones where the reader is sure and where it is not. Where all
questions have answers and a model always agrees, it does what a competent one does, only more often than the fixed
rates of that type have it, and rates that are learnt fit this better with every question. So to agree where p is 1/2 or
more, and to decline where it is less, counts against no competent model: by all others, it is at most as probable as by
the competent type that does so most often.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import shared_core.calibration
from shared_core.calibration.replies import REPLIES, FittedReplies, Rates, Reply, ReplyRates, read_rates
from shared_core.lm.size import Size

_Types = dict[str, tuple[float, Rates, Rates]]
TYPES: _Types = {
    "competent": (0.25, (0.84, 0.11, 0.03, 0.02), (0.02, 0.24, 0.70, 0.04)),
    "careful": (0.20, (0.66, 0.23, 0.09, 0.02), (0.03, 0.18, 0.75, 0.04)),
    "ready": (0.10, (0.78, 0.18, 0.02, 0.02), (0.15, 0.32, 0.49, 0.04)),
    "eager": (0.05, (0.70, 0.25, 0.03, 0.02), (0.25, 0.37, 0.34, 0.04)),
    "fair": (0.05, (0.50, 0.39, 0.09, 0.02), (0.25, 0.42, 0.29, 0.04)),
    "contradicting": (0.03, (0.40, 0.03, 0.02, 0.55), (0.20, 0.25, 0.02, 0.53)),
}
"""Prior, P(reply | R) and P(reply | not R) of each type, replies in the order of ``Reply``. The rates are near those of
simulated models on training and tuning questions (``benchmarks/model_stack.py``): strong ones that copy, and that use
their own words; strong ones that answer a fifth or half of the questions with what is nearest; weaker ones; liars
behind right quotes. The priors are a judgement. Models that are often wrong agree with the reader nearly as often where
it is wrong, since what misleads one misleads the other: SmolLM2-135M in .25 and .14 of the cases. To weigh that cost
more answers than it gained."""
_MEASURED = "measured"
_COMPETENT = ("competent", "careful")
_SECONDS = (*_COMPETENT, "contradicting")
"""Types whose agreement counts. Where the reader is unsure, what is nearest misleads it and the others alike: of the
quotes that their agreement alone brought above .5, half were wrong. So it is with selfreflect-small, whose replies were
measured: it agrees more often where the reader is right, but of 30 quotes of a probability below .65 with which it
agreed 9 were right, as many as their probabilities say."""
_BELIEVED = 0.9
"""Prior that a model's replies mean here what they meant where they were measured; the rest is shared as without."""
CAPABLE = Path(shared_core.calibration.__file__).with_name("capable_model.json")
"""What the recorded replies of a large language model show (``benchmarks/recorded.py --write-capable``)."""
_EXPECTED: Mapping[Size, float] = {"large": 0.75, "medium": 0.5}
"""Prior that a model of a size replies as that one did. A judgement: no other model's replies are known."""
UNINFORMATIVE = 1 - sum(prior for prior, _, _ in TYPES.values())
"""Prior of a model whose replies tell nothing of R."""
_COUNTED_BEFORE: Rates = (1.0, 1.0, 1.0, 0.3)  # α
_DOUBT = 0.2
"""Share of wrong words that a reader may be granted while one learns from it: taken at its word, a strong model that
contradicts it was taken for one that says nothing."""
_MORE_ANSWERED = 4.0
"""Factor of the odds of R where four of five questions have answers, and not one of two."""
_READERS = 2  # ways in which a reader's probabilities may be off here, equally probable beforehand
_NOTHING = "nothing"


class _Learnt(NamedTuple):
    """A reply to one question.

    Attributes:
        likely: log probabilities of the reply by each of the types, first with the first of ``_readers``.
        at_most: highest log probability that the reply may have if replies tell nothing.
    """

    reply: Reply
    likely: tuple[float, ...]
    at_most: float


_KEPT = 200  # questions remembered: another model may answer under the same name tomorrow


class ModelTrust:
    """Weights of the types that a model may be of. May be used from several threads.

    What a question itself taught does not count for it, so the same question gets the same answer again.

    Args:
        measured: rates of this very model on labelled questions (``calibrate replies``, or
            ``TransformersLM.reply_rates``); ``None`` if its replies were never measured.
        shift: log odds by which its claims are right oftener than those of models in general, where that was measured.
        expected: it is not this model that was measured but one which it is believed to be like; how firmly, in [0, 1].

    Raises:
        CalibrationError: they are no rates.

    >>> trust = ModelTrust()
    >>> round(trust.posterior(0.7, "declines"), 2)
    0.38
    >>> for i in range(10):
    ...     trust.observe(0.9, "declines", f"question {i}")  # it declines whatever it is asked
    >>> round(trust.posterior(0.7, "declines"), 2)
    0.7
    """

    def __init__(
        self, measured: ReplyRates | None = None, shift: float = 0.0, *, expected: float | None = None
    ) -> None:
        self._types, self._nothing = TYPES, UNINFORMATIVE
        self._competent: tuple[str, ...] = _COMPETENT
        self._seconds: tuple[str, ...] = _SECONDS
        self._shift = 0.0
        self._is_expected = expected is not None
        self._own: Mapping[str, float] = measured.get("own", {}) if measured is not None else {}
        if measured is not None:
            believed = _BELIEVED if expected is None else expected
            left = 1 - believed
            others = {name: (left * prior, right, wrong) for name, (prior, right, wrong) in TYPES.items()}
            rates = read_rates(measured)
            self._types = {_MEASURED: (believed, *rates), **others}
            self._shift = shift
            self._nothing *= left
            nearest = min(TYPES, key=lambda name: _divergence(rates, TYPES[name][1:]))
            self._competent += (_MEASURED,) if nearest in _COMPETENT else ()
            self._seconds += (_MEASURED,) if nearest in _SECONDS else ()
        self._learnt: OrderedDict[str, _Learnt] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def of_size(cls, size: Size) -> ModelTrust:
        """Return the trust in a model of which only the size is known.

        >>> round(ModelTrust.of_size("large").correct(0.4), 2), ModelTrust().correct(0.4)
        (0.78, 0.4)
        """
        fitted = _capable()
        return cls(fitted.rates, fitted.shift, expected=_EXPECTED[size])

    @property
    def corrected_for(self) -> str:
        """Whose claims the support for models in general is corrected for; empty if it is not corrected."""
        if not self._shift:
            return ""
        return "models of its size" if self._is_expected else "this one"

    def competent(self, question: str = "") -> float:
        """Return P(the model answers what the passages answer, and declines the rest), as far as is known.

        Args:
            question: that it is wanted for; what was learnt from it is left out.
        """
        weights = self._weigh(self._others(question))
        return math.fsum(weights[name] for name in self._competent)

    def helps(self, question: str = "") -> float:
        """Return P(its replies tell where the reader is right, and its own quotes bear it out), as far as is known."""
        weights = self._weigh(self._others(question))
        return math.fsum(weights[name] for name in self._types if name != "contradicting")

    def posterior(self, probability: float, reply: Reply, question: str = "") -> float:
        """Return P(the reader's best quote answers), given how the model replied.

        Args:
            probability: of the reader, in [0, 1].
            question: what was learnt from it is left out.
        """
        learnt = self._others(question)
        weights = self._weigh(learnt)
        right = wrong = 0.0
        either = weights[_NOTHING] * _rates_so_far(learnt)[REPLIES.index(reply)]
        for name in self._types:
            if_right, if_wrong = self._joint(name, probability, reply)
            # Their agreement counts as if it told nothing, and their other replies count in full.
            if reply == "agrees" and name not in self._seconds:
                either += weights[name] * (if_right + if_wrong)
            else:
                right += weights[name] * if_right
                wrong += weights[name] * if_wrong
        return (right + either * probability) / (right + wrong + either)  # what tells nothing leaves p as it is

    @property
    def is_seldom_right(self) -> bool:
        """Whether the model was measured to be mostly wrong where it says something else than the reader."""
        return self._own.get("differs", 1.0) < 0.5

    def own_right(self, reply: Reply, question: str = "") -> float:
        """Return how probable at most it is that what the model itself says is right: 1 unless that was measured.

        Args:
            question: what was learnt from it is left out.
        """
        if reply not in self._own:
            return 1.0
        as_measured = self._weigh(self._others(question))[_MEASURED]
        return as_measured * self._own[reply] + 1 - as_measured

    def alone(self, question: str = "") -> float:
        """Return P(the model is right where the reader says otherwise) as far as it was measured; 0 if it was not.

        What both say may be as probable at least.

        Args:
            question: what was learnt from it is left out.
        """
        if "differs" not in self._own:
            return 0.0
        return self._own["differs"] * self._weigh(self._others(question))[_MEASURED]

    def correct(self, probability: float, question: str = "") -> float:
        """Return P(a claim of this model is right), given what it would be of models in general.

        The log odds are shifted by what was measured, as far as the model is believed to be here what it was there.

        Args:
            probability: by the stack for models in general, in [0, 1].
            question: what was learnt from it is left out.
        """
        if not self._shift or not 0 < probability < 1:
            return probability
        shifted = 1 / (1 + (1 - probability) / probability * math.exp(-self._shift))
        as_measured = self._weigh(self._others(question))[_MEASURED]
        return as_measured * shifted + (1 - as_measured) * probability

    def highest(self, probability: float, question: str = "") -> float:
        """Return P(the reader's best quote answers), given the reply that would speak for it most."""
        return max(self.posterior(probability, reply, question) for reply in REPLIES)

    def observe(self, probability: float, reply: Reply, question: str) -> None:
        """Learn from one more reply, in place of what was learnt from the same question before.

        Of a model that was measured to be competent, only what counts against it whoever is right is learnt: that it
        declines where the reader is sure, or contradicts its quotes. An answer where the reader is unsure, or another
        one than the reader's, shows as often that the reader is wrong.
        """
        learns_all = self._is_expected or _MEASURED not in self._competent
        if not learns_all and (reply == "differs" or (reply == "agrees" and probability < 0.5)):
            with self._lock:
                self._learnt.pop(question, None)
            return
        expected = reply == ("agrees" if probability >= 0.5 else "declines")  # of a competent model
        likely: list[float] = []
        limits: list[float] = []
        for right in _readers(probability):
            # P(reply), R or not. Above 0, as no rate is 0.
            by_type = {name: math.log(sum(self._joint(name, right, reply))) for name in self._types}
            limits.append(max(by_type[name] for name in self._competent) if expected else 0.0)
            likely += (min(value, limits[-1]) for value in by_type.values())
        with self._lock:
            self._learnt.pop(question, None)  # so that it goes to the end, and the oldest is forgotten first
            self._learnt[question] = _Learnt(reply, tuple(likely), max(limits))
            if len(self._learnt) > _KEPT:
                self._learnt.popitem(last=False)

    def _others(self, question: str) -> list[_Learnt]:
        with self._lock:
            # A copy under the lock: other threads go on observing while this one adds up.
            return [row for asked, row in self._learnt.items() if asked != question]

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            # Without the lock, which cannot be pickled.
            return {name: value for name, value in self.__dict__.items() if name != "_lock"} | {
                "_learnt": OrderedDict(self._learnt)
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def _weigh(self, learnt: list[_Learnt]) -> dict[str, float]:
        """Return P(a model is of each type), ``_NOTHING`` among them."""
        names = [*self._types] * _READERS
        logs = [math.log(self._types[name][0] / _READERS) for name in names]
        # Rows of `learnt` are questions, so zip makes the terms of each type.
        logs = [math.fsum(terms) for terms in zip(logs, *(row.likely for row in learnt), strict=True)]
        logs.append(math.log(self._nothing) + _log_untelling(learnt))
        shares = [math.exp(value - max(logs)) for value in logs]  # 200 replies would underflow to 0 without it
        weights = dict.fromkeys((*names, _NOTHING), 0.0)
        for name, share in zip((*names, _NOTHING), shares, strict=True):
            weights[name] += share / sum(shares)
        return weights

    def _joint(self, name: str, probability: float, reply: Reply) -> tuple[float, float]:
        """Return P(reply, R) and P(reply, not R) for a type."""
        _, if_right, if_wrong = self._types[name]
        at = REPLIES.index(reply)
        return probability * if_right[at], (1 - probability) * if_wrong[at]


@functools.cache
def _capable() -> FittedReplies:
    return FittedReplies.from_dict(json.loads(CAPABLE.read_text("utf-8")))


def _divergence(measured: tuple[Rates, Rates], of_type: tuple[Rates, Rates]) -> float:
    """Return the Kullback–Leibler divergence of a type's rates from those measured, R and not R alike."""
    pairs = zip((*measured[0], *measured[1]), (*of_type[0], *of_type[1]), strict=True)
    return math.fsum(p * math.log(p / q) for p, q in pairs)


def _readers(probability: float) -> tuple[float, float]:
    """Return P(R) in [0, 1] where the reader says this, if it is too sure, and if more questions have answers."""
    doubted = _DOUBT + (1 - 2 * _DOUBT) * probability  # p in [0, 1] → [.2, .8]
    return doubted, _MORE_ANSWERED * probability / (_MORE_ANSWERED * probability + 1 - probability)


def _log_untelling(learnt: list[_Learnt]) -> float:
    """Return log P(the replies), each predicted from those before it, if they tell nothing of R."""
    found, counted = 0.0, list(_COUNTED_BEFORE)
    for row in learnt:
        at = REPLIES.index(row.reply)
        found += min(math.log(counted[at] / sum(counted)), row.at_most)
        counted[at] += 1
    return found


def _rates_so_far(learnt: list[_Learnt]) -> list[float]:
    """Return the probability of each reply next, by how often it was given."""
    counts = [a + sum(row.reply == reply for row in learnt) for a, reply in zip(_COUNTED_BEFORE, REPLIES, strict=True)]
    return [n / sum(counts) for n in counts]
