"""Measure answers with quotes from many kinds of documents: correctness of the first quote, and its confidence.

    python benchmarks/rag.py [--quick] [--json FILE] [--plots DIR] [--data DIR] [--cache FILE] [--sets NAME …]

Sets: `squad2` (SQuAD 2.0, half without an answer, written to mislead) and `nq` (Natural Questions) over 10,207 and
11,507 passages of Wikipedia; `policyqa` (privacy policies, searched one by one), `covidqa` (long biomedical
articles), `subjqa` (product and hotel reviews); a quarter of each is unanswerable because its passages were
removed (half of `squad2` is unanswerable as published). `hotpotqa`, `musique`, `twowiki`: several hops, which one quote
rarely answers. `near_miss`: questions of Natural Questions with a name or number changed (`near_miss_articles`: of
COVID-QA); `stranger`: questions about topics that the documents do not cover. `paragraph`: SQuAD 2.0's questions, each
with only its own paragraph. The halves used to fit the reader's probabilities are excluded.

A first quote is right if it contains an accepted answer (SQuAD's normalisation, whole words); every quote for an
unanswerable question is wrong. `first_quote`, `exact_match` and `f1` are over the answerable questions, all other
figures over all questions. Recall is that of the 5 passages that reading keeps of 10 retrieved. `kept_accuracy_R` and
`coverage_R`: accuracy and share of the first quotes with a confidence above R. `right_unsaid_0.5`: share of the right
first quotes that are not shown at 0.5. `bold_…`: the same with a language model that quotes the nearest sentence and
always reports high confidence (200 questions, pipelines composed and reclaim). `gold_f1`: SQuAD 2.0's F1 with the gold
paragraph given, "no answer" where P(answerable) ≤ 0.5; `gold_f1_tuned`: with the best threshold of the tune split. The
baseline is the sentence nearest to the question by cosine similarity, with that cosine as its confidence.

`--quick` takes 300 questions of each set. `--cache` keeps vectors of passages and sentences between runs (questions are
never cached, so that their embedding is timed). The data are not part of the project (see README).
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import ROOT, command_line, write_figures
from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.reader import sets
from benchmarks.reader.mixture import SETS, World
from benchmarks.reader.sets import Case
from shared_core.evaluation.metrics.confidence import accuracy_at, auroc, expected_calibration_error
from shared_core.evaluation.metrics.qa import contains_answer, exact_match, f1
from shared_core.evaluation.plots import reliability, risk_coverage
from shared_core.evaluation.runner import mean_of
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.extractive import read_best
from shared_core.reading.base import Read, ReadResult
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import HybridRetriever
from shared_core.runtime import flow as flows
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

TARGETS = (0.5, 0.7, 0.8, 0.9)
MAIN = "squad2"
REPORTED_AS = {MAIN: "squad2_test"}
QUICK = 300
TOP_K = 5
SEARCHED = ("squad2", "hotpotqa", "musique", "nq", "near_miss")
"""Sets whose questions are asked of all of Wikipedia's passages, and so the steps of those that take several."""
BOLD = 200


@dataclass(frozen=True)
class Answered:
    """Answer of one system: passages kept, first quote, short answer, confidence and P(answerable)."""

    passages: tuple[Passage, ...]
    quote: str
    short: str
    confidence: float
    answerable: float
    exact: bool
    """Every quote and short answer equals the slice of its passage that it names."""


class Given:
    """Retriever that returns the passages retrieved earlier for each question.

    Args:
        passages: by question.
        others: for the steps of questions that take several; without it they find nothing but what the question did.
    """

    def __init__(self, passages: Mapping[str, Sequence[Passage]], others: HybridRetriever | None = None) -> None:
        self.passages = {" ".join(question.split()): some for question, some in passages.items()}  # as engines ask
        self.others = others

    def retrieve(self, query: str, k: int = 5, where: Any = None) -> list[Passage]:
        found = self.passages.get(" ".join(query.split()))
        if found is None:
            return self.others.retrieve(query, k) if self.others is not None else []
        return list(found[:k])


