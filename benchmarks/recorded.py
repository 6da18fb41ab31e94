"""Ask questions of a strong model whose replies were recorded: which of its right answers are shown, which are lost?

    python benchmarks/recorded.py [--lies] [--named NAME] [--no-model] [--measured KIND] [--learning] [--json FILE]
    python benchmarks/recorded.py --sources FOLDER [--kept FOLDER] …
    python benchmarks/recorded.py --write-capable

The replies in ``recorded/`` are those of a large language model to the prompts that this engine writes, in its own
words behind the quotes it chose; sentences are named by a part of them or a digest, so that other prompts find them. To
40 questions on six invented documents (25 have an answer, and every one that is not answered right is lost by us); with
``--lies`` 17 of these claims say something false behind the right quotes. With ``--sources`` (see
benchmarks/strangers.py) to 132 questions on files that nobody prepared, kept aside (of these only the counts are
printed), or to 130 on the sets whose answers were looked at (``--part fit``). Last, to the 96 built-in questions: with
them this model is measured, which ``--write-capable`` writes to where the package keeps it.

``--named gpt-4o``: the model's name, which tells its size; by default nothing is known of it. ``--measured recorded``:
as after `selfreflect calibrate replies`; a name of a simulated model of benchmarks/models.py has that measured in its
place. Every question gets a new engine: nothing is learnt of the model in between, unless ``--learning`` is given.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.models import KINDS, Case, Simulated
from benchmarks.strangers import Question, fetch, index_files, part_of, read_questions
from shared_core.calibration.replies import FittedReplies
from shared_core.documents import DocumentIndex
from shared_core.evaluation.fitting import built_in_questions, fit
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.trust import CAPABLE
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer

FOLDER = Path(__file__).parent / "recorded"
RECORDED = "recorded"
QUICK = 12
_NUMBERED = re.compile(r"(?m)^(S\d+): (.*(?:\n    .*)*)")
Row = Mapping[str, Any]


def read_rows(name: str) -> list[Row]:
    """Read the questions of a set, each with the reply to it."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()]


def digest(sentence: str) -> str:
    """Return what names a sentence of documents that are not part of the project."""
    return hashlib.sha256(" ".join(sentence.split()).encode()).hexdigest()[:12]


def reply_to(row: Row, prompt: str, *, lies: bool = False) -> str:
    """Reply to one prompt about the row's question, in the form that the prompt asks for."""
    lies = lies and "lie" in row
    numbered = _NUMBERED.findall(prompt)
    if "<reference>" in prompt and "NO ANSWER" in prompt:
        return _with_references(row["lie" if lies else "reply"], row.get("evidence", ()), numbered)
    # Other prompts hold the passages as they stand.
    flat = " ".join(prompt.split())
    sentences = {digest(part) for line in prompt.splitlines() for part in (line, *re.split(r"(?<=[.!?]) ", line))}
    answers = row.get("answerable", "plain" in row)
    held = answers and any(" ".join(part.split()) in flat or part in sentences for part in row.get("evidence", ()))
    if re.search(r"one word|yes or no", prompt[-300:], re.IGNORECASE):
        return "yes" if held else "no"
    if not held:
        return "The context does not say. So the answer is unknown."
    short = row["short_lie"] if lies else row.get("short", "")
    return f"{row['plain']} So the answer is {short}."


def model_of(row: Row, name: str, *, lies: bool) -> ScriptedLM:
    """Make a model that replies to prompts about one row's question."""
    return ScriptedLM(lambda request: reply_to(row, request.prompt.text, lies=lies), name=name)


def _with_references(reply: str, evidence: Sequence[str], numbered: Sequence[tuple[str, str]]) -> str:
    """Put the numbers of the sentences that hold the evidence in place of {0}, {1}, …; decline if one is missing."""
    found = [next((n for n, text in numbered if part in text or part == digest(text)), None) for part in evidence]
    for place in map(int, re.findall(r"\{(\d+)\}", reply)):
        number = found[place] if place < len(found) else None
        if number is None:
            return "NO ANSWER"
        reply = reply.replace(f"{{{place}}}", number)
    return reply


def judge_by_pattern(row: Row, answer: Answer, *, lies: bool) -> str:
    """Name what came of an invented question: right, lost, wrong, lie, declined or unanswerable shown."""
    if answer.abstained:
        return "lost" if row["answerable"] else "declined"
    if lies and "lie" in row and "answered_by" not in answer.metadata:
        return "lie"
    right = row["right"] is not None and re.search(row["right"], answer.text, re.IGNORECASE | re.DOTALL)
    if not row["answerable"]:
        # Three of the replies say what the documents do say: "A judge has not been found yet."
        return "declined" if right and "answered_by" not in answer.metadata else "unanswerable shown"
    return "right" if right else "wrong"


def judge_by_quotes(question: Question, answer: Answer) -> str:
    """Name what came of a question on a stranger's files: right if answer or quotes have one of its answers.

    Claims in a model's own words seldom have the very words, so one that misreads a right quote counts as right.
    """
    if answer.abstained:
        return "lost" if question.answers else "declined"
    quotes = [s.text for claim in answer.kept_claims for citation in claim.citations for s in citation.spans]
    right = question.is_answered_by(" ".join([answer.text, *quotes]))
    return "unanswerable shown" if not question.answers else "right" if right else "wrong"


