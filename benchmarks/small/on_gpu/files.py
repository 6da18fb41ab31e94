"""Read the base and an adapter, and write adapters, with numpy and torch alone."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import torch

HEADS, KV = 9, 3
GGUF = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def dequantise(raw: np.ndarray, kind: str, shape: list[int]) -> np.ndarray:
    if kind == "F32":
        return raw.view(np.float32).reshape(shape)
    if kind == "Q8_0":
        blocks = raw.reshape(-1, 34)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return (blocks[:, 2:].copy().view(np.int8).astype(np.float32) * scale).reshape(shape)
    if kind == "Q4_1":
        blocks = raw.reshape(-1, 20)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        least = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
        halves = blocks[:, 4:]
        values = np.concatenate([halves & 15, halves >> 4], 1).astype(np.float32)
        return (scale * values + least).reshape(shape)
    raise ValueError(kind)


def unpermuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo the order of the rows of q and k that GGUF files of Llama have."""
    split = weight.reshape(heads, weight.shape[0] // heads // 2, 2, weight.shape[1])
    return split.swapaxes(1, 2).reshape(weight.shape)


def load_base(folder: Path) -> dict[str, torch.Tensor]:
    """Weights by the names of transformers, bfloat16; the rows of the reflection tokens are appended."""
    raw = np.concatenate([np.fromfile(folder / name, np.uint8) for name in ("base_a.bin", "base_b.bin")])
    out = {}
    for name, (kind, shape, offset, count) in json.loads((folder / "base.json").read_text()).items():
        weight = dequantise(raw[offset : offset + count], kind, shape)
        parts = name.split(".")
        if parts[0] == "blk":
            if parts[2] in ("attn_q", "attn_k"):
                weight = unpermuted(weight, HEADS if parts[2] == "attn_q" else KV)
            key = f"model.layers.{parts[1]}.{GGUF[parts[2]]}.weight"
        else:
            key = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]
        out[key] = torch.from_numpy(np.ascontiguousarray(weight)).to(torch.bfloat16)
    rows = torch.from_numpy(np.load(folder / "reflection.npz")["rows"].view(np.int16)).view(torch.bfloat16)
    out["model.embed_tokens.weight"] = torch.cat([out["model.embed_tokens.weight"], rows])
    return out


def read_safetensors(file: Path) -> dict[str, torch.Tensor]:
    """Tensors of a file in bfloat16."""
    raw = file.read_bytes()
    (count,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, about in json.loads(raw[8 : 8 + count]).items():
        if name != "__metadata__":
            assert about["dtype"] == "BF16", about
            a, b = about["data_offsets"]
            values = np.frombuffer(raw, np.int16, (b - a) // 2, 8 + count + a).copy()
            out[name] = torch.from_numpy(values).view(torch.bfloat16).reshape(about["shape"])
    return out


def write_safetensors(tensors: dict[str, torch.Tensor], file: Path, about: dict[str, str]) -> None:
    head, at, raw = {"__metadata__": about}, 0, []
    for name, tensor in sorted(tensors.items()):
        data = tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        head[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        raw.append(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw))
    os.replace(part, file)
