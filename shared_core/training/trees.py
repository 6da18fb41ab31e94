"""Encode what rows have in common once: rows that begin alike become one tree of tokens.

Rows of one source repeat the task and the passages; only the question and the answer differ. In a tree each token
attends to its ancestors alone and has its depth as position, so every row is computed as if it were encoded by itself,
while its beginning is paid for once. Five questions on one passage cost a third of five rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shared_core.training.rows import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["collate_tree", "plant_trees", "tree_loss"]

Tree = dict[str, list[int]]
"""``input_ids``; ``parents`` (index of the token before, -1 for none); ``nodes`` and ``targets`` of equal length: the
tokens at which the loss counts, and the ids that should follow."""


def plant_trees(rows: Sequence[Mapping[str, list[int]]], most: int) -> list[Tree]:
    """Merge rows into trees of at most ``most`` tokens, in a fixed order; a longer row is a tree by itself.

    Args:
        rows: ``input_ids`` and ``labels`` of equal length, as ``encode_rows`` makes them.
        most: tokens of a tree.
    """
    trees: list[Tree] = []
    before: list[int] = []
    path: list[int] = []  # nodes of the row before, in the current tree
    for row in sorted(rows, key=lambda row: row["input_ids"]):
        ids, labels = row["input_ids"][:-1], row["labels"][1:]  # the last token is only ever a target
        shared = 0
        while shared < min(len(ids), len(path)) and ids[shared] == before[shared]:
            shared += 1
        if not trees or len(trees[-1]["input_ids"]) + len(ids) - shared > most:
            trees.append({"input_ids": [], "parents": [], "nodes": [], "targets": []})
            path, shared = [], 0
        tree = trees[-1]
        path = path[:shared]
        for token in ids[shared:]:
            tree["parents"].append(path[-1] if path else -1)
            path.append(len(tree["input_ids"]))
            tree["input_ids"].append(token)
        taught = [(node, label) for node, label in zip(path, labels, strict=True) if label != IGNORED]
        tree["nodes"] += [node for node, _ in taught]
        tree["targets"] += [label for _, label in taught]
        before = ids
    return trees


def collate_tree(trees: Sequence[Tree]) -> dict[str, Tensor]:
    """Make the tensors of one tree: ids, depths, the mask of ancestors, and what should follow where.

    Returns:
        ``input_ids`` and ``position_ids`` [1, L]; ``attention_mask`` [1, 1, L, L], true where a token attends;
        ``nodes`` [T]; ``labels`` [1, T + 1], the first of them ignored as trainers shift labels by one.
    """
    import torch

    (tree,) = trees
    count = len(tree["input_ids"])
    mask = torch.zeros(count, count, dtype=torch.bool)
    depths = [0] * count
    for node, parent in enumerate(tree["parents"]):
        if parent >= 0:
            mask[node] = mask[parent]
            depths[node] = depths[parent] + 1
        mask[node, node] = True
    return {
        "input_ids": torch.tensor([tree["input_ids"]]),
        "position_ids": torch.tensor([depths]),
        "attention_mask": mask[None, None],
        "nodes": torch.tensor(tree["nodes"]),
        "labels": torch.tensor([[IGNORED, *tree["targets"]]]),
    }


def tree_loss(model: Any, inputs: Mapping[str, Tensor], count: Any = None) -> Tensor:
    """Compute -log p of what should follow, in nats: the sum over ``count``, by default the mean.

    Logits are computed only where something is taught: of a small model of a large vocabulary a fifth of the work.
    """
    import torch

    mask = inputs["attention_mask"]
    allowed = torch.zeros(mask.shape, dtype=model.dtype, device=mask.device)
    logits = model(
        input_ids=inputs["input_ids"],
        position_ids=inputs["position_ids"],
        attention_mask=allowed.masked_fill(~mask, torch.finfo(model.dtype).min),
        logits_to_keep=inputs["nodes"],
        use_cache=False,
    ).logits[0]
    total = torch.nn.functional.cross_entropy(logits.float(), inputs["labels"][0, 1:], reduction="sum")
    return total / (inputs["nodes"].numel() if count is None else count)
