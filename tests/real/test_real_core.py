"""A released model in this process: the same text as transformers' own ``generate``, and an answer of each pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared_core.evaluation.baselines import plain_prompt
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Generate, Generation, Prompt, SamplingParams
from shared_core.retrieval import BM25Retriever
from shared_core.settings import PipelineName, SelfReflectSettings
from shared_core.types import Passage
from tests.real.real_answers import PIPELINES, QUESTIONS, check_answer, small_settings

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

pytestmark = pytest.mark.real

PROMPTS = ("What is the capital of France?", "Name three fruits.", "Write one sentence about the sea.")


def test_greedy_text_is_that_of_transformers() -> None:
    """In float32: bfloat16 rounds a near tie either way."""
    import torch

    from shared_core.lm.transformers import TransformersLM

    lm = TransformersLM("smollm2", device="cpu", dtype="float32")
    params = SamplingParams(max_tokens=24)
    results = lm.generate([Generate(Prompt.untrusted(p, role="user"), params) for p in PROMPTS])
    for prompt, result in zip(PROMPTS, results, strict=True):
        assert isinstance(result, Generation), result
        ids = _chat_ids(lm, prompt)
        with torch.inference_mode():
            whole = lm.model.generate(ids, max_new_tokens=24, do_sample=False, use_cache=True)[0]
        expected = lm.tokenizer.decode(whole[ids.shape[1] :], skip_special_tokens=True)
        assert result.text == expected


def test_each_greedy_token_is_a_best_one_for_transformers_but_for_rounding(smollm2: TransformersLM) -> None:
    import torch

    params = SamplingParams(max_tokens=24)
    results = smollm2.generate([Generate(Prompt.untrusted(p, role="user"), params) for p in PROMPTS])
    for prompt, result in zip(PROMPTS, results, strict=True):
        assert isinstance(result, Generation), result
        written = smollm2.tokenizer(result.text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        before = _chat_ids(smollm2, prompt)
        with torch.inference_mode():
            logits = smollm2.model(torch.cat([before, written], 1)).logits[0, before.shape[1] - 1 : -1].float()
        lost = logits.amax(-1) - logits.gather(-1, written[0][:, None])[:, 0]
        assert float(lost.max()) < 0.5, result.text  # nats; logits of about 20 are an eighth apart in bfloat16


def _chat_ids(lm: TransformersLM, prompt: str) -> Any:
    messages = [{"role": "user", "content": prompt}]
    options = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    return lm.tokenizer.apply_chat_template(messages, **options)["input_ids"]


def test_it_knows_the_capital_of_france(smollm2: TransformersLM) -> None:
    """The weights are those of the trained model: a wrong layout of them would write noise."""
    prompt = Prompt.untrusted("The Eiffel Tower stands in the capital of France, the city of")
    [result] = smollm2.generate([Generate(prompt, SamplingParams(max_tokens=8))])
    assert isinstance(result, Generation)
    assert "Paris" in result.text


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_each_pipeline_answers(pipeline: PipelineName, smollm2: TransformersLM, retriever: BM25Retriever) -> None:
    engine = SelfReflectEngine(retriever=retriever, lm=smollm2, settings=small_settings(pipeline))
    for question in QUESTIONS:
        check_answer(engine.answer(question), question)


SCHOOL = Passage(
    "school",
    "The grammar school of Ostby was founded in 1887 by Ida Holm, a shipowner. Its first headmaster was Karl Lund, who "
    "taught Latin. In 1902 the school moved to the old customs house on the harbour.",
    "Ostby grammar school",
)


def test_small_answers_from_a_passage_and_declines_what_it_does_not_say(small: TransformersLM) -> None:
    asked = ("Who founded the grammar school of Ostby?", "In what year did Ida Holm die?")
    prompts = [plain_prompt(question, [SCHOOL]) for question in asked]
    found = small.generate([Generate(prompt, SamplingParams(max_tokens=24)) for prompt in prompts])
    said = [result.text for result in found if isinstance(result, Generation)]
    assert "Ida Holm" in said[0]
    assert "do not know" in said[1]


def test_small_quotes_and_has_the_reflection_tokens(small: TransformersLM) -> None:
    settings = SelfReflectSettings(pipeline="reclaim", top_k=1, target_accuracy=0.05)
    engine = SelfReflectEngine(BM25Retriever([SCHOOL]), small, settings)
    answer = engine.answer("Who was the first headmaster of the grammar school of Ostby?")
    [span] = answer.claims[0].citations[0].spans
    assert "Karl Lund" in span.text == SCHOOL.text[span.start : span.end]
    traced = SelfReflectEngine(BM25Retriever([SCHOOL]), small, settings.replace(pipeline="self_rag")).answer(
        "Who founded the grammar school of Ostby?"
    )
    assert "Ida Holm" in traced.text
