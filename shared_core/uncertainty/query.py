"""Search queries from what a model wrote tentatively: SeaKR's certain words, FLARE's masked sentence, DRAGIN's words.

Tokens are given as text that joins to the sentence (``"".join(tokens)``), probabilities as p in [0, 1]. A probability
that is not a number is never "certain".
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError
from shared_core.uncertainty.arrays import Float64, finite, numbers
from shared_core.uncertainty.tokens import dragin_scores

_PUNCTUATION = string.punctuation + "“”‘’«»…–—¿¡"
_OPENING, _CLOSING = " \"'([{“‘«¿¡…", " \"')]}”’»….,;:!?"
"""What may stand before and behind the words of a sentence."""
FUNCTION_WORDS = frozenset(
    resources.files("shared_core.uncertainty").joinpath("function_words.txt").read_text("utf-8").split()
)
"""English words without a meaning of their own, in lower case."""


@dataclass(frozen=True, slots=True)
class Word:
    """A stretch without white space and the tokens (by position) that have a part in it.

    >>> words_of(["The", " Vel", "mora"])[1]
    Word(text='Velmora', tokens=(1, 2))
    """

    text: str
    tokens: tuple[int, ...]


def words_of(tokens: Sequence[str]) -> tuple[Word, ...]:
    """The words that tokens spell, each with its tokens; one token may belong to several words."""
    of = [i for i, token in enumerate(tokens) for _ in token]  # the token of each character
    found = re.finditer(r"\S+", "".join(tokens))
    return tuple(Word(m[0], tuple(dict.fromkeys(of[m.start() : m.end()]))) for m in found)


def pieces_of(text: str, tokens: Sequence[str]) -> tuple[Word, ...]:
    """``text`` cut where its tokens end: each piece with the tokens (by position) it is made of.

    Tokens that hold part of a character only (shown as U+FFFD) join into one piece. Tokens beyond the end of the
    text (an end-of-sequence token, what follows a stop string) belong to none.
    """
    pieces: list[Word] = []
    waiting: list[int] = []
    at = 0
    for i, token in enumerate(tokens):
        if at == len(text):
            break
        if not token:
            continue
        if text.startswith(token, at) and not waiting:
            pieces.append(Word(token, (i,)))
            at += len(token)
            continue
        rest = text[at:]
        if not waiting and token.startswith(rest):  # the stop string ended inside this token
            pieces.append(Word(rest, (i,)))
            at = len(text)
            break
        whole = sum(c != "\ufffd" for j in waiting for c in tokens[j])  # these precede what is looked for
        place = text.find(token, at + max(1, whole)) if waiting and "\ufffd" not in token else -1
        if place < 0:
            waiting.append(i)
            continue
        pieces += [Word(text[at:place], tuple(waiting)), Word(token, (i,))]
        waiting, at = [], place + len(token)
    if at < len(text) and waiting:
        parts = [i for i in waiting if "\ufffd" in tokens[i]]  # what follows a broken character is beyond the end
        waiting = [i for i in waiting if not parts or i <= parts[-1]]
        pieces.append(Word(text[at:], tuple(waiting)))
    elif at < len(text) and pieces:  # a broken character that also stands in the text whole: the spelling still holds
        pieces[-1] = Word(pieces[-1].text + text[at:], pieces[-1].tokens)
    return tuple(pieces)


def is_content_word(word: str) -> bool:
    """Whether a word carries meaning of its own: not punctuation, not an English function word.

    Written as a name, such a word counts: "WHO", "US", "May", "Will".
    """
    bare, shown = _bare(word), word.strip(_PUNCTUATION)
    named = (len(shown) > 1 and shown.isupper()) or shown in ("May", "Will")
    return bool(bare) and (named or bare not in FUNCTION_WORDS)


def certain_words(
    words: Sequence[Word],
    probabilities: ArrayLike,
    *,
    known: Sequence[str] = (),
    threshold: float = 0.9,
    published: bool = False,
) -> tuple[Word, ...]:
    """The words a query may use: every token has p ≥ threshold, or one of the ``known`` texts contains the word.

    Comparison with known texts is by whole words, without case and punctuation. Words without tokens are left out.

    Args:
        words: of the whole pseudo-generation (the published code forgets all sentences but the last).
        probabilities: (T,) of the tokens the words refer to.
        known: texts whose words stay whatever their probability.
        threshold: every token of a word must reach it.
        published: take a word as known where it is part of a known text anywhere, even within another word.

    Raises:
        InputError: a word refers to a token that has no probability.
    """
    p = _probabilities(probabilities)
    if any(i >= len(p) for w in words for i in w.tokens):
        raise InputError(f"A word refers to a token beyond the {len(p)} probabilities given.")
    seen = {bare for text in known for w in text.split() if (bare := _bare(w))}

    def is_known(word: str) -> bool:
        return any(word in text for text in known) if published else _bare(word) in seen

    return tuple(w for w in words if w.tokens and (is_known(w.text) or bool(np.all(p[list(w.tokens)] >= threshold))))


def seakr_query(
    question: str,
    tokens: Sequence[str],
    probabilities: ArrayLike,
    *,
    previous_step: str = "",
    threshold: float = 0.9,
    max_tokens: int = 64,
    ignored: Collection[str] = (),
) -> str:
    """SeaKR's query (Yao et al. 2024, section 3.2): the pseudo-generation without its uncertain words.

    Args:
        question: returned where no word is left.
        tokens: (T,) text of the pseudo-generation's tokens; all its sentences count.
        probabilities: (T,) probability of each.
        previous_step: words of it (and of the question) stay whatever their probability.
        threshold: every token of a word must reach it.
        max_tokens: words are taken from the start as long as their tokens fit.
        ignored: further words to leave out, in lower case (the published code: thus, answer, is, so).

    Raises:
        InputError: tokens and probabilities differ in number.
    """
    p = _probabilities(probabilities, tokens)
    certain = certain_words(words_of(tokens), p, known=(question, previous_step), threshold=threshold)
    kept = [w for w in certain if is_content_word(w.text) and _bare(w.text) not in ignored]
    used = accumulate(len(w.tokens) for w in kept)
    chosen = [w.text for w, total in zip(kept, used) if total <= max_tokens]
    # Marks that belong to a word stay: C++, C#, $5, -5, 10%.
    return " ".join(chosen).lstrip(_OPENING).rstrip(_CLOSING) or question


def flare_triggered(probabilities: ArrayLike, threshold: float = 0.8) -> bool:
    """FLARE (Jiang et al. 2023): retrieve if a token has p ≤ threshold. Nothing written or NaN: retrieve."""
    p = _probabilities(probabilities)
    return not (p.size and bool(np.all(p > threshold)))


def masked_query(
    tokens: Sequence[str], probabilities: ArrayLike, *, threshold: float = 0.4, collapse: bool = True
) -> str:
    """FLARE's implicit query: the sentence without its tokens of p ≤ threshold, which become blanks.

    Args:
        tokens: (T,) text of each token; ``probabilities``: (T,).
        threshold: 0 masks nothing but what is not a number.
        collapse: one blank for a run of them; otherwise as the published code.

    Returns:
        Possibly empty: then search for the question.
    """
    p = _probabilities(probabilities, tokens)
    low = np.isnan(p) | ((p <= threshold) & (threshold > 0))
    text = "".join(" " if masked else token for token, masked in zip(tokens, low)).strip()
    return " ".join(text.split()) if collapse else text


def word_attention(
    attention: ArrayLike, words: Sequence[Word], reduce: Literal["max", "mean", "last"] = "max"
) -> Float64:
    """Compute the attention that each word of a sentence receives (DRAGIN), from the last layer's weights.

    Args:
        attention: (heads, T, T), ``[h, q, t]`` the weight that position q gives to t; causal.
        words: of those T tokens.
        reduce: over the positions q ≥ t: ``max`` (DRAGIN), ``mean``, or only the ``last`` position.

    Returns:
        (number of words,): reduced over positions, mean over heads, summed over a word's tokens.

    Raises:
        InputError: not of that shape, or a word refers to a token beyond it.
    """
    a = numbers(attention, "attention", 3)
    size = a.shape[2]
    if a.shape[1] != size or any(i >= size for w in words for i in w.tokens):
        raise InputError(f"attention must be (heads, T, T) over all tokens of the words, not of shape {a.shape}.")
    if reduce == "max":
        per_token = a.max(axis=1).mean(axis=0)
    elif reduce == "mean":
        per_token = np.tril(a.mean(axis=0)).sum(axis=0) / np.arange(size, 0, -1)
    else:
        per_token = a[:, -1, :].mean(axis=0)
    return np.array([per_token[list(w.tokens)].sum() for w in words])


def word_means(values: ArrayLike, words: Sequence[Word]) -> Float64:
    """(number of words,) mean of a per-token value (entropy, log-probability) over each word's tokens."""
    v = numbers(values, "values", 1)
    return np.array([v[list(w.tokens)].mean() for w in words])


