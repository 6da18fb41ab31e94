"""Train the network of the reader and critic.

    python -m benchmarks.reader --data DIR [--out FILE] [--steps N] [--seed 0] [--kept FILE]
    python -m benchmarks.reader --data DIR --initial NETWORK --set rate=8e-5 --more FOLDER:4 …    # train on
    torchrun --nproc-per-node 2 -m benchmarks.reader …    # one process per core: twice as fast
    python -m benchmarks.reader --data DIR --seconds 600 --workers 10 …    # on a GPU, by the clock

``DIR`` holds ``reading/squad1_train*.jsonl.gz``, ``rag/corpus.jsonl.gz``, ``rag/squad2_{train,tune}.jsonl.gz``,
``ood/policyqa_*.jsonl.gz`` and ``support/train.jsonl.gz``. A few hours on two cores; an interrupted run continues from
``--kept`` (by default beside ``--out``). A FOLDER of ``--more`` holds questions of other sources, as
``questions.jsonl.gz`` and ``passages.jsonl.gz`` with the fields of SQuAD 1.1's files, which occur 4 times for each of
its questions; ``claims.jsonl.gz`` there, if any, are questions with answers right and wrong, or claims with evidence.
Then ``python -m benchmarks.reader.quantise`` makes the files that ship, and ``python -m benchmarks.reader.calibrate``
fits the probabilities.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.reader.ahead import ahead
from benchmarks.reader.base import base_parameters
from benchmarks.reader.batches import Batch, Examples, Recipe, batches
from benchmarks.reader.claims import ClaimRow, as_written, from_pairs, from_questions, labelled_by_people
from benchmarks.reader.data import Corpus, QuestionRow, rarities, read_lines, read_passages, replaced, rows_of, swapped
from benchmarks.reader.export import NETWORK, read, write
from benchmarks.reader.learn import train
from benchmarks.reader.look import look
from benchmarks.reader.network import initial
from benchmarks.reader.together import join
from shared_core.errors import InputError
from shared_core.reading.network import PieceTokenizer
from shared_core.reading.weights import RARITY_STEPS
from shared_core.retrieval import BM25Retriever
from shared_core.retrieval.minilm import load_model
from shared_core.types import Passage

SUPPORT = ("begin_v1", "fool_me_twice")
"""Sets of labelled claims whose licences permit shipping weights."""


@dataclass(frozen=True)
class Material:
    """Training data: passages, near paragraphs by question, questions, claims."""

    corpus: Corpus
    near: dict[str, list[str]]
    questions: list[QuestionRow]
    claims: list[ClaimRow]


@dataclass(frozen=True)
class More:
    """Questions of another source: ``times`` is how often they occur for each occurrence of SQuAD 1.1's."""

    folder: Path
    times: int = 1

    @classmethod
    def parse(cls, text: str) -> More:
        """Parse ``FOLDER`` or ``FOLDER:TIMES``."""
        folder, colon, times = text.rpartition(":")
        return cls(Path(folder), int(times)) if colon and times.isdigit() else cls(Path(text))

    def read(self) -> tuple[dict[str, Passage], list[QuestionRow]]:
        """Read the passages by id, and the questions."""
        texts = read_passages(self.folder / "passages.jsonl.gz")
        return texts, rows_of(read_lines(self.folder / "questions.jsonl.gz"), texts)

    def claims(self, passages: Mapping[str, Passage], rng: random.Random) -> list[ClaimRow]:
        """Make claims of the questions with answers right and wrong, and add those written as such, if it has any."""
        file = self.folder / "claims.jsonl.gz"
        rows = read_lines(file) if file.exists() else []
        written = [r for r in rows if "claim" in r]
        out = from_pairs([r for r in rows if "claim" not in r], passages, rng)
        for _ in range(self.times):
            out += as_written(written, passages, rng)
        return out