def answer(
    case: Case, reader: ExtractiveReader, settings: SelfReflectSettings, others: HybridRetriever | None = None
) -> Answered:
    """Answer as the engine does without a language model: read, and keep the best passages."""
    resources = flows.Resources(retriever=Given({case.question: case.passages}, others), reader=reader)
    passages, result = flows.run(read_best(case.question, QuestionRun(settings)), resources)
    return _first(passages, result)


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


def _number(value: float | None) -> float:
    return math.nan if value is None else value


# --- figures ---------------------------------------------------------------------------------------------------------


def figures_of(cases: Sequence[Case], answered: Sequence[Answered], *, calibrated: bool) -> dict[str, float]:
    """Return the figures of one question set; those on calibration only if confidences are probabilities."""
    right = [contains_answer(a.quote, c.answers) for c, a in zip(cases, answered)]
    pairs = [(c, a, r) for c, a, r in zip(cases, answered, right) if c.answers]
    confidence = [a.confidence for a in answered]
    found = [len(set(c.gold) & {p.id for p in a.passages}) / len(c.gold) for c, a in zip(cases, answered) if c.gold]
    out = {
        "recall_at_5": mean_of(found),  # unanswerable questions have a paragraph too
        "first_quote": mean_of(r for _, _, r in pairs),
        "exact_match": mean_of(exact_match(a.short, c.answers) for c, a, _ in pairs),
        "f1": mean_of(f1(a.short, c.answers) for c, a, _ in pairs),
        "auroc_correct": auroc(confidence, right),
        "auroc_answerable": auroc([a.answerable for a in answered], [bool(c.answers) for c in cases]),
    }
    if calibrated:
        out["calibration_error"] = expected_calibration_error(confidence, right)
        for target in TARGETS:
            kept = accuracy_at(confidence, right, target)
            out[f"kept_accuracy_{target}"], out[f"coverage_{target}"] = kept.accuracy, kept.coverage
        out["right_unsaid_0.5"] = mean_of(not a.confidence > 0.5 for a, r in zip(answered, right) if r)
        out["abstained_unanswerable_0.5"] = mean_of(
            not a.confidence > 0.5 for c, a in zip(cases, answered) if not c.answers
        )
        out["exact_citations"] = mean_of(a.exact for a in answered)
    return out


def gold_figures(data: Path, reader: ExtractiveReader, limit: int | None) -> dict[str, float]:
    """Compute SQuAD 2.0's F1 with the gold paragraph given, over all questions and over the answerable ones."""
    passages = {p.id: p for p in sets.wikipedia(data)}

    def read(half: sets.Half) -> list[tuple[float, float, bool]]:
        """Return (P(answerable), F1 of the short answer, whether there is one) for each question."""
        found = []
        for a in track(sets.squad2(data, half)[:limit], f"gold paragraphs, {half}", transient=True):
            (result,) = reader.read([Read(a.question, (passages[a.gold[0]],), 1, expected=0.5)])
            assert isinstance(result, ReadResult)
            first = result.readings[0].short_answer if result.readings else None
            found.append(
                (result.answerable or 0.0, f1(first.text if first else "", a.answers or [""]), bool(a.answers))
            )
        return found

    def score(rows: Sequence[tuple[float, float, bool]], bar: float) -> float:
        return mean_of(right if p > bar else not held for p, right, held in rows)

    tune, test = read("fit"), read("report")
    best = max(sorted({p for p, _, _ in tune}), key=lambda bar: score(tune, bar))
    return {
        "gold_f1": score(test, 0.5),
        "gold_f1_tuned": score(test, best),
        "gold_f1_answerable": mean_of(right for _, right, held in test if held),
    }


