"""Our attention functions are attention: over a stem and own slots, by matrix products, however these are cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from shared_core.lm._hf import attention  # noqa: E402

SIZE = 8
LAYER = SimpleNamespace(layer_idx=0, is_causal=True)


def expected(query: Any, key: Any, value: Any, seen: Any) -> Any:
    """Compute attention (rows, w, heads, d) where ``seen`` (rows, 1, w, S) is true."""
    shared = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, seen).transpose(1, 2)


def behind(stem: Any, key: Any, value: Any, seen: Any) -> tuple[Any, Any, Any]:
    """Put a stem (1, shared heads, T, d) that every token sees before each row's own slots."""
    rows, width = seen.shape[0], seen.shape[2]
    key, value = (torch.cat([s.expand(rows, -1, -1, -1), x], 2) for s, x in zip(stem, (key, value), strict=True))
    return key, value, torch.cat([torch.ones(rows, 1, width, stem[0].shape[2], dtype=torch.bool), seen], 3)


def additive(seen: Any) -> Any:
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


@pytest.mark.parametrize("width", [1, 3, 20])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (4, 1)])
def test_a_stem_and_own_slots_are_attended_to_as_if_side_by_side(
    width: int, masked: bool, heads: int, shared: int
) -> None:
    torch.manual_seed(0)
    rows, own = 3, width + 2
    query = torch.randn(rows, heads, width, SIZE)
    key, value = torch.randn(2, rows, shared, own, SIZE)
    stem = tuple(torch.randn(2, 1, shared, 11, SIZE))
    seen = torch.ones(rows, 1, width, own, dtype=torch.bool)
    if masked:
        seen = seen.tril(own - width)
        seen[1, :, :, 0] = False
    with attention.grown_from({0: stem}):
        found, _ = attention.attend(LAYER, query, key, value, additive(seen) if masked else None)
    assert torch.allclose(found, expected(query, *behind(stem, key, value, seen)), atol=1e-5)


def test_what_the_kernel_cannot_compute_is_refused() -> None:
    query, narrow = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 6)
    with attention.grown_from({0: (query, query)}):
        for key, value, more in ((query, narrow, {}), (query, query, {"softcap": 30.0})):
            with pytest.raises(ValueError, match="attention with"):
                attention.attend(LAYER, query, key, value, None, **more)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 4),
    width=st.integers(1, 9),
    past=st.integers(0, 5),
    heads=st.sampled_from([(4, 4), (4, 2), (4, 1)]),
    kind=st.sampled_from(["causal", "boolean", "additive", "shared by rows", "none"]),
    length=st.sampled_from([0, 7]),
    most=st.sampled_from([1, 90, 2**20]),
    seed=st.integers(0, 99),
)
def test_blocks_add_up_to_attention(
    rows: int, width: int, past: int, heads: tuple[int, int], kind: str, length: int, most: int, seed: int
) -> None:
    torch.manual_seed(seed)
    own = width if kind == "causal" else width + past
    query = torch.randn(rows, heads[0], width, SIZE)
    key, value = torch.randn(2, rows, heads[1], own, SIZE)
    stem = tuple(torch.randn(2, 1, heads[1], length, SIZE)) if length else None
    seen = torch.ones(rows, 1, width, own, dtype=torch.bool)
    if kind != "none":
        seen = seen.tril(own - width)
    if kind in ("boolean", "additive"):
        seen &= torch.rand(rows, 1, width, own) < 0.6
        seen[:, :, torch.arange(width), past + torch.arange(width)] = True  # a token sees itself
    mask = None if kind in ("causal", "none") else seen[:1] if kind == "shared by rows" else seen
    if kind == "additive":
        mask = additive(seen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "_MOST", most)
        found = attention.attend_by_products(query, key, value, mask, SIZE**-0.5, stem, causal=kind == "causal")
    if stem:
        key, value, seen = behind(stem, key, value, seen)
    assert found.is_contiguous()
    assert torch.allclose(found, expected(query, key, value, seen), atol=1e-5)


def test_bfloat16_takes_products_where_the_processor_computes_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def attend(*given: Any, **more: Any) -> Any:
        calls.append(given)
        return original(*given, **more)

    original = attention.attend_by_products
    monkeypatch.setattr(attention, "attend_by_products", attend)
    monkeypatch.setattr(attention, "computes_bfloat16", lambda device: True)
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 6, SIZE)
    coarse = [x.to(torch.bfloat16) for x in (query, key, value)]
    found, _ = attention.attend(LAYER, *coarse, None)
    assert calls
    seen = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
    assert torch.allclose(found.float(), expected(query, key, value, seen), atol=0.05)
    calls.clear()
    both, _ = attention.attend(LAYER, *coarse, None, is_causal=False)
    assert torch.allclose(both.float(), expected(query, key, value, torch.ones_like(seen)), atol=0.05)
    calls.clear()
    attention.attend(LAYER, query, key, value, None)
    bias = torch.zeros(2, 4, 6, 6, dtype=torch.bfloat16)
    attention.attend(LAYER, *coarse, None, position_bias=bias)  # what it does not know is left to transformers
    monkeypatch.setattr(attention, "computes_bfloat16", lambda device: False)
    attention.attend(LAYER, *coarse, None)
    assert not calls
