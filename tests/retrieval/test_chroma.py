from __future__ import annotations

import gc
import socket
from pathlib import Path
from typing import Any

import pytest
from hashing_embedder import HashingEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_retrievers import CORPUS

from shared_core.errors import IndexCorruptedError, IndexMissingError, InputError, StoreError
from shared_core.retrieval import BM25Retriever, ChromaRetriever, DenseRetriever, HybridRetriever
from shared_core.retrieval.chroma import Rows
from shared_core.retrieval.embedding import windows
from shared_core.types import Passage

chromadb = pytest.importorskip("chromadb")
Settings = pytest.importorskip("chromadb.config").Settings


def chroma(**options: Any) -> ChromaRetriever:
    return ChromaRetriever(embedder=HashingEmbedder(), **options)


def test_in_memory_collections_are_apart_and_freed() -> None:
    one, two = chroma(), chroma()
    one.add(CORPUS)
    assert (len(one), len(two)) == (4, 0)
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    before = {c.name for c in client.list_collections()}
    del one
    gc.collect()
    assert len(before - {c.name for c in client.list_collections()}) == 1


def test_in_a_folder_it_lasts(tmp_path: Path) -> None:
    chroma(path=tmp_path / "index").add(CORPUS)
    again = chroma(path=tmp_path / "index", create=False)
    assert again.get(["a"]) == [CORPUS[0]]
    lexical = BM25Retriever(again.get(again.ids()))
    assert HybridRetriever(retrievers=[lexical, again]).retrieve("who built the bridge")[0].id == "a"


def test_a_collection_of_a_server_is_missing_or_bound_to_its_embedder(server: str) -> None:
    chroma(url=server)
    with pytest.raises(IndexMissingError):
        chroma(url=server, collection="nobody", create=False)
    with pytest.raises(StoreError, match=r"hashing-64.*another"):
        ChromaRetriever(url=server, embedder=HashingEmbedder("another"))


def test_a_server_that_is_down_is_named() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(StoreError, match=str(port)) as caught:
        chroma(url=f"http://127.0.0.1:{port}")
    assert "chroma run" in caught.value.hint


def test_damage_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "chroma.sqlite3").write_bytes(b"no database " * 1000)
    with pytest.raises(IndexCorruptedError):
        chroma(path=tmp_path / "bad")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError):
        chroma(path=tmp_path / "file")
    with pytest.raises(IndexMissingError):
        chroma(path=tmp_path / "nothing", create=False)
    assert not (tmp_path / "nothing").exists()


def test_bad_input_is_refused(tmp_path: Path) -> None:
    for options in ({"path": tmp_path, "url": "http://x"}, {"url": "nonsense"}, {"url": "http://h:99999"}):
        with pytest.raises(InputError):
            chroma(**options)
    with pytest.raises(InputError, match="not a valid name"):
        chroma(collection="a", path=tmp_path)


def test_an_interrupted_write_is_repaired_by_adding_again(monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = chroma()
    write = Rows.write
    monkeypatch.setattr(Rows, "write", lambda rows, batch: (write(rows, batch[:1]), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        retriever.add(CORPUS)
    monkeypatch.undo()
    assert retriever.ids() == ["a"]
    retriever.add([*CORPUS[1:], Passage("a", "Short.")])
    assert len(retriever) == 4
    assert Passage("a", "Short.") in [p.with_score(None) for p in retriever.retrieve("Boats pass under it.", k=5)]


def test_changes_of_another_process_are_seen(server: str) -> None:
    here, there = (chroma(url=server, collection="shared") for _ in range(2))
    here.add(CORPUS)
    assert there.retrieve("Boats pass under it.", 1)[0].id == "a"
    here.add([Passage("a", "Only this now.")])
    assert there.retrieve("Only this now.", 1)[0].score == pytest.approx(1)
    there.delete(["a"])
    assert "a" not in {p.id for p in here.retrieve("Only this now.", 50)}
    there.add([CORPUS[0]])
    here.add([Passage("n", "New is this.")])
    assert [p.id for p in here.retrieve("New is this.", 1)] == ["n"]
    assert here.retrieve("Boats pass under it.", 1)[0].with_score(None) == CORPUS[0]


def test_any_program_that_knows_chroma_can_read_the_collection(tmp_path: Path) -> None:
    chroma(path=tmp_path).add(CORPUS)
    client = chromadb.PersistentClient(str(tmp_path), settings=Settings(anonymized_telemetry=False))
    plain = client.get_collection("selfreflect", embedding_function=None)
    found = plain.get(where={"t": True}, include=["documents", "metadatas", "embeddings"])
    assert (found["ids"], found["documents"]) == (["ü/c 1"], [CORPUS[1].text])
    assert found["metadatas"][0]["n"] == 2
    vector = HashingEmbedder().embed(windows(CORPUS[0]))[-1]
    assert plain.query(query_embeddings=[vector], n_results=1)["ids"] == [["a"]]


def test_a_collection_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    client = chromadb.PersistentClient(str(tmp_path), settings=Settings(anonymized_telemetry=False))
    made = {"selfreflect:embedder": "hashing-64", "selfreflect:granularity": "sentence", "selfreflect:format": 1}
    client.create_collection("selfreflect", metadata=made, embedding_function=None)
    with pytest.raises(StoreError, match="earlier version") as caught:
        chroma(path=tmp_path)
    assert "another collection" in caught.value.hint


def test_records_of_another_program_are_told(tmp_path: Path) -> None:
    retriever = chroma(path=tmp_path)
    client = chromadb.PersistentClient(str(tmp_path), settings=Settings(anonymized_telemetry=False))
    plain = client.get_collection("selfreflect", embedding_function=None)
    plain.add(ids=["x"], embeddings=[[0.0] * 64], metadatas=[{"a": 1}])
    with pytest.raises(StoreError, match="'x'"):
        retriever.retrieve("anything")


VALUES = st.one_of(
    st.text("ab é", max_size=4), st.integers(-5, 5), st.floats(allow_nan=False), st.booleans(), st.none()
)
PASSAGES = st.lists(
    st.builds(
        Passage,
        st.text("abcé/ ", min_size=1, max_size=4),
        st.text("ab .\n。", max_size=30),
        st.text("xy", max_size=3),
        st.dictionaries(st.text("kl", min_size=1, max_size=2), VALUES, max_size=3),
    ),
    max_size=8,
    unique_by=lambda p: p.id,
)


@pytest.fixture(scope="module")
def shared() -> ChromaRetriever:
    return chroma()


@settings(deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(passages=PASSAGES, query=st.text("ab ", max_size=6), k=st.integers(1, 10))
def test_round_trip_and_agreement_with_exact_search(
    shared: ChromaRetriever, passages: list[Passage], query: str, k: int
) -> None:
    shared.delete(shared.ids())
    shared.add(passages)
    assert shared.get([p.id for p in passages]) == passages
    exact = DenseRetriever(passages, embedder=HashingEmbedder())
    for where in (None, {"k": {"$ne": 1}}, {"l": {"$in": [True, "a", 0]}}):
        mine, theirs = shared.retrieve(query, k, where), exact.retrieve(query, k, where)
        assert [p.score for p in mine] == pytest.approx([p.score for p in theirs], abs=1e-4)
        wide = {p.id for p in BM25Retriever(passages).retrieve(query, 50, where)}
        assert wide <= {p.id for p in exact.retrieve(query, 50, where)} or not query.strip()
