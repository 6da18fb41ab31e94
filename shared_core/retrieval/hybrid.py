"""Fuse several retrievers into one.

There are two ways:

- ``scores`` (default): the weighted mean of each list's scores, scaled to [0, 1] (the convex combination of Bruch, Gai
  and Ingber 2023, "An Analysis of Fusion Functions for Hybrid Retrieval"). It keeps by how much one passage beats the
  next, which ranks discard. The best of a list counts 1. Passages missing from a full list scored no more than its
  last, so the last counts 0. A list that is not full holds every match, so there a score of 0 counts 0.
- ``rrf``: reciprocal-rank fusion (Cormack, Clarke and Büttcher 2009): Σ weight / (k + rank). It needs no scores.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set, Sized
from dataclasses import dataclass
from typing import Any, Literal, cast

from shared_core.errors import InputError, RetrievalError
from shared_core.retrieval.base import (
    Embedder,
    Ranking,
    Retriever,
    Where,
    batches,
    check_k,
    collect,
    collect_ids,
    find_each,
)
from shared_core.retrieval.bm25 import BM25Retriever
from shared_core.retrieval.dense import DenseRetriever
from shared_core.retrieval.filters import normalise
from shared_core.support.options import find_options, is_entry_of
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

Fusion = Literal["scores", "rrf"]
_BATCH = 1_000
_RRF = 60  # the k of reciprocal-rank fusion, as in the paper
_COPIES = 2  # passages of one text among the results: a second source may be cited, further ones only take room
_ENTRIES = 2  # of options, among the results in any case
_WORD = lazy_regex(r"\w+")
_Scored = Sequence[tuple[str, float | None]]


@dataclass(frozen=True, slots=True)
class _Result:
    """One retriever's result for one query; ``passages`` is ``None`` if they are read later, by id."""

    ranking: _Scored
    passages: dict[str, Passage] | None


