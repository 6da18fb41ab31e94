"""Rebuilds the extractive reader's weights and calibration.

    python -m shared_core.training.reader --data DIR [--out FILE] [--steps N] [--seed 0] [--cache FILE]

``DIR`` holds ``reading/squad1_train*.jsonl.gz``, ``rag/corpus.jsonl.gz`` and ``rag/squad2_{train,tune}.jsonl.gz``. The
network is trained on SQuAD 1.1 and the train part of SQuAD 2.0; the probabilities are fitted on the tune part,
which the network never saw.

The shipped weights are those of one run with the defaults and seed 0 (about 70 minutes on two cores).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import MissingDependencyError
from shared_core.reading.encoder import Encoded, TokenEncoder, model_folder
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES, Surface, Tokens, surface, words_of
from shared_core.reading.network import Inputs, Outputs, forward, initial
from shared_core.reading.weights import RARITY_STEPS, WEIGHTS
from shared_core.retrieval import BM25Retriever, HybridRetriever
from shared_core.retrieval.cached_embedder import CachedEmbedder
from shared_core.training.reader_confidence import Labelled, fit, measure
from shared_core.training.reader_data import Corpus, Row, rarities, read_lines, rows_of, swapped
from shared_core.types import Passage

if TYPE_CHECKING:
    from torch import Tensor

SOURCES = [
    "SQuAD 1.1, train part (Rajpurkar et al. 2016; CC BY-SA 4.0)",
    "SQuAD 2.0, train and tune parts of its dev set (Rajpurkar et al. 2018; CC BY-SA 4.0)",
    "all-MiniLM-L6-v2, frozen, not contained (Apache-2.0)",
]
SPAN_SHARE = 0.3
RANK_PRIOR = 1.0
READ = (10, 5)
"""Passages read for each question that probabilities are fitted on: twice the usual five (re-ranking), and five."""
MAX_NEGATIVES = 2
KEEP_EVERY = 300
_CONTINUED = 16  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters, chosen on the tune part.

    Attributes:
        steps, batch: optimiser steps, and questions in each.
        rate: highest learning rate (warm-up, then a cosine to 0).
        dropout: of units.
        size, blocks: of the network.
        without_gold: share of questions whose paragraph is withheld, so that nothing read answers them.
        swaps: swapped questions; repeat: how often SQuAD 2.0's questions come for once of SQuAD 1.1's.
        seed: of everything random.
    """

    steps: int = 3600
    batch: int = 32
    rate: float = 1.6e-3
    dropout: float = 0.08
    size: int = 96
    blocks: int = 2
    without_gold: float = 0.12
    swaps: int = 30_000
    repeat: int = 4
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

    def __init__(self, corpus: Corpus, rows: Sequence[Row], near: Mapping[str, list[str]], recipe: Recipe) -> None:
        self.corpus, self.rows, self.near, self.recipe = corpus, rows, near, recipe

    def build(self, row: Row, rng: random.Random) -> list[Piece]:
        """The pieces of one question; none if nothing of use came together."""
        keep = rng.random() >= self.recipe.without_gold or not row.spans
        others = [p for p in self.near[row.question] if p != row.passage and not self.corpus.holds(p, row.answers)]
        rng.shuffle(others)
        chosen = ([row.passage] if keep else []) + others[: rng.randint(1, MAX_NEGATIVES)]
        words = words_of(row.question, self.corpus.rarity)
        encoded = self.corpus.encoder.question(row.question)
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
        for i in range(0, len(order), size * _CONTINUED):
            built = [p for p in (examples.build(r, rng) for r in order[i : i + size * _CONTINUED]) if p]
            built.sort(key=lambda pieces: max(len(p.window.ids) for p in pieces))
            groups = [built[j : j + size] for j in range(0, len(built), size)]
            rng.shuffle(groups)
            yield from groups


def stack(pieces: Sequence[Piece]) -> tuple[Inputs, dict[str, Tensor]]:
    """Pad pieces to one batch: the network's inputs (bfloat16) and the targets (B, N) by the output's name."""
    import torch

    b, n = len(pieces), max(len(p.window.ids) for p in pieces)
    m, width = max(len(p.question.ids) for p in pieces), pieces[0].window.states.shape[1]
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


