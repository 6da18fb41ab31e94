"""Passages, cut and prepared once for all questions, and questions, paired with windows of passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.features import Surface, Tokens, Words, surface
from shared_core.reading.lacking import Shape
from shared_core.reading.model import Apart
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


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, or a question with an answer, beside which windows are read."""

    text: str
    apart: Apart
    words: Words
    tokens: Tokens
    kind: str | None
    shape: Shape

    def beside(self, prepared: Prepared, window: Window) -> Surface:
        """Match the words of the question with one window of a passage."""
        return surface(self.words, self.tokens, prepared.words, window.tokens, prepared.title)


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
