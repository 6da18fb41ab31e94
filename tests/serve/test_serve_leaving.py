"""Clients that leave before the reply, and what is counted."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from shared_core.errors import StoreError
from shared_core.serve import Limits, create_app
from shared_core.serve.replies import dump
from tests.fakes import Shelf
from tests.serve.engines import MakeClient, Serve, make_engine
from tests.serve.test_serve_limits import ASK, Slow

CHAT = {"messages": [{"role": "user", "content": ASK["question"]}]}
WAYS = [
    ("/api/ask", ASK, "ask"),
    ("/api/ask", {**ASK, "stream": True}, "ask"),
    ("/api/check", {"answer": "The lamp was lit in 1871."}, "check"),
    ("/api/search", {"query": "lamp"}, "search"),
    ("/v1/chat/completions", CHAT, "chat"),
    ("/v1/chat/completions", {**CHAT, "stream": True}, "chat"),
]


def leave(url: str, path: str, body: dict[str, Any], until: Slow) -> None:
    """Send a request, and close the connection once it is worked on."""
    content = httpx.Request("POST", url + path, json=body)
    head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(content.content)}\r\n\r\n".encode() + content.content)
        while not until.running:
            time.sleep(0.01)


@pytest.mark.parametrize(("path", "body", "endpoint"), WAYS)
def test_who_leaves_frees_the_place(serve: Serve, path: str, body: dict[str, Any], endpoint: str) -> None:
    slow = Slow()
    url = serve(create_app(make_engine(retriever=slow), limits=Limits(parallel=1, waiting=0)))
    try:
        leave(url, path, body, slow)
        for _ in range(200):
            text = httpx.get(f"{url}/metrics").text
            if f'selfreflect_requests_total{{endpoint="{endpoint}",outcome="cancelled"}} 1.0' in text:
                break
            time.sleep(0.02)
        else:
            raise AssertionError(text)
        assert "selfreflect_requests_inside 0.0" in text
    finally:
        slow.go.set()
    assert httpx.post(f"{url}/api/ask", json=ASK).status_code == 200


async def test_a_reply_in_time_is_as_ever() -> None:
    app = create_app(make_engine())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver") as http:
        replies = await asyncio.gather(*(http.post(path, json=body) for path, body, _ in WAYS))
    assert [r.status_code for r in replies] == [200] * len(WAYS)


class Locked(Shelf):
    def retrieve(self, query: str, k: int = 5) -> Any:
        raise StoreError("The index is locked.")


def test_an_outcome_follows_the_status(client: MakeClient) -> None:
    def outcomes(asked: Any) -> set[str]:
        lines = asked.get("/metrics").text.splitlines()
        return {line.split('outcome="')[1].split('"')[0] for line in lines if line.startswith("selfreflect_requests_t")}

    asked = client()
    assert asked.post("/api/ask", json={**ASK, "target_accuracy": 7}).status_code == 400
    assert asked.post("/api/check", json={"answer": "It was lit.", "target_accuracy": -1}).status_code == 400
    assert outcomes(asked) == {"refused"}
    busy = client(parallel=1, waiting=-1)
    assert busy.post("/api/ask", json=ASK).status_code == 503
    assert outcomes(busy) == {"error"}
    locked = client(make_engine(retriever=Locked()))
    assert locked.post("/api/ask", json=ASK).status_code >= 500
    assert outcomes(locked) == {"error"}


def test_json_written_in_steps_is_the_same() -> None:
    import json

    value = {"a": [{"b": ("x", 'ö"\n')}, [], {}], "c": {"d": {"e": {"f": [1, None, True, 0.5]}}}, "g": {1: 2}}
    assert json.loads(dump(value)) == json.loads(json.dumps(value))
    with pytest.raises(ValueError, match="JSON"):
        dump({"a": [float("nan")]})
