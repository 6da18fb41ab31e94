"""Small stand-ins shared by the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared_core.errors import SelfReflectError
from shared_core.reading.base import Read, Reading, ReadResult
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

PASSAGES = (
    Passage("lamp", "The lamp was lit in 1871.\nIt burned whale oil.", "Lamps", {"source": "lamps.md", "start": 0}),
    Passage("ship", "The Marrow sailed under Captain Ila Venn. She carried salt.", "Ships", {"source": "ships.txt"}),
)


class Shelf:
    """Gives the passages that share a word with the query."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self.passages = passages
        self.queries: list[str] = []

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        self.queries.append(query)
        words = {w.strip("?.,").lower() for w in query.split() if len(w) > 3}
        return [p.with_score(1.0) for p in self.passages if any(w in p.text.lower() for w in words)][:k]


class FirstSentenceReader:
    """Quotes the first sentence of each passage, with the probability it is told."""

    name = "first-sentence"

    def __init__(self, *probabilities: float | None, answerable: float | None = None) -> None:
        self.probabilities = probabilities or (0.9,)
        self.answerable = answerable
        self.batches: list[int] = []

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        self.batches.append(len(requests))
        return [self._one(r) for r in requests]

    def _one(self, request: Read) -> ReadResult:
        readings = []
        for i, passage in enumerate(request.passages):
            probability = self.probabilities[min(i, len(self.probabilities) - 1)]
            end = passage.text.index(".") + 1
            short = passage.text.find("1871")
            answer = passage.span(short, short + 4) if 0 <= short < end else None
            readings.append(Reading(passage.span(0, end), probability, -float(i), answer))
        return ReadResult(tuple(readings[: request.limit]), self.answerable)


def published(**values: Any) -> SelfReflectSettings:
    """Settings under which a claim's support is its judge's word alone: no reader and no critic is asked."""
    return SelfReflectSettings(witnesses="judge", **values)
