"""Compare three lexical rankings, each alone and in the hybrid retriever with the same vectors.

- `memory`: `BM25Retriever`, in memory.
- `index`: the index's ranking (`documents/lexical.py`): words in FTS5, scores computed from their positions.
- `fts5`: FTS5's own `bm25()` (k1 = 1.2, b = .75) over two columns, words and adjacent pairs, pairs weighted .3.

Figures: recall@k alone and in the hybrid, seconds to build, milliseconds per query, bytes of the words on disk.
Run by `python benchmarks/retrieval.py --only fts5`.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shared_core.documents.manifest import FileRecord, Manifest, words_of
from shared_core.documents.scan import INDEX_MARK
from shared_core.documents.stored import StoredBM25
from shared_core.retrieval import BM25Retriever, HybridRetriever
from shared_core.types import Passage

KS = (1, 5)
_PAIR_WEIGHT = 0.3  # as BM25Retriever's `phrases`


class Fts5Ranking:
    """Retriever that ranks by FTS5's own `bm25()`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "fts5.sqlite"
        self._connection = sqlite3.connect(self.path)
        self._connection.execute("PRAGMA page_size = 16384")
        self._connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5(word, pair, content='', tokenize=\"ascii tokenchars '_'\")"
        )
        self._passages: list[Passage] = []

    def add(self, passages: Iterable[Passage]) -> None:
        new = list(passages)
        with self._connection:
            for row, passage in enumerate(new, len(self._passages)):
                words = words_of(f"{passage.title}\n{passage.text}")
                pairs = " ".join(f"{a}_{b}" for a, b in pairwise(words))
                self._connection.execute(
                    "INSERT INTO words (rowid, word, pair) VALUES (?, ?, ?)", (row, " ".join(words), pairs)
                )
        self._passages += new

    def retrieve(self, query: str, k: int = 5) -> list[Passage]:
        asked = words_of(query)
        if not asked:
            return []
        terms = [f'word:"{w}"' for w in dict.fromkeys(asked)] + [f'pair:"{a}_{b}"' for a, b in pairwise(asked)]
        found = self._connection.execute(
            f"SELECT rowid, bm25(words, 1.0, {_PAIR_WEIGHT}) AS score FROM words WHERE words MATCH ? "
            "ORDER BY score LIMIT ?",
            (" OR ".join(terms), k),
        )
        return [self._passages[row].with_score(-score) for row, score in found]


class IndexRanking:
    """Retriever that ranks by the index's words; each passage is a separate file."""

    def __init__(self, folder: Path) -> None:
        Manifest.create(folder)
        self.path = folder / INDEX_MARK
        self._manifest = Manifest.open(folder)
        self._stored: StoredBM25 | None = None

    def add(self, passages: Iterable[Passage]) -> None:
        for p in passages:
            metadata = {**p.metadata, "start": 0, "end": len(p.text)}
            record = FileRecord(p.id, p.id, "", "")
            self._manifest.put(record, p.text, [Passage(p.id, p.text, p.title, metadata)])
        self._stored = None

    def retrieve(self, query: str, k: int = 5) -> list[Passage]:
        if self._stored is None:
            self._stored = StoredBM25(self._manifest.snapshot())
        return self._stored.retrieve(query, k)

    def word_bytes(self) -> int:
        """Return the bytes of the FTS5 tables."""
        return int(self._manifest.rows("SELECT sum(length(block)) FROM words_data")[0][0])


def run(
    corpus: Sequence[Passage],
    extra: Sequence[Passage],
    sets: dict[str, Sequence[Any]],
    dense: Any,
    recall: Callable[[Sequence[Any], Sequence[Sequence[Passage]]], dict[int, float]],
) -> dict[str, float]:
    """Return the figures by name; `dense` holds the corpus, and the extra passages are added to it before `nq`."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        ways = {"memory": BM25Retriever(), "index": IndexRanking(Path(folder)), "fts5": Fts5Ranking(Path(folder))}
        for name, way in ways.items():
            start = time.process_time()
            way.add(corpus)
            way.retrieve("warm up")
            figures[f"seconds_to_build_{name}"] = time.process_time() - start
        figures["word_bytes_index"] = float(ways["index"].word_bytes())
        figures["word_bytes_fts5"] = float(ways["fts5"].path.stat().st_size)
        table = Table(
            "questions", "", *(f"{kind} recall@{k}" for kind in ("alone", "hybrid") for k in KS), "ms a query"
        )
        for set_name, queries in sets.items():
            if set_name == "nq":
                dense.add(extra)
                for way in ways.values():
                    way.add(extra)
                    way.retrieve("warm up")
            for name, way in ways.items():
                start = time.process_time()
                alone = recall(queries, [way.retrieve(q.question, 10) for q in queries])
                figures[f"ms_a_query_{name}_{set_name}"] = (time.process_time() - start) / len(queries) * 1e3
                hybrid = HybridRetriever(retrievers=(way, dense))
                both = recall(queries, hybrid.retrieve_many([q.question for q in queries], k=10))
                for k in KS:
                    figures[f"recall_at_{k}_alone_{name}_{set_name}"] = alone[k]
                    figures[f"recall_at_{k}_hybrid_{name}_{set_name}"] = both[k]
                cells = [f"{found[k]:.4f}" for found in (alone, both) for k in KS]
                milliseconds = f"{figures[f'ms_a_query_{name}_{set_name}']:.2f}"
                table.add_row(f"{set_name} ({len(queries):,})", name, *cells, milliseconds)
    Console().print(table)
    return figures
