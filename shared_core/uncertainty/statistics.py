"""Statistics of one sampling pass: the input of every estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, numbers

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
    """A statistic was not asked for when sampling; estimators turn it into an InputError that says what to ask for."""


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