@dataclass(frozen=True, slots=True)
class Trigger:
    """Place where DRAGIN asks for retrieval: the sentence, its words' values, and the words above the threshold.

    >>> trigger = dragin_trigger([0.2, 0.8], entropies=[0.1, 2.0], sentence_lengths=[2], threshold=1.0)
    >>> trigger.sentence, trigger.word
    (0, 1)
    """

    sentence: int
    values: tuple[float, ...]
    hits: tuple[bool, ...]

    @property
    def word(self) -> int:
        """Place of the first hit in its sentence: what follows it is to be written anew."""
        return self.hits.index(True)


def dragin_trigger(
    attention: ArrayLike, entropies: ArrayLike, sentence_lengths: Sequence[int], threshold: float
) -> Trigger | None:
    """The first sentence with a word whose DRAGIN value exceeds the threshold; ``None`` if there is none.

    Args:
        attention, entropies: per word of the whole text.
        sentence_lengths: words of each sentence, in order; they must add up.
        threshold: of ``n · a / Σa · H``. A sentence whose values are unknown is a hit at its first word.
    """
    a, h = numbers(attention, "attention", 1), numbers(entropies, "entropies", 1)
    if not sum(sentence_lengths) == len(a) == len(h):
        raise InputError(f"Sentences of {sum(sentence_lengths)} words, {len(a)} attentions, {len(h)} entropies.")
    start = 0
    for sentence, length in enumerate(sentence_lengths):
        part = slice(start, start + length)
        values = dragin_scores(a[part], h[part])
        hits = np.isnan(values) | (values > threshold)
        if hits.any():
            return Trigger(sentence, tuple(map(float, values)), tuple(map(bool, hits)))
        start += length
    return None


