"""A tree that differs from plain passes by rounding alone is used; one that differs by more is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from shared_core.lm._hf import probe
from shared_core.lm._hf.forest import Forest
from shared_core.lm._hf.model import Runner


def coarse(**options: Any) -> Runner:
    """A random model in bfloat16."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, **options}
    return Runner(LlamaForCausalLM(LlamaConfig(vocab_size=200, **shape)).to(torch.bfloat16).eval())


@pytest.mark.parametrize(("rounding", "refused"), [(0.0, True), (0.25, False), (9.0, False)])
@pytest.mark.parametrize("off", [0.2, 1.2])
def test_what_a_tree_may_differ_by(monkeypatch: pytest.MonkeyPatch, rounding: float, refused: bool, off: float) -> None:
    def feed(self: Any, *given: Any) -> Any:
        logits = plain(self, *given)
        logits[:, 0] += off * logits.std()
        return logits

    plain = Forest.feed
    monkeypatch.setattr(Forest, "feed", feed)
    monkeypatch.setattr(probe, "_rounding", lambda runner: rounding)
    with torch.inference_mode():
        suits = probe.examine(coarse(), "auto")
    assert bool(suits.obstacle) is (refused or off > 1)


@pytest.mark.parametrize(("rounding", "way"), [(0.0, "whole"), (0.5, "padded")])
def test_a_plain_batch_may_differ_by_rounding_too(monkeypatch: pytest.MonkeyPatch, rounding: float, way: str) -> None:
    """Gemma 3 in bfloat16 was read anew from the first token for every token that it wrote: five times the time."""
    monkeypatch.setattr(probe, "_plain_error", lambda session, *texts: 0.4 if session._cached else 0.0)
    monkeypatch.setattr(probe, "_rounding", lambda runner: rounding)
    with torch.inference_mode():
        assert probe.examine(coarse(), "fallback").way(0) == way


def test_rounding_is_measured_and_the_attention_function_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = coarse(hidden_size=64, intermediate_size=128, num_hidden_layers=8, initializer_range=0.2)
    with torch.inference_mode():
        assert 0.0 < probe._rounding(runner) < 1.0
        # One sequence may differ by less than the tree's worst does.
        differences = iter((0.11, 0.2, 0.07, 0.1, 0.1, 0.1))
        monkeypatch.setattr(probe, "_difference", lambda one, other: next(differences))
        assert probe._rounding(runner) == 0.2
        assert probe._rounding(Runner(runner.model.float())) == 0.0
    assert runner.model.config._attn_implementation == "sdpa"
