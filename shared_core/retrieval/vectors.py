"""Vectors in int8, and exact search over them.

A unit vector becomes whole numbers from -127 to 127, the largest ±127, and one scale, the inverse of their norm. That
is a quarter of float32's memory, and cosines are off by about 0.001, less than by the rounding of the model itself
(recall is the same: ``benchmarks/retrieval.py``). Queries are rounded alike, so equal texts have a cosine of exactly 1.

The search multiplies all queries with all vectors, block by block. The product is computed in float32 over whole
numbers whose sums stay below 2²⁴ (127 · 127 · d for d ≤ 1,040), so it is exact: it does not depend on blocks, threads,
library or machine, and an index gives the same ranking for the same query vector everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shared_core.support.pickling import Portable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]
    Floats = NDArray[np.float32]

Key = TypeVar("Key", str, int)
_BLOCK = 4096  # rows converted to float32 at a time, so that they stay in the processor's cache
_SCORES = 8_000_000  # cosines in memory at a time


@dataclass(frozen=True, slots=True)
class Coded:
    """Vectors of one passage: ``codes`` (n, d) int8, ``scales`` (n,) float32; ``codes · scale`` has unit norm."""

    codes: Codes
    scales: Floats

    def to_bytes(self) -> bytes:
        """Serialize as scales, then codes row by row; little-endian."""
        return self.scales.astype("<f4").tobytes() + self.codes.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, dimension: int) -> Coded:
        """Reverse ``to_bytes``; ValueError if the length does not match."""
        import numpy as np

        rows, rest = divmod(len(data), 4 + dimension)
        if rest or not rows:
            raise ValueError(f"{len(data)} bytes are not vectors of dimension {dimension}")
        scales = np.frombuffer(data, "<f4", rows)
        return cls(np.frombuffer(data, np.int8, offset=4 * rows).reshape(rows, dimension), scales)


def encode(vectors: Floats) -> Coded:
    """Code (n, d) float vectors of any norm; zero vectors, which have no direction, stay zero."""
    import numpy as np

    largest = np.abs(vectors).max(axis=1, keepdims=True)
    factors = np.where(largest > 0, 127 / np.maximum(largest, np.float32(1e-30)), 0)
    codes = np.rint(vectors * factors).astype(np.int8)
    squares = np.einsum("nd,nd->n", codes, codes, dtype=np.int64)
    scales = np.where(squares > 0, 1 / np.sqrt(np.maximum(squares, 1)), 0).astype(np.float32)
    return Coded(codes, scales)


class VectorTable(Portable, Generic[Key]):
    """Vectors of many passages in one array, by key. Safe to use from several threads at once.

    Memory: (d + 4) bytes a vector, up to half as much again while passages are added one by one.

    Args:
        room: vectors to allocate at first, if their number is known.
    """

    _left_behind = ("_all",)

    def __init__(self, dimension: int, room: int = 0) -> None:
        import numpy as np

        self.dimension = dimension
        self._lock = threading.Lock()
        self._codes: Codes = np.empty((room, dimension), np.int8)
        self._scales: Floats = np.empty(room, np.float32)
        self._ends: list[int] = []  # end of each slot's vectors, which begin where the slot before ends
        self._keys: list[Key] = []
        self._slot: dict[Key, int] = {}
        self._dead: set[int] = set()
        self._all: _State[Key] | None = None  # kept between changes

    def __len__(self) -> int:
        return len(self._slot)

    def put(self, items: Iterable[tuple[Key, Coded]]) -> None:
        """Add passages; a passage with a known key replaces the old one."""
        with self._lock:
            self._all = None
            for key, coded in items:
                self._append(key, coded)
            self._tidy()

    def discard(self, keys: Iterable[Key]) -> None:
        """Delete passages; unknown keys are ignored."""
        with self._lock:
            self._all = None
            gone = {self._slot.pop(key) for key in keys if key in self._slot}
            self._dead = self._dead | gone
            self._tidy()

    def nearest(self, queries: Floats, k: int | None, allowed: set[Key] | None = None) -> list[list[tuple[Key, float]]]:
        """Rank passages for each query by the highest cosine of any of their vectors, in [-1, 1], best first.

        Equal cosines come in the order in which the passages were added.

        Args:
            queries: (q, d) float32.
            k: the most passages to return; ``None`` for all.
            allowed: keys to consider; ``None`` for all.
        """
        import numpy as np

        state = self._state(allowed)
        out: list[list[tuple[Key, float]]] = []
        if state is None:
            return [[] for _ in queries]
        asked = encode(np.ascontiguousarray(queries, np.float32))
        step = max(1, _SCORES // len(state.scales))
        for first in range(0, len(asked.codes), step):
            some = Coded(asked.codes[first : first + step], asked.scales[first : first + step])
            for scores in _cosines(state, some):
                best = highest(scores[state.slots], k)
                out.append([(state.keys[int(state.slots[i])], float(scores[state.slots[i]])) for i in best])
        return out

    def _append(self, key: Key, coded: Coded) -> None:
        import numpy as np

        first = self._ends[-1] if self._ends else 0
        last = first + len(coded.codes)
        if last > len(self._codes):
            room = max(last, len(self._codes) * 3 // 2, 64)
            codes, scales = np.empty((room, self.dimension), np.int8), np.empty(room, np.float32)
            codes[:first], scales[:first] = self._codes[:first], self._scales[:first]
            self._codes, self._scales = codes, scales  # searches under way keep the old arrays
        self._codes[first:last], self._scales[first:last] = coded.codes, coded.scales
        if key in self._slot:
            self._dead = self._dead | {self._slot[key]}
        self._slot[key] = len(self._keys)
        self._keys.append(key)
        self._ends.append(last)

    def _tidy(self) -> None:
        """Drop deleted vectors once they are the larger part."""
        if len(self._dead) * 2 <= len(self._keys) or not self._dead:
            return
        fresh: VectorTable[Key] = VectorTable(self.dimension)
        for slot, (first, last) in enumerate(zip([0, *self._ends], self._ends)):
            if slot not in self._dead:
                fresh._append(self._keys[slot], Coded(self._codes[first:last], self._scales[first:last]))
        self._codes, self._scales = fresh._codes, fresh._scales
        self._ends, self._keys, self._slot, self._dead = fresh._ends, fresh._keys, fresh._slot, set()

    def _state(self, allowed: set[Key] | None) -> _State[Key] | None:
        """Return a view for a search that later changes leave alone; ``None`` if there are no vectors."""
        with self._lock:
            if self._all is None and self._slot:
                self._all = self._snapshot()
            state = self._all
        return state if state is None or allowed is None else state.only(allowed)

    def _snapshot(self) -> _State[Key]:
        import numpy as np

        used = self._ends[-1]
        starts = np.array([0, *self._ends[:-1]], np.int64)
        slots = np.array(sorted(self._slot.values()), np.int64)
        return _State(self._codes[:used], self._scales[:used], starts, slots, self._keys)


@dataclass(frozen=True, slots=True)
class _State(Generic[Key]):
    codes: Codes  # (n, d)
    scales: Floats  # (n,)
    starts: NDArray[np.int64]  # (slots,) first vector of each
    slots: NDArray[np.int64]  # slots that are not deleted
    keys: Sequence[Key]  # only ever appended to

    def only(self, allowed: set[Key]) -> _State[Key]:
        """Restrict the search to some passages."""
        import numpy as np

        kept = [slot for slot in self.slots.tolist() if self.keys[slot] in allowed]
        return _State(self.codes, self.scales, self.starts, np.array(kept, np.int64), self.keys)


def _cosines(state: _State[Key], asked: Coded) -> Floats:
    """Compute the highest cosine of each passage for each query: (q, slots)."""
    import numpy as np

    queries = asked.codes.T.astype(np.float32)  # (d, q)
    dots = np.empty((len(state.codes), queries.shape[1]), np.float32)
    for first in range(0, len(dots), _BLOCK):
        block = state.codes[first : first + _BLOCK].astype(np.float32)
        np.matmul(block, queries, out=dots[first : first + _BLOCK])
    dots *= state.scales[:, None]
    best = np.maximum.reduceat(dots, state.starts, axis=0).T * asked.scales[:, None]
    return np.clip(best, -1, 1)


def highest(scores: NDArray[np.floating[Any]], k: int | None) -> NDArray[np.int64]:
    """Return the positions of the ``k`` highest of (n,) scores (``None``: of all), highest first, ties in order."""
    import numpy as np

    places = np.arange(len(scores))
    if k is not None and len(scores) > k:
        bar = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= bar)
    return places[np.argsort(-scores[places], kind="stable")][:k]
