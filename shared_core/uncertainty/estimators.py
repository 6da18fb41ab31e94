"""Statistics of one sampling pass, and the estimators by name: what each needs, what it costs, which is the best.

One sampling pass fills a ``SampleStatistics``; every estimator asked for reads from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from shared_core.errors import CapabilityError, InputError
from shared_core.uncertainty import hidden, semantic, text, tokens
from shared_core.uncertainty.arrays import Float64, known, numbers

_ARRAYS = {
    "states": 2, "similarity": 2, "agreement": 2, "answer_similarity": 1, "answer_agreement": 1,
    "previous_attention": 3,
}  # fmt: skip
"""Statistics that are arrays, with their axes."""

_OF_SAMPLES = (
    "texts", "token_logprobs", "states", "similarity", "cluster_ids", "agreement", "answer_similarity",
    "answer_agreement",
)  # fmt: skip
"""Statistics with an entry for each sample."""


class NotGatheredError(Exception):
    """A statistic is missing: it was not asked for when sampling, or the model did not give it."""


@dataclass(frozen=True, slots=True, eq=False)
class SampleStatistics:
    """All that one sampling pass can tell; ``None`` where it was not asked for. k is the number of samples.

    Attributes:
        texts: (k) the samples.
        token_logprobs: (k) each sample's token log-probabilities, natural.
        states: (k, d) a hidden state of each sample.
        similarity: (k, k) in [0, 1].
        cluster_ids: (k) equal where samples mean the same.
        agreement: (k, k) between samples, in [0, 1]: 1 entails, 1/2 has nothing to do with it, 0 contradicts.
        answer_text: the greedy answer; ``answer_similarity``, ``answer_agreement``: (k,) of it with each sample.
        answer_logprobs, answer_entropies, answer_logsumexp: (T,) of the greedy answer (for estimators of one
            sequence), the last two of its token distributions (nats; of the raw logits).
        word_attention, word_entropies: per word of the greedy answer (DRAGIN).
        previous_attention: (layers, heads, T) weight that each token of the greedy answer gives to the one before it.
        alternative_logprobs: (T) of the likely tokens at each place of the greedy answer, the generated one first;
            ``alternative_classes``: what they have to do with it (``tokens.ENTAILS``, …); ``functional``: (T) whether
            the generated one belongs to a word without meaning of its own.
        verbalised: replies to "how sure are you, 0–100?"; ``sufficiency``: to "do you know enough to answer?".
        p_true: (log P(True), log P(False)) of the greedy answer.
        alpha: regulariser of the estimators over hidden states.

    >>> SampleStatistics(texts=("red", "", "red"), cluster_ids=(0, 1, 0)).empty_samples
    1
    """

    texts: tuple[str, ...] | None = None
    token_logprobs: tuple[tuple[float, ...], ...] | None = None
    states: Float64 | None = None
    similarity: Float64 | None = None
    cluster_ids: tuple[int, ...] | None = None
    agreement: Float64 | None = None
    answer_text: str | None = None
    answer_similarity: Float64 | None = None
    answer_agreement: Float64 | None = None
    answer_logprobs: tuple[float, ...] | None = None
    answer_entropies: tuple[float, ...] | None = None
    answer_logsumexp: tuple[float, ...] | None = None
    word_attention: tuple[float, ...] | None = None
    word_entropies: tuple[float, ...] | None = None
    previous_attention: Float64 | None = None
    alternative_logprobs: tuple[tuple[float, ...], ...] | None = None
    alternative_classes: tuple[tuple[float, ...], ...] | None = None
    functional: tuple[bool, ...] | None = None
    verbalised: tuple[str, ...] | None = None
    sufficiency: tuple[str, ...] | None = None
    p_true: tuple[float, float] | None = None
    alpha: float = 1e-3

    def __post_init__(self) -> None:
        """Freeze the arrays (as copies) and refuse statistics of different numbers of samples."""
        for name, axes in _ARRAYS.items():
            if getattr(self, name) is not None:
                array = numbers(getattr(self, name), name, axes).copy()
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        counts = {n: len(getattr(self, n)) for n in _OF_SAMPLES if getattr(self, n) is not None}
        if len(set(counts.values())) > 1:
            raise InputError(f"The statistics are of different numbers of samples: {counts}.")

    @property
    def k(self) -> int:
        """Number of samples; 0 if there are none."""
        return next((len(value) for n in _OF_SAMPLES if (value := getattr(self, n)) is not None), 0)

    @property
    def empty_samples(self) -> int:
        """Samples without text (or, where texts are not given, without tokens): worth a word in a trace."""
        if self.texts is not None:
            return sum(not t.strip() for t in self.texts)
        return sum(not t for t in self.token_logprobs or ())

    def need(self, name: str) -> Any:
        """That statistic; NotGatheredError (its name) if it was not asked for."""
        value = getattr(self, name)
        if value is None:
            raise NotGatheredError(name)
        return value

    def answer(self) -> Sequence[float]:
        """Token log-probabilities of the greedy answer; the first sample's replace them if missing."""
        if self.answer_logprobs is not None:
            return self.answer_logprobs
        if self.token_logprobs is None:
            raise NotGatheredError("answer_logprobs")
        return self.token_logprobs[0] if self.token_logprobs else ()


