"""What llama.cpp's servers do otherwise: errors with 500, other names, grammars they die of, echoes off by one."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from shared_core.citation import CitationIndex
from shared_core.errors import BackendUnavailableError, CapabilityError, GrammarError, LanguageModelError, ResponseError
from shared_core.lm.base import Generate, Generation, Grammar, SamplingParams, Score
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.types import Passage
from tests.lm.openai_client import CHAT, RAW, Connect, one, text_of
from tests.openai_server import ALL, LLAMA, FakeServer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty."""
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *args, **kwargs: tmp_path / "cache")
    return tmp_path / "cache" / "servers"


# --- abilities -----------------------------------------------------------------------------------------------------


def test_no_probe_ends_the_server_and_each_ability_is_found_by_its_effect(connect: Connect) -> None:
    with FakeServer(LLAMA) as server:
        lm = connect(server)
        able = lm.probe()
        assert not server.dead
        assert able.chat is not None
        assert able.chat.grammar == "gbnf"
        assert dict(able.chat.neutral)["top_k"] == 0  # -1 is refused
        assert dict(able.chat.neutral)["repeat_penalty"] == 1.0
        assert "repetition_penalty" not in dict(able.chat.neutral)  # ignored there
        assert able.chat.left_out == ()
        assert not lm.capabilities.score  # its echo has the values of other positions
        assert isinstance(lm.score([Score(RAW, (RAW,))])[0], CapabilityError)
        assert lm.slept == []  # type: ignore[attr-defined]  # a 500 that names a field is not repeated


def test_a_500_that_names_no_field_is_tried_again(connect: Connect) -> None:
    with FakeServer(LLAMA) as server:
        lm = connect(server)
        lm.probe()
        server.faults.append({"status": 500, "body": {"error": {"message": "out of memory"}}})
        assert text_of(one(lm, CHAT)) == "The sky is blue"
        assert len(lm.slept) == 1  # type: ignore[attr-defined]


def test_a_500_that_refuses_several_choices_is_a_refusal(connect: Connect) -> None:
    def answer(body: dict[str, Any], chat: bool) -> tuple[int, Any]:
        if body.get("n", 1) > 1:
            return 500, {"error": {"code": 500, "message": "Only one completion choice is allowed"}}
        said = {"message": {"content": "blue"}} if chat else {"text": "blue"}
        return 200, {"choices": [{"index": 0, "finish_reason": "stop", **said}]}

    with FakeServer() as server:
        server.script = answer
        lm = connect(server)
        assert len(one(lm, n=3, temperature=1.0).samples) == 3
        assert lm.slept == []  # type: ignore[attr-defined]  # at each start of a program it took a quarter of a minute


def test_a_second_process_asks_nothing(connect: Connect, cache: Path) -> None:
    with FakeServer(LLAMA) as server:
        known = connect(server).probe()
        assert len(list(cache.iterdir())) == 1
        before = len(server.texts())
        lm = connect(server)
        assert lm.probe() == known
        assert len(server.texts()) == before
        server.version = "2.0"
        connect(server).probe()
        assert len(server.texts()) > before
        assert lm.probe(fresh=True).streams
        assert len(server.texts()) > 2 * before


@pytest.mark.parametrize("features", [LLAMA - {"version"}, LLAMA - {"gbnf"}, LLAMA - {"logprobs"}])
def test_what_flags_of_the_server_may_change_is_not_kept(
    connect: Connect, cache: Path, features: frozenset[str]
) -> None:
    with FakeServer(features) as server:
        connect(server).probe()
        assert not cache.exists()


def test_kept_abilities_that_turn_out_wrong_are_forgotten(connect: Connect, cache: Path) -> None:
    with FakeServer(LLAMA) as server:
        lm = connect(server)
        lm.probe()
        server.faults.append({"status": 400, "body": {"error": {"message": "logprobs is not supported"}}})
        assert isinstance(one(lm, logprobs=True), LanguageModelError)
        assert not list(cache.iterdir())


def test_a_server_that_comes_back_as_another_model_is_asked_again(connect: Connect, cache: Path) -> None:
    with FakeServer(LLAMA) as server:
        lm = connect(server)
        assert (lm.probe().model, lm.capabilities.grammar) == ("tiny", True)
        server.models, server.features = [{"id": "other", "max_model_len": 300}], LLAMA - {"gbnf"}
        server.faults.append({"drop": True})  # as while it restarts
        one(lm)
        assert isinstance(one(lm), Generation)
        assert (lm.probe().model, lm.capabilities.grammar) == ("other", False)
        assert lm.capabilities.context_length == 300


# --- grammars ------------------------------------------------------------------------------------------------------


def test_grammars_go_out_in_gbnf(connect: Connect) -> None:
    with FakeServer(LLAMA) as server:
        lm = connect(server)
        quotes = CitationIndex([Passage("log", "The lamp was lit. It burns.")]).grammar()
        assert isinstance(one(lm, grammar=quotes, min_tokens=2), Generation)
        assert server.texts()[-1]["grammar"].startswith("root ::= ")
        assert "min_tokens" not in server.texts()[-1]
        before = len(server.texts())
        assert isinstance(one(lm, grammar=Grammar("start: <[7]>", name="by id")), GrammarError)
        assert len(server.texts()) == before


