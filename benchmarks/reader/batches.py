"""Examples and batches for training the reader."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.reader import forms
from benchmarks.reader.claims import ClaimRow
from benchmarks.reader.data import Corpus, QuestionRow, Text
from benchmarks.reader.network import Inputs
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES, Surface, Tokens, surface, words_of
from shared_core.reading.network import Pieces

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters.

    Attributes:
        steps: steps of the optimiser.
        rate: highest learning rate, after ``warmup`` steps; it falls to 0 over the last share ``decay`` of all steps.
        questions, claims: questions and claims in each step.
        part: windows that are computed at a time.
        others: most paragraphs beside a question's own.
        dropout: dropout rate.
        short: (share, tokens): share of windows that are cut to so many tokens, since many passages are short.
        without_gold: share of questions whose paragraph is withheld, so that nothing answers them.
        loose, keywords, whether: share of questions written carelessly, as key words, as yes/no questions.
        squad1: most questions of SQuAD 1.1.
        swaps, replacements: number of questions with a name or number swapped, with a word replaced.
        repeat, policies: how often SQuAD 2.0's and PolicyQA's questions occur for each occurrence of SQuAD 1.1's.
        seed: seed of everything random.
    """

    steps: int = 5000
    rate: float = 1.2e-4
    warmup: int = 200
    decay: float = 0.3
    questions: int = 45
    claims: int = 16
    part: int = 10
    others: int = 1
    short: tuple[float, int] = (0.75, 144)
    dropout: float = 0.05
    without_gold: float = 0.08
    loose: float = 0.12
    keywords: float = 0.04
    whether: float = 0.04
    squad1: int = 100_000
    swaps: int = 30_000
    replacements: int = 30_000
    repeat: int = 8
    policies: int = 8
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A question or claim with one window, and the tokens that start, end, or share a sentence with an answer."""

    window: Pieces
    asked: Pieces
    seen: Surface
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]
    sentence: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its windows, or a claim with one; ``label`` is its class, -1 for any class but SUPPORTED."""

    pieces: tuple[Piece, ...]
    label: int | None = None


