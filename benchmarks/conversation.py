"""Follow-up questions in conversations: how many are answered rightly, how many about something else.

Two sets. The demo's conversations (``examples/demo_conversations.jsonl``, written for this) are held turn by turn over
the demo documents, each with our own replies as its history. MTRAG-UN's tasks (``mtragun_tune``, with ``--data``) are
given with their history; all their contexts together are the documents, and an answer is right if it cites one of the
task's own contexts. The part ``tune`` of each set was used to choose rules. Wrong answers of the demo's part ``test``
were read too; ``fresh`` was written afterwards and run once.

``--model`` condenses: a released model, or ``scripted``, which writes the full questions given with the demo's
conversations (``full``). ``conversation_rewritten.json`` holds the last question of 40 answerable tasks of the part
``tune``, rewritten by hand; ``by_hand_right`` and ``in_conversation_right`` compare the two on them.

    python benchmarks/conversation.py [--quick] [--part test] [--model smollm2] [--data ../shared/data] [--json FILE]
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import ROOT, command_line, show_figures, write_figures
from benchmarks.reader.data import read_lines
from shared_core import Answer, Passage, SelfReflectEngine
from shared_core.cli.common import build_model
from shared_core.conversation import Asked, Turn, recognise
from shared_core.conversation.condense import condense_request
from shared_core.conversation.rewriting import read_rewriting
from shared_core.conversation.rules import exchanges_of
from shared_core.documents import DocumentIndex
from shared_core.lm.base import Generation, LanguageModel
from shared_core.retrieval import HybridRetriever

EXAMPLES = ROOT / "examples"
REWRITTEN = ROOT / "benchmarks" / "conversation_rewritten.json"
ABOUT_ITSELF = ("asks nothing", "asks about the answer")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A follow-up's kind, the answer given, whether it is right, and whether the question was condensed."""

    kind: str
    shown: bool
    right: bool
    condensed: bool = False


def load_conversations(part: str) -> list[Mapping[str, Any]]:
    """Load the demo's conversations of a part."""
    rows = map(json.loads, (EXAMPLES / "demo_conversations.jsonl").read_text(encoding="utf-8").splitlines())
    return [row for row in rows if part == row["split"] or (part == "all" and row["split"] != "fresh")]


def ask(
    engine: SelfReflectEngine,
    question: str,
    history: Sequence[Turn],
    condenser: LanguageModel | None = None,
    scripted: str = "",
) -> Answer:
    """Ask a question in its conversation; ``condenser`` only rewrites follow-ups, it writes no answers."""
    asked = Asked(question, history=tuple(history), condense=True if scripted else "auto", condensed=scripted)
    if condenser is not None and history and recognise(question).needs_history:
        (written,) = condenser.generate([condense_request(question, exchanges_of(history))])
        if isinstance(written, Generation):
            asked = dataclasses.replace(asked, condensed=read_rewriting(written.text))
    return engine.answer(asked)


def hold(
    engine: SelfReflectEngine,
    conversation: Mapping[str, Any],
    condenser: LanguageModel | None,
    *,
    alone: bool,
    scripted: bool = False,
) -> Iterator[tuple[Outcome, Answer]]:
    """Hold a conversation and yield the outcome of each turn; ``alone`` asks each question without its history."""
    history: list[Turn] = []
    for turn in conversation["turns"]:
        full = turn.get("full", "") if scripted else ""
        answer = ask(engine, turn["question"], () if alone else history, condenser, full)
        golds = turn.get("answers", ())
        right = not answer.abstained and any(gold.lower() in answer.text.lower() for gold in golds)
        yield Outcome(turn["kind"], not answer.abstained, right if golds else answer.abstained), answer
        history += [Turn("user", turn["question"]), Turn("assistant", answer.text, abstained=answer.abstained)]


def demo_figures(
    part: str, lm: LanguageModel | None, limit: int | None, console: Console, *, verbose: bool, scripted: bool
) -> dict[str, float]:
    """Figures of the demo's conversations."""
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder, DocumentIndex(Path(folder) / "index") as index:
        index.update([EXAMPLES / "demo_docs"])
        for name, alone in (("alone", True), ("", False)):
            engine = SelfReflectEngine(index.retriever())
            outcomes: list[Outcome] = []
            for conversation in load_conversations(part)[:limit]:
                for number, (outcome, answer) in enumerate(
                    hold(engine, conversation, lm, alone=alone, scripted=scripted)
                ):
                    outcomes += [outcome] * (number > 0)
                    if verbose and not alone and not outcome.right:
                        tell(console, outcome, answer)
            figures |= {f"{name}_{key}".strip("_"): value for key, value in figures_of(outcomes).items()}
    return figures


