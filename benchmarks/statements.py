"""Check true and false statements on texts made up for it, and count what comparing facts refutes of labelled claims.

    python benchmarks/statements.py [--hard] [--data DIR] [--json FILE]

The statements (`statements.json`) change their text in plain words. `false_supported`, `true_supported`: how many the
check supports without a model. `reworded_right_kept`, `reworded_wrong_refused`, `reworded_auroc`: of 120 right and 147
wrong answers to questions (`reworded.json`), which say in other words what a text says, or nearly what it says. The
rules were mended after each text was looked at, so these figures flatter.
`--hard`: only statements on fourteen other texts (`hard_statements.json`), as a language model words them, true ones in
other words and false ones that are near: in the parts `test` and `fit`, of which the latter may be looked at.
`refuted_SOURCE_LABEL`: share of labelled claims (training parts, 400 of a kind) that `compare_claim` refutes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line
from benchmarks.models import run_and_write
from benchmarks.reader.data import read_lines
from shared_core.calibration.held_out import auroc
from shared_core.citation import compare_claim
from shared_core.facades.checker import SelfReflectChecker
from shared_core.types import Passage

EACH = 400


def statement_figures(name: str = "statements.json") -> dict[str, float]:
    """Count the true and false statements of a file that the check supports, by parts if its texts have one."""
    checker, out = SelfReflectChecker(), Counter[str]()
    for text in json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8")):
        part = f"{text['part']}_" if "part" in text else ""
        passage = Passage(text["title"], text["text"], text["title"])
        for kind in ("true", "false"):
            answers = [checker.check(statement, "", [passage]) for statement in text[kind]]
            out[f"{part}{kind}_statements"] += len(answers)
            out[f"{part}{kind}_supported"] += sum(any(c.status == "kept" for c in answer.claims) for answer in answers)
    return {name: float(count) for name, count in out.items()}


def reworded_figures() -> dict[str, float]:
    """Count the right answers that pass and the wrong ones that do not; measure how well supports tell them apart."""
    given = json.loads(Path(__file__).with_name("reworded.json").read_text(encoding="utf-8"))
    passages = {name: Passage(name, text["text"], text["title"]) for name, text in given["documents"].items()}
    checker, out = SelfReflectChecker(), Counter[str]()
    scores, right = [], []
    for row in track(given["claims"], "reworded answers", transient=True):
        checked = checker.check(row["claim"], row["question"], [passages[row["doc"]]])
        right.append(row["label"] == "right")
        # what states nothing to check, or cannot be judged, does not pass
        scores.append(min((c.support for c in checked.claims if c.support is not None), default=-1.0))
        passing = bool(checked.metadata["passing"])
        out["reworded_right_kept" if right[-1] else "reworded_wrong_refused"] += passing == right[-1]
    return {**out, "reworded_auroc": auroc(np.array(scores), np.array(right, float))}


def labelled_figures(data: Path) -> dict[str, float]:
    """Return the share of labelled claims that are refuted, by source and label."""
    kinds = defaultdict(list)
    for row in read_lines(data / "support/train.jsonl.gz"):
        kinds[f"{row['source']}_{row['label']}"].append(row)
    out = {}
    for kind, rows in sorted(kinds.items()):
        some = random.Random(0).sample(rows, min(EACH, len(rows)))
        refuted = [compare_claim(row["hypothesis"], row["premise"]).refuted for row in some]
        out[f"refuted_{kind}"] = sum(refuted) / len(refuted)
    return out


def run(options: argparse.Namespace) -> dict[str, float]:
    if options.hard:
        out = statement_figures("hard_statements.json")
    else:
        out = statement_figures() | reworded_figures() | labelled_figures(options.data)
    Console().print(out)
    return out


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--hard", action="store_true")
    run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
