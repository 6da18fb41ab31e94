"""Rows merged into trees: the loss and the gradient of rows apart, at the price of what they do not share."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.training.recipes import train
from shared_core.training.rows import IGNORED, TrainingRow
from shared_core.training.settings import TrainingSettings
from shared_core.training.trees import Tree, collate_tree, plant_trees, tree_loss
from tests.training import reclaim_world as world
from tests.training.interrupting import Interrupted, interrupt_at

pytest.importorskip("trl")
pytest.importorskip("peft")
torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file

pytestmark = pytest.mark.usefixtures("one_thread")
ids = st.lists(st.integers(1, 3), min_size=2, max_size=8)
Row = dict[str, list[int]]


def row(tokens: list[int], prompt: int) -> Row:
    return {"input_ids": tokens, "labels": [IGNORED] * prompt + tokens[prompt:]}


def walks(tree: Tree, node: int) -> list[int]:
    """The tokens that a node attends to, from the root on."""
    found: list[int] = []
    while node >= 0:
        found.append(tree.ids[node])
        node = tree.parents[node]
    return found[::-1]


@given(st.lists(st.tuples(ids, st.integers(0, 7)), min_size=1, max_size=12), st.integers(4, 40))
def test_every_row_is_taught_what_it_would_be_alone(given_rows: list[tuple[list[int], int]], most: int) -> None:
    rows = [row(tokens, min(prompt, len(tokens) - 1)) for tokens, prompt in given_rows]
    trees = plant_trees(rows, most)
    expected = [(r["input_ids"][:i], label) for r in rows for i, label in enumerate(r["labels"]) if i and label >= 0]
    taught = [(walks(t, node), target) for t in trees for node, target, _ in t.targets]
    assert sorted(taught) == sorted(expected)
    assert sum(len(t.ids) for t in trees) <= sum(len(r["input_ids"]) - 1 for r in rows)
    longest = max(len(r["input_ids"]) - 1 for r in rows)
    assert all(len(t.ids) <= max(most, longest) for t in trees)


def test_five_rows_of_one_beginning_cost_it_once() -> None:
    rows = [row([*range(100, 140), i, i + 1], 40) for i in range(5)]
    [tree] = plant_trees(rows, 1000)
    assert len(tree.ids) == 40 + 5
    assert len(tree.targets) == 10


def test_loss_and_gradient_are_those_of_rows_apart(tiny_model: Any) -> None:
    rng = random.Random(0)
    shared = [rng.randrange(60) for _ in range(20)]
    rows = [row([*shared, *(rng.randrange(60) for _ in range(rng.randint(2, 9)))], 20) for _ in range(6)]
    count = sum(label != IGNORED for r in rows for label in r["labels"])

    def gradients(loss: Any) -> list[Any]:
        tiny_model.zero_grad()
        loss.backward()
        return [p.grad.clone() for p in tiny_model.parameters()]

    alone = sum(
        torch.nn.functional.cross_entropy(
            tiny_model(input_ids=torch.tensor([r["input_ids"]])).logits[0, :-1],
            torch.tensor(r["labels"][1:]),
            reduction="sum",
        )
        for r in rows
    )
    trees = plant_trees(rows, 40)
    assert len(trees) > 1
    together = sum(tree_loss(tiny_model, collate_tree([t]), count) for t in trees)
    torch.testing.assert_close(together, alone / count)
    for ours, theirs in zip(gradients(together), gradients(alone / count), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3)
    tiny_model.zero_grad(set_to_none=True)


def test_the_loss_of_a_wrapped_model_is_that_of_the_model(tiny_model: Any) -> None:
    class Shared(torch.nn.Module):
        """Like torch's wrapper of a model that several processes train: it passes calls on, and nothing else."""

        def __init__(self) -> None:
            super().__init__()
            self.module = tiny_model

        def forward(self, **inputs: Any) -> Any:
            return self.module(**inputs)

    inputs = collate_tree(plant_trees([row([5, 6, 7, 8], 2), row([5, 6, 9], 2)], 40))
    with torch.no_grad():
        torch.testing.assert_close(tree_loss(Shared(), inputs), tree_loss(tiny_model, inputs))


@pytest.fixture(scope="module")
def checkpoint(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.checkpoint(tmp_path_factory.mktemp("base"), tokenizer)


@pytest.mark.train
def test_a_training_on_trees_learns_evaluates_and_resumes(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    settings = TrainingSettings(
        method="lora", lora_layers=1, lora_dropout=0.0, batches="trees", max_length=600, batch_size=2, max_steps=6,
        learning_rate=0.02, use_cpu=True, save_every=2, eval_share=0.2,
    )  # fmt: skip
    whole = train(rows, checkpoint, tmp_path / "whole", settings)
    with pytest.raises(Interrupted):
        train(rows, checkpoint, tmp_path / "killed", settings, progress=interrupt_at(5))
    resumed = train(rows, checkpoint, tmp_path / "killed", settings)
    assert resumed.card["resumed_at"] == 4
    assert resumed.losses[-2:] == pytest.approx(whole.losses[-2:], rel=1e-3)
    assert [step for step, _ in whole.evaluations] == [2, 4, 6]
    assert whole.evaluations[-1][1] < whole.evaluations[0][1]


def test_adapters_on_the_last_layers_only(checkpoint: Path, tmp_path: Path) -> None:
    rows = world.rows(world.sources(8), "reference")
    settings = TrainingSettings(method="lora", lora_layers=1, batch_size=2, max_steps=1, use_cpu=True, save_every=0)
    train(rows, checkpoint, tmp_path / "m", settings)
    names = list(load_file(tmp_path / "m" / "adapter" / "adapter_model.safetensors"))
    adapted = [name for name in names if "lora_" in name]
    assert adapted
    assert all(".layers.1." in name for name in adapted)
    assert {name.split(".lora_")[0].rsplit(".", 1)[-1] for name in adapted} >= {"q_proj", "down_proj"}
    with pytest.raises(InputError, match="2 layers"):
        train(rows, checkpoint, tmp_path / "n", TrainingSettings(**{**settings.model_dump(), "lora_layers": 3}))


def test_a_decision_weighs_the_same_in_long_and_short_rows() -> None:
    [tree] = plant_trees([row([*range(40), 7], 40), row([*range(40), *range(50, 77)], 40)], 1000)
    weights = {r: [w for w, (_, _, of) in zip(tree.weights(), tree.targets, strict=True) if of == r] for r in (0, 1)}
    assert sorted(len(w) for w in weights.values()) == [1, 27]
    assert all(w[0] == 1.0 for w in weights.values())
    assert max(weights.values(), key=len)[1:] == pytest.approx([1 / 3] * 26)


@pytest.mark.train
def test_weighing_decisions_changes_what_is_learnt_and_resumes(checkpoint: Path, tmp_path: Path) -> None:
    rows = world.rows(world.sources(12), "reference")
    settings = TrainingSettings(
        batches="trees", token_weights="decisions", max_length=600, batch_size=2, max_steps=3, learning_rate=0.01,
        use_cpu=True, save_every=0,
    )  # fmt: skip
    weighted = train(rows, checkpoint, tmp_path / "decisions", settings)
    equal = train(
        rows, checkpoint, tmp_path / "equal", TrainingSettings(**{**settings.model_dump(), "token_weights": "equal"})
    )
    assert weighted.losses[-1] != pytest.approx(equal.losses[-1], rel=1e-3)