def gather(data: Path, recipe: Recipe, cache: Path | None = None, more: Sequence[More] = ()) -> Material:
    """Read the data and make the rows of examples; ``cache`` keeps retrieval results between runs."""
    squad1 = read_passages(data / "reading/squad1_train_passages.jsonl.gz")
    corpus = read_passages(data / "rag/corpus.jsonl.gz")
    policies = read_passages(data / "ood/policyqa_passages.jsonl.gz")
    rows1 = rows_of(read_lines(data / "reading/squad1_train.jsonl.gz"), squad1)
    if recipe.squad1 < len(rows1):  # else in their order, on which the changed questions depend
        rows1 = random.Random(recipe.seed + 6).sample(rows1, recipe.squad1)
    rows2 = rows_of(read_lines(data / "rag/squad2_train.jsonl.gz"), corpus)
    asked = [r for r in read_lines(data / "ood/policyqa_questions.jsonl.gz") if r["split"] == "train"]
    of_policies = rows_of([{**r, "answerable": True, "starts": [[s] for s in r["starts"]]} for r in asked], policies)
    swaps = swapped(rows1, squad1, recipe.swaps, random.Random(recipe.seed + 1))
    changed = replaced(rows1, squad1, recipe.replacements, random.Random(recipe.seed + 4))
    near = _near(squad1, [*rows1, *swaps, *changed], 8, cache)
    near |= _near(corpus, rows2, 8, cache) | _near(policies, of_policies, 8, cache)
    others = [other.read() for other in more]
    for texts, rows in others:
        near |= _near(texts, rows, 8, cache)
    rarity = rarities([p.text for p in squad1.values()])
    hide = random.Random(recipe.seed + 2)  # three titles in ten are hidden: users' files often have none
    everything = squad1 | corpus | policies
    for texts, _ in others:
        everything |= texts
    shown = {i: p if hide.random() > 0.3 else Passage(p.id, p.text) for i, p in everything.items()}
    claims = from_questions(rows1, [*swaps, *changed], squad1, near, random.Random(recipe.seed + 5))
    for other, (texts, _) in zip(more, others):
        claims += other.claims(texts, random.Random(recipe.seed + 7))
    labelled = labelled_by_people(read_lines(data / "support/train.jsonl.gz"), SUPPORT)
    print(
        f"{len(rows1)} questions of SQuAD 1.1, {len(swaps)} + {len(changed)} changed, {len(rows2)} of SQuAD 2.0, "
        f"{len(of_policies)} of PolicyQA, {sum(len(rows) for _, rows in others)} more; "
        f"{len(claims)} claims from questions, {len(labelled)} labelled by people",
        flush=True,
    )
    often = max(1, len(claims) // (2 * len(labelled)))  # labelled claims: a third
    questions = [*rows1, *swaps, *changed, *rows2 * recipe.repeat, *of_policies * recipe.policies]
    for other, (_, rows) in zip(more, others):
        questions += rows * other.times
    corpus_of_all = Corpus(PieceTokenizer(load_model()), rarity, shown)
    return Material(corpus_of_all, near, questions, claims + labelled * often)


def _near(
    passages: Mapping[str, Passage], rows: Sequence[QuestionRow], k: int, cache: Path | None
) -> dict[str, list[str]]:
    """Find the ``k`` passages of each question by BM25: near misses that share its words."""
    questions = list(dict.fromkeys(r.question for r in rows))
    key = hashlib.sha256("\n".join([*questions, *passages]).encode()).hexdigest()[:16]
    file = cache / f"near-{key}.json" if cache else None
    if file and file.exists():
        known: dict[str, list[str]] = json.loads(file.read_text("utf-8"))
        return known
    found = BM25Retriever(passages.values()).retrieve_many(questions, k=k)
    out = {q: [p.id for p in some] for q, some in zip(questions, found)}
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(out), "utf-8")
    return out


def build(
    data: Path,
    out: Path,
    recipe: Recipe,
    kept: Path,
    cache: Path | None = None,
    start: Path | None = None,
    more: Sequence[More] = (),
    *,
    seconds: float = 0.0,
    workers: int = 0,
) -> None:
    """Train, from ``start`` if that network is given, and write ``out`` in half precision.

    Args:
        data: folder of the data.
        out: file of the network.
        recipe: hyperparameters.
        kept: file to continue from.
        cache: folder for what retrieval finds.
        start: network to train on from.
        more: questions of other sources.
        seconds: train by the clock, as ``learn.train`` does.
        workers: processes that make batches, beside the one that trains; 0: it makes them itself, on the CPU.
    """
    import torch

    mine, processes = join()
    material = gather(data, recipe, cache, more)
    examples = Examples(material.corpus, material.near, recipe)
    base = base_parameters()

    def make(step: int) -> Iterator[Batch]:
        return batches(examples, material.questions, material.claims, step, mine, processes, max(1, workers))

    if workers:  # they are started, and prepare passages as they come, before anything is put on a GPU
        source = ahead(make, 0, workers)
        first = next(source)
        words = base["words.w"].to("cuda" if torch.cuda.is_available() else "cpu")
    else:
        material.corpus.prepare(_used(material))
        words = base["words.w"]
    trained = train(
        initial(base, recipe.seed) if start is None else read(start),
        words,
        (lambda _: itertools.chain([first], source)) if workers else make,
        recipe,
        kept,
        look(data, material.corpus, base["words.w"]),
        look_every=sys.maxsize if seconds else 500,  # looking is slow, and the clock would go on
        seconds=seconds,
    )
    if mine:
        return
    write(out, {name: value.cpu() for name, value in trained.items()}, material.corpus.rarity, RARITY_STEPS)


def _used(material: Material) -> Iterable[str]:
    return dict.fromkeys([*(r.passage for r in material.questions), *(c.passage for c in material.claims if c.passage)])


def set_numbers(recipe: Recipe, assignments: Sequence[str]) -> Recipe:
    """Set numbers of a recipe from ``name=value`` texts.

    Raises:
        InputError: no number of a recipe has that name, or the value is none.
    """
    numbers = {f.name: type(f.default) for f in fields(Recipe) if isinstance(f.default, int | float)}
    for text in assignments:
        name, _, value = text.partition("=")
        try:
            number: Any = numbers[name](value)
        except (KeyError, ValueError):
            raise InputError(f"--set {text} is not understood.", hint=f"Set one of {', '.join(numbers)}.") from None
        recipe = replace(recipe, **{name: number})
    return recipe


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=NETWORK)
    parser.add_argument("--seed", type=int, default=Recipe().seed)
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--kept", type=Path, help="file to continue from; by default beside --out")
    parser.add_argument("--cache", type=Path, help="folder that keeps retrieval results between runs")
    parser.add_argument("--initial", type=Path, help="network to train on from, instead of the published encoder")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a number of the recipe")
    parser.add_argument("--more", action="append", default=[], type=More.parse, metavar="FOLDER[:TIMES]")
    parser.add_argument("--seconds", type=float, default=0.0, help="train so long, whatever --steps says")
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches for a GPU")
    options = parser.parse_args()
    recipe = set_numbers(replace(Recipe(), seed=options.seed, steps=options.steps), options.set)
    kept = options.kept or options.out.with_suffix(".kept")
    if options.workers and kept.exists():
        raise InputError(f"--workers trains from the start, and there is {kept}.", hint="Remove that file.")
    limits = {"seconds": options.seconds, "workers": options.workers}
    build(options.data, options.out, recipe, kept, options.cache, options.initial, options.more, **limits)
