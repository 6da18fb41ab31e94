"""Pack rows for training: shared beginnings are computed once, and several trees of rows fill a sequence.

Rows of a group mostly share a long beginning (demonstrations, passages). They become a tree
(``shared_core.training.trees``), whose loss is the same as that of separate rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.lab.rows.row import LabRow
from benchmarks.lab.rows.source import RowSource
from shared_core.errors import InputError
from shared_core.lm.encoding import Encoder
from shared_core.training.trees import Tree

_MISSES = 6
"""Number of trees that may not fit before a step counts as full; they come first in the next step."""


@dataclass
class LabTree(Tree):
    """A tree of rows, with the family of each."""

    families: list[str] = field(default_factory=list)


def grow(rows: Sequence[LabRow], encoder: Encoder, length: int) -> tuple[list[LabTree], int]:
    """Make trees of at most ``length`` tokens; also return the number of rows left out because they are longer."""
    trees: list[LabTree] = []
    dropped = 0
    for row in rows:
        ids, labels = row.encode(encoder)
        if len(ids) > length:
            dropped += 1
            continue
        if not trees or len(trees[-1].ids) + trees[-1].growth(ids) > length:
            trees.append(LabTree())
        trees[-1].add(ids, labels)
        trees[-1].families.append(row.family)
    return trees, dropped


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the stream of groups.

    Attributes:
        group: number of the next group.
        waiting: (group, index of its tree) of the trees that have not fitted yet.
    """

    group: int = 0
    waiting: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences of trees, all of one length.

    Attributes:
        ids: (B, L) tokens, padded.
        positions: (B, L) positions within the rows.
        seen: (B, L, L) attention mask; padding attends to itself.
        sequence, after: (T,) sequence and position at which each learned token is predicted.
        target: (T,) learned tokens.
        row: (T,) row of each.
        weight: (T,) share of each in the step's loss; the weights of a step add up to 1.
        families: (R,) family of each row.
        used: number of tokens that are not padding.
    """

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    seen: NDArray[np.bool_]
    sequence: NDArray[np.int64]
    after: NDArray[np.int64]
    target: NDArray[np.int64]
    row: NDArray[np.int64]
    weight: NDArray[np.float32]
    families: tuple[str, ...]
    used: int


@dataclass(frozen=True, slots=True)
class Step:
    """The data of one step of the optimiser.

    Attributes:
        batches: one for each length of sequences, since attention over short ones is cheaper.
        dropped: number of rows left out because they are longer than the longest sequence.
    """

    batches: tuple[Batch, ...]
    dropped: int

    @property
    def used(self) -> int:
        """Number of tokens that are not padding."""
        return sum(b.used for b in self.batches)


@dataclass
class _Bins:
    """Sequences while they are filled, within a budget of tokens."""

    budget: int
    bins: dict[int, list[list[LabTree]]] = field(default_factory=dict)
    room: dict[int, list[int]] = field(default_factory=dict)

    def put(self, tree: LabTree, length: int) -> bool:
        """Put a tree into the fullest sequence of that length with room, or a new one; False if neither is possible."""
        size = len(tree.ids)
        room = self.room.setdefault(length, [])
        bins = self.bins.setdefault(length, [])
        fitting = [i for i, left in enumerate(room) if left >= size]
        if not fitting:
            if length > self.budget:
                return False
            self.budget -= length
            bins.append([])
            room.append(length)
            fitting = [len(bins) - 1]
        # Best fit: the fullest sequence with room, so that little padding is left.
        best = min(fitting, key=room.__getitem__)
        bins[best].append(tree)
        room[best] -= size
        return True


class Packer:
    """A maker of steps, each determined by the cursor at which the one before it ended.

    Args:
        source: source of the rows.
        encoder: encoder of the model's tokenizer.
        lengths: lengths of sequences, in tokens; a tree goes into the shortest that holds it.
        tokens: tokens of a step, padding included; at least the longest sequence.

    Raises:
        InputError: there is no length, one is below 1, or ``tokens`` is too small.
    """

    def __init__(
        self,
        source: RowSource,
        encoder: Encoder,
        lengths: Sequence[int] = (128, 256, 384, 512, 640, 768, 1024),
        tokens: int = 8192,
    ) -> None:
        if not lengths or min(lengths) < 1 or tokens < max(lengths):
            raise InputError(f"A step of {tokens!r} tokens cannot hold sequences of {list(lengths)} tokens.")
        self.source, self.encoder, self.lengths, self.tokens = source, encoder, sorted(lengths), tokens
        self._trees: dict[int, list[LabTree]] = {}

    def step(self, cursor: Cursor) -> tuple[Step, Cursor]:
        """Make the step at a cursor; also return the cursor after it."""
        bins = _Bins(self.tokens)
        waiting: list[tuple[int, int]] = []
        queue = list(cursor.waiting)
        group, dropped = cursor.group, 0
        while len(waiting) < _MISSES:
            if not queue:
                trees, lost = self._grown(group)
                dropped += lost
                queue = [(group, i) for i in range(len(trees))]
                group += 1
                continue
            place = queue.pop(0)  # trees that did not fit before come first, so that none waits long
            tree = self._grown(place[0])[0][place[1]]
            if not bins.put(tree, next(n for n in self.lengths if n >= len(tree.ids))):
                waiting.append(place)
        after = Cursor(group, (*waiting, *queue))
        # Rows follow from the group's number; only trees that still wait are worth keeping in memory.
        kept = {g for g, _ in after.waiting}
        self._trees = {g: t for g, t in self._trees.items() if g in kept}
        return Step(self._batches(bins), dropped), after

    def _grown(self, group: int) -> tuple[list[LabTree], int]:
        dropped = 0
        if group not in self._trees:
            rows = self.source.group(group).rows
            self._trees[group], dropped = grow(rows, self.encoder, self.lengths[-1])
        return self._trees[group], dropped

    def _batches(self, bins: _Bins) -> tuple[Batch, ...]:
        pad = int(self.encoder.tokenizer.pad_token_id)
        made = [_assemble(trees, length, pad) for length, trees in sorted(bins.bins.items()) if trees]
        # The batches of a step are separate backward passes; their weights add up to 1 over the whole step.
        total = sum(float(b.weight.sum()) for b in made)
        return tuple(replace(b, weight=(b.weight / total).astype(np.float32)) for b in made)


def _assemble(bins: Sequence[Sequence[LabTree]], length: int, pad: int) -> Batch:
    shape = (len(bins), length)
    ids = np.full(shape, pad, dtype=np.int64)
    positions = np.zeros(shape, dtype=np.int64)
    seen = np.zeros((*shape, length), dtype=bool)
    seen[:, np.arange(length), np.arange(length)] = True  # padding too: a softmax over nothing is NaN
    found: list[tuple[int, int, int, int]] = []
    families: list[str] = []
    used = 0
    for b, trees in enumerate(bins):
        start = 0
        for tree in trees:
            end = start + len(tree.ids)
            ids[b, start:end] = tree.ids
            positions[b, start:end] = tree.positions()
            seen[b, start:end, start:end] = tree.seen()
            found += [(b, start + at, target, len(families) + row) for at, target, row in tree.targets]
            families += tree.families
            start = end
        used += start
    table = np.asarray(found, dtype=np.int64).reshape(-1, 4)  # (T, 4): sequence, position, target, row
    weight = np.concatenate([tree.weights() for trees in bins for tree in trees] or [np.empty(0, np.float32)])
    return Batch(
        ids, positions, seen, table[:, 0], table[:, 1], table[:, 2], table[:, 3],
        weight, tuple(families), used,
    )  # fmt: skip
