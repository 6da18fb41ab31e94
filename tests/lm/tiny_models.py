"""Small random models of many architectures, and what a plain forward pass over a sequence says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 97
_SIZE = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_MODERN = {**_SIZE, **_BODY, "num_key_value_heads": 2, "max_position_embeddings": 256}
_GPT = {**_SIZE, "n_embd": 32, "n_layer": 2, "n_head": 4}
_BART = {
    **_SIZE, "d_model": 32, "decoder_layers": 2, "encoder_layers": 1, "decoder_attention_heads": 4,
    "encoder_attention_heads": 4, "decoder_ffn_dim": 48, "encoder_ffn_dim": 48, "max_position_embeddings": 256,
}  # fmt: skip
_LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [1.0, 3.0, 6.0, 9.0],
    "original_max_position_embeddings": 40,
}  # fmt: skip
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
_NEO = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", _MODERN),
    "llama with dynamic rope": ("llama", {**_MODERN, "max_position_embeddings": 40, "rope_parameters": _DYNAMIC}),
    "mistral with a window": ("mistral", {**_MODERN, "sliding_window": 24}),
    "qwen2": ("qwen2", _MODERN),
    "gemma": ("gemma", {**_MODERN, "head_dim": 8}),
    "gemma2 with a window": ("gemma2", {**_MODERN, "head_dim": 8, "sliding_window": 24}),
    "gpt2": ("gpt2", {**_GPT, "n_positions": 256}),
    "gpt-neo with a local window": ("gpt_neo", {**_SIZE, **_BODY, **_NEO, "window_size": 24}),
    "phi3 with longrope": ("phi3", {**_MODERN, "original_max_position_embeddings": 40, "rope_parameters": _LONGROPE}),
    "bloom": ("bloom", {**_SIZE, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("mpt", {**_SIZE, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 256}),
    "mixtral": ("mixtral", {**_MODERN, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "doge with a window": ("doge", {**_MODERN, "keep_window_size": 24}),
    "llama4 with chunks": (
        "llama4_text",
        {**_MODERN, "head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2, "attention_chunk_size": 24,
         "floor_scale": 24},
    ),
    "bart's decoder": ("bart", {**_BART, "is_decoder": True}),
    "mamba": ("mamba", {**_SIZE, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "jamba": (
        "jamba",
        {**_MODERN, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8,
         "use_mamba_kernels": False},
    ),
    "bert": ("bert", {**_SIZE, **_BODY}),
    "xlnet": ("xlnet", {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
}  # fmt: skip


def make(name: str, **changes: Any) -> Any:
    """A random model, with weights large enough that a wrong mask shows in its logits."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind, options = ARCHITECTURES[name]
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**options, **changes)).eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.mul_(4.0)
    return model


def number_tokenizer() -> Any:
    """One token for each id: ``w3``, ``w4``, …"""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(3, VOCABULARY))]
    core = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="w3"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def token_logprobs(model: Any, prompt: Sequence[int], sample: Sequence[int]) -> NDArray[np.float64]:
    """Log-probability of each token of a sample, each by a forward pass over exactly the tokens before it."""
    import torch

    found = []
    grows = "dynamic" in str(getattr(model.config, "rope_parameters", ""))
    with torch.inference_mode():
        for i, token in enumerate(sample):
            if grows:  # rotary frequencies go back only at a short forward pass
                model(torch.tensor([[1]]), use_cache=False)
            logits = model(torch.tensor([[*prompt, *sample[:i]]]), use_cache=False).logits[0, -1]
            found.append(float(logits.log_softmax(-1)[token]))
    return np.array(found)
