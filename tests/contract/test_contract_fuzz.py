"""Thousands of replies that no provider should give: every request has a result, and its neighbours never suffer."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LogProb

from langchain_selfreflect import LangChainLM
from shared_core.errors import LanguageModelError
from shared_core.lm import Generate, Generation, Prompt, SamplingParams
from shared_core.lm.chat.layout import COMMON_CONTROL_STRINGS
from shared_core.lm.openai import OpenAICompatibleLM
from tests.contract.sides import Answer, LlamaIndexSide
from tests.openai_server import ALL, FakeServer

COUNT = 1000
GOOD = range(0, COUNT, 10)
"""Requests that are answered well; their neighbours are not."""
TEXTS = [
    "", " ", "\ud83d", "a\udc00b", "\x00", "<think>", "</think>", "<think>a</think>b", "```", "```\n", "<answer>",
    "token_id:abc", "token_id:7", "token_id:-1", "analysisX", "<|channel|>final<|message|>", "nan", "é" * 50, "\u2060",
    *COMMON_CONTROL_STRINGS,
]  # fmt: skip
NUMBERS: list[Any] = [
    10**400, -(10**400), math.nan, math.inf, -math.inf, 0, -0.0, -1, 1, -1e-400, 2**63, True, False, -0.5, 1e308,
]  # fmt: skip


def odd(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind == 5 or depth > 3:
        return None
    if kind == 6:
        return [odd(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = ["content", "text", "type", "message", "logprobs", "token", "logprob", "bytes", "top_logprobs", "tokens", ""]
    return {rng.choice(keys): odd(rng, depth + 1) for _ in range(rng.randrange(4))}


def spoil(value: Any, rng: random.Random) -> Any:
    """The value with some of its parts replaced by odd ones, left out, or doubled."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 4)):
        inner, path = value, []
        while isinstance(inner, (dict, list)) and inner and (not path or rng.random() < 0.8):
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            path.append((inner, rng.choice(keys)))
            inner = inner[path[-1][1]]
        if not path:
            return odd(rng)
        holder, key = path[-1]
        change = rng.random()
        if change < 0.7:
            holder[key] = odd(rng)
        elif change < 0.85:
            del holder[key]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(inner))
    return value


def choice(chat: bool, rng: random.Random) -> dict[str, Any]:
    token = {"token": "blue", "logprob": -0.5, "bytes": [98], "top_logprobs": [{"token": "no", "logprob": -2}]}
    said: dict[str, Any] = {"index": 0, "finish_reason": "stop", "stop_reason": None, "token_ids": [3, 4]}
    if chat:
        message = {"role": "assistant", "content": "blue", "tool_calls": [], "reasoning_content": "", "refusal": None}
        return {**said, "message": message, "logprobs": {"content": [token]}}
    logprobs = {"tokens": ["token_id:3"], "token_logprobs": [-0.5], "top_logprobs": [{"token_id:5": -1}]}
    return {**said, "text": rng.choice(["blue", *TEXTS]), "logprobs": {**logprobs, "text_offset": [0]}}


def checked(results: list[Any]) -> tuple[int, int]:
    """How many were read and how many refused; every one is a result, and the good ones are good."""
    for i, result in enumerate(results):
        assert isinstance(result, (Generation, LanguageModelError)), result
        if i in GOOD:
            assert isinstance(result, Generation), result
            assert result.text == "fine"
        if isinstance(result, Generation):
            for sample in result.samples:
                sample.text.encode()
                assert all(p <= 0 or math.isnan(p) for p in sample.logprobs or ())
                assert all(isinstance(i, int) for i in sample.token_ids)
        else:
            str(result).encode()
            assert result.message
    return sum(isinstance(r, Generation) for r in results), sum(isinstance(r, LanguageModelError) for r in results)


PARAMS: list[dict[str, Any]] = [
    {}, {"logprobs": True}, {"stop": ("b",)}, {"stop": ("u", "lu"), "logprobs": True}, {"n": 2, "temperature": 1.0},
]  # fmt: skip