# --- streams -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [RAW, CHAT], ids=["raw", "chat"])
@pytest.mark.parametrize("features", [ALL, LLAMA], ids=["vllm", "llama.cpp"])
def test_a_text_comes_in_pieces(connect: Connect, prompt: Any, features: frozenset[str]) -> None:
    with FakeServer(features) as server:
        lm = connect(server)
        request = Generate(prompt, SamplingParams(stop=(" is",), logprobs=True))
        pieces = lm.stream(request)
        heard: list[str] = []
        while True:
            try:
                heard.append(next(pieces))
            except StopIteration as end:
                result = end.value
                break
        assert heard == ["The", " sky", " is", " blue"]
        assert isinstance(result, Generation)
        assert result.text == "The sky"
        assert result.samples[0].logprobs == (-0.5,) * 2
        assert result.usage.generated_tokens == 4
        assert server.texts()[-1]["stream"] is True


async def test_pieces_come_on_any_event_loop(lm: OpenAICompatibleLM) -> None:
    *pieces, result = [p async for p in lm.astream(Generate(CHAT))]
    assert "".join(map(str, pieces)) == "The sky is blue" == result.text  # type: ignore[union-attr]


def test_a_stream_that_is_left_ends_on_the_server(connect: Connect) -> None:
    with FakeServer(reply=lambda body: " ".join(["word"] * 1000)) as server:
        lm = connect(server)
        lm.probe()
        server.pause, server.sent = 0.01, 0
        pieces = lm.stream(Generate(CHAT))
        assert next(pieces) == "word"
        pieces.close()
        end = time.monotonic() + 10
        while server.busy and time.monotonic() < end:
            time.sleep(0.02)
        assert not server.busy
        assert server.sent < 900


def test_pieces_may_be_lists_of_parts(connect: Connect) -> None:
    class Parts(FakeServer):
        def _event(self, handler: Any, event: Any) -> None:
            for delta in (c["delta"] for c in event["choices"] if c.get("delta")):
                delta["content"] = [{"type": "text", "text": delta["content"]}]
            super()._event(handler, event)

    with Parts() as server:
        pieces = connect(server).stream(Generate(CHAT))
        assert "".join(next(pieces) for _ in range(4)) == "The sky is blue"
        with pytest.raises(StopIteration) as end:
            next(pieces)
        assert end.value.value.text == "The sky is blue"


def test_line_separators_within_a_piece_are_text(connect: Connect) -> None:
    class Raw(FakeServer):
        def _event(self, handler: Any, event: Any) -> None:
            handler.wfile.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())

    said = "The\u2028sky\x85is\x0bblue"
    with Raw(reply=lambda body: said) as server:
        assert "".join(connect(server).stream(Generate(CHAT))) == said


def test_a_stream_with_half_a_piece_is_not_taken_for_whole(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_retries=0)
    lm.probe()
    pieces = ['{"choices": [{"delta": {"content": "The', '{"choices": [{"delta": {}, "finish_reason": "stop"}]}']
    server.faults.append({"body": "".join(f"data: {p}\n\n" for p in pieces)})
    with pytest.raises(ResponseError, match="broke off"):
        list(lm.stream(Generate(CHAT)))


def test_a_stream_that_begins_with_an_error_is_tried_again(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    server.faults.append({"body": 'data: {"error": {"message": "busy"}}\n\n'})
    assert "".join(lm.stream(Generate(CHAT))) == "The sky is blue"


def test_a_connection_lost_within_a_stream_is_one_that_is_lost(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_retries=0)
    lm.probe()
    server.faults.append({"body": 'data: {"choices": [{"delta": {"content": "The"}}]}\n\n', "length": 500})
    with pytest.raises(BackendUnavailableError, match="no connection"):
        list(lm.stream(Generate(CHAT)))


@pytest.mark.parametrize(
    "broken", [{"cut": 2}, {"status": 200, "body": "<html>Bad gateway</html>"}, {"drop": True}], ids=repr
)
def test_a_stream_that_breaks_off_is_an_error(connect: Connect, server: FakeServer, broken: dict[str, Any]) -> None:
    lm = connect(server, max_retries=0)
    lm.probe()
    server.broken = broken.get("cut")
    if "cut" not in broken:
        server.faults.append(broken)
    with pytest.raises((BackendUnavailableError, LanguageModelError)) as caught:
        list(lm.stream(Generate(CHAT)))
    assert server.url in caught.value.message
    assert caught.value.hint


def test_servers_that_do_not_stream_are_found_out(connect: Connect) -> None:
    with FakeServer(ALL - {"stream"}) as server, pytest.raises(CapabilityError, match="stream"):
        list(connect(server).stream(Generate(CHAT)))


# --- connections ---------------------------------------------------------------------------------------------------


def test_threads_share_a_few_connections_that_stay_open(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_concurrency=4)
    lm.probe()
    before = server.connections
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: one(lm, CHAT), range(40)))
    assert server.connections - before <= 4
