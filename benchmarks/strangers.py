"""Measure answers with quotes on files that nobody prepared: manuals, by-laws, minutes, PDF, clubs' pages, price lists.

    python benchmarks/strangers.py --sources FOLDER [--part fit|report|seen] [--json FILE] [--kept FOLDER]

``strangers.jsonl`` has questions on public files, written from the files by someone who had not seen this project's
answers; two in five have no answer there, half of these because another value, name or option is near. Only those of
``references`` were written by someone who had seen answers about other manuals. The files
belong to others and are not part of the project: those of a set that FOLDER lacks are fetched with git as
``strangers_sources.json`` lists them. Nothing that ships was fitted on any. What is fitted anew may be on the sets of
``FIT`` (``python -m benchmarks.reader.files``), never on the others.

A first quote is right if it has the words of one of the question's answers; for a question without an answer every
quote is wrong. ``found``: questions with an answer of which one of the retrieved passages has it. ``shown``: quotes
with a confidence above ρ* = 0.5.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.rag import TARGETS, TOP_K, Answered, answer
from benchmarks.reader.sets import READ, Case
from shared_core.documents import DocumentIndex
from shared_core.errors import InputError
from shared_core.evaluation.metrics.confidence import accuracy_at, auroc, expected_calibration_error
from shared_core.evaluation.runner import mean_of
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import HybridRetriever
from shared_core.settings import SelfReflectSettings

FILE = Path(__file__).with_suffix(".jsonl")
SOURCES = FILE.with_name("strangers_sources.json")
FIT = (
    *("imagemagick", "httpd", "employees", "bylaws", "community", "pdfs", "pinephone", "games"),
    *("clubs", "swimming", "restaurants", "parish", "library", "conference", "timetable", "sheets", "syllabus"),
)
"""Sets whose answers may be looked at, and that probabilities may be fitted on; the others are kept aside."""
SEEN = ("references",)
"""Sets whose answers were seen before their questions were written: neither fitted on nor kept aside."""
COUNTS = ("questions", "answerable", "right_shown", "wrong_shown", "unanswerable_shown")


@dataclass(frozen=True)
class Question:
    """A question on a set's files, and the strings of which a right quote has one; none: it has no answer there."""

    text: str
    answers: tuple[str, ...]

    def is_answered_by(self, text: str) -> bool:
        """Whether a text has one of the answers."""
        return any(_plain(answer) in _plain(text) for answer in self.answers)


def _plain(text: str) -> str:
    """Return a text's words, for comparing: " six files are kept"."""
    return " " + " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


def read_questions(file: Path = FILE) -> dict[str, list[Question]]:
    """Read the questions of every set."""
    sets: dict[str, list[Question]] = {}
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        sets.setdefault(row["set"], []).append(Question(row["question"], tuple(row["answers"])))
    return sets


def part_of(name: str) -> str:
    """Return the part that a set belongs to: fit, seen or report."""
    return "fit" if name in FIT else "seen" if name in SEEN else "report"


def fetch(name: str, folder: Path, server: str) -> None:
    """Fetch a set's files into ``folder/name``, unless that is there.

    Raises:
        InputError: git is missing or fails.
    """
    if (folder / name).exists():
        return
    with tempfile.TemporaryDirectory() as place:
        new = Path(place) / name
        for number, source in enumerate(json.loads(SOURCES.read_text("utf-8"))[name]):
            into, repository = new / source.get("into", ""), Path(place) / f"{number}.git"
            into.mkdir(parents=True, exist_ok=True)
            _git(
                "clone", "--quiet", "--bare", "--filter=blob:none", f"{server}/{source['repository']}", str(repository)
            )
            files = [f":(glob){file}" for file in source["files"]]
            _git(f"--git-dir={repository}", f"--work-tree={into}", "checkout", source["commit"], "--", *files)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(new, folder / name)


