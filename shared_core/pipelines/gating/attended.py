"""The words of a tentative sentence, with their probabilities, entropies and the attention they receive."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shared_core.lm.base import Attention, Sample
from shared_core.uncertainty import Word, is_content_word, pieces_of, word_attention, word_means, words_of


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
    if not len(sample.tokens) == len(sample.entropy) == weights.within.shape[1]:
        return None
    words = _words(sample.text, sample.tokens)
    return AttendedWords(
        words,
        tuple(map(float, word_attention(weights.within, words))),
        tuple(map(float, word_means(sample.entropy, words))),
    )


def _words(text: str, tokens: tuple[str, ...]) -> tuple[Word, ...]:
    """Words of a text with the positions of the original tokens, whatever characters these cut through."""
    pieces = pieces_of(text, tokens)
    places = [w.tokens for w in pieces]
    found = words_of([w.text for w in pieces])
    return tuple(Word(w.text, tuple(t for p in w.tokens for t in places[p])) for w in found)


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
    if after >= stretches[0][1]:
        stretches.append((after, after + len(steps)))
    found: list[Word] = []
    at = 0
    pieces = pieces_of(text, weights.context_tokens)
    inside: list[Word] = []
    for piece in pieces:
        middle = at + len(piece.text) / 2  # a piece on the edge (its blank outside) belongs where most of it lies
        at += len(piece.text)
        if any(a <= middle < b for a, b in stretches):
            inside.append(piece)
        elif inside:
            found += _join(inside)
            inside = []
    return tuple(found + _join(inside))


def _join(pieces: list[Word]) -> list[Word]:
    words = words_of([p.text for p in pieces])
    return [Word(w.text, tuple(t for i in w.tokens for t in pieces[i].tokens)) for w in words]
