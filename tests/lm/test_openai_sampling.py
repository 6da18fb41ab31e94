"""How a server samples: as the model gives it, ended by token ids, and told what comes behind the last token."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from shared_core.errors import ContextOverflowError, ResponseError
from shared_core.lm.base import Generate, Generation, Prompt, SamplingParams
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.runtime.resources import Resources
from tests.lm.openai_client import CHAT, PLAIN, RAW, Connect, Serve, lacking, one, text_of
from tests.openai_server import ALL, FakeServer, tokenize

GENERATION_CONFIG = {"repetition_penalty": 1.3, "top_k": 20, "min_p": 0.1, "top_p": 0.8, "presence_penalty": 1.5}


def told(body: Any) -> str:
    """A model that says how it was sampled."""
    return " ".join(f"{k}={body.get(k)}" for k in GENERATION_CONFIG)


# --- as the model gives it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [RAW, CHAT], ids=["raw", "chat"])
def test_the_servers_generation_config_does_not_apply(serve: Serve, prompt: Prompt) -> None:
    server, lm = serve(reply=told, defaults=GENERATION_CONFIG)
    assert text_of(one(lm, prompt)) == "repetition_penalty=1.0 top_k=-1 min_p=0.0 top_p=1.0 presence_penalty=0.0"
    asked = text_of(one(lm, prompt, temperature=1.0, top_k=5, top_p=0.5))
    assert "top_k=5" in asked
    assert "top_p=0.5" in asked
    assert server.texts()[-1]["temperature"] == 1.0


def test_top_k_is_asked_of_no_server_that_refuses_it(serve: Serve) -> None:
    server, lm = serve(PLAIN | {"n"}, strict=True)
    assert text_of(one(lm, temperature=1.0, top_k=50)) == "The sky is blue"
    assert "top_k" not in server.texts()[-1]
    server, lm = serve()
    one(lm, temperature=1.0, top_k=50)
    assert server.texts()[-1]["top_k"] == 50


@pytest.mark.parametrize("refused", ["top_p", "temperature"])
def test_a_model_that_draws_as_it_pleases_is_asked_for_no_top_p(serve: Serve, refused: str) -> None:
    server, lm = serve(refused=[refused])
    assert text_of(one(lm, temperature=1.0, top_p=0.9)) == "The sky is blue"
    assert server.texts()[-1].get("top_p", 1.0) == 1.0


@pytest.mark.parametrize("strict", [True, False], ids=["unknown fields refused", "one field refused"])
def test_what_a_server_refuses_is_left_out_and_said_once(
    connect: Connect, caplog: pytest.LogCaptureFixture, strict: bool
) -> None:
    features = PLAIN | {"penalties"} if strict else ALL
    with FakeServer(features, strict=strict, refused=() if strict else ["min_p"]) as server:
        lm = connect(server, api="chat")
        for _ in range(3):
            assert text_of(one(lm, CHAT)) == "The sky is blue"
        sent = server.texts()[-1]
        left_out = ("top_k", "min_p", "repetition_penalty") if strict else ("min_p",)
        assert not set(left_out) & set(sent)
        assert (sent["presence_penalty"], sent["frequency_penalty"], sent["top_p"]) == (0.0, 0.0, 1.0)
        route = lm.probe().chat
        assert route is not None
        assert route.left_out == left_out
        said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(said) == 1
        assert all(name in said[0] for name in left_out)


def test_a_server_that_takes_no_temperature_is_used_and_said_to_draw_as_it_pleases(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(body: Mapping[str, Any]) -> str | None:
        said = "Unsupported value: 'temperature' does not support 0."
        return said if body.get("temperature", 1) != 1 else None

    server, lm = serve(PLAIN | {"n"}, refuses=refuses)
    assert len(one(lm, CHAT, n=3).samples) == 3
    assert server.texts()[-1]["n"] == 3  # they are draws, not one greedy text
    assert "temperature" in caplog.text


def test_a_model_that_thinks_before_it_answers_is_used_though_its_probes_end_within_its_thoughts(
    connect: Connect,
) -> None:
    class Thinking(FakeServer):
        def _text(self, body: dict[str, Any], *, chat: bool) -> tuple[int, Any]:
            status, answer = super()._text(body, chat=chat)
            if (body.get("max_tokens") or 99) < 40:  # its parser has taken the thoughts out of the content
                for choice in answer.get("choices", ()):
                    choice["message"] |= {"content": None, "reasoning_content": "Okay, so"}
            return status, answer

    with Thinking(PLAIN) as server:
        assert text_of(one(connect(server, api="chat"), CHAT, max_tokens=64)) == "The sky is blue"


@pytest.mark.parametrize("said", ["Unsupported parameter: '{}'.", "Extra inputs are not permitted."])
@pytest.mark.parametrize("field", ["seed", "stop"])
def test_a_server_that_refuses_seed_or_stop_is_used_without(
    serve: Serve, caplog: pytest.LogCaptureFixture, field: str, said: str
) -> None:
    server, lm = serve(PLAIN, refuses=lambda body: said.format(field) if field in body else None)
    result = one(lm, CHAT, seed=7, stop=(" is",), n=2, temperature=1.0)
    assert [s.text for s in result.samples] == ["The sky"] * 2
    assert ("takes no seed" in caplog.text) == ("seed" not in server.texts()[-1])


@pytest.mark.parametrize("least", [16, 500])
def test_a_server_that_refuses_a_low_limit_is_probed_with_a_higher_one(serve: Serve, least: int) -> None:
    said = "Could not finish the message because max_tokens or model output limit was reached. Please try again."
    _, lm = serve(PLAIN, refuses=lambda body: said if body["max_tokens"] < least else None)
    able = lm.probe()
    assert able.chat is not None
    assert able.completions is not None
    assert able.chat.logprobs
    assert able.chat.least >= least


NEXT: dict[str, Any] = {"verdicts": ("[Relevant]",), "next_verdicts": True}


@pytest.mark.parametrize(("capability", "params", "features"), [
    *(("stop_tokens", {"stop_token_ids": (12,)}, f) for f in (ALL - {"stop_tokens"}, ALL - {"returns_ids"}, PLAIN)),
    *(("next_verdicts", NEXT, f) for f in (ALL - {"given_ids"}, ALL - {"returns_ids"}, ALL - {"id_prompts"}, PLAIN)),
    ("alternatives", {"alternatives": 5}, {"chat", "completions"}),
])  # fmt: skip
def test_what_a_server_cannot_do_is_found_out_and_refused(
    serve: Serve, capability: str, params: dict[str, Any], features: frozenset[str]
) -> None:
    _, lm = serve(features)
    assert not getattr(lm.capabilities, capability)
    assert lacking(one(lm, **params)) == capability


def test_budgets_count_a_call_for_each_sample_where_a_server_takes_no_n(serve: Serve) -> None:
    for features, calls in ((PLAIN, 3), (PLAIN | {"n"}, 1)):
        server, lm = serve(features)
        before = len(server.texts())
        params = SamplingParams(n=3, temperature=1.0)
        assert Resources({"default": lm}).calls_of(Generate(CHAT, params)) == calls
        assert one(lm, CHAT, n=3, temperature=1.0).usage.calls == calls == len(server.texts()) - before


# --- ended by ids --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [RAW, CHAT], ids=["raw", "chat"])
def test_a_sample_ends_at_a_token_by_its_id(serve: Serve, prompt: Prompt) -> None:
    _, lm = serve(reply=lambda body: "The sky [Relevant] blue")
    sample = one(lm, prompt, stop_token_ids=(12,), logprobs=True, verdicts=(3, 4)).samples[0]
    assert (sample.text, sample.finish_reason, sample.stop, sample.stop_token_id) == ("The sky", "stop", None, 12)
    assert sample.token_ids == (10, 11, 12)
    assert len(sample.logprobs) == len(sample.verdict_logprobs) == 3
    spelt = one(lm, prompt, stop_token_ids=(3,)).samples[0]  # the text is spelt, the token never came
    assert (spelt.text, spelt.stop_token_id, spelt.finish_reason) == ("The sky [Relevant] blue", None, "eos")


# --- what comes next -----------------------------------------------------------------------------------------------


def test_the_verdicts_behind_the_last_token(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    params: dict[str, Any] = {"verdicts": ("[Relevant]", 4), "next_verdicts": True}
    result = one(lm, stop_token_ids=(11,), n=3, temperature=1.0, **params)
    assert isinstance(result, Generation)
    for sample in result.samples:
        np.testing.assert_allclose(sample.next_verdict_logprobs, [-3.0, -4.0])  # type: ignore[arg-type]
    asked = server.texts()[-1]
    assert asked["prompt"] == [*tokenize(RAW.text), 10, 11]
    assert asked["max_tokens"] == 1
    assert result.usage.calls == 2  # equal samples are asked about once
    ended = one(lm, **params)
    assert ended.samples[0].finish_reason == "eos"
    assert ended.samples[0].next_verdict_logprobs is None
    assert one(lm, stop_token_ids=(11,), verdicts=(3,)).samples[0].next_verdict_logprobs is None  # not asked for


def test_the_verdicts_behind_a_chat(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    sample = one(lm, CHAT, stop_token_ids=(11,), verdicts=(3,), next_verdicts=True).samples[0]
    np.testing.assert_allclose(sample.next_verdict_logprobs, [-3.0])
    messages = [{"role": "user", "content": CHAT.text}]
    assert server.texts()[-1]["prompt"] == [*tokenize(str(messages)), 10, 11]
    body = {"choices": [{"message": {"content": "x"}, "token_ids": [10], "finish_reason": "length"}]}
    server.faults.append({"body": body})
    assert isinstance(one(lm, CHAT, verdicts=(3,), next_verdicts=True), ResponseError)


@pytest.mark.parametrize(
    ("text", "ids", "text_left", "next_answer"),
    [("x", [10], "x", {"choices": [{"text": "y"}]}), ("<think>so</think>blue", [10, 11], "blue", None)],
    ids=["no answer", "behind an unknown token"],
)
def test_what_comes_next_may_be_unknown(
    server: FakeServer, lm: OpenAICompatibleLM, text: str, ids: list[int], text_left: str, next_answer: Any
) -> None:
    choice = {"text": text, "token_ids": ids, "finish_reason": "length", "stop_reason": None}
    server.faults.extend([{"body": body} for body in ({"choices": [choice]}, next_answer) if body])
    (sample,) = one(lm, verdicts=(3, 4), next_verdicts=True).samples
    assert sample.text == text_left
    np.testing.assert_array_equal(sample.next_verdict_logprobs, [math.nan, math.nan])


@pytest.mark.parametrize("prompt", [RAW, CHAT], ids=["raw", "chat"])
def test_half_a_character_is_no_thought_and_gets_no_more_room(
    server: FakeServer, lm: OpenAICompatibleLM, prompt: Prompt
) -> None:
    choice = {"text": "", "message": {"content": ""}} if prompt is CHAT else {"text": ""}
    choice |= {"token_ids": [107], "finish_reason": "length", "stop_reason": None}
    server.faults.append({"body": {"choices": [choice]}})
    result = one(lm, prompt, max_tokens=1)
    assert (result.text, result.usage.calls) == ("", 1)
    assert result.samples[0].token_ids == (107,)
    one(lm, prompt, max_tokens=2)
    assert server.texts()[-1]["max_tokens"] == 2


def test_a_model_that_thinks_keeps_its_stop_token_in_the_text(serve: Serve) -> None:
    server, lm = serve(reply=lambda body: "The sky [Relevant] blue")
    thoughts = {"text": "<think>so", "token_ids": [10], "finish_reason": "length", "stop_reason": None}
    server.faults.append({"body": {"choices": [thoughts]}})
    sample = one(lm, RAW, stop_token_ids=(12,), include_stop=True).samples[0]
    assert (sample.stop_token_id, sample.text) == (12, "The sky [Relevant]")


def test_room_is_kept_for_what_comes_next(lm: OpenAICompatibleLM) -> None:
    prompt = Prompt.trusted("x" * 449)
    assert isinstance(one(lm, prompt, max_tokens=50), Generation)
    error = one(lm, prompt, max_tokens=50, verdicts=(3,), next_verdicts=True)
    assert isinstance(error, ContextOverflowError)
    assert error.needed == 501
