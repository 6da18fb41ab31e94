"""Estimate P(claim) from the passages: cite the sentence that supports it most, then weigh it.

A claim that shares no word with any sentence has no quote: these documents do not speak of it, which is not to say that
it is false.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shared_core.citation import CitationIndex
from shared_core.errors import LimitError, SelfReflectError
from shared_core.pipelines.confidence import Weighed, weigh
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.support import support_method
from shared_core.reading.expected import ExpectedShare
from shared_core.retrieval import BM25Retriever
from shared_core.runtime.flow import Flow, Judge
from shared_core.types import Citation, Claim, Passage, Span


class Quotes:
    """The sentences of one question's passages, to find quotes in."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        seen: dict[str, Span] = {}
        for span in CitationIndex(passages).sentences:
            seen.setdefault(" ".join(span.text.split()), span)
        self._spans = list(seen.values())
        self._search = BM25Retriever([Passage(str(i), s.text) for i, s in enumerate(self._spans)])

    def nearest(self, claims: Sequence[str], k: int) -> list[list[Span]]:
        """For each claim the sentences that share most words with it, best first, at most ``k``."""
        found = self._search.retrieve_many(claims, k) if self._spans else [[] for _ in claims]
        return [[self._spans[int(p.id)] for p in ranked] for ranked in found]


def weigh_claims(
    question: str, claims: Sequence[str], quotes: Quotes, run: QuestionRun, *, first: bool
) -> Flow[Weighed]:
    """Cite a verbatim quote for each claim, where there is one, and weigh the claims (``confidence.weigh``).

    Args:
        question: as asked.
        claims: to be weighed.
        quotes: of the passages.
        run: of the question.
        first: it is the first time for this question; later ones do not count as further questions.
    """
    near = quotes.nearest(claims, run.settings.research.published.quotes)
    best = yield from _choose(claims, near, run)
    cited = [Claim(c, None, (Citation((s,)),) if s is not None else ()) for c, s in zip(claims, best)]
    yield run.note("quote", f"{sum(s is not None for s in best)} of {len(claims)} claims", "by words, then by support")
    if not first:
        context = dataclasses.replace(run.abilities, expected=ExpectedShare(run.abilities.expected.value))
        run = dataclasses.replace(run, abilities=context)
    return (yield from weigh(question, cited, quotes.passages, run))


def _choose(claims: Sequence[str], near: Sequence[Sequence[Span]], run: QuestionRun) -> Flow[list[Span | None]]:
    """For each claim the sentence that supports it most, by judge or critic; without one, the nearest by words."""
    chosen = [spans[0] if spans else None for spans in near]
    method = support_method(run.abilities)
    pairs = [(i, span) for i, spans in enumerate(near) if len(spans) > 1 for span in spans]
    if method not in ("judge", "critic") or not pairs:
        return chosen
    texts = tuple((span.text, claims[i]) for i, span in pairs)
    try:
        scores: list[float | None] = yield Judge(texts, by="judge" if method == "judge" else "critic")
    except LimitError:
        raise
    except SelfReflectError as error:
        yield run.note("quote", "nearest by words", error.message)
        return chosen
    best: dict[int, float] = {}
    for (i, span), score in zip(pairs, scores):
        if score is not None and score > best.get(i, -1.0):
            best[i], chosen[i] = score, span
    return chosen
