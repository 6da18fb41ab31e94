"""Find shared prefixes of prompts and lay prompts out in a batch: plain arithmetic on token ids, no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def common_prefix(a: Ids, b: Ids) -> int:
    """Count the ids that both begin with."""
    size = min(len(a), len(b))
    different = np.flatnonzero(a[:size] != b[:size])  # vectorised: prompts have thousands of ids
    return int(different[0]) if len(different) else size


def sort_key(ids: Ids) -> bytes:
    """Return a key that sorts sequences with a common prefix next to each other."""
    return ids.astype(">i8").tobytes()  # big-endian bytes of ids that are not negative sort as the ids do


def common_length(sequences: Sequence[Ids]) -> int:
    """Count the ids that all sequences begin with."""
    # The least and the greatest in lexicographic order share exactly what all share.
    return common_prefix(min(sequences, key=sort_key), max(sequences, key=sort_key))


@dataclass(slots=True)
class RowTree:
    """The prompts of a row as a prefix tree after ``start`` shared ids that are already computed.

    Attributes:
        tokens, positions: of the tree's nodes, each common stretch once, in an order in which parents come first.
        paths: for each prompt its nodes from the start on.
    """

    start: int
    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    paths: list[NDArray[np.int64]]

    def mask(self, start: int, end: int) -> NDArray[np.bool_]:
        """Return (end - start, nodes): whether a node of that stretch sees a node, that is its ancestor or itself."""
        size = len(self.tokens)
        if len(self.paths) == 1:  # a chain: plain causal attention
            return np.tri(max(0, end - start), size, start, dtype=bool)
        seen = np.zeros((max(0, end - start), size), dtype=bool)
        for path in self.paths:
            depth = np.flatnonzero((path >= start) & (path < end))  # depths of the path's nodes in this stretch
            seen[np.ix_(path[depth] - start, path)] |= np.arange(len(path)) <= depth[:, None]
        return seen


def row_tree(bodies: Sequence[Ids], start: int) -> RowTree:
    """Build the prefix tree of the bodies after their first ``start`` ids."""
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


def similar_lengths(lengths: Sequence[int]) -> list[list[int]]:
    """Group items that can be padded to one length with at most 30 % padding and 32 tokens."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])  # the first of a group is its longest
    groups: list[list[int]] = []
    for i in order:
        longest = lengths[groups[-1][0]] if groups else 0
        # A forward pass has a fixed cost, worth about 32 tokens of padding.
        if groups and lengths[i] >= longest * 0.7 - 32:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [sorted(g) for g in groups]


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated costs in floating-point operations.

    Attributes:
        token: of a token through the layers.
        slot: of a query meeting one slot of the cache.
        read: of fetching a slot from memory, in queries that could meet it in the meantime.
        fill: how many tokens a forward pass must have before more of them take longer (below that, fetching the
            weights from memory takes all the time).
        stems: whether what all prompts share is held and read once, instead of once for each lane.
    """

    token: float
    slot: float
    read: float = 25.0
    fill: int = 1
    stems: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Prompts that are computed as one tree, and how their samples are decoded.

    While a token is decoded every branch of a lane meets all slots of that lane, its neighbours' too, and masks what
    it may not see. Many branches in one lane fetch the prompt from memory once and waste attention on each other;
    a lane for each branch is an ordinary batch, which fetches the prompt once for each. The best lies between.

    Attributes:
        members: indices of the prompts.
        root: tokens that all prompts of the batch share; carried: those of them that each lane holds, all or none.
        fresh: tokens beyond the root, those shared once.
        depth: tokens beyond the root of the longest of its prompts.
        branches: samples of all its prompts; steps: tokens a branch may get.
        lanes: rows of the cache that the branches are spread over once the prompts are computed.
    """

    members: tuple[int, ...]
    root: int
    carried: int
    fresh: int
    depth: int
    branches: int
    steps: int
    lanes: int = 1

    @property
    def width(self) -> int:
        """Branches per lane."""
        return -(-self.branches // self.lanes)

    @property
    def prompt(self) -> int:
        """Cache slots each lane needs for prompt tokens that are not common to all prompts."""
        return self.carried + max(self.depth, -(-self.fresh // self.lanes))

    @property
    def slots(self) -> int:
        """Upper bound of the slots of a lane."""
        return max(self.carried + self.fresh, self.prompt + self.width * self.steps)

    def prefill(self, cost: Cost) -> float:
        """Operations to compute the row's own part of the prompts."""
        return self.fresh * (cost.token + cost.slot * (self.root + self.fresh / 2))

    def spread(self, width: int) -> Row:
        """Return the same prompts with at most that many branches per lane."""
        return replace(self, lanes=-(-self.branches // min(width, self.branches)))


def batch_cost(rows: Sequence[Row], cost: Cost) -> float:
    """Count the operations to prefill and decode rows together, padded to the longest and widest lane."""
    # All lanes are padded to the widest: each step feeds (lanes, width) tokens.
    fed = sum(r.lanes for r in rows) * max(r.width for r in rows)
    return max(r.steps for r in rows) * max(cost.fill, fed) * cost.token + _attention(rows, cost)


def _attention(rows: Sequence[Row], cost: Cost) -> float:
    """Count the operations that depend on the layout: prefill, and attention while decoding."""
    lanes, widest = sum(r.lanes for r in rows), max(r.width for r in rows)
    met = max(r.prompt + r.width * r.steps / 2 for r in rows)  # slots in use half way through
    stem = max(r.root - r.carried for r in rows)
    # Query-slot pairs of one step: each lane's own slots, and the stem that all lanes read together.
    pairs = lanes * (widest + cost.read) * met + (lanes * widest + cost.read) * stem
    decode = max(r.steps for r in rows) * pairs * cost.slot
    # Spreading writes every slot of the prompt once more for each lane, which costs about what reading it twice does.
    copies = 2 * cost.read * cost.slot * sum(r.lanes * r.prompt for r in rows if r.lanes > 1)
    return decode + copies + sum(r.prefill(cost) for r in rows)


def plan_rows(
    bodies: Sequence[Ids],
    branches: Sequence[int],
    steps: Sequence[int],
    cost: Cost,
    *,
    join: bool | None = None,
    max_slots: int | None = None,
) -> list[Row]:
    """Plan the rows: prompts that share much beyond the common prefix go into one tree, others into rows of their own.

    In one row what the prompts share is computed once, and in rows of their own once for each; three plans are
    compared, each with lanes of several widths: all in one row, each in its own, and neighbours joined where that
    pays.

    Args:
        bodies: token ids of the prompts; branches: samples of each; steps: tokens that a sample of each may get.
        cost: of the model.
        join: overrides the choice: all in one row, or none, and each row in one lane.
        max_slots: that all lanes together should fit into, if any plan does.
    """
    root = common_length(bodies)
    # In sorted order each prompt shares most with a neighbour, so that joining neighbours is enough.
    order = sorted(range(len(bodies)), key=lambda i: sort_key(bodies[i]))
    shared = [common_prefix(bodies[i], bodies[j]) for i, j in pairwise(order)]
    carried = 0 if cost.stems else root  # without stems every lane holds the common prefix itself
    alone = [
        Row((i,), root, carried, len(bodies[i]) - root, len(bodies[i]) - root, branches[i], steps[i]) for i in order
    ]
    together, pairs = alone[0], [alone[0]]
    for row, common in zip(alone[1:], shared):
        together = _joined(together, row, common)
        both = _joined(pairs[-1], row, common)
        if _best(both, cost) <= _best(pairs[-1], cost) + _best(row, cost):  # greedy, left to right
            pairs[-1] = both
        else:
            pairs.append(row)
    if join is not None:
        return [together] if join else alone
    plans = [[r.spread(w) for r in rows] for rows in (alone, pairs, [together]) for w in _widths(rows)]
    fitting = [p for p in plans if max_slots is None or _held(p) <= max_slots]
    # If nothing fits, the smallest plan: `waves` cuts it into batches that do.
    return min(fitting, key=lambda p: batch_cost(p, cost)) if fitting else min(plans, key=_held)


def _best(row: Row, cost: Cost) -> float:
    return min(_attention([row.spread(w)], cost) for w in _widths([row]))


def _widths(rows: Sequence[Row]) -> list[int]:
    """List lane widths worth comparing: 1, 2, 3, 4, 6, 8, 12, … up to the widest row in one lane."""
    widest = max(r.branches for r in rows)
    steps = [w for k in range(widest.bit_length()) for w in (1 << k, 3 << k) if w < widest]
    return [*sorted(steps), widest]


def _held(rows: Sequence[Row]) -> int:
    """Count the slots that the rows hold together at most."""
    return sum(r.lanes for r in rows) * max(r.slots for r in rows) + max(r.root - r.carried for r in rows)


def _joined(left: Row, right: Row, common: int) -> Row:
    """Join two rows; ``common`` counts the ids that the last prompt of one and the first of the other share."""
    return replace(
        left,
        members=left.members + right.members,
        fresh=left.fresh + right.fresh - (common - left.root),
        depth=max(left.depth, right.depth),
        branches=left.branches + right.branches,
        steps=max(left.steps, right.steps),
    )


def waves(rows: Sequence[Row], max_slots: int, max_branches: int) -> list[list[Row]]:
    """Group consecutive rows that fit in memory together; a single row always counts as fitting."""
    found: list[list[Row]] = []
    widest = lanes = live = 0
    for row in rows:
        grown = max(widest, row.slots)
        if (
            found
            and (lanes + row.lanes) * grown + row.root - row.carried <= max_slots
            and live + row.branches <= max_branches
        ):
            found[-1].append(row)
            widest, lanes, live = grown, lanes + row.lanes, live + row.branches
        else:
            found.append([row])
            widest, lanes, live = row.slots, row.lanes, row.branches
    return found
