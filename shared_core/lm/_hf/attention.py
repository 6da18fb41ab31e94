"""Attention functions of our own: over two stretches of the cache, and by matrix products.

Stretches are a stem common to all rows, held once, and each row's own slots. The usual attention functions want every
row's keys and values side by side: a prompt with k samples is then held and read k times, or its samples share a row
and mask each other. Here the queries of all rows meet the stem as one sequence, each row's queries meet its own slots,
and both results are weighed by what their softmaxes summed up to. Models that share keys between several heads need no
copies of them either: the heads are folded into queries.

Matrix products are for bfloat16 on CPUs that compute in it. The fused kernel that transformers calls there is as slow
in bfloat16 as in float32; matrix products are twice as fast. They compute the scores of a block of tokens at a time, as
many as a processor's cache holds. Rounding is that of transformers' eager attention: scores and weights are bfloat16,
the softmax adds up in float32.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from shared_core.lm import checkpoints
from shared_core.lm._hf.cache import KeyValues

_NAME = "selfreflect_stem"
_EXTRAS = ("position_bias", "s_aux", "sinks", "softcap", "cache")  # of attention, which the functions here do not know
_local = threading.local()  # .stem: the stem of the forward pass that this thread is in, if any


def available(model: Any) -> bool:
    """Return whether the model's attention function can be replaced by this one, as far as inspection can tell."""
    return model.device.type == "cpu" and getattr(model.config, "_attn_implementation", None) == "sdpa"


@contextmanager
def implemented_by(model: Any, name: str) -> Iterator[None]:
    """Run a model with the attention implementation of that name, then restore the old one."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation(name)
        yield
    finally:
        model.set_attn_implementation(before)


def installed(model: Any) -> AbstractContextManager[None]:
    """Install our attention function (identical to the usual one outside ``grown_from``), then restore the old one."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(_NAME, attend)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    return implemented_by(model, _NAME)


