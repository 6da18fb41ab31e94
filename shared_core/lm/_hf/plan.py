"""Which prompts share what, and how they are laid out in a batch. Plain arithmetic on token ids; no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shared_core.lm._hf.cache import common_prefix

Ids = NDArray[np.int64]


def sort_key(ids: Ids) -> bytes:
    """Orders sequences so that those which share a beginning stand together."""
    return ids.astype(">i8").tobytes()


def common_length(sequences: Sequence[Ids]) -> int:
    """How many ids all sequences begin with in common."""
    if len(sequences) == 2:
        return common_prefix(sequences[0], sequences[1])
    # The least and the greatest in lexicographic order share exactly what all share.
    return common_prefix(min(sequences, key=sort_key), max(sequences, key=sort_key))


@dataclass(slots=True)
class RowTree:
    """The prompts of a row as a prefix tree behind ``start`` ids that they share and that are computed already.

    Attributes:
        tokens, positions: of the tree's nodes, each common stretch once, in an order in which parents come first.
        paths: for each prompt its nodes from the start on.
    """

    start: int
    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    paths: list[NDArray[np.int64]]

    def mask(self, start: int, end: int) -> NDArray[np.bool_]:
        """(end - start, nodes): whether a node of that stretch sees another, that is its ancestor or itself."""
        size = len(self.tokens)
        if len(self.paths) == 1:
            return np.tri(max(0, end - start), size, start, dtype=bool)
        seen = np.zeros((max(0, end - start), size), dtype=bool)
        for path in self.paths:
            depth = np.flatnonzero((path >= start) & (path < end))
            seen[np.ix_(path[depth] - start, path)] |= np.arange(len(path)) <= depth[:, None]
        return seen


def row_tree(bodies: Sequence[Ids], start: int) -> RowTree:
    """The prefix tree of what the bodies hold behind their first ``start`` ids."""
    order = sorted(range(len(bodies)), key=lambda i: sort_key(bodies[i]))
    tokens: list[Ids] = []
    positions: list[Ids] = []
    paths: list[Ids] = [_NONE] * len(bodies)
    before, path, count = _NONE, _NONE, 0
    for i in order:  # in sorted order a sequence shares most with its neighbour
        tail = bodies[i][start:]
        shared = common_prefix(before, tail)
        fresh = len(tail) - shared
        path = np.concatenate([path[:shared], np.arange(count, count + fresh)])
        tokens.append(tail[shared:])
        positions.append(np.arange(start + shared, start + len(tail)))
        paths[i], before, count = path, tail, count + fresh
    return RowTree(start, np.concatenate(tokens), np.concatenate(positions), paths)


_NONE: Ids = np.zeros(0, dtype=np.int64)


def similar_lengths(lengths: Sequence[int], waste: float = 0.3, floor: int = 32) -> list[list[int]]:
    """Groups of items that can be padded to one length with at most that share of padding (or ``floor`` tokens)."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    groups: list[list[int]] = []
    for i in order:
        longest = lengths[groups[-1][0]] if groups else 0
        if groups and lengths[i] >= longest * (1 - waste) - floor:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [sorted(g) for g in groups]


@dataclass(frozen=True, slots=True)
class Cost:
    """Rough costs in floating-point operations.

    Attributes:
        token: of a token through the layers.
        slot: of a query meeting one slot of the cache.
        read: of fetching a slot from memory, in queries that could meet it in the meantime.
    """

    token: float
    slot: float
    read: float = 8.0


@dataclass(frozen=True, slots=True)
class Row:
    """Prompts that are decoded as one tree.

    Attributes:
        members: indices of the prompts.
        fresh: tokens beyond the root that all prompts share, each once.
        branches: samples of all its prompts; steps: tokens a branch may get.
        slots: of the cache that it needs at most.
    """

    members: tuple[int, ...]
    fresh: int
    branches: int
    steps: int
    root: int

    @property
    def slots(self) -> int:
        return self.root + self.fresh + self.branches * self.steps

    @property
    def met(self) -> float:
        """Slots in use half way through."""
        return self.root + self.fresh + self.branches * self.steps / 2

    def prefill(self, cost: Cost) -> float:
        """Operations to compute its own part of the prompts."""
        return self.fresh * (cost.token + cost.slot * (self.root + self.fresh / 2))


def batch_cost(rows: Sequence[Row], cost: Cost) -> float:
    """Operations to prefill and decode rows beside each other, padded to the longest and widest."""
    widest, longest = max(r.branches for r in rows), max(r.met for r in rows)
    decode = max(r.steps for r in rows) * len(rows) * (widest + cost.read) * longest * cost.slot
    return decode + sum(r.prefill(cost) for r in rows)


def plan_rows(
    bodies: Sequence[Ids], branches: Sequence[int], steps: Sequence[int], cost: Cost, *, join: bool | None = None
) -> list[Row]:
    """Rows for the prompts: those that share much beyond what all share go into one tree, the others beside it.

    In one row every query also meets (and masks) the other prompts' slots; in rows of their own, what the prompts
    share is fetched from memory once for each at every step, and what they share beyond the common root is also
    computed once for each. Three plans are compared: all in one row, each in its own, and neighbours joined where
    that pays. ``join`` overrides the choice: all in one row, or none.
    """
    root = common_length(bodies)
    order = sorted(range(len(bodies)), key=lambda i: sort_key(bodies[i]))
    shared = [common_prefix(bodies[i], bodies[j]) for i, j in pairwise(order)]
    alone = [Row((i,), len(bodies[i]) - root, branches[i], steps[i], root) for i in order]
    if join is False or len(alone) == 1:
        return alone
    together = alone[0]
    pairs = [alone[0]]
    for row, common in zip(alone[1:], shared):
        together = _joined(together, row, common)
        both = _joined(pairs[-1], row, common)
        if batch_cost([both], cost) <= batch_cost([pairs[-1]], cost) + batch_cost([row], cost):
            pairs[-1] = both
        else:
            pairs.append(row)
    if join:
        return [together]
    return min(alone, pairs, [together], key=lambda rows: batch_cost(rows, cost))


def _joined(left: Row, right: Row, common: int) -> Row:
    """Both rows in one; ``common`` is how many ids the last prompt of one and the first of the other share."""
    return Row(
        left.members + right.members,
        left.fresh + right.fresh - (common - left.root),
        left.branches + right.branches,
        max(left.steps, right.steps),
        left.root,
    )


def waves(rows: Sequence[Row], max_slots: int, max_branches: int) -> list[list[Row]]:
    """Consecutive rows that fit in memory together (a row alone always counts as fitting)."""
    found: list[list[Row]] = []
    widest = live = 0
    for row in rows:
        grown = max(widest, row.slots)
        if found and (len(found[-1]) + 1) * grown <= max_slots and live + row.branches <= max_branches:
            found[-1].append(row)
            widest, live = grown, live + row.branches
        else:
            found.append([row])
            widest, live = row.slots, row.branches
    return found
