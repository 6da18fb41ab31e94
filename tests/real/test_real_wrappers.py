"""The same model through each framework's own Hugging Face wrapper: text alone, as most users plug it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared_core.retrieval import BM25Retriever
from shared_core.settings import PipelineName
from shared_core.types import Answer
from tests.real.real_answers import PIPELINES, QUESTIONS, check_answer, small_settings

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

pytestmark = pytest.mark.real

QUESTION = QUESTIONS[0]


@pytest.fixture(scope="module")
def llamaindex_llm(smollm2: TransformersLM) -> Any:
    wrappers = pytest.importorskip("llama_index.llms.huggingface")
    return wrappers.HuggingFaceLLM(
        model=smollm2.model,
        tokenizer=smollm2.tokenizer,
        context_window=8192,
        max_new_tokens=64,
        is_chat_model=True,
        generate_kwargs={"do_sample": False},
    )


@pytest.fixture(scope="module")
def langchain_llm(smollm2: TransformersLM) -> Any:
    wrappers = pytest.importorskip("langchain_huggingface")
    from transformers import pipeline

    generator = pipeline(
        "text-generation", model=smollm2.model, tokenizer=smollm2.tokenizer, max_new_tokens=64, do_sample=False
    )
    return wrappers.ChatHuggingFace(llm=wrappers.HuggingFacePipeline(pipeline=generator), tokenizer=smollm2.tokenizer)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_llamaindex(pipeline: PipelineName, llamaindex_llm: Any, retriever: BM25Retriever) -> None:
    from llamaindex_selfreflect import SelfReflectQueryEngine

    engine = SelfReflectQueryEngine(retriever, llm=llamaindex_llm, settings=small_settings(pipeline, max_calls=24))
    answer = engine.query(QUESTION).answer
    assert answer is not None
    check_answer(answer, QUESTION)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_langchain(pipeline: PipelineName, langchain_llm: Any, retriever: BM25Retriever) -> None:
    from langchain_selfreflect import SelfReflectChain

    settings = small_settings(pipeline, max_calls=24)
    chain = SelfReflectChain(retriever=retriever, llm=langchain_llm, settings=settings, include_passages=True)
    message = chain.invoke(QUESTION)
    check_answer(Answer.from_dict(message.response_metadata["selfreflect"]), QUESTION)
