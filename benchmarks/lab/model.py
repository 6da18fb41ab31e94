"""The lab's model, a small Llama: making it, its loss over packed rows, saving it."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.lab.packing import Batch
from shared_core.errors import InputError
from shared_core.lab.setup import CARD

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

_DENSE = "lab_dense"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Shape of a Llama.

    Attributes:
        hidden: width of the residual stream.
        layers: number of layers.
        heads, key_value_heads: heads of grouped-query attention, of 64 dimensions each: the cost of attention on a
            CPU is proportional to the number of heads, and every engine supports this size.
        feed_forward: inner width of the feed-forward layers.
        context: length of the longest sequence, in tokens.
    """

    hidden: int = 256
    layers: int = 6
    heads: int = 4
    key_value_heads: int = 2
    feed_forward: int = 768
    context: int = 2048


SIZES: Mapping[str, ModelSize] = MappingProxyType(
    {"tiny": ModelSize(64, 2, 1, 1, 192), "small": ModelSize(), "large": ModelSize(384, 10, 6, 3, 1152)}
)
"""``tiny`` for tests, ``small`` (5.5 million parameters) for a CPU, ``large`` (19 million) for an accelerator."""


def make_model(tokenizer: PreTrainedTokenizerFast, size: ModelSize, seed: int = 0) -> LlamaForCausalLM:
    """Make a randomly initialised Llama with tied embeddings."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden,
        intermediate_size=size.feed_forward,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_value_heads,
        max_position_embeddings=size.context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def attend_densely(model: LlamaForCausalLM) -> None:
    """Switch a model to plain attention in bfloat16, which trains faster on a CPU.

    The backward pass of PyTorch's fused attention under a mask takes most of a step there. Plain matrix products and a
    softmax that keep their results take a fraction of it: 1.25 times as many tokens a second with this model.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(_DENSE, _dense_attention)
    AttentionMaskInterface.register(_DENSE, sdpa_mask)
    model.set_attn_implementation(_DENSE)


def fuse_layers(model: LlamaForCausalLM) -> None:
    """Compile the layers, which fuses the element-wise operations: 1.25 times as many tokens a second on a CPU.

    One program serves all shapes. Without a C++ compiler the layers stay as they are.
    """
    import torch

    if all(shutil.which(name) is None for name in ("g++", "clang++", "c++")):
        return
    for layer in model.model.layers:
        layer.forward = torch.compile(layer.forward, dynamic=True)


def _dense_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Attend with (B, H, L, D) queries to (B, G, L, D) keys and values; H is a multiple of G, the mask (B, 1, L, L)."""
    import torch

    batch, heads, length, width = query.shape
    groups = key.shape[1]
    with torch.autocast(query.device.type, enabled=False):  # autocast would compute the softmax in float32
        query, key, value = (t.to(torch.bfloat16) for t in (query * scaling, key, value))
        # Heads that share keys are stacked along the length, (B, G, H/G·L, D), so that keys need not be repeated.
        scores = query.reshape(batch, groups, -1, width) @ key.transpose(-1, -2)
        scores = scores.reshape(batch, heads, length, length) + attention_mask
        weights = torch.softmax(scores, -1).reshape(batch, groups, -1, length)
        found = (weights @ value).reshape(batch, heads, length, width)
    return found.transpose(1, 2).contiguous(), None


# --- loss ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FamilyScores:
    """Scores of the rows of one family in a batch.

    Attributes:
        rows, tokens: numbers of rows and of learned tokens.
        loss: sum over the learned tokens, in nats.
        exact: number of rows of which every learned token was the likeliest one.
    """

    rows: int = 0
    tokens: int = 0
    loss: float = 0.0
    exact: int = 0

    def plus(self, other: FamilyScores) -> FamilyScores:
        """Add two scores."""
        return FamilyScores(
            self.rows + other.rows, self.tokens + other.tokens, self.loss + other.loss, self.exact + other.exact
        )


def score_batch(model: LlamaForCausalLM, batch: Batch, device: str) -> tuple[Tensor, dict[str, FamilyScores]]:
    """Compute the loss to minimise, and the scores of each family.

    Logits are computed only at learned positions, of which there are a tenth as many as tokens.

    Returns:
        The weighted mean of the negative log-likelihoods (nats), and the scores by family.
    """
    import torch
    from torch.nn.functional import cross_entropy

    ids, positions, target = (torch.from_numpy(a).to(device) for a in (batch.ids, batch.positions, batch.target))
    seen = torch.from_numpy(batch.seen).to(device)[:, None]  # (B, 1, L, L)
    # Additive and finite: float32's least value would round to -inf in bfloat16, and exp(-1e4) is 0 anyway.
    mask = torch.zeros(seen.shape, dtype=torch.bfloat16, device=device).masked_fill_(~seen, -1e4)
    places = torch.from_numpy(batch.sequence).to(device), torch.from_numpy(batch.after).to(device)
    with torch.autocast(device.split(":")[0], dtype=torch.bfloat16):
        states = model.model(input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=False)
        logits = model.lm_head(states.last_hidden_state[places])  # (T, V)
    losses = cross_entropy(logits.float(), target, reduction="none")  # (T,)
    loss = (losses * torch.from_numpy(batch.weight).to(device)).sum()
    return loss, _by_family(batch, losses.detach(), logits.detach().argmax(1) == target)


def _by_family(batch: Batch, losses: Tensor, right: Tensor) -> dict[str, FamilyScores]:
    wrong = [0] * len(batch.families)
    sums = [0.0] * len(batch.families)
    counts = [0] * len(batch.families)
    for row, loss, hit in zip(batch.row.tolist(), losses.tolist(), right.tolist()):
        wrong[row] += not hit
        sums[row] += loss
        counts[row] += 1
    found: dict[str, FamilyScores] = defaultdict(FamilyScores)
    for family, misses, total, count in zip(batch.families, wrong, sums, counts):
        found[family] = found[family].plus(FamilyScores(1, count, total, int(not misses)))
    return dict(found)


# --- files ---------------------------------------------------------------------------------------------------------


def save_model(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path, card: Mapping[str, Any]
) -> None:
    """Save weights in bfloat16 (safetensors), tokenizer and card, as transformers and vLLM load them."""
    import torch
    from transformers import LlamaForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    plain = LlamaForCausalLM(model.config).to(torch.bfloat16)  # without training's attention and compiled layers
    plain.load_state_dict(model.state_dict())
    plain.set_attn_implementation("sdpa")
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in card.items())
    (folder / CARD).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def size_of(name: str) -> ModelSize:
    """Return the shape of that name; InputError with the names if there is none."""
    if name not in SIZES:
        raise InputError(f"There is no size {name!r}.", hint=f"There are: {', '.join(SIZES)}.")
    return SIZES[name]
