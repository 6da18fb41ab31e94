"""Lexical search: BM25 in its ATIRE form with Lucene's idf, by two libraries with one result.

Score of a passage for a query (Robertson and Zaragoza 2009, eq. 3.15, times k1 + 1; Lucene's idf, which
is always positive)::

    Σ over query words t of  ln(1 + (N - n_t + 0.5) / (n_t + 0.5)) · f_t (k1 + 1) / (f_t + k1 (1 - b + b · l / l̄))

To it is added ``phrases`` times the same score over pairs of adjacent words, which prefers passages that have the
query's words side by side (the ordered part of the sequential dependence model, Metzler and Croft 2005).

k1 = 0.9 and b = 0.4 are the values Anserini found good for passages (Yang, Fang and Lin 2018).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from shared_core.errors import InputError
from shared_core.retrieval.base import Ranking, Where
from shared_core.retrieval.checks import check_k, check_query, collect, collect_ids
from shared_core.retrieval.filters import Predicate, compile_filter
from shared_core.retrieval.tokenizer import Tokenizer
from shared_core.support.pickling import Portable
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Backend = Literal["auto", "rank_bm25", "bm25s"]
K1, B, PHRASES = 0.9, 0.4, 0.3
LARGE = 5_000
"""Passages from which on ``auto`` takes bm25s: it searches far faster, rank-bm25 is ready sooner."""

DIGITS = 9
"""Decimals of a score that count: the two libraries add up in different order and differ by rounding only (1e-12), so
scores rounded to this rank the same, ties in the order in which passages were added."""

Scorer = Callable[[list[str]], "NDArray[np.float64]"]


class BM25Retriever(Portable):
    """BM25 over passages in memory; title and text are searched together.

    Adding and deleting are cheap; the statistics are made anew at the first query after a change. May be used from
    several threads at once.

    Args:
        passages: to start with.
        language: of stemming and stop words (``Tokenizer``); any language is found, the chosen one best.
        k1: how much repetition of a word counts, > 0.
        b: how much long passages are held back, in [0, 1].
        phrases: weight of pairs of adjacent words, ≥ 0; 0 is plain BM25.
        backend: ``bm25s``, ``rank_bm25``, or ``auto``: the first from 5,000 passages on. Scores agree to 1e-9
            and rank the same.
        tokenizer: in place of ``Tokenizer(language)``: text → words.

    Raises:
        InputError: a parameter out of range.
        PassageError: as ``add``.
    """

    _left_behind = ("_built",)

    def __init__(
        self,
        passages: Iterable[Passage] = (),
        *,
        language: str = "english",
        k1: float = K1,
        b: float = B,
        phrases: float = PHRASES,
        backend: Backend = "auto",
        tokenizer: Callable[[str], list[str]] | None = None,
    ) -> None:
        if not (math.isfinite(k1) and k1 > 0):
            raise InputError(f"k1 must be a positive number, not {k1!r}.", hint="Usual: 0.9 to 2.")
        if not 0 <= b <= 1:
            raise InputError(f"b must lie in [0, 1], not {b!r}.", hint="Usual: 0.4 to 0.75.")
        if not (math.isfinite(phrases) and phrases >= 0):
            raise InputError(f"phrases must be a number of at least 0, not {phrases!r}.", hint="Usual: 0 to 0.5.")
        if backend not in ("auto", "rank_bm25", "bm25s"):
            raise InputError(f"There is no BM25 backend {backend!r}.", hint="Known: auto, rank_bm25, bm25s.")
        self.k1 = float(k1)
        self.b = float(b)
        self.phrases = float(phrases)
        self.backend = backend
        self._tokenize = tokenizer or Tokenizer(language)
        self._lock = threading.Lock()
        self._passages: dict[str, Passage] = {}
        self._words: dict[str, list[str]] = {}
        self._built: tuple[list[Passage], Scorer | None] | None = None
        self.add(passages)

    def __len__(self) -> int:
        return len(self._passages)

    def ids(self) -> list[str]:
        """Ids of all passages, in the order they were added."""
        return list(self._passages)

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """The passages of these ids, in that order; unknown ones are left out."""
        known = self._passages
        return [known[i] for i in collect_ids(ids) if i in known]

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages; one with a known id replaces the old one.

        Raises:
            PassageError: a passage that cannot be stored, or two that differ under one id. Nothing is added then.
        """
        new = collect(passages)
        words = {i: self._tokenize(f"{p.title}\n{p.text}") for i, p in new.items()}
        if not new:
            return
        with self._lock:
            self._passages = {**self._passages, **new}
            self._words.update(words)
            self._built = None

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the passages of these ids; unknown ids are ignored."""
        gone = set(collect_ids(ids))
        with self._lock:
            if gone.isdisjoint(self._passages):
                return
            self._passages = {i: p for i, p in self._passages.items() if i not in gone}
            self._words = {i: w for i, w in self._words.items() if i not in gone}
            self._built = None

    def retrieve(self, query: str, k: int = 5, where: Where | None = None) -> list[Passage]:
        """The best passages that share a word with the query, best first, at most ``k``.

        Args:
            query: any text; an empty one, or one of stop words only, finds nothing.
            k: at most so many, ≥ 1; may exceed the number of passages.
            where: metadata filter in Chroma's language (``filters``).

        Returns:
            Passages with ``score`` set, > 0 and unbounded.

        Raises:
            InputError: k < 1, or a filter that cannot be understood.
        """
        return self.retrieve_many([query], k, where)[0]

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """``retrieve`` for each query."""
        return [[p.with_score(score) for p, score in found] for found in self._rank(queries, k, where)]

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """``retrieve_many`` with ids in place of passages."""
        return [[(p.id, score) for p, score in found] for found in self._rank(queries, k, where)]

    def _rank(self, queries: Sequence[str], k: int, where: Where | None) -> list[list[tuple[Passage, float]]]:
        k = check_k(k)
        keep = compile_filter(where)
        words = [self._tokenize(check_query(query)) for query in queries]
        passages, scorer = self._statistics()
        if scorer is None:
            return [[] for _ in words]
        return [_best(passages, scorer(w), k, keep) if w else [] for w in words]

    def _statistics(self) -> tuple[list[Passage], Scorer | None]:
        with self._lock:
            if self._built is None:
                words = [self._words[i] for i in self._passages]
                self._built = list(self._passages.values()), self._make(words)
            return self._built

    def _make(self, words: list[list[str]]) -> Scorer | None:
        if not any(words):  # both libraries divide by the mean length
            return None
        large = self.backend == "bm25s" or (self.backend == "auto" and len(words) >= LARGE)
        build = _bm25s if large else _rank_bm25
        single = build(words, self.k1, self.b)
        pairs = [_pairs(w) for w in words] if self.phrases else []
        if not any(pairs):
            return single
        double = build(pairs, self.k1, self.b)

        def scores(query: list[str]) -> NDArray[np.float64]:
            asked = _pairs(query)
            return single(query) + self.phrases * double(asked) if asked else single(query)

        return scores


def _pairs(words: list[str]) -> list[str]:
    return [f"{a} {b}" for a, b in pairwise(words)]


def _rank_bm25(words: list[list[str]], k1: float, b: float) -> Scorer:
    import numpy as np
    from rank_bm25 import BM25Okapi

    model: Any = BM25Okapi(words, k1=k1, b=b)
    counts: dict[str, int] = {}
    for frequencies in model.doc_freqs:
        for word in frequencies:
            counts[word] = counts.get(word, 0) + 1
    # Its own idf is negative for words of more than half of the passages, and patched by a floor.
    n = len(words)
    model.idf = {word: math.log(1 + (n - df + 0.5) / (df + 0.5)) for word, df in counts.items()}

    def scores(query: list[str]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # 0/0 for passages without words, if b = 1
            found: NDArray[np.float64] = np.nan_to_num(model.get_scores(query))
        return found

    return scores


def _bm25s(words: list[list[str]], k1: float, b: float) -> Scorer:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG, and so fills an application's log
    model: Any = bm25s.BM25(k1=k1, b=b, method="atire", idf_method="lucene", dtype="float64")
    model.index(words, show_progress=False)
    scores: Scorer = model.get_scores
    return scores


def _best(
    passages: list[Passage], scores: NDArray[np.float64], k: int, keep: Predicate | None
) -> list[tuple[Passage, float]]:
    import numpy as np

    scores = np.round(scores, DIGITS)
    found = np.flatnonzero(scores > 0)
    if keep is None and len(found) > 4 * k:
        # Everything at least as good as the k-th, ties included, so that the order of ties holds.
        bar = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= bar]
    out: list[tuple[Passage, float]] = []
    for i in found[np.argsort(-scores[found], kind="stable")]:
        passage = passages[i]
        if keep is None or keep(passage.metadata):
            out.append((passage, float(scores[i])))
            if len(out) == k:
                break
    return out
