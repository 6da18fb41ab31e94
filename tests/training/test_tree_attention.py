"""Attention by blocks gives what torch's kernel gives, on trees and any other mask in which every token sees one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from shared_core.training.tree_attention import attend_by_blocks, split_mask, tree_attention  # noqa: E402


def _ancestors(parents: list[int]) -> Any:
    seen = np.zeros((len(parents), len(parents)), dtype=bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            seen[i] = seen[parent]
        seen[i, i] = True
    return torch.from_numpy(seen)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from([(4, 4), (6, 2), (3, 1)]), st.sampled_from([1, 3, 8]))
def test_blocks_give_the_kernels_values_and_gradients(data: st.DataObject, heads: tuple[int, int], size: int) -> None:
    length = data.draw(st.integers(1, 20))
    parents = [data.draw(st.integers(-1, i - 1)) for i in range(length)]
    seen = _ancestors(parents)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    shapes = [(heads[0], length, 8), (heads[1], length, 8), (heads[1], length, 8)]
    ours = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    theirs = [x.detach().clone().requires_grad_(True) for x in ours]
    above = torch.randn(shapes[0], generator=generator, dtype=torch.float64)
    mixed = attend_by_blocks(*ours, split_mask(seen, size), 0.3)
    mixed.backward(above)
    each = heads[0] // heads[1]
    q, k, v = theirs
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, k.repeat_interleave(each, 0), v.repeat_interleave(each, 0), attn_mask=seen, scale=0.3
    )
    wanted.backward(above)
    torch.testing.assert_close(mixed, wanted, rtol=1e-5, atol=1e-6)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-6)


def test_blocks_cover_every_token_once_and_leave_out_keys_that_none_sees() -> None:
    seen = _ancestors([-1, 0, 1, 1, 3, 1, 5])
    blocks = split_mask(seen, 2)
    assert [b.start for b in blocks] + [blocks[-1].stop] == [0, 2, 4, 6, 7]
    assert all(a.stop == b.start for a, b in pairwise(blocks))
    assert blocks[-1].keys.tolist() == [0, 1, 5, 6]
    assert torch.isfinite(blocks[-1].bias).all()


def test_a_model_attends_by_blocks_only_within_and_gives_the_same_loss(tiny_llama: Any) -> None:
    from shared_core.training.trees import Tree, collate_tree, tree_loss

    tree = Tree()
    for row in ([5, 6, 7, 8, 9], [5, 6, 7, 10, 11, 12], [5, 6, 13, 14]):
        tree.add(row, [-100, -100, *row[2:]])
    inputs = collate_tree([tree])
    before = tiny_llama.config._attn_implementation
    by_kernel = tree_loss(tiny_llama, inputs)
    with tree_attention(tiny_llama) as used:
        assert used
        assert tiny_llama.config._attn_implementation != before
        by_blocks = tree_loss(tiny_llama, inputs)
    assert tiny_llama.config._attn_implementation == before
    torch.testing.assert_close(by_blocks, by_kernel)
    tiny_llama.config.attention_dropout = 0.1
    with tree_attention(tiny_llama) as used:
        assert not used


@pytest.fixture
def tiny_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, attn_implementation="sdpa",
    )  # fmt: skip
    return LlamaForCausalLM(config)