class HybridRetriever:
    """A fusion of retrievers; by default of BM25 and exact dense search with MiniLM over the given passages.

    >>> from shared_core.retrieval import BM25Retriever
    >>> passages = [Passage("a", "The ferry sails at nine."), Passage("b", "The museum is closed.")]
    >>> hybrid = HybridRetriever(retrievers=[BM25Retriever(passages), BM25Retriever(passages, phrases=0)])
    >>> [(passage.id, passage.score) for passage in hybrid.retrieve("When does the ferry sail?")]
    [('a', 1.0)]

    Args:
        passages: initial passages, added to every retriever. A list of retrievers is taken as ``retrievers``.
        retrievers: used in place of the two; anything with ``retrieve(query, k)``. ``scores`` needs passages with
            scores, the higher the better.
        fusion: ``scores`` or ``rrf`` (see the module).
        weights: one for each retriever, ≥ 0, not all 0; equal by default.
        depth: passages taken from each retriever before fusing, ≥ 1; at least ``k`` are taken.
        embedder: embedder of the dense retriever; ``None`` is MiniLM. Not together with ``retrievers``.

    Raises:
        InputError: an argument is out of range, or a retriever has no ``add`` and passages are given.
    """

    def __init__(
        self,
        passages: Iterable[Passage] | Sequence[Retriever] = (),
        *,
        retrievers: Sequence[Retriever] | None = None,
        fusion: Fusion = "scores",
        weights: Sequence[float] | None = None,
        depth: int = 100,
        embedder: Embedder | None = None,
    ) -> None:
        start = list(passages)
        if retrievers is None and start and all(callable(getattr(x, "retrieve", None)) for x in start):
            retrievers, start = cast("list[Retriever]", start), []
        if retrievers is not None and embedder is not None:
            raise InputError("Pass either retrievers or an embedder.", hint="Give the embedder to your own retriever.")
        if retrievers is None:
            retrievers = (BM25Retriever(), DenseRetriever(embedder=embedder))
        self.retrievers: tuple[Retriever, ...] = tuple(retrievers)
        if not self.retrievers:
            raise InputError("A hybrid needs at least one retriever.", hint="Leave retrievers out for the default two.")
        for retriever in self.retrievers:
            if not callable(getattr(retriever, "retrieve", None)):
                raise InputError(f"{type(retriever).__name__} is not a retriever.", hint="It needs retrieve(query, k).")
        if fusion not in ("scores", "rrf"):
            raise InputError(f"Unknown fusion {fusion!r}.", hint="Known: scores, rrf.")
        self.fusion = fusion
        self.weights = _check_weights(weights, len(self.retrievers))
        self.depth = check_k(depth)
        self.add(cast("list[Passage]", start))

    def __len__(self) -> int:
        sizes = [len(r) for r in self.retrievers if isinstance(r, Sized)]
        if not sizes:
            raise TypeError("No retriever can tell its number of passages.")
        return max(sizes)

    def ids(self) -> list[str]:
        """Ids of all passages of the retrievers that can list them."""
        known = [r.ids() for r in self.retrievers if hasattr(r, "ids")]
        return list(dict.fromkeys(i for ids in known for i in ids))

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages of these ids, in that order; unknown ids are left out."""
        wanted = collect_ids(ids)
        found: dict[str, Passage] = {}
        for retriever in self.retrievers:
            if hasattr(retriever, "get"):
                found.update({p.id: p for p in retriever.get([i for i in wanted if i not in found])})
        return [found[i] for i in wanted if i in found]

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages to every retriever; a passage with a known id replaces the old one.

        Raises:
            InputError: a retriever has no ``add``. Nothing is added then.
            PassageError: a passage cannot be stored, or two different ones share an id. Nothing is added then.
        """
        new = list(collect(passages).values())
        if new:
            # Last to first: dense retrievers, whose model or server can fail, come before BM25, which cannot.
            for add in reversed(self._methods("add")):
                add(new)

    def delete(self, ids: Iterable[str]) -> None:
        """Delete the passages of these ids from every retriever; unknown ids are ignored."""
        gone = collect_ids(ids)
        if gone:
            for delete in reversed(self._methods("delete")):
                delete(gone)

    def _methods(self, name: str) -> list[Callable[[list[Any]], None]]:
        missing = [type(r).__name__ for r in self.retrievers if not hasattr(r, name)]
        if missing:
            raise InputError(f"{', '.join(missing)} has no {name}.", hint="Change its passages at their source.")
        return [getattr(r, name) for r in self.retrievers]

    def retrieve(self, query: str, k: int = 5, where: Where | None = None) -> list[Passage]:
        """Find the best passages of all retrievers together, best first; arguments as ``BM25Retriever.retrieve``.

        Of more than two passages with the same text the best two count, while there are others.

        Returns:
            Passages with ``score`` set: in [0, 1] for ``scores`` (1: best in every list), > 0 for ``rrf``.

        Raises:
            InputError: k < 1, an invalid filter, or a filter that a retriever does not support.
            RetrievalError: ``fusion="scores"`` and a retriever returned no scores.
        """
        return self.retrieve_many([query], k, where)[0]

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """Run ``retrieve`` for each query, searching for all of them together where a retriever can."""
        depth, normal = max(check_k(k), self.depth), normalise(where)

        def search(texts: list[str]) -> Iterator[list[Passage]]:
            for some in batches(texts, _BATCH):
                lists = [_ask(r, some, depth, normal) for r in self.retrievers]
                for text, *ranked in zip(some, *lists):
                    fused = self._fuse([r.ranking for r in ranked], depth)
                    found = self._read(fused[:k], ranked)
                    if options := {*find_options(text)}:
                        found = _with_entries(text, options, found, self._read(fused[k:], ranked))
                    if max(Counter(p.text for p in found).values(), default=0) > _COPIES:
                        found = _without_copies(self._read(fused, ranked), k)
                    yield found

        return find_each(queries, search)

    def _fuse(self, ranked: Sequence[_Scored], depth: int) -> Ranking:
        total: dict[str, float] = defaultdict(float)
        for weight, found in zip(self.weights, ranked):
            for (identifier, _), value in zip(found, self._values([score for _, score in found], depth)):
                total[identifier] += weight * value
        scale = sum(self.weights) if self.fusion == "scores" else 1.0
        order = sorted(total, key=lambda i: -total[i])  # stable: ties in the order of the first list
        return [(i, total[i] / scale) for i in order]

    def _read(self, ranking: Ranking, ranked: Sequence[_Result]) -> list[Passage]:
        """Collect the passages of a ranking: from the results, or from the retrievers that hold them."""
        found: dict[str, Passage] = {}
        for retriever, one in zip(self.retrievers, ranked):
            wanted = [i for i, _ in ranking if i not in found]
            if one.passages is None:
                known = {i for i, _ in one.ranking}
                found.update({p.id: p for p in cast(Any, retriever).get([i for i in wanted if i in known])})
            else:
                found.update({i: one.passages[i] for i in wanted if i in one.passages})
        return [found[i].with_score(score) for i, score in ranking if i in found]

    def _values(self, given: Sequence[float | None], depth: int) -> list[float]:
        if self.fusion == "rrf":
            return [1.0 / (_RRF + rank) for rank in range(1, len(given) + 1)]
        scores = [score for score in given if score is not None and math.isfinite(score)]
        if len(scores) < len(given):
            raise RetrievalError(
                "A retriever returned passages without a score.",
                hint="Fuse by rank: HybridRetriever(..., fusion='rrf').",
            )
        if not scores:
            return []
        top, last = max(scores), min(scores)
        floor = last if len(scores) >= depth else min(0.0, last)
        return [(s - floor) / (top - floor) if top > floor else 1.0 for s in scores]


