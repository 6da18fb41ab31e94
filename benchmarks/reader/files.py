"""Questions on strangers' files, for fitting the probabilities: manuals, handbooks, by-laws, FAQs, tables, minutes.

    python -m benchmarks.reader.files NAME --docs FOLDER --questions FILE [--out FILE]

Public sets of questions are about Wikipedia, articles, reviews and policies. With them alone, quotes from other kinds
of files were right more often than their probabilities said. These questions were written from the files, before an
answer of ours was seen; a quarter have no answer. The files belong to others, so ``files.json`` holds the questions
with the figures that were measured on them. Measure again where the network or the figures change: each line of FILE
is ``{"question": …, "answers": […], "answerable": …}``, and a quote is right if it has one of the strings, or matches
the ``pattern`` given in their place.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reader.confidence import MeasuredCase
from shared_core.documents import DocumentIndex
from shared_core.reading.candidates import FIGURES, figures
from shared_core.reading.extractive import VERIFIED, ExtractiveReader

FILE = Path(__file__).with_name("files.json")
SHARE = 0.2
"""Share of these questions in all that is fitted on."""
RETRIEVED = 10


def measured(others: Sequence[MeasuredCase], file: Path = FILE) -> list[MeasuredCase]:
    """Return the cases of ``file``, weighted as ``SHARE`` of all beside ``others``.

    Raises:
        ValueError: they were measured with other figures than the reader has now.
    """
    stored = json.loads(file.read_text("utf-8"))
    if stored["figures"] != list(FIGURES):
        raise ValueError(f"The figures in {file} are not the reader's: measure them again.")
    rows = [row for some in stored["sets"].values() for row in some]
    weight = SHARE / (1 - SHARE) * sum(m.weight for m in others) / max(1, len(rows))
    return [
        MeasuredCase(
            np.array(row["rows"]),
            np.array(row["right"], dtype=bool),
            row["held"],
            [frozenset(c) for c in row["conflicts"]],
            weight,
        )
        for row in rows
    ]


def measure_files(docs: Path, questions: Sequence[Mapping[str, Any]], reader: ExtractiveReader) -> list[dict[str, Any]]:
    """Index a folder, ask each question, and return the figures and labels of its first quotes."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        index = DocumentIndex(Path(folder) / "index")
        index.update(docs)
        retriever = index.retriever()
        for row in questions:
            passages = retriever.retrieve(row["question"], k=RETRIEVED)
            every = reader.candidates(row["question"], passages)
            if not every:
                continue
            texts = [passages[c.passage].text[c.start : c.end] for c in every[:VERIFIED]]
            found = figures(every, reader.shape_of(row["question"]))[:VERIFIED]
            out.append(
                {
                    "question": row["question"],
                    "rows": np.round(found, 3).tolist(),
                    "right": [_holds(text, row) for text in texts],
                    "held": any(_holds(p.text, row) for p in passages),
                    "conflicts": [sorted(c.conflicts) for c in every[:VERIFIED]],
                }
            )
    return out


def _holds(text: str, row: Mapping[str, Any]) -> bool:
    if not row["answerable"]:
        return False
    if "pattern" in row:
        return re.search(row["pattern"], " ".join(text.split())) is not None
    return any(_plain(a) in _plain(text) for a in row["answers"])


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).casefold().strip()


def write(file: Path, sets: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Write the sets, a question a line."""
    lines = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in some) + "\n]"
        for name, some in sets.items()
    ]
    text = f'{{"figures": {json.dumps(list(FIGURES))},\n"sets": {{\n' + ",\n".join(lines) + "\n}}\n"
    file.write_text(text, "utf-8")


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.files", description=summary)
    parser.add_argument("name", help="of the set, which replaces one of the same name")
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    questions = [json.loads(line) for line in options.questions.read_text("utf-8").splitlines() if line.strip()]
    known = json.loads(options.out.read_text("utf-8"))["sets"] if options.out.exists() else {}
    known[options.name] = measure_files(options.docs, questions, ExtractiveReader(cache_passages=8192))
    write(options.out, known)
    print(f"{options.name}: {len(known[options.name])} questions")


if __name__ == "__main__":
    main()
