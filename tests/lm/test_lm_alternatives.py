"""The likely tokens at each place: those of a plain forward pass, those that a server names, and who cannot say."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shared_core.lm._vllm.read import OutputReader
from shared_core.lm.base import Generation, SamplingParams
from tests.lm.openai_client import CHAT, PLAIN, RAW, Serve, one
from tests.lm.tiny_requests import requests, same, samples


@pytest.mark.parametrize("n", [1, 3])
def test_alternatives_are_those_of_a_plain_forward_pass(tiny_lm: Any, n: int) -> None:
    import torch

    asked = requests(SamplingParams(n=n, max_tokens=7, temperature=float(n > 1), seed=1, alternatives=4, logprobs=True))
    for request, result in zip(asked, tiny_lm.generate(asked)):
        assert isinstance(result, Generation)
        prompt = tiny_lm.encoder.encode(request.prompt)
        for sample in result.samples:
            ids = [*prompt, *sample.token_ids]
            with torch.no_grad():
                logits = tiny_lm.model(torch.tensor([ids])).logits[0].double()
            rows = logits[len(prompt) - 1 : -1].log_softmax(-1)
            assert sample.alternatives is not None
            assert len(sample.alternatives) == len(sample.token_ids)
            for row, found, token, text, p in zip(
                rows, sample.alternatives, sample.token_ids, sample.tokens or (), sample.logprobs or ()
            ):
                assert len(found) == 4
                assert (found[0].token, found[0].logprob) == (text, p)  # the generated one first, likely or not
                values = [a.logprob for a in found]
                assert values[1:] == sorted(values[1:], reverse=True)
                others = row[torch.arange(len(row)) != token].topk(3).values
                np.testing.assert_allclose(values[1:], others, atol=1e-4)


def test_asking_for_alternatives_changes_nothing_else(tiny_lm: Any) -> None:
    plain = SamplingParams(n=2, max_tokens=6, temperature=1.0, seed=3, logprobs=True)
    asking = SamplingParams(n=2, max_tokens=6, temperature=1.0, seed=3, logprobs=True, alternatives=20)
    before, after = (samples(tiny_lm.generate(requests(p))) for p in (plain, asking))
    same(before, after)
    assert all(s.alternatives is None for s in before)
    assert tiny_lm.capabilities.alternatives


def test_a_server_names_them_by_text(serve: Serve) -> None:
    _, lm = serve(PLAIN, rivals={" sea": -2.5, "The": -0.5, " Yes": -0.9})
    assert lm.capabilities.alternatives
    for prompt in (RAW, CHAT):
        rows = one(lm, prompt, alternatives=3).samples[0].alternatives
        assert [(a.token, a.logprob) for a in rows[0]] == [("The", -0.5), (" Yes", -0.9), (" sea", -2.5)]
        assert [a.token for a in rows[1]] == [" sky", "The", " Yes"]  # what it did not choose may be the likelier


def test_vllm_s_outputs(tiny_lm: Any) -> None:
    ids = tiny_lm.encoder.plain("the river")[:2]

    def entry(p: float) -> Any:
        return SimpleNamespace(logprob=p)

    positions = [{ids[0]: entry(-0.1), 7: entry(-3.0), 9: entry(-2.0)}, {7: entry(-0.2), ids[1]: entry(-1.8)}]
    output = SimpleNamespace(token_ids=ids, stop_reason=None, finish_reason="length", logprobs=positions, text="")
    params = SamplingParams(max_tokens=2, alternatives=2)
    sample = OutputReader(tiny_lm.encoder).sample(output, params, [])
    assert sample.alternatives is not None
    assert [[a.logprob for a in row] for row in sample.alternatives] == [[-0.1, -2.0], [-1.8, -0.2]]
    assert [row[0].token for row in sample.alternatives] == list(sample.tokens or ())
    assert not math.isnan(sample.alternatives[0][1].logprob)
