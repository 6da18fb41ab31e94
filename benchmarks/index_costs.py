"""Measure the cost of an index of files, for `retrieval.py`, which documents the figures."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import ROOT, alternate
from benchmarks.reader.base import find_base
from shared_core.documents import DocumentIndex
from shared_core.retrieval.embedding import MAX_TITLE
from shared_core.retrieval.minilm import Pass, load_model
from shared_core.types import Passage

QUESTION = "When was the museum founded?"


def run(corpus: Sequence[Passage], rounds: int = 3) -> dict[str, float]:
    """Return the figures for files made of these passages; a new title starts a new file."""
    with tempfile.TemporaryDirectory() as place:
        docs, folder = Path(place) / "docs", Path(place) / "index"
        write_files(corpus, docs)
        figures = index_ratios(docs, folder, rounds)
        text = sum(file.stat().st_size for file in docs.iterdir())
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        figures["index_bytes_per_text_byte"] = size / text
        figures["first_answer_ratio"] = first_answer_ratio(folder, 2 * rounds + 1)
    return figures


def write_files(corpus: Iterable[Passage], docs: Path) -> None:
    docs.mkdir()
    for number, (title, passages) in enumerate(groupby(corpus, key=lambda p: p.title)):
        text = "\n\n".join(p.text for p in passages)
        (docs / f"{number:06}.md").write_text(f"# {title}\n\n{text}\n", "utf-8")


def index_ratios(docs: Path, folder: Path, rounds: int) -> dict[str, float]:
    update(docs, folder)  # load lazily loaded parts before timing
    with DocumentIndex(folder) as index:
        passages = index.passages()
    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: plain_pass(passages),
        "ours": lambda: update(docs, folder),
    }
    library = library_pass()
    if library is not None:
        ways["sentence_transformers"] = lambda: library(passages)
    taken = alternate(ways, rounds, time.process_time)
    ours = taken.pop("ours")
    return {
        "indexed_passages": float(len(passages)),
        "index_cpu_ms_per_passage": 1000 * ours / len(passages),
        **{f"index_ratio_{name}": ours / seconds for name, seconds in taken.items()},
    }


def update(docs: Path, folder: Path) -> None:
    """Index into an empty folder with a new name each time, because Chroma caches open databases by path."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        with DocumentIndex(Path(place) / "index") as index:
            index.update(docs)
        shutil.move(Path(place) / "index", folder)


def plain_pass(passages: Sequence[Passage]) -> None:
    """Embed each passage once, as one text cut to the model's published length, with mean pooling."""
    model = load_model()
    encoded = model.tokenize([f"{p.title[: 4 * MAX_TITLE]}\n{p.text}" for p in passages])
    model.means([Pass([model.cls, *e.ids[:254], model.sep]) for e in encoded])


def library_pass() -> Callable[[Sequence[Passage]], object] | None:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return None
    model: Any = SentenceTransformer(str(find_base()), device="cpu", local_files_only=True)
    return lambda passages: model.encode([f"{p.title}\n{p.text}" for p in passages], convert_to_tensor=True)


def first_answer_ratio(folder: Path, rounds: int) -> float:
    ask = ["-m", "shared_core.cli", "ask", QUESTION, "--index", str(folder)]
    programs: dict[str, Callable[[], object]] = {
        "import": lambda: run_python(["-c", "import torch"], (0,)),
        "ask": lambda: run_python(ask, (0, 3)),
    }
    taken = alternate(programs, rounds, children_seconds)
    return taken["ask"] / taken["import"]


def children_seconds() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_python(arguments: Sequence[str], expected: Sequence[int]) -> None:
    """Run a Python process; raises CalledProcessError for an unexpected exit code."""
    run = subprocess.run([sys.executable, *arguments], capture_output=True, cwd=ROOT)
    if run.returncode not in expected:
        raise subprocess.CalledProcessError(run.returncode, run.args, run.stdout, run.stderr)
