"""Sixty lamps, a passage on each: questions on when one was lit are answered there, those on its sale are not."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.evaluation.dataset import Question
from shared_core.types import Passage

LAMPS = [Passage(f"p{i}", f"Lamp {i} was lit in {1800 + i}.", f"Lamps {i}") for i in range(60)]
QUESTIONS = [
    Question(str(i), f"When was lamp {i} lit?", answers=(str(1800 + i),)) if i % 3 else
    Question(str(i), f"When was lamp {i} sold?", answerable=False)
    for i in range(60)
]  # fmt: skip


class Lamps:
    """Finds the passage on the lamp whose number is in the question."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        words = query.replace("?", "").split()
        return [p for p in LAMPS if p.id[1:] in words]


class LampCritic:
    """Knows that a sentence on lighting says nothing about a sale."""

    name = "critic@test"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [0.3 if "sold" in claim else 0.7 for _, claim in pairs]
