"""Attention by matrix products, for bfloat16 on CPUs that compute in it.

The fused kernel that transformers calls there is as slow in bfloat16 as in float32; matrix products are twice as fast.
Here they compute the scores of a block of tokens at a time, as many as a processor's cache holds. Rounding is that of
transformers' eager attention: scores and weights are bfloat16, the softmax adds up in float32.

Imported by ``lm/transformers.py`` inside functions only (it needs torch).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from shared_core.lm import checkpoints

computes_bfloat16 = functools.cache(checkpoints.computes_bfloat16)  # asked for every layer of every pass

_MOST = 2**20  # scores held at once: 2 MB


def suit(query: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Return whether matrix products are faster than the fused kernel for queries (rows, heads, w, d) and that mask."""
    if query.dtype != torch.bfloat16 or not computes_bfloat16(query.device.type):
        return False
    # Products with the vector of a single token are no faster; masks that differ between heads are not known here.
    return query.shape[0] * query.shape[2] > 1 and (mask is None or mask.shape[1] == 1)


def attend(
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
        scale: of the scores.
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
