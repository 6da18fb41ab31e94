"""Passages, cut and prepared once for all questions, and questions, paired with windows of passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.citation.sentences import split_sentences
from shared_core.reading.features import Shape, Surface, Tokens, Words, asked_kind, shape_of, surface, words_of
from shared_core.reading.network import Apart, Logits
from shared_core.reading.weights import Weights
from shared_core.support.markup import blank_unseen
from shared_core.types import Span


@dataclass(frozen=True, slots=True)
class Window:
    """A run of a passage's sentences that is read at a time: what the lower layers make of it, and its tokens."""

    apart: Apart
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """The parts of a passage that do not depend on the question; ``stems`` are codes of its and its title's words."""

    sentences: list[tuple[int, int]]
    words: Words
    title: NDArray[np.int64]
    stems: NDArray[np.int64]
    windows: list[Window]

    @classmethod
    def of(cls, weights: Weights, text: str, title: str, sentences: Sequence[tuple[int, int]]) -> Prepared:
        """Cut a passage into windows and run the lower layers on each."""
        network, words = weights.network, words_of(blank_unseen(text), weights.rarity)
        windows = [
            Window(network.apart(p), Tokens.of(words, p.body_ids, p.starts, sentences))
            for p in network.tokenizer.windows(text, title, sentences)
        ]
        of_title = words_of(blank_unseen(title), weights.rarity).content
        return cls(list(sentences), words, of_title, np.union1d(words.stem, of_title), windows)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, a claim, or a question with an answer, beside which windows are read."""

    text: str
    apart: Apart
    words: Words
    tokens: Tokens
    kind: str | None
    shape: Shape

    @classmethod
    def of(cls, weights: Weights, text: str) -> Asked:
        """Run the lower layers on a question or claim."""
        pieces = weights.network.tokenizer.asked(text)
        words = words_of(text, weights.rarity)
        tokens = Tokens.of(words, pieces.body_ids, pieces.starts, [])
        return cls(text, weights.network.apart(pieces), words, tokens, asked_kind(text), shape_of(text, words))

    @property
    def has_words(self) -> bool:
        """Whether it holds anything but marks that the model does not know."""
        return len(self.apart.pieces.starts) > 0

    def beside(self, prepared: Prepared, window: Window) -> Surface:
        """Match the words of the question with one window of a passage."""
        return surface(self.words, self.tokens, prepared.words, window.tokens, prepared.title)

    def read(self, weights: Weights, prepared: Prepared, *, claim: bool = False) -> list[Logits]:
        """Return the network's output for each window of a passage beside it; it is a claim, if said so."""
        return [
            weights.network.together(self.apart, window.apart, self.beside(prepared, window), claim=claim)
            for window in prepared.windows
        ]


class Beside:
    """Runs the network on a question or claim, prepared once, together with any number of texts."""

    def __init__(self, weights: Weights, asked: str, *, claim: bool = False) -> None:
        self._weights, self._claim = weights, claim
        self._asked = Asked.of(weights, asked)
        self.words = self._asked.words

    def words_of(self, text: str) -> Words:
        """Split any text into words with their rarities."""
        return words_of(text, self._weights.rarity)

    def read(self, text: str, title: str = "") -> list[Logits]:
        """Return the network's output for each window of a text; nothing if either has no words."""
        if not self._asked.has_words:
            return []
        prepared = Prepared.of(self._weights, text, title, split_sentences(text))
        return self._asked.read(self._weights, prepared, claim=self._claim)


@dataclass(frozen=True, slots=True)
class Placed:
    """A window of one of the passages, beside the question.

    Attributes:
        number: of the passage in the request.
        seen: the words in common; ``cheap`` how far the window looks like answering.
    """

    number: int
    prepared: Prepared
    window: Window
    seen: Surface
    cheap: float


def overlaps(beside: Placed, number: int, span: Span) -> bool:
    """Whether the window holds a part of ``span``, which is of passage ``number``."""
    pieces = beside.window.apart.pieces
    inside = beside.number == number and bool(len(pieces.starts))
    return inside and int(pieces.starts[0]) < span.end and span.start < int(pieces.ends[-1])


def whole_words(window: Window, words: Words, first: int, last: int, begin: int, end: int) -> tuple[int, int]:
    """Code points of tokens ``first`` to ``last``, widened to whole words, within the sentence [begin, end)."""
    pieces = window.apart.pieces
    a, b = int(pieces.starts[first]), int(pieces.ends[last])
    left, right = int(window.tokens.word[first]), int(window.tokens.word[last])
    if left >= 0:
        a = int(words.starts[left])
    if right >= 0:
        b = max(b, int(words.ends[right]))
    return max(a, begin), min(b, end)
