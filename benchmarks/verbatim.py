"""Count the verbatim quotes that ReClaim writes behind a server's grammar, over real questions.

    python benchmarks/verbatim.py --base-url URL [--questions N] [--json FILE]
    python benchmarks/verbatim.py --model smollm2

Questions are SQuAD 2.0's tuning part, passages BM25's best five. `verbatim`: share of the quotes cited, shown or not,
that are in their passage character by character, at the place given; `quoted`: share of the questions with any. A
model that takes no grammar is refused: its quotes are looked up in the passages, and then verbatim by construction.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line
from benchmarks.models import Retrieved, run_and_write, squad
from shared_core.cli.common import build_model
from shared_core.facades.engine import SelfReflectEngine
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer


def verbatim_quotes(answer: Answer) -> list[bool]:
    """Return for each quote of an answer's claims whether it stands where it says."""
    passages = {p.id: p.text for p in answer.passages}
    spans = [s for claim in answer.claims for citation in claim.citations for s in citation.spans]
    return [passages[s.passage_id][s.start : s.end] == s.text for s in spans]


def run(options: argparse.Namespace) -> dict[str, float]:
    cases = squad(options.data, options.questions, "tune")
    lm = build_model(options.model, options.base_url)
    if lm is None or not lm.capabilities.grammar:
        sys.exit("Name a model or a server (--model, --base-url) that takes grammars.")
    # The embedded default's quotes would be verbatim whatever the model wrote.
    settings = SelfReflectSettings(pipeline="reclaim", top_k=5, compete=False, deadline=None)
    engine = SelfReflectEngine(Retrieved(cases), lm, settings)
    found: list[list[bool]] = []
    with contextlib.suppress(KeyboardInterrupt):  # what was asked until then counts
        for case in track(cases, "asking", transient=True):
            found.append(verbatim_quotes(engine.answer(case.question)))
    held = [verbatim for quotes in found for verbatim in quotes]
    asked = max(len(found), 1)
    out = {"questions": float(len(found)), "quotes": float(len(held)), "verbatim": sum(held) / max(len(held), 1)}
    out["quoted"] = sum(map(bool, found)) / asked
    Console().print(out)
    return out


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--model", help="smollm2, a path, or the name on the server")
    parser.add_argument("--base-url", help="OpenAI-compatible server")
    parser.add_argument("--questions", type=int, default=50)
    run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
