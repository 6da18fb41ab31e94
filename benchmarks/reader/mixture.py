"""Retrieve passages for the questions of every set, with the product's own retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.reader import sets
from benchmarks.reader.sets import Case, Half
from shared_core.retrieval import HybridRetriever
from shared_core.retrieval.base import Embedder
from shared_core.types import Passage


@dataclass
class World:
    """One half of every set; the Wikipedia corpus is indexed once for all sets that use it."""

    data: Path
    embedder: Embedder
    half: Half
    _corpus: HybridRetriever | None = field(default=None, init=False)
    _with_nq: bool = field(default=False, init=False)

    def wikipedia(self, *, nq: bool = False) -> HybridRetriever:
        """Return the corpus, with Natural Questions' passages from the first call with ``nq`` on."""
        if self._corpus is None:
            self._corpus = HybridRetriever(sets.wikipedia(self.data), embedder=self.embedder)
        if nq and not self._with_nq:
            self._corpus.add(sets.natural_questions(self.data, self.half)[1])
            self._with_nq = True
        return self._corpus

    def over(self, passages: Iterable[Passage]) -> HybridRetriever:
        """Index other passages."""
        return HybridRetriever(passages, embedder=self.embedder)


def _squad2(world: World) -> list[Case]:
    return sets.cases(sets.squad2(world.data, world.half), world.wikipedia(), removed=0)


def _paragraphs(world: World) -> list[Case]:
    """Return SQuAD 2.0's questions, each with its own paragraph only: documents of one paragraph."""
    passages = {p.id: p for p in sets.wikipedia(world.data)}
    return [
        Case(a.question, a.answers, (passages[a.gold[0]],), "answerable" if a.answers else "adversarial", a.gold)
        for a in sets.squad2(world.data, world.half)
    ]


def _hops(name: str) -> Callable[[World], list[Case]]:
    return lambda world: sets.cases(sets.multi_hop(world.data, name), world.wikipedia(), removed=0)


def _natural_questions(world: World) -> list[Case]:
    return sets.cases(sets.natural_questions(world.data, world.half)[0], world.wikipedia(nq=True))


def _near_misses(world: World) -> list[Case]:
    asked, passages = sets.natural_questions(world.data, world.half)
    return sets.near_misses(asked, {p.id: p for p in passages}, world.wikipedia(nq=True), 400)


def _policies(world: World) -> list[Case]:
    found = sets.policies(world.data, world.half).values()
    return [case for asked, passages in found for case in sets.cases(asked, world.over(passages))]


def _articles(world: World) -> list[Case]:
    asked, passages = sets.articles(world.data, world.half)
    return sets.cases(asked, world.over(passages), removed=0)


def _near_articles(world: World) -> list[Case]:
    asked, passages = sets.articles(world.data, world.half)
    held = [a for a in asked if a.gold]
    return sets.near_misses(held, {p.id: p for p in passages}, world.over(passages), 300)


def _strangers(world: World) -> list[Case]:
    _, passages = sets.articles(world.data, world.half)
    questions = [a.question for a in sets.natural_questions(world.data, world.half)[0]]
    return sets.strangers(questions, world.over(passages), 300)


SETS: dict[str, Callable[[World], list[Case]]] = {
    "squad2": _squad2,
    "paragraph": _paragraphs,
    "hotpotqa": _hops("hotpotqa"),
    "musique": _hops("musique"),
    "twowiki": lambda world: sets.hops(world.data, world.half),
    "nq": _natural_questions,
    "near_miss": _near_misses,
    "near_miss_articles": _near_articles,
    "policyqa": _policies,
    "covidqa": _articles,
    "subjqa": lambda world: sets.reviews(world.data, world.half),
    "small_documents": lambda world: sets.small_documents(world.data, world.half),
    "stranger": _strangers,
}
"""All sets, ordered so that Natural Questions' passages are added after the sets without them. HotpotQA and MuSiQue
have no halves: they are only reported."""
FITTED = (
    *("squad2", "twowiki", "nq", "near_miss", "near_miss_articles"),
    *("policyqa", "covidqa", "subjqa", "small_documents", "stranger"),
)
