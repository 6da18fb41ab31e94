"""Who may ask, how much, how many at once, and how long."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
import httpx
from fastapi import FastAPI, HTTPException
from starlette.testclient import TestClient

from shared_core import Passage
from shared_core.documents.store import DocumentIndex
from shared_core.serve import Limits, create_app
from shared_core.serve.limits import Gate
from tests.fakes import Shelf
from tests.serve.engines import MakeClient, make_engine

ASK = {"question": "When was the lamp lit?"}


def test_a_key_is_needed_but_for_page_and_health(client: MakeClient) -> None:
    asked = client(key="sésame")
    assert asked.get("/").status_code == asked.get("/api/health").status_code == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic sesame"}, {"X-API-Key": ""}):
        response = asked.post("/api/ask", json=ASK, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"]["type"] == "authentication_error"
    for path in ("/metrics", "/v1/models", "/api/documents", "/openapi.json"):
        assert asked.get(path).status_code == 401
    plain = client(key="sesame")
    assert plain.post("/api/ask", json=ASK, headers={"Authorization": "Bearer sesame"}).status_code == 200
    assert plain.post("/api/ask", json=ASK, headers={"X-API-Key": "sesame"}).status_code == 200


@pytest.mark.parametrize("key", ["sésame", "voilà", "鍵"])
def test_a_key_of_any_letters_is_known_as_clients_send_it(client: MakeClient, key: str) -> None:
    sent = [key.encode(), *([key.encode("latin-1")] if max(key) < "\u0100" else [])]
    for name, before in (("Authorization", b"Bearer "), ("X-API-Key", b"")):
        for given in sent:
            assert client(key=key).get("/v1/models", headers={name: before + given}).status_code == 200
        assert client(key=key).get("/v1/models", headers={name: before + b"s\xe9same2"}).status_code == 401


def test_other_pages_may_not_ask_unless_named(client: MakeClient) -> None:
    other = {"Origin": "https://evil.example"}
    for origin in ("https://evil.example", "http://[", "null"):
        refused = client().post("/api/ask", json=ASK, headers={"Origin": origin})
        assert refused.status_code == 403
        assert refused.headers["x-content-type-options"] == "nosniff"
    assert client().post("/api/ask", json=ASK, headers={"Origin": "http://testserver"}).status_code == 200
    named = client(cors=("https://app.example",), key="k")
    assert named.post("/api/ask", json=ASK, headers=other).status_code == 403
    app = {"Origin": "https://app.example", "Authorization": "Bearer k"}
    response = named.post("/api/ask", json=ASK, headers=app)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://app.example"
    preflight = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    assert named.options("/v1/chat/completions", headers=preflight).status_code == 200


def test_a_server_for_this_machine_has_no_other_name() -> None:
    app = create_app(make_engine(), hosts=("localhost",))
    refused = TestClient(app, base_url="http://rebound.example").get("/")
    assert refused.status_code == 400
    assert "rebound.example" in refused.json()["error"]["message"]
    assert "localhost" in refused.json()["error"]["hint"]
    assert TestClient(app, base_url="http://localhost").get("/").status_code == 200


def test_ten_megabytes_of_question_are_refused(client: MakeClient) -> None:
    response = client().post("/api/ask", json={"question": "x" * 10_000_000})
    assert response.status_code == 413
    assert len(response.content) < 1000
    long = client().post("/api/ask", json={"question": "x" * 10_000})
    assert long.status_code == 400
    assert "10,000 characters" in long.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/api/upload", "/api/ask"])
def test_a_body_without_a_length_is_cut_off(client: MakeClient, path: str) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
        for _ in range(50):
            sent += 1
            yield b"x" * 100_000

    kind = "multipart/form-data; boundary=b" if path == "/api/upload" else "application/json"
    response = client(max_upload=1_000_000).post(path, content=endless(), headers={"Content-Type": kind})
    assert response.status_code == 413


def test_a_large_upload_is_refused_before_it_is_read() -> None:
    """Only the headers arrive: the application answers without asking for the body."""
    app = create_app(make_engine(), limits=Limits(max_upload=100_000_000))
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"testserver"), (b"content-length", b"200000000")]
    scope = {
        "type": "http", "method": "POST", "path": "/api/upload", "raw_path": b"/api/upload", "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("testserver", 80), "root_path": "",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 413


@pytest.mark.parametrize("at", ["/rag", "/team/rag/api"])
def test_mounted_below_another_application_the_same_holds(at: str, tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "index", dense=False)
    outer = FastAPI()
    outer.mount(at, create_app(make_engine(), index, Limits(key="k", max_body=1_000)))
    asked, key = TestClient(outer), {"Authorization": "Bearer k"}
    assert (
        asked.get(f"{at}/").status_code == asked.get(at).status_code == asked.get(f"{at}/api/health").status_code == 200
    )
    assert asked.get(f"{at}/api/documents").status_code == asked.get(f"{at}/metrics").status_code == 401
    assert asked.post(f"{at}/api/ask", json=ASK, headers=key).status_code == 200
    assert asked.post(f"{at}/api/ask", json={"question": "x" * 2_000}, headers=key).status_code == 413
    large = [("files", ("a.txt", "The bell was cast in 1733.\n" * 100))]
    assert asked.post(f"{at}/api/upload", files=large, headers=key).status_code == 200
    page = asked.get(f"{at}/").text
    assert 'request("api/ask"' in page
    assert not re.search(r"""request\(["']/|fetch\(["']/""", page)


class Slow(Shelf):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.running = self.most = 0
        self._lock = threading.Lock()

    def retrieve(self, query: str, k: int = 5) -> Any:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(30)
        with self._lock:
            self.running -= 1
        return super().retrieve(query, k)


async def ask_together(app: Any, n: int, slow: Slow, *, refused: int = 0, stream: bool = False) -> list[httpx.Response]:
    """Ask n times at once; once so many are refused and others run, the retriever is let go."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver") as http:
        tasks = [asyncio.ensure_future(http.post("/api/ask", json={**ASK, "stream": stream})) for _ in range(n)]
        while sum(task.done() for task in tasks) < refused or not slow.running:
            await asyncio.sleep(0.01)
        slow.go.set()
        return await asyncio.gather(*tasks)


@pytest.mark.parametrize("stream", [False, True])
async def test_sixty_four_at_once_are_answered(stream: bool) -> None:
    slow = Slow()
    app = create_app(make_engine(retriever=slow), limits=Limits(parallel=4))
    responses = await ask_together(app, 64, slow, stream=stream)
    assert {r.status_code for r in responses} == {200}
    assert all("1871" in r.text for r in responses)
    assert slow.most <= 4


async def test_too_many_are_sent_away_with_a_time_to_come_back() -> None:
    slow = Slow()
    app = create_app(make_engine(retriever=slow), limits=Limits(parallel=1, waiting=2))
    responses = await ask_together(app, 8, slow, refused=5)
    assert sorted(r.status_code for r in responses) == [200] * 3 + [503] * 5
    refused = next(r for r in responses if r.status_code == 503)
    assert int(refused.headers["retry-after"]) > 0
    assert "busy" in refused.json()["error"]["message"]


async def test_who_waits_too_long_is_sent_away() -> None:
    gate = Gate(Limits(parallel=1, timeout=0.2))
    async with gate.enter():
        with pytest.raises(HTTPException) as caught:
            async with gate.enter():
                pass
    assert caught.value.status_code == 503
    async with gate.enter() as seconds:  # the place is free again
        assert 0 < seconds <= 0.2
    assert gate.inside == 0


def test_late_answers_are_abstentions(client: MakeClient) -> None:
    slow = Slow()
    try:
        response = client(make_engine(retriever=slow), timeout=0.5).post("/api/ask", json=ASK)
    finally:
        slow.go.set()
    assert response.json()["abstained"]


def test_passages_with_markup_stay_text_in_json(client: MakeClient) -> None:
    hostile = "The lamp </script><script>alert(1)</script> was lit in 1871."
    engine = make_engine(retriever=Shelf([Passage("p", hostile)]))
    response = client(engine).post("/api/ask", json=ASK)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.json()["sources"][0]["text"] == hostile
