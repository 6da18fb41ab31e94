"""The encoder's few lines give what transformers' model gives."""

from __future__ import annotations

import pytest
import torch

from benchmarks.reader.bert import embed_tokens, rename, run_layers


@pytest.fixture(scope="module")
def pair() -> tuple[object, dict[str, torch.Tensor]]:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=99, hidden_size=48, num_hidden_layers=3, num_attention_heads=12, intermediate_size=96,
        max_position_embeddings=40,
    )  # fmt: skip
    model = BertModel(config).eval()
    return model, rename(model.state_dict())


def test_equal_to_transformers(pair: tuple[object, dict[str, torch.Tensor]]) -> None:
    model, p = pair
    ids = torch.randint(0, 99, (4, 17))
    mask = torch.arange(17)[None] < torch.tensor([17, 9, 3, 12])[:, None]
    with torch.inference_mode():
        hidden = model(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states  # type: ignore[operator]
        h = embed_tokens(p, ids)
        torch.testing.assert_close(h, hidden[0])
        middle = run_layers(p, h, range(2), mask)
        last = run_layers(p, middle, range(2, 3), mask)
    for ours, theirs in ((middle, hidden[2]), (last, hidden[3])):
        torch.testing.assert_close(ours[mask], theirs[mask], atol=1e-5, rtol=1e-4)


def test_the_way_for_training_gives_the_same(pair: tuple[object, dict[str, torch.Tensor]]) -> None:
    _, p = pair
    ids = torch.randint(0, 99, (2, 11))
    mask = torch.ones(2, 11, dtype=torch.bool)
    mask[1, 5:] = False
    with torch.inference_mode():
        fused = run_layers(p, embed_tokens(p, ids), range(3), mask)
    learned = {name: value.clone().requires_grad_() for name, value in p.items()}
    plain = run_layers(learned, embed_tokens(learned, ids), range(3), mask)
    torch.testing.assert_close(plain[mask].detach(), fused[mask], atol=1e-5, rtol=1e-4)
    plain.sum().backward()
    assert learned["layer0.query.w"].grad is not None


def test_a_checkpoint_without_a_layer_part_is_refused(pair: tuple[object, dict[str, torch.Tensor]]) -> None:
    model, _ = pair
    state = dict(model.state_dict())  # type: ignore[attr-defined]
    del state["encoder.layer.1.output.dense.bias"]
    with pytest.raises(KeyError):
        rename(state)
