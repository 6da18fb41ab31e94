"""Nothing that a request, a tokenizer or a model does may reach its neighbours, or leave a call as an exception."""

from __future__ import annotations

import copy
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared_core.errors import CapabilityError, ContextOverflowError, GenerationError, InputError, LanguageModelError
from shared_core.lm.base import (
    Capture,
    Generate,
    Generation,
    Grammar,
    HiddenStates,
    Prompt,
    SamplingParams,
    Score,
    Scores,
)
from shared_core.lm.transformers import TransformersLM
from shared_core.support.threads import run_within
from tests.lm.hostile import unigram
from tests.lm.tiny_models import make
from tests.lm.tiny_requests import ALL, FEW_SHOT, requests, same, samples

pytestmark = pytest.mark.usefixtures("one_thread")


# --- tokenizers


def python_bytes() -> Any:
    """A tokenizer written in Python, which has no fast backend."""
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer(extra_ids=0)


def llama(size: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=size, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=6000, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config)


@pytest.fixture(scope="module")
def lms(tiny_lm: Any) -> dict[str, TransformersLM]:
    made = {"byte-level": tiny_lm}
    for name, tokenizer in (("unigram", unigram(None)), ("bytes", python_bytes())):
        made[name] = TransformersLM(llama(len(tokenizer)), tokenizer)
    made["plain batch"] = TransformersLM(tiny_lm.model, tiny_lm.tokenizer, layout="fallback")
    return made


NEIGHBOUR = Generate(Prompt.trusted("the river"), SamplingParams(n=2, max_tokens=5, temperature=1.0, seed=4))


def beside(lm: TransformersLM, *odd: Generate) -> list[Any]:
    """What odd requests give, after seeing that the one in their midst is not touched."""
    middle = len(odd) // 2
    results = lm.generate([*odd[:middle], NEIGHBOUR, *odd[middle:]])
    assert len(results) == len(odd) + 1
    same(samples([results.pop(middle)]), samples(lm.generate([NEIGHBOUR])))
    assert all(isinstance(r, Generation | LanguageModelError) for r in results)
    return results


def test_half_a_character_is_read_as_an_unknown_one(lms: dict[str, TransformersLM]) -> None:
    for lm in lms.values():
        broken, marked = beside(
            lm,
            Generate(Prompt.untrusted("a \ud800 river \udfff"), SamplingParams(max_tokens=3)),
            Generate(Prompt.untrusted("a \ufffd river \ufffd"), SamplingParams(max_tokens=3)),
        )
        same(samples([broken]), samples([marked]))


def test_control_strings_a_thousand_times_over(lms: dict[str, TransformersLM]) -> None:
    for lm in lms.values():
        text = "<s>" * 1500 + "</s>"
        [result] = beside(lm, Generate(Prompt.untrusted(text), SamplingParams(max_tokens=2)))
        assert isinstance(result, Generation) or "fit" in str(result) or "context" in str(result)
        ids = lm.encoder.plain(text)
        assert not lm.encoder.control_ids & set(ids)
        assert "".join(lm._detokenizer.text([i]) for i in ids).strip() == text


texts = st.text(max_size=40) | st.sampled_from(
    [
        "<s>", "</s>" * 9, "\ud800", "\udc00a", "\x00", "𝔘" * 5, "\u202e", "<|im_start|>system\n", "[Relevant]", "",
        " \n\t",
    ]
)  # fmt: skip
odd_values: Any = st.none() | st.floats() | st.text(max_size=3) | st.integers(-(2**70), 2**70)
grammars = [None, *map(Grammar, ['start: "a" | "b"', "start: \ud800", "start: nobody", "start: /[a-z]{1,3}/", ""])]
captures: list[Any] = [
    None,
    Capture(),
    Capture(layer=99),
    Capture(layer="x"),  # type: ignore[arg-type]
    Capture(kind="?"),  # type: ignore[arg-type]
]
odd_params = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(1, 3), "max_tokens": st.integers(1, 6), "temperature": st.floats(0, 5),
        "top_k": st.integers(0, 500), "top_p": st.floats(0.01, 1),
        "stop": st.lists(texts.filter(bool), max_size=2).map(tuple), "seed": st.integers(-(2**70), 2**70) | st.none(),
        "logprobs": st.booleans(), "verdicts": st.lists(st.integers(-5, 600) | texts, max_size=2).map(tuple),
        "grammar": st.sampled_from(grammars), "capture": st.sampled_from(captures), "token_statistics": st.booleans(),
        "attention": st.booleans(),
    },
)  # fmt: skip
odd_prompts = st.one_of(
    texts.map(Prompt.untrusted),
    texts.map(Prompt.trusted),
    texts.map(lambda t: Prompt.trusted("Be brief.", "system") + Prompt.untrusted(t, "user")),
    st.lists(st.integers(-3, 10**6) | odd_values, max_size=3).map(Prompt.tokens),
    st.none(),
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(odd_prompts, odd_params), min_size=1, max_size=4), st.sampled_from(range(4)))
def test_odd_requests_are_results_and_harm_nobody(
    lms: dict[str, TransformersLM], odd: list[tuple[Any, dict[str, Any]]], which: int
) -> None:
    lm = list(lms.values())[which]
    beside(lm, *(Generate(prompt, SamplingParams(**{"max_tokens": 6, **params})) for prompt, params in odd))


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(odd_prompts, min_size=1, max_size=3), st.sampled_from(range(4)))
def test_odd_scores_and_states_are_results(lms: dict[str, TransformersLM], odd: list[Any], which: int) -> None:
    lm = list(lms.values())[which]
    good = Score(FEW_SHOT, (Prompt.untrusted("river"),))
    results = lm.score([Score(FEW_SHOT, tuple(odd)), *(Score(p, good.continuations) for p in odd), good])
    assert not isinstance(results[-1], LanguageModelError)
    states = lm.hidden_states([HiddenStates(tuple(odd)), HiddenStates((FEW_SHOT,))])
    assert not isinstance(states[-1], LanguageModelError)


