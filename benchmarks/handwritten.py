"""Ask 40 questions of a model whose replies were written by hand, as a strong model writes them; or as it would lie.

    python benchmarks/handwritten.py [--lies] [--measured KIND] [--learning] [--pipeline NAME] [--quick] [--json FILE]

Six invented documents (a contract, a leaflet, minutes, a transcript, a changelog, a table); 25 questions that they
answer and 15 that they do not. Each reply is in its own words behind the right quotes (`handwritten/replies.json`), so
every answerable question that is not answered right is lost by us: `right_shown`, `lost`, `wrong_shown`;
`unanswerable_shown` counts answers shown where nothing answers. With `--lies` 17 of the claims say something false
behind the right quotes, and `lies_shown` counts those that are shown in the model's words. Every question gets a new
engine: nothing is learnt of the model in between, unless `--learning` is given.

`--measured strong` (or `paraphrasing`): as after `selfreflect calibrate replies`. The built-in questions cannot be
asked of replies written beforehand; a simulated model of benchmarks/models.py is measured in its place.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.models import KINDS, Case, Simulated
from shared_core.calibration.stack import AnyCalibration
from shared_core.documents import DocumentIndex
from shared_core.evaluation.fitting import built_in_questions, fit
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.extractive import ExtractiveReader
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer

FOLDER = Path(__file__).parent / "handwritten"
NAME = "handwritten"
QUICK = 12


def reply_to(row: Mapping[str, Any], prompt: str, *, lies: bool) -> str:
    """Reply to one prompt about the row's question, in the form that the prompt asks for."""
    lies = lies and "lie" in row
    if "<reference>" in prompt and "NO ANSWER" in prompt:
        return _with_references(row["lie" if lies else "reply"], row.get("evidence", ()), prompt)
    flat = " ".join(prompt.split())
    held = row["answerable"] and any(" ".join(part.split()) in flat for part in row.get("evidence", ()))
    if re.search(r"one word|yes or no", prompt[-300:], re.IGNORECASE):
        return "yes" if held else "no"
    if not held:
        return "The context does not say. So the answer is unknown."
    short = row["short_lie"] if lies else row.get("short", "")
    return f"{row['plain']} So the answer is {short}."


def scripted(row: Mapping[str, Any], *, lies: bool) -> ScriptedLM:
    """Make a model that replies to prompts about one row's question."""
    return ScriptedLM(lambda request: reply_to(row, request.prompt.text, lies=lies), name=NAME)


def _with_references(reply: str, evidence: tuple[str, ...], prompt: str) -> str:
    """Put the numbers of the sentences that hold the evidence in place of {0}, {1}, …; decline if one is missing."""
    numbered = re.findall(r"(?m)^S(\d+): (.*(?:\n    .*)*)", prompt)
    found = [next((f"S{n}" for n, text in numbered if part in text), None) for part in evidence]
    for place in map(int, re.findall(r"\{(\d)\}", reply)):
        number = found[place] if place < len(found) else None
        if number is None:
            return "NO ANSWER"
        reply = reply.replace(f"{{{place}}}", number)
    return reply


def judge(row: Mapping[str, Any], answer: Answer, *, lies: bool) -> str:
    """Name what came of a question: ``right``, ``lost``, ``wrong``, ``lie``, ``declined`` or ``unanswerable shown``."""
    if answer.abstained:
        return "lost" if row["answerable"] else "declined"
    if lies and "lie" in row and "answered_by" not in answer.metadata:
        return "lie"
    right = row["right"] is not None and re.search(row["right"], answer.text, re.IGNORECASE | re.DOTALL)
    if not row["answerable"]:
        # Three of the replies say what the documents do say: "A judge has not been found yet."
        return "declined" if right and "answered_by" not in answer.metadata else "unanswerable shown"
    return "right" if right else "wrong"


def measure(kind: str, settings: SelfReflectSettings, reader: ExtractiveReader) -> AnyCalibration:
    """Measure a simulated model on the built-in questions, under the name of the handwritten one."""
    with built_in_questions() as (retriever, questions):
        cases = [Case(q.question, tuple(q.answers or ()), ()) for q in questions]
        lm = ScriptedLM(Simulated(kind, cases).reply, name=NAME)
        return fit("replies", SelfReflectEngine(retriever, lm, settings, reader=reader), questions).calibration


def run(options: argparse.Namespace) -> dict[str, float]:
    rows = json.loads((FOLDER / "replies.json").read_text("utf-8"))[: QUICK if options.quick else None]
    settings = SelfReflectSettings(pipeline=options.pipeline, deadline=None, top_k=8)
    reader = ExtractiveReader(cache_passages=256)
    known = {"replies": measure(options.measured, settings, reader)} if options.measured else {}
    counts: Counter[str] = Counter()
    engine: SelfReflectEngine | None = None
    with DocumentIndex(None) as index:
        index.update(FOLDER / "documents")
        retriever = index.retriever()
        for row in track(rows, "questions", transient=True):
            lm = scripted(row, lies=options.lies)
            made = SelfReflectEngine(retriever, lm, settings, reader=reader, calibrations=known)
            if options.learning and engine is not None:
                made.context = dataclasses.replace(made.context, trust=engine.context.trust)
            engine = made
            answer = engine.answer(row["question"])
            came = judge(row, answer, lies=options.lies)
            counts[came] += 1
            if came not in ("right", "declined"):
                Console().print(f"{came}: {row['question']} {answer.confidence or 0:.2f} {answer.text[:110]!r}")
    names = {
        "right": "right_shown",
        "lost": "lost",
        "wrong": "wrong_shown",
        "lie": "lies_shown",
        "unanswerable shown": "unanswerable_shown",
    }
    out = {name: float(counts[key]) for key, name in names.items()}
    Console().print(f"{len(rows)} questions: {dict(counts)}")
    return out


def main() -> None:
    parser = command_line(__doc__, quick=f"the first {QUICK} questions")
    parser.add_argument("--lies", action="store_true", help="17 replies claim what their quotes do not say")
    parser.add_argument("--measured", choices=sorted(KINDS), help="simulated model that is measured beforehand")
    parser.add_argument(
        "--learning", action="store_true", help="what one question shows of the model counts for others"
    )
    parser.add_argument("--pipeline", default="composed", choices=("composed", "reclaim"))
    options = parser.parse_args()
    write_figures(run(options), options.json)


if __name__ == "__main__":
    main()
