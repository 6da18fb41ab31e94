"""The JSON API: answers, abstentions, streams, checks, search, uploads, health and metrics."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from shared_core.calibration import DriftWatch
from shared_core.documents.store import DocumentIndex
from shared_core.lm import ScriptedLM
from tests.fakes import Shelf
from tests.serve.engines import MakeClient, dead_model, make_engine

QUESTION = "When was the lamp lit?"


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n", 1) for block in text.strip().split("\n\n")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in blocks]


def test_an_answer_has_its_quote_and_place(client: MakeClient) -> None:
    answer = client().post("/api/ask", json={"question": QUESTION}).json()
    source = answer["sources"][0]
    assert not answer["abstained"]
    assert (source["number"], source["document"]) == (1, "lamps.md")
    passage = next(p for p in answer["passages"] if p["id"] == source["passage_id"])
    assert passage["text"][source["start"] : source["end"]] == source["text"] == "The lamp was lit in 1871."


def test_an_abstention_has_its_reason_and_nearest_quote(client: MakeClient) -> None:
    answer = client(make_engine(support=0.2)).post("/api/ask", json={"question": QUESTION}).json()
    assert answer["abstained"]
    assert answer["reason"] == "support below target"
    assert [(s["number"], s["text"]) for s in answer["sources"]] == [(None, "The lamp was lit in 1871.")]


def test_on_abstain_raise_is_an_abstention_too(client: MakeClient) -> None:
    asked = client(make_engine(support=0.2, on_abstain="raise"))
    assert asked.post("/api/ask", json={"question": QUESTION}).json()["abstained"]
    streamed = events(asked.post("/api/ask", json={"question": QUESTION, "stream": True}).text)
    assert streamed[-1][0] == "Finished"


def test_a_question_may_set_its_target(client: MakeClient) -> None:
    asked = client(make_engine(support=0.6))
    assert not asked.post("/api/ask", json={"question": QUESTION}).json()["abstained"]
    assert asked.post("/api/ask", json={"question": QUESTION, "target_accuracy": 0.8}).json()["abstained"]
    assert asked.post("/api/ask", json={"question": QUESTION, "target_accuracy": 7}).status_code == 400


def test_a_stream_ends_with_the_answer_that_is_not_streamed(client: MakeClient) -> None:
    response = client().post("/api/ask", json={"question": QUESTION, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    streamed = events(response.text)
    kinds = [kind for kind, _ in streamed]
    assert {"Retrieved", "Decided", "ClaimSealed", "TextDelta"} <= set(kinds)
    assert kinds[-1] == "Finished"
    whole = client().post("/api/ask", json={"question": QUESTION}).json()
    assert "".join(data["text"] for kind, data in streamed if kind == "TextDelta") == whole["text"]
    assert streamed[-1][1]["claims"] == whole["claims"]


def test_a_model_that_fails_is_a_bad_gateway_with_its_message(client: MakeClient) -> None:
    asked = client(make_engine(lm=ScriptedLM(dead_model), pipeline="reclaim"))
    response = asked.post("/api/ask", json={"question": QUESTION})
    assert response.status_code == 502
    assert response.json()["error"]["message"] == "The model server is down."
    assert response.json()["error"]["hint"] == "Start it."
    streamed = events(asked.post("/api/ask", json={"question": QUESTION, "stream": True}).text)
    assert streamed[-1][0] == "error"
    assert streamed[-1][1]["error"]["message"] == "The model server is down."


def test_a_defect_shows_nothing_of_itself(client: MakeClient) -> None:
    class Broken(Shelf):
        def retrieve(self, query: str, k: int = 5) -> Any:
            raise RuntimeError("password=hunter2")

    response = client(make_engine(retriever=Broken())).post("/api/search", json={"query": QUESTION})
    assert response.status_code == 500
    assert "hunter2" not in response.text


def test_an_answer_is_checked(client: MakeClient) -> None:
    said = {"answer": "The lamp was lit in 1871. The lamp was lit in 1999.", "question": QUESTION}
    checked = client().post("/api/check", json=said).json()
    assert [c["verdict"] for c in checked["claims"]] == ["supported", "contradicted"]
    assert checked["sources"][0]["document"] == "lamps.md"
    assert client().post("/api/check", json={"answer": " "}).status_code == 400
    long = client().post("/api/check", json={"answer": "a" * 200_001})
    assert (long.status_code, "at most 200,000 are checked" in long.text) == (400, True)


def test_half_a_surrogate_pair_is_replaced_and_offsets_hold(client: MakeClient) -> None:
    def post(path: str, **body: Any) -> Any:
        response = client().post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert response.status_code == 200, response.text
        return response

    halves = "When was the \ud800 lamp lit \udfff?"
    assert "lamp lit \ufffd?" in post("/api/ask", question=halves).json()["question"]
    assert events(post("/api/ask", question=halves, stream=True).text)[-1][0] == "Finished"
    said = post("/api/check", answer="Oh \ud800. The lamp was lit in 1871.", question=halves).json()
    assert said["text"] == "Oh \ufffd. The lamp was lit in 1871."
    assert said["claims"][-1]["text"] == "The lamp was lit in 1871."
    assert post("/api/search", query=halves).json()["passages"]
    for content in (halves, [{"type": "text", "text": halves}]):
        assert "1871" in post("/v1/chat/completions", messages=[{"role": "user", "content": content}], stream=True).text


@pytest.mark.parametrize(("path", "body", "kind", "message", "hint"), [
    ("ask", "{nope", "json", "The body is not valid JSON (at character 1).", "Send a JSON object in UTF-8."),
    ("ask", '{"question": "When?"}', "x-www-form-urlencoded", "not read as", "Content-Type: application/json"),  # curl
    ("ask", '{"question": "When?", "target_acuracy": 0.9}', "json", "'target_acuracy'", "spelling"),
    ("check", '{"answer": "It was lit.", "passages": []}', "json", "'passages'", "spelling"),
    ("search", '{"query": "lamp", "top_k": 1}', "json", "'top_k'", "spelling"),
])  # fmt: skip
def test_a_body_that_cannot_be_read_whole_is_refused_with_a_way_out(
    client: MakeClient, path: str, body: str, kind: str, message: str, hint: str
) -> None:
    response = client().post(f"/api/{path}", content=body, headers={"content-type": f"application/{kind}"})
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert hint in response.json()["error"]["hint"]


def test_passages_are_found(client: MakeClient) -> None:
    found = client().post("/api/search", json={"query": "lamp", "k": 1}).json()["passages"]
    assert [p["document"] for p in found] == ["lamps.md"]
    assert client().post("/api/search", json={"query": "lamp", "k": 0}).status_code == 400


def test_uploads_are_answered_from_and_replaced(client: MakeClient, tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "index", dense=False)
    (tmp_path / "first.txt").write_text("The well was dug in 1402.\n")
    index.update(tmp_path / "first.txt")
    asked = client(make_engine(retriever=index.retriever()), index)
    for year in (1733, 1871):
        files = [("files", ("../../etc/bells.txt", f"The bell was cast in {year}.\n")), ("files", ("bad.pdf", "no"))]
        report = asked.post("/api/upload", files=files).json()
        assert report["failed"][0]["source"] == "bad.pdf"
        answer = asked.post("/api/ask", json={"question": "When was the bell cast?"}).json()
        assert answer["text"] == f"The bell was cast in {year}. [1]"
    assert asked.get("/api/documents").json() == ["bells.txt", "first.txt"]
    assert asked.get("/api/health").json()["documents"] == 2
    assert sorted(p.name for p in (tmp_path / "index-uploads").iterdir()) == ["bells.txt"]


def test_a_refused_upload_leaves_the_former_file(client: MakeClient, tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "index", dense=False)
    asked = client(make_engine(), index)

    def upload(name: str, content: str | bytes) -> Any:
        return asked.post("/api/upload", files=[("files", (name, content))])

    upload("bells.txt", "The bell was cast in 1733.\n")
    assert "former state is kept" in upload("bells.txt", b"\x00\x01\x02" * 99).json()["failed"][0]["message"]
    assert "former state is kept" in upload("bells.txt", "\n").json()["failed"][0]["message"]
    files = [("files", ("bells.txt", "The bell was melted.\n")), ("files", (".ssh", "no"))]
    assert asked.post("/api/upload", files=files).status_code == 400
    asked.post("/api/upload", files=[("files", ("bells.txt", b"\x00\x01\x02" * 99))] * 2)  # the same name twice
    folder = tmp_path / "index-uploads"
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"bells.txt": "The bell was cast in 1733.\n"}
    assert index.document_text("bells.txt") == "The bell was cast in 1733.\n"


def test_uploads_can_be_off_and_names_are_plain(client: MakeClient, tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "index", dense=False)
    file = [("files", ("a.txt", "Text."))]
    assert client().post("/api/upload", files=file).status_code == 400
    assert client(index=index, max_upload=0).post("/api/upload", files=file).status_code == 403
    for name in (".ssh", "..", "a" * 300):
        assert client(index=index).post("/api/upload", files=[("files", (name, "Text."))]).status_code == 400


def test_metrics_count_outcomes(client: MakeClient) -> None:
    asked = client(make_engine(support=0.6))
    asked.post("/api/ask", json={"question": QUESTION})
    asked.post("/api/ask", json={"question": QUESTION, "target_accuracy": 0.8, "stream": True})
    asked.post("/api/ask", json={"question": " "})
    text = asked.get("/metrics").text
    for outcome in ("answered", "abstained", "refused"):
        assert f'selfreflect_requests_total{{endpoint="ask",outcome="{outcome}"}} 1.0' in text
    assert 'outcome="error"' not in text  # an empty question is the client's mistake, and no reason for an alarm
    assert 'selfreflect_request_seconds_count{endpoint="ask"} 3.0' in text
    assert "selfreflect_requests_inside 0.0" in text


def test_drift_from_the_calibrations_questions_is_a_metric(client: MakeClient) -> None:
    engine = make_engine()
    engine.context = dataclasses.replace(
        engine.context, drift=DriftWatch({"words of the question": [5.0] * 60}, window=2)
    )
    asked = client(engine)
    assert 'selfreflect_drift{signal="words of the question"} 0.0' in asked.get("/metrics").text
    assert asked.get("/api/health").json()["drift"] == []
    for _ in range(6):
        assert asked.post("/api/ask", json={"question": f"{QUESTION} Please tell me all."}).status_code == 200
    assert client().get("/api/health").json()["drift"] == []
    assert 'selfreflect_drift{signal="words of the question"} 1.0' in asked.get("/metrics").text
    assert asked.get("/api/health").json()["drift"] == ["words of the question"]