class Examples:
    """A source of training examples."""

    def __init__(self, corpus: Corpus, near: Mapping[str, list[str]], recipe: Recipe) -> None:
        self.corpus, self.near, self.recipe = corpus, near, recipe

    def question(self, row: QuestionRow, rng: random.Random) -> Example | None:
        """Make an example of a question with its paragraph and others; ``None`` if no window is usable."""
        recipe = self.recipe
        keep = rng.random() >= recipe.without_gold or not row.spans
        near = [p for p in self.near[row.question] if p != row.passage]
        rng.shuffle(near)
        others = (p for p in near if not self.corpus.holds(p, row.answers))  # looked into only as far as needed
        least = 0 if keep else 1
        count = rng.randint(least, max(recipe.others, least))
        chosen = ([row.passage] if keep else []) + list(itertools.islice(others, count))
        asked = self._form(row, rng)
        pieces = []
        for passage in chosen:
            text = self.corpus[passage]
            spans = row.spans if passage == row.passage else ()
            # Without an answer the first windows do; with one, only those that hold it can be a target.
            windows = text.windows[:2] if not spans else [w for w in text.windows if any(targets(*w, spans)[0])]
            pieces += self._beside(asked, text, [self._short(w, spans, rng) for w in windows], spans)
        if not pieces or (keep and row.spans and not any(p.start.any() for p in pieces)):
            return None
        return Example(tuple(pieces))

    def claim(self, row: ClaimRow, rng: random.Random) -> Example | None:
        """Make an example of a claim with its evidence; ``None`` if the evidence has no words."""
        text = self.corpus[row.passage] if row.passage else self.corpus.cut(row.evidence, row.title)
        windows = [self._short(w, row.spans, rng) for w in text.windows[:1]]
        pieces = self._beside(row.claim, text, windows, ())
        return Example(tuple(pieces), row.label) if pieces else None

    def _short(
        self, window: tuple[Pieces, Tokens], spans: Sequence[tuple[int, int]], rng: random.Random
    ) -> tuple[Pieces, Tokens]:
        """Cut some windows to a run of whole sentences, with the first answer if there is one."""
        share, limit = self.recipe.short
        pieces, tokens = window
        n = len(pieces.starts)
        if n <= limit or rng.random() >= share:
            return window
        # First token of each sentence: a window is cut only between sentences.
        cuts = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(tokens.sentence))), n]
        at = int(np.searchsorted(pieces.ends, spans[0][0], side="right")) if spans else rng.randrange(n)
        left = max(i for i, cut in enumerate(cuts[:-1]) if cut <= min(at, n - 1))
        right = left + 1
        while True:  # grow by a sentence on either side while the limit allows
            sides = [s for s in (left - 1, right + 1) if 0 <= s < len(cuts)]
            fitting = [s for s in sides if cuts[max(right, s)] - cuts[min(left, s)] <= limit]
            if not fitting:
                break
            side = rng.choice(fitting)
            left, right = min(left, side), max(right, side)
        kept = slice(cuts[left], cuts[right])
        a, b = pieces.body.start, pieces.body.stop
        ids = np.concatenate([pieces.ids[:a], pieces.body_ids[kept], pieces.ids[b:]])
        return (
            Pieces(ids, slice(a, a + kept.stop - kept.start), pieces.starts[kept], pieces.ends[kept]),
            Tokens(tokens.ids[kept], tokens.word[kept], tokens.sentence[kept], tokens.first[kept]),
        )

    def _form(self, row: QuestionRow, rng: random.Random) -> str:
        draw, recipe = rng.random(), self.recipe
        if draw < recipe.loose:
            return forms.loosely(row.question, rng)
        draw -= recipe.loose
        if draw < recipe.keywords:
            return forms.key_words(row.question, rng) or row.question
        draw -= recipe.keywords
        if draw < recipe.whether and row.spans:
            before = forms.preposition_before(self.corpus.passages[row.passage].text, row.spans[0][0])
            return forms.ask_whether(row.question, row.answers[0], before) or row.question
        return row.question

    def _beside(
        self, asked: str, text: Text, windows: Sequence[tuple[Pieces, Tokens]], spans: Sequence[tuple[int, int]]
    ) -> list[Piece]:
        cut = self.corpus.tokenizer.asked(asked)
        words = words_of(asked, self.corpus.rarity)
        tokens = Tokens.of(words, cut.body_ids, cut.starts, [])
        return [
            Piece(w, cut, surface(words, tokens, text.words, t, text.title), *targets(w, t, spans)) for w, t in windows
        ]


