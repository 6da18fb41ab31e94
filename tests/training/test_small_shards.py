"""Trees as they are written for a GPU: the same rows, read again without the project's code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.small.on_gpu.trees import Trees
from benchmarks.small.shards import FastEncoder, Shard
from shared_core.evaluation.baselines import plain_prompt
from shared_core.lm.encoding import Encoder
from shared_core.training.rows import TrainingRow
from shared_core.training.trees import plant_trees
from shared_core.types import Passage

ROWS = [
    TrainingRow("short", plain_prompt(question, [Passage("a", text, "Wall")]), answer, True)
    for text in ("The wall was begun in 1842. </s> It was finished in 1850.", "It is of stone.")
    for question, answer in (("When was it begun?", "1842"), ("When was it ready?", "1850"), ("Who?", "I do not know."))
]


def test_prompts_are_encoded_as_ever(tiny_tokenizer: Any) -> None:
    fast, usual = FastEncoder(tiny_tokenizer), Encoder(tiny_tokenizer)
    assert [row.encode(fast) for row in ROWS] == [row.encode(usual) for row in ROWS]


def test_trees_are_read_as_they_were_planted(tiny_tokenizer: Any, tmp_path: Path) -> None:
    encoded = [row.encode(Encoder(tiny_tokenizer)) for row in ROWS]
    ids, labels = encoded[0]
    encoded.append((ids + ids[:3], [*labels, -100, *ids[1:3]]))  # learnt in two places
    shard = Shard()
    shard.add("short", encoded)
    shard.write(tmp_path / "trees.xz")
    read = Trees(tmp_path / "trees.xz")
    planted = plant_trees([{"input_ids": i, "labels": t} for i, t in encoded], 1400)
    assert len(read) == len(planted)
    for n, tree in enumerate(planted):
        found = read.tree(n)
        at = np.arange(len(found["ids"]))
        seen = (at[None] <= at[:, None]) & (at[:, None] < found["end"][None])
        assert (seen.sum(1) - 1 == found["depth"]).all()
        said = tree.seen()

        def learnt(ids: Any, mask: Any, nodes: Any, labels: Any, weights: Any) -> Counter[Any]:
            paths = [tuple(int(i) for i in np.asarray(ids)[mask[node]]) for node in nodes]
            return Counter(zip(paths, map(int, labels), (round(float(w), 5) for w in weights), strict=True))

        nodes, targets = [node for node, _, _ in tree.targets], [target for _, target, _ in tree.targets]
        assert learnt(tree.ids, said, nodes, targets, tree.weights()) == learnt(
            found["ids"], seen, found["nodes"], found["labels"], found["weights"]
        )
