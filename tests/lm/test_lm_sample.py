"""Tokens are drawn from the distribution that is asked for, and rounding does not change them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from shared_core.lm._hf.sample import Noise, choose
from shared_core.lm.base import SamplingParams

_DRAWS = 8000


def drawn(logits: torch.Tensor, how: SamplingParams, *, first: int = 0, count: int = _DRAWS) -> np.ndarray:
    """One draw for each of ``count`` samples of a (1, vocabulary) distribution."""
    noise = Noise(np.arange(first, first + count, dtype=np.uint64), np.zeros(count, dtype=np.uint64))
    return np.asarray(choose(logits.expand(count, -1), [how] * count, noise))


def distribution(logits: torch.Tensor, how: SamplingParams) -> np.ndarray:
    """Probabilities after temperature, top-k, then top-p, written down plainly."""
    p = (logits[0].double() / how.temperature).softmax(0).numpy()
    order = np.argsort(-p)
    kept = order[: how.top_k or len(p)]
    p = np.where(np.isin(np.arange(len(p)), kept), p, 0) / p[kept].sum()
    before = np.cumsum(p[order]) - p[order]
    p[order[before >= how.top_p]] = 0
    return np.asarray(p / p.sum())


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.5, 50, 1.0), (1.0, 0, 0.8)]
)
def test_draws_follow_the_distribution(temperature: float, top_k: int, top_p: float) -> None:
    how = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p)
    logits = torch.randn(1, 700, generator=torch.Generator().manual_seed(0)) * 2  # three blocks, the last cut short
    expected = distribution(logits, how)
    counts = np.bincount(drawn(logits, how), minlength=700)
    assert counts[expected == 0].sum() == 0
    often = expected * _DRAWS > 5
    seen = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum()) * _DRAWS
    assert chisquare(seen[wanted > 0], wanted[wanted > 0]).pvalue > 0.001


def test_rounding_changes_no_draw() -> None:
    """By the inverted cumulative sum 40 of 10,000 draws over 49,152 ids changed by rounding of 3e-5."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 49152, generator=generator) * 3
    rounded = logits + torch.randn(1, 49152, generator=generator) * 3e-5
    how = SamplingParams(temperature=1.0)
    changed = sum(
        int((drawn(logits, how, first=i, count=200) != drawn(rounded, how, first=i, count=200)).sum())
        for i in range(0, 2000, 200)
    )
    assert changed <= 1


def test_forbidden_tokens_are_never_drawn() -> None:
    logits = torch.full((1, 600), -torch.inf)
    logits[0, [3, 258, 599]] = torch.tensor([0.0, 1.0, 2.0])
    assert set(drawn(logits, SamplingParams(temperature=2.0)).tolist()) == {3, 258, 599}
