"""Check answers written elsewhere, without a language model: do the pages they cite support their claims?

    python benchmarks/check.py [--quick] [--changed] [--json FILE] [--data DIR]

`auroc_check`: the confidence of `SelfReflectChecker` against human labels on `attribution_tune` (part of
AttributionBench: claims of search engines with the pages they cite, from one sentence to a whole page). The baseline
`auroc_overlap` is the share of the claim's words found in those pages. `precision_0.5`: share of the accepted claims
that are supported; `coverage_0.5`: share of the claims that are accepted. `auroc_contradicted`: `refuted` separates
the claims that Factcheck-GPT's evidence refutes from other unsupported ones. `unknown`: share of claims that could not
be judged. `ms_per_claim`: CPU time. Reliability and risk-coverage plots are drawn next to the JSON file.

`--changed` adds sentences of Wikipedia (500 of each kind; `benchmarks/changed_claims.py`), each changed in one fact
and checked against its own passage. `caught_KIND`: share of the changed sentences that are found unsupported;
`true_kept`: share of the unchanged ones that are found supported.

`--quick` takes 60 rows of each data set. The data are not part of the project (see README).
"""

from __future__ import annotations

import gzip
import math
import random
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, show_figures, write_figures
from benchmarks.changed_claims import changed_claims
from benchmarks.critic import overlap, texts_of
from benchmarks.reader.data import read_lines
from shared_core.evaluation.metrics.confidence import auroc, expected_calibration_error
from shared_core.evaluation.plots import reliability, risk_coverage
from shared_core.facades.checker import SelfReflectChecker
from shared_core.types import Answer

QUICK = 60
BATCH = 8


def check_all(answers: Sequence[str], evidence: Sequence[Sequence[str]], label: str) -> tuple[list[Answer], float]:
    """Check every answer against its own evidence. Returns the results and the CPU seconds."""
    checker = SelfReflectChecker()
    checked: list[Answer] = []
    start = time.process_time()
    for i in track(range(0, len(answers), BATCH), label, transient=True):
        for found in checker.check_many(answers[i : i + BATCH], passages=evidence[i : i + BATCH]):
            if isinstance(found, Exception):
                raise found
            checked.append(found)
    return checked, time.process_time() - start


def attribution_figures(path: Path, limit: int | None, plots: Path | None) -> dict[str, float]:
    rows = _some(list(read_lines(path)), limit)
    claims, labels = [r["claim"] for r in rows], [bool(r["supported"]) for r in rows]
    evidence = [texts_of(r["references"]) for r in rows]
    checked, seconds = check_all(claims, evidence, "attribution_tune")
    confidence = [a.confidence if a.confidence is not None else 0.0 for a in checked]
    passing = [bool(a.metadata["passing"]) for a in checked]
    n = sum(len(a.claims) for a in checked)
    if plots is not None:
        reliability({"": (confidence, labels)}, plots / "check_reliability.png")
        risk_coverage({"": (confidence, labels)}, plots / "check_risk_coverage.png")
    return {
        "auroc_check": auroc(confidence, labels),
        "auroc_overlap": auroc(overlap([(" ".join(e), c) for c, e in zip(claims, evidence, strict=True)]), labels),
        "precision_0.5": float(np.mean([y for y, p in zip(labels, passing) if p])) if any(passing) else math.nan,
        "coverage_0.5": float(np.mean(passing)),
        "calibration_error": expected_calibration_error(confidence, labels),
        "unknown": sum(c.verdict == "unknown" for a in checked for c in a.claims) / n,
        "claims": float(n),
        "ms_per_claim": 1000 * seconds / n,
    }


def contradiction_figures(path: Path, limit: int | None) -> dict[str, float]:
    rows = [
        r for r in read_lines(path) if r["source"] == "factcheck_gpt" and r["label"] in ("refuted", "not_supported")
    ]
    refuted = [r for r in rows if r["label"] == "refuted"]
    rows = [*refuted, *random.Random(0).sample([r for r in rows if r not in refuted], 3 * len(refuted))]
    rows = _some(rows, limit)
    checked, _ = check_all([r["hypothesis"] for r in rows], [[r["premise"]] for r in rows], "factcheck_gpt")
    said = [max((c.signals.refuted or 0.0 for c in a.claims), default=0.0) for a in checked]
    return {"auroc_contradicted": auroc(said, [r["label"] == "refuted" for r in rows])}


def changed_figures(data: Path, each: int) -> dict[str, float]:
    """Return the share of changed claims that are caught, by kind, and of unchanged claims that are kept."""
    rows = changed_claims(wikipedia_paragraphs(data), each)
    true = random.Random(0).sample(rows, min(each, len(rows)))
    checked, _ = check_all([r.claim for r in rows], [[r.evidence] for r in rows], "changed claims")
    kept, _ = check_all([r.true for r in true], [[r.evidence] for r in true], "true claims")
    out = {
        f"caught_{kind}": float(np.mean([not a.metadata["passing"] for a, r in zip(checked, rows) if r.kind == kind]))
        for kind in dict.fromkeys(r.kind for r in rows)
    }
    return out | {"true_kept": float(np.mean([bool(a.metadata["passing"]) for a in kept]))}


def wikipedia_paragraphs(data: Path, files: slice = slice(6)) -> list[str]:
    """Read paragraphs of 300 to 1,500 characters from some files of the plain-text Wikipedia articles."""
    found: list[str] = []
    for path in sorted((data / "text").glob("*.gz"))[files]:
        articles = re.findall(r"<doc[^>]*>\n(.*?)</doc>", gzip.decompress(path.read_bytes()).decode("utf-8"), re.DOTALL)
        found += [p for a in articles for p in a.split("\n")[1:] if 300 < len(p) < 1500]
    return found


def _some(rows: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    return rows if limit is None or limit >= len(rows) else random.Random(0).sample(rows, limit)


def main() -> None:
    parser = command_line(__doc__, quick=f"{QUICK} rows of each set")
    parser.add_argument("--changed", action="store_true", help="also claims that are changed in one fact")
    options = parser.parse_args()
    limit, console = QUICK if options.quick else None, Console()
    plots = options.json.resolve().parent if options.json else None
    out: dict[str, float] = {}
    attribution, support = options.data / "ood/attribution_tune.jsonl.gz", options.data / "support/test.jsonl.gz"
    if attribution.exists():
        out |= attribution_figures(attribution, limit, plots)
    if support.exists():
        out |= contradiction_figures(support, limit)
    if options.changed:
        out |= changed_figures(options.data, QUICK if options.quick else 500)
    for path in (attribution, support):
        if not path.exists():
            console.print(f"skipped: there is no {path} (--data names the folder; see README)")
    if out:
        show_figures(out, "Checking without a model")
    write_figures(out, options.json)


if __name__ == "__main__":
    main()
