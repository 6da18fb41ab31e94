"""Small stand-ins shared by the tests."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shared_core.errors import SelfReflectError
from shared_core.lm.base import Generate, GenerateResult, Score, ScoreResult
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import Read, Reading, ReadResult, Verdict
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

PASSAGES = (
    Passage("lamp", "The lamp was lit in 1871.\nIt burned whale oil.", "Lamps", {"source": "lamps.md", "start": 0}),
    Passage("ship", "The Marrow sailed under Captain Ila Venn. She carried salt.", "Ships", {"source": "ships.txt"}),
)


def shares_a_word(query: str, text: str) -> bool:
    """Whether a text holds a word of the query that has more than three letters."""
    return any(word.strip("?.,") in text.lower() for word in query.lower().split() if len(word) > 3)


class Shelf:
    """Gives the passages that share a word with the query."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self.passages = passages
        self.queries: list[str] = []

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        self.queries.append(query)
        return [p.with_score(1.0) for p in self.passages if shares_a_word(query, p.text)][:k]


class Fixed:
    """Gives the same passages for every query, best first; notes the queries, and how many were asked for."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.queries: list[str] = []
        self.asked: list[int] = []

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        self.queries.append(query)
        self.asked.append(k)
        return self.passages[:k]


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
    return SelfReflectSettings(signals="support_only", **values)


class Critic:
    """Scores each (quote, claim) pair with a fixed value, or with a function of it; keeps the pairs."""

    def __init__(
        self, said: float | Callable[[str, str], float | None] | None = 0.9, name: str = "critic@test"
    ) -> None:
        self.said, self.name = said, name
        self.pairs: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        self.pairs += pairs
        return [self.said(*pair) if callable(self.said) else self.said for pair in pairs]


class LetterEmbedder:
    """Texts are as close as their counts of the letters a to j."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> Any:
        rows = np.array([[t.count(c) + 1e-9 for c in "abcdefghij"] for t in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class SameEmbedder:
    """Every text means the same."""

    dimension = 2
    name = "embedder@test"

    def embed(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 2), dtype=np.float32) / 2**0.5


class HangingLM(ScriptedLM):
    """Blocks at the requests for which ``hangs`` is true, until ``let_go`` is set."""

    def __init__(self, reply: str, hangs: Callable[[Any], bool] = lambda request: True, **more: Any) -> None:
        super().__init__(lambda request: reply, **more)
        self.hangs, self.let_go = hangs, threading.Event()

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        if any(self.hangs(r) for r in requests):
            self.let_go.wait(20)
        return super().generate(requests)

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        if any(self.hangs(r) for r in requests):
            self.let_go.wait(20)
        return super().score(requests)


class WordCritic:
    """Judges by words: all of a claim's in the evidence support it, all but its numbers contradict it.

    Claims with a word in ``foreign`` it cannot judge.
    """

    name = "words"

    def __init__(self, *, foreign: str = "ist") -> None:
        self.foreign = foreign
        self.batches: list[int] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [v.supported if v else None for v in self.judge(pairs)]

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict | None]:
        self.batches.append(len(pairs))
        return [self._judge(*pair) for pair in pairs]

    def _judge(self, evidence: str, claim: str) -> Verdict | None:
        said, held = (re.findall(r"\w+", text.lower()) for text in (claim, evidence))
        if self.foreign in said or not said:
            return None
        missing = [w for w in said if w not in held]
        if not missing:
            return Verdict(0.9, 0.05)
        numbers = all(w.isdigit() for w in missing) and any(w.isdigit() for w in held)
        return Verdict(0.05, 0.9) if numbers else Verdict(0.3 * (1 - len(missing) / len(said)), 0.1)
