"""Measure time and memory of indexing, querying and updating a large index, each in its own process."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shared_core.citation import split_sentences
from shared_core.documents import DocumentIndex
from shared_core.documents.store_types import IndexProgress
from shared_core.retrieval.base import PassageVectors
from shared_core.retrieval.embedding import MIN_CHARS, merge_short
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors = Literal["minilm", "random"]
CHARACTERS = 700  # approximate length of a passage
QUESTIONS = ("who founded the university", "capital of the province")
_ARTICLE = re.compile(r"<doc[^>]*title=\"([^\"]*)\"[^>]*>\n?(.*?)</doc>", re.DOTALL)


class RandomEmbedder:
    """Embedder of random vectors, as many per passage as MiniLM makes, to measure an index without the encoder."""

    name = "random"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        return np.stack([_unit(1, text)[0] for text in texts])

    def embed_passages(self, passages: Sequence[Passage]) -> list[PassageVectors]:
        out: list[PassageVectors] = []
        for passage in passages:
            spans = merge_short(passage.text, split_sentences(passage.text), MIN_CHARS) or [(0, len(passage.text))]
            found = _unit(len(spans) + 1, passage.id)
            out.append(PassageVectors(found[1:], tuple(spans), found[0]))
        return out


def _unit(count: int, key: str) -> NDArray[np.float32]:
    """Return (count, 384) random rows of unit norm, deterministic for a key."""
    import numpy as np

    drawn = np.random.default_rng(zlib.crc32(key.encode("utf-8", "replace"))).standard_normal((count, 384), np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@dataclass
class Memory:
    """Progress callback that records this process's peak memory.

    Attributes:
        seen: (passages embedded, peak bytes) after each batch.
    """

    seen: list[tuple[int, int]] = field(default_factory=list)

    def note(self, progress: IndexProgress) -> None:
        if progress.phase == "embedding":
            self.seen.append((progress.done, peak_bytes()))

    def growth(self) -> float | None:
        """Return the memory growth per passage over the last three quarters; ``None`` with too few passages."""
        if len(self.seen) < 8:
            return None
        (few, before), (all_, after) = self.seen[len(self.seen) // 4], self.seen[-1]
        return (after - before) / (all_ - few)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def step(work: str, folder: str, docs: str, vectors: Vectors) -> dict[str, float]:
    """Run one step of the benchmark in this process."""
    start = time.process_time(), time.perf_counter()
    memory = Memory()
    with DocumentIndex(folder, embedder=RandomEmbedder() if vectors == "random" else None) as index:
        if work == "ask":
            retriever = index.retriever()
            for question in QUESTIONS:
                retriever.retrieve(question, 10)
            passages = index.stats().passages
        else:
            passages = index.update(docs, progress=memory.note).passages
    figures = {
        "passages": float(passages),
        "cpu_seconds": time.process_time() - start[0],
        "seconds": time.perf_counter() - start[1],
        "peak_mb": peak_bytes() / 2**20,
    }
    growth = memory.growth()
    return figures if growth is None else {**figures, "bytes_per_passage": growth}


def run(shards: Path, passages: int, vectors: Vectors = "minilm") -> dict[str, float]:
    """Index, query, update (one file in five hundred changed) and query again."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        docs, folder = Path(place) / "docs", Path(place) / "index"
        written = write_files(shards, docs, passages)
        for work in ("index", "ask", "update", "ask_again"):
            if work == "update":
                for file in sorted(docs.iterdir())[::500]:
                    file.write_text(file.read_text("utf-8") + "\n\nA last paragraph was added to this one.\n", "utf-8")
            command = [sys.executable, __file__, work.split("_")[0], str(folder), str(docs), vectors]
            told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            figures |= {f"{work}_{name}": float(value) for name, value in json.loads(told).items()}
        figures["index_mb"] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**20
        figures["text_mb"] = written / 2**20
    return figures


def write_files(shards: Path, docs: Path, passages: int) -> int:
    """Write articles as files until they make about that many passages. Returns their bytes."""
    docs.mkdir()
    written = files = 0
    while written < passages * CHARACTERS:  # a second round through the shards gives the same texts under other names
        before = written
        for title, text in articles(shards):
            if written >= passages * CHARACTERS:
                break
            data = f"# {title}\n\n{text}\n".encode()
            (docs / f"{files:07}.md").write_bytes(data)
            written, files = written + len(data), files + 1
        if written == before:
            raise SystemExit(f"There are no articles in {shards}.")
    return written


def articles(shards: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(shards.glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for title, text in _ARTICLE.findall(file.read()):
                yield title, text.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="One step; `retrieval.py --large N` runs them all.")
    parser.add_argument("work", choices=("index", "ask", "update"))
    parser.add_argument("folder")
    parser.add_argument("docs")
    parser.add_argument("vectors", choices=("minilm", "random"))
    print(json.dumps(step(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