@contextmanager
def grown_from(stem: KeyValues) -> Iterator[None]:
    """Let forward passes of this thread also attend to that stem, which may be empty."""
    _local.stem = stem
    try:
        yield
    finally:
        _local.stem = {}


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention through transformers' attention interface.

    Args:
        module: the layer's attention, whose ``layer_idx`` says which part of the stem is meant.
        query: (rows, heads, w, d) of the new tokens.
        key, value: (rows, shared heads, S, d) of each row's own slots, the new tokens last.
        attention_mask: (rows, 1, w, S), to be added; ``None`` if a token sees all own slots.
        dropout, options: as there.
        scaling: of the scores; 1 / √d if ``None``.

    Returns:
        (rows, w, heads, d) and no weights.

    Raises:
        ValueError: the model wants more of attention than this function knows.
    """
    stem: KeyValues = getattr(_local, "stem", {})
    extras = [n for n in _EXTRAS if options.get(n) is not None]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    asked = options.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if asked is None else asked)
    causal &= attention_mask is None and query.shape[2] > 1 and not stem
    if suits_products(query, attention_mask) and not extras and not (causal and query.shape[2] != key.shape[2]):
        behind = stem[module.layer_idx] if stem else None
        return attend_by_products(query, key, value, attention_mask, scale, behind, causal=causal), None
    if not stem:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
        return result
    if key.shape[-1] != value.shape[-1]:
        extras.append("values of another width than keys")  # the fused kernel takes one width
    if extras:
        # Not logged: the probe, which tests a model before it is used, takes any error for "this model cannot", and the
        # model is decoded without a stem.
        raise ValueError(f"attention with {', '.join(extras)}")
    rows, heads, width, size = query.shape
    shared = key.shape[1]
    # Heads that share keys stand together, so (heads, w, d) is (shared, heads / shared * w, d) without copying.
    query = query.reshape(rows, shared, heads // shared * width, size)
    stem_key, stem_value = stem[module.layer_idx]
    found = _merged(query, key, value, attention_mask, stem_key, stem_value, scale)
    return found.reshape(rows, heads, width, -1).transpose(1, 2).contiguous(), None


def _merged(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    stem_key: torch.Tensor,
    stem_value: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Attend to stem and own slots apart with the fused kernel and merge: (rows, shared, folded, d).

    With the sums of exponentials Zs and Zo the softmax over both is the mean of the two results by Zs : Zo.
    """
    rows, shared, folded, size = query.shape
    if mask is not None and folded != mask.shape[2]:
        mask = mask.repeat(1, 1, folded // mask.shape[2], 1)
    # All rows' queries as one sequence for each head: the stem is read once.
    together = query.transpose(0, 1).reshape(1, shared, rows * folded, size)
    of_stem, stem_sum = _kernel(together, stem_key, stem_value, None, scale)
    of_own, own_sum = _kernel(query, key, value, mask, scale)
    of_stem = of_stem.view(shared, rows, folded, size).transpose(0, 1)
    stem_sum = stem_sum.view(shared, rows, folded).transpose(0, 1)  # back to (rows, shared, folded), as of_own
    share = torch.sigmoid(own_sum - stem_sum)[..., None]  # Zo / (Zs + Zo), from logarithms: no overflow
    return torch.lerp(of_stem, of_own, share.to(of_own.dtype))


def _kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention and the logsumexp of its scores, (rows, heads, w).

    It is what ``scaled_dot_product_attention`` runs on a CPU; that gives no sums.
    """
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found: tuple[torch.Tensor, torch.Tensor] = flash(query, key, value, attn_mask=mask, scale=scale)
    return found


# --- by matrix products ----------------------------------------------------------------------------------------------


computes_bfloat16 = functools.cache(checkpoints.computes_bfloat16)  # asked for every layer of every pass

_MOST = 2**20  # scores held at once: 2 MB


def suits_products(query: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Return whether matrix products are faster than the fused kernel for queries (rows, heads, w, d) and that mask."""
    if query.dtype != torch.bfloat16 or not computes_bfloat16(query.device.type):
        return False
    # Products with the vector of a single token are no faster; masks that differ between heads are not known here.
    return query.shape[0] * query.shape[2] > 1 and (mask is None or mask.shape[1] == 1)


def attend_by_products(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    stem: tuple[torch.Tensor, torch.Tensor] | None = None,
    *,
    causal: bool = False,
) -> torch.Tensor:
    """Compute attention to each row's own slots, behind a stem that all rows share.

    Args:
        query: (rows, heads, w, d).
        key, value: (rows, shared heads, S, d) of each row's own slots.
        mask: (rows or 1, 1, w, S), to be added to scores or boolean (true: seen); ``None`` if a token sees all slots.
        stem: keys and values (1, shared heads, T, d), which all tokens see.
        causal: whether token i sees own slots 0 … i only; S is w then, and the mask ``None``.

    Returns:
        (rows, w, heads, d), contiguous.
    """
    rows, heads, width, _ = query.shape
    shared, slots = key.shape[1:3]
    out = value.new_empty(rows, width, heads, value.shape[-1])
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, torch.finfo(query.dtype).min)
    if mask is not None:
        mask = mask.expand(rows, -1, -1, -1)
    held = stem[0].shape[2] if stem else 0
    for r, t in _blocks(rows, width, _MOST // (heads * (slots + held))):
        seen = None if mask is None else mask[r, :, t]
        end = t.stop if causal else slots if seen is None else _last_seen(seen)
        if causal:
            size = t.stop - t.start
            seen = query.new_full((size, size), float("-inf")).triu(1)
        # (rows, heads, w, d) -> (rows, shared heads, heads / shared * w, d): heads that share keys stand together.
        block = (query[r, :, t] * scale).reshape(-1, shared, heads // shared * (t.stop - t.start), query.shape[-1])
        found = _attended(block, key[r, :, :end], value[r, :, :end], seen, stem)
        out[r, t] = found.reshape(len(block), heads, t.stop - t.start, -1).transpose(1, 2)
    return out


def _blocks(rows: int, width: int, tokens: int) -> Iterator[tuple[slice, slice]]:
    """Cut rows of tokens into blocks of at most so many tokens, but at least one: several rows, or a piece of one."""
    tall, wide = max(1, tokens // width), max(1, min(width, tokens))
    for r in range(0, rows, tall):
        for t in range(0, width, wide):
            yield slice(r, min(r + tall, rows)), slice(t, min(t + wide, width))


def _last_seen(mask: torch.Tensor) -> int:
    """Return how many slots there are up to the last one that any token sees; of a causal mask, half on average."""
    visible = (mask.amax((0, 1, 2)) > torch.finfo(mask.dtype).min).nonzero()
    return int(visible[-1]) + 1 if len(visible) else mask.shape[-1]


def _attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    stem: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Compute attention of one block: queries (rows, shared, g * w, d) already scaled, and a result of that shape.

    A mask (rows, 1, w, S) or (w, w) is added to the last scores of each token.
    """
    rows, shared, folded, size = query.shape
    scores = torch.matmul(query, key.transpose(-1, -2))  # (rows, shared, g * w, S)
    if mask is not None:
        width, last = mask.shape[-2], min(mask.shape[-1], scores.shape[-1])
        # (rows, shared, g, w, S) beside (rows, 1, 1, w, S): the same for all heads
        grouped = scores.view(rows, shared, folded // width, width, -1)[..., scores.shape[-1] - last :]
        grouped += mask[..., :last] if mask.dim() == 2 else mask[:, :, None, :, :last]
    if stem is None:
        return torch.matmul(scores.softmax(-1), value)
    # All rows' queries as one sequence for each head, (shared, rows * g * w, d): the stem is read once.
    stem_key, stem_value = stem[0][0], stem[1][0]
    held = stem_key.shape[1]
    together = query.transpose(0, 1).reshape(shared, rows * folded, size)
    of_stem = torch.bmm(together, stem_key.transpose(1, 2)).view(shared, rows, folded, held).transpose(0, 1)
    weights = torch.cat([of_stem, scores], -1).softmax(-1)
    to_stem = weights[..., :held].transpose(0, 1).reshape(shared, rows * folded, held)
    found = torch.bmm(to_stem, stem_value).view(shared, rows, folded, -1).transpose(0, 1)
    return found + torch.matmul(weights[..., held:], value)
