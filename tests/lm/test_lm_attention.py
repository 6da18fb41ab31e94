"""Attention weights of finished samples against those of a plain eager forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shared_core.lm.base import Generate, Prompt, SamplingParams
from shared_core.lm.transformers import TransformersLM
from tests.lm.tiny_models import make, number_tokenizer
from tests.lm.tiny_requests import one, samples

PROMPT = Prompt.trusted("Who built the bridge over the river Thale?")


@pytest.mark.parametrize("n", [1, 3])
def test_weights_are_those_of_a_plain_forward_pass(tiny_lm: Any, n: int) -> None:
    import torch

    result = one(tiny_lm, PROMPT, n=n, max_tokens=7, temperature=float(n > 1), seed=1, attention=True)
    ids = tiny_lm.encoder.encode(PROMPT)
    start = len(ids)
    for sample in result.samples:
        weights = sample.attention
        assert weights is not None
        before = tiny_lm.model.config._attn_implementation
        tiny_lm.model.set_attn_implementation("eager")
        with torch.inference_mode():
            output = tiny_lm.model(torch.tensor([[*ids, *sample.token_ids]]), output_attentions=True)
        tiny_lm.model.set_attn_implementation(before)
        plain = output.attentions[-1][0].numpy()
        np.testing.assert_allclose(weights.within, plain[:, start:, start:], atol=1e-6)
        np.testing.assert_allclose(weights.context, plain[:, start:, :start].mean(0), atol=1e-6)
        sums = weights.within.sum(-1) + plain[:, start:, :start].sum(-1)
        np.testing.assert_allclose(sums, 1.0, atol=1e-5)
        assert len(weights.context_tokens) == start
        assert "".join(weights.context_tokens) == weights.context_text
        assert weights.context_text.endswith(PROMPT.text)


def test_asking_for_weights_changes_nothing_else(tiny_lm: Any) -> None:
    implementation = tiny_lm.model.config._attn_implementation
    one(tiny_lm, PROMPT, max_tokens=7)  # from now on the prompt's states are cached for either
    first, second = (one(tiny_lm, PROMPT, max_tokens=7, logprobs=True, attention=asked) for asked in (False, True))
    assert first.samples[0].token_ids == second.samples[0].token_ids
    assert first.samples[0].attention is None
    assert tiny_lm.model.config._attn_implementation == implementation
    assert second.usage.forwards == first.usage.forwards + 1
    assert tiny_lm.capabilities.attention


def test_weights_of_a_sequence_are_not_those_that_a_longer_one_left_behind() -> None:
    """Rotary frequencies with dynamic scaling stay at the longest sequence seen, as long as none is short."""
    lm = TransformersLM(make("llama with dynamic rope"), number_tokenizer(), context_length=256)
    params = SamplingParams(max_tokens=4, attention=True)
    middle, long = (Generate(Prompt.tokens([3 + i % 90 for i in range(n)]), params) for n in (50, 110))
    [alone], [_, behind] = samples(lm.generate([middle])), samples(lm.generate([long, middle]))
    assert alone.attention is not None
    assert behind.attention is not None
    np.testing.assert_allclose(alone.attention.within, behind.attention.within, atol=1e-6)
