"""Measure the shipped critic: whether evidence supports a claim, and whether a sentence answers a question.

    python benchmarks/critic.py [--quick] [--json FILE] [--data DIR]

`auroc_support`: P(evidence supports claim) against human labels, the mean over BEGIN, Factcheck-GPT, WiCE and
`attribution_tune` (part of AttributionBench: claims of search engines with the pages they cite). Three untrained scores
are baselines: the share of the claim's words in the evidence, ROUGE-L recall and MiniLM's cosine similarity. Partial
support counts as none. `auroc_relevance`: sentences and questions of WikiQA's test split. `f1`, `first_quote`,
`auroc_correct` and `auroc_answerable`: reading SQuAD 2.0's gold paragraphs, with the answers verified by the critic.
`ms_per_question`: rating ten sentences for one question.

`--quick` takes 300 rows of each data set. The data are not part of the project (see README).
"""

from __future__ import annotations

import math
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.reader import sets
from benchmarks.reader.data import read_lines
from shared_core.evaluation.metrics.confidence import auroc, expected_calibration_error
from shared_core.evaluation.metrics.qa import contains_answer, f1
from shared_core.reading.base import Read, ReadResult
from shared_core.reading.critic import CriticSupportScorer
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval.embedding import MiniLMEmbedder

QUICK = 300
MOST = 2000
SUPPORT = ("begin_v2", "factcheck_gpt", "wice")
Pair = tuple[str, str]
_WORD = re.compile(r"\w+")


def pairs_of(data: Path, limit: int) -> dict[str, list[tuple[Pair, bool]]]:
    """Load (evidence, claim) pairs with their human labels, by data set."""
    out: dict[str, list[tuple[Pair, bool]]] = {}
    for row in read_lines(data / "support/test.jsonl.gz"):
        pair = row["premise"], row["hypothesis"]
        out.setdefault(row["source"], []).append((pair, row["label"] == "supported"))
    rows = read_lines(data / "ood/attribution_tune.jsonl.gz")
    out["attribution_tune"] = [(("\n".join(texts_of(r["references"])), r["claim"]), bool(r["supported"])) for r in rows]
    rng = random.Random(0)
    return {name: rng.sample(some, min(limit, len(some))) for name, some in out.items() if _both_kinds(some)}


def texts_of(references: Any) -> list[str]:
    """Return the texts of a row's references, which may be a single one."""
    return [references] if isinstance(references, str) else [str(r) for r in references]


def _both_kinds(rows: Sequence[tuple[Pair, bool]]) -> bool:
    return 0 < sum(label for _, label in rows) < len(rows)


# --- scores ----------------------------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def overlap(pairs: Sequence[Pair]) -> list[float]:
    """Return the share of the claim's words that occur in the evidence."""
    out = []
    for evidence, claim in pairs:
        held, said = set(_words(evidence)), _words(claim)
        out.append(sum(w in held for w in said) / len(said) if said else math.nan)
    return out


def rouge(pairs: Sequence[Pair]) -> list[float]:
    """Return the ROUGE-L recall of the claim."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"])
    return [scorer.score(claim, evidence[:20_000])["rougeL"].recall for evidence, claim in pairs]


def cosine(pairs: Sequence[Pair]) -> list[float]:
    """Return the cosine similarity of the two texts' MiniLM vectors."""
    embedder = MiniLMEmbedder()
    return [float(a) for a in (embedder.embed([e for e, _ in pairs]) * embedder.embed([c for _, c in pairs])).sum(1)]


def support_figures(data: Path, limit: int, console: Console) -> dict[str, float]:
    critic = CriticSupportScorer()
    scores: dict[str, Callable[[Sequence[Pair]], Sequence[float | None]]] = {
        "critic": critic.score, "overlap": overlap, "rouge_l": rouge, "cosine": cosine,
    }  # fmt: skip
    shown = Table(title="AUROC: does the evidence support the claim?", title_justify="left")
    for column in ("set", "pairs", *scores, "critic's calibration error"):
        shown.add_column(column, justify="left" if column == "set" else "right")
    out: dict[str, float] = {}
    for name, rows in pairs_of(data, limit).items():
        pairs, labels = [p for p, _ in rows], [label for _, label in rows]
        said = {score: [math.nan if p is None else p for p in fn(pairs)] for score, fn in scores.items()}
        found = {score: auroc(values, labels) for score, values in said.items()}
        known = [(p, y) for p, y in zip(said["critic"], labels) if not math.isnan(p)]
        error = expected_calibration_error([p for p, _ in known], [y for _, y in known])
        shown.add_row(name, str(len(rows)), *(f"{found[s]:.3f}" for s in scores), f"{error:.3f}")
        out |= {f"{name}_auroc_{score}": value for score, value in found.items()} | {f"{name}_error": error}
    console.print(shown)
    main = [name for name in (*SUPPORT, "attribution_tune") if f"{name}_auroc_critic" in out]
    for score in scores:
        key = "auroc_support" if score == "critic" else f"auroc_support_{score}"
        out[key] = float(np.mean([out[f"{name}_auroc_{score}"] for name in main]))
    return out


def relevance_figures(data: Path, limit: int) -> dict[str, float]:
    requests, labels = sets.sentences_to_rate(data / "relevance/wikiqa_test.jsonl.gz", limit)
    critic = CriticSupportScorer()
    start = time.perf_counter()
    rated = critic.rate(requests)
    seconds = time.perf_counter() - start
    flat = [math.nan if p is None else p for row in rated for p in row]
    return {"auroc_relevance": auroc(flat, labels), "ms_per_question": 1000 * seconds / len(labels) * 10}


def reading_figures(data: Path, limit: int) -> dict[str, float]:
    passages = {p.id: p for p in sets.wikipedia(data)}
    asked = random.Random(0).sample(sets.squad2(data, "report"), limit)
    reader = ExtractiveReader()
    said: list[tuple[float, bool, float, bool, float]] = []
    for a in track(asked, "gold paragraphs", transient=True):
        (result,) = reader.read([Read(a.question, (passages[a.gold[0]],), 1, expected=0.5)])
        assert isinstance(result, ReadResult)
        first = result.readings[0] if result.readings else None
        short = first.short_answer.text if first and first.short_answer else ""
        right = first is not None and contains_answer(first.quote.text, a.answers)
        known = first.probability if first else None
        answerable = math.nan if result.answerable is None else result.answerable
        score = f1(short, a.answers) if a.answers else 0.0
        said.append((math.nan if known is None else known, right, answerable, bool(a.answers), score))
    return {
        "f1": float(np.mean([s for *_, held, s in said if held])),
        "first_quote": float(np.mean([right for _, right, _, held, _ in said if held])),
        "auroc_correct": auroc([p for p, *_ in said], [right for _, right, *_ in said]),
        "auroc_answerable": auroc([p for _, _, p, *_ in said], [held for *_, held, _ in said]),
    }


def main() -> None:
    parser = command_line(__doc__, quick=f"{QUICK} rows of each set")
    options = parser.parse_args()
    limit, console = QUICK if options.quick else MOST, Console()
    out = support_figures(options.data, limit, console)
    out |= relevance_figures(options.data, limit) | reading_figures(options.data, limit)
    for key in ("auroc_support", "auroc_relevance", "f1", "first_quote", "auroc_correct", "auroc_answerable"):
        console.print(f"{key}: {out[key]:.3f}")
    console.print(f"ms_per_question: {out['ms_per_question']:.0f}")
    write_figures(out, options.json)


if __name__ == "__main__":
    main()
