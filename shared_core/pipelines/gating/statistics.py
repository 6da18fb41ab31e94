"""From greedy continuations and samples to the statistics that estimators read, further prompts included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.lm.base import Attention, Generation, Prompt, Sample, SamplingParams, Scores
from shared_core.pipelines.decision.question_run import together
from shared_core.pipelines.gating.alternatives import ClaimUncertainty, JudgedAlternatives, judge_alternatives
from shared_core.pipelines.gating.choose import ChosenEstimator
from shared_core.pipelines.gating.prompts import CONFIDENCE_ASK, SUFFICIENCY_ASK, TRUTH_ASK
from shared_core.reading.base import Verdict
from shared_core.runtime.flow import Embed, Flow, Generate, Judge, Score, Together
from shared_core.uncertainty import (
    PairPlan,
    SampleStatistics,
    Word,
    cluster_by_entailment,
    cluster_by_similarity,
    is_content_word,
    pieces_of,
    plan_pairs,
    word_attention,
    word_means,
    words_of,
)


def probabilities(sample: Sample) -> tuple[list[str], list[float]] | None:
    """(pieces of the text, probability of each) of a sample; ``None`` where the model gives none.

    What lies beyond the text (an end-of-sequence token, the rest of a stop string) is left out; tokens that share a
    character are one piece, with the least of their probabilities (NaN counts as unknown).
    """
    if sample.logprobs is None or sample.tokens is None or len(sample.tokens) != len(sample.logprobs):
        return None
    pieces = pieces_of(sample.text, sample.tokens)
    # A rounded log-probability may lie above 0.
    p = [math.exp(min(x, 0.0)) if not math.isnan(x) else math.nan for x in sample.logprobs]
    return [w.text for w in pieces], [float(np.min([p[i] for i in w.tokens])) for w in pieces]


@dataclass(frozen=True, slots=True)
class AttendedWords:
    """The words of a sentence with what DRAGIN reads: attention received within it, and entropy (mean, nats).

    ``Word.tokens`` are positions of the sample's tokens.
    """

    words: tuple[Word, ...]
    attention: tuple[float, ...]
    entropies: tuple[float, ...]

    def weighted_entropies(self, *, published: bool) -> tuple[float, ...]:
        """sᵢ · Hᵢ: words that carry no meaning of their own count as certain (DRAGIN's sᵢ, Su et al. 2024, eq. 3).

        The published code leaves sᵢ out of the trigger.
        """
        if published:
            return self.entropies
        return tuple(h * is_content_word(w.text) for h, w in zip(self.entropies, self.words))


def attended_words(sample: Sample) -> AttendedWords | None:
    """``None`` where the model gives no attention weights, no entropies or no tokens."""
    weights = sample.attention
    if weights is None or sample.entropy is None or sample.tokens is None:
        return None
    if not len(sample.tokens) == len(sample.entropy) == weights.within.shape[1]:  # (heads, T, T)
        return None
    words = _words(sample.text, sample.tokens)
    return AttendedWords(
        words,
        tuple(map(float, word_attention(weights.within, words))),
        tuple(map(float, word_means(sample.entropy, words))),
    )


def _words(text: str, tokens: tuple[str, ...]) -> tuple[Word, ...]:
    """Words of a text with the positions of the original tokens, whatever characters these cut through."""
    return tuple(_join(pieces_of(text, tokens)))


def attention_from(
    sample: Sample, spoken: AttendedWords, at: int, question: str, steps: str
) -> tuple[list[str], list[float]]:
    """(words, weight) that word ``at`` of a sample gives to what came before: question, steps so far, earlier words.

    Demonstrations and passages in the prompt do not count. Weights are means over heads, summed over a word's tokens.
    """
    weights = sample.attention
    assert weights is not None
    trigger = spoken.words[at].tokens[0]  # the token at which the word begins is the one that looks back
    row = weights.context[trigger]  # (C,), a mean over heads already
    before = _last(weights, question, steps)
    words = [w.text for w in before]
    values = [float(row[list(w.tokens)].sum()) for w in before]
    own = weights.within[:, trigger, :].mean(axis=0)  # (heads, T) → (T,)
    for word in spoken.words[:at]:
        words.append(word.text)
        values.append(float(own[list(word.tokens)].sum()))
    return words, values


def _last(weights: Attention, question: str, steps: str) -> tuple[Word, ...]:
    """The words of the last occurrence of the question in the prompt, and of the steps after it."""
    text = weights.context_text
    start = text.rfind(question)  # the last: a demonstration or a passage may hold the same words
    if start < 0:  # the backend shows prompts in another form: everything counts
        return _words(text, weights.context_tokens)
    stretches = [(start, start + len(question))]
    after = text.rfind(steps) if steps else -1
    if after >= stretches[0][1]:  # behind the question; before it, a passage has the same words
        stretches.append((after, after + len(steps)))
    found: list[Word] = []
    at = 0
    inside: list[Word] = []
    for piece in pieces_of(text, weights.context_tokens):
        middle = at + len(piece.text) / 2  # a piece on the edge (its blank outside) belongs where most of it lies
        at += len(piece.text)
        if any(a <= middle < b for a, b in stretches):
            inside.append(piece)
        elif inside:
            found += _join(inside)
            inside = []
    return tuple(found + _join(inside))


def _join(pieces: Sequence[Word]) -> list[Word]:
    """Join pieces to words, which keep the positions of the pieces' tokens."""
    words = words_of([p.text for p in pieces])
    return [Word(w.text, tuple(t for i in w.tokens for t in pieces[i].tokens)) for w in words]


SAME_MEANING = 0.85
"""Cosine of MiniLM embeddings from which two samples count as saying the same, where nothing judges entailment."""

_ASKS = {"verbalised": CONFIDENCE_ASK, "sufficiency": SUFFICIENCY_ASK}
_TRUE, _FALSE = " True", " False"  # with a blank: TRUTH_ASK ends in "It is"

# Needs that compare texts in pairs; those that compare the greedy answer with the samples.
_PAIRED = {"similarity", "entailment", "agreement", "answer_similarity", "answer_agreement"}
_BESIDE = {"answer_similarity", "answer_agreement"}


@dataclass(frozen=True, slots=True)
class _Meanings:
    """Comparison of the texts of one prompt: its samples, and behind them perhaps the greedy answer.

    Attributes:
        similarity, agreement: (n, n) in [0, 1].
        cluster_ids: of the samples.
        beside: whether the last row is the greedy answer's.
    """

    similarity: NDArray[np.float64] | None = None
    agreement: NDArray[np.float64] | None = None
    cluster_ids: tuple[int, ...] | None = None
    beside: bool = False

    def among(self, matrix: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """(k, k) of the samples."""
        return matrix[:-1, :-1] if matrix is not None and self.beside else matrix

    def answer(self, matrix: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """(k,) of the greedy answer with each sample; ``None`` where that was not asked for."""
        return matrix[-1, :-1] if matrix is not None and self.beside else None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A prompt with its greedy continuation and the samples drawn for it (none, where the estimators need none)."""

    prompt: Prompt
    draft: Sample
    samples: tuple[Sample, ...] = ()

    def then(self, text: str) -> Prompt:
        """The prompt, the greedy continuation, and a further text of ours."""
        # A draft may repeat a document, so it is as untrusted as one.
        return self.prompt + Prompt.untrusted(self.draft.text) + Prompt.trusted(text)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The statistics of one prompt, and how sure its greedy continuation's sentences are (by their alternatives)."""

    statistics: SampleStatistics
    claims: tuple[ClaimUncertainty, ...] = ()


def gather(
    drawn: Sequence[Drawn], chosen: ChosenEstimator, needs: set[str], questions: Sequence[str]
) -> Flow[list[Gathered]]:
    """The statistics of each prompt, no more than ``needs``; further prompts go out in one batch for each kind.

    What the model fails to say at a further prompt is unknown; a capability it lacks is an error.
    """
    meanings: Sequence[_Meanings] = [_Meanings()] * len(drawn)
    if needs & _PAIRED:
        meanings = yield from _compare_meanings(drawn, chosen, needs, questions)
    judged: Sequence[JudgedAlternatives | None] = [None] * len(drawn)
    if "alternatives" in needs:
        judged = yield from judge_alternatives([d.draft for d in drawn], chosen)
    stated: dict[str, Sequence[tuple[str, ...] | None]] = {}
    for name, ask in _ASKS.items():
        stated[name] = [None] * len(drawn)
        if name in needs:
            stated[name] = yield from _ask_each(drawn, ask)
    truth: Sequence[tuple[float, float] | None] = [None] * len(drawn)
    if "p_true" in needs:
        truth = yield from _ask_for_truth(drawn, chosen)
    as_code = chosen.options.published.follows_code
    found = []
    for i, (one, meant, rivals) in enumerate(zip(drawn, meanings, judged)):
        words = attended_words(one.draft) if "attention" in needs else None
        found.append(
            Gathered(
                SampleStatistics(
                    texts=tuple(s.text for s in one.samples) if one.samples else None,
                    token_logprobs=_logprobs(one.samples),
                    states=_states(one.samples),
                    similarity=meant.among(meant.similarity),
                    cluster_ids=meant.cluster_ids,
                    agreement=meant.among(meant.agreement),
                    answer_text=one.draft.text,
                    answer_similarity=meant.answer(meant.similarity),
                    answer_agreement=meant.answer(meant.agreement),
                    answer_logprobs=one.draft.logprobs,
                    answer_entropies=one.draft.entropy,
                    answer_logsumexp=one.draft.logsumexp,
                    word_attention=words.attention if words else (),
                    word_entropies=words.weighted_entropies(published=as_code) if words else (),
                    previous_attention=_previous(one.draft),
                    alternative_logprobs=rivals.logprobs if rivals else None,
                    alternative_classes=rivals.classes if rivals else None,
                    functional=rivals.functional if rivals else None,
                    verbalised=stated["verbalised"][i],
                    sufficiency=stated["sufficiency"][i],
                    p_true=truth[i],
                    alpha=chosen.options.published.alpha,
                ),
                rivals.claims if rivals else (),
            )
        )
    return found


def _logprobs(samples: Sequence[Sample]) -> tuple[tuple[float, ...], ...] | None:
    """(k, tokens of each), unless a sample lacks them."""
    found = tuple(s.logprobs for s in samples if s.logprobs is not None)
    return found if samples and len(found) == len(samples) else None


def _states(samples: Sequence[Sample]) -> NDArray[np.float64] | None:
    """(k, d), in double precision: a Gram determinant of near-equal states loses its digits in float32."""
    found = [s.hidden_state for s in samples if s.hidden_state is not None]
    return np.stack(found).astype(np.float64) if samples and len(found) == len(samples) else None


def _previous(draft: Sample) -> NDArray[np.float64]:
    """(layers, heads, T); empty, so that nothing is known, where the model gives none or not of every token."""
    weights = draft.attention.previous if draft.attention is not None else None
    if weights is None or weights.shape[2] != len(draft.logprobs or ()):
        return np.zeros((0, 0, 0))
    return weights.astype(np.float64)


def _compare_meanings(
    drawn: Sequence[Drawn], chosen: ChosenEstimator, needs: set[str], questions: Sequence[str]
) -> Flow[list[_Meanings]]:
    """Over pairs of different texts only, in one batch."""
    beside = bool(needs & _BESIDE)
    by_embedder = chosen.comparer == "embedder"
    plans = [
        plan_pairs(
            [s.text for s in d.samples] + [d.draft.text] * beside,  # the greedy answer last, if at all
            # The critic goes by words in common, and those of the question are in all of them.
            question=q if chosen.comparer == "judge" else "",
            symmetric=by_embedder,  # a cosine has no direction
        )
        for d, q in zip(drawn, questions)
    ]
    if by_embedder:
        vectors = yield Together(tuple(Embed(p.unique) for p in plans))
        return [_by_vectors(p, np.asarray(rows, dtype=np.float64), beside) for p, rows in zip(plans, vectors)]
    judge = chosen.comparer == "judge"
    # Not the critic's: it hardly tells contradiction from silence (docs/default_rules.md).
    verdicts = judge and bool(needs & {"agreement", "answer_agreement"})
    replies = yield Together(tuple(Judge(p.pairs, "judge" if judge else "critic", verdicts=verdicts) for p in plans))
    return [_by_verdicts(plan, values, beside) for plan, values in zip(plans, replies)]


def _by_verdicts(plan: PairPlan, replies: Sequence[Verdict | float | None], beside: bool) -> _Meanings:
    # (n, n), [i, j]: text i entails text j. Similarity is symmetric and entailment is not: the mean of both ways.
    # Clusters look at each way.
    entailment = plan.matrix([r.supported if isinstance(r, Verdict) else r for r in replies])
    agreement = plan.matrix([_agreement(r) for r in replies])
    samples = entailment[:-1, :-1] if beside else entailment
    ids = cluster_by_entailment(samples)
    return _Meanings((entailment + entailment.T) / 2, (agreement + agreement.T) / 2, ids, beside)


def _agreement(reply: Verdict | float | None) -> float | None:
    """P(entails) + P(neutral) / 2; P(entails) by who does not tell contradiction from silence."""
    if not isinstance(reply, Verdict):
        return reply
    return reply.supported if reply.refuted is None else (1.0 + reply.supported - reply.refuted) / 2


def _by_vectors(plan: PairPlan, array: NDArray[np.float64], beside: bool) -> _Meanings:
    """From (different texts, d) rows of unit norm."""
    raw = array @ array.T
    cosine = np.clip(raw, 0.0, 1.0)  # opposite meanings are no less alike than unrelated ones
    agreement = np.clip((1.0 + raw) / 2, 0.0, 1.0)  # vectors at right angles have nothing to do with each other: 1/2
    nothing = [i for i, text in enumerate(plan.unique) if not text]
    for matrix in (cosine, agreement):
        matrix[nothing, :] = matrix[:, nothing] = 0.0  # an empty text is like no other
        np.fill_diagonal(matrix, 1.0)
    similarity = plan.expand(cosine)  # (n, n): texts that are equal share their row
    ids = cluster_by_similarity(similarity[:-1, :-1] if beside else similarity, SAME_MEANING)
    return _Meanings(similarity, plan.expand(agreement), ids, beside)


def _ask_each(drawn: Sequence[Drawn], ask: str) -> Flow[list[tuple[str, ...]]]:
    params = SamplingParams(max_tokens=12)  # room for "Confidence: 95/100"
    results = yield from together([Generate(d.then(ask), params) for d in drawn])
    return [(r.text,) if isinstance(r, Generation) else ("",) for r in results]  # states nothing: unknown


def _ask_for_truth(drawn: Sequence[Drawn], chosen: ChosenEstimator) -> Flow[list[tuple[float, float]]]:
    """(log P(true), log P(false)) for each."""
    asked = [d.then(TRUTH_ASK) for d in drawn]
    requests: list[Generate | Score]
    if "score" in chosen.abilities:
        verdicts = (Prompt.trusted(_TRUE), Prompt.trusted(_FALSE))
        requests = [Score(p, verdicts) for p in asked]
    else:
        # Both words at the place of the first token, whichever the model writes there.
        params = SamplingParams(max_tokens=1, verdicts=(_TRUE, _FALSE))
        requests = [Generate(p, params) for p in asked]
    results = yield from together(requests)
    return [_read_truth(r) for r in results]


def _read_truth(result: object) -> tuple[float, float]:
    if isinstance(result, Scores):
        return result.totals[0], result.totals[1]
    if isinstance(result, Generation):
        verdicts = result.samples[0].verdict_logprobs  # (positions, 2)
        if verdicts is not None and len(verdicts):
            return float(verdicts[0, 0]), float(verdicts[0, 1])
    return math.nan, math.nan  # unknown
