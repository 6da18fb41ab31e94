"""Re-ranking of somebody else's passages, as flows: by what answers (reading), later by what lowers uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.flow import Flow, Read
from shared_core.reading.base import ReadResult
from shared_core.types import Passage, Span


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage with its new place.

    Attributes:
        passage: as given, unchanged.
        score: what it was ranked by, higher is better.
        probability: calibrated, that it answers the question; ``None`` where the method gives none.
        quote: the sentence that speaks most for it, where the method finds one.
        reason: why it stands there, for people.
    """

    passage: Passage
    score: float
    probability: float | None = None
    quote: Span | None = None
    reason: str = ""


def rerank_by_reading(question: str, passages: Sequence[Passage]) -> Flow[list[Ranked]]:
    """Best first by the best quote that the reader finds in each; passages without any come last, in their order."""
    if not passages:
        return []
    result: ReadResult = yield Read(question, tuple(passages), limit=8 * len(passages))
    best: dict[str, Ranked] = {}
    by_id = {p.id: p for p in passages}
    for reading in result.readings:
        passage = by_id[reading.quote.passage_id]
        known = best.get(passage.id)
        if known is None or reading.score > known.score:
            reason = "holds the sentence that answers best" if not best else "holds a sentence that may answer"
            best[passage.id] = Ranked(passage, reading.score, reading.probability, reading.quote, reason)
    ranked = sorted(best.values(), key=lambda r: -r.score)
    floor = min((r.score for r in ranked), default=0.0)
    rest = [
        Ranked(p, floor - 1.0 - i, 0.0, None, "no sentence answers") for i, p in enumerate(_without(passages, best))
    ]
    return ranked + rest


def _without(passages: Sequence[Passage], known: dict[str, Ranked]) -> list[Passage]:
    return [p for p in passages if p.id not in known]
