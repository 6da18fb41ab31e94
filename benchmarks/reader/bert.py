"""BERT's encoder (Devlin et al., NAACL 2019; all-MiniLM-L6-v2 is one) as functions over a mapping of tensors.

A few lines of torch replace a model class: the reading network can run some of the layers, on inputs of its own, with
weights of its own.

Parameters are named ``words.w`` (vocabulary, D), ``positions.w`` (positions, D), ``types.w`` (2, D),
``embed_norm.{w,b}`` and, for layer ``i``, ``layer{i}.{query,key,value,mix,mix_norm,up,down,down_norm}.{w,b}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

HEADS = 12
_EPSILON = 1e-12  # of BERT's layer norms
_EMBEDDINGS = {
    "words.w": "embeddings.word_embeddings.weight",
    "positions.w": "embeddings.position_embeddings.weight",
    "types.w": "embeddings.token_type_embeddings.weight",
    "embed_norm.w": "embeddings.LayerNorm.weight",
    "embed_norm.b": "embeddings.LayerNorm.bias",
}
_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mix": "attention.output.dense",
    "mix_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "down_norm": "output.LayerNorm",
}


def rename(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the parameters of a published checkpoint to the names used here; other parts of the model are left out.

    Raises:
        KeyError: a parameter is missing.
    """
    out = {ours: published[theirs] for ours, theirs in _EMBEDDINGS.items()}
    layers = {int(name.split(".")[2]) for name in published if name.startswith("encoder.layer.")}
    for i in sorted(layers):
        for ours, theirs in _PARTS.items():
            for short, long in (("w", "weight"), ("b", "bias")):
                out[f"layer{i}.{ours}.{short}"] = published[f"encoder.layer.{i}.{theirs}.{long}"]
    return out


def embed_tokens(p: Mapping[str, Tensor], ids: Tensor, kind: int = 0) -> Tensor:
    """Embed (B, N) token ids of type ``kind`` as the (B, N, D) input of the first layer."""
    from torch.nn import functional as f

    h = p["words.w"][ids] + p["positions.w"][: ids.shape[1]] + p["types.w"][kind]
    return f.layer_norm(h, h.shape[-1:], p["embed_norm.w"], p["embed_norm.b"], _EPSILON)


def run_layers(
    p: Mapping[str, Tensor], h: Tensor, layers: Iterable[int], mask: Tensor | None = None, *, dropout: float = 0.0
) -> Tensor:
    """Run some of the encoder's layers.

    Args:
        p: parameters, all in the precision of ``h``.
        h: (B, N, D) hidden states.
        layers: numbers of the layers, in order.
        mask: (B, N), false for padding; ``None`` if there is none.
        dropout: share of units dropped, for training only.

    Returns:
        (B, N, D): output of the last layer.
    """
    from torch.nn import functional as f

    # Looking into a mask would wait for an accelerator.
    seen = mask is None or (mask.device.type == "cpu" and bool(mask.all()))
    hidden = None if seen or mask is None else mask[:, None, None, :]
    for i in layers:
        name = f"layer{i}"
        q, k, v = (_heads(_linear(p, f"{name}.{n}", h)) for n in ("query", "key", "value"))
        mixed = _attend(q, k, v, hidden).transpose(1, 2).flatten(2)
        h = _norm(p, f"{name}.mix_norm", h + drop_units(_linear(p, f"{name}.mix", mixed), dropout))
        fed = _linear(p, f"{name}.down", f.gelu(_linear(p, f"{name}.up", h)))
        h = _norm(p, f"{name}.down_norm", h + drop_units(fed, dropout))
    return h


def drop_units(v: Tensor, share: float) -> Tensor:
    """Drop a share of the units of (B, N, D), the same for all tokens of a text: as good, and far cheaper on a CPU."""
    import torch
    from torch.nn import functional as f

    return v * f.dropout(torch.ones_like(v[:, :1]), share) if share else v


def _heads(v: Tensor) -> Tensor:
    """Split (B, N, D) into (B, heads, N, D / heads)."""
    return v.view(*v.shape[:2], HEADS, -1).transpose(1, 2)


def _linear(p: Mapping[str, Tensor], name: str, v: Tensor) -> Tensor:
    from torch.nn import functional as f

    return f.linear(v, p[f"{name}.w"], p[f"{name}.b"])


def _norm(p: Mapping[str, Tensor], name: str, v: Tensor) -> Tensor:
    from torch.nn import functional as f

    return f.layer_norm(v, v.shape[-1:], p[f"{name}.w"], p[f"{name}.b"], _EPSILON)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention over (B, heads, N, D / heads); ``mask`` (B, 1, 1, N) is false for padding."""
    import torch
    from torch.nn import functional as f

    if q.device.type != "cpu" or not (torch.is_grad_enabled() and q.requires_grad):
        return f.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    # Training only: the fused kernel's backward pass is slow on a CPU.
    weights = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:  # adding is one pass over the weights, masked_fill would be two
        weights = weights + torch.zeros_like(mask, dtype=weights.dtype).masked_fill(~mask, -1e4)
    mixed: Tensor = weights.softmax(-1) @ v
    return mixed
