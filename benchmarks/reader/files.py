"""Questions on strangers' files, for fitting the probabilities: manuals, handbooks, by-laws, minutes, tables.

    python -m benchmarks.reader.files --sources FOLDER [--kept FOLDER] [--out FILE]
    python -m benchmarks.reader.files --sources FOLDER [--kept FOLDER] --rescale

Public sets of questions are about Wikipedia, articles, reviews and policies. With them alone, quotes from other kinds
of files were right more often than their probabilities said. ``files.json`` holds the figures measured on the sets of
``FIT`` in ``benchmarks/strangers.py``; where a network or the figures change, they must be measured again. FOLDER is as
for that script.

Even so, right and wrong quotes of sections and rows differ more clearly than their probabilities say. ``--rescale``
asks those questions as the engine does, and those of ``benchmarks/small_documents.py`` that may be fitted on. It writes
how probabilities are rescaled beside the weights (``structured``).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks import small_documents
from benchmarks.rag import Answered
from benchmarks.reader.confidence import MeasuredCase, fit_platt
from benchmarks.reader.export import describe
from benchmarks.reader.sets import READ
from benchmarks.strangers import FIT, Outcome, Question, ask, fetch, index_files, outcomes, read_questions
from shared_core.reading.candidates import FIGURES, figures
from shared_core.reading.confidence import Rescaling, logit
from shared_core.reading.extractive import VERIFIED, ExtractiveReader
from shared_core.reading.places import is_structured
from shared_core.reading.weights import WEIGHTS
from shared_core.retrieval import HybridRetriever

FILE = Path(__file__).with_name("files.json")
SHARE = 0.2
"""Share of these questions in all that is fitted on, and of small documents' in what is rescaled."""
ANSWERABLE = 0.6
"""Share of answerable questions on small documents."""


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


def measure_files(
    questions: Sequence[Question], retriever: HybridRetriever, reader: ExtractiveReader
) -> list[dict[str, Any]]:
    """Ask each question, and return the figures and labels of its first quotes."""
    out = []
    for question in track(questions, "measuring", transient=True):
        passages = retriever.retrieve(question.text, k=READ)
        every = reader.candidates(question.text, passages)
        if not every:
            continue
        texts = [passages[c.passage].text[c.start : c.end] for c in every[:VERIFIED]]
        found = figures(every, reader.shape_of(question.text))[:VERIFIED]
        out.append(
            {
                "question": question.text,
                "rows": np.round(found, 3).tolist(),
                "right": [question.is_answered_by(text) for text in texts],
                "held": any(question.is_answered_by(p.text) for p in passages),
                "conflicts": [sorted(c.conflicts) for c in every[:VERIFIED]],
            }
        )
    return out


def fit_rescaling(rows: Sequence[Outcome], small: Sequence[small_documents.Outcome]) -> Rescaling:
    """Fit how probabilities of quotes from structured passages are rescaled.

    Args:
        rows: outcomes of such quotes with the probabilities that ship, in the proportions of the sets.
        small: those of small documents, in which most questions have no answer: they are weighted as if ``ANSWERABLE``
            of them had one, and all together as ``SHARE``.

    Raises:
        CalibrationError: the probabilities do not separate right quotes from wrong ones.
    """
    share = sum(o.answerable for o in small) / max(1, len(small))
    all_of_small = SHARE / (1 - SHARE) * len(rows) / max(1, len(small))
    known = [(logit(r.confidence), r.right, 1.0) for r in rows if 0 < r.confidence < 1]
    for o in small:
        heavy = ANSWERABLE / share if o.answerable else (1 - ANSWERABLE) / (1 - share)
        if 0 < o.confidence < 1:
            known.append((logit(o.confidence), o.right, heavy * all_of_small))
    return Rescaling(*fit_platt(*zip(*known)))


def rescale(sets: Mapping[str, HybridRetriever], weights: Path = WEIGHTS) -> None:
    """Fit ``structured`` anew and write it into the JSON file beside ``weights``."""
    about = json.loads(weights.with_suffix(".json").read_text("utf-8"))
    describe(weights, about | {"structured": [1.0, 0.0]})
    questions, rows = read_questions(), list[Outcome]()
    for name, retriever in sets.items():
        cases, answered = ask(questions[name], retriever, name)
        found = outcomes(questions[name], cases, answered)
        rows += [row for row, a in zip(found, answered, strict=True) if _is_of_structured(a)]
    small = [*small_documents.outcomes("fit")]
    fitted = fit_rescaling(rows, small)
    describe(weights, about | {"structured": [round(fitted.slope, 2), round(fitted.intercept, 2)]})
    print(f"{len(rows)} and {len(small)} questions: {fitted}", flush=True)


def _is_of_structured(answered: Answered) -> bool:
    """Whether the first passage with the quote is structured."""
    return next((is_structured(p) for p in answered.passages if answered.quote and answered.quote in p.text), False)


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
    parser.add_argument("--sources", type=Path, required=True, help="folder of the files, as for that script")
    parser.add_argument("--server", default="https://github.com", help="where files are fetched from that it lacks")
    parser.add_argument("--kept", type=Path, help="folder that keeps the indexes between runs")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--rescale", action="store_true", help="fit only how probabilities are rescaled (minutes)")
    options = parser.parse_args()
    questions, reader = read_questions(), ExtractiveReader(cache_passages=8192)
    with tempfile.TemporaryDirectory() as folder:
        retrievers = {}
        for name in FIT:
            fetch(name, options.sources, options.server)
            retrievers[name] = index_files(options.sources / name, (options.kept or Path(folder)) / name)
        if options.rescale:
            rescale(retrievers)
            return
        write(options.out, {n: measure_files(questions[n], some, reader) for n, some in retrievers.items()})


if __name__ == "__main__":
    main()