def asked(rng: random.Random, *, chat: bool = False, more: Sequence[Any] = ()) -> list[Generate]:
    return [
        Generate(
            Prompt.trusted(str(i), "user" if chat else None),
            SamplingParams(**({} if i in GOOD else rng.choice([*PARAMS, *more]))),
        )
        for i in range(COUNT)
    ]


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completions"])
def test_a_thousand_odd_replies_of_a_server(chat: bool) -> None:
    rng = random.Random(chat)

    async def exchange(method: str, path: str, body: dict[str, Any], deadline: Any) -> str:
        """In the place of the network: the text of an answer, or the SDK's exception for a status."""
        number = int(body["messages"][0]["content"] if chat else body["prompt"])
        status = rng.choice([200] * 9 + [400, 429, 500])
        if number in GOOD:
            said = {"message": {"content": "fine"}} if chat else {"text": "fine"}
            return json.dumps({"choices": [choice(chat, rng) | said]})
        if status == 200:
            answers = [choice(chat, rng) for _ in range(body.get("n", 1))]
            text = json.dumps(spoil({"choices": answers, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}, rng))
            return text[: rng.randrange(len(text))] if rng.random() < 0.05 else text
        response: Any = SimpleNamespace(status_code=status, headers={"retry-after": rng.choice(TEXTS)}, request=None)
        raise openai.APIStatusError("refused", response=response, body=spoil({"message": "m", "code": "c"}, rng))

    with FakeServer(ALL - {"tokenize", "id_prompts"}) as server:
        lm = OpenAICompatibleLM(server.url, max_retries=0, timeout=60)
        lm.probe()
        lm._endpoint._exchange = exchange  # type: ignore[method-assign]
        requests = asked(rng, chat=chat, more=[{"verdicts": (5, 6)}])
        read, refused = checked(lm.generate(requests))
        lm.close()
    assert read > COUNT / 5
    assert refused > COUNT / 5


def test_a_thousand_odd_replies_through_langchain() -> None:
    rng = random.Random(2)

    def script(messages: Any, **kwargs: Any) -> Any:
        if int(messages[0].content) in GOOD:
            return "fine"
        said = rng.random()
        if said < 0.1:
            return odd(rng)
        if said < 0.15:
            raise rng.choice([AttributeError("a"), RecursionError(), TypeError("t"), MemoryError(), KeyError("k")])
        metadata = spoil(choice(True, rng), rng)
        content = rng.choice([rng.choice(TEXTS), [{"type": "text", "text": rng.choice(TEXTS)}], [odd_block(rng)]])
        message = AIMessage(content, response_metadata=metadata if isinstance(metadata, dict) else {})
        if rng.random() < 0.2:
            object.__setattr__(message, "content", odd(rng))
        if rng.random() < 0.2:
            object.__setattr__(message, "usage_metadata", odd(rng))
        return message

    lm = LangChainLM(RunnableLambda(script), logprobs=True)
    read, refused = checked(lm.generate(asked(rng)))
    assert read > COUNT / 5
    assert refused > COUNT / 50


def odd_block(rng: random.Random) -> Any:
    return {"type": rng.choice(["text", "thinking", "tool_use", "image", ""]), "text": rng.choice(TEXTS)}


def test_a_thousand_odd_replies_through_llamaindex() -> None:
    rng = random.Random(3)
    side = LlamaIndexSide()

    def reply(prompt: str) -> Any:
        if int(prompt) in GOOD:
            return ChatResponse(message=ChatMessage(content="fine"))
        said = rng.random()
        if said < 0.1:
            return odd(rng)
        if said < 0.15:
            raise rng.choice([AttributeError("a"), RecursionError(), TypeError("t"), MemoryError(), KeyError("k")])
        raw = spoil({"choices": [choice(True, rng)], "usage": {"prompt_tokens": 1}}, rng)
        if said < 0.3:
            return CompletionResponse(text=rng.choice(TEXTS), raw=raw)
        top = [[LogProb(token=rng.choice(TEXTS), logprob=rng.choice([-1.0, math.nan, math.inf]))]]
        message = ChatMessage(content=rng.choice(TEXTS))
        if rng.random() < 0.3:
            message.additional_kwargs = odd(rng)
        return ChatResponse(message=message, raw=raw, logprobs=top)

    lm: Any = side.lm(lambda prompt: Answer(), logprobs=True)
    object.__setattr__(lm.llm, "_chatted", lambda answer: answer)
    lm.llm._model.answer = lambda prompt, options: reply(prompt)
    read, refused = checked(lm.generate(asked(rng)))
    assert read > COUNT / 5
    assert refused > COUNT / 50
