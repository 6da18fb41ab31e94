"""Ask the embedded default 900 questions on 90 made-up everyday documents, 540 of which they answer only nearly.

    python benchmarks/small_documents.py [--part fit|test] [--json FILE]

The documents (`small_documents.jsonl`: rules, contracts, manuals, letters, programmes, leaflets, changelogs, …) were
written for this project, with four questions that each answers and six that it does not, though a sentence looks like
it: another day, person or thing, the opposite end, planned for done. Each document is asked by itself. `part` says
which may be fitted on; the others are kept aside.

At the usual target accuracy of .5, `right`: answerable questions whose first quote is shown and is the sentence that
answers; `other`: those with another quote; `near`: unanswerable ones that are answered; as shares. `right_0.9`,
`near_0.9`: those whose confidence is above .9. `auroc`: of the first quote's confidence, for whether it is right, over
all questions.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from shared_core.calibration.held_out import auroc
from shared_core.documents import chunk_document, load_document
from shared_core.facades.engine import SelfReflectEngine
from shared_core.retrieval import HybridRetriever


class Outcome(NamedTuple):
    """Outcome of a question: the document answers it, the first quote is right, it is shown, its confidence."""

    answerable: bool
    right: bool
    shown: bool
    confidence: float


def outcomes(part: str) -> Iterator[Outcome]:
    """Yield what comes of each question of a part."""
    lines = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    for line in track([line for line in map(json.loads, lines) if line["part"] == part], "asking", transient=True):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "document.md"
            file.write_text(f"# {line['title']}\n\n{line['text']}\n", encoding="utf-8")
            engine = SelfReflectEngine(HybridRetriever(chunk_document(load_document(file))))
        for asked in line["questions"]:
            answer = engine.answer(asked["question"])
            quote, confidence = (answer.claims[0].text, answer.claims[0].support) if answer.claims else ("", None)
            wanted = _plain(asked.get("answer", ""))
            right = bool(wanted and _plain(quote)) and (wanted in _plain(quote) or _plain(quote) in wanted)
            yield Outcome(bool(wanted), right, not answer.abstained, confidence or 0.0)


def _plain(text: str) -> str:
    """Return a text without the marks of tables and emphasis, which rows lose when they are read."""
    return " ".join(text.replace("|", " ").replace("*", " ").split())


def run(part: str) -> dict[str, float]:
    found = [*outcomes(part)]
    held = [o for o in found if o.answerable]
    lacking = [o for o in found if not o.answerable]
    out = {
        "right": sum(o.shown and o.right for o in held) / len(held),
        "other": sum(o.shown and not o.right for o in held) / len(held),
        "near": sum(o.shown for o in lacking) / len(lacking),
        "auroc": auroc(np.array([o.confidence for o in found]), np.array([o.right for o in found], float)),
    }
    for target in (0.7, 0.8, 0.9):
        out |= {
            f"right_{target}": sum(o.right and o.confidence > target for o in held) / len(held),
            f"near_{target}": sum(o.confidence > target for o in lacking) / len(lacking),
        }
    Console().print(f"{part}: {len(held)} answerable, {len(lacking)} nearly answered", out)
    return out


def main() -> None:
    parser = command_line(__doc__, data=False)
    parser.add_argument("--part", choices=["fit", "test"], default="test")
    options = parser.parse_args()
    write_figures(run(options.part), options.json)


if __name__ == "__main__":
    main()
