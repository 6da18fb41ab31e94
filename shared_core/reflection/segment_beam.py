"""Bookkeeping of Self-RAG's segment-level beam search (tree decoding): which paths live on. It knows no model.

A path is a sequence of segments, its score the *sum* of their scores (a product would flip the order at a negative
one). Finished paths stay and compete with growing ones. The hard constraint prunes while searching.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from shared_core.errors import InputError
from shared_core.types import Critique

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Segment(Generic[T]):
    """One sentence of a path.

    Attributes:
        text: as generated, reflection tokens included (it is the prompt of what follows).
        score: ``segment_score``.
        payload: what the caller keeps with it (token ids, usage, …).
        passage_id: the passage it was written from, which is its citation; ``None`` without retrieval.
        critique: its parts.
        contradicted: its support verdict is ``[No support / Contradictory]``.
        last: the model ended its answer with it.

    >>> Segment("It is red.", score=1.5, payload=None, passage_id="p1").last
    False
    """

    text: str
    score: float
    payload: T
    passage_id: str | None = None
    critique: Critique | None = None
    contradicted: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class Path(Generic[T]):
    """Segments from the start on.

    >>> path = Path() + Segment("It is red.", score=1.5, payload=None, passage_id="p1", last=True)
    >>> path.score, path.finished
    (1.5, True)
    """

    segments: tuple[Segment[T], ...] = ()

    @property
    def score(self) -> float:
        """Sum of the segments' scores; one that is not finite makes the path the worst there is."""
        total = sum(s.score for s in self.segments)
        return total if math.isfinite(total) else -math.inf

    @property
    def mean_score(self) -> float:
        """Score per segment, 0 for none: does not favour long answers."""
        return self.score / len(self.segments) if self.segments else 0.0

    @property
    def finished(self) -> bool:
        """Whether the model ended its answer."""
        return bool(self.segments) and self.segments[-1].last

    @property
    def text(self) -> str:
        """All segments' text, reflection tokens included."""
        return "".join(s.text for s in self.segments)

    def __add__(self, segment: Segment[T]) -> Path[T]:
        return Path((*self.segments, segment))


@dataclass(frozen=True, slots=True)
class Beam(Generic[T]):
    """The state of a search.

    Attributes:
        paths: best first, at most ``width``; finished ones among them.
        width: B.
        max_depth: segments per path at most.
        hard_constraint: prune segments whose verdict is contradiction.
        rank: compare paths by the ``sum`` of their segments' scores, or their ``mean``.
        pruned: segments the hard constraint has removed so far.

    >>> red, blue = (Segment(f"It is {c}.", score, None, last=True) for c, score in (("red", 1.5), ("blue", 0.5)))
    >>> beam = Beam(width=2).advance([[blue, red]])
    >>> beam.best.text, beam.open
    ('It is red.', ())
    """

    paths: tuple[Path[T], ...] = (Path(),)
    width: int = 2
    max_depth: int = 7
    hard_constraint: bool = True
    rank: Literal["sum", "mean"] = "sum"
    pruned: int = 0

    def __post_init__(self) -> None:
        """Refuse a search that cannot hold a path."""
        if self.width < 1 or self.max_depth < 1:
            raise InputError(f"width and max_depth must be at least 1, not {self.width} and {self.max_depth}.")

    @property
    def open(self) -> tuple[Path[T], ...]:
        """The paths to expand next; none when the search is over."""
        return tuple(p for p in self.paths if not self._ended(p))

    @property
    def best(self) -> Path[T]:
        """The best path so far; one without segments if every continuation was pruned."""
        return self.paths[0] if self.paths else Path()

    def advance(self, continuations: Sequence[Iterable[Segment[T]]]) -> Beam[T]:
        """The next state, from the continuations of each path of ``open``, in that order.

        A path all of whose continuations are pruned (or that has none) survives as it is and ends there, if it has
        segments: what was written before a dead end still is an answer.

        Raises:
            InputError: there are not as many groups of continuations as open paths.
        """
        growing = self.open
        if len(continuations) != len(growing):
            raise InputError(f"There are {len(growing)} open paths and {len(continuations)} groups of continuations.")
        candidates = [p for p in self.paths if self._ended(p)]
        pruned = 0
        for path, group in zip(growing, continuations):
            segments = list(group)
            kept = [s for s in segments if not (self.hard_constraint and s.contradicted)]
            pruned += len(segments) - len(kept)
            if kept:
                candidates.extend(path + s for s in kept)
            elif path.segments:
                candidates.append(_closed(path))
        # A stable sort: among equals, what was found first stays first.
        ranked = sorted(candidates, key=self._key, reverse=True)
        return replace(self, paths=tuple(ranked[: self.width]), pruned=self.pruned + pruned)

    def _ended(self, path: Path[T]) -> bool:
        return path.finished or len(path.segments) >= self.max_depth

    def _key(self, path: Path[T]) -> float:
        return path.score if self.rank == "sum" else path.mean_score


def _closed(path: Path[T]) -> Path[T]:
    return Path((*path.segments[:-1], replace(path.segments[-1], last=True)))
