"""Attention over a shared stem and own slots is attention over both side by side, however many queries there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("width", [1, 3, 20])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (4, 1)])
def test_it_is_attention_over_both(width: int, masked: bool, heads: int, shared: int) -> None:
    from shared_core.lm._hf import attention

    torch.manual_seed(0)
    rows, own, size, length = 3, width + 2, 8, 11
    query = torch.randn(rows, heads, width, size)
    key, value = torch.randn(rows, shared, own, size), torch.randn(rows, shared, own, size)
    stem_key, stem_value = torch.randn(1, shared, length, size), torch.randn(1, shared, length, size)
    allowed = torch.ones(rows, 1, width, own, dtype=torch.bool)
    if masked:
        allowed = allowed.tril(own - width)
        allowed[1, :, :, 0] = False
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    with attention.grown_from([(stem_key, stem_value)]):  # type: ignore[arg-type]  # one layer
        module = SimpleNamespace(layer_idx=0)
        found, _ = attention.attend(module, query, key, value, mask if masked else None)
    keys = torch.cat([stem_key.expand(rows, -1, -1, -1), key], 2).repeat_interleave(heads // shared, 1)
    values = torch.cat([stem_value.expand(rows, -1, -1, -1), value], 2).repeat_interleave(heads // shared, 1)
    whole = torch.cat([torch.zeros(rows, 1, width, length), mask if masked else torch.zeros_like(mask)], 3)
    expected = torch.nn.functional.scaled_dot_product_attention(query, keys, values, whole).transpose(1, 2)
    assert torch.allclose(found, expected, atol=1e-5)


def test_what_the_kernel_cannot_compute_is_refused() -> None:
    from shared_core.lm._hf import attention

    query, narrow = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 6)
    with attention.grown_from({0: (query, query)}):
        for key, value, more in ((query, narrow, {}), (query, query, {"softcap": 30.0})):
            with pytest.raises(ValueError, match="attention with"):
                attention.attend(SimpleNamespace(layer_idx=0), query, key, value, None, **more)
