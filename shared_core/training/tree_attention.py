"""Compute the attention of prefix trees on CPUs: each block of tokens meets only the tokens that it may see.

torch's kernel computes all L² scores of a tree, of which three quarters are masked, and its backward pass is slow on
CPUs: together two fifths of a training step. Branches see their trunk and themselves, so a block of them needs a part
of the keys, which is gathered for one matrix product a block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

_NAME = "selfreflect_tree"
_BLOCK = 64  # queries of a block: fewer see fewer keys in vain, more make better products
_UNLIKE = ("sliding_window", "attention_dropout", "attn_logit_softcapping")  # settings that need other arithmetic


class Block(NamedTuple):
    """Consecutive tokens, and the keys that any of them sees.

    Attributes:
        start, stop: range of the tokens.
        keys: (n,) indices, ascending.
        bias: (stop - start, n) float32, 0 where a token sees a key, -inf elsewhere.
    """

    start: int
    stop: int
    keys: Tensor
    bias: Tensor


@contextlib.contextmanager
def tree_attention(model: Any) -> Iterator[bool]:
    """Let a model of transformers compute masked attention by blocks, where that is faster: on a CPU; yield whether.

    Attention that drops, caps or slides, and models with a dispatch of their own, stay as they are.
    """
    from transformers import AttentionInterface

    config = model.config.get_text_config()
    before = config._attn_implementation
    unlike = any(getattr(config, name, None) for name in _UNLIKE)
    if model.device.type != "cpu" or before != "sdpa" or unlike:
        yield False
        return
    AttentionInterface.register(_NAME, _Attention())
    config._attn_implementation = _NAME
    try:
        yield True
    finally:
        config._attn_implementation = before


class _Attention:
    """Attention with the signature of transformers' own; the layers of a pass share one split of their mask."""

    def __init__(self) -> None:
        self._last: tuple[Tensor | None, list[Block]] = (None, [])

    def __call__(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, None]:
        """(1, heads, L, d) → (1, L, heads, d); anything but one tree goes to torch's kernel."""
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        length = query.shape[2]
        if attention_mask is None or query.shape[0] != 1 or attention_mask.shape != (1, 1, length, length):
            mixed, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
            return mixed, None
        if self._last[0] is not attention_mask:
            self._last = attention_mask, split_mask(attention_mask[0, 0] == 0)
        scaling = kwargs.get("scaling") or query.shape[-1] ** -0.5
        return attend_by_blocks(query[0], key[0], value[0], self._last[1], scaling).transpose(0, 1)[None], None


def split_mask(seen: Tensor, size: int = _BLOCK) -> list[Block]:
    """Split an (L, L) mask, true where a token attends, into blocks of ``size`` tokens; each sees one at least."""
    import torch

    blocks = []
    for start in range(0, len(seen), size):
        part = seen[start : start + size]
        keys = part.any(0).nonzero()[:, 0]
        bias = torch.zeros(len(part), len(keys)).masked_fill_(~part[:, keys], float("-inf"))
        blocks.append(Block(start, start + len(part), keys, bias))
    return blocks


def attend_by_blocks(query: Tensor, key: Tensor, value: Tensor, blocks: Sequence[Block], scaling: float) -> Tensor:
    """Compute softmax(scaling · q kᵀ + bias) v where each block of queries meets its own keys; differentiable once.

    Args:
        query: (heads, L, d); so is the result, in its dtype.
        key, value: (key heads, L, d), each shared by as many consecutive heads (grouped-query attention).
        blocks: of all L queries.
    """
    mixed: Tensor = _function().apply(query, key, value, blocks, scaling)
    return mixed


def _function() -> Any:
    import torch

    class TreeAttention(torch.autograd.Function):
        """Keep the probabilities of the forward pass: [key heads, heads each · rows, n] a block."""

        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, blocks: Sequence[Block], scaling: float) -> Tensor:
            grouped = q.reshape(len(k), -1, *q.shape[1:])  # [key heads, heads each, L, d]
            out, kept = torch.empty_like(grouped, memory_format=torch.contiguous_format), []
            for b in blocks:
                # The heads of a group share keys, so that their queries are rows of the same product.
                rows = grouped[:, :, b.start : b.stop]
                scores = rows.flatten(1, 2) @ k.index_select(1, b.keys).transpose(1, 2)
                biased = torch.add(b.bias, scores.view(*rows.shape[:3], -1), alpha=scaling)  # float32
                shares = torch.softmax(biased, -1).to(q.dtype).flatten(1, 2)
                out[:, :, b.start : b.stop] = (shares @ v.index_select(1, b.keys)).view(rows.shape)
                kept.append(shares)
            ctx.save_for_backward(grouped, k, v, out, *kept)
            ctx.blocks, ctx.scaling = blocks, scaling
            return out.view(q.shape)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
            grouped, k, v, out, *kept = ctx.saved_tensors
            above = grad.reshape(grouped.shape)
            # Σ_j p_ij ∂L/∂p_ij = ∂L/∂o_i · o_i, which softmax's gradient takes off every score of a row.
            common = (above.float() * out.float()).sum(-1, keepdim=True).to(grouped.dtype)
            to_q = torch.empty_like(out)
            to_k, to_v = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (k, v))
            for b, shares in zip(ctx.blocks, kept):
                rows = grouped[:, :, b.start : b.stop]
                g, flat = above[:, :, b.start : b.stop].flatten(1, 2), rows.flatten(1, 2)
                to_v.index_add_(1, b.keys, shares.transpose(1, 2) @ g)
                to_scores = g @ v.index_select(1, b.keys).transpose(1, 2)
                to_scores.sub_(common[:, :, b.start : b.stop].flatten(1, 2)).mul_(shares).mul_(ctx.scaling)
                to_q[:, :, b.start : b.stop] = (to_scores @ k.index_select(1, b.keys)).view(rows.shape)
                to_k.index_add_(1, b.keys, to_scores.transpose(1, 2) @ flat)
            return to_q.view(grad.shape), to_k, to_v, None, None

    return TreeAttention
