"""Where in the passages to look for what supports a claim: windows of whole sentences, ranked by their words."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared_core.citation.index import check_passages
from shared_core.citation.sentences import split_sentences
from shared_core.retrieval.bm25 import BM25Retriever
from shared_core.retrieval.tokenizer import Tokenizer
from shared_core.types import Passage, Span

WINDOW = 900
"""Characters of a window, but for a sentence that is longer by itself: what a judge of claims reads at once."""


@dataclass(frozen=True, slots=True)
class Window:
    """Sentences of one passage that stand one after another.

    Attributes:
        passage: which.
        sentences: at least one, in the order of the text.
    """

    passage: Passage
    sentences: tuple[Span, ...]

    @property
    def text(self) -> str:
        """As a judge is shown it: behind the passage's title, which often says who "she" is."""
        return titled(self.passage, self.passage.text[self.sentences[0].start : self.sentences[-1].end])


def titled(passage: Passage, text: str) -> str:
    """A piece of the passage behind its title."""
    return f"{passage.title}\n{text}" if passage.title else text


class Evidence:
    """All that claims are checked against.

    Args:
        passages: in any order; one that is there twice counts once, one without text not at all.

    Raises:
        PassageError: two passages of one id differ, or something is no passage.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages = check_passages(passages)
        self.windows = [w for p in self.passages for w in _windows(p)]
        self._numbers: dict[str, list[int]] = {}
        for number, window in enumerate(self.windows):
            self._numbers.setdefault(window.passage.id, []).append(number)
        pieces = (Passage(str(i), _body(w), w.passage.title) for i, w in enumerate(self.windows))
        self._index = BM25Retriever(pieces)
        self._tokenize = Tokenizer()

    def best(self, claims: Sequence[str], near: Sequence[Sequence[str]], k: int) -> list[list[Window]]:
        """For each claim the ``k`` windows most like it, best first; fewer only where there are no more.

        Args:
            claims: what to look for.
            near: for each claim the ids of passages that a retriever found for it, best first: those are looked at
                where words do not tell, and the best window of the first one is always among the windows.
            k: at least 2.
        """
        if not self.windows:
            return [[] for _ in claims]
        found = self._index.retrieve_many(list(claims), max(k, _DEEP))
        return [
            [self.windows[i] for i in self._choose([int(p.id) for p in ranked], ids, k)]
            for ranked, ids in zip(found, near, strict=True)
        ]

    def _choose(self, ranked: list[int], near: Sequence[str], k: int) -> list[int]:
        of_near = [number for i in near for number in self._numbers.get(i, ())]
        first = set(self._numbers.get(near[0], ())) if near else set()
        retrieved = next((n for n in ranked if n in first), next(iter(of_near), None))
        chosen = list(dict.fromkeys([*ranked, *of_near, *range(min(k, len(self.windows)))]))[:k]
        if retrieved is not None and retrieved not in chosen:
            chosen[-1] = retrieved
        return chosen

    def like(self, claim: str, spans: Sequence[Span]) -> list[Span]:
        """The spans by how many of the claim's words stand in them, most first; ties keep their order."""
        words = set(self._tokenize(claim))
        return sorted(spans, key=lambda s: -len(words & set(self._tokenize(s.text))))


_DEEP = 50
"""Windows ranked for a claim; among them the best of its first passage is looked for."""


def _body(window: Window) -> str:
    return window.passage.text[window.sentences[0].start : window.sentences[-1].end]


def _windows(passage: Passage) -> Iterator[Window]:
    """As many whole sentences as fit; each window begins with the last sentence of the one before it."""
    spans = [passage.span(start, end) for start, end in split_sentences(passage.text)]
    first = 0
    while first < len(spans):
        last = first
        while last + 1 < len(spans) and spans[last + 1].end - spans[first].start <= WINDOW:
            last += 1
        yield Window(passage, tuple(spans[first : last + 1]))
        if last + 1 == len(spans):
            return
        first = max(first + 1, last)


def gather(found: Iterable[Sequence[Passage]]) -> Mapping[str, Passage]:
    """The passages of several retrievals by their ids, the first of each kept."""
    passages: dict[str, Passage] = {}
    for passage in itertools.chain.from_iterable(found):
        passages.setdefault(passage.id, passage)
    return passages
