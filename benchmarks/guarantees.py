"""Test the guarantees over random splits: are the promises kept on questions that they were not fitted on?

    python benchmarks/guarantees.py [--model NAME] [--only KIND …] [--each N] [--splits N] [--keep FILE] [--json FILE]

Every question is answered once by `composed`, its second reading included, as `selfreflect calibrate guarantee` has it
answered; every claim is scored and judged by the accepted answers. Then half of the answers at random fit each kind of
guarantee, and the other half tests it, `--splits` times, at target accuracies of 0.5 and 0.7 with α = 0.1:

`conformal_factuality`: share of test answers whose shown claims are right to the target accuracy; promised 1 - α.
`conformal_risk_control`: mean share of false claims among those shown; promised at most 1 - target.
`learn_then_test`: share of splits in which that mean is at most 1 - target; promised 1 - α.

Without `--model` the simulated models of benchmarks/models.py answer (`--only`). `--keep` logs judged answers, so that
a slow model is asked once.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import models
from shared_core.calibration.guarantees import GUARANTEES, FittedGuarantee, fit_guarantee
from shared_core.errors import CalibrationError
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import LanguageModel
from shared_core.reading.extractive import ExtractiveReader
from shared_core.settings import SelfReflectSettings

ALPHA, TARGETS, BATCH = 0.1, (0.5, 0.7), 16
Judged = list[tuple[float | None, bool]]
"""Score and label of each claim of an answer."""


def judged_answers(name: str, lm: LanguageModel, cases: Sequence[models.Case], keep: Path | None) -> list[Judged]:
    """Answer each question once, or read what was kept."""
    known: dict[str, Judged] = {}
    if keep and keep.exists():
        rows = map(json.loads, keep.read_text("utf-8").splitlines())
        known = {r["question"]: [(s, bool(y)) for s, y in r["claims"]] for r in rows if r["model"] == name}
    settings = SelfReflectSettings(top_k=5, candidates=models.TOP_K, compete=False, deadline=None)
    reader = ExtractiveReader(cache_passages=4096)
    engine = SelfReflectEngine(models.Retrieved(cases), lm, settings, reader=reader)
    new = [c for c in cases if c.question not in known]
    for i in track(range(0, len(new), BATCH), name, transient=True):
        batch = new[i : i + BATCH]
        for case, answer in zip(batch, engine.answer_many([c.question for c in batch]), strict=True):
            if isinstance(answer, Exception):
                raise answer
            scores = answer.metadata["claim_scores"]
            known[case.question] = [
                (score, contains_answer(claim.text, case.answers))
                for score, claim in zip(scores, answer.claims, strict=True)
            ]
            if keep:
                with keep.open("a", encoding="utf-8") as out:
                    row = {"model": name, "question": case.question, "claims": known[case.question]}
                    out.write(json.dumps(row) + "\n")
    return [known[c.question] for c in cases]


def fit_half(kind: Any, answers: Sequence[Judged], target: float) -> FittedGuarantee:
    scores = [[s for s, _ in answer] for answer in answers]
    labels = [[y for _, y in answer] for answer in answers]
    return fit_guarantee(kind, scores, labels, target_accuracy=target, alpha=ALPHA)


def false_shares(made: FittedGuarantee, answers: Sequence[Judged]) -> list[float]:
    """Return of each answer the share of false claims among those shown; 0 where nothing is."""
    out = []
    for answer in answers:
        shown = [right for score, right in answer if score is not None and score > made.bar]
        out.append(shown.count(False) / len(shown) if shown else 0.0)
    return out


def split_once(kind: str, answers: Sequence[Judged], target: float, rng: random.Random) -> tuple[float, bool]:
    """Return the figure of the promise on the half that was not fitted on, and whether nothing was shown there."""
    order = rng.sample(range(len(answers)), len(answers))
    half = len(answers) // 2
    made = fit_half(kind, [answers[i] for i in order[:half]], target)
    shares = false_shares(made, [answers[i] for i in order[half:]])
    mean = statistics.fmean(shares)
    slack = 1e-9
    if kind == "conformal_factuality":
        return statistics.fmean(s <= 1 - target + slack for s in shares), made.vacuous
    return (mean if kind == "conformal_risk_control" else float(mean <= 1 - target + slack)), made.vacuous


def run(options: argparse.Namespace) -> dict[str, float]:
    cases = [
        *models.squad(options.data, options.each, options.part),
        *models.natural_questions(options.data, options.each),
    ]
    options.real = len(cases)
    table = Table(title=f"{options.splits} splits of {len(cases)} questions, α = {ALPHA}", title_justify="left")
    for column in ("model", "target", "promise", "asked", "found", "nothing shown"):
        table.add_column(column, justify="left" if column in ("model", "promise") else "right")
    out: dict[str, float] = {}
    for name, lm, some in models.models_of(options, cases):
        answers = judged_answers(name, lm, some, options.keep)
        for target in TARGETS:
            for kind in GUARANTEES:
                rng = random.Random(1)
                try:
                    found = [split_once(kind, answers, target, rng) for _ in range(options.splits)]
                except CalibrationError as error:
                    table.add_row(name, str(target), kind, "", error.message, "")
                    continue
                figure = statistics.fmean(f for f, _ in found)
                asked = f"≤ {1 - target:.2f}" if kind == "conformal_risk_control" else f"≥ {1 - ALPHA:.2f}"
                vacuous = statistics.fmean(v for _, v in found)
                table.add_row(name, str(target), kind, asked, f"{figure:.3f}", f"{vacuous:.2f}")
                out[f"{kind}_{target}_{name}"] = figure
    Console().print(table)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", action="append", default=[], help="a released model: smollm2, a path, a GGUF file")
    parser.add_argument("--only", nargs="*", choices=sorted(models.KINDS), help="simulated models to run")
    parser.add_argument("--each", type=int, default=100, help="questions of each of the two sets")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--part", default="tune", choices=("tune", "test"), help="part of SQuAD 2.0")
    parser.add_argument("--keep", type=Path, help="file to log judged answers in, and to read them from")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--data", type=Path, default=models.ROOT / "../shared/data", help="folder of the data")
    models.run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