def _git(*arguments: str) -> None:
    try:
        # git would tidy up in the background, in a folder that is deleted meanwhile
        done = subprocess.run(["git", "-c", "maintenance.auto=false", *arguments], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise InputError("The files are fetched with git, which is not installed.") from error
    if done.returncode:
        raise InputError(f"git {' '.join(arguments[:5])} … failed: {done.stderr.strip()[-300:]}")


def index_files(folder: Path, kept: Path) -> HybridRetriever:
    """Index a set's files into ``kept``, or what has changed since, and return what searches them."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    index = DocumentIndex(kept)
    index.update(folder)
    return index.retriever()


def ask(questions: Sequence[Question], retriever: HybridRetriever, name: str) -> tuple[list[Case], list[Answered]]:
    """Ask all questions of one set as the engine does without a language model."""
    reader, settings = ExtractiveReader(cache_passages=8192), SelfReflectSettings(top_k=TOP_K, candidates=READ)
    cases = [
        Case(q.text, q.answers, tuple(retriever.retrieve(q.text, k=READ)), "answerable" if q.answers else "removed", ())
        for q in questions
    ]
    return cases, [answer(case, reader, settings) for case in track(cases, name, transient=True)]


@dataclass(frozen=True)
class Outcome:
    """Whether a question has an answer, a passage found has it, and the quote is right; how sure the quote is."""

    answerable: bool
    found: bool
    right: bool
    confidence: float


def outcomes(questions: Sequence[Question], cases: Sequence[Case], answered: Sequence[Answered]) -> list[Outcome]:
    """Compare first quotes with the answers."""
    return [
        Outcome(
            bool(q.answers),
            any(q.is_answered_by(p.text) for p in case.passages),
            q.is_answered_by(a.quote),
            a.confidence,
        )
        for q, case, a in zip(questions, cases, answered, strict=True)
    ]


def figures_of(rows: Sequence[Outcome]) -> dict[str, float]:
    """Return the figures of one set, or of several together."""
    confidence, right = [r.confidence for r in rows], [r.right for r in rows]
    held = [r for r in rows if r.answerable]
    shown = [r for r in rows if r.confidence > TARGETS[0]]
    out = {
        "questions": float(len(rows)),
        "answerable": float(len(held)),
        "found": mean_of([r.found for r in held]),
        "first_quote": mean_of([r.right for r in held]),
        "auroc_correct": auroc(confidence, right),
        "calibration_error": expected_calibration_error(confidence, right),
        "right_shown": float(sum(r.right for r in shown)),
        "wrong_shown": float(sum(not r.right and r.answerable for r in shown)),
        "unanswerable_shown": float(sum(not r.answerable for r in shown)),
    }
    for target in TARGETS:
        kept = accuracy_at(confidence, right, target)
        out[f"kept_accuracy_{target}"], out[f"coverage_{target}"] = kept.accuracy, kept.coverage
    return out


def show(sets: Mapping[str, Mapping[str, float]]) -> None:
    """Print a line for each set."""
    keys = [key for key in next(iter(sets.values())) if not key.endswith(tuple(map(str, TARGETS)))]
    table = Table("set", title="first quotes; shown: at ρ* = 0.5", title_justify="left")
    for key in keys:
        table.add_column(key.replace("_", " "), justify="right")
    for name, some in sets.items():
        table.add_row(name, *(f"{some[k]:.0f}" if k in COUNTS else f"{some[k]:.3f}" for k in keys))
    Console().print(table)


def main() -> None:
    """Run the command line."""
    sets = read_questions()
    parser = command_line(__doc__, data=False)
    parser.add_argument("--sources", type=Path, required=True, help="folder of the files, a folder for each set")
    parser.add_argument("--server", default="https://github.com", help="where files are fetched from that it lacks")
    parser.add_argument("--sets", nargs="+", choices=list(sets), help="only these sets")
    parser.add_argument(
        "--part", choices=("fit", "report", "seen"), help="only the sets of FIT, only those kept aside, or SEEN"
    )
    parser.add_argument("--kept", type=Path, help="folder that keeps the indexes between runs")
    options = parser.parse_args()
    every, shown = list[Outcome](), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.sets or sets:
            if options.part is not None and options.part != part_of(name):
                continue
            fetch(name, options.sources, options.server)
            retriever = index_files(options.sources / name, (options.kept or Path(folder)) / name)
            rows = outcomes(sets[name], *ask(sets[name], retriever, name))
            shown[name] = figures_of(rows)
            every += rows
    shown["all"] = figures_of(every)
    show(shown)
    write_figures({f"{name}_{key}": v for name, some in shown.items() for key, v in some.items()}, options.json)


if __name__ == "__main__":
    main()
