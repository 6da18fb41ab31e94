"""Compute SmolLM2-135M with adapters on every linear layer, for trees of tokens."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from files import HEADS, KV, write_safetensors

LAYERS, WIDTH, HEAD, INNER = 30, 576, 64, 1536
THETA, EPS = 100000.0, 9.999999747378752e-06
MODULES = {
    "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KV * HEAD, WIDTH), "self_attn.v_proj": (KV * HEAD, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
    "mlp.down_proj": (WIDTH, INNER),
}  # fmt: skip
GROUPS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",),
)  # fmt: skip


class Small:
    """The base with adapters on every linear layer of every layer."""

    def __init__(self, base: dict, rank: int, scale: float, device: str, dtype: torch.dtype) -> None:
        self.scale, self.device, self.dtype = scale, device, dtype
        self.table = base["model.embed_tokens.weight"].to(device, dtype)
        self.norm = base["model.norm.weight"].to(device, dtype)
        layers = range(LAYERS)

        def stacked(name: str) -> torch.Tensor:
            return torch.stack([base[f"model.layers.{n}.{name}.weight"] for n in layers]).to(device, dtype)

        self.norms = [stacked(name).unbind(0) for name in ("input_layernorm", "post_attention_layernorm")]
        self.frozen = {name: stacked(name) for name in MODULES}
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = {}, {}
        for name, (outputs, inputs) in MODULES.items():
            drawn = (torch.rand(LAYERS, rank, inputs, generator=generator) * 2 - 1) / math.sqrt(inputs)
            self.a[name] = drawn.to(device).requires_grad_()
            self.b[name] = torch.zeros(LAYERS, outputs, rank, device=device, requires_grad=True)
        # As transformers computes it.
        powers = torch.arange(0, HEAD, 2, dtype=torch.int64).float() / HEAD
        angles = torch.arange(2048).float()[:, None] * (1.0 / THETA**powers)
        angles = torch.cat([angles, angles], 1)
        self.cos, self.sin = angles.cos().to(device, dtype), angles.sin().to(device, dtype)
        self.before, self.behind = before, behind

    def start(self, tensors: dict[str, torch.Tensor]) -> int:
        """Take an adapter of at most the same rank, and of the same scale; return the number of modules."""
        found = 0
        with torch.no_grad():
            for name in MODULES:
                for n in range(LAYERS):
                    key = f"model.layers.{n}.{name}"
                    if f"{key}.a" in tensors:
                        a, b = tensors[f"{key}.a"].float(), tensors[f"{key}.b"].float()
                        self.a[name][n, : a.shape[0]] = a.to(self.device)
                        self.b[name][n, :, : b.shape[1]] = b.to(self.device)
                        found += 1
        return found

    def parameters(self) -> list[torch.Tensor]:
        return [*self.a.values(), *self.b.values()]

    def merged(self) -> list[tuple[torch.Tensor, ...]]:
        """Weights of each group of modules, by layer."""
        out = []
        for names in GROUPS:
            deltas = [torch.bmm(self.b[name], self.a[name]) for name in names]
            some = [self.frozen[n] + (self.scale * d).to(self.dtype) for n, d in zip(names, deltas)]
            out.append((some[0] if len(some) == 1 else torch.cat(some, 1)).unbind(0))
        return out

    def losses(self, batch: dict, weights: list, part: slice = slice(None)) -> tuple:
        """-log p of what is learnt, in nats, its weights, its skills, and whether it was the likeliest."""
        lo, hi, _ = part.indices(len(batch["ids"]))
        chosen = (batch["tree"] >= lo) & (batch["tree"] < hi)

        def send(x: np.ndarray, kind: torch.dtype) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(x)).to(kind).to(self.device, non_blocking=True)

        ids, depth, end = (send(batch[name][lo:hi], torch.int64) for name in ("ids", "depth", "end"))
        count, length = ids.shape
        flat = batch["nodes"][chosen].astype(np.int64) + (batch["tree"][chosen].astype(np.int64) - lo) * length
        flat, labels = send(flat, torch.int64), send(batch["labels"][chosen], torch.int64)
        weight, skill = send(batch["weights"][chosen], torch.float32), send(batch["skill"][chosen], torch.int64)
        at = torch.arange(length, device=self.device)
        seen = (at[None, None, :] <= at[None, :, None]) & (at[None, :, None] < end[:, None, :])
        bias = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
        bias = bias.masked_fill_(~seen, float("-inf"))[:, None].expand(count, HEADS, length, length)
        cos, sin = self.cos[depth][:, None], self.sin[depth][:, None]
        x = F.embedding(ids, self.table)
        for n in range(LAYERS):
            q, k, v = self.before(x, self.norms[0][n], weights[0][n], cos, sin)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = self.behind(x, mixed, weights[1][n], self.norms[1][n], weights[2][n], weights[3][n])
        hidden = F.rms_norm(x.reshape(-1, WIDTH)[flat], (WIDTH,), self.norm, EPS)
        logits = F.linear(hidden, self.table).float()
        return F.cross_entropy(logits, labels, reduction="none"), weight, skill, logits.detach().argmax(-1) == labels

    def tensors(self, layers: range) -> dict[str, torch.Tensor]:
        out = {}
        for name in MODULES:
            for n in layers:
                out[f"model.layers.{n}.{name}.a"] = self.a[name][n]
                out[f"model.layers.{n}.{name}.b"] = self.b[name][n]
        return out

    def save(self, out: Path, about: dict[str, str]) -> None:
        about = {**about, "scale": repr(self.scale)}
        for part, layers in (("a", range(15)), ("b", range(15, LAYERS))):
            write_safetensors(self.tensors(layers), out / f"small_{part}.safetensors", about)


def turned(x, cos, sin):
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin


def before(x, norm, weight, cos, sin):
    """Queries, keys and values, a head each: [B, 9, L, 64]."""
    count, length, _ = x.shape
    mixed = F.linear(F.rms_norm(x, (WIDTH,), norm, EPS), weight).view(count, length, HEADS + 2 * KV, HEAD)
    q, k, v = mixed.transpose(1, 2).split([HEADS, KV, KV], 1)
    k = turned(k, cos, sin)
    k, v = (t[:, :, None].expand(-1, -1, HEADS // KV, -1, -1).reshape(count, HEADS, length, HEAD) for t in (k, v))
    return turned(q, cos, sin), k, v


def behind(x, mixed, out, norm, gate_up, down):
    """Compute the rest of a layer, after attention."""
    x = x + F.linear(mixed.transpose(1, 2).reshape(x.shape), out)
    gate, up = F.linear(F.rms_norm(x, (WIDTH,), norm, EPS), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)
