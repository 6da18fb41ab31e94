"""What llama.cpp's servers do otherwise: errors with 500, other names, grammars they die of, echoes off by one."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shared_core.citation import CitationIndex
from shared_core.errors import BackendUnavailableError, CapabilityError, GrammarError, LanguageModelError, ResponseError
from shared_core.lm.base import Generate, Generation, Grammar, SamplingParams, Score
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.types import Passage
from tests.lm.openai_client import CHAT, RAW, Connect, Serve, lacking, one, text_of
from tests.openai_server import ALL, LLAMA, FakeServer


@pytest.fixture(autouse=True)
def cache(own_cache: Path) -> Path:
    return own_cache / "servers"


# --- abilities -----------------------------------------------------------------------------------------------------


def test_no_probe_ends_the_server_and_each_ability_is_found_by_its_effect(serve: Serve) -> None:
    server, lm = serve(LLAMA)
    able = lm.probe()
    assert not server.dead
    assert able.chat is not None
    assert able.chat.grammar == "gbnf"
    assert dict(able.chat.neutral)["top_k"] == 0  # -1 is refused
    assert dict(able.chat.neutral)["repeat_penalty"] == 1.0
    assert "repetition_penalty" not in dict(able.chat.neutral)  # ignored there
    assert able.chat.left_out == ()
    assert not lm.capabilities.score  # its echo has the values of other positions
    assert lacking(lm.score([Score(RAW, (RAW,))])[0]) == "score"
    assert lm.slept == []  # type: ignore[attr-defined]  # a 500 that names a field is not repeated


def test_a_500_that_names_no_field_is_tried_again(serve: Serve) -> None:
    server, lm = serve(LLAMA)
    server.faults.append({"status": 500, "body": {"error": {"message": "out of memory"}}})
    assert text_of(one(lm, CHAT)) == "The sky is blue"
    assert len(lm.slept) == 1  # type: ignore[attr-defined]


def test_a_500_that_refuses_several_choices_is_a_refusal(connect: Connect, server: FakeServer) -> None:
    def answer(body: dict[str, Any], chat: bool) -> tuple[int, Any]:
        if body.get("n", 1) > 1:
            return 500, {"error": {"code": 500, "message": "Only one completion choice is allowed"}}
        said = {"message": {"content": "blue"}} if chat else {"text": "blue"}
        return 200, {"choices": [{"index": 0, "finish_reason": "stop", **said}]}

    server.script = answer
    lm = connect(server)
    assert len(one(lm, n=3, temperature=1.0).samples) == 3
    assert lm.slept == []  # type: ignore[attr-defined]  # at each start of a program it took a quarter of a minute


def test_a_second_process_asks_nothing(serve: Serve, connect: Connect, cache: Path) -> None:
    server, first = serve(LLAMA)
    assert len(list(cache.iterdir())) == 1
    before = len(server.texts())
    lm = connect(server)
    assert lm.probe() == first.probe()
    assert len(server.texts()) == before
    server.version = "2.0"
    connect(server).probe()
    assert len(server.texts()) > before
    assert lm.probe(fresh=True).streams
    assert len(server.texts()) > 2 * before


@pytest.mark.parametrize("features", [LLAMA - {"version"}, LLAMA - {"gbnf"}, LLAMA - {"logprobs"}])
def test_what_flags_of_the_server_may_change_is_not_kept(serve: Serve, cache: Path, features: frozenset[str]) -> None:
    serve(features)
    assert not cache.exists()


def test_kept_abilities_that_turn_out_wrong_are_forgotten(serve: Serve, cache: Path) -> None:
    server, lm = serve(LLAMA)
    server.faults.append({"status": 400, "body": {"error": {"message": "logprobs is not supported"}}})
    assert isinstance(one(lm, logprobs=True), LanguageModelError)
    assert not list(cache.iterdir())


def test_a_server_that_comes_back_as_another_model_is_asked_again(serve: Serve) -> None:
    server, lm = serve(LLAMA)
    assert (lm.probe().model, lm.capabilities.grammar) == ("tiny", True)
    server.models, server.features = [{"id": "other", "max_model_len": 300}], LLAMA - {"gbnf"}
    server.faults.append({"drop": True})  # as while it restarts
    one(lm)
    assert isinstance(one(lm), Generation)
    assert (lm.probe().model, lm.capabilities.grammar) == ("other", False)
    assert lm.capabilities.context_length == 300


# --- grammars ------------------------------------------------------------------------------------------------------


def test_grammars_go_out_in_gbnf(serve: Serve) -> None:
    server, lm = serve(LLAMA)
    quotes = CitationIndex([Passage("log", "The lamp was lit. It burns.")]).grammar()
    assert isinstance(one(lm, grammar=quotes, min_tokens=2), Generation)
    assert server.texts()[-1]["grammar"].startswith("root ::= ")
    assert "min_tokens" not in server.texts()[-1]
    before = len(server.texts())
    assert isinstance(one(lm, grammar=Grammar("start: <[7]>", name="by id")), GrammarError)
    assert len(server.texts()) == before


# --- streams -------------------------------------------------------------------------------------------------------


def with_result(pieces: Generator[Any, None, Any]) -> Iterator[Any]:
    """The pieces of a stream, and the result that it returns behind them."""
    result = yield from pieces
    yield result


@pytest.mark.parametrize("prompt", [RAW, CHAT], ids=["raw", "chat"])
@pytest.mark.parametrize("features", [ALL, LLAMA], ids=["vllm", "llama.cpp"])
def test_a_text_comes_in_pieces(serve: Serve, prompt: Any, features: frozenset[str]) -> None:
    server, lm = serve(features)
    *heard, result = with_result(lm.stream(Generate(prompt, SamplingParams(stop=(" is",), logprobs=True))))
    assert heard == ["The", " sky", " is", " blue"]
    assert isinstance(result, Generation)
    assert result.text == "The sky"
    assert result.samples[0].logprobs == (-0.5,) * 2
    assert result.usage.generated_tokens == 4
    assert server.texts()[-1]["stream"] is True


async def test_pieces_come_on_any_event_loop(lm: OpenAICompatibleLM) -> None:
    *pieces, result = [p async for p in lm.astream(Generate(CHAT))]
    assert "".join(map(str, pieces)) == "The sky is blue" == result.text  # type: ignore[union-attr]


def test_a_stream_that_is_left_ends_on_the_server(serve: Serve) -> None:
    server, lm = serve(reply=lambda body: " ".join(["word"] * 1000))
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
        *pieces, result = with_result(connect(server).stream(Generate(CHAT)))
        assert len(pieces) == 4
        assert "".join(pieces) == result.text == "The sky is blue"


def test_line_separators_within_a_piece_are_text(connect: Connect) -> None:
    class Raw(FakeServer):
        def _event(self, handler: Any, event: Any) -> None:
            handler.wfile.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())

    said = "The\u2028sky\x85is\x0bblue"
    with Raw(reply=lambda body: said) as server:
        assert "".join(connect(server).stream(Generate(CHAT))) == said


def test_a_stream_that_begins_with_an_error_is_tried_again(server: FakeServer, lm: OpenAICompatibleLM) -> None:
    server.faults.append({"body": 'data: {"error": {"message": "busy"}}\n\n'})
    assert "".join(lm.stream(Generate(CHAT))) == "The sky is blue"


PIECE = 'data: {"choices": [{"delta": {"content": "The"}}]}\n\n'
END = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'


@pytest.mark.parametrize(("fault", "error", "said"), [
    (None, ResponseError, "broke off"), ({"body": PIECE.replace('"}}]}', "") + END}, ResponseError, "broke off"),
    ({"body": PIECE, "length": 500}, BackendUnavailableError, "no connection"),
    ({"body": "<html>Bad gateway</html>"}, ResponseError, "Bad gateway"),
    ({"drop": True}, BackendUnavailableError, "no connection"),
], ids=["no end", "half a piece", "connection lost", "a web page", "no answer"])  # fmt: skip
def test_a_stream_that_breaks_off_is_an_error(
    connect: Connect, server: FakeServer, fault: dict[str, Any] | None, error: type[LanguageModelError], said: str
) -> None:
    lm = connect(server, max_retries=0)
    lm.probe()
    server.faults.append(fault)
    server.broken = 2 if fault is None else None
    with pytest.raises(error, match=said) as caught:
        list(lm.stream(Generate(CHAT)))
    assert server.url in caught.value.message
    assert caught.value.hint


def test_servers_that_do_not_stream_are_found_out(serve: Serve) -> None:
    _, lm = serve(ALL - {"stream"})
    with pytest.raises(CapabilityError, match="stream"):
        list(lm.stream(Generate(CHAT)))


# --- connections ---------------------------------------------------------------------------------------------------


def test_threads_share_a_few_connections_that_stay_open(connect: Connect, server: FakeServer) -> None:
    lm = connect(server, max_concurrency=4)
    lm.probe()
    before = server.connections
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: one(lm, CHAT), range(40)))
    assert server.connections - before <= 4
