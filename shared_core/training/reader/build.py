"""Rebuilds the extractive reader's weights and calibration.

    python -m shared_core.training.reader --data DIR [--out FILE] [--seed 0] [--cache FILE] [--start FILE]

``DIR`` holds ``reading/squad1_train*.jsonl.gz``, ``rag/corpus.jsonl.gz`` and ``rag/squad2_{train,tune}.jsonl.gz``. The
first stage trains the network over the embedding model's frozen vectors, on SQuAD 1.1 and the train part of SQuAD 2.0;
the second (``--joint-steps``) also corrections of the embedding model's upper layers, so that question and passage read
each other (``joint``). The probabilities are fitted on the tune part, which the network never saw.

The shipped weights are those of the defaults and seed 0. They were trained one stage at a time: the first stage's
weights are left in a file that ends in ``.first``, and ``--start`` goes on from there. A few hours on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shared_core.errors import InputError, MissingDependencyError
from shared_core.reading.encoder import LAYERS, TokenEncoder, model_folder
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.joint import corrected, corrections
from shared_core.reading.network import Outputs, forward, initial, widened
from shared_core.reading.weights import RARITY_STEPS, WEIGHTS
from shared_core.retrieval import BM25Retriever, HybridRetriever
from shared_core.retrieval.cached_embedder import CachedEmbedder
from shared_core.training.reader.batches import Examples, Recipe, Stage, batches, stacked
from shared_core.training.reader.confidence import Labelled, fit, measure
from shared_core.training.reader.data import Corpus, Row, rarities, read_lines, replaced, rows_of, swapped
from shared_core.types import Passage

if TYPE_CHECKING:
    from torch import Tensor

SOURCES = [
    "SQuAD 1.1, train part (Rajpurkar et al. 2016; CC BY-SA 4.0)",
    "SQuAD 2.0, train and tune parts of its dev set (Rajpurkar et al. 2018; CC BY-SA 4.0)",
    "all-MiniLM-L6-v2, frozen, not contained (Apache-2.0)",
]
SPAN_SHARE = 0.3
RANK_PRIOR = 0.75
READ = (10, 5)
"""Passages read for each question that probabilities are fitted on: twice the usual five (re-ranking), and five."""
KEEP_EVERY = 300


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


def train(
    draw: Callable[[Stage], Examples],
    encoder: TokenEncoder,
    recipe: Recipe,
    start: Path | None = None,
    kept: Path | None = None,
) -> dict[str, Tensor]:
    """The network's parameters: trained over frozen vectors, then with the upper layers' corrections.

    Args:
        draw: gives what a stage draws from.
        encoder: with the upper layers to correct.
        recipe: hyperparameters.
        start: the first stage's result, which is then left out.
        kept: gets the first stage's result, and what the others have every ``KEEP_EVERY`` steps, in two files.

    Raises:
        InputError: ``start`` holds something else.
    """
    from safetensors.torch import load_file

    parameters = initial(encoder.width * len(LAYERS), recipe.size, recipe.blocks, recipe.seed)
    if start is not None:
        known = load_file(start)
        if any(name not in known or known[name].shape != value.shape for name, value in parameters.items()):
            raise InputError(
                f"{start} holds no weights of the first stage.",
                hint="Give the file that ends in .first, or leave it out.",
            )
        parameters = {name: known[name].float() for name in parameters}
    else:
        file = kept and kept.with_suffix(".first")
        stage = recipe.first
        trained = run_stage(draw(stage), parameters, {}, stage, recipe.seed, recipe.dropout, file)
        parameters = {name: value.float() for name, value in halved(trained).items()}  # what --start would load
    if not recipe.joint.steps:
        return parameters
    base = encoder.upper_layers()
    parameters = widened(parameters, encoder.width) | corrections(base, recipe.rank, recipe.seed)
    stage, file = recipe.joint, kept and kept.with_suffix(".part")
    return run_stage(draw(stage), parameters, base, stage, recipe.seed + 3, recipe.dropout, file)


def run_stage(
    examples: Examples,
    start: Mapping[str, Tensor],
    base: Mapping[str, Tensor],
    stage: Stage,
    seed: int,
    dropout: float,
    kept: Path | None = None,
) -> dict[str, Tensor]:
    """Train from ``start`` (left as it is): a running mean of the parameters over the last few hundred steps.

    ``base`` has the frozen layers that ``start`` corrects, or nothing; ``seed`` is of batches and dropout; ``kept``
    gets the mean every ``KEEP_EVERY`` steps, so that a run that is cut short leaves something to go on from.
    """
    import torch

    rng = random.Random(seed)
    torch.manual_seed(seed)
    parameters = {name: value.detach().clone().requires_grad_(True) for name, value in start.items()}
    mean = {name: value.detach().clone() for name, value in parameters.items()}
    decayed = [v for v in parameters.values() if v.ndim > 1]
    others = [v for v in parameters.values() if v.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    began = time.monotonic()
    for step, batch in zip(range(stage.steps), batches(examples, rng)):
        for group in optimizer.param_groups:
            group["lr"] = stage.rate * min(1, (step + 1) / 100) * (1 + math.cos(math.pi * step / stage.steps)) / 2
        optimizer.zero_grad()
        total = 0.0
        for i in range(0, len(batch), stage.part):
            part = batch[i : i + stage.part]
            inputs, wanted, groups = stacked(part)
            halves = {name: value.bfloat16() for name, value in corrected(base, parameters).items()}
            value = loss(forward(halves, inputs, dropout=dropout), wanted, groups) * (len(part) / len(batch))
            torch.autograd.backward(value)
            total += value.item()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        decay = min(0.995, (step + 1) / (step + 20))
        for name, parameter in parameters.items():
            mean[name].lerp_(parameter.detach(), 1 - decay)
        if step % 50 == 0:
            print(f"step {step}: loss {total:.3f}, {time.monotonic() - began:.0f} s", flush=True)
        if kept is not None and ((step + 1) % KEEP_EVERY == 0 or step + 1 == stage.steps):
            keep(mean, kept)
    return mean


def halved(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameters in half precision, as files hold them."""
    return {name: value.half().contiguous() for name, value in parameters.items()}


