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

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fts5
import index_costs
import large_index as large
from cached_embedder import CachedEmbedder
from rich.console import Console
from rich.table import Table

from benchmarks import alternate, command_line, write_figures
from benchmarks.reader import sets
from benchmarks.reader.data import read_lines
from benchmarks.reader.sets import AskedQuestion
from shared_core.retrieval import BM25Retriever, DenseRetriever, HybridRetriever
from shared_core.types import Passage

KS = (1, 3, 5, 10)


def questions(data: Path) -> tuple[dict[str, list[AskedQuestion]], list[Passage]]:
    """Load the question sets, and the passages to add to the corpus for `nq`."""
    asked = {"squad2_tune": sets.squad2(data, "fit"), "squad2_test": sets.squad2(data, "report")}
    asked |= {name: sets.multi_hop(data, name) for name in ("hotpotqa", "musique")}
    rows = read_lines(data / "rag/nq_gold_passage.jsonl.gz")
    asked["nq"] = [AskedQuestion(r["question"], (), (r["id"],), "") for r in rows]
    return asked, [Passage(r["id"], r["passage"], r["title"]) for r in rows]


def recall(queries: Sequence[AskedQuestion], ranked: Sequence[Sequence[Passage]]) -> dict[int, float]:
    out = {}
    for k in KS:
        shares = [len(set(q.gold) & {p.id for p in r[:k]}) / len(q.gold) for q, r in zip(queries, ranked)]
        out[k] = sum(shares) / len(shares)
    return out


def seconds_per_query(retriever: Any, queries: Sequence[str]) -> float:
    retriever.retrieve(queries[0])  # the first query builds lazily built parts
    return alternate({"all": lambda: list(map(retriever.retrieve, queries))}, repeats=3)["all"] / len(queries)


def main() -> None:
    parser = command_line(__doc__, quick="a fifth of the questions and passages")
    parser.add_argument("--cache", type=Path, help="file (.npz) to keep vectors in")
    parser.add_argument("--only", nargs="+", choices=("recall", "index", "fts5"), default=("recall", "index"))
    parser.add_argument("--large", type=int, metavar="N", help="only: index, ask and update N passages")
    parser.add_argument("--vectors", choices=("minilm", "random"), default="minilm", help="with --large")
    options = parser.parse_args()
    if options.large:
        figures = large.run(options.data / "text", options.large, options.vectors)
    else:
        corpus = sets.wikipedia(options.data)
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
    asked, corpus, extra = sampled(data, corpus, quick=quick)
    embedder = CachedEmbedder(cache)
    dense = DenseRetriever(corpus, embedder=embedder)
    figures = fts5.run(corpus, extra, {name: asked[name] for name in ("squad2_test", "nq")}, dense, recall)
    embedder.save()
    return figures


def sampled(
    data: Path, corpus: list[Passage], *, quick: bool
) -> tuple[dict[str, list[AskedQuestion]], list[Passage], list[Passage]]:
    """Load question sets, corpus and the passages to add for `nq`; a fifth of each if quick."""
    asked, extra = questions(data)
    if quick:
        asked = {name: random.Random(0).sample(queries, max(20, len(queries) // 5)) for name, queries in asked.items()}
        gold = {g for queries in asked.values() for q in queries for g in q.gold}
        corpus = [p for i, p in enumerate(corpus) if i % 5 == 0 or p.id in gold]
        extra = [p for p in extra if p.id in gold]
    return asked, corpus, extra


def recalls(data: Path, corpus: list[Passage], *, quick: bool, cache: Path | None) -> dict[str, float]:
    asked, corpus, extra = sampled(data, corpus, quick=quick)
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
    for name, queries in asked.items():
        if name == "nq":
            lexical.add(extra)
            dense.add(extra)
        for kind, retriever in retrievers.items():
            found = recall(queries, retriever.retrieve_many([q.question for q in queries], k=max(KS)))
            figures.update({f"recall_at_{k}_{kind}_{name}": value for k, value in found.items()})
            table.add_row(f"{name} ({len(queries):,})", kind, *(f"{found[k]:.3f}" for k in KS))
    embedder.save()
    Console().print(table)
    return figures | speed(corpus, [q.question for q in asked["squad2_tune"]], retrievers["hybrid"])


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
