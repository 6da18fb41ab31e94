"""The pieces of the kit for chat models by themselves: secrets, thoughts, echoes, readings, calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from shared_core.lm import SamplingParams
from shared_core.lm.chat import Reply, Secrets, Tokens, find_usage, read_content
from shared_core.lm.chat.read import Kept, OnlyThoughts, kept_tokens, make_sample, read_reply
from shared_core.lm.chat.thoughts import find_own_words, find_thoughts, find_wrapped
from shared_core.support.threads import acall_all, call_all
from shared_core.types import Usage

# --- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("bad key verysecretkey", "bad key ***"),
        ("sk-proj-abc123def456 was refused", "*** was refused"),
        ("Authorization: Bearer abc.d3f", "Authorization: Bearer ***"),
        ("{'x-api-key': 'q1w2e3'}", "{'x-api-key': '***'}"),
        ("http://ann:hunter2@host/x", "http://***@host/x"),
        ("https://host/v1?key=AbCdEf&x=1", "https://host/v1?key=***&x=1"),
        ("Incorrect API key provided: abc, see there", "Incorrect API key provided: ***, see there"),
        ("dmVyeXNlY3JldGtleQ== in base64", "*** in base64"),
        ("maximum context length is 4097 tokens", "maximum context length is 4097 tokens"),
        ("the basic principle of key-value-stores", "the basic principle of key-value-stores"),
        ("a pwd of pwds", "a *** of pwds"),
    ],
)
def test_secrets_are_hidden_and_other_words_stay(text: str, hidden: str) -> None:
    assert Secrets("verysecretkey", "pwd").hide(text) == hidden


def test_a_clients_secrets_are_found_by_name_and_type() -> None:
    client = SimpleNamespace(
        openai_api_key=SecretStr("one-secret"), token="two-secret", default_headers={"X-Org": "three-secret"},
        kwargs={"aws_secret_access_key": "four-secret"}, tokenizer="gpt-two", max_tokens=7, model="llama-model",
    )  # fmt: skip
    shown = Secrets.of(client, None).hide("one-secret two-secret three-secret four-secret gpt-two llama-model")
    assert shown == "*** *** *** *** gpt-two llama-model"


# --- thoughts and wrappings ----------------------------------------------------------------------------------------

pieces = st.lists(
    st.sampled_from(["<think>", "</think>", "<thinking>", "[/THINK]", "a", " ", "\n", "```", "```\n", "<answer>",
                     "</answer>", "<|channel|>final<|message|>", "<|end|>", "assistantfinal", "analysisX"]),
    max_size=9,
).map("".join)  # fmt: skip


@settings(max_examples=500, deadline=None, derandomize=True)
@given(pieces)
def test_thoughts_are_stretches_of_the_text_and_leave_no_closed_block(text: str) -> None:
    found = find_thoughts(text)
    edges = [place for stretch in found.stretches for place in stretch]
    assert edges == sorted(edges)
    assert all(0 <= e <= len(text) for e in edges)
    start, end = find_wrapped(text)
    assert 0 <= start <= end <= len(text)
    left = Kept.all_of(text).without(found.stretches).text
    assert "</think>" not in left or "<|channel|>" in text or text.startswith("analysis")


def test_a_block_that_is_opened_twice_ends_once() -> None:
    text = "<think>I am in <think> now</think>1871"
    assert find_thoughts(text).stretches == ((0, text.index("1871")),)


# --- echoes --------------------------------------------------------------------------------------------------------

MESSAGE = "Answer the question from the passages, and quote the sentence that it rests on.\nQuestion: When was it lit?"


@pytest.mark.parametrize(("reply", "own"), [
    (f"{MESSAGE} 1871", " 1871"), (f"<s>[INST] {MESSAGE} [/INST] 1871", "1871"),
    (f"<|begin_of_text|>Cutting Knowledge Date: December 2023\n\n{MESSAGE}\nAssistant: 1871", "1871"),
    (MESSAGE[:60], ""), (f"{MESSAGE[20:]}\nAssistant: 1871", " 1871"),
    ("When was it lit? In 1871.", "When was it lit? In 1871."),
    ("Answer the question yourself", "Answer the question yourself"), ("1871", "1871"), ("", ""),
])  # fmt: skip
def test_own_words_begin_behind_the_echo(reply: str, own: str) -> None:
    assert reply[find_own_words(reply, [MESSAGE], f"User: {MESSAGE}\nAssistant:") :] == own


# --- readings ------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(["a", "b ", " c", "", "\n", "</think>", "."]), max_size=10), st.data())
def test_tokens_kept_are_those_that_share_a_character_with_what_is_kept(texts: list[str], data: Any) -> None:
    raw = "".join(texts)
    places = sorted(data.draw(st.lists(st.integers(0, len(raw)), min_size=2, max_size=2)))
    kept = Kept.all_of(raw).between(*places)
    found = kept_tokens(texts, kept)
    assert found is not None
    start = 0
    for i, text in enumerate(texts):
        end = start + len(text)
        if text:
            assert (i in found) == (start < places[1] and end > places[0] and places[0] < places[1])
        start = end


def test_tokens_of_another_text_are_unknown() -> None:
    reading = read_reply(Reply("blue"), SamplingParams(), None, "it")
    assert make_sample(reading, Tokens(("red",), (-0.1,)), restored=False).logprobs is None
    half = make_sample(reading, Tokens(("bl\ufffd",), (-0.1,)), restored=False)  # half a character explains it
    assert (half.logprobs, half.tokens) == ((-0.1,), None)


def test_only_thoughts_can_be_told_from_an_empty_answer() -> None:
    assert read_reply(Reply(""), SamplingParams(), None, "it").text == ""
    with pytest.raises(OnlyThoughts):
        read_reply(Reply("", "length"), SamplingParams(), None, "it")
    tokens = Tokens(("",), (-0.1,))
    assert read_reply(Reply("", "length", tokens=tokens), SamplingParams(logprobs=True), None, "it").text == ""


@pytest.mark.parametrize(("content", "text"), [
    ("a", "a"), (["a", "b"], "ab"), ([{"type": "text", "text": "a"}, {"type": "thinking", "text": "b"}], "a"),
    ({"text": "a"}, "a"), ([{"type": "image"}], None), (None, None), (7, None), ([], None), ("\ud83d", "\ufffd"),
    ([{"type": "reasoning", "text": "b"}, {"type": "output_text", "text": "a"}], "a"),
])  # fmt: skip
def test_content_is_read_in_all_its_forms(content: Any, text: str | None) -> None:
    assert read_content(content).text == text


def test_usage_is_found_under_every_name() -> None:
    openai = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    for found in (
        openai,
        {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3},
        {"prompt_token_count": 5, "candidates_token_count": 2, "cached_content_token_count": 3},
        SimpleNamespace(prompt_eval_count=5, eval_count=2, cache_read=3),
    ):
        assert find_usage(None, found) == Usage(1, 5, 2, cached_tokens=3)
    assert find_usage({"prompt_tokens": -1, "completion_tokens": 10**400}) == Usage(1)


# --- calls ---------------------------------------------------------------------------------------------------------


def test_a_call_that_hangs_is_left_behind_and_the_others_go_on() -> None:
    stuck = threading.Event()

    def call(i: int) -> int:
        if i % 3 == 0:
            stuck.wait(30)
        return i

    results = call_all([lambda i=i: call(i) for i in range(9)], at_once=2, seconds=1.0)  # type: ignore[misc]
    stuck.set()
    assert [r if isinstance(r, int) else type(r) for r in results] == [
        TimeoutError, 1, 2, TimeoutError, 4, 5, TimeoutError, 7, 8,
    ]  # fmt: skip


def test_a_hanging_call_does_not_keep_the_process_alive() -> None:
    code = (
        "import time; from shared_core.support.threads import call_all\n"
        "print(call_all([lambda: time.sleep(60)], at_once=1, seconds=.1))"
    )
    start = time.monotonic()
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50).stdout
    assert "TimeoutError" in shown
    assert time.monotonic() - start < 50


async def test_exceptions_are_values_and_cancelling_is_not() -> None:
    async def fail() -> int:
        raise StopAsyncIteration

    async def cancelled() -> int:
        raise asyncio.CancelledError

    (found,) = await acall_all([fail], at_once=1)
    assert isinstance(found, StopAsyncIteration)
    with pytest.raises(asyncio.CancelledError):
        await acall_all([cancelled], at_once=1)
    assert call_all([], at_once=3) == []
