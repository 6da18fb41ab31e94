"""Encode what rows have in common once: rows that begin alike become one tree of tokens.

Rows of one source repeat the task and the passages; only the question and the answer differ. In a tree each token
attends to its ancestors alone and has its depth as position, so every row is computed as if it were encoded by itself,
while its beginning is paid for once. Five questions on one passage cost a third of five rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shared_core.training.rows import IGNORED

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Tree:
    """Rows that share their beginnings, as a prefix tree.

    Attributes:
        ids: n tokens, parents before children. A row's last token is only a target.
        parents: parent of each token, -1 for the first ones.
        targets: (token before, token to predict, row) for every learned token of every row.
    """

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    targets: list[tuple[int, int, int]] = field(default_factory=list)
    rows: int = 0
    _known: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    def add(self, ids: Sequence[int], labels: Sequence[int]) -> None:
        """Add a row: its tokens, and its labels of the same length (``IGNORED`` where nothing is learned)."""
        at = -1
        for place, (token, label) in enumerate(zip(ids, labels, strict=True)):
            if label != IGNORED and place:
                self.targets.append((at, label, self.rows))
            if place == len(ids) - 1:
                break
            found = self._known.setdefault((at, token), len(self.ids))
            if found == len(self.ids):
                self.ids.append(token)
                self.parents.append(at)
            at = found
        self.rows += 1

    def growth(self, ids: Sequence[int]) -> int:
        """Return the number of tokens that a row would add."""
        at = -1
        for shared, token in enumerate(ids[:-1]):
            found = self._known.get((at, token))
            if found is None:
                return len(ids) - 1 - shared
            at = found
        return 0

    def seen(self) -> NDArray[np.bool_]:
        """Return the (n, n) mask: each token attends to itself and its ancestors."""
        mask = np.zeros((len(self.ids), len(self.ids)), dtype=bool)
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                mask[i] = mask[parent]  # parents come first, so the row of the mask is complete
            mask[i, i] = True
        return mask

    def positions(self) -> list[int]:
        """Return the position of each token in its row."""
        found: list[int] = []
        for parent in self.parents:
            found.append(found[parent] + 1 if parent >= 0 else 0)
        return found

    def weights(self) -> NDArray[np.float32]:
        """Weigh each learned token, so that a row's decision weighs the same in all rows.

        The first learned token is often a decision: to answer, to quote or to decline. With equal weights it is lost
        among the words of long quotes. It weighs 1; another token of a row of n learned ones weighs n^(-1/3).
        """
        row = np.asarray([r for _, _, r in self.targets], dtype=np.int64)
        weight = np.bincount(row, minlength=self.rows)[row].astype(np.float32) ** np.float32(-1 / 3)
        weight[np.unique(row, return_index=True)[1]] = 1.0
        return weight


def plant_trees(rows: Sequence[Mapping[str, list[int]]], most: int) -> list[Tree]:
    """Merge rows into trees of at most ``most`` tokens, in an order of their own; a longer row is a tree by itself.

    Rows that share little with a tree of more than a third of that begin the next: attention costs the square of a
    tree's length, so that two groups of questions in one tree cost more than in two.

    Args:
        rows: ``input_ids`` and ``labels`` of equal length, as ``encode_rows`` makes them.
        most: tokens of a tree.
    """
    trees: list[Tree] = []
    for row in sorted(rows, key=lambda row: row["input_ids"]):  # what begins alike is side by side
        size, growth = (len(trees[-1].ids), trees[-1].growth(row["input_ids"])) if trees else (most, most)
        foreign = 2 * growth > len(row["input_ids"]) and 3 * size > most
        if size + growth > most or foreign:
            trees.append(Tree())
        trees[-1].add(row["input_ids"], row["labels"])
    return trees


def collate_tree(trees: Sequence[Tree]) -> dict[str, Tensor]:
    """Make the tensors of one tree: ids, depths, the mask of ancestors, and what should follow where.

    ``input_ids`` and ``position_ids`` are [1, L]; ``attention_mask`` [1, 1, L, L], true where a token attends;
    ``nodes`` [T]; ``labels`` [1, T + 1], the first of them ignored as trainers shift labels by one; ``weights`` [T]
    as ``Tree.weights`` gives them.
    """
    import torch

    (tree,) = trees
    return {
        "input_ids": torch.tensor([tree.ids]),
        "position_ids": torch.tensor([tree.positions()]),
        "attention_mask": torch.from_numpy(tree.seen())[None, None],
        "nodes": torch.tensor([node for node, _, _ in tree.targets]),
        "labels": torch.tensor([[IGNORED, *(target for _, target, _ in tree.targets)]]),
        "weights": torch.from_numpy(tree.weights()),
    }


def tree_loss(model: Any, inputs: Mapping[str, Tensor], count: Any = None, weighted: bool = False) -> Tensor:
    """Compute -log p of what should follow, in nats: the (weighted) sum over ``count``, by default the mean.

    Logits are computed only where something is taught: of a small model of a large vocabulary a fifth of the work.
    """
    import torch

    mask = inputs["attention_mask"]
    dtype = next(model.parameters()).dtype  # a model shared by several processes has no dtype of its own
    allowed = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    logits = model(
        input_ids=inputs["input_ids"],
        position_ids=inputs["position_ids"],
        attention_mask=allowed.masked_fill(~mask, torch.finfo(dtype).min),
        logits_to_keep=inputs["nodes"],
        use_cache=False,
    ).logits[0]
    losses = torch.nn.functional.cross_entropy(logits.float(), inputs["labels"][0, 1:], reduction="none")
    weights = inputs["weights"] if weighted else torch.ones_like(losses)
    return (losses * weights).sum() / (weights.sum() if count is None else count)
