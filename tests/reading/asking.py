"""The reader that ships, as the tests ask it."""

from __future__ import annotations

from typing import Any

from shared_core.reading.base import Read, ReadResult
from shared_core.reading.extractive import ExtractiveReader
from shared_core.types import Passage

READER = ExtractiveReader()


def read(question: str, *passages: Passage | str, limit: int = 9, **options: Any) -> ReadResult:
    """What the passages say; a text is a passage without a title."""
    given = tuple(Passage("p", one) if isinstance(one, str) else one for one in passages)
    (result,) = READER.read([Read(question, given, limit, **options)])
    assert isinstance(result, ReadResult), result
    return result


def quotes(question: str, *passages: Passage | str) -> list[str]:
    return [reading.quote.text for reading in read(question, *passages).readings]


def first(question: str, *passages: Passage | str, **options: Any) -> tuple[str, float]:
    """Text and probability of the best quote, 0 where it is unknown."""
    best = read(question, *passages, **options).readings[0]
    return best.quote.text, best.probability or 0.0


def chance(question: str, *passages: Passage | str, **options: Any) -> float:
    """Probability of the best quote, 0 where it is unknown."""
    return first(question, *passages, **options)[1]