def read_ratio(cases: Sequence[Case], n: int = 12) -> dict[str, float]:
    """Return the time of a 6-layer MiniLM cross-encoder over that of reading, on the same questions and passages.

    Both use all cores and alternate. The cross-encoder runs in float32, as in sentence-transformers, and for `_half` in
    bfloat16 where the CPU has instructions for it; for `_kept` the reader has the passages cached.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from benchmarks.reader.base import find_base

    able = torch.cpu.get_capabilities()
    fast = able.get("amx_bf16") or able.get("avx512_bf16")
    folder = str(find_base())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    plain = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    half = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1, dtype=torch.bfloat16 if fast else torch.float32
    ).eval()

    def score(model: Any, case: Case) -> None:
        texts = [p.text for p in case.passages]
        inputs = tokenizer(
            [case.question] * len(texts), texts, truncation=True, max_length=512, padding=True, return_tensors="pt"
        )
        with torch.inference_mode():
            model(**inputs)

    def read(reader: ExtractiveReader, case: Case) -> None:
        reader.read([Read(case.question, case.passages)])

    spent = dict.fromkeys(("plain", "half", "new", "kept"), 0.0)
    reader = ExtractiveReader()
    some = [c for c in cases if len(c.passages) == sets.READ][: n + 2]
    for i, case in enumerate(some):
        jobs: list[tuple[str, Callable[[], None]]] = [
            ("plain", lambda c=case: score(plain, c)), ("half", lambda c=case: score(half, c)),
            ("new", lambda c=case: read(reader, c)), ("kept", lambda c=case: read(reader, c)),
        ]  # fmt: skip
        for name, job in jobs:
            start = time.perf_counter()
            job()
            if i >= 2:  # the first two trigger lazy loading
                spent[name] += time.perf_counter() - start
    return {
        "read_ratio_cross_encoder": spent["plain"] / spent["new"],
        "read_ratio_cross_encoder_half": spent["half"] / spent["new"],
        "read_ratio_cross_encoder_kept": spent["plain"] / spent["kept"],
    }


# --- an overconfident model -------------------------------------------------------------------------------------------


def bold_model(embedder: CachedEmbedder) -> ScriptedLM:
    """Build a text-only model that quotes the sentence nearest to the question and always reports confidence 97."""

    def reply(request: Any) -> str:
        prompt = request.prompt.text
        if "Question: " not in prompt or "\nS1: " not in prompt:
            return "97"
        sentences = re.findall(r"^S(\d+): (.*)$", prompt, re.MULTILINE)
        question = prompt.rsplit("Question: ", 1)[1]
        vectors = embedder.embed([question, *(text for _, text in sentences)])
        number, text = sentences[int(np.argmax(vectors[1:] @ vectors[0]))]
        return f"<reference>S{number}</reference><claim>{text}</claim>"

    return ScriptedLM(reply)


def bold_figures(cases: Sequence[Case], embedder: CachedEmbedder) -> dict[str, float]:
    """Return the AUROC of the confidence, answers kept at 0.5, and the abstention rate on unanswerable questions."""
    out: dict[str, float] = {}
    some = random.Random(1).sample(list(cases), min(BOLD, len(cases)))
    shelf = Given({c.question: c.passages for c in some})
    for pipeline in ("composed", "reclaim"):
        # One engine for all, as in use: it learns from the first questions how little the model's word counts.
        settings = SelfReflectSettings(pipeline=pipeline, top_k=TOP_K)
        engine = SelfReflectEngine(shelf, bold_model(embedder), settings)
        sure, right, kept, abstained = [], [], [], []
        for case in track(some, f"bold model, {pipeline}", transient=True):
            answer = engine.answer(case.question)
            best = max(answer.claims, key=lambda c: -1.0 if c.support is None else c.support, default=None)
            held = best is not None and contains_answer(best.text, case.answers)
            sure.append(_number(best.support if best else 0.0))
            right.append(held)
            if not answer.abstained:
                kept.append(held)
            if not case.answers:
                abstained.append(answer.abstained)
        prefix = "bold" if pipeline == "composed" else f"bold_{pipeline}"
        out |= {
            f"{prefix}_auroc_correct": auroc(sure, right),
            f"{prefix}_kept_accuracy_0.5": mean_of(kept),
            f"{prefix}_coverage_0.5": len(kept) / len(some),
            f"{prefix}_abstained_unanswerable_0.5": mean_of(abstained),
        }
    return out


# --- the run ---------------------------------------------------------------------------------------------------------


def nearest_sentence(embedder: CachedEmbedder, cases: Sequence[Case], read: Sequence[Answered]) -> list[Answered]:
    """Answer with the sentence of the same passages that is nearest to the question (the baseline)."""
    from shared_core.citation import split_sentences

    held = [[p.text[a:b] for p in r.passages for a, b in split_sentences(p.text)] for r in read]
    texts = sorted({t for some in held for t in some})
    rows = {text: i for i, text in enumerate(texts)}
    vectors = embedder.embed([*texts, "", ""])  # always in batches: single texts are not cached
    questions = embedder.embed([*(c.question for c in cases), "", ""])
    out = []
    for vector, mine, r in zip(questions, held, read):
        cosines = [float(vector @ vectors[rows[t]]) for t in mine]
        best = max(range(len(mine)), key=cosines.__getitem__, default=None)
        quote, cosine = (mine[best], cosines[best]) if best is not None else ("", -1.0)
        out.append(Answered(r.passages, quote, quote, cosine, cosine, True))
    return out


def run(options: argparse.Namespace) -> dict[str, float]:
    """Run all sets, print the tables and draw the plots. Returns the figures (``squad2_test``'s without a prefix)."""
    world = World(options.data, embedder := CachedEmbedder(options.cache), "report")
    reader, console, out = ExtractiveReader(cache_passages=4096), Console(), dict[str, float]()
    settings = SelfReflectSettings(top_k=TOP_K, candidates=sets.READ)
    for name, make in SETS.items():
        if options.sets and name not in options.sets:
            continue
        cases = make(world)
        embedder.save()
        if options.quick and len(cases) > QUICK:
            cases = random.Random(0).sample(cases, QUICK)
        answer(cases[0], reader, settings)  # load lazily loaded parts before timing
        start = time.perf_counter()
        others = world.wikipedia() if name in SEARCHED else None
        ours = [answer(case, reader, settings, others) for case in track(cases, name, transient=True)]
        seconds = (time.perf_counter() - start) / len(cases)
        measured = figures_of(cases, ours, calibrated=True) | {"seconds_per_question": seconds}
        if name == MAIN:
            measured |= gold_figures(options.data, reader, QUICK if options.quick else None) | read_ratio(cases)
            measured |= bold_figures(cases, embedder)
        base = figures_of(cases, nearest_sentence(embedder, cases, ours), calibrated=False)
        table(
            console, f"{name}: {len(cases)} questions, {sum(bool(c.answers) for c in cases)} answerable", measured, base
        )
        label = REPORTED_AS.get(name, name)
        out |= {f"{label}_{key}": value for key, value in measured.items()}
        if name == MAIN:
            out |= measured | {f"baseline_{key}": value for key, value in base.items()}
        if options.plots:
            draw(options.plots, name, cases, ours)
    embedder.save()
    return out


def table(console: Console, title: str, ours: dict[str, float], base: dict[str, float]) -> None:
    shown = Table(title=title, title_justify="left")
    for column in ("figure", "embedded default", "nearest sentence"):
        shown.add_column(column, justify="left" if column == "figure" else "right")
    for key, value in ours.items():
        shown.add_row(key, f"{value:.3f}", f"{base[key]:.3f}" if key in base else "")
    console.print(shown)


def draw(folder: Path, name: str, cases: Sequence[Case], answered: Sequence[Answered]) -> None:
    """Draw risk–coverage and reliability of the first quote's confidence."""
    folder.mkdir(parents=True, exist_ok=True)
    right = [contains_answer(a.quote, c.answers) for c, a in zip(cases, answered)]
    confidence = [a.confidence for a in answered]
    prefix = "rag" if name == MAIN else f"rag_{name}"
    risk_coverage({"": (confidence, right)}, folder / f"{prefix}_risk_coverage.png", title=f"Embedded default, {name}")
    reliability({"": (confidence, right)}, folder / f"{prefix}_reliability.png", title=f"Embedded default, {name}")


def main() -> None:
    parser = command_line(__doc__, quick=f"{QUICK} questions of each set")
    parser.add_argument("--plots", type=Path, help="folder to draw the plots into")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/rag.npz", help="file to keep vectors in")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), help="only these sets of questions")
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    figures = run(options)
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
