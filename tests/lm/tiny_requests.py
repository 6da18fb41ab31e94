"""Requests to small random models, and what they gave, compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from shared_core.lm.base import Capture, Generate, Generation, Prompt, Sample, SamplingParams

FEW_SHOT = Prompt.trusted("Question: When was the town founded? Answer: The town was founded in 1204.\n")
QUESTIONS = [
    "Who built the bridge?",
    "Who built the bridge over the river Thale?",
    "When?",
    "What does the museum keep?",
]
ALL = SamplingParams(
    n=3, max_tokens=9, temperature=1.0, top_k=50, top_p=0.9, seed=7, logprobs=True, verdicts=("[Relevant]", 9),
    token_statistics=True, capture=Capture(),
)  # fmt: skip


def requests(params: SamplingParams = ALL) -> list[Generate]:
    return [Generate(FEW_SHOT + Prompt.untrusted(q) + Prompt.trusted(" Answer:"), params) for q in QUESTIONS]


def one(lm: Any, prompt: Prompt = FEW_SHOT, **params: Any) -> Generation:
    """What one request gives; raises its error."""
    [result] = lm.generate([Generate(prompt, SamplingParams(**params))])
    if not isinstance(result, Generation):
        raise result
    return result


def samples(results: list[Any]) -> list[Sample]:
    for result in results:
        if not isinstance(result, Generation):
            raise result
    return [s for r in results for s in r.samples]


def same(a: list[Sample], b: list[Sample], tolerance: float = 2e-4) -> None:
    assert [s.token_ids for s in a] == [s.token_ids for s in b]
    assert [(s.text, s.finish_reason, s.stop) for s in a] == [(s.text, s.finish_reason, s.stop) for s in b]
    for x, y in zip(a, b):
        for field in ("logprobs", "verdict_logprobs", "entropy", "logsumexp", "hidden_state"):
            left, right = getattr(x, field), getattr(y, field)
            assert (left is None) == (right is None)
            if left is not None:
                np.testing.assert_allclose(left, right, atol=tolerance, rtol=tolerance, err_msg=field)
