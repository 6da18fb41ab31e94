"""Recipe, examples and batches of the extractive reader's training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.encoder import Encoded
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES, Surface, Tokens, surface, words_of
from shared_core.reading.network import Inputs
from shared_core.training.reader.data import Corpus, Row

if TYPE_CHECKING:
    from torch import Tensor

_TOGETHER = 16  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of the optimiser.

    Attributes:
        steps, rate: optimiser steps and highest learning rate (warm-up over 100 steps, then a cosine to 0).
        part: questions that are computed at a time.
        repeat: how often SQuAD 2.0's questions come for once of SQuAD 1.1's.
        others: most paragraphs beside the right one.
        replacements: questions with a word replaced.
    """

    steps: int
    rate: float
    part: int
    repeat: int
    others: int
    replacements: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters; those of ``first`` were chosen on the tune part, those of ``joint`` by one run's time.

    Attributes:
        first: the stage over frozen vectors; joint: the one that corrects the embedding model's upper layers, left out
            if it has no steps.
        batch: questions in each step.
        dropout: of units.
        size, blocks: of the network; rank: of the corrections.
        without_gold: share of questions whose paragraph is withheld, so that nothing read answers them.
        swaps: questions with a name or number swapped.
        seed: of everything random.
    """

    first: Stage = Stage(3600, 1.6e-3, 32, 4, 2)
    joint: Stage = Stage(2400, 8e-4, 16, 10, 1, 30_000)
    batch: int = 32
    dropout: float = 0.08
    size: int = 96
    blocks: int = 2
    rank: int = 32
    without_gold: float = 0.12
    swaps: int = 30_000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """One question beside one window, with which tokens begin, end, or share a sentence with a right answer."""

    window: Encoded
    question: Encoded
    seen: Surface
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]
    sentence: NDArray[np.bool_]


class Examples:
    """Draws training examples: a question, its pieces, and whether they hold an answer."""

    def __init__(
        self, corpus: Corpus, rows: Sequence[Row], near: Mapping[str, list[str]], recipe: Recipe, others: int
    ) -> None:
        self.corpus, self.rows, self.near, self.recipe, self.others = corpus, rows, near, recipe, others

    def build_many(self, rows: Sequence[Row], rng: random.Random) -> list[list[Piece]]:
        """The pieces of each question; questions without any are left out."""
        encoded = self.corpus.encoder.questions([row.question for row in rows])
        return [pieces for row, e in zip(rows, encoded) if (pieces := self.build(row, e, rng))]

    def build(self, row: Row, encoded: Encoded, rng: random.Random) -> list[Piece]:
        """The pieces of one question; none if nothing of use came together."""
        keep = rng.random() >= self.recipe.without_gold or not row.spans
        others = [p for p in self.near[row.question] if p != row.passage and not self.corpus.holds(p, row.answers)]
        rng.shuffle(others)
        chosen = ([row.passage] if keep else []) + others[: rng.randint(1, self.others)]
        words = words_of(row.question, self.corpus.rarity)
        asked = Tokens.of(words, encoded.ids, encoded.starts, [])
        pieces = []
        for passage in chosen:
            text = self.corpus[passage]
            for window, tokens in text.windows[:2]:
                seen = surface(words, asked, text.words, tokens, text.title)
                spans = row.spans if passage == row.passage else ()
                pieces.append(Piece(window, encoded, seen, *targets(window, tokens, spans)))
        answered = any(p.start.any() for p in pieces)
        return pieces if answered or not (keep and row.spans) else []


def targets(
    window: Encoded, tokens: Tokens, spans: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """(n,) each: tokens that begin an answer, that end one, and those of sentences that hold one."""
    n = len(window.ids)
    start, end, sentence = (np.zeros(n, dtype=bool) for _ in range(3))
    for a, b in spans:
        first = int(np.searchsorted(window.ends, a, side="right"))
        last = int(np.searchsorted(window.starts, b, side="left")) - 1
        if first <= last and first < n and window.starts[first] < b and window.starts[0] <= a + 1:
            start[first] = end[last] = True
            sentence |= np.isin(tokens.sentence, tokens.sentence[first : last + 1])
    return start, end, sentence


def batches(examples: Examples, rng: random.Random) -> Iterator[list[list[Piece]]]:
    """Batches without end; questions of like length together, so that there is little padding."""
    size = examples.recipe.batch
    while True:
        order = list(examples.rows)
        rng.shuffle(order)
        for i in range(0, len(order), size * _TOGETHER):
            built = examples.build_many(order[i : i + size * _TOGETHER], rng)
            built.sort(key=lambda pieces: max(len(p.window.ids) for p in pieces))
            groups = [built[j : j + size] for j in range(0, len(built), size)]
            rng.shuffle(groups)
            yield from groups


def stack(pieces: Sequence[Piece], tokens: int = 1, asked_tokens: int = 1) -> tuple[Inputs, dict[str, Tensor]]:
    """Pad pieces to one batch: the network's inputs (bfloat16) and the targets (B, N) by the output's name.

    N and M are multiples of ``tokens`` and ``asked_tokens``.
    """
    import torch

    b, width = len(pieces), pieces[0].window.states.shape[1]
    n = _rounded(max(len(p.window.ids) for p in pieces), tokens)
    m = _rounded(max(len(p.question.ids) for p in pieces), asked_tokens)
    window, question = np.zeros((b, n, width), np.float16), np.zeros((b, m, width), np.float16)
    real, asked = np.zeros((b, n), bool), np.zeros((b, m), bool)
    of_tokens, of_question = np.zeros((b, n, TOKEN_FEATURES)), np.zeros((b, m, QUESTION_FEATURES))
    match, wanted = np.zeros((b, n, m)), np.zeros((3, b, n), bool)
    for i, p in enumerate(pieces):
        a, c = len(p.window.ids), len(p.question.ids)
        window[i, :a], question[i, :c] = p.window.states, p.question.states
        real[i, :a], asked[i, :c] = True, True
        of_tokens[i, :a], of_question[i, :c], match[i, :a, :c] = p.seen.tokens, p.seen.question, p.seen.match
        wanted[:, i, :a] = p.start, p.end, p.sentence
    t = torch.from_numpy
    half = [t(x).bfloat16() for x in (window, question, of_tokens, of_question, match)]
    inputs = Inputs(half[0], half[1], t(real), t(asked), half[2], half[3], half[4])
    return inputs, dict(zip(("start", "end", "sentence"), t(wanted)))


def stacked(batch: Sequence[Sequence[Piece]]) -> tuple[Inputs, dict[str, Tensor], list[list[int]]]:
    """All pieces of some questions as one batch (``stack``), and each question's rows of it.

    Sizes are rounded up, the number of rows with a repeated piece that no question has: every new shape costs a CPU the
    building of its kernels.
    """
    ends = np.cumsum([len(question) for question in batch])
    groups = [list(range(end - len(question), end)) for end, question in zip(ends, batch)]
    pieces = [p for question in batch for p in question]
    pieces += pieces[:1] * (_rounded(len(pieces), 8) - len(pieces))
    return *stack(pieces, 32, 8), groups


def _rounded(size: int, step: int) -> int:
    """``size`` rounded up to a multiple of ``step``."""
    return -(-size // step) * step
