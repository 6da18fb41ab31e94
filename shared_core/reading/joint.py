"""The embedding model's upper layers, run over question and window together.

The lower layers see every text apart, so a passage's vectors are computed once and kept; from the middle layer on,
question and window read each other (DeFormer: Cao et al., ACL 2020, sec. 3). The upper layers' matrices are corrected
by products of two thin ones (LoRA: Hu et al., ICLR 2022, sec. 4.1), which are all that is trained and shipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

HEADS = 12
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


def upper_layers(model: Any, after: int) -> dict[str, Tensor]:
    """Parameters of a BERT model's layers from number ``after`` on: ``upper{i}.{part}.{w,b}``, not copied."""
    return {
        f"upper{i}.{ours}.{short}": layer.get_submodule(theirs).get_parameter(name).detach()
        for i, layer in enumerate(model.encoder.layer[after:])
        for ours, theirs in _PARTS.items()
        for short, name in (("w", "weight"), ("b", "bias"))
    }


def corrections(base: Mapping[str, Tensor], rank: int, seed: int = 0) -> dict[str, Tensor]:
    """Fresh corrections of ``base`` (``upper_layers``), which change nothing yet.

    Args:
        base: of D wide layers.
        rank: of a correction: ``inner`` (rank, inputs), ``outer`` (outputs, rank).
        seed: of the random numbers.

    Returns:
        Those of every matrix; ``sides`` (2, D), added to question and window; ``ends`` (2, D), before and after both.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    out: dict[str, Tensor] = {}
    for name, value in base.items():
        if value.ndim == 2:
            outputs, inputs = value.shape
            out[f"{name}.inner"] = torch.randn(rank, inputs, generator=generator) * inputs**-0.5
            out[f"{name}.outer"] = torch.zeros(outputs, rank)
    width = base["upper0.query.w"].shape[1]
    out["sides"] = torch.zeros(2, width)
    out["ends"] = torch.randn(2, width, generator=generator) * 0.5
    return out


def corrected(base: Mapping[str, Tensor], learned: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``learned`` with its corrections worked into ``base``, for ``read_together``; in the precision of ``base``.

    Raises:
        KeyError, RuntimeError: the corrections are of other layers.
    """
    unknown = {n.removesuffix(".inner") for n in learned if n.endswith(".inner")} - base.keys()
    if unknown:
        raise KeyError(f"no {min(unknown)}")
    out = {name: value for name, value in learned.items() if not name.endswith((".inner", ".outer"))}
    for name, value in base.items():
        if value.ndim == 2:
            change = learned[f"{name}.outer"].float() @ learned[f"{name}.inner"].float()
            out[name] = (value.float() + change).to(value.dtype)
        else:
            out[name] = value
    return out


def drop_units(v: Tensor, share: float) -> Tensor:
    """(B, N, D) with a share of units dropped, the same for all tokens of a text: as good, and far cheaper on a CPU."""
    import torch
    from torch.nn import functional as f

    return v * f.dropout(torch.ones_like(v[:, :1]), share) if share else v


def read_together(
    p: Mapping[str, Tensor],
    question: Tensor,
    window: Tensor,
    question_mask: Tensor,
    window_mask: Tensor,
    *,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Run the upper layers over both.

    Args:
        p: parameters as ``corrected`` gives them.
        question: (B, M, D) and window: (B, N, D), vectors of the layer below; with masks (B, M) and (B, N), true for
            real tokens.
        dropout: of units, for training only.

    Returns:
        (B, M, D) and (B, N, D), in the precision of ``question``.
    """
    import torch
    from torch.nn import functional as f

    def drop(v: Any) -> Any:
        return drop_units(v, dropout)

    def linear(name: str, v: Any) -> Any:
        return f.linear(v, p[f"{name}.w"], p[f"{name}.b"])

    def norm(name: str, v: Any) -> Any:
        return f.layer_norm(v, v.shape[-1:], p[f"{name}.w"], p[f"{name}.b"], 1e-12)

    def heads(v: Any) -> Any:
        return v.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    precision = p["upper0.query.w"].dtype
    batch, m = question.shape[:2]
    ends = p["ends"].to(precision)[:, None, None].expand(2, batch, 1, -1)
    sides = p["sides"].to(precision)
    h = torch.cat([ends[0], question.to(precision) + sides[0], window.to(precision) + sides[1], ends[1]], dim=1)
    real = torch.ones_like(question_mask[:, :1])
    seen = torch.cat([real, question_mask, window_mask, real], dim=1)
    mask = None if bool(seen.all()) else seen[:, None, None, :]
    layers = sum(name.endswith(".query.w") for name in p)
    for i in range(layers):
        q, k, v = (heads(linear(f"upper{i}.{name}", h)) for name in ("query", "key", "value"))
        mixed = _attend(q, k, v, mask).transpose(1, 2).flatten(2)
        h = norm(f"upper{i}.mix_norm", h + drop(linear(f"upper{i}.mix", mixed)))
        h = norm(f"upper{i}.down_norm", h + drop(linear(f"upper{i}.down", f.gelu(linear(f"upper{i}.up", h)))))
    h = h.to(question.dtype)
    return h[:, 1 : m + 1], h[:, m + 1 : -1]


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention; ``mask`` is true where keys count."""
    import torch
    from torch.nn import functional as f

    if not (torch.is_grad_enabled() and q.requires_grad):
        return f.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    # backward through the fused kernel is slow on a CPU
    weights = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    seen: Tensor = weights if mask is None else weights.masked_fill(~mask, -1e4)
    return seen.softmax(-1) @ v