@pytest.mark.parametrize("wrong", [
    {"stop": "ab"}, {"stop": (1,)}, {"stop": ("",)}, {"max_tokens": 2.5}, {"n": 1.0}, {"n": True}, {"top_k": "3"},
    {"seed": 1.5}, {"verdicts": "ab"}, {"min_tokens": None}, {"stop_token_ids": (-1,)}, {"stop_token_ids": ("x",)},
    {"verdicts": (), "next_verdicts": True}, {"alternatives": -1}, {"alternatives": 21}, {"alternatives": 1.5},
    {"alternatives": 3, "verdicts": ("a",)},
])  # fmt: skip
def test_parameters_of_the_wrong_type_or_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"SamplingParams\.{next(iter(wrong))} "):
        SamplingParams(**wrong)


@pytest.mark.parametrize(("given", "needs"), [
    ({}, ()), ({"n": 5, "logprobs": True, "temperature": 1.0}, ()), ({"alternatives": 3}, ("alternatives",)),
    ({"stop_token_ids": (3,), "verdicts": (3, 4), "next_verdicts": True},
     ("verdict_logprobs", "next_verdicts", "stop_tokens")),
])  # fmt: skip
def test_params_say_what_they_need(given: dict[str, Any], needs: tuple[str, ...]) -> None:
    assert SamplingParams(**given).needs == needs


def test_numbers_of_numpy_are_whole_numbers() -> None:
    assert SamplingParams(n=np.int64(2), seed=np.int32(7)).n == 2  # type: ignore[arg-type]


def test_overflow_is_refused_before_the_model_runs(tiny_lm: Any) -> None:
    before = tiny_lm._runner.forwards
    long = Prompt.untrusted("river " * 2000)
    [result] = tiny_lm.generate([Generate(long, SamplingParams(max_tokens=10))])
    assert isinstance(result, ContextOverflowError)
    assert result.needed == len(tiny_lm.encoder.encode(long)) + 10
    assert result.available == 1024
    assert isinstance(tiny_lm.score([Score(long, (Prompt.untrusted("a"),))])[0], ContextOverflowError)
    assert isinstance(tiny_lm.hidden_states([HiddenStates((long,))])[0], ContextOverflowError)
    assert tiny_lm._runner.forwards == before


def test_bad_requests_fail_alone(tiny_lm: Any) -> None:
    results = tiny_lm.generate(
        [
            Generate(FEW_SHOT, SamplingParams(max_tokens=2, verdicts=("not one token at all",))),
            Generate(FEW_SHOT, SamplingParams(max_tokens=2, capture=Capture(layer=99))),
            Generate(Prompt.tokens([10**6]), SamplingParams(max_tokens=2)),
            Generate(FEW_SHOT, SamplingParams(max_tokens=2)),
        ]
    )
    assert [type(r) for r in results] == [LanguageModelError, CapabilityError, LanguageModelError, Generation]
    assert all(r.hint for r in results[:3])
    assert tiny_lm.generate([]) == []


def test_a_tokenizer_without_bos_pad_and_eos(tiny_model: Any, tiny_tokenizer: Any) -> None:
    from transformers import PreTrainedTokenizerFast

    bare = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer.backend_tokenizer)
    lm = TransformersLM(tiny_model, bare)
    results = lm.generate([Generate(FEW_SHOT, ALL), Generate(Prompt.untrusted("a"), ALL)])
    assert all(isinstance(r, Generation) for r in results)


# --- models that fail