Need = Literal[
    "hidden_states", "token_logprobs", "token_statistics", "text", "similarity", "entailment", "attention",
    "verbalised", "sufficiency", "p_true", "agreement", "answer_similarity", "answer_agreement", "previous_attention",
    "alternatives", "inference",
]  # fmt: skip
"""What an estimator reads. ``similarity``, ``entailment`` and ``agreement`` are scores over pairs of samples,
``answer_similarity`` and ``answer_agreement`` over the greedy answer and each sample (from an embedder, a judge, the
critic, or words in common); ``verbalised``, ``sufficiency`` and ``p_true`` are answers to a further prompt;
``alternatives`` are the likely tokens at each place of the answer, and ``inference`` somebody who judges whether these
say the same: a judge of entailment or the critic, for an embedder cannot tell "1871" from "1872"."""

_CAPABILITY: dict[str, tuple[str, ...]] = {  # any one of these names makes the need available
    "text": ("text",),
    "verbalised": ("text",),
    "sufficiency": ("text",),
    "p_true": ("verdict_logprobs", "score"),
    "entailment": ("entailment", "similarity"),  # clusters can be had from either
    "agreement": ("entailment", "similarity"),
    "answer_similarity": ("entailment", "similarity"),
    "answer_agreement": ("entailment", "similarity"),
    "previous_attention": ("attention",),
    "inference": ("entailment",),
}


class Cost(IntEnum):
    """Cost of an estimate beyond the answer itself, cheapest first.

    >>> get_estimator("perplexity").cost < get_estimator("gram").cost == Cost.SAMPLES
    True
    """

    ANSWER = 0
    """nothing: read off the answer's own tokens"""
    PROMPT = 1
    """one more short prompt"""
    WORDS = 2
    """a judgement of each likely alternative to the answer's words"""
    SAMPLES = 3
    """k samples of the answer"""
    PAIRS = 4
    """k samples, and a score for every pair of different ones"""


@dataclass(frozen=True, slots=True)
class Estimator:
    """A way to measure uncertainty; always higher = more uncertain.

    Attributes:
        name: as in settings, calibrations and traces.
        needs: the statistics it reads.
        min_samples: with fewer samples there is nothing to compare, and the estimate is unknown (+inf).
        unit: of the value.

    >>> estimator = get_estimator("perplexity")
    >>> estimator.needs
    frozenset({'token_logprobs'})
    >>> estimator.estimate(SampleStatistics(answer_logprobs=(0.0, 0.0)))
    1.0
    """

    name: str
    needs: frozenset[Need]
    cost: Cost
    min_samples: int
    unit: str
    summary: str
    function: Callable[[SampleStatistics], float]

    def estimate(self, statistics: SampleStatistics, *, asked: bool = False) -> float:
        """The uncertainty; +inf where it is unknown (too few samples, numbers that are not finite, unclear replies).

        Args:
            asked: all it needs was asked for: a missing statistic is one that the model did not give, and so unknown.

        Raises:
            InputError: a statistic it needs was not gathered, and not asked for either.
        """
        if self.min_samples and statistics.k < self.min_samples:
            return math.inf
        try:
            return known(self.function(statistics))
        except NotGatheredError as error:
            if asked:
                return math.inf
            raise InputError(
                f"The estimator {self.name!r} needs {error}, which this sampling pass did not gather.",
                hint=f"Ask for {', '.join(sorted(self.needs))} when sampling.",
            ) from None

    def available(self, capabilities: Iterable[str]) -> bool:
        """Whether these names (of ``Capabilities.names()``, with ``similarity``, ``entailment``) cover its needs."""
        return not self.missing(capabilities)

    def missing(self, capabilities: Iterable[str]) -> tuple[str, ...]:
        """The needs that are not covered, sorted."""
        names = set(capabilities)
        return tuple(sorted(n for n in self.needs if not names & set(_CAPABILITY.get(n, (n,)))))


def _semantic_entropy(s: SampleStatistics) -> float:
    """Over the samples that have tokens: an empty one has no length-normalised likelihood."""
    rows = [(float(np.mean(t)), c) for t, c in zip(s.need("token_logprobs"), s.need("cluster_ids")) if len(t)]
    return semantic.semantic_entropy([r[0] for r in rows], [r[1] for r in rows]) if len(rows) > 1 else math.inf


