"""A server over an index that other processes change."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from shared_core.documents.store import DocumentIndex
from shared_core.facades import following
from shared_core.facades.following import Current
from tests.fakes import Shelf
from tests.serve.engines import MakeClient, make_engine

QUESTION = "When was the bell cast?"


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_EVERY", 0.0)


def write(folder: Path, **texts: str) -> None:
    """Make the folder hold these documents, and bring its index up to date with an object of its own."""
    shutil.rmtree(folder / "docs", ignore_errors=True)
    (folder / "docs").mkdir()
    for name, text in texts.items():
        (folder / "docs" / f"{name}.txt").write_text(text)
    with DocumentIndex(folder / "index", dense=False) as index:
        index.update(folder / "docs")


@pytest.fixture
def index(tmp_path: Path) -> DocumentIndex:
    write(tmp_path, bell="The bell was cast in 1733.", well="The well was dug in 1402.")
    return DocumentIndex(tmp_path / "index")


def answer(asked: Any, question: str = QUESTION) -> str:
    text: str = asked.post("/api/ask", json={"question": question}).json()["text"]
    return text


def test_changed_and_deleted_documents_are_no_longer_answered_from(
    client: MakeClient, index: DocumentIndex, tmp_path: Path
) -> None:
    asked = client(make_engine(retriever=index.retriever()), index)
    first = asked.get("/api/health").json()["index"]
    assert "1733" in answer(asked)
    write(tmp_path, bell="The bell was cast in 1871.")
    assert "1871" in answer(asked)
    found = asked.post("/api/search", json={"query": "When was the well dug?"}).json()["passages"]
    assert {p["document"] for p in found} <= {"bell.txt"}
    checked = asked.post("/api/check", json={"answer": "The well was dug in 1402."}).json()
    assert checked["claims"][0]["verdict"] != "supported"
    second = asked.get("/api/health").json()["index"]
    assert first["current"] is second["current"] is True
    assert first["version"] != second["version"] == index.version()


def test_an_index_made_anew_in_the_same_folder_is_followed(
    client: MakeClient, index: DocumentIndex, tmp_path: Path
) -> None:
    asked = client(make_engine(retriever=index.retriever()), index)
    shutil.rmtree(tmp_path / "index")
    assert "1733" in answer(asked)  # nothing else to answer from, and nothing fails
    health = asked.get("/api/health").json()
    assert (health["status"], health["index"]["current"]) == ("ok", False)
    assert not (tmp_path / "index").exists()  # looking makes none
    write(tmp_path, bell="The bell was cast in 1902.")
    assert "1902" in answer(asked)
    assert asked.get("/api/health").json()["index"]["current"]


def test_an_update_under_way_is_waited_for(client: MakeClient, index: DocumentIndex, tmp_path: Path) -> None:
    asked = client(make_engine(retriever=index.retriever()), index)
    write(tmp_path, bell="The bell was cast in 1871.")
    with FileLock(tmp_path / "index" / "lock"):
        assert "1733" in answer(asked)
        assert not asked.get("/api/health").json()["index"]["current"]
    assert "1871" in answer(asked)


def test_a_retriever_of_ones_own_is_left_alone(client: MakeClient, index: DocumentIndex, tmp_path: Path) -> None:
    asked = client(make_engine(retriever=Shelf()), index)
    write(tmp_path, bell="The bell was cast in 1871.")
    assert "1871" in answer(asked, "When was the lamp lit?")
    assert asked.get("/api/health").json()["index"]["version"] is None


def test_a_question_under_way_keeps_its_snapshot(index: DocumentIndex, tmp_path: Path) -> None:
    current = Current(make_engine(retriever=index.retriever()), index)
    before = current.engine
    write(tmp_path, bell="The bell was cast in 1871.")
    current.look()
    assert "1733" in before.answer(QUESTION).text
    assert "1871" in current.engine.answer(QUESTION).text
    again = current.engine
    current.look()
    assert current.engine is again


def test_one_of_many_threads_opens_the_new_state(index: DocumentIndex, tmp_path: Path) -> None:
    current = Current(make_engine(retriever=index.retriever()), index)
    write(tmp_path, bell="The bell was cast in 1871.")
    threads = [threading.Thread(target=current.look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "1871" in current.engine.answer(QUESTION).text


def test_versions_name_contents(tmp_path: Path) -> None:
    write(tmp_path, bell="The bell was cast in 1733.")
    index = DocumentIndex(tmp_path / "index")
    versions = [index.version()]
    seen = index.changes()
    write(tmp_path, bell="The bell was cast in 1733.")  # nothing changed
    assert index.version() == versions[0]
    for texts in ({"bell": "It was cast."}, {"bell": "It was cast.", "well": "It was dug."}, {"bell": "It was cast."}):
        write(tmp_path, **texts)
        versions.append(index.version())
    assert len(set(versions)) == len(versions)
    assert index.changes() != seen
    memory = DocumentIndex(None, dense=False)
    memory.update(tmp_path / "docs")
    held: Any = memory.retriever()
    assert memory.version() == held.index_version != index.version()
