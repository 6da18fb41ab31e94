"""Lexical search: BM25 in its ATIRE form with Lucene's idf, by two libraries with the same result.

Score of a passage for a query (Robertson and Zaragoza 2009, eq. 3.15, times k1 + 1; Lucene's idf, which
is always positive)::

    Σ over query words t of  ln(1 + (N - n_t + 0.5) / (n_t + 0.5)) · f_t (k1 + 1) / (f_t + k1 (1 - b + b · l / l̄))

The same score over pairs of adjacent words, times ``phrases``, is added to it. It prefers passages that have the
query's words side by side (the ordered part of the sequential dependence model, Metzler and Croft 2005). So are, times
``NAMES``, other names of what an English query names (``other_names``): single words, and pairs of those of several.

k1 = 0.9 and b = 0.4 are the values that Anserini recommends for passages (Yang, Fang and Lin 2018).
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from shared_core.errors import InputError
from shared_core.retrieval.base import (
    MemoryRetriever,
    Ranking,
    Where,
    check_k,
    check_query,
    collect,
    collect_ids,
    searched_text,
)
from shared_core.retrieval.filters import Predicate, compile_filter
from shared_core.retrieval.tokenizer import Tokenizer, other_forms, other_names
from shared_core.retrieval.vectors import highest
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Backend = Literal["auto", "rank_bm25", "bm25s"]
K1, B, PHRASES, NAMES = 0.9, 0.4, 0.3, 0.5
LARGE = 5_000
"""Passages from which ``auto`` uses bm25s, which searches far faster; rank-bm25 is built faster."""

DIGITS = 9
"""Decimals of a score that count. The two libraries sum in a different order and differ by rounding (1e-12); rounded
scores rank the same, ties in the order in which passages were added."""

Scorer = Callable[[list[str]], "NDArray[np.float64]"]
_QueryScorer = Callable[["Query"], "NDArray[np.float64]"]


class Query(NamedTuple):
    """Words that are searched for, and other names of what they name (``other_names``): single words, and pairs."""

    words: list[str]
    names: list[str]
    pairs: list[str]

    @classmethod
    def of(cls, text: str, tokenize: Callable[[str], list[str]], *, english: bool) -> Query:
        """Split a query; in English with other forms of its words and other names.

        >>> Query.of("Is a flat tyre covered?", Tokenizer(), english=True)
        Query(words=['flat', 'tyre', 'cover'], names=['punctur'], pairs=['flat tire'])
        """
        words = tokenize(text)
        if not english or not words:
            return cls(words, [], [])
        words += other_forms(words)
        names = [found for name in other_names(text) if (found := tokenize(name))]
        single = dict.fromkeys(found[0] for found in names if len(found) == 1 and found[0] not in words)
        pairs = dict.fromkeys(pair for found in names for pair in pairs_of(found))
        return cls(words, [*single], [pair for pair in pairs if pair not in pairs_of(words)])


class BM25Retriever(MemoryRetriever):
    """BM25 over passages in memory; title and text are searched together.

    Adding and deleting are cheap; statistics are rebuilt at the first query after a change. Safe to use from several
    threads at once.

    >>> retriever = BM25Retriever([Passage("a", "The ferry sails at nine."), Passage("b", "The museum is closed.")])
    >>> [passage.id for passage in retriever.retrieve("When does the ferry sail?")]
    ['a']

    Args:
        language: language of stemming and stop words (``Tokenizer``); passages in other languages are found too.
        k1: how much repetition of a word counts, > 0.
        b: how much long passages are penalised, in [0, 1].
        phrases: weight of pairs of adjacent words, ≥ 0; 0 is plain BM25.
        backend: ``bm25s``, ``rank_bm25``, or ``auto``: bm25s from 5,000 passages. Both rank the same; scores agree to
            1e-9.
        tokenizer: function from text to words, in place of ``Tokenizer(language)``.

    Raises:
        InputError: a parameter is out of range.
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
            raise InputError(f"Unknown BM25 backend {backend!r}.", hint="Known: auto, rank_bm25, bm25s.")
        self.k1 = float(k1)
        self.b = float(b)
        self.phrases = float(phrases)
        self.backend = backend
        self._tokenize = tokenizer or Tokenizer(language)
        super().__init__()
        self._words: dict[str, list[str]] = {}
        self._built: tuple[list[Passage], _QueryScorer | None] | None = None
        self.add(passages)

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages; a passage with a known id replaces the old one. All or, with a PassageError, none are added."""
        new = collect(passages)
        words = {i: self._tokenize(searched_text(p)) for i, p in new.items()}
        if not new:
            return
        with self._lock:
            self._passages = {**self._passages, **new}
            self._words.update(words)
            self._built = None

    def delete(self, ids: Iterable[str]) -> None:
        """Delete the passages of these ids; unknown ids are ignored."""
        gone = set(collect_ids(ids))
        with self._lock:
            if gone.isdisjoint(self._passages):
                return
            self._passages = {i: p for i, p in self._passages.items() if i not in gone}
            self._words = {i: w for i, w in self._words.items() if i not in gone}
            self._built = None

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k = check_k(k)
        keep = compile_filter(where)
        english = isinstance(self._tokenize, Tokenizer) and self._tokenize.language == "english"
        asked = [Query.of(check_query(query), self._tokenize, english=english) for query in queries]
        passages, scorer = self._statistics()
        if scorer is None:
            return [[] for _ in asked]
        return [_best(passages, scorer(query), k, keep) if query.words else [] for query in asked]

    def _statistics(self) -> tuple[list[Passage], _QueryScorer | None]:
        with self._lock:
            if self._built is None:
                words = [self._words[i] for i in self._passages]
                self._built = list(self._passages.values()), self._make(words)
            return self._built

    def _make(self, words: list[list[str]]) -> _QueryScorer | None:
        if not any(words):  # both libraries would divide by a mean length of 0
            return None
        large = self.backend == "bm25s" or (self.backend == "auto" and len(words) >= LARGE)
        build = _bm25s if large else _rank_bm25
        single = build(words, self.k1, self.b)
        pairs = [pairs_of(w) for w in words] if self.phrases else []
        double = build(pairs, self.k1, self.b) if any(pairs) else None

        def scores(query: Query) -> NDArray[np.float64]:
            found = single(query.words)
            if query.names:
                found = found + NAMES * single(query.names)
            if double is None:
                return found
            for asked, weight in ((pairs_of(query.words), self.phrases), (query.pairs, NAMES)):
                found = found + weight * double(asked) if asked else found
            return found

        return scores


def pairs_of(words: Sequence[str]) -> list[str]:
    """Join each word with the next one."""
    return [f"{a} {b}" for a, b in pairwise(words)]


def _rank_bm25(words: list[list[str]], k1: float, b: float) -> Scorer:
    import numpy as np
    from rank_bm25 import BM25Okapi

    model: Any = BM25Okapi(words, k1=k1, b=b)
    counts = Counter(word for frequencies in model.doc_freqs for word in frequencies)
    # Its own idf is negative for words in more than half of the passages, and clipped.
    n = len(words)
    model.idf = {word: math.log(1 + (n - df + 0.5) / (df + 0.5)) for word, df in counts.items()}

    def scores(query: list[str]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # 0/0 for passages without words, if b = 1
            found: NDArray[np.float64] = np.nan_to_num(model.get_scores(query))
        return found

    return scores


def _bm25s(words: list[list[str]], k1: float, b: float) -> Scorer:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG, which floods an application's log
    model: Any = bm25s.BM25(k1=k1, b=b, method="atire", idf_method="lucene", dtype="float64")
    model.index(words, show_progress=False)
    scores: Scorer = model.get_scores
    return scores


def _best(passages: list[Passage], scores: NDArray[np.float64], k: int, keep: Predicate | None) -> Ranking:
    import numpy as np

    scores = np.round(scores, DIGITS)
    found = np.flatnonzero(scores > 0)
    ranked = found[highest(scores[found], k if keep is None else None)]
    kept = (i for i in ranked if keep is None or keep(passages[i].metadata))
    return [(passages[i].id, float(scores[i])) for i in islice(kept, k)]
