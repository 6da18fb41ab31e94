"""The transformers backend on bad input, failing models, checkpoints, and from several threads."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shared_core.errors import (
    CapabilityError,
    ContextOverflowError,
    GenerationError,
    LanguageModelError,
    ModelLoadError,
)
from shared_core.lm.base import (
    Capture,
    Generate,
    Generation,
    HiddenStates,
    LanguageModel,
    Prompt,
    SamplingParams,
    Score,
    Scores,
)
from shared_core.lm.transformers import TransformersLM
from tests.lm.tiny_requests import ALL, FEW_SHOT, requests, same, samples

pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_nan_logits_fail_only_the_request_that_has_them(tiny_model: Any, tiny_tokenizer: Any) -> None:
    import copy

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


@pytest.mark.parametrize("what", ["missing", "file", "empty", "config only"])
def test_what_is_not_a_checkpoint_is_refused(what: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = tmp_path / "model"
    if what == "file":
        path.write_text("weights")
    elif what != "missing":
        path.mkdir()
    if what == "config only":
        (path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelLoadError) as error:
        TransformersLM(str(path))
    assert error.value.hint
    assert str(path) in error.value.message


def test_an_unknown_name_on_an_offline_hub_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelLoadError, match="someone/some-model") as error:
        TransformersLM("someone/some-model")
    assert "HF_HUB_OFFLINE" in error.value.hint


def test_a_saved_checkpoint_loads(tiny_model: Any, tiny_tokenizer: Any, tiny_lm: Any, tmp_path: Any) -> None:
    tiny_model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    lm = TransformersLM(str(tmp_path), device="cpu")
    assert isinstance(lm, LanguageModel)
    assert lm.capabilities.context_length == 1024
    assert lm.capabilities.grammar
    same(samples(lm.generate(requests())), samples(tiny_lm.generate(requests())))


async def test_async_forms(tiny_lm: Any) -> None:
    same(samples(await tiny_lm.agenerate(requests())), samples(tiny_lm.generate(requests())))
    [scores] = await tiny_lm.ascore([Score(FEW_SHOT, (Prompt.untrusted("river"),))])
    assert isinstance(scores, Scores)


def test_calls_from_several_threads(tiny_lm: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    expected = samples(tiny_lm.generate(requests()))
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: samples(tiny_lm.generate(requests())), range(6)):
            same(result, expected)
