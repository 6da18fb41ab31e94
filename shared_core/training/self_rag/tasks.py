"""The critic's five tasks: their prompts, and the rows made of what it answers.

Prompts have worked examples for any model, or the form of a trained critic. What is judged is untrusted text. The
examples are ours, and of a world of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from shared_core.pipelines.evidence import ours, theirs, titled
from shared_core.pipelines.self_rag.prompts import CriticQuestion, Words
from shared_core.reflection.tokens import (
    CONTINUE,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
    UTILITY_TOKENS,
)
from shared_core.settings import Settings
from shared_core.training.rows import write_json_lines
from shared_core.training.self_rag.rows import CriticRow, GeneratorRow, Task, balance
from shared_core.types import Passage

WORDS: Mapping[Task, Words] = {
    "retrieval": (("yes", RETRIEVAL), ("no", NO_RETRIEVAL)),
    "multi_retrieval": (("yes", RETRIEVAL), ("continue", CONTINUE), ("no", NO_RETRIEVAL)),
    "relevance": (("no", IRRELEVANT), ("yes", RELEVANT)),
    "groundedness": (("no", NO_SUPPORT), ("partly", PARTIALLY_SUPPORTED), ("fully", FULLY_SUPPORTED)),
    "utility": tuple((str(i), token) for i, token in enumerate(UTILITY_TOKENS, 1)),
}
"""(word, reflection token it stands for), the most doubtful answer first."""

INSTRUCTIONS: Mapping[Task, str] = {
    "retrieval": "Say whether looking something up in documents would help to carry out the instruction correctly. "
    "Facts about people, places, dates and events need it; arithmetic, opinions, rewriting and imagination do not.",
    "multi_retrieval": "Given an instruction, the sentences written so far and the passage they rest on, say whether "
    "the next sentence needs a new passage (yes), can be written from the passage at hand (continue), or needs none "
    "(no).",
    "relevance": "Say whether the passage holds something that helps to carry out the instruction.",
    "groundedness": "Say how far the passage supports the statement: fully (it says all of it), partly (it says some "
    "of it), or no (it does not say it, or says otherwise). Judge by the passage, not by what you know.",
    "utility": "Rate how useful the response is for the instruction, from 1 (of no use, or beside the point) to 5 "
    "(answers it completely).",
}

LEAST_ROWS = 4
"""Fewest rows of a task that say something about who judged them."""

_HARBOUR = "The harbour of Ostby\nThe harbour wall of Ostby was finished in 1842. It is 300 metres long."
_EXAMPLES: Mapping[Task, Sequence[tuple[str, str]]] = {
    "retrieval": (
        ("Instruction: When was the harbour wall of Ostby finished?", "yes"),
        ("Instruction: Rewrite politely: give me the salt.", "no"),
        ("Instruction: Which of the two Ostby ferries is older?", "yes"),
    ),
    "multi_retrieval": (
        (
            "Instruction: Tell me about the harbour of Ostby.\nWritten so far: Its wall was finished in 1842.\n"
            f"Passage: {_HARBOUR}\nNext sentence: The wall is 300 metres long.",
            "continue",
        ),
        (
            "Instruction: Tell me about the harbour of Ostby.\nWritten so far: Its wall was finished in 1842.\n"
            f"Passage: {_HARBOUR}\nNext sentence: The first ferry left it in 1851.",
            "yes",
        ),
        (
            "Instruction: Tell me about the harbour of Ostby.\nWritten so far: Its wall was finished in 1842.\n"
            f"Passage: {_HARBOUR}\nNext sentence: I hope that this helps.",
            "no",
        ),
    ),
    "relevance": (
        (f"Instruction: When was the harbour wall of Ostby finished?\nPassage: {_HARBOUR}", "yes"),
        (f"Instruction: Who commanded the ferry to Ostby?\nPassage: {_HARBOUR}", "no"),
    ),
    "groundedness": (
        (f"Passage: {_HARBOUR}\nStatement: The wall was finished in 1842.", "fully"),
        (f"Passage: {_HARBOUR}\nStatement: The wall was finished in 1842 by Tora Lind.", "partly"),
        (f"Passage: {_HARBOUR}\nStatement: The wall was finished in 1901.", "no"),
    ),
    "utility": (
        ("Instruction: When was the harbour wall of Ostby finished?\nResponse: It was finished in 1842.", "5"),
        ("Instruction: When was the harbour wall of Ostby finished?\nResponse: In the nineteenth century.", "3"),
        ("Instruction: When was the harbour wall of Ostby finished?\nResponse: I do not know.", "1"),
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A verdict to ask for.

    Attributes:
        task: which of the five.
        input: what is judged, as the critic's rows hold it.
    """

    task: Task
    input: str

    def question(self) -> CriticQuestion:
        """Build the prompt for any model: the task, worked examples, the text to judge."""
        words = ", ".join(word for word, _ in WORDS[self.task])
        told = f"{INSTRUCTIONS[self.task]} Reply with one word: {words}.\n\n"
        told += "".join(f"{given}\nVerdict: {verdict}\n\n" for given, verdict in _EXAMPLES[self.task])
        return CriticQuestion(ours(told) + theirs(self.input) + ours("\nVerdict:"), WORDS[self.task])

    def label(self, verdict: str) -> dict[str, Any]:
        """Return a verdict as the log of labels holds it."""
        return {"task": self.task, "input": self.input, "output": verdict}

    def row(self, verdict: str) -> CriticRow:
        """Make the row that teaches this verdict; its prompt is the one for a trained critic."""
        return CriticRow(INSTRUCTIONS[self.task], self.input, verdict, self.task)


