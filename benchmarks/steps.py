"""Ask the embedded default questions that take several steps, with and without the steps.

    python benchmarks/steps.py [--fit] [--json FILE] [--data DIR] [--cache FILE]

Only questions that are split (`shared_core.reading.steps`) are asked: of 2WikiMultiHopQA's report half, each with its
own ten paragraphs; of HotpotQA and MuSiQue over 10,207 passages of Wikipedia; and `twowiki_changed`: 2Wiki's with
another question's phrase in place of their own ("the director of" another film), so that their paragraphs do not
answer. Then made-up texts (`steps.json`): minutes with contacts, a wiki of services, a festival. `direct` is the quote
for the whole question alone, `steps` what the engine answers. `right`: share of the answerable questions whose first
quote holds the answer; `shown` and `shown_right`: number of answers at a target of 0.5, and of the right ones among
them; `auroc`: of confidence.

`--fit` fits the numbers in `shared_core.pipelines.stepwise` instead, on 2Wiki's fitting half, as it is and changed, and
on MuSiQue, whose figures therefore flatter. So do those of the first made-up text, which was looked at; for the other
two, nouns and verbs were added to the lists that questions are split by.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from cached_embedder import CachedEmbedder

from benchmarks import command_line, write_figures
from benchmarks.reader import sets
from benchmarks.reader.mixture import SETS, World
from benchmarks.reader.sets import Case
from shared_core.documents import Document, chunk_document
from shared_core.evaluation.metrics.confidence import auroc
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.evaluation.runner import mean_of
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.extractive import read_best
from shared_core.pipelines.stepwise import answer_in_steps, holds_name, takes_steps
from shared_core.reading.base import Read, ReadResult
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.steps import first_steps, without_ending
from shared_core.retrieval import HybridRetriever
from shared_core.runtime import flow as flows
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

TOP_K, READ = 5, 10


class Own:
    """Retriever that returns all passages of one question, whatever is asked."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages

    def retrieve(self, query: str, k: int = 5, where: Any = None) -> list[Passage]:
        return list(self.passages)


def changed(cases: Sequence[Case]) -> list[Case]:
    """Put another question's phrase into each question that takes steps: its passages do not answer it any more."""
    rng = random.Random(0)
    split = [(case, first_steps(case.question)[0]) for case in cases if first_steps(case.question)]
    out = []
    for case, step in split:
        kind = step.question.split()[0]
        others = [s for _, s in split if s.question.split()[0] == kind and s.phrase != step.phrase]
        question = f"{step.before}{rng.choice(others).phrase}{step.after}" if others else ""
        if first_steps(question):
            out.append(dataclasses.replace(case, question=question, answers=()))
    return out


@dataclasses.dataclass(frozen=True)
class Row:
    """A question's answers: (quote, confidence) without steps and with them."""

    case: Case
    direct: tuple[str, float]
    steps: tuple[str, float]


def ask(cases: Sequence[Case], reader: ExtractiveReader, retriever: Any, name: str) -> list[Row]:
    """Ask each question that takes steps."""
    rows = []
    settings = SelfReflectSettings(top_k=TOP_K, candidates=READ)
    for case in track([c for c in cases if takes_steps(c.question)], name, transient=True):
        source = retriever or Own(case.passages)
        passages = tuple(source.retrieve(case.question, READ))
        (alone,) = reader.read([Read(case.question, passages)])
        assert isinstance(alone, ReadResult)
        _, result = flows.run(
            read_best(case.question, QuestionRun(settings)), flows.Resources(retriever=source, reader=reader)
        )
        rows.append(Row(case, _first(alone), _first(result)))
    return rows


def _first(result: ReadResult) -> tuple[str, float]:
    first = result.readings[0] if result.readings else None
    return (first.quote.text, first.probability or 0.0) if first else ("", 0.0)


def figures_of(rows: Sequence[Row]) -> dict[str, float]:
    """Return the figures of one set, without steps and with them."""
    out: dict[str, float] = {"questions": len(rows)}
    for name in ("direct", "steps"):
        answers = [getattr(r, name) for r in rows]
        right = [contains_answer(quote, r.case.answers) for (quote, _), r in zip(answers, rows)]
        shown = [p > 0.5 for _, p in answers]
        out |= {
            f"{name}_right": mean_of(held for held, r in zip(right, rows) if r.case.answers),
            f"{name}_shown": sum(shown),
            f"{name}_shown_right": sum(a and b for a, b in zip(shown, right)),
            f"{name}_auroc": auroc([p for _, p in answers], right),
        }
    return out