def _with_entries(query: str, options: Set[str], best: list[Passage], rest: list[Passage]) -> list[Passage]:
    """Return the best passages, the last of them replaced by entries of the options that a query names, if missing.

    "What does haul --wet do?" asks for what the manual of ``haul`` has below ``--wet``, though ``--wet`` is more often
    in its examples. Of several commands' entries those count whose titles have most words of the query.
    """
    words = {*_WORD.findall(query.casefold())}

    def named(passage: Passage) -> int:
        heading = str(passage.metadata.get("section") or "").rpartition(" > ")[2]
        title = _WORD.findall(passage.title.casefold())
        return len(words.intersection(title)) if is_entry_of(heading, options) else -1

    entries = [p for p in (*best, *rest) if named(p) >= 0]
    most = max(map(named, entries), default=0)
    wanted = [p for p in entries if named(p) == most][: min(_ENTRIES, len(best))]
    missing = [p for p in wanted if p not in best]
    kept = [p for p in best if p in wanted] + [p for p in best if p not in wanted][: len(best) - len(wanted)]
    return sorted([*kept, *missing], key=lambda p: -(p.score or 0.0)) if missing else best


def _without_copies(passages: Sequence[Passage], k: int) -> list[Passage]:
    """Return the best k; further copies of a text are among them only where there is nothing else."""
    counts: Counter[str] = Counter()
    first: list[Passage] = []
    further: list[Passage] = []
    for passage in passages:
        counts[passage.text] += 1
        (first if counts[passage.text] <= _COPIES else further).append(passage)
    chosen = [*first[:k], *further[: max(0, k - len(first))]]
    return sorted(chosen, key=lambda p: -(p.score or 0.0))


def _check_weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    out = tuple(float(w) for w in weights)
    if len(out) != count or not all(math.isfinite(w) and w >= 0 for w in out) or not any(out):
        raise InputError(
            f"weights must be {count} numbers of at least 0, not all 0, not {list(weights)!r}.",
            hint="One weight for each retriever, in their order.",
        )
    return out


def _ask(retriever: Retriever, queries: list[str], k: int, where: dict[str, Any] | None) -> list[_Result]:
    rank: Any = getattr(retriever, "rank_many", None)
    many: Any = getattr(retriever, "retrieve_many", None)
    late = callable(rank) and callable(getattr(retriever, "get", None))
    call: Callable[..., Any] = rank if late else many if callable(many) else retriever.retrieve
    options: dict[str, Any] = {}
    if where is not None:
        if "where" not in inspect.signature(call).parameters:
            raise InputError(
                f"{type(retriever).__name__} does not support metadata filters.",
                hint="Leave out `where`, or filter its passages at their source.",
            )
        options["where"] = where
    if late:
        return [_Result(ranking, None) for ranking in call(queries, k=k, **options)]
    found = call(queries, k=k, **options) if callable(many) else [call(q, k=k, **options) for q in queries]
    return [_Result([(p.id, p.score) for p in passages], {p.id: p for p in passages}) for passages in found]
