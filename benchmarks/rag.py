"""Answers with quotes from a closed corpus: is the first quote right, and does the confidence know?

    python benchmarks/rag.py [--quick] [--json FILE] [--plots DIR] [--data DIR] [--cache FILE] [--sets NAME …]

Questions: the test split of SQuAD 2.0 (`squad2_test`; half have no answer, with decoys written to mislead),
HotpotQA and MuSiQue (several hops, which one quote seldom answers) and Natural Questions (`nq`), over 10,207 passages
(11,507 for `nq`).

A first quote is right if an accepted answer stands in it (SQuAD's normalisation, whole words); for a question without
answer every quote is wrong. `first_quote`, `exact_match` and `f1` are over the answerable questions, everything else
is over all; recall is that of the 5 passages which reading keeps of 10 retrieved. `kept_accuracy_R` and `coverage_R`:
of the first quotes with a confidence above R. The baseline is the sentence of the same passages that is nearest to the
question by cosine, with that cosine as confidence.

`--quick` takes 300 questions of each set. `--cache` keeps vectors of passages and sentences between runs (questions are
always embedded afresh, so timings are honest). The data are not part of the project (see README).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrieval import CachedEmbedder, read_lines
from retrieval import questions as gold_passages
from rich.console import Console
from rich.progress import track
from rich.table import Table

from shared_core import flow as flows
from shared_core.citation import split_sentences
from shared_core.evaluation.answers import contains_answer, exact_match, f1
from shared_core.evaluation.confidence import accuracy_at, auroc, expected_calibration_error
from shared_core.evaluation.plots import reliability, risk_coverage
from shared_core.pipelines.common import Run
from shared_core.pipelines.extractive import read_best
from shared_core.reading.base import ReadResult
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import HybridRetriever
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

ROOT = Path(__file__).resolve().parents[1]
TARGETS = (0.5, 0.7, 0.8, 0.9)
MAIN = "squad2_test"
QUICK = 300


@dataclass(frozen=True)
class Asked:
    """A question, its accepted answers (none: there is no answer) and the passages that hold it."""

    text: str
    answers: tuple[str, ...]
    gold: tuple[str, ...]


@dataclass(frozen=True)
class Answered:
    """What a system said: passages read, first quote, short answer, confidence and P(answerable)."""

    passages: tuple[Passage, ...]
    quote: str
    short: str
    confidence: float
    answerable: float
    exact: bool
    """Every quote and short answer equals the slice of its passage that it names."""


class PassageCache(CachedEmbedder):
    """Remembers passages and sentences, but embeds a single text (a question) afresh each time."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._inner.embed(texts) if len(texts) == 1 else super().embed(texts)


def answer_all(retriever: HybridRetriever, asked: Sequence[Asked], k: int) -> list[Answered]:
    """What the engine does without a language model: retrieve, read, keep the best k passages."""
    resources = flows.Resources(retriever=retriever, reader=ExtractiveReader())
    settings = SelfReflectSettings(top_k=k)
    return [
        _first(*flows.run(read_best(question.text, Run(settings)), resources))
        for question in track(asked, "reading", transient=True)
    ]


def _first(passages: tuple[Passage, ...], result: ReadResult) -> Answered:
    by_id = {p.id: p for p in passages}
    spans = [s for r in result.readings for s in (r.quote, r.short_answer) if s is not None]
    exact = all(by_id[s.passage_id].text[s.start : s.end] == s.text for s in spans)
    first = result.readings[0] if result.readings else None
    return Answered(
        passages,
        first.quote.text if first else "",
        first.short_answer.text if first and first.short_answer else "",
        _number(first.probability if first else 0.0),
        _number(result.answerable),
        exact,
    )


def nearest_sentence(embedder: CachedEmbedder, asked: Sequence[Asked], read: Sequence[Answered]) -> list[Answered]:
    """The baseline: of the same passages, the sentence nearest to the question."""
    texts = sorted({p.text[a:b] for r in read for p in r.passages for a, b in split_sentences(p.text)})
    rows = {text: i for i, text in enumerate(texts)}
    vectors = embedder.embed([*texts, "", ""])  # never a single text, which would not be remembered
    questions = embedder.embed([*(q.text for q in asked), "", ""])
    out = []
    for vector, r in zip(questions, read):
        mine = [p.text[a:b] for p in r.passages for a, b in split_sentences(p.text)]
        cosines = [float(vector @ vectors[rows[t]]) for t in mine]
        best = int(np.argmax(cosines)) if mine else -1
        quote, cosine = (mine[best], cosines[best]) if mine else ("", -1.0)
        out.append(Answered(r.passages, quote, quote, cosine, cosine, True))
    return out


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def figures_of(asked: Sequence[Asked], answered: Sequence[Answered], k: int, *, calibrated: bool) -> dict[str, float]:
    """The figures of one set of questions; those on calibration only where confidences are probabilities."""
    right = [contains_answer(a.quote, q.answers) for q, a in zip(asked, answered)]
    pairs = [(q, a, r) for q, a, r in zip(asked, answered, right) if q.answers]
    confidence = [a.confidence for a in answered]
    found = [len(set(q.gold) & {p.id for p in a.passages}) / len(q.gold) for q, a in zip(asked, answered)]
    out = {
        f"recall_at_{k}": _mean(found),  # a question without an answer has its paragraph too
        f"recall_at_{k}_answerable": _mean(f for f, q in zip(found, asked) if q.answers),
        "first_quote": _mean(r for _, _, r in pairs),
        "exact_match": _mean(exact_match(a.short, q.answers) for q, a, _ in pairs),
        "f1": _mean(f1(a.short, q.answers) for q, a, _ in pairs),
        "auroc_correct": auroc(confidence, right),
        "auroc_answerable": auroc([a.answerable for a in answered], [bool(q.answers) for q in asked]),
    }
    if calibrated:
        out["calibration_error"] = expected_calibration_error(confidence, right)
        for target in TARGETS:
            kept = accuracy_at(confidence, right, target)
            out[f"kept_accuracy_{target}"], out[f"coverage_{target}"] = kept.accuracy, kept.coverage
        out["exact_citations"] = _mean(a.exact for a in answered)
    return out


