"""Attention weights of the last layer, by one more forward pass with eager attention over finished samples.

The fast attention kernels that decoding uses never form the weights, so they are computed afterwards, for the
sequences they are asked for; only the last layer's are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from shared_core.errors import CapabilityError, GenerationError
from shared_core.lm._detokenize import Detokenizer
from shared_core.lm._hf.model import Runner
from shared_core.lm.base import Attention

_NAMES = ("self_attn", "attn", "attention", "self_attention", "self_attention_block")


def attention_module(runner: Runner) -> Any | None:
    """The last layer's attention, ``None`` where it cannot be found or cannot be made to give its weights."""
    if not hasattr(runner.model, "set_attn_implementation"):
        return None
    try:
        layer = runner._layer_list()[-1]
    except CapabilityError:
        return None
    return next((m for n in _NAMES if isinstance(m := getattr(layer, n, None), torch.nn.Module)), None)


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def last_layer_attention(
    runner: Runner, detokenizer: Detokenizer, prompt: Sequence[int], generated: Sequence[Sequence[int]]
) -> list[Attention]:
    """The weights of each continuation of a prompt; call it under inference mode, by one thread at a time.

    Raises:
        GenerationError: the model gives no weights after all, or fails.
    """
    module = attention_module(runner)
    if module is None:
        raise GenerationError("The last layer's attention was not found.", hint="Use gate='uncertainty' or 'flare'.")
    tokens = tuple(detokenizer.text([t]) for t in prompt)
    text = detokenizer.text(prompt)
    found: list[Attention] = []
    kept: list[torch.Tensor] = []

    def hook(module: Any, inputs: Any, output: Any) -> None:
        kept[:] = [o for o in output if isinstance(o, torch.Tensor) and o.dim() == 4]

    handle = module.register_forward_hook(hook)
    try:
        with _eager(runner.model):
            for ids in generated:
                sequence = torch.tensor([[*prompt, *ids]], device=runner.device)
                runner.settle()
                runner.forward(sequence, None, None, None, [])
                weights = kept[-1][0, :, len(prompt) :].float().cpu().numpy()
                start = len(prompt)
                found.append(Attention(weights[:, :, start:], weights[:, :, :start].mean(0), tokens, text))
    except GenerationError:
        raise
    except Exception as error:  # a model may refuse another implementation of attention in any way it likes
        raise GenerationError(f"The model gave no attention weights: {type(error).__name__}: {error}") from error
    finally:
        handle.remove()
    return found
