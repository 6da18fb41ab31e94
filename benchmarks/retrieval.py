"""Measure retrieval on a closed corpus of 10,207 passages, and the cost of an index of files.

    python benchmarks/retrieval.py [--quick] [--json FILE] [--data DIR] [--cache FILE] [--only recall index fts5]
    python benchmarks/retrieval.py --large 100000 [--vectors random]

Recall of BM25, dense and hybrid retrieval. `squad2_*`: is the question's paragraph among the first k? `hotpotqa`,
`musique`: share of the gold passages among the first k (two to four per question). `nq`: as squad2, with the 1,300 gold
passages added to the corpus.

Costs of an index, as ratios of CPU time over all threads, measured alternately in one process. `index_ratio_plain`:
indexing files (reading, cutting, embedding, writing) over one MiniLM pass over the same passages, with the same
functions, precision and threads. `index_ratio_sentence_transformers`: over `SentenceTransformer.encode` in the same
precision, if it is installed. `index_bytes_per_text_byte`: size of the index's folder over that of the files.
`first_answer_ratio`: `selfreflect ask` with one question on a ready index over `import torch`, each in its own process.

`--large N` cuts Wikipedia articles into N passages, indexes, queries and updates them, and prints time and peak memory;
`bytes_per_passage` is the growth of the peak per passage over the last three quarters of the passages. `--vectors
random` replaces the encoder's vectors by as many random ones, to measure everything but the encoder, which takes most
of the time and needs no memory that grows.
`--only fts5` compares the index's lexical ranking with FTS5's own `bm25()`, each alone and in the hybrid (`fts5.py`).

The data are not part of the project (see README). `--quick` takes a fifth of the questions and passages. `--cache`
keeps vectors between runs, by the hash of each text.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fts5
import index_costs
import large_index as large
from cached_embedder import CachedEmbedder
from rich.console import Console
from rich.table import Table

from benchmarks import command_line, write_figures
from benchmarks.reader.data import read_lines, read_passages
from shared_core.retrieval import BM25Retriever, DenseRetriever, HybridRetriever
from shared_core.types import Passage

KS = (1, 3, 5, 10)
DATA = Path(__file__).resolve().parents[1] / "../shared/data/rag"


@dataclass(frozen=True)
class Query:
    text: str
    gold: tuple[str, ...]


def questions(data: Path, corpus: Sequence[Passage]) -> tuple[dict[str, list[Query]], list[Passage]]:
    """Load the question sets, and the passages to add to the corpus for `nq`."""
    sets = {
        f"squad2_{split}": [
            Query(r["question"], (r["passage_id"],)) for r in read_lines(data / f"squad2_{split}.jsonl.gz")
        ]
        for split in ("tune", "test")
    }
    by_text: dict[str, str] = {}
    for passage in corpus:
        by_text.setdefault(_key(passage.title, passage.text), passage.id)
    hotpot = []
    for r in json.loads((data / "hotpotqa_train.json").read_text("utf-8")):
        titles = {title for title, _ in r["supporting_facts"]}
        gold = {by_text.get(_key(title, "".join(parts))) for title, parts in r["context"] if title in titles}
        hotpot.append(Query(r["question"], tuple(g for g in gold if g)))
    musique = []
    for r in json.loads((data / "musique_train.json").read_text("utf-8")):
        found = {by_text.get(_key(p["title"], p["paragraph_text"])) for p in r["paragraphs"] if p["is_supporting"]}
        musique.append(Query(r["question"], tuple(g for g in found if g)))
    sets["hotpotqa"] = [q for q in hotpot if q.gold]
    sets["musique"] = [q for q in musique if q.gold]
    rows = read_lines(data / "nq_gold_passage.jsonl.gz")
    sets["nq"] = [Query(r["question"], (r["id"],)) for r in rows]
    return sets, [Passage(r["id"], r["passage"], r["title"]) for r in rows]


def _key(title: str, text: str) -> str:
    return "".join(f"{title}|{text}".split())


def recall(queries: Sequence[Query], ranked: Sequence[Sequence[Passage]]) -> dict[int, float]:
    out = {}
    for k in KS:
        shares = [len(set(q.gold) & {p.id for p in r[:k]}) / len(q.gold) for q, r in zip(queries, ranked)]
        out[k] = sum(shares) / len(shares)
    return out


def seconds_per_query(retriever: Any, queries: Sequence[str], repeat: int = 3) -> float:
    retriever.retrieve(queries[0])  # the first query builds lazily built parts
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for query in queries:
            retriever.retrieve(query)
        times.append((time.perf_counter() - start) / len(queries))
    return sorted(times)[repeat // 2]


def main() -> None:
    parser = command_line(__doc__, quick="a fifth of the questions and passages", data=False)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, help="file (.npz) to keep vectors in")
    parser.add_argument("--only", nargs="+", choices=("recall", "index", "fts5"), default=("recall", "index"))
    parser.add_argument("--large", type=int, metavar="N", help="only: index, ask and update N passages")
    parser.add_argument("--vectors", choices=("minilm", "random"), default="minilm", help="with --large")
    options = parser.parse_args()
    if options.large:
        figures = large.run(options.data.parent / "text", options.large, options.vectors)
    else:
        corpus = list(read_passages(options.data / "corpus.jsonl.gz").values())
        figures = {"passages": float(len(corpus))}
        if "recall" in options.only:
            figures |= recalls(options.data, corpus, quick=options.quick, cache=options.cache)
        if "index" in options.only:
            figures |= index_costs.run(corpus[: 400 if options.quick else 2_000])
        if "fts5" in options.only:
            figures |= compare_words(options.data, corpus, quick=options.quick, cache=options.cache)
    Console().print({k: round(v, 4) for k, v in figures.items() if "recall" not in k})
    write_figures(figures, options.json)


def compare_words(data: Path, corpus: list[Passage], *, quick: bool, cache: Path | None) -> dict[str, float]:
    """Compare the index's lexical ranking with FTS5's own (`fts5.py`)."""
    sets, corpus, extra = sampled(data, corpus, quick=quick)
    embedder = CachedEmbedder(cache)
    dense = DenseRetriever(corpus, embedder=embedder)
    figures = fts5.run(corpus, extra, {name: sets[name] for name in ("squad2_test", "nq")}, dense, recall)
    embedder.save()
    return figures


def sampled(
    data: Path, corpus: list[Passage], *, quick: bool
) -> tuple[dict[str, list[Query]], list[Passage], list[Passage]]:
    """Load question sets, corpus and the passages to add for `nq`; a fifth of each if quick."""
    sets, extra = questions(data, corpus)
    if quick:
        sets = {name: random.Random(0).sample(queries, max(20, len(queries) // 5)) for name, queries in sets.items()}
        gold = {g for queries in sets.values() for q in queries for g in q.gold}
        corpus = [p for i, p in enumerate(corpus) if i % 5 == 0 or p.id in gold]
        extra = [p for p in extra if p.id in gold]
    return sets, corpus, extra


def recalls(data: Path, corpus: list[Passage], *, quick: bool, cache: Path | None) -> dict[str, float]:
    sets, corpus, extra = sampled(data, corpus, quick=quick)
    embedder = CachedEmbedder(cache)
    figures: dict[str, float] = {}
    lexical, dense = BM25Retriever(corpus), DenseRetriever(corpus, embedder=embedder)
    embedder.save()
    retrievers: dict[str, Any] = {
        "bm25": lexical,
        "dense": dense,
        "hybrid": HybridRetriever(retrievers=(lexical, dense)),
        "hybrid_rrf": HybridRetriever(retrievers=(lexical, dense), fusion="rrf"),
    }
    table = Table("questions", "", *(f"recall@{k}" for k in KS), title=f"{len(corpus):,} passages")
    for name, queries in sets.items():
        if name == "nq":
            lexical.add(extra)
            dense.add(extra)
        for kind, retriever in retrievers.items():
            found = recall(queries, retriever.retrieve_many([q.text for q in queries], k=max(KS)))
            figures.update({f"recall_at_{k}_{kind}_{name}": value for k, value in found.items()})
            table.add_row(f"{name} ({len(queries):,})", kind, *(f"{found[k]:.3f}" for k in KS))
    embedder.save()
    Console().print(table)
    return figures | speed(corpus, [q.text for q in sets["squad2_tune"]], retrievers["hybrid"])


def speed(corpus: Sequence[Passage], queries: Sequence[str], hybrid: Any) -> dict[str, float]:
    """Measure the ratio of query times of the two BM25 libraries, and that of the hybrid (query vectors cached)."""
    out: dict[str, float] = {}
    for size in (500, 2_000, len(corpus)):
        part = corpus[:size]
        slow = seconds_per_query(BM25Retriever(part, backend="rank_bm25"), queries[:20])
        fast = seconds_per_query(BM25Retriever(part, backend="bm25s"), queries[:20])
        out[f"ratio_rank_bm25_to_bm25s_{size}"] = slow / fast
    out["seconds_per_query_hybrid"] = seconds_per_query(hybrid, queries[:50])
    return out


if __name__ == "__main__":
    main()