def _semantic_density(s: SampleStatistics) -> float:
    """Over different texts, each once; the answer is one of them, and a sample without tokens none."""
    answer, own = s.need("answer_text").strip(), s.answer()
    texts, rows, agreement = s.need("texts"), s.need("token_logprobs"), s.need("answer_agreement")
    if not len(own) or sum(len(row) > 0 for row in rows) < 2:
        return math.inf
    found = {answer: (float(np.mean(own)), 1.0)}
    for sample, row, value in zip(texts, rows, agreement):
        if len(row):
            found.setdefault(sample.strip(), (float(np.mean(row)), float(value)))
    return tokens.semantic_density([v[0] for v in found.values()], [v[1] for v in found.values()])


def _ccp(s: SampleStatistics) -> float:
    rows, classes = s.need("alternative_logprobs"), s.need("alternative_classes")
    return tokens.claim_conditioned_probability(rows, classes, functional=s.functional or ())


def _needs(*names: Need) -> frozenset[Need]:
    return frozenset(names)


_ANSWER, _PROMPT, _WORDS, _SAMPLES, _PAIRS = Cost.ANSWER, Cost.PROMPT, Cost.WORDS, Cost.SAMPLES, Cost.PAIRS
_STATES, _LOGPROBS, _STATISTICS = _needs("hidden_states"), _needs("token_logprobs"), _needs("token_statistics")
_GRAPH, _MEANINGS, _AGREEMENT = _needs("similarity"), _needs("entailment"), _needs("agreement")
_BESIDE = _needs("answer_similarity")

# fmt: off
_ALL = (
    Estimator("gram", _STATES, _SAMPLES, 2, "nats", "Gram determinant of the samples' hidden states (SeaKR)",
              lambda s: hidden.gram_uncertainty(s.need("states"), s.alpha)),
    Estimator("normalized_gram", _STATES, _SAMPLES, 2, "0-1", "the same, independent of k and scale",
              lambda s: hidden.normalized_gram(s.need("states"), s.alpha)),
    Estimator("eigenscore", _STATES, _SAMPLES, 2, "log10", "spectrum of the hidden states' covariance (INSIDE)",
              lambda s: hidden.eigenscore(s.need("states"), s.alpha)),
    Estimator("perplexity", _LOGPROBS, _ANSWER, 0, "perplexity", "of the greedy answer",
              lambda s: tokens.perplexity(s.answer())),
    Estimator("multi_perplexity", _LOGPROBS, _SAMPLES, 1, "perplexity", "mean over the samples",
              lambda s: tokens.multi_perplexity(s.need("token_logprobs"))),
    Estimator("length_normalized_entropy", _LOGPROBS, _SAMPLES, 1, "nats", "mean negative log-probability per token",
              lambda s: tokens.length_normalized_entropy(s.need("token_logprobs"))),
    Estimator("monte_carlo_entropy", _LOGPROBS, _SAMPLES, 1, "nats", "mean negative log-probability per sample",
              lambda s: tokens.monte_carlo_entropy([sum(t) for t in s.need("token_logprobs") if len(t)])),
    Estimator("max_sequence_probability", _LOGPROBS, _ANSWER, 0, "nats", "negative log-probability of the answer",
              lambda s: tokens.max_sequence_probability(s.answer())),
    Estimator("min_token_probability", _LOGPROBS, _ANSWER, 0, "0-1", "the answer's least probable token (FLARE)",
              lambda s: tokens.min_token_probability(s.answer())),
    Estimator("mean_token_entropy", _STATISTICS, _ANSWER, 0, "nats", "mean entropy of the answer's distributions",
              lambda s: tokens.mean_token_entropy(s.need("answer_entropies"))),
    Estimator("energy", _STATISTICS, _ANSWER, 0, "nats", "mean negative logsumexp of the answer's logits",
              lambda s: tokens.energy(s.need("answer_logsumexp"))),
    Estimator("p_true", _needs("p_true"), _PROMPT, 0, "0-1", "probability the model gives to its answer being false",
              lambda s: tokens.p_true(*s.need("p_true"))),
    Estimator("dragin", _needs("attention", "token_statistics"), _ANSWER, 0, "nats", "most attended uncertain word",
              lambda s: tokens.dragin(s.need("word_attention"), s.need("word_entropies"))),
    Estimator("semantic_entropy", _LOGPROBS | _MEANINGS, _PAIRS, 2, "nats", "entropy over meanings, by probability",
              _semantic_entropy),
    Estimator("discrete_semantic_entropy", _MEANINGS, _PAIRS, 2, "nats", "entropy over meanings, by count",
              lambda s: semantic.discrete_semantic_entropy(s.need("cluster_ids"))),
    Estimator("semantic_sets", _MEANINGS, _PAIRS, 2, "count", "number of meanings",
              lambda s: semantic.number_of_semantic_sets(s.need("cluster_ids"))),
    Estimator("degree_matrix", _GRAPH, _PAIRS, 2, "0-1", "mean dissimilarity of the samples",
              lambda s: semantic.degree_matrix(s.need("similarity"))),
    Estimator("eigenvalue_laplacian", _GRAPH, _PAIRS, 2, "count", "continuous number of meanings",
              lambda s: semantic.eigenvalue_laplacian(s.need("similarity"))),
    Estimator("eccentricity", _GRAPH, _PAIRS, 2, "norm", "spread of the samples in the graph's eigenvectors",
              lambda s: semantic.eccentricity(s.need("similarity"))),
    Estimator("lexical_similarity", _needs("text"), _SAMPLES, 2, "-1-0", "minus the words samples share (ROUGE-L)",
              lambda s: text.lexical_similarity(s.need("texts"))),
    Estimator("kle_heat", _AGREEMENT, _PAIRS, 2, "nats", "entropy of a heat kernel over the graph of meanings (KLE)",
              lambda s: semantic.kle_heat(s.need("agreement"))),
    Estimator("kle_matern", _AGREEMENT, _PAIRS, 2, "nats", "the same with a Matérn kernel",
              lambda s: semantic.kle_matern(s.need("agreement"))),
    Estimator("semantic_density", _LOGPROBS | _needs("answer_agreement"), _PAIRS, 2, "0-1",
              "one less the likely samples' agreement with the answer", _semantic_density),
    Estimator("cocoa_msp", _LOGPROBS | _BESIDE, _PAIRS, 2, "nats", "-log p of the answer × how unlike it samples are",
              lambda s: tokens.cocoa_msp(s.answer(), s.need("answer_similarity"))),
    Estimator("cocoa_ppl", _LOGPROBS | _BESIDE, _PAIRS, 2, "nats", "the same with the answer's mean -log p",
              lambda s: tokens.cocoa_ppl(s.answer(), s.need("answer_similarity"))),
    Estimator("cocoa_mte", _STATISTICS | _BESIDE, _PAIRS, 2, "nats", "the same with the answer's mean token entropy",
              lambda s: tokens.cocoa_mte(s.need("answer_entropies"), s.need("answer_similarity"))),
    Estimator("rauq", _LOGPROBS | _needs("previous_attention"), _ANSWER, 0, "nats",
              "confidence handed on by heads that attend to the token before (RAUQ)",
              lambda s: tokens.rauq(s.answer(), s.need("previous_attention"))),
    Estimator("ccp", _needs("alternatives", "inference"), _WORDS, 0, "0-1",
              "what contradicts the answer among its likely words (CCP)", _ccp),
    Estimator("verbalised", _needs("verbalised"), _PROMPT, 0, "0-1", "one less the confidence the model states",
              lambda s: text.verbalised_uncertainty(s.need("verbalised"))),
    Estimator("sufficiency", _needs("sufficiency"), _PROMPT, 0, "0-1", "share of replies that knowledge falls short",
              lambda s: text.sufficiency_uncertainty(s.need("sufficiency"))),
)
# fmt: on

