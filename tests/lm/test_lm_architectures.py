"""Every architecture gives what plain forward passes over each sequence give, in whatever way it is decoded."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from shared_core.errors import LanguageModelError, ModelLoadError
from shared_core.lm.base import Generate, Generation, Prompt, SamplingParams, Score, Scores
from shared_core.lm.transformers import TransformersLM
from tests.lm.tiny_models import ARCHITECTURES, VOCABULARY, make, number_tokenizer, token_logprobs
from tests.lm.tiny_requests import one

pytestmark = pytest.mark.usefixtures("one_thread")

REFUSED = {"bert", "xlnet"}
OBSTACLES = {
    "gpt-neo with a local window": "its local layers", "bloom": "no position ids", "mpt": "no position ids",
    "llama4 with chunks": "chunked_attention", "bart's decoder": "no position ids", "mamba": "recurrent state",
    "jamba": "recurrent state",
}  # fmt: skip
"""Why some are not decoded as trees; all others are."""
# Below, at and above the windows of 24 tokens and the switches of 40 that the models have.
LENGTHS = (1, 20, 26, 36, 40, 41, 60)
PARAMS = SamplingParams(n=2, max_tokens=6, min_tokens=6, temperature=1.0, seed=3, logprobs=True)


def prompts() -> list[list[int]]:
    """Some begin alike, so that trees have something to share."""
    random = np.random.default_rng(0)
    root = random.integers(3, VOCABULARY, 64).tolist()
    return [[*root[: n * 2 // 3], *random.integers(3, VOCABULARY, n - n * 2 // 3).tolist()] for n in LENGTHS]


def check(model: Any, results: list[Any], wanted: list[list[int]]) -> None:
    for prompt, result in zip(wanted, results):
        assert isinstance(result, Generation), (len(prompt), result)
        for sample in result.samples:
            expected = token_logprobs(model, prompt, sample.token_ids)
            np.testing.assert_allclose(sample.logprobs, expected, atol=1e-4, err_msg=f"prompt of {len(prompt)}")


def requests(wanted: list[list[int]], params: SamplingParams = PARAMS) -> list[Generate]:
    return [Generate(Prompt.tokens(p), params) for p in wanted]


@pytest.mark.parametrize("name", [n for n in ARCHITECTURES if n not in REFUSED])
def test_samples_have_the_logprobs_of_plain_forward_passes(name: str) -> None:
    model = make(name)
    lm = TransformersLM(model, number_tokenizer(), context_length=256)
    assert OBSTACLES[name] in lm.fallback if name in OBSTACLES else lm.fallback == ""
    wanted = prompts()
    check(model, lm.generate(requests(wanted)), wanted)  # all at once, the longest beside the shortest
    for prompt in (wanted[-1], wanted[1], wanted[5]):  # alone, behind prefixes that were kept
        check(model, lm.generate(requests([prompt])), [prompt])


@pytest.mark.parametrize("name", ["llama with dynamic rope", "phi3 with longrope", "mistral with a window", "llama"])
@pytest.mark.parametrize("layout", ["tree", "rows", "fallback"])
def test_every_layout_is_exact_on_both_sides_of_a_switch(name: str, layout: Any) -> None:
    model = make(name)
    lm = TransformersLM(model, number_tokenizer(), context_length=256, layout=layout)
    check(model, lm.generate(requests(prompts())), prompts())


def test_long_sequences_behind_a_switch_share_a_tree() -> None:
    """What the tree is for must not be lost where frequencies switch: a long prompt with many samples."""
    model = make("phi3 with longrope")
    lm = TransformersLM(model, number_tokenizer())
    prompt = np.random.default_rng(1).integers(3, VOCABULARY, 80).tolist()
    usage = one(lm, Prompt.tokens(prompt), n=8, max_tokens=4, temperature=1.0, seed=0).usage
    assert usage.prompt_tokens == 80  # computed once, not once for each sample
    assert usage.forwards <= 6
    assert one(lm, Prompt.tokens(prompt), max_tokens=1).usage.cached_tokens >= 79
    short = prompt[:30]  # its states were computed for the other side of the switch and must not be used
    [result] = lm.generate(requests([short]))
    check(model, [result], [short])
    assert result.usage.cached_tokens == 0


def test_scores_on_both_sides_of_a_switch() -> None:
    for name in ("phi3 with longrope", "llama with dynamic rope"):
        model = make(name)
        lm = TransformersLM(model, number_tokenizer(), context_length=256)
        tail = [5, 9, 11, 7]
        results = lm.score([Score(Prompt.tokens(p), (Prompt.tokens(tail), Prompt.tokens(tail[:1]))) for p in prompts()])
        for prompt, result in zip(prompts(), results):
            assert isinstance(result, Scores)
            for given, found in zip((tail, tail[:1]), result.token_logprobs):
                np.testing.assert_allclose(found, token_logprobs(model, prompt, given), atol=1e-4)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_no_causal_model_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ModelLoadError, match="not a causal language model") as error:
        TransformersLM(make(name), number_tokenizer())
    assert type(make(name)).__name__ in error.value.message
    assert error.value.hint


def test_an_encoder_decoder_is_refused() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(ModelLoadError, match="T5ForConditionalGeneration"):
        TransformersLM(T5ForConditionalGeneration(config).eval(), number_tokenizer())


def test_a_bert_made_a_decoder_is_taken() -> None:
    model = make("bert", is_decoder=True)
    lm = TransformersLM(model, number_tokenizer())
    check(model, lm.generate(requests(prompts())), prompts())


@pytest.mark.parametrize("layout", ["auto", "rows", "fallback"])
def test_a_window_that_the_configuration_names_strangely_is_found_or_refused(layout: Any) -> None:
    """An architecture nobody here knows: its window begins behind as many tokens as some key says."""
    model = make("mistral with a window")
    model.config.sliding_span = 24
    model.config.sliding_window = None
    for layer in model.model.layers:
        layer.self_attn.forward = _windowed(layer.self_attn.forward, 24)
    lm = TransformersLM(model, number_tokenizer(), layout=layout)
    wanted = prompts()
    for prompt, result in zip(wanted, lm.generate(requests(wanted))):
        if isinstance(result, LanguageModelError):
            assert len(prompt) + 6 > 24
        else:
            check(model, [result], [prompt])


def _windowed(forward: Any, size: int) -> Any:
    """Attention in which a slot is seen by the ``size`` slots behind it alone, whatever the mask says."""
    import torch

    def run(hidden_states: Any, *args: Any, attention_mask: Any = None, past_key_values: Any = None, **kw: Any) -> Any:
        length = hidden_states.shape[1]
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        place = torch.arange(past + length)
        far = place[None, :] <= place[past:, None] - size
        if attention_mask is None:
            far = far | (place[None, :] > place[past:, None])
            attention_mask = torch.zeros(1, 1, length, past + length)
        if attention_mask.dtype == torch.bool:
            attention_mask = attention_mask & ~far
        else:
            attention_mask = attention_mask.masked_fill(far, torch.finfo(torch.float32).min)
        return forward(hidden_states, *args, attention_mask=attention_mask, past_key_values=past_key_values, **kw)

    return run


def test_examining_leaves_the_model_as_it_was() -> None:
    model = make("llama")
    model.train()
    model.model.layers[0].eval()
    before = [m.training for m in model.modules()]
    config = copy.deepcopy(model.config.to_dict())
    lm = TransformersLM(model, number_tokenizer())
    lm.generate(requests(prompts()[:3]))
    assert [m.training for m in model.modules()] == before
    assert model.config.to_dict() == config
    assert model.config._attn_implementation == "sdpa"