def texts() -> Iterator[tuple[str, list[Case], HybridRetriever]]:
    """Yield the made-up texts with their questions."""
    for text in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")):
        passages = [p for name, body in text["files"].items() for p in chunk_document(Document(name, body))]
        asked = [*text["answerable"].items(), *((question, "") for question in text["unanswerable"])]
        cases = [
            Case(question, (held,) if held else (), tuple(passages), "answerable" if held else "adversarial")
            for question, held in asked
        ]
        yield text["name"], cases, HybridRetriever(passages)


# --- fitting ---------------------------------------------------------------------------------------------------------


def chains_of(cases: Sequence[Case], reader: ExtractiveReader, retriever: Any) -> Iterator[tuple[list[float], bool]]:
    """Yield log-odds of the first step and of the rest, and whether it is titled, of each chain; and if it is right."""
    for case in track([c for c in cases if first_steps(c.question)], "chains", transient=True):
        resources = flows.Resources(retriever=retriever or Own(case.passages), reader=reader)
        chain = flows.run(
            answer_in_steps(case.question, case.passages, READ, QuestionRun(SelfReflectSettings())), resources
        ).chain
        if chain is None or any(step.reading.probability is None for step in chain.result.steps):
            continue
        *before, last = (step.reading.probability for step in chain.result.steps)
        quote = chain.result.readings[0].quote
        first = float(np.prod(before))
        named = chain.result.steps[-2].reading.short_answer
        title = next(p.title for p in chain.passages if p.id == quote.passage_id)
        titled = named is not None and holds_name(title, without_ending(named.text))
        yield [_log_odds(first), _log_odds(last or 0.0), float(titled)], contains_answer(quote.text, case.answers)


def _log_odds(p: float) -> float:
    p = min(max(p, 0.001), 0.999)
    return float(np.log(p / (1 - p)))


def fit(world: World, reader: ExtractiveReader, data: Path) -> dict[str, float]:
    """Fit the probability that a chain is right by maximum likelihood, with a weak prior of slopes of 1."""
    from scipy.optimize import minimize

    own = sets.hops(data, "fit")
    searched = SETS["musique"](world)
    rows = [*chains_of(own, reader, None), *chains_of(changed(own), reader, None)]
    rows += chains_of(searched, reader, world.wikipedia())
    x, y = np.array([figures for figures, _ in rows]), np.array([right for _, right in rows], dtype=float)

    def chances(w: NDArray[np.float64]) -> NDArray[np.float64]:
        first = 1 / (1 + np.exp(-(w[0] + w[1] * x[:, 0] + w[2] * x[:, 2])))
        rest: NDArray[np.float64] = 1 / (1 + np.exp(-(w[3] + w[4] * x[:, 1])))
        return first * rest

    def loss(w: NDArray[np.float64]) -> float:
        p = np.clip(chances(w), 1e-9, 1 - 1e-9)
        prior = (w[1] - 1) ** 2 + (w[4] - 1) ** 2 + 0.3 * w[2] ** 2
        return float(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean() + 0.006 * prior)

    found = minimize(loss, np.array([0.0, 1.0, 0.0, 0.0, 1.0]), method="BFGS").x
    names = ("first_intercept", "first_slope", "titled", "rest_intercept", "rest_slope")
    return {"chains": len(rows), "right": float(y.mean()), **dict(zip(names, map(float, found)))}


# --- the run ---------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> dict[str, float]:
    """Measure or fit, and print."""
    reader, console = ExtractiveReader(cache_passages=4096), Console()
    out: dict[str, float] = {}
    if options.data.is_dir():
        world = World(options.data, embedder := CachedEmbedder(options.cache), "report")
        if options.fit:
            out = fit(world, reader, options.data)
            console.print(out)
            return out
        own = sets.hops(options.data, "report")
        for name, cases in (("twowiki", own), ("twowiki_changed", changed(own))):
            out |= _show(name, figures_of(ask(cases, reader, None, name)), console)
        for name in ("hotpotqa", "musique"):
            out |= _show(name, figures_of(ask(SETS[name](world), reader, world.wikipedia(), name)), console)
        embedder.save()
    for name, cases, retriever in texts():
        out |= _show(name, figures_of(ask(cases, reader, retriever, name)), console)
    return out


def _show(name: str, figures: dict[str, float], console: Console) -> dict[str, float]:
    console.print(name, {key: round(value, 3) for key, value in figures.items()})
    return {f"{name}_{key}": value for key, value in figures.items()}


def main() -> None:
    """Run as a command."""
    parser = command_line(__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the probability of a chain instead")
    parser.add_argument("--cache", type=Path, help="file to keep vectors in")
    options = parser.parse_args()
    write_figures(run(options), options.json)


if __name__ == "__main__":
    main()