def test_nan_logits_fail_only_the_request_that_has_them(tiny_model: Any, tiny_tokenizer: Any) -> None:
    model = copy.deepcopy(tiny_model)
    poison = tiny_tokenizer.convert_tokens_to_ids("[No Retrieval]")
    model.model.embed_tokens.weight.data[poison] = math.nan
    for layout in ("auto", "tree", "rows", "fallback"):
        lm = TransformersLM(model, tiny_tokenizer, layout=layout)  # type: ignore[arg-type]
        bad = Generate(FEW_SHOT + Prompt.trusted("[No Retrieval] and more"), ALL)
        results = lm.generate([*requests()[:2], bad, *requests()[2:]])
        assert isinstance(results[2], GenerationError), layout
        good = [r for i, r in enumerate(results) if i != 2]
        same(samples(good), samples(TransformersLM(tiny_model, tiny_tokenizer).generate(requests())))
        same(samples(lm.generate(requests())), samples(good))  # and nothing bad was kept


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, IndexError, AssertionError, RuntimeError])
@pytest.mark.parametrize("layout", ["auto", "fallback"])
def test_a_model_that_fails_at_one_prompt_answers_the_others(
    error: type[Exception], layout: Any, tiny_model: Any, tiny_tokenizer: Any, tiny_lm: Any
) -> None:
    model = copy.deepcopy(tiny_model)
    lm = TransformersLM(model, tiny_tokenizer, layout=layout)
    poison = tiny_tokenizer.convert_tokens_to_ids("[Irrelevant]")

    def explode(module: Any, inputs: Any) -> None:
        if bool((inputs[0] == poison).any()):
            raise error("nothing to be done")

    model.model.embed_tokens.register_forward_pre_hook(explode)
    params = SamplingParams(n=2, max_tokens=4, temperature=1.0, seed=1)
    bad = Generate(FEW_SHOT + Prompt.trusted("[Irrelevant] and more"), params)
    good = requests(params)
    results = lm.generate([*good[:2], bad, *good[2:], bad])
    for failed in (results.pop(), results.pop(2)):
        assert isinstance(failed, GenerationError)
        assert error.__name__ in failed.message
        assert "nothing to be done" in failed.message
    same(samples(results), samples(tiny_lm.generate(good)))


def test_a_batch_too_large_for_memory_is_run_in_parts(tiny_model: Any, tiny_tokenizer: Any, tiny_lm: Any) -> None:
    model = copy.deepcopy(tiny_model)
    lm = TransformersLM(model, tiny_tokenizer)

    def explode(module: Any, inputs: Any) -> None:
        if inputs[0].numel() > 60:
            raise MemoryError("out of memory")

    model.model.embed_tokens.register_forward_pre_hook(explode)
    params = SamplingParams(n=1, max_tokens=4)
    many = [Generate(Prompt.untrusted(f"{'river ' * i} Thale"), params) for i in range(2, 12)]
    same(samples(lm.generate(many)), samples(tiny_lm.generate(many)))


def test_a_model_that_always_fails_says_so_for_each_request(tiny_tokenizer: Any) -> None:
    lm = TransformersLM(make("llama"), tiny_tokenizer)
    lm.model.forward = lambda **_: (_ for _ in ()).throw(AttributeError("no such thing"))
    results = lm.generate([Generate(Prompt.tokens([5, 6]), SamplingParams(max_tokens=2)) for _ in range(3)])
    assert [type(r) for r in results] == [GenerationError] * 3


@pytest.mark.parametrize("name", ["byte-level", "plain batch"])
def test_a_call_that_nobody_waits_for_ends_with_the_pass_that_it_is_in(
    lms: dict[str, TransformersLM], name: str
) -> None:
    lm, passes, let_go = lms[name], [0], threading.Event()
    done: list[Any] = []

    def hold(*_: Any) -> None:
        passes[0] += 1
        let_go.wait(20)

    request = Generate(FEW_SHOT, SamplingParams(max_tokens=50, min_tokens=50))
    hook = lm.model.register_forward_hook(hold)
    try:
        assert not run_within(0.3, lambda: done.append(lm.generate([request])))
        let_go.set()
        asked = passes[0]
        lm.score([])  # takes its turn after the call
        assert passes[0] == asked == 1
        assert not done
    finally:
        hook.remove()
    assert len(samples(lm.generate([request]))) == 1


# --- side by side


async def test_async_forms(tiny_lm: Any) -> None:
    same(samples(await tiny_lm.agenerate(requests())), samples(tiny_lm.generate(requests())))
    [scores] = await tiny_lm.ascore([Score(FEW_SHOT, (Prompt.untrusted("river"),))])
    assert isinstance(scores, Scores)


def test_calls_from_several_threads(tiny_lm: Any) -> None:
    expected = samples(tiny_lm.generate(requests()))
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: samples(tiny_lm.generate(requests())), range(6)):
            same(result, expected)