def dragin_query(words: Sequence[str], attention: ArrayLike, limit: int = 25) -> str:
    """DRAGIN's query: of all content words so far, the ``limit`` that the trigger position attends to most, in order.

    Args:
        words: of the context before the trigger (question and text written).
        attention: (number of words,) weight the trigger position gives to each (mean over heads).

    Returns:
        Possibly empty (no content words, or unknown attention): then search for the question.
    """
    a = numbers(attention, "attention", 1)
    if len(a) != len(words):
        raise InputError(f"There are {len(words)} words and {len(a)} attentions.")
    if not finite(a):
        return ""
    content = [i for i, w in enumerate(words) if is_content_word(w)]
    best = sorted(content, key=lambda i: -a[i])[:limit]
    return " ".join(words[i].strip(_PUNCTUATION) for i in sorted(best))


def _bare(word: str) -> str:
    return word.strip(_PUNCTUATION).casefold().replace("’", "'")


def _probabilities(values: ArrayLike, tokens: Sequence[str] | None = None) -> Float64:
    """Return (T,) probabilities; InputError if one is none, or if there are not as many as tokens."""
    p = numbers(values, "probabilities", 1)
    if tokens is not None and len(p) != len(tokens):
        raise InputError(f"There are {len(tokens)} tokens and {len(p)} probabilities.")
    if p.size and (np.nanmin(p, initial=0.0) < 0 or np.nanmax(p, initial=0.0) > 1 + 1e-6):
        raise InputError("Probabilities must lie in [0, 1].", hint="Give exp(log-probability).")
    return p
