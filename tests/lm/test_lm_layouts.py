"""The layout that is chosen: never far more work than the best of those that can be asked for, and the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shared_core.lm.base import Generate, Prompt, SamplingParams
from shared_core.lm.transformers import TransformersLM
from tests.lm.tiny_models import VOCABULARY, make, number_tokenizer
from tests.lm.tiny_requests import same, samples

pytestmark = pytest.mark.usefixtures("one_thread")


def work(model: Any, lm: TransformersLM, request: Generate) -> tuple[int, Any]:
    """How many pairs of a query and a slot of the cache all forward passes compute, and the result."""
    pairs = 0

    def count(module: Any, args: Any, kwargs: Any) -> None:
        nonlocal pairs
        rows, width = kwargs["input_ids"].shape
        cache = kwargs.get("past_key_values")
        pairs += rows * width * (width + (cache.get_seq_length() if cache is not None else 0))

    handle = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        [result] = lm.generate([request])
    finally:
        handle.remove()
    return pairs, result


@pytest.mark.parametrize(("prompt", "n", "tokens"), [(10, 96, 40), (60, 24, 6)])
def test_the_chosen_layout_computes_no_more_than_twice_the_plain_batch_or_the_tree(
    prompt: int, n: int, tokens: int
) -> None:
    model = make("llama")
    ids = np.random.default_rng(0).integers(3, VOCABULARY, prompt).tolist()
    request = Generate(
        Prompt.tokens(ids), SamplingParams(n=n, max_tokens=tokens, min_tokens=tokens, temperature=1.0, seed=1)
    )
    found = {
        name: work(model, TransformersLM(model, number_tokenizer(), layout=name), request)  # type: ignore[arg-type]
        for name in ("auto", "tree", "fallback")
    }
    for _, result in found.values():
        same(samples([result]), samples([found["fallback"][1]]))
    assert found["auto"][0] <= 2 * min(found["tree"][0], found["fallback"][0])
