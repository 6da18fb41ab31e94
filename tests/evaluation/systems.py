"""Systems to compare that answer from dice, and questions for them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from shared_core.errors import RetrievalError
from shared_core.evaluation import Question
from shared_core.types import Answer, Passage, Usage

PASSAGE = Passage("p", "The capital is Rome.")
DESCRIBED = {"good": {"kind": "dice"}, "bad": {"kind": "dice"}}
"""Of two systems, wherever their classes are defined."""


def questions(count: int) -> list[Question]:
    """Every fourth has no answer; the others' is Rome."""
    return [
        Question(f"q{i}", f"Question {i}?", ("Rome",), True)
        if i % 4
        else Question(f"q{i}", f"Question {i}?", (), False)
        for i in range(count)
    ]


class Short:
    """Answers nothing."""

    def answer_many(self, questions: Sequence[str], /) -> list[Answer | Exception]:
        return []


class Dice:
    """Right to a share, the same for the same question; abstains below a confidence of .3; fails where it is told."""

    def __init__(self, share: float, name: str = "", *, fails: Callable[[str], bool] = lambda q: False) -> None:
        self.share, self.name, self.fails = share, name, fails
        self.asked: list[str] = []

    def answer_many(self, questions: Sequence[str], /) -> list[Answer | Exception]:
        self.asked += questions
        return [self._answer(q) for q in questions]

    def _answer(self, question: str) -> Answer | Exception:
        if self.fails(question):
            return RetrievalError("The index is gone.")
        digest = hashlib.sha256(f"{self.name}{question}".encode()).digest()
        right, sure = digest[0] / 256 < self.share, digest[1] / 256
        usage = Usage(calls=2, prompt_tokens=100 + digest[2], generated_tokens=10)
        if sure < 0.3:
            return Answer(question, "No.", (), (PASSAGE,), True, "support below target", sure, usage=usage)
        return Answer(question, "Rome" if right else "Paris", (), (PASSAGE,), confidence=sure, usage=usage)
