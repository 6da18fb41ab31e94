"""Tiny GGUF files: a random Llama with a byte-level tokenizer, whole or spoilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
_WIDTH, _HEADS, _INNER, _LAYERS, _CONTEXT = 32, 4, 64, 2, 128


def write_gguf(
    path: Path, *, architecture: str = "llama", template: str | None = TEMPLATE, layers: int = _LAYERS
) -> Path:
    """A GGUF file of float32 weights; ``layers`` below 2 leaves the weights of the last ones out."""
    import gguf
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = ["<unk>", "<|im_start|>", "<|im_end|>", *sorted(ByteLevel.alphabet()), "he", "hel"]
    kinds = [3, 3, 3] + [1] * (len(tokens) - 3)  # 3: control, 1: normal
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["h e", "he l"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    if template is not None:
        writer.add_chat_template(template)
    for name, value in _weights(len(tokens), layers).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _weights(vocabulary: int, layers: int) -> dict[str, Any]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (random.standard_normal(shape) / 4).astype(np.float32)

    found = {"token_embd.weight": normal(vocabulary, _WIDTH), "output_norm.weight": np.ones(_WIDTH, np.float32)}
    for i in range(layers):
        found |= {f"blk.{i}.attn_{k}.weight": normal(_WIDTH, _WIDTH) for k in ("q", "k", "v", "output")}
        found |= {f"blk.{i}.ffn_{k}.weight": normal(_INNER, _WIDTH) for k in ("gate", "up")}
        found[f"blk.{i}.ffn_down.weight"] = normal(_WIDTH, _INNER)
        found |= {f"blk.{i}.{k}_norm.weight": np.ones(_WIDTH, np.float32) for k in ("attn", "ffn")}
    return found