def figures_of(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Shares of the follow-ups: answered rightly, shown though wrong, and left to the user where they ask nothing."""
    answerable = [o for o in outcomes if o.kind == "answerable"]
    no_question = [o for o in outcomes if o.kind in ABOUT_ITSELF]
    return {
        "right": share([o.right for o in answerable]),
        "wrong_shown": share([o.shown and not o.right for o in outcomes]),
        "unanswerable_declined": share([not o.shown for o in outcomes if o.kind == "unanswerable"]),
        "asks_nothing_declined": share([not o.shown for o in no_question]),
    }


def share(values: Sequence[bool]) -> float:
    """Share of true values; NaN of none."""
    return sum(values) / len(values) if values else float("nan")


def tell(console: Console, outcome: Outcome, answer: Answer) -> None:
    """Print a follow-up that went wrong."""
    asked = answer.metadata.get("condensed_question", "as it is")
    console.print(f"{outcome.kind}: {answer.question} → {asked} | {answer.reason or answer.text[:120]}", markup=False)


# --- MTRAG-UN ------------------------------------------------------------------------------------------------------


def part_of(task: Mapping[str, Any]) -> str:
    """Part of a task: half of them, by a hash of the id, are for tuning."""
    return "tune" if hashlib.sha256(str(task["id"]).encode()).digest()[0] % 2 else "test"


def task_figures(
    tasks: Sequence[Mapping[str, Any]],
    part: str,
    lm: LanguageModel | None,
    limit: int | None,
    console: Console,
    verbose: bool,
) -> dict[str, float]:
    """Figures of MTRAG-UN's tasks that have a history."""
    passages: dict[str, Passage] = {}
    for task in tasks:
        for context in task["contexts"]:
            passages[key_of(context)] = Passage(key_of(context), text_of(context), str(context.get("title") or ""))
    chosen = [t for t in tasks if len(t["turns"]) > 1 and part in ("all", part_of(t))][:limit]
    figures: dict[str, float] = {"tasks": len(chosen), "tasks_passages": len(passages)}
    engine = SelfReflectEngine(HybridRetriever(passages.values()))
    for name, alone in (("alone", True), ("", False)):
        outcomes = []
        for task in chosen:
            answer = ask_task(engine, task, lm, alone=alone)
            condensed = answer.metadata.get("condensed_by") is not None
            outcomes.append(Outcome(task["answerability"], not answer.abstained, is_right(task, answer), condensed))
            if verbose and not alone:
                tell(console, outcomes[-1], answer)
        prefix = f"tasks_{name}".strip("_")
        answerable = [o for o in outcomes if o.kind == "ANSWERABLE"]
        figures[f"{prefix}_right"] = share([o.shown and o.right for o in answerable])
        figures[f"{prefix}_shown"] = share([o.shown for o in answerable])
        figures[f"{prefix}_wrong_shown"] = share([o.shown and not o.right for o in outcomes])
        if not alone:
            figures["tasks_condensed"] = sum(o.condensed for o in outcomes)
            figures["tasks_condensed_wrong_shown"] = share([o.shown and not o.right for o in outcomes if o.condensed])
        figures[f"{prefix}_declined"] = share([not o.shown for o in outcomes if o.kind == "UNANSWERABLE"])
    rewritten: Mapping[str, str] = json.loads(REWRITTEN.read_text("utf-8"))
    both = [(t, rewritten[t["id"]]) for t in tasks if t["id"] in rewritten][:limit]
    figures["by_hand_right"] = share([is_right(t, engine.answer(full)) for t, full in both])
    figures["in_conversation_right"] = share([is_right(t, ask_task(engine, t, lm)) for t, _ in both])
    return figures


def ask_task(
    engine: SelfReflectEngine, task: Mapping[str, Any], lm: LanguageModel | None, *, alone: bool = False
) -> Answer:
    """Ask a task's last turn after those before it."""
    *before, last = task["turns"]
    history = [Turn("user" if t["speaker"] == "user" else "assistant", t["text"]) for t in before]
    return ask(engine, last["text"], () if alone else history, lm)


def is_right(task: Mapping[str, Any], answer: Answer) -> bool:
    """Whether an answer cites one of the task's contexts, or declines where there is none."""
    gold = {key_of(context) for context in task["contexts"]}
    cited = {span.passage_id for span in answer.numbered_spans()}
    return not answer.abstained and bool(gold & cited) if gold else answer.abstained


def text_of(context: Mapping[str, Any] | str) -> str:
    """Text of a context."""
    return context if isinstance(context, str) else str(context["text"])


def key_of(context: Mapping[str, Any] | str) -> str:
    """Return an id for a context: equal texts are one passage."""
    return hashlib.sha256(text_of(context).encode()).hexdigest()[:16]


def main() -> None:
    parser = command_line(__doc__, quick="12 conversations and 20 tasks")
    parser.add_argument("--part", default="test", choices=("tune", "test", "fresh", "all"), help="part of both sets")
    parser.add_argument("--model", help="model that condenses: scripted, smollm2, a path, a GGUF file")
    parser.add_argument("--limit", type=int, help="conversations and tasks at most")
    parser.add_argument("--demo-only", action="store_true", help="leave MTRAG-UN out")
    parser.add_argument("--verbose", action="store_true", help="print each follow-up that is not answered rightly")
    options = parser.parse_args()
    console = Console()
    scripted = options.model == "scripted"
    lm = build_model(options.model, None) if options.model and not scripted else None
    limit = 12 if options.quick else options.limit
    out = demo_figures(options.part, lm, limit, console, verbose=options.verbose, scripted=scripted)
    path = options.data / "ood/mtragun_tune.jsonl.gz"
    if not options.demo_only and path.exists():
        limit = 20 if options.quick else options.limit
        out |= task_figures(read_lines(path), options.part, lm, limit, console, options.verbose)
    elif not options.demo_only:
        console.print(f"skipped: there is no {path} (--data names the folder; see README)")
    show_figures(out, f"Follow-ups, {options.model or 'no model'}")
    write_figures(out, options.json)


if __name__ == "__main__":
    main()
