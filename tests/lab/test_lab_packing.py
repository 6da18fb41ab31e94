"""Packed rows give the loss of the rows one by one, and a training that is killed goes on with the rows it had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks.lab.model import make_model, save_model, score_batch, size_of  # noqa: E402
from benchmarks.lab.packing import Cursor, Packer, grow  # noqa: E402
from benchmarks.lab.rows.row import IGNORED  # noqa: E402
from benchmarks.lab.rows.source import RowSource  # noqa: E402
from shared_core.errors import InputError  # noqa: E402
from shared_core.lab import World  # noqa: E402
from shared_core.lab.setup import CARD, load_lab_model  # noqa: E402
from shared_core.lm.transformers import TransformersLM  # noqa: E402


def test_trees_give_the_loss_of_the_rows_one_by_one(world: World, lab_lm: TransformersLM) -> None:
    model = make_model(lab_lm.tokenizer, size_of("tiny"), seed=1).eval()
    rows = RowSource(world).group(20_001).rows[:6]
    trees, dropped = grow(rows, lab_lm.encoder, 1024)
    assert not dropped
    assert sum(len(t.ids) for t in trees) < sum(len(r.encode(lab_lm.encoder)[0]) for r in rows)
    tree = trees[0]
    seen = torch.from_numpy(tree.seen())[None, None]
    mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        packed = model(
            input_ids=torch.tensor([tree.ids]), position_ids=torch.tensor([tree.positions()]), attention_mask=mask
        ).logits[0]
        for number in range(len(tree.families)):
            ids, labels = rows[number].encode(lab_lm.encoder)
            alone = model(input_ids=torch.tensor([ids])).logits[0]
            places = [i for i, label in enumerate(labels) if label != IGNORED]
            mine = [(at, target) for at, target, row in tree.targets if row == number]
            assert [target for _, target in mine] == [labels[i] for i in places]
            for (at, _), i in zip(mine, places):
                assert torch.allclose(packed[at], alone[i - 1], atol=1e-4)


def test_steps_go_on_where_the_cursor_stands(world: World, lab_lm: TransformersLM) -> None:
    def packer() -> Packer:
        return Packer(RowSource(world), lab_lm.encoder, tokens=2048)

    one = packer()
    first, cursor = one.step(Cursor())
    second, _ = one.step(cursor)
    again, _ = packer().step(cursor)
    assert [b.ids.tolist() for b in again.batches] == [b.ids.tolist() for b in second.batches]
    assert first.used <= 2048
    assert abs(sum(float(b.weight.sum()) for b in first.batches) - 1) < 1e-5


def test_the_loss_is_told_by_family(world: World, lab_lm: TransformersLM) -> None:
    step, _ = Packer(RowSource(world), lab_lm.encoder, tokens=2048).step(Cursor())
    model = make_model(lab_lm.tokenizer, size_of("tiny"), seed=1)
    loss, families = score_batch(model, step.batches[0], "cpu")
    assert loss.requires_grad
    assert set(families) == set(step.batches[0].families)


def test_a_step_too_small_for_a_sequence_is_refused(world: World, lab_lm: TransformersLM) -> None:
    with pytest.raises(InputError):
        Packer(RowSource(world), lab_lm.encoder, (256, 1024), tokens=512)


def test_a_saved_model_is_loaded_as_it_was(lab_lm: TransformersLM, tmp_path: Path) -> None:
    model = make_model(lab_lm.tokenizer, size_of("tiny"), seed=1)
    save_model(model, lab_lm.tokenizer, tmp_path / "model", {"seed": 1})
    loaded = load_lab_model(tmp_path / "model")
    assert json.loads((tmp_path / "model" / CARD).read_text())["seed"] == 1
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.to(torch.bfloat16).float(), loaded.model.state_dict()[name].float()), name


@pytest.mark.train
def test_a_killed_training_goes_on(tmp_path: Path) -> None:
    from benchmarks.lab.train import Training, TrainSettings

    settings = TrainSettings(minutes=0.2, size="tiny", tokens=2048)
    training = Training(tmp_path, settings, device="cpu", checkpoint_seconds=1)
    training._checkpoint()
    again = Training(tmp_path, settings, device="cpu")
    folder = again.run()
    assert again.done > 0
    assert load_lab_model(folder).name == "lab"
    longer = Training(tmp_path, TrainSettings(minutes=0.3, size="tiny", tokens=2048), device="cpu")
    assert longer.done == again.done
    with pytest.raises(InputError):
        Training(tmp_path, TrainSettings(minutes=1, size="tiny", tokens=2048, seed=5), device="cpu")