def measure(kind: str, name: str, settings: SelfReflectSettings, reader: ExtractiveReader) -> FittedReplies:
    """Measure the recorded model, or a simulated one in its place, on the built-in questions."""
    with built_in_questions() as (retriever, questions):
        cases = [Case(q.question, tuple(q.answers or ()), ()) for q in questions]
        lm = _built_in(name) if kind == RECORDED else ScriptedLM(Simulated(kind, cases).reply, name=name)
        fitted = fit("replies", SelfReflectEngine(retriever, lm, settings, reader=reader), questions).calibration
    assert isinstance(fitted, FittedReplies), "the purpose was replies"
    return fitted


def _built_in(name: str) -> ScriptedLM:
    """Make a model that gives the replies recorded to the built-in questions."""
    rows = read_rows("built_in")

    def reply(prompt: str) -> str:
        row = next((row for row in rows if row["question"] in prompt), None)
        return "NO ANSWER" if row is None else reply_to(row, prompt)

    return ScriptedLM(lambda request: reply(request.prompt.text), name=name)


def write_capable(settings: SelfReflectSettings, reader: ExtractiveReader) -> None:
    """Write what the recorded model's replies to the built-in questions show to where the package keeps it."""
    fitted = measure(RECORDED, RECORDED, settings, reader)
    kept = ("rates", "shift", "n", "positives", "claims", "claims_right")
    plain = {name: value for name, value in fitted.to_dict().items() if name in kept}
    CAPABLE.write_text(json.dumps(plain, indent=1) + "\n", "utf-8")
    Console().print(f"{CAPABLE.name}: {plain}")


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Iterator[tuple[Retriever, list[Row]]]]:
    """Open the indexes one by one, each with its rows."""
    if options.sources is None:
        with DocumentIndex(None) as index:
            index.update(FOLDER / "documents")
            yield iter([(index.retriever(), read_rows("invented")[: QUICK if options.quick else None])])
        return
    with tempfile.TemporaryDirectory() as place:
        kept = options.kept or Path(place)
        rows = [row for row in read_rows("strangers") if part_of(row["set"]) == options.part]
        rows = rows[: QUICK if options.quick else None]
        for name in dict.fromkeys(str(row["set"]) for row in rows):
            fetch(name, options.sources, options.server)
        groups = ((name, list(some)) for name, some in itertools.groupby(rows, key=lambda row: str(row["set"])))
        yield ((index_files(options.sources / name, kept / name), some) for name, some in groups)


def run(options: argparse.Namespace) -> dict[str, float]:
    """Ask every question, print what went wrong, and count."""
    settings = SelfReflectSettings(pipeline=options.pipeline, deadline=None, target_accuracy=options.target)
    reader = ExtractiveReader(cache_passages=4096)
    if options.write_capable:
        write_capable(settings, reader)
        return {}
    known = {"replies": measure(options.measured, options.named, settings, reader)} if options.measured else {}
    questions = {q.text: q for some in read_questions().values() for q in some}
    counts: Counter[str] = Counter()
    with opened(options) as indexes:
        for retriever, rows in indexes:
            engine: SelfReflectEngine | None = None
            for row in track(rows, "questions", transient=True):
                lm = None if options.no_model else model_of(row, options.named, lies=options.lies)
                made = SelfReflectEngine(retriever, lm, settings, reader=reader, calibrations=known)
                if options.learning and engine is not None:
                    made.context = dataclasses.replace(made.context, trust=engine.context.trust)
                engine = made
                answer = engine.answer(row["question"])
                if options.sources is None:
                    came = judge_by_pattern(row, answer, lies=options.lies)
                else:
                    came = judge_by_quotes(questions[row["question"]], answer)
                counts[came] += 1
                if came not in ("right", "declined") and (options.sources is None or options.part == "fit"):
                    Console().print(f"{came}: {row['question']} {answer.confidence or 0:.2f} {answer.text[:110]!r}")
    Console().print(f"{counts.total()} questions: {dict(counts)}")
    names = ("right", "lost", "wrong", "lie", "unanswerable shown")
    return {name.replace(" ", "_"): float(counts[name]) for name in names}


def main() -> None:
    """Run the command line."""
    parser = command_line(__doc__, quick=f"the first {QUICK} questions", data=False)
    parser.add_argument("--lies", action="store_true", help="17 replies claim what their quotes do not say")
    parser.add_argument("--sources", type=Path, help="folder of the strangers' files: ask the questions on these")
    parser.add_argument("--server", default="https://github.com", help="where files are fetched from that it lacks")
    parser.add_argument("--part", default="report", choices=("fit", "report"), help="as in benchmarks/strangers.py")
    parser.add_argument("--kept", type=Path, help="folder that keeps their indexes between runs")
    parser.add_argument("--named", default="unknown", help="name of the model, which tells its size")
    parser.add_argument("--no-model", action="store_true", help="the embedded default alone")
    parser.add_argument("--measured", choices=(RECORDED, *sorted(KINDS)), help="model that is measured beforehand")
    parser.add_argument(
        "--learning", action="store_true", help="what one question shows of the model counts for others"
    )
    parser.add_argument("--pipeline", default="composed", choices=("composed", "reclaim"))
    parser.add_argument("--target", type=float, default=0.5, help="target accuracy ρ*")
    parser.add_argument("--write-capable", action="store_true", help="write what the package expects of capable models")
    options = parser.parse_args()
    write_figures(run(options), options.json)


if __name__ == "__main__":
    main()
