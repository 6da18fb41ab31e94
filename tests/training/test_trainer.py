"""What every recipe shares: types kept, divergence noticed, adapters, batches, evaluation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.errors import GenerationError, InputError, SettingsError
from shared_core.training.base_model import load_base, merge_onto_base, with_adapters
from shared_core.training.folder import CARD
from shared_core.training.recipes import hold_out, train
from shared_core.training.rows import TrainingRow, write_rows
from shared_core.training.settings import TrainingSettings
from shared_core.training.watch import LossWatch, first_and_last, rate_at
from tests.command import selfreflect
from tests.training import reclaim_world as world
from tests.training.interrupting import options

pytest.importorskip("trl")
pytest.importorskip("peft")
torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file

pytestmark = pytest.mark.usefixtures("one_thread")


# --- the learning rate, and whether it still learns


@given(st.integers(1, 500), st.floats(0, 0.99), st.sampled_from(["linear", "cosine", "constant_with_warmup"]))
def test_every_step_learns(total: int, warmup: float, schedule: Any) -> None:
    rates = [rate_at(step, total, warmup, schedule) for step in range(total)]
    assert all(0 < r <= 1 for r in rates)
    top = math.ceil(total * warmup)
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert top >= total or rates[top] == 1


def test_the_first_step_changes_the_model(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    train(rows, checkpoint, tmp_path / "m", options(max_steps=1, warmup=0.5, learning_rate=0.05))
    before, after = (
        AutoModelForCausalLM.from_pretrained(p).get_input_embeddings().weight for p in (checkpoint, tmp_path / "m")
    )
    assert not torch.equal(before, after)


@pytest.mark.parametrize(("losses", "says"), [
    ([2.0, float("nan")], "not a number"), ([2.0, 1.9, float("inf")], "not a number"),
    ([2.0, 3.0, 6.9, 6.9, 6.91, 6.9, 6.9], "that of guessing"),
    ([6.9, 5.0, 9.0, 20.0, 15.0, 12.0], "worse than guessing"),
    ([6.95, *[math.log(1000)] * 20], "still that of guessing"),
])  # fmt: skip
def test_divergence_is_noticed_in_losses(losses: list[float], says: str) -> None:
    watch = LossWatch(1000)

    def see() -> None:
        for step, loss in enumerate(losses, 1):
            watch.see(step, loss)

    with pytest.raises(GenerationError, match=says):
        see()


def test_divergence_is_noticed_in_gradients_and_weights() -> None:
    with pytest.raises(GenerationError, match="gradient"):
        LossWatch(None).see(1, 0.7, float("nan"))
    watch = LossWatch(None)
    watch.see_weights(0, 3.0)
    watch.see_weights(1, 3.1)
    with pytest.raises(GenerationError, match="grew"):
        watch.see_weights(2, 40.0)


@pytest.mark.parametrize(
    "losses",
    [
        [6.91, 6.93, 6.9, 6.88, 6.92, 6.9] * 5,  # small steps of a model that knows nothing yet
        [0.01, 5.0, 0.2, 7.5, 0.1, 3.0, 0.3] * 3,  # batches of one row each
        [9.5, 9.0, 8.0, 7.0, 6.5, 6.0],  # worse than guessing at first
        [0.7, 0.71, 0.9, 1.4, 1.5],
    ],
)
def test_what_is_no_divergence_goes_on(losses: list[float]) -> None:
    watch = LossWatch(1000)
    for step, loss in enumerate(losses, 1):
        watch.see(step, loss, 1.0)


@pytest.mark.train
@pytest.mark.parametrize("rate", [1e6, 1.0])
def test_a_learning_rate_that_is_far_too_high_is_reported_and_nothing_is_saved(
    rate: float, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    write_rows(rows, tmp_path / "rows.jsonl")
    asked = ["reclaim", "-r", tmp_path / "rows.jsonl", "-m", checkpoint, "-o", tmp_path / "m"]
    told = ["--role", "reference", "--learning-rate", rate, "--max-steps", "30", "--batch-size", "4", "--cpu"]
    done = selfreflect("train", *asked, *told)
    assert done.exit_code == 1, done.output
    assert "diverged at step" in done.output
    assert not (tmp_path / "m" / CARD).exists()
    assert not (tmp_path / "m" / "model.safetensors").exists()


def test_the_change_of_a_loss_is_not_that_of_two_different_rows() -> None:
    """Two rows in turn, neither of which is learnt: a single step at each end would say 3.5 → 0.02."""
    assert first_and_last([3.5, 0.02] * 4) == {"first": pytest.approx(1.76), "last": pytest.approx(1.76)}
    assert first_and_last([3.5, 0.02] * 500) == {"first": pytest.approx(1.76), "last": pytest.approx(1.76)}
    assert first_and_last([float(i) for i in range(1000)]) == {"first": 49.5, "last": 949.5}
    assert first_and_last([2.0]) == {"first": 2.0, "last": 2.0}
    assert first_and_last([]) == {"first": None, "last": None}


@pytest.mark.train
def test_the_card_and_the_command_give_means_over_several_steps(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    result = train(rows, checkpoint, tmp_path / "m", options(max_steps=6, batch_size=1))
    half = [sum(part) / 3 for part in (result.losses[:3], result.losses[3:])]
    assert [result.card["loss"]["first"], result.card["loss"]["last"]] == pytest.approx(half)


# --- types and memory


@pytest.mark.parametrize("method", [pytest.param("full", marks=pytest.mark.train), "lora"])
def test_the_bases_type_is_kept(method: str, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    settings = options(method=method, max_steps=1, gradient_checkpointing=True)
    train(rows, checkpoint, tmp_path / "m", settings)
    assert {w.dtype for w in load_file(tmp_path / "m" / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "m" / "config.json").read_text())["dtype"] == "bfloat16"


def test_adapters_are_trained_over_the_base_as_it_is(checkpoint: Path) -> None:

    base = load_base(checkpoint, None, options(method="lora"))
    weights = dict(with_adapters(base, options(method="lora")).named_parameters())
    assert {w.dtype for n, w in weights.items() if not w.requires_grad} == {torch.bfloat16}
    assert {w.dtype for n, w in weights.items() if w.requires_grad} == {torch.float32}
    assert load_base(checkpoint, None, options()).model.dtype == torch.float32
    assert load_base(checkpoint, None, options(weights="base")).model.dtype == torch.bfloat16


@pytest.mark.train
def test_a_training_goes_on_from_an_adapter(
    rows: list[TrainingRow], checkpoint: Path, tokenizer: Any, tmp_path: Path
) -> None:

    train(rows, checkpoint, tmp_path / "m", options(method="lora", learning_rate=1e-2))
    adapter = str(tmp_path / "m" / "adapter")
    on = options(method="lora", start_adapter=adapter)
    merged = load_file(tmp_path / "m" / "model.safetensors")
    begun = with_adapters(load_base(checkpoint, None, on), on).merge_and_unload().state_dict()
    assert all(torch.allclose(begun[name].float(), w.float(), atol=1e-2) for name, w in merged.items())
    fresh = with_adapters(load_base(checkpoint, None, on), options(method="lora")).merge_and_unload().state_dict()
    assert not all(torch.allclose(fresh[name].float(), w.float(), atol=1e-2) for name, w in merged.items())
    assert train(rows, checkpoint, tmp_path / "on", on).steps == 4
    with pytest.raises(InputError, match="trained with r 16, not 8"):
        train(rows, checkpoint, tmp_path / "other", options(method="lora", start_adapter=adapter, lora_rank=8))
    with pytest.raises(InputError, match="holds no adapter"):
        train(rows, checkpoint, tmp_path / "none", options(method="lora", start_adapter=str(tmp_path)))
    other = world.checkpoint(tmp_path / "base", tokenizer, seed=1)
    for wrong in (other, tmp_path / "m"):  # another base of that shape, and the merged model
        with pytest.raises(InputError, match="was trained on another base"):
            train(rows, wrong, tmp_path / "else", on)
    with pytest.raises(InputError, match="of another model: it has no"):  # rows of tokens that are added now
        with_adapters(load_base(checkpoint, None, on, lambda model, tokenizer: [0]), on)
    with pytest.raises(SettingsError, match="start_adapter"):
        options(start_adapter=adapter)


@pytest.mark.train
def test_an_adapter_is_merged_onto_a_fresh_base(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    """As after QLoRA, whose base in memory is not what is to be saved."""

    settings = options(method="lora", learning_rate=1e-2)
    train(rows, checkpoint, tmp_path / "m", settings)
    whole = merge_onto_base(load_base(checkpoint, None, settings), tmp_path / "m" / "adapter").state_dict()
    for name, weight in load_file(tmp_path / "m" / "model.safetensors").items():
        assert whole[name].dtype == weight.dtype
        assert torch.allclose(whole[name].float(), weight.float(), atol=1e-2)


def test_what_needs_a_gpu_is_refused_with_the_way_out(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    for changes in ({"method": "qlora"}, {"optimizer": "paged_adamw_8bit"}):
        with pytest.raises(InputError, match="CUDA") as caught:
            train(rows, checkpoint, tmp_path / "m", options(**changes))
        assert "lora" in caught.value.hint
    assert not (tmp_path / "m").exists()


def test_batches_are_cut_to_fit() -> None:
    assert TrainingSettings(batch_size=16).micro(10**9) == 1
    assert TrainingSettings(batch_size=16).micro(10**6) == 8
    assert TrainingSettings(batch_size=12).micro(10**6, processes=2) == 6
    assert TrainingSettings(batch_size=12, micro_batch_size=2).micro(10**10, processes=2) == 2
    with pytest.raises(InputError, match="divide"):
        TrainingSettings(batch_size=12, micro_batch_size=4).micro(1, processes=2)
    with pytest.raises(InputError, match="3 processes"):
        TrainingSettings(batch_size=16).micro(1, processes=3)


@pytest.mark.parametrize("wrong", [
    {"save_every": 2.5}, {"save_every": 0, "eval_share": 0.1}, {"method": "qlora", "weights": "float32"},
    {"lora_layers": 1}, {"lora_layers": 0, "method": "lora"}, {"batches": "trees", "micro_batch_size": 2},
    {"token_weights": "decisions"},
])  # fmt: skip
def test_options_that_contradict_each_other_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        TrainingSettings(**wrong)


def test_a_contradiction_is_told_in_plain_words() -> None:
    with pytest.raises(SettingsError) as caught:
        TrainingSettings(start_adapter="earlier", learning_rate=1e-4)
    assert str(caught.value).startswith("TrainingSettings cannot be created: start_adapter is for adapters")
    assert "Value error" not in str(caught.value)
    assert "0.0001" not in str(caught.value)  # what was given beside it is not to blame
    assert caught.value.hint is not None
    assert "--help" in caught.value.hint  # `doctor --settings` does not list the settings of a training


def test_rows_to_evaluate_on_need_checkpoints(rows: list[TrainingRow], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="save_every is 0"):  # before the base is loaded
        train(rows[4:], tmp_path / "no base", tmp_path / "m", options(save_every=0), evaluate_on=rows[:4])


@pytest.mark.train
def test_packing_changes_nothing_but_the_shape(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    some = rows[:16]
    one = train(some, checkpoint, tmp_path / "a", options(max_steps=1, batch_size=len(some)))
    packed = options(max_steps=1, batch_size=1, batches="packed", max_length=10_000)
    other = train(some, checkpoint, tmp_path / "b", packed)
    assert other.losses[0] == pytest.approx(one.losses[0], rel=1e-3)
    by_length = train(rows, checkpoint, tmp_path / "c", options(batches="length"))
    assert by_length.steps == 4


# --- evaluation and trackers


def test_rows_of_one_source_are_on_one_side(rows: list[TrainingRow]) -> None:
    taught, apart = hold_out(rows, 0.25, seed=1)
    assert len(taught) + len(apart) == len(rows)
    assert {r.source for r in taught}.isdisjoint(r.source for r in apart)
    assert len({r.source for r in apart}) == round(0.25 * len({r.source for r in rows}))
    assert hold_out(list(reversed(rows)), 0.25, seed=1)[1] == list(reversed(apart))
    assert hold_out(rows, 0.0) == (rows, [])
    with pytest.raises(InputError, match="one group"):
        hold_out(rows[:1], 0.5)


@pytest.mark.train
def test_the_best_checkpoint_is_the_result(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    """A rate that falls apart after a good start: what is best on the rows kept apart is taken, not what is last."""
    settings = options(max_steps=8, learning_rate=0.3, schedule="constant_with_warmup", eval_share=0.2, save_every=1)
    result = train(rows, checkpoint, tmp_path / "m", settings)
    losses = dict(result.evaluations)
    assert len(losses) == 8
    assert result.best == min(losses, key=lambda step: losses[step])
    assert result.card["best_step"] == result.best
    assert result.card["rows"]["evaluated_on"] > 0
    again = train(
        rows, tmp_path / "m", tmp_path / "n", options(max_steps=1, eval_share=0.2, save_every=1, learning_rate=1e-9)
    )
    assert again.evaluations[0][1] == pytest.approx(losses[result.best], rel=0.02)


def test_an_unknown_tracker_is_refused(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no_such_tracker"):
        train(rows, checkpoint, tmp_path / "m", options(report_to=("no_such_tracker",)))