def loss(out: Outputs, wanted: Mapping[str, Tensor], groups: Sequence[Sequence[int]]) -> Tensor:
    """Negative log-likelihood of the right tokens, or of "no answer", over all pieces of each question."""
    import torch

    widest = max(map(len, groups))
    index = torch.tensor([[*g, *[len(out.window)] * (widest - len(g))] for g in groups])
    nothing, null = torch.full((1,), -1e4), torch.zeros(len(groups), 1)
    answered = torch.cat([wanted["start"].any(1), torch.zeros(1, dtype=torch.bool)])[index].any(1)
    total = torch.zeros(())
    for name, right in wanted.items():
        logits = getattr(out, name).float()
        everything = torch.cat([logits.logsumexp(1), nothing])[index]
        found = torch.cat([logits.masked_fill(~right, -1e4).logsumexp(1), nothing])[index].logsumexp(1)
        likelihood = torch.where(answered, found, 0.0) - torch.cat([everything, null], 1).logsumexp(1)
        total = total - likelihood.mean()
    return total


def train(examples: Examples, recipe: Recipe, start: Path | None = None, kept: Path | None = None) -> dict[str, Tensor]:
    """The network's parameters: a running mean over the last few hundred steps.

    ``start`` has those to begin with; ``kept`` gets what there is every ``KEEP_EVERY`` steps, so that a run that is
    cut short leaves something to go on from.
    """
    import torch
    from safetensors.torch import load_file, save_file

    rng = random.Random(recipe.seed)
    torch.manual_seed(recipe.seed)
    width = examples.corpus.encoder.question("width").states.shape[1]
    parameters = initial(width, recipe.size, recipe.blocks, recipe.seed)
    if start is not None:
        known = load_file(start)
        parameters = {name: known[name].float() for name in parameters}
    for value in parameters.values():
        value.requires_grad_(True)
    mean = {name: value.detach().clone() for name, value in parameters.items()}
    decayed = [v for v in parameters.values() if v.ndim > 1]
    others = [v for v in parameters.values() if v.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    began = time.monotonic()
    for step, batch in zip(range(recipe.steps), batches(examples, rng)):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * min(1, (step + 1) / 100) * (1 + math.cos(math.pi * step / recipe.steps)) / 2
        pieces = [p for question in batch for p in question]
        ends = np.cumsum([len(question) for question in batch])
        groups = [list(range(end - len(question), end)) for end, question in zip(ends, batch)]
        inputs, wanted = stack(pieces)
        halves = {name: value.bfloat16() for name, value in parameters.items()}
        value = loss(forward(halves, inputs, dropout=recipe.dropout), wanted, groups)
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        decay = min(0.995, (step + 1) / (step + 20))
        for name, parameter in parameters.items():
            mean[name].lerp_(parameter.detach(), 1 - decay)
        if step % 50 == 0:
            print(f"step {step}: loss {value.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
        if kept is not None and (step + 1) % KEEP_EVERY == 0:
            save_file({name: value.half().contiguous() for name, value in mean.items()}, kept)
    return mean


def similar(retriever: HybridRetriever | BM25Retriever, rows: Sequence[Row], k: int) -> dict[str, list[str]]:
    """The ids of the ``k`` passages retrieved for each question."""
    asked = list(dict.fromkeys(r.question for r in rows))
    return {q: [p.id for p in found] for q, found in zip(asked, retriever.retrieve_many(asked, k=k))}


def in_part(title: str, share: float) -> bool:
    """Whether an article belongs to the share that is trained on; the same in every run."""
    return hashlib.md5(title.encode(), usedforsecurity=False).digest()[1] < 256 * share


def build(
    data: Path, out: Path, recipe: Recipe, articles: float, cache: Path | None = None, start: Path | None = None
) -> None:
    """Train, fit, and write ``out`` with its JSON file beside it.

    Args:
        data: folder of the development data; ``articles``: share of SQuAD 1.1's articles to train on.
        out: the weights to write.
        recipe: hyperparameters.
        cache: file that keeps the corpus's vectors between runs.
        start: weights to go on from.
    """
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise MissingDependencyError("safetensors", extra="offline", purpose="Training the reader") from error
    import torch

    def passages(path: str) -> dict[str, Passage]:
        rows = read_lines(data / path)
        return {r["id"]: Passage(r["id"], r["text"], r["title"]) for r in rows}

    squad1 = {i: p for i, p in passages("reading/squad1_train_passages.jsonl.gz").items() if in_part(p.title, articles)}
    corpus = passages("rag/corpus.jsonl.gz")
    raw = [r for r in read_lines(data / "reading/squad1_train.jsonl.gz") if r["passage_id"] in squad1]
    rows1 = rows_of(raw, squad1)
    rows2 = rows_of(read_lines(data / "rag/squad2_train.jsonl.gz"), corpus)
    rows1 += swapped(rows1, squad1, recipe.swaps, random.Random(recipe.seed + 1))
    embedder = CachedEmbedder(cache)
    over_corpus = HybridRetriever(corpus.values(), embedder=embedder)
    # BM25 alone for SQuAD 1.1: near misses that share the question's words, without embedding 10,000 paragraphs more
    near = similar(BM25Retriever(squad1.values()), rows1, 8) | similar(over_corpus, rows2, 5)
    embedder.save()
    print(f"{len(rows1)} questions of SQuAD 1.1, {len(rows2)} of SQuAD 2.0", flush=True)
    rarity = rarities([p.text for p in squad1.values()])
    hide = random.Random(recipe.seed + 2)  # three titles in ten, of SQuAD 1.1
    untitled = {i: p if hide.random() > 0.3 else Passage(p.id, p.text) for i, p in squad1.items()}
    encoder = TokenEncoder(model_folder(None)())
    examples = Examples(Corpus(encoder, rarity, untitled | corpus), [*rows1, *rows2 * recipe.repeat], near, recipe)
    trained = train(examples, recipe, start, out.with_suffix(".part"))
    tensors = {name: value.half().contiguous() for name, value in trained.items()}
    tensors["rarity"] = torch.from_numpy(np.round(rarity * RARITY_STEPS).astype(np.uint8))
    save_file(tensors, out)
    tune = read_lines(data / "rag/squad2_tune.jsonl.gz")
    found = over_corpus.retrieve_many([r["question"] for r in tune], k=max(READ))
    labelled = [Labelled(r["question"], tuple(p[:k]), tuple(r["answers"])) for k in READ for r, p in zip(tune, found)]
    calibrate(out, labelled)


def calibrate(out: Path, rows: Sequence[Labelled]) -> None:
    """Fit the probabilities of the weights in ``out`` and write the JSON file beside them."""
    one = {"intercept": 0.0, "figures": {"log_probability": [0.0, 1.0, -9.0, 0.0, 1.0]}}
    about: dict[str, Any] = {
        "version": "1",
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
        "licence": "CC BY-SA 4.0 (trained on SQuAD)",
        "sources": SOURCES,
        "span_share": SPAN_SHARE,
        "rank_prior": RANK_PRIOR,
        "calibrated_on": f"{len(rows) // len(READ)} questions of the tune part of SQuAD 2.0's dev set, with the top "
        f"{' and '.join(map(str, READ))} of hybrid retrieval",
    }
    file = out.with_suffix(".json")
    # the fit needs a reader, and a reader needs some probability model
    file.write_text(json.dumps(about | {"correct": one, "answerable": one}), "utf-8")
    models = fit(*measure(ExtractiveReader(weights=out, cache_passages=4096), rows))
    file.write_text(json.dumps(about | models, indent=1) + "\n", "utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--seed", type=int, default=Recipe().seed)
    parser.add_argument("--articles", type=float, default=1.0, help="share of SQuAD 1.1's articles")
    parser.add_argument("--cache", type=Path, help="file that keeps vectors of the corpus between runs")
    parser.add_argument("--start", type=Path, help="weights to go on from")
    parser.add_argument("--rate", type=float, default=Recipe().rate, help="highest learning rate")
    options = parser.parse_args()
    recipe = Recipe(steps=options.steps, seed=options.seed, rate=options.rate)
    build(options.data, options.out, recipe, options.articles, options.cache, options.start)


if __name__ == "__main__":
    main()