def keep(parameters: Mapping[str, Tensor], file: Path) -> None:
    """Write parameters in half precision."""
    from safetensors.torch import save_file

    save_file(halved(parameters), file)


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
        start: the first stage's weights.
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
    swaps = swapped(rows1, squad1, recipe.swaps, random.Random(recipe.seed + 1))
    more = max(stage.replacements for stage in (recipe.first, recipe.joint) if stage.steps)
    changed = replaced(rows1, squad1, more, random.Random(recipe.seed + 4))
    rows1 += swaps
    embedder = CachedEmbedder(cache)
    over_corpus = HybridRetriever(corpus.values(), embedder=embedder)
    # BM25 alone for SQuAD 1.1: near misses that share the question's words, without embedding 10,000 paragraphs more
    near = similar(BM25Retriever(squad1.values()), rows1 + changed, 8) | similar(over_corpus, rows2, 5)
    embedder.save()
    print(f"{len(rows1) + len(changed)} questions of SQuAD 1.1, {len(rows2)} of SQuAD 2.0", flush=True)
    rarity = rarities([p.text for p in squad1.values()])
    hide = random.Random(recipe.seed + 2)  # three titles in ten, of SQuAD 1.1
    untitled = {i: p if hide.random() > 0.3 else Passage(p.id, p.text) for i, p in squad1.items()}
    encoder = TokenEncoder(model_folder(None)())
    texts = Corpus(encoder, rarity, untitled | corpus)
    texts.encode(dict.fromkeys([*(r.passage for r in [*rows1, *rows2]), *itertools.chain(*near.values())]))

    def draw(stage: Stage) -> Examples:
        rows = [*rows1, *changed[: stage.replacements], *rows2 * stage.repeat]
        return Examples(texts, rows, near, recipe, stage.others)

    trained = train(draw, encoder, recipe, start, out)
    tensors = halved(trained)
    tensors["rarity"] = torch.from_numpy(np.round(rarity * RARITY_STEPS).astype(np.uint8))
    save_file(tensors, out)
    tune = read_lines(data / "rag/squad2_tune.jsonl.gz")
    found = over_corpus.retrieve_many([r["question"] for r in tune], k=max(READ))
    labelled = [Labelled(r["question"], tuple(p[:k]), tuple(r["answers"])) for k in READ for r, p in zip(tune, found)]
    calibrate(out, labelled)


def calibrate(out: Path, rows: Sequence[Labelled]) -> None:
    """Fit the probabilities of the weights in ``out`` and write the JSON file beside them."""
    name = "log_probability"
    one = {"intercept": 0.0, "figures": {name: [0.0, 1.0, -9.0, 0.0, 1.0]}, "products": {name: [0.0]}}
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
    parser.add_argument("--seed", type=int, default=Recipe().seed)
    parser.add_argument("--articles", type=float, default=1.0, help="share of SQuAD 1.1's articles")
    parser.add_argument("--cache", type=Path, help="file that keeps vectors of the corpus between runs")
    parser.add_argument(
        "--replacements",
        type=int,
        default=Recipe().joint.replacements,
        help="questions with a word replaced, in the joint steps",
    )
    parser.add_argument("--joint-steps", type=int, default=Recipe().joint.steps)
    parser.add_argument("--start", type=Path, help="the first stage's weights, to do the second only")
    options = parser.parse_args()
    joint = replace(Recipe().joint, steps=options.joint_steps, replacements=options.replacements)
    recipe = Recipe(seed=options.seed, joint=joint)
    build(options.data, options.out, recipe, options.articles, options.cache, options.start)


if __name__ == "__main__":
    main()
