"""A released model in this process: the same text as transformers' own ``generate``, and an answer of each pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Generate, Generation, Prompt, SamplingParams
from shared_core.retrieval import BM25Retriever
from shared_core.settings import PipelineName
from tests.real.real_answers import PIPELINES, QUESTIONS, check_answer, small_settings

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

pytestmark = pytest.mark.real

PROMPTS = ("What is the capital of France?", "Name three fruits.", "Write one sentence about the sea.")


def test_greedy_text_is_that_of_transformers(smollm2: TransformersLM) -> None:
    import torch

    model, tokenizer = smollm2.model, smollm2.tokenizer
    params = SamplingParams(max_tokens=24)
    results = smollm2.generate([Generate(Prompt.untrusted(p, role="user"), params) for p in PROMPTS])
    for prompt, result in zip(PROMPTS, results, strict=True):
        assert isinstance(result, Generation), result
        messages = [{"role": "user", "content": prompt}]
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )["input_ids"]
        with torch.inference_mode():
            whole = model.generate(ids, max_new_tokens=24, do_sample=False, use_cache=True)[0]
        expected = tokenizer.decode(whole[ids.shape[1] :], skip_special_tokens=True)
        assert result.text == expected


def test_it_knows_the_capital_of_france(smollm2: TransformersLM) -> None:
    """The weights are those of the trained model: a wrong layout of them would write noise."""
    [result] = smollm2.generate([Generate(Prompt.untrusted(PROMPTS[0], role="user"), SamplingParams(max_tokens=24))])
    assert isinstance(result, Generation)
    assert "Paris" in result.text


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_each_pipeline_answers(pipeline: PipelineName, smollm2: TransformersLM, retriever: BM25Retriever) -> None:
    engine = SelfReflectEngine(retriever=retriever, lm=smollm2, settings=small_settings(pipeline))
    for question in QUESTIONS:
        check_answer(engine.answer(question), question)
