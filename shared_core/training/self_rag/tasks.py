"""Prompts of the critic's five tasks: with worked examples for any model, or in the form of a trained critic.

What is judged is untrusted text. The examples are ours, and of a world of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared_core.lm.base import Prompt
from shared_core.pipelines.evidence import titled
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
from shared_core.training.self_rag.rows import CriticRow, Task
from shared_core.types import Passage

__all__ = ["Asked", "ask_again", "ask_relevance", "ask_retrieval", "ask_support", "ask_utility"]

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
_REPLIES: Mapping[Task, str] = {
    task: f"Reply with one word: {', '.join(word for word, _ in words)}." for task, words in WORDS.items()
}

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
        told = f"{INSTRUCTIONS[self.task]} {_REPLIES[self.task]}\n\n"
        told += "".join(f"{given}\nVerdict: {verdict}\n\n" for given, verdict in _EXAMPLES[self.task])
        prompt = Prompt.trusted(told, role="user") + Prompt.untrusted(self.input, role="user")
        return CriticQuestion(prompt + Prompt.trusted("\nVerdict:", role="user"), WORDS[self.task])

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
