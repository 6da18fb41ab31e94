"""OpenAICompatibleLM against servers that obey, ignore, refuse and fail."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from shared_core.errors import (
    BackendUnavailableError,
    GrammarError,
    InputError,
    LanguageModelError,
    ModelLoadError,
    ResponseError,
)
from shared_core.lm.base import Capture, Generate, Generation, Grammar, Prompt, Score, Scores
from shared_core.lm.openai import OpenAICompatibleLM
from tests.lm.openai_client import CHAT, KEY, PLAIN, RAW, Connect, Serve, lacking, one, text_of
from tests.openai_server import ALL, FakeServer, tokenize

# --- abilities -----------------------------------------------------------------------------------------------------


def test_a_server_that_does_everything_is_found_to(lm: OpenAICompatibleLM) -> None:
    able = lm.probe()
    assert set(lm.capabilities.names()) == {
        "text", "token_logprobs", "verdict_logprobs", "next_verdicts", "stop_tokens", "grammar", "token_prompts",
        "score", "alternatives",
    }  # fmt: skip
    assert lm.capabilities.context_length == 500
    assert lm.name == able.model == "tiny"
    assert able.chat is not None
    assert able.chat.continues


def test_fields_that_are_silently_ignored_are_found_out(serve: Serve) -> None:
    server, lm = serve(PLAIN - {"logprobs"})
    assert lm.capabilities.names() == ("text",)
    before = len(server.requests)
    assert lacking(one(lm, grammar=Grammar('start: "x"'))) == "grammar"
    assert len(server.requests) == before  # it was not tried to see what comes


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_server_that_refuses_unknown_fields_works(serve: Serve, limit: str) -> None:
    """OpenAI: 400 for a field it does not know; newer models call the limit max_completion_tokens."""
    said = f"Unsupported parameter. Use '{limit}' instead."
    server, lm = serve({"chat", "n", "logprobs"}, strict=True, refuses=lambda body: None if limit in body else said)
    assert lm.capabilities.token_logprobs
    assert text_of(one(lm, CHAT, n=2, temperature=1.0, logprobs=True)) == "The sky is blue"
    assert text_of(one(lm, RAW)) == "The sky is blue"  # a raw prompt becomes the user's message
    assert server.texts()[-1]["messages"] == [{"role": "user", "content": RAW.text}]
    assert limit in server.texts()[-1]


def test_it_asks_once_however_many_threads_begin(connect: Connect, server: FakeServer) -> None:
    lm = connect(server)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, [lm] * 6))
    assert sum(p == "/v1/models" for p, _, _ in server.requests) == 1
    assert sum(p == "/tokenizer_info" for p, _, _ in server.requests) == 1


def test_a_failed_probe_is_not_kept(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_retries=0)
    server.faults.extend([{"status": 503}] * 40)
    assert isinstance(one(lm), BackendUnavailableError)
    server.faults.clear()
    assert text_of(one(lm)) == "The sky is blue"
    assert lm.capabilities.grammar


@pytest.mark.parametrize("models", [[], [{"id": "a"}, {"id": "b"}]])
def test_without_a_name_the_server_must_have_one_model(connect: Connect, models: list[dict[str, Any]]) -> None:
    with FakeServer(models=models) as server, pytest.raises(ModelLoadError) as caught:
        _ = connect(server).name
    assert all(m["id"] in caught.value.message for m in models)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, {"error": {"message": "Missing scopes: api.model.read"}}), (200, "<html>App</html>"), (404, {}), (500, {})],
)
def test_a_model_that_is_named_is_used_though_the_list_cannot_be_read(
    connect: Connect, server: FakeServer, status: int, body: Any
) -> None:
    server.listing = status, body
    assert text_of(one(connect(server, model="tiny"), CHAT)) == "The sky is blue"
    with pytest.raises(LanguageModelError):
        connect(server).probe()


def test_a_bare_list_of_models_is_read(connect: Connect, server: FakeServer) -> None:
    server.listing = 200, server.models
    assert connect(server).probe().context_length == 500


def test_an_error_in_the_place_of_models_is_told(connect: Connect, server: FakeServer) -> None:
    server.listing = 200, {"error": "Unexpected endpoint or method. (GET /models). Returning 200 anyway"}  # LM Studio
    with pytest.raises(BackendUnavailableError, match=r"nothing at that address.*Unexpected endpoint"):
        connect(server).probe()


def test_a_model_that_may_not_give_log_probabilities_is_used_without(connect: Connect, server: FakeServer) -> None:
    def reply(body: dict[str, Any], chat: bool) -> tuple[int, Any]:
        if body.get("logprobs"):  # as OpenAI says of its models that think
            return 403, {"error": {"message": "You are not allowed to request logprobs from this model"}}
        return 200, {"choices": [{"message": {"content": "Blue"}} if chat else {"text": "Blue"}]}

    server.script = reply
    lm = connect(server)
    assert not lm.capabilities.token_logprobs
    assert text_of(one(lm, CHAT)) == "Blue"


@pytest.mark.parametrize("key", [f" {KEY}\n", f"{KEY}\r\n"])
def test_blanks_around_a_key_do_not_count(connect: Connect, server: FakeServer, key: str) -> None:
    connect(server, api_key=key).probe()
    assert server.requests[0][2]["authorization"] == f"Bearer {KEY}"


def test_a_wrong_model_name_is_named(connect: Connect, server: FakeServer) -> None:
    error = one(connect(server, model="huge"))
    assert isinstance(error, ModelLoadError)
    assert "huge" in error.message
    assert error.hint


# --- samples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [ALL, PLAIN], ids=["n", "n ignored"])
@pytest.mark.parametrize("prompt", [RAW, CHAT], ids=["raw", "chat"])
def test_n_samples_come_whatever_the_server_does_with_n(serve: Serve, features: frozenset[str], prompt: Prompt) -> None:
    server, lm = serve(features)
    before = len(server.texts())
    result = one(lm, prompt, n=5, temperature=1.0, seed=7, logprobs=True)
    assert isinstance(result, Generation)
    assert len(result.samples) == 5
    assert result.samples[0].logprobs == (-0.5,) * 4
    sent = server.texts()[before:]
    assert sorted(b["seed"] for b in sent) == ([7] if features == ALL else [7, 8, 9, 10, 11])
    assert result.usage.calls == len(sent)
    assert result.usage.generated_tokens == 20
    assert result.usage.cached_tokens == len(sent)


def test_a_greedy_sample_is_asked_for_once(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    """vLLM refuses n > 1 at temperature 0."""
    result = one(lm, n=3)
    assert [s.text for s in result.samples] == ["The sky is blue"] * 3
    assert "n" not in server.texts()[-1]
    assert result.usage.calls == 1


def test_fewer_choices_than_asked_for_are_made_up_or_refused(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    short = {"choices": [{"index": 0, "text": "one"}]}
    server.faults.append({"body": short})
    result = one(lm, n=3, temperature=1.0)
    assert [s.text for s in result.samples] == ["one", "The sky is blue", "The sky is blue"]
    server.script = lambda body, chat: (200, {"choices": [{"text": "one"}] * max(1, body.get("n", 1) // 2)})
    result = one(lm, n=9, temperature=1.0)
    assert isinstance(result, ResponseError)
    assert "8 samples where 9" in result.message


@pytest.mark.parametrize("refuses", [True, False])
def test_a_server_that_gives_a_few_choices_at_a_time_is_asked_more_often(
    server: FakeServer, lm: OpenAICompatibleLM, refuses: bool
) -> None:
    def few(body: dict[str, Any], chat: bool) -> tuple[int, Any]:
        n = body.get("n", 1)
        if refuses and n > 4:
            return 400, {"error": {"message": "n must be at most 4"}}
        return 200, {"choices": [{"index": i, "text": f"{body['seed'] + i}"} for i in range(min(n, 4))]}

    server.script = few
    for _ in range(2):
        result = one(lm, n=20, temperature=1.0, seed=0)
        assert len({s.text for s in result.samples}) == len(result.samples) == 20
    asked = [body.get("n", 1) for body in server.texts()]
    assert asked.count(20) == (1 if refuses else 2)  # a refusal is remembered


@pytest.mark.parametrize(
    ("value", "expected"), [(None, math.nan), (float("nan"), math.nan), ("low", math.nan), (-1, -1.0)]
)
def test_log_probabilities_that_are_none_are_nan(
    server: FakeServer, lm: OpenAICompatibleLM, value: Any, expected: float
) -> None:
    server.logprob = value
    for prompt in (RAW, CHAT):
        np.testing.assert_array_equal(one(lm, prompt, logprobs=True).samples[0].logprobs, [expected] * 4)


@pytest.mark.parametrize("logprobs", [None, {}, {"content": []}, {"content": None}, [], {"token_logprobs": []}])
def test_no_log_probabilities_though_asked_are_unknown(
    server: FakeServer, lm: OpenAICompatibleLM, logprobs: Any
) -> None:
    choice = {"text": "Blue", "logprobs": logprobs, "finish_reason": "stop"}
    server.faults.append({"body": {"choices": [choice]}})
    sample = one(lm, logprobs=True, verdicts=(3,)).samples[0]
    assert sample.text == "Blue"
    assert sample.logprobs is None
    assert sample.verdict_logprobs.shape == (0, 1)


def _chat_choice(content: str, tokens: Sequence[tuple[str, float]], **message: Any) -> dict[str, Any]:
    rivals = [{"token": t, "logprob": p} for t, p in (("No", -0.1), ("Yes", -3.0), ("No", -9.0))]
    listed = [{"token": t, "logprob": p, "top_logprobs": rivals} for t, p in tokens]
    said = {"role": "assistant", "content": content, **message}
    return {"index": 0, "message": said, "finish_reason": "stop", "logprobs": {"content": listed}}


THOUGHT = [("<think>", -1.0), ("No", -2.0), ("</think>", -3.0), ("\n\n", -4.0), ("Yes", -0.5), (" sir", -0.25)]


def test_log_probabilities_of_thoughts_in_a_field_of_their_own_are_not_the_answers(serve: Serve) -> None:
    server, lm = serve(PLAIN)
    for tail in ([], [("<|im_end|>", -7.0)]):
        choice = _chat_choice("Yes sir", [*THOUGHT, *tail], reasoning_content="No")
        server.faults.append({"body": {"choices": [choice]}})
        sample = one(lm, CHAT, logprobs=True, verdicts=("Yes", "No")).samples[0]
        assert (sample.tokens, sample.logprobs) == (("Yes", " sir"), (-0.5, -0.25))
        assert sample.verdict_logprobs.tolist() == [[-3.0, -0.1]] * 2  # of two tokens of one text the likelier
    choice = _chat_choice("Yes sir", THOUGHT[:3], reasoning_content="No")  # those of the thoughts alone
    server.faults.append({"body": {"choices": [choice]}})
    assert one(lm, CHAT, logprobs=True).samples[0].logprobs is None


@pytest.mark.parametrize(
    ("text", "tokens", "known"),
    [
        ("Yes sir", [("Yes", -0.5), (" sir", -0.25)], True),
        # Blanks are lost where tokens are decoded one by one.
        ("Yes sir", [("Yes", -0.5), ("sir", -0.25), ("</s>", -1.0)], True),
        ("Yes sir", [("▁Yes", -0.5), ("▁sir", -0.25)], True),
        # vLLM spells broken characters as nothing.
        ("\ufffd\ufffd sir", [("", -2.0), ("", -1.5), (" sir", -0.25)], True),
        ("Yes sir", [("Yes", -0.5)], False),
        ("Yes sir", [("Dear", -1.0), ("Yes", -0.5), (" sir", -0.25)], False),
    ],
)
def test_log_probabilities_of_another_text_are_unknown(
    serve: Serve, text: str, tokens: list[tuple[str, float]], known: bool
) -> None:
    server, lm = serve(PLAIN)
    server.faults.append({"body": {"choices": [_chat_choice(text, tokens)]}})
    sample = one(lm, CHAT, logprobs=True).samples[0]
    assert sample.logprobs == (tuple(p for _, p in tokens) if known else None)


def test_verdicts_are_read_at_the_ids_asked_for(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    for prompt in (RAW, CHAT):
        result = one(lm, prompt, verdicts=("[Relevant]", 4, "[Relevant]"))
        np.testing.assert_allclose(result.samples[0].verdict_logprobs, [[-3.0, -4.0, -3.0]] * 4)
        assert server.texts()[-1]["logprob_token_ids"] == [3, 4]
    assert isinstance(one(lm, verdicts=("two tokens",)), LanguageModelError)


def test_without_given_ids_verdicts_come_from_the_likely_tokens(serve: Serve) -> None:
    _, lm = serve(PLAIN, rivals={"Yes": -0.1, "No": -2.5})
    for prompt in (RAW, CHAT):
        found = one(lm, prompt, verdicts=("No", "Never")).samples[0].verdict_logprobs
        np.testing.assert_array_equal(found, [[-2.5, math.nan]] * 4)
    assert lacking(one(lm, verdicts=(17,))) == "verdict_logprobs"


def test_grammars_and_what_servers_say_of_them(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    result = one(lm, grammar=Grammar('start: "yes"'))
    assert result.text == "yes"
    assert result.samples[0].finish_reason == "grammar"
    server.faults.append({"status": 400, "body": {"error": {"message": "Grammar error: 1(9): lexer error"}}})
    error = one(lm, grammar=Grammar("start: %%", name="quotes"))
    assert isinstance(error, GrammarError)
    assert "quotes" in error.message


def test_stop_strings_are_cut_where_the_server_forgets_them(serve: Serve) -> None:
    server, lm = serve(PLAIN)
    sample = one(lm, stop=("blue", "sky")).samples[0]
    assert (sample.text, sample.finish_reason, sample.stop) == ("The ", "stop", "sky")
    assert one(lm, stop=("sky",), include_stop=True).text == "The sky"
    assert server.texts()[-1]["stop"] == ["sky"]


def test_what_a_server_never_does_is_refused_by_name(lm: OpenAICompatibleLM) -> None:
    assert lacking(one(lm, capture=Capture())) == "hidden_states"
    assert lacking(one(lm, token_statistics=True)) == "token_statistics"
    assert isinstance(one(lm, Prompt()), LanguageModelError)


# --- scores --------------------------------------------------------------------------------------------------------


def test_scores_by_ids(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    (result,) = lm.score([Score(Prompt.trusted("ab"), (Prompt.trusted("cd"), Prompt.tokens([7]), Prompt()))])
    assert isinstance(result, Scores)
    assert result.token_logprobs == ((-1.099, -1.1), (-0.007,), ())
    assert server.texts()[-1]["prompt"][:3] == tokenize("ab")
    assert result.usage.generated_tokens == 0


def test_scores_by_echo(serve: Serve) -> None:
    _, lm = serve(PLAIN | {"echo"})
    (result,) = lm.score([Score(Prompt.trusted("the sky is"), (Prompt.trusted(" deep grey"), Prompt.trusted(" up")))])
    assert isinstance(result, Scores)
    assert result.token_logprobs == ((-5.0, -5.0), (-3.0,))


def test_scores_where_there_are_none(serve: Serve) -> None:
    _, lm = serve(PLAIN)
    (error,) = lm.score([Score(RAW, (Prompt.trusted(" blue"),))])
    assert lacking(error) == "score"


# --- running -------------------------------------------------------------------------------------------------------


def test_no_more_requests_at_once_than_allowed(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_concurrency=3)
    assert all(isinstance(r, Generation) for r in lm.generate([Generate(RAW)] * 20))
    assert server.busiest <= 3


def test_sync_async_and_several_loops_share_one_client(lm: OpenAICompatibleLM) -> None:

    async def both() -> list[Any]:
        return await asyncio.gather(lm.agenerate([Generate(RAW)]), lm.agenerate([Generate(CHAT)]))

    for _ in range(2):
        first, second = asyncio.run(both())
        assert text_of(first[0]) == text_of(second[0]) == "The sky is blue"
    assert asyncio.run(lm.ascore([Score(RAW, (RAW,))]))[0].token_logprobs
    assert text_of(one(lm)) == "The sky is blue"


def test_cancelling_the_caller_cancels_the_request(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    server.faults.append({"delay": 1.0})

    async def impatient() -> None:
        async with asyncio.timeout(0.2):
            await lm.agenerate([Generate(CHAT)])

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert text_of(one(lm)) == "The sky is blue"


def test_closing_twice_is_fine_and_using_after_is_not() -> None:
    with FakeServer() as server, OpenAICompatibleLM(server.url) as lm:
        assert text_of(one(lm)) == "The sky is blue"
        lm.close()
        with pytest.raises(InputError, match="closed"):
            one(lm)


@pytest.mark.parametrize(("url", "options"), [
    ("", {}), ("localhost:8000", {}), ("ftp://host/v1", {}), ("http://", {}), ("http://h:port/v1", {}),
    (f"http://h/v1?key={KEY}", {}), (f"http://h/v1?api-version=1&key={KEY}", {}),
    (f"http://h/v1?{KEY}", {}), ("http://h/v1", {"timeout": 0}), ("http://h/v1", {"max_retries": -1}),
    ("http://h/v1", {"max_concurrency": 0}), ("http://h/v1", {"deadline": 0}), ("http://h/v1", {"api": "rest"}),
    ("http://h/v1", {"timeout": math.nan}), ("http://h/v1", {"api_key": f"{KEY}…"}),
    ("http://h/v1", {"headers": {"X-Key": f"{KEY}\n"}}),
])  # fmt: skip
def test_arguments_out_of_range_are_refused_at_once(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        OpenAICompatibleLM(url, **options)
    assert KEY not in str(caught.value)


def test_v1_is_added_to_a_bare_host() -> None:
    assert OpenAICompatibleLM("http://[::1]:8000/")._endpoint.url == "http://[::1]:8000/v1"
    assert OpenAICompatibleLM("https://host/api/v3/")._endpoint.url == "https://host/api/v3"