ESTIMATORS = MappingProxyType({e.name: e for e in _ALL})
"""Every estimator by name."""

FALLBACK_ORDER = ("gram", "length_normalized_entropy", "discrete_semantic_entropy", "verbalised")
"""What stands in where a preferred estimator's needs are out of reach: hidden states, token log-probabilities,
meanings of the samples, the model's own word."""


def get_estimator(name: str) -> Estimator:
    """The estimator of that name; InputError that lists the names if there is none."""
    try:
        return ESTIMATORS[name]
    except KeyError:
        raise InputError(f"There is no estimator {name!r}.", hint=f"Known: {', '.join(ESTIMATORS)}") from None


def best_available(capabilities: Iterable[str], preferred: str = "gram") -> tuple[Estimator, str]:
    """The preferred estimator if the model allows it, else the first of ``FALLBACK_ORDER`` that it allows.

    Args:
        capabilities: ``Capabilities.names()``, and ``similarity`` or ``entailment`` where pairs can be scored.
        preferred: an estimator's name.

    Returns:
        The estimator and the reason, a sentence for the trace.

    Raises:
        InputError: no such estimator.
        CapabilityError: not even text can be had.
    """
    names = tuple(capabilities)
    wanted = get_estimator(preferred)
    missing = wanted.missing(names)
    if not missing:
        return wanted, f"{wanted.name} as asked for"
    for name in FALLBACK_ORDER:
        if ESTIMATORS[name].available(names):
            lacking = " and ".join(m.replace("_", " ") for m in missing)
            return ESTIMATORS[name], f"{wanted.name} needs {lacking}, which cannot be had here; {name} instead"
    raise CapabilityError("text", "model", hint="Every estimator needs at least generated text.")
