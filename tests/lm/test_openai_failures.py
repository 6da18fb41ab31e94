"""OpenAICompatibleLM against servers that fail: the right error, nothing leaked, tried again only where it helps."""

from __future__ import annotations

import json
import logging
import time
import traceback
from types import SimpleNamespace
from typing import Any

import pytest

from shared_core.errors import (
    BackendUnavailableError,
    ContextOverflowError,
    EmptyReplyError,
    LanguageModelError,
    ModelLoadError,
    ResponseError,
)
from shared_core.lm._server.request import Planner
from shared_core.lm.base import Generate, Generation, Score
from shared_core.lm.openai import OpenAICompatibleLM
from tests.lm.openai_client import CHAT, KEY, PLAIN, RAW, Connect, one, text_of
from tests.lm.test_chat_overflow import WORDS
from tests.openai_server import FakeServer

ECHOED = f"Incorrect API key provided: {KEY}. You can find your API key in your account."
FAULTS: dict[str, tuple[dict[str, Any], type[LanguageModelError]]] = {
    "401 echoing the key": ({"status": 401, "body": {"error": {"message": ECHOED}}}, BackendUnavailableError),
    "403": ({"status": 403, "body": {"detail": f"Forbidden for Bearer {KEY}"}}, BackendUnavailableError),
    "404": ({"status": 404, "body": {"detail": "Not Found"}}, BackendUnavailableError),
    "404 model": ({"status": 404, "body": {"error": {"message": "The model `x` does not exist"}}}, ModelLoadError),
    "413": ({"status": 413, "body": "<html>Request Entity Too Large</html>"}, ContextOverflowError),
    "422": ({"status": 422, "body": {"detail": [{"msg": "bad"}]}}, LanguageModelError),
    "429": ({"status": 429, "body": {"error": {"message": f"Rate limit for {KEY}"}}}, BackendUnavailableError),
    "400 filter": (
        {"status": 400, "body": {"error": {"message": "The response was filtered", "code": "content_filter"}}},
        EmptyReplyError,
    ),
    "403 filter": ({"status": 403, "body": {"error": {"message": "Your input was flagged"}}}, EmptyReplyError),
    "500": ({"status": 500, "body": f"Traceback: key={KEY}"}, BackendUnavailableError),
    "503 page": ({"status": 503, "body": f"<html>{KEY}</html>"}, BackendUnavailableError),
    "dropped": ({"drop": True}, BackendUnavailableError),
    "page": ({"body": f"<!doctype html><title>Welcome {KEY}</title>"}, ResponseError),
    "truncated": ({"body": '{"choices": [{"text": "bl' + KEY}, ResponseError),
    "shorter than promised": ({"body": '{"choices": []}', "length": 400}, BackendUnavailableError),
    "empty": ({"body": ""}, ResponseError),
    "a list": ({"body": [1, 2]}, ResponseError),
    "no choices": ({"body": {"choices": []}}, ResponseError),
    "choices null": ({"body": {"choices": None, "error": KEY}}, BackendUnavailableError),
    "error with 200": ({"body": {"error": {"message": f"{KEY} is bad", "code": 400}}}, LanguageModelError),
    "choices of text": ({"body": {"choices": ["blue"]}}, ResponseError),
    "null content": (
        {"body": {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}}, EmptyReplyError,
    ),
    "refusal": ({"body": {"choices": [{"message": {"content": None, "refusal": "No."}}]}}, EmptyReplyError),
    "null text": ({"body": {"choices": [{"text": None}]}}, EmptyReplyError),
    "quota": (
        {"status": 429, "body": {"error": {"message": "quota", "code": "insufficient_quota"}}}, BackendUnavailableError,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_failure_is_the_right_error_and_leaks_nothing(
    server: FakeServer, lm: OpenAICompatibleLM, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    fault, expected = FAULTS[name]
    server.faults.extend([fault] * 3)
    error = one(lm)
    assert type(error) is expected
    assert error.message
    assert error.__context__ is None
    assert error.__cause__ is None
    shown = "".join(traceback.format_exception(error)) + repr(error) + str(error) + error.hint
    try:
        raise error
    except LanguageModelError:
        shown += traceback.format_exc()
    for text in (shown, caplog.text, repr(lm), repr(lm._endpoint), repr(lm.probe())):
        assert KEY not in text
        assert "sk-test" not in text
    server.faults.clear()
    assert text_of(one(lm)) == "The sky is blue"


@pytest.mark.parametrize("name", ["401 echoing the key", "page", "truncated", "dropped", "500"])
def test_a_server_broken_from_the_start_leaks_nothing(
    connect: Connect, server: FakeServer, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    lm = connect(server, max_retries=0)
    server.faults.extend([FAULTS[name][0]] * 200)
    with pytest.raises(LanguageModelError) as caught:
        _ = lm.capabilities
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value)
    assert "sk-test" not in shown + caplog.text


def test_credentials_in_the_address_are_used_and_not_shown(
    connect: Connect, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lm = connect(f"http://ann:hun%2Fter2@127.0.0.1:{server.port}/v1", api_key=None)
    assert text_of(one(lm)) == "The sky is blue"
    assert {h["authorization"] for _, _, h in server.requests} == {"Basic YW5uOmh1bi90ZXIy"}
    server.faults.append({"status": 400, "body": {"error": {"message": "hun/ter2 hun%2Fter2 YW5uOmh1bi90ZXIy"}}})
    assert "ter2" not in str(one(lm)) + repr(lm) + caplog.text
    assert "YW5u" not in caplog.text


@pytest.mark.parametrize("path", ["/openai/deployments/tiny", "/openai/v1/"])
def test_an_address_of_azure_keeps_its_version_and_sends_the_key_as_azure_wants_it(
    connect: Connect, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeServer(PLAIN, root=path.rstrip("/")) as server:
        lm = connect(f"http://127.0.0.1:{server.port}{path}?api-version=2024-10-21", model="tiny")
        assert text_of(one(lm)) == "The sky is blue"
        assert len(server.requests) > 10
        for sent, _, headers in server.requests:
            assert sent.endswith("?api-version=2024-10-21")
            assert (headers.get("api-key"), headers.get("authorization")) == (KEY, None)
        server.faults.append({"status": 401, "body": {"error": {"message": f"{KEY} is wrong"}}})
        assert KEY not in str(one(lm)) + repr(lm) + caplog.text
        own = connect(
            lm._endpoint.url + "?api-version=1", model="tiny", api_key=None, headers={"Authorization": "Bearer t"}
        )
        one(own)
        assert server.requests[-1][2]["authorization"] == "Bearer t"


def test_the_environments_key_goes_to_no_server_by_itself(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    with FakeServer() as server:
        one(connect(server, api_key=None))
        assert not any("sk-from" in str(h) for _, _, h in server.requests)


def test_transient_failures_are_tried_again_and_retry_after_is_honoured(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_retries=4)
    lm.probe()
    server.faults.extend(
        [{"status": 429, "headers": {"Retry-After": "7"}}, {"status": 503}, {"drop": True}, {"body": '{"choi'}]
    )
    assert text_of(one(lm)) == "The sky is blue"
    slept = lm.slept  # type: ignore[attr-defined]
    assert slept[0] == 7.0
    assert all(0.25 * 2**i <= s <= 0.5 * 2**i for i, s in enumerate(slept[1:], start=1))


@pytest.mark.parametrize("charset", ["", "; charset=iso-8859-1", "; charset=utf-16", "; charset=none-such"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_json_is_utf_8_whatever_its_header_says(
    server: FakeServer, lm: OpenAICompatibleLM, charset: str, mark: str
) -> None:
    said = json.dumps({"choices": [{"text": "Café – 東京", "finish_reason": "stop"}]}, ensure_ascii=False)
    server.faults.append({"body": mark + said, "headers": {"Content-Type": f"application/json{charset}"}})
    assert text_of(one(lm)) == "Café – 東京"


def test_an_attempt_that_is_tried_again_and_the_probes_cost_no_call(
    connect: Connect, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shared_core.lm.openai")
    lm = connect(server, max_retries=4)
    server.faults.append({"status": 429})
    lm.probe()
    (said,) = (r.args for r in caplog.records if "about its abilities" in r.getMessage())
    assert isinstance(said, tuple)
    assert isinstance(said[1], int)
    assert len(server.texts()) - 5 < said[1] < len(server.requests)  # one was tried again, and some are refused
    server.faults.extend([{"status": 429}, {"status": 503}])
    result = one(lm)
    assert isinstance(result, Generation)
    assert (result.usage.calls, result.usage.generated_tokens) == (1, 4)


def test_an_error_in_an_answer_of_200_is_one_in_the_servers_words_and_tried_again(
    connect: Connect, server: FakeServer
) -> None:
    lm = connect(server, max_retries=1)
    lm.probe()
    said = {"message": "Upstream overloaded", "code": 503}
    half = {"index": 0, "text": "The sky", "finish_reason": "error", "error": said}
    for body in ({"error": said}, {"error": said, "choices": [half]}, {"choices": [half]}):
        server.faults.append({"body": body})
        assert text_of(one(lm)) == "The sky is blue"
        server.faults.extend([{"body": body}] * 2)
        error = one(lm)
        assert isinstance(error, BackendUnavailableError)
        assert "(503): Upstream overloaded" in error.message


@pytest.mark.parametrize("status", [500, 502, 520, 522, 524, 529, 530])
def test_failures_of_servers_and_proxies_are_tried_again_and_are_no_verdict_on_abilities(
    connect: Connect, server: FakeServer, status: int
) -> None:
    lm = connect(server)
    server.faults.extend([{"status": status, "body": "<html>"}, None] * 4)
    assert lm.probe().chat is not None
    assert lm.capabilities == connect(server).capabilities


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
def test_final_refusals_are_not_tried_again(server: FakeServer, lm: OpenAICompatibleLM, status: int) -> None:
    server.faults.append({"status": status})
    assert isinstance(one(lm), LanguageModelError)
    assert lm.slept == []  # type: ignore[attr-defined]


def test_waiting_longer_than_the_deadline_is_not_begun(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, deadline=30.0)
    lm.probe()
    server.faults.append({"status": 429, "headers": {"Retry-After": "3600"}})
    assert isinstance(one(lm), BackendUnavailableError)
    assert lm.slept == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{"timeout": 0.3}, {"deadline": 0.6}], ids=["timeout", "deadline"])
def test_a_slow_server(connect: Connect, server: FakeServer, options: dict[str, float]) -> None:
    ready = connect(server)
    lm = connect(server, max_retries=0, **options)
    lm._planner = Planner(lm._endpoint, ready.probe(), None, ())  # the probe is not what is slow
    server.faults.append({"delay": 1.5})
    error = one(lm, CHAT)
    assert isinstance(error, BackendUnavailableError)
    assert next(iter(options)) in str(error) or "0.3 s" in str(error)


def test_a_server_that_is_down(connect: Connect) -> None:
    with FakeServer() as server:
        url = server.url
    lm = connect(url)
    results = lm.generate([Generate(RAW)] * 5)
    assert all(isinstance(r, BackendUnavailableError) and r.hint for r in results)
    assert len(lm.slept) == 2  # type: ignore[attr-defined]  # one probe for all five
    assert isinstance(lm.score([Score(RAW, (RAW,))])[0], BackendUnavailableError)


def test_nobody_waits_for_the_abilities_of_a_server_that_went_away(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    """Engines read them for each question, on the event loop too: a server that hangs would stop the whole program."""
    known = lm.capabilities
    server.script = lambda body, chat: (0, None)  # the connection is closed without an answer
    for _ in range(2):
        assert isinstance(one(lm), BackendUnavailableError)
        asked = len(server.requests)
        assert (lm.capabilities, lm.name) == (known, "tiny")
        assert len(server.requests) == asked
    server.script, server.features = None, server.features - {"grammar"}
    assert isinstance(one(lm), Generation)
    assert known.grammar
    assert not lm.capabilities.grammar, "it came back with other flags"


@pytest.mark.parametrize(("needed", "available", "said"), WORDS[:6])
def test_overflows_that_servers_tell_of(
    server: FakeServer, lm: OpenAICompatibleLM, needed: int, available: int, said: Any
) -> None:
    body = said if isinstance(said, dict) else {"error": {"message": said}}
    server.faults.append({"status": 400, "body": body})
    error = one(lm, CHAT)
    assert isinstance(error, ContextOverflowError)
    assert (error.needed, error.available) == (needed, available)


def test_a_server_makes_nobody_wait_longer_than_a_minute_at_a_time(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    asked = [{"status": 429, "headers": {"Retry-After": after}} for after in ("86400", "1e308")]
    server.faults.extend(asked)
    assert text_of(one(lm)) == "The sky is blue"
    assert lm.slept == [60.0, 60.0]  # type: ignore[attr-defined]


def test_without_a_deadline_each_request_has_ten_minutes(
    connect: Connect, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = connect(server, max_retries=1000)
    lm.probe()
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr("shared_core.lm._server.attempts.time", clock)

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    lm._endpoint._sleep = sleep  # type: ignore[assignment]
    server.faults.extend([{"status": 429, "headers": {"Retry-After": "60"}}] * 40)
    error = one(lm)
    assert isinstance(error, BackendUnavailableError)
    assert 540 <= now[0] <= 600
    server.faults.clear()
    now[0] += 10_000  # another request has a time of its own
    assert text_of(one(lm)) == "The sky is blue"
    lm._deadline = float("inf")
    server.faults.extend([{"status": 429, "headers": {"Retry-After": "60"}}] * 40)
    assert text_of(one(lm)) == "The sky is blue"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_host_takes_no_secret_along(connect: Connect, status: int) -> None:
    with FakeServer() as server, FakeServer() as other:
        lm = connect(server, headers={"X-Team-Key": KEY, "Cookie": f"session={KEY}"})
        lm.probe()
        server.faults.append({"status": status, "headers": {"Location": f"{other.url}/completions"}})
        one(lm)
        assert other.requests
        for _, _, headers in other.requests:
            assert KEY not in str(headers)
            assert "authorization" not in headers
        server.faults.append({"status": 307, "headers": {"Location": f"{server.url}/completions"}})
        assert text_of(one(lm)) == "The sky is blue"  # within the host all goes along
        assert server.requests[-1][2]["authorization"] == f"Bearer {KEY}"
        assert server.requests[-1][2]["x-team-key"] == KEY


def test_a_redirect_that_leads_nowhere_is_told(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    server.faults.append({"status": 301, "headers": {"Location": "/elsewhere"}})
    error = one(lm)
    assert isinstance(error, BackendUnavailableError)
    assert "redirects to http://127.0.0.1" in error.hint
    assert "base_url" in error.hint
