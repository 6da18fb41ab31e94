"""Fit the stack for language models in general, and judge it by leaving each kind of model out.

    python benchmarks/model_stack.py --collect ROWS [--model NAME] [--each N]     # once for each model, appended
    python benchmarks/model_stack.py --fit ROWS [--write]

Collecting asks `composed` training questions (SQuAD 2.0's training part; Natural Questions) with simulated models of
six kinds (benchmarks/models.py) or a released one (`--model smollm2`), and writes down each claim's signals, whether it
holds a right answer, and how the model's reply went with the reader's best quote. Fitting weights each kind of model
alike. Weights have the sign that their signal's meaning demands. The figures of a kind come from a stack fitted without
it: the area under the ROC curve, the Brier score, and right minus wrong claims shown a question at a target accuracy of
0.5, beside those of the lowest signal. `--write` puts the stack of all kinds into the package.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import ROOT, models
from shared_core.calibration.held_out import auroc
from shared_core.calibration.stack import Stack, fit_weights, log_odds_of
from shared_core.citation.facts import compare_claim
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import LanguageModel
from shared_core.pipelines import competing, confidence
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.reading.extractive import ExtractiveReader
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer

TARGET = ROOT / "shared_core/calibration/models_in_general.json"
KINDS = ("strong", "paraphrasing", "bold", "liar", "digits", "foreign")
NAMES = ("sufficient", "seconded", "rival", "trusted", "named")
SIGNS = tuple(-1 if name == "rival" else 1 for name in NAMES)
BAR = 0.5
BATCH = 16


# --- collecting ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Recorded:
    """The model's claims and the reader's best quote for one question."""

    claims: Sequence[Any] = ()
    beside: Any = None
    named: float | None = None


@contextlib.contextmanager
def recording() -> Iterator[dict[str, Recorded]]:
    """Record what competes, by question."""
    found: dict[str, Recorded] = defaultdict(Recorded)
    part, rivals = vars(confidence), vars(competing)
    compete, compare = part["compete"], rivals["compare"]

    def recorded_compete(question: str, claims: Any, readings: Any, passages: Any, run: Any) -> Any:
        found[question].claims = claims
        return (yield from compete(question, claims, readings, passages, run))

    def recorded_compare(question: str, claims: Any, readings: Any, passages: Any, run: Any) -> Any:
        beside = compare(question, claims, readings, passages, run)
        if beside is not None:
            found[question].beside = beside
            found[question].named = competing.named(question, beside.own[0], passages)
        return beside

    part["compete"], rivals["compare"] = recorded_compete, recorded_compare
    try:
        yield found
    finally:
        part["compete"], rivals["compare"] = compete, compare


def collect(kind: str, lm: LanguageModel, cases: Sequence[models.Case], reader: ExtractiveReader, file: Path) -> None:
    """Append one row a question to ``file``: what the model claimed, and what it was compared with."""
    settings = SelfReflectSettings(top_k=5, candidates=models.TOP_K, deadline=None)
    engine = SelfReflectEngine(models.Retrieved(cases), lm, settings, reader=reader)
    batches = [cases[i : i + BATCH] for i in range(0, len(cases), BATCH)]
    with file.open("a", encoding="utf-8") as out, recording() as recorded:
        for batch in track(batches, kind, transient=True):
            for case, answer in zip(batch, engine.answer_many([c.question for c in batch]), strict=True):
                if isinstance(answer, Exception):  # a model that fails on one question
                    Console().print(f"{kind}: {answer}")
                    continue
                out.write(json.dumps(_question_row(kind, case, answer, recorded[case.question])) + "\n")
            out.flush()


def _question_row(kind: str, case: models.Case, answer: Answer, recorded: Recorded) -> dict[str, Any]:
    beside = recorded.beside
    best = beside.own[0].text if beside else None
    return {
        "kind": kind,
        "question": case.question,
        "reader": beside.probability if beside else None,
        "reply": beside.reply if beside else None,
        "reader_says": best,
        "reader_right": None if best is None else contains_answer(best, case.answers),
        "reader_named": recorded.named,
        "shown": None if answer.abstained else answer.text,
        "shown_right": None if answer.abstained else contains_answer(answer.text, case.answers),
        "claims": [_claim_row(c, case) for c in recorded.claims if c.citations],
    }


def _claim_row(claim: Any, case: models.Case) -> dict[str, Any]:
    return {
        "text": claim.text,
        "quote": " ".join(c.quote for c in claim.citations),
        "signals": dataclasses.asdict(claim.signals),
        "right": contains_answer(claim.text, case.answers),
    }


# --- fitting -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """A claim: (2 · signals,) figures, whether it is right, the most that it may be given, and its lowest signal."""

    figures: list[float]
    right: bool
    most: float
    lowest: float


def read_rows(file: Path) -> tuple[dict[str, list[Row]], dict[str, int]]:
    """Read collected rows by kind of model, trust replayed in their order; and the number of questions of each."""
    trusts: dict[str, ModelTrust] = defaultdict(ModelTrust)
    found: dict[str, list[Row]] = defaultdict(list)
    asked: dict[str, int] = defaultdict(int)
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        kind, trust, p = row["kind"], trusts[row["kind"]], row["reader"]
        asked[kind] += 1
        if p is None:
            continue
        found[kind].extend(
            _row(c, row["question"], trust.competent(), trust.posterior(p, row["reply"])) for c in row["claims"]
        )
        trust.observe(p, row["reply"], row["question"])
    return found, asked


def _row(claim: dict[str, Any], question: str, trusted: float, together: float) -> Row:
    signals = dict(claim["signals"])
    agrees = signals["seconded"] is not None
    signals |= {"trusted": trusted, "seconded": together if agrees else None, "rival": None if agrees else together}
    entailed = signals["entailed"] or 0.0
    of_answer = signals["quoted"] if signals["quoted"] is not None else signals["answers"]
    facts = compare_claim(claim["text"], claim["quote"], question)
    return Row(
        log_odds_of([signals[name] for name in NAMES]),
        claim["right"],
        facts.cap(min(entailed, together) if agrees else entailed),
        facts.cap(min(entailed, of_answer if of_answer is not None else 0.0)),
    )


def fit(by_kind: dict[str, list[Row]]) -> np.ndarray:
    """Fit (2 · signals + 1,) weights and intercept, each kind of model weighing as much as any other."""
    rows = [r for some in by_kind.values() for r in some]
    x, y = np.array([r.figures for r in rows]), np.array([r.right for r in rows])
    share = np.concatenate([np.full(len(some), 1 / len(some)) for some in by_kind.values() if some])
    share *= len(rows) / share.sum()

    bounds = [(0, None) if sign > 0 else (None, 0) for sign in SIGNS] + [(None, None)] * len(NAMES)
    weights, intercept = fit_weights(x, y, bounds=bounds, shares=share)
    return np.append(weights, intercept)


def predict(weights: np.ndarray, rows: Sequence[Row]) -> np.ndarray:
    x = np.array([r.figures for r in rows])
    p: np.ndarray = np.minimum(1 / (1 + np.exp(-(x @ weights[:-1] + weights[-1]))), [r.most for r in rows])
    return p


def _worth(p: Iterator[float] | np.ndarray, rows: Sequence[Row], questions: int) -> float:
    return sum((1 if r.right else -1) for value, r in zip(p, rows, strict=True) if value > BAR) / questions


def report(by_kind: dict[str, list[Row]], asked: dict[str, int]) -> None:
    table = Table(title="Each kind of model by a stack fitted without it", title_justify="left")
    for column in ("kind", "claims", "right", "AUROC", "Brier", "worth", "worth by lowest signal"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for kind, rows in by_kind.items():
        p = predict(fit({k: v for k, v in by_kind.items() if k != kind}), rows)
        y = np.array([r.right for r in rows], float)
        area = f"{auroc(p, y):.3f}" if 0 < y.sum() < len(y) else "-"
        lowest = _worth((r.lowest for r in rows), rows, asked[kind])
        cells = (
            len(rows),
            f"{y.mean():.2f}",
            area,
            f"{np.mean((p - y) ** 2):.3f}",
            f"{_worth(p, rows, asked[kind]):.3f}",
        )
        table.add_row(kind, *map(str, cells), f"{lowest:.3f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--collect", type=Path, help="file to append rows to")
    parser.add_argument("--fit", type=Path, help="file with rows")
    parser.add_argument("--write", action="store_true", help="put the stack into the package")
    parser.add_argument("--model", help="a released model, in place of the simulated ones")
    parser.add_argument("--each", type=int, default=75, help="questions of each of the two sets")
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data", help="folder of the development data")
    options = parser.parse_args()
    if options.collect:
        cases = [
            *models.squad(options.data, options.each, "train"),
            *models.natural_questions(options.data, options.each, 11),
        ]
        random.Random(11).shuffle(cases)
        reader = ExtractiveReader(cache_passages=8192)
        if options.model:
            from shared_core.cli.common import build_model

            lm = build_model(options.model, None)
            assert lm is not None
            collect(Path(options.model).stem, lm, cases, reader, options.collect)
        for kind in () if options.model else KINDS:
            collect(kind, models.Simulated(kind, cases).model(), cases, reader, options.collect)
    if options.fit:
        by_kind, asked = read_rows(options.fit)
        report(by_kind, asked)
        if options.write:
            weights, rows = fit(by_kind), [r for some in by_kind.values() for r in some]
            n = len(NAMES)
            known = {"kinds": ", ".join(by_kind)}
            stack = Stack(
                NAMES,
                tuple(round(float(w), 4) for w in weights[:n]),
                tuple(round(float(w), 4) for w in weights[n:-1]),
                round(float(weights[-1]), 4),
                known,
                len(rows),
                sum(r.right for r in rows),
            )
            TARGET.write_text(json.dumps(stack.to_dict(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