def _mean(values: Any) -> float:
    found = [float(v) for v in values]
    return sum(found) / len(found) if found else math.nan


def load(data: Path) -> tuple[dict[str, list[Asked]], list[Passage], list[Passage]]:
    """Question sets by name, the corpus, and the passages added to it for ``nq``."""
    corpus = [Passage(r["id"], r["text"], r["title"]) for r in read_lines(data / "corpus.jsonl.gz")]
    gold, extra = gold_passages(data, corpus)
    squad = read_lines(data / f"{MAIN}.jsonl.gz")
    sets = {MAIN: [Asked(r["question"], tuple(r["answers"]), (r["passage_id"],)) for r in squad]}
    known = {name: {q.text: q.gold for q in queries} for name, queries in gold.items()}
    for name in ("hotpotqa", "musique"):
        rows = json.loads((data / f"{name}_train.json").read_text("utf-8"))
        sets[name] = [
            Asked(r["question"], (r["answer"], *r.get("answer_aliases", ())), known[name][r["question"]])
            for r in rows
            if r["question"] in known[name]
        ]
    nq = read_lines(data / "nq_gold_passage.jsonl.gz")
    sets["nq"] = [Asked(r["question"], tuple(r["answers"]), (r["id"],)) for r in nq]
    return sets, corpus, extra


def run(options: argparse.Namespace) -> dict[str, float]:
    """Run all sets, print the table, draw the plots; the flat figures (those of ``squad2_test`` without prefix)."""
    sets, corpus, extra = load(options.data)
    embedder = PassageCache(options.cache)
    k, out, console = options.top_k, {}, Console()
    retriever = HybridRetriever(corpus, embedder=embedder)
    embedder.save()
    for name, asked in sets.items():
        if options.sets and name not in options.sets:
            continue
        if name == "nq":
            retriever.add(extra)
        if options.quick and len(asked) > QUICK:
            asked = random.Random(0).sample(asked, QUICK)
        answer_all(retriever, asked[:2], k)  # what is loaded at first use is loaded now
        start = time.perf_counter()
        ours = answer_all(retriever, asked, k)
        seconds = (time.perf_counter() - start) / len(asked)
        base = nearest_sentence(embedder, asked, ours)
        embedder.save()
        measured = figures_of(asked, ours, k, calibrated=True) | {"seconds_per_question": seconds}
        plain = figures_of(asked, base, k, calibrated=False)
        table(
            console,
            f"{name}: {len(asked)} questions, {sum(bool(q.answers) for q in asked)} answerable",
            measured,
            plain,
        )
        prefix = "" if name == MAIN else f"{name}_"
        out |= {prefix + key: value for key, value in measured.items()}
        out |= {f"{prefix}baseline_{key}": value for key, value in plain.items()}
        if options.plots and name == MAIN:
            draw(options.plots, asked, ours)
    return out


def table(console: Console, title: str, ours: dict[str, float], base: dict[str, float]) -> None:
    shown = Table(title=title, title_justify="left")
    for column in ("figure", "extractive reader", "nearest sentence"):
        shown.add_column(column, justify="left" if column == "figure" else "right")
    for key, value in ours.items():
        shown.add_row(key, f"{value:.3f}", f"{base[key]:.3f}" if key in base else "")
    console.print(shown)


def draw(folder: Path, asked: Sequence[Asked], answered: Sequence[Answered]) -> None:
    """Risk–coverage and reliability of the first quote's confidence."""
    folder.mkdir(parents=True, exist_ok=True)
    right = [contains_answer(a.quote, q.answers) for q, a in zip(asked, answered)]
    confidence = [a.confidence for a in answered]
    risk_coverage(confidence, right, folder / "rag_risk_coverage.png", title="Extractive reader, SQuAD 2.0 test half")
    reliability(confidence, right, folder / "rag_reliability.png", title="Extractive reader, SQuAD 2.0 test half")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} questions of each set")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--plots", type=Path, help="folder to draw the plots into")
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data/rag")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/rag.npz", help="file to keep vectors in")
    parser.add_argument("--sets", nargs="+", help="only these sets of questions")
    parser.add_argument("--top-k", type=int, default=5)
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    figures = run(options)
    if options.json:
        plain = {key: value if math.isfinite(value) else None for key, value in figures.items()}
        options.json.write_text(json.dumps(plain, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
