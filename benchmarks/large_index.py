"""A large index: time and peak memory of indexing, asking and updating, each in a process of its own."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHARACTERS = 700  # of a passage, about
_ARTICLE = re.compile(r"<doc[^>]*title=\"([^\"]*)\"[^>]*>\n?(.*?)</doc>", re.DOTALL)
_STEP = """
import json, resource, sys, time
start = time.process_time(), time.perf_counter()
from shared_core.retrieval import DocumentIndex
work, folder, docs = sys.argv[1:]
with DocumentIndex(folder) as index:
    if work == "ask":
        retriever = index.retriever()
        found = [retriever.retrieve(q, 10) for q in ("who founded the university", "capital of the province")]
        passages = len(retriever)
    else:
        passages = index.update(docs).passages
status = {l.split(":")[0]: int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(("VmHWM", "RssAnon"))}
print(json.dumps({
    "passages": passages,
    "cpu_seconds": time.process_time() - start[0],
    "seconds": time.perf_counter() - start[1],
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def run(shards: Path, passages: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        docs, folder = Path(place) / "docs", Path(place) / "index"
        written = write_files(shards, docs, passages)
        for work in ("index", "ask", "update", "ask_again"):
            if work == "update":
                for file in sorted(docs.iterdir())[::500]:
                    file.write_text(file.read_text("utf-8") + "\n\nA last paragraph was added to this one.\n", "utf-8")
            step = [sys.executable, "-c", _STEP, work.split("_")[0], str(folder), str(docs)]
            told = subprocess.run(step, capture_output=True, text=True, check=True, cwd=ROOT).stdout
            figures |= {f"{work}_{name}": float(value) for name, value in json.loads(told).items()}
        figures["index_mb"] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**20
        figures["text_mb"] = written / 2**20
    return figures


def write_files(shards: Path, docs: Path, passages: int) -> int:
    """Articles as files until they make about so many passages; gives their bytes."""
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