def targets(
    window: Pieces, tokens: Tokens, spans: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks over the text's tokens: starts of answers, ends of answers, sentences with an answer."""
    n = len(window.starts)
    start, end, sentence = (np.zeros(n, dtype=bool) for _ in range(3))
    for a, b in spans:
        first = int(np.searchsorted(window.ends, a, side="right"))
        last = int(np.searchsorted(window.starts, b, side="left")) - 1
        # An answer that begins before the window belongs to the window before.
        if first <= last and first < n and window.starts[first] < b and window.starts[0] <= a + 1:
            start[first] = end[last] = True
            sentence |= np.isin(tokens.sentence, tokens.sentence[first : last + 1])
    return start, end, sentence


class Batch(NamedTuple):
    """The data of one optimiser step.

    Attributes:
        parts: parts to compute one after the other.
        groups: (questions, most windows) rows of each question, counted over all parts; padded with the number of rows.
        claims, labels: rows of the claims, and their classes.
    """

    parts: list[WindowBatch]
    groups: Tensor
    claims: Tensor
    labels: Tensor


class WindowBatch(NamedTuple):
    """Windows that are computed at a time.

    Attributes:
        window_ids: (B, N) tokens of the windows.
        question_ids: (B, M) tokens of the questions or claims.
        inputs: masks and features, with states of width 0 in place of the network's.
        wanted: (3, B, N) targets: starts, ends, sentences.
    """

    window_ids: Tensor
    question_ids: Tensor
    inputs: Inputs
    wanted: Tensor


def batches(
    examples: Examples,
    rows: Sequence[QuestionRow],
    claims: Sequence[ClaimRow],
    start: int = 0,
    mine: int = 0,
    processes: int = 1,
    every: int = 1,
) -> Iterator[Batch]:
    """Yield the batches of ``every``-th step endlessly, from step ``start`` on; each depends only on its step's number.

    Of several ``processes``, the one of number ``mine`` gets every ``processes``-th question and claim of a step.
    """
    recipe = examples.recipe
    questions = _endless(rows, recipe.seed, start * recipe.questions)
    claim_rows = _endless(claims, recipe.seed, start * recipe.claims)
    for step in itertools.count(start, every):
        # Seeded by the step, so that a resumed run draws what it would have drawn.
        rng = random.Random((recipe.seed * 1_000_003 + step) * processes + mine)
        asked = list(itertools.islice(questions, recipe.questions * every))[: recipe.questions][mine::processes]
        claimed = list(itertools.islice(claim_rows, recipe.claims * every))[: recipe.claims][mine::processes]
        drawn = [examples.question(row, rng) for row in asked] + [examples.claim(row, rng) for row in claimed]
        yield batch([e for e in drawn if e is not None], recipe.part)


def _endless(rows: Sequence[T], seed: int, skip: int) -> Iterator[T]:
    """Yield all rows in random order, again and again, without the first ``skip``."""
    for epoch in itertools.count(skip // len(rows)):
        order = list(range(len(rows)))
        random.Random(seed * 7919 + epoch).shuffle(order)
        begin = max(skip - epoch * len(rows), 0)
        yield from (rows[i] for i in order[begin:])


def batch(examples: Sequence[Example], part: int) -> Batch:
    """Lay out examples as a batch; windows of similar length go together to save padding."""
    import torch

    flat = [(piece, i) for i, e in enumerate(examples) for piece in e.pieces]
    flat.sort(key=lambda pair: len(pair[0].window.ids) + len(pair[0].asked.ids))
    # On a CPU kernels are built for every new shape, so sizes are rounded up and the last part is filled.
    rows = [piece for piece, _ in flat] + [flat[0][0]] * (-len(flat) % part)
    claimed = [examples[i].label is not None for _, i in flat] + [False] * (-len(flat) % part)
    parts = [stack(rows[i : i + part], claimed[i : i + part]) for i in range(0, len(rows), part)]
    of_example: list[list[int]] = [[] for _ in examples]
    for row, (_, i) in enumerate(flat):
        of_example[i].append(row)
    groups = [g for g, e in zip(of_example, examples) if e.label is None]
    widest = max(map(len, groups), default=1)
    labelled = [(g[0], e.label) for g, e in zip(of_example, examples) if e.label is not None]
    return Batch(
        parts,
        torch.tensor([[*g, *[len(rows)] * (widest - len(g))] for g in groups]).reshape(-1, widest),
        torch.tensor([row for row, _ in labelled], dtype=torch.long),
        torch.tensor([label for _, label in labelled], dtype=torch.long),
    )


def stack(pieces: Sequence[Piece], claimed: Sequence[bool], tokens: int = 16, asked: int = 8) -> WindowBatch:
    """Pad pieces to one part, in which N and M are multiples of ``tokens`` and ``asked``."""
    import torch

    b = len(pieces)
    n = _rounded(max(len(p.window.ids) for p in pieces), tokens)
    m = _rounded(max(len(p.asked.ids) for p in pieces), asked)
    window, question = np.zeros((b, n), np.int64), np.zeros((b, m), np.int64)
    real, known, body = np.zeros((b, n), bool), np.zeros((b, m), bool), np.zeros((b, n), bool)
    of_tokens, of_question = np.zeros((b, n, TOKEN_FEATURES)), np.zeros((b, m, QUESTION_FEATURES))
    wanted = np.zeros((3, b, n), bool)
    for i, p in enumerate(pieces):
        a, c = len(p.window.ids), len(p.asked.ids)
        window[i, :a], question[i, :c] = p.window.ids, p.asked.ids
        real[i, :a], known[i, :c], body[i, p.window.body] = True, True, True
        of_tokens[i, p.window.body], of_question[i, p.asked.body] = p.seen.tokens, p.seen.question
        wanted[:, i, p.window.body] = p.start, p.end, p.sentence
    t = torch.from_numpy
    none = torch.zeros(b, 0)  # the loss computes the states, so that the lower layers are trained too
    inputs = Inputs(
        none, none, t(real), t(known), t(body), t(of_tokens).bfloat16(), t(of_question).bfloat16(),
        torch.tensor(claimed),
    )  # fmt: skip
    return WindowBatch(t(window), t(question), inputs, t(wanted))


def _rounded(size: int, step: int) -> int:
    """Round ``size`` up to a multiple of ``step``."""
    return -(-size // step) * step