def ask_retrieval(instruction: str) -> Asked:
    """Ask whether a passage is needed at all."""
    return Asked("retrieval", f"Instruction: {instruction}")


def ask_again(instruction: str, before: Sequence[str], passage: Passage, sentence: str) -> Asked:
    """Ask whether a later sentence needs a new passage, the current one, or none."""
    said = " ".join(before)
    head = f"Instruction: {instruction}\nWritten so far: {said}\nPassage: {titled(passage)}"
    return Asked("multi_retrieval", f"{head}\nNext sentence: {sentence}")


def ask_relevance(instruction: str, passage: Passage) -> Asked:
    """Ask whether a passage helps."""
    return Asked("relevance", f"Instruction: {instruction}\nPassage: {titled(passage)}")


def ask_support(passage: Passage, sentence: str) -> Asked:
    """Ask how far a passage supports a sentence."""
    return Asked("groundedness", f"Passage: {titled(passage)}\nStatement: {sentence}")


def ask_utility(instruction: str, response: str) -> Asked:
    """Ask how useful a response is."""
    return Asked("utility", f"Instruction: {instruction}\nResponse: {response}")


class RowSettings(Settings):
    """Settings that choose which labels become rows."""

    relevance_share: float = Field(
        0.7, gt=0, le=1, description="Of the rows that say [Relevant]; every [Irrelevant] is kept (published: 0.7)."
    )
    most_per_task: int = Field(20_000, ge=1, description="Rows of a task at most (the paper: 4k to 20k).")
    most_per_verdict: float | None = Field(
        None, ge=1, description="No verdict of a task more than so many times as often as its rarest; None leaves all."
    )


@dataclass(frozen=True)
class Made:
    """Rows of both kinds, and the counts.

    Attributes:
        report: ``balance`` before and after thinning, ``repeated``, ``contradictory``, ``declines``, ``questions``,
            ``without_answer``, ``unknown`` (verdicts that the model did not give), ``one_verdict`` (tasks of which all
            rows have the same verdict, with that verdict).
    """

    critic: list[CriticRow]
    generator: list[GeneratorRow]
    report: dict[str, Any]

    @property
    def shortfall(self) -> str:
        """Reason not to train on these rows: each task has one verdict whatever is judged. Empty if there is none."""
        one = self.report["one_verdict"]
        tasks = {task for task, counts in self.report["balance_labelled"].items() if sum(counts.values()) >= LEAST_ROWS}
        return "each task has the same verdict in all its rows" if len(one) > 2 and tasks == one.keys() else ""


def make_rows(records: Sequence[Mapping[str, Any]], settings: RowSettings | None = None, name: str = "") -> Made:
    """Make the rows of records that ``label`` made, in their order; thinning depends only on a row's text.

    Args:
        records: of a run log.
        name: of the data set, in the generator's rows.
    """
    settings = settings or RowSettings()
    found: dict[tuple[Task, str], str] = {}
    repeated, against = 0, set()
    for one in (one for record in records for one in record["labels"]):
        key = (one["task"], one["input"])
        repeated += key in found
        if found.setdefault(key, one["output"]) != one["output"]:
            against.add(key)
    every = [CriticRow(INSTRUCTIONS[t], i, v, t) for (t, i), v in found.items() if (t, i) not in against]
    labelled = balance(every)
    critic = _thin(every, settings)
    outputs = [(r["question"], o) for r in records for o in r["outputs"]]
    generator = list(dict.fromkeys(GeneratorRow(q, o["output"], name) for q, o in outputs))
    report = {
        "questions": len(records),
        "without_answer": sum(not r["outputs"] for r in records),
        "declines": sum(o["declines"] for _, o in outputs),
        "critic": len(critic),
        "generator": len(generator),
        "repeated": repeated + len(outputs) - len(generator),
        "contradictory": len(against),
        "unknown": sum(r["unknown"] for r in records),
        "balance_labelled": labelled,
        "one_verdict": {
            task: next(iter(counts))
            for task, counts in labelled.items()
            if len(counts) == 1 and sum(counts.values()) >= LEAST_ROWS
        },
        "balance": balance([*critic, *generator]),
    }
    return Made(critic, generator, report)


def _thin(rows: Sequence[CriticRow], settings: RowSettings) -> list[CriticRow]:
    kept: set[CriticRow] = set()
    for task, counts in balance(rows).items():
        some = sorted((r for r in rows if r.task == task), key=_lot)
        if task == "relevance":
            relevant = [r for r in some if r.output == RELEVANT]
            left_out = set(relevant[max(1, round(settings.relevance_share * len(relevant))) :])
            some = [r for r in some if r not in left_out]
        if settings.most_per_verdict is not None:
            counts = balance(some)[task]
            most = int(settings.most_per_verdict * min(counts.values()))
            some = [r for verdict in counts for r in [r for r in some if r.output == verdict][:most]]
        kept |= set(sorted(some, key=_lot)[: settings.most_per_task])
    return [r for r in rows if r in kept]


def _lot(row: CriticRow) -> bytes:
    return hashlib.sha256(f"{row.task}\n{row.input}".encode()).digest()


def write_made(made: Made, folder: Path) -> None:
    """Write ``critic.jsonl`` and ``generator.jsonl`` in the published form."""
    write_json_lines(map(asdict, made.critic), folder / "critic.jsonl")
    write_json_lines(map(asdict, made.generator), folder / "generator.jsonl")
