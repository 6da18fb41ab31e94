"""The index of files with its vectors in embedded Chroma: killed, damaged, moved to another embedder."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_core.documents.scan import INDEX_MARK
from shared_core.documents.store import DocumentIndex
from shared_core.errors import IndexCorruptedError, StoreError
from shared_core.retrieval import ChromaRetriever
from shared_core.retrieval.windows import windows

np = pytest.importorskip("numpy")
chromadb = pytest.importorskip("chromadb")
Settings = pytest.importorskip("chromadb.config").Settings


class HashEmbedder:
    """Unit vectors out of a hash: the same text, the same vector, and no model."""

    def __init__(self, name: str = "hash") -> None:
        self.name = name

    def embed(self, texts: Sequence[str]) -> Any:
        digests = [hashlib.sha256(t.encode()).digest()[:16] for t in texts]
        rows = np.array([np.frombuffer(d, np.uint8) for d in digests], np.float32).reshape(len(digests), 16) + 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for i in range(12):
        text = "\n\n".join(f"Boat {i} has number {i * 100 + j}. " + "It is moored. " * 20 for j in range(8))
        (folder / f"d{i}.txt").write_text(text)
    (folder / "odd.jsonl").write_text('{"text": "A \\u0000 and \\ud800.", "year": 1841, "chroma:x": 1, "none": null}')
    return folder


def chroma_ids(folder: Path) -> list[str]:
    """Ids of the records in embedded Chroma, as another program sees them."""
    client = chromadb.PersistentClient(str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
    (collection,) = client.list_collections()
    return sorted(client.get_collection(collection.name, embedding_function=None).get(include=[])["ids"])


def check_whole(folder: Path) -> None:
    """Every passage is in Chroma, and found by its vector."""
    with DocumentIndex(folder, embedder=HashEmbedder()) as index:
        passages = index.passages()
        dense = index.retriever().retrievers[1]
        assert {p.id for p in dense.retrieve("anything", 10_000)} == {p.id for p in passages}
    assert chroma_ids(folder) == sorted(p.id for p in passages)


def test_round_trip(tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update(docs)
    (docs / "d3.txt").unlink()
    (docs / "d4.txt").write_text("Nothing but a buoy.")
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        report = index.update(docs)
        assert (report.deleted, report.changed) == (("d3.txt",), ("d4.txt",))
        retriever = index.retriever()
        assert retriever.retrieve("a buoy", 1)[0].text == "Nothing but a buoy."
        assert retriever.retrieve("and", 5, where={"year": {"$lt": 1900}})[0].metadata["source"] == "odd.jsonl"
        by_id = {p.id: p for p in index.passages()}
        for found in retriever.retrieve("boat number 305", 20):  # both sides hold the same passages
            assert by_id[found.id].with_score(found.score) == found
    check_whole(tmp_path / "i")


def test_killed_while_chroma_writes(tmp_path: Path, docs: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import chromadb\n"
        "from shared_core.documents.store import DocumentIndex\n"
        "from test_store_chroma import HashEmbedder\n"
        "print('ready', flush=True)\n"
        f"DocumentIndex({str(tmp_path / 'i')!r}, embedder=HashEmbedder()).update({str(docs)!r})\n"
    )
    deaths = 0
    for delay in (0.1, 0.4, 0.7, 1.0):
        child = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.kill()
        deaths += child.wait() < 0
        child.stdout.close()
    assert deaths
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update(docs)
        assert index.sources() == sorted(p.name for p in docs.iterdir())
    check_whole(tmp_path / "i")


def test_a_damaged_chroma_is_told_and_can_be_made_anew(tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update(docs)
    broken = tmp_path / "broken"  # Chroma keeps clients by path: a copy, as another process would meet it
    shutil.copytree(tmp_path / "i", broken)
    database = broken / "chroma" / "chroma.sqlite3"
    database.write_bytes(b"garbage" * 2000)
    with DocumentIndex(broken, embedder=HashEmbedder()) as index:
        assert index.retriever().retrieve("boat number 305", 1)  # a question does not need it
        with pytest.raises(IndexCorruptedError) as caught:
            index.update(docs)
    assert "texts are kept" in caught.value.hint
    assert database.read_bytes() == b"garbage" * 2000
    fresh = tmp_path / "fresh"
    shutil.copytree(tmp_path / "i", fresh, ignore=shutil.ignore_patterns("chroma"))
    with DocumentIndex(fresh, embedder=HashEmbedder()) as index:
        index.update(docs)
    check_whole(fresh)


def test_damaged_vectors_are_told(tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update(docs)
    with sqlite3.connect(tmp_path / "i" / INDEX_MARK) as connection:
        connection.execute("UPDATE vectors SET data = x'0011' WHERE row = 3")
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index, pytest.raises(IndexCorruptedError):
        index.retriever().retrieve("boat")


def test_chroma_holds_metadata_and_the_vector_of_the_whole(tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update(docs)
        (old,) = (p for p in index.passages() if p.metadata.get("year") == 1841)
    client = chromadb.PersistentClient(str(tmp_path / "i" / "chroma"), settings=Settings(anonymized_telemetry=False))
    (collection,) = client.list_collections()
    plain = client.get_collection(collection.name, embedding_function=None)
    assert plain.get(where={"year": {"$lt": 1900}}, include=[])["ids"] == [old.id]
    vector = HashEmbedder().embed(windows(old))[-1]
    assert plain.query(query_embeddings=[vector], n_results=1)["ids"] == [[old.id]]


def test_an_index_is_bound_to_its_embedder(tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update(docs / "d1.txt")
    with (
        DocumentIndex(tmp_path / "i", embedder=HashEmbedder("other")) as index,
        pytest.raises(StoreError, match="hash"),
    ):
        index.retriever()


def test_in_memory_indexes_do_not_share(docs: Path) -> None:
    first, second = (DocumentIndex(None, embedder=HashEmbedder()) for _ in range(2))
    first.update(docs / "d1.txt")
    second.update(docs / "d2.txt")
    assert {p.metadata["source"] for p in first.retriever().retrieve("boat number", 50)} == {"d1.txt"}


def test_a_server_that_is_down_is_no_damage(tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", chroma_url="http://127.0.0.1:9", embedder=HashEmbedder()) as index:
        with pytest.raises(StoreError) as caught:
            index.update(docs)
        assert not isinstance(caught.value, IndexCorruptedError)
        assert len(index.sources()) == 13  # what was read is kept


def held(server: str) -> list[str]:
    return ChromaRetriever(url=server, collection="boats", embedder=HashEmbedder(), create=False).ids()


def test_vectors_on_a_chroma_server(server: str, tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", chroma_url=server, embedder=HashEmbedder(), collection="boats") as index:
        report = index.update([docs])
        assert len(report.added) == 13
        assert len(held(server)) == report.passages
        assert index.retriever().retrieve("which boat has number 307", 3)[0].text.startswith("Boat 3")
    (docs / "d3.txt").unlink()
    with DocumentIndex(tmp_path / "i", chroma_url=server, embedder=HashEmbedder(), collection="boats") as index:
        assert index.update([docs]).deleted == ("d3.txt",)
        assert not [i for i in held(server) if i.startswith("d3.txt")]
    assert not (tmp_path / "i" / "chroma").exists(), "nothing is kept in a folder besides"
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:  # it remembers the server
        assert index.retriever().retrieve("which boat has number 807", 3)[0].text.startswith("Boat 8")
        assert index.update([docs]).passages == len(held(server))
    assert not (tmp_path / "i" / "chroma").exists()


def test_an_index_moves_to_a_server(server: str, tmp_path: Path, docs: Path) -> None:
    with DocumentIndex(tmp_path / "i", embedder=HashEmbedder()) as index:
        index.update([docs])
    before = size_of(tmp_path / "i")
    with DocumentIndex(tmp_path / "i", chroma_url=server, embedder=HashEmbedder()) as index:
        index.update([docs])
        assert index.retriever().retrieve("which boat has number 307", 3)[0].text.startswith("Boat 3")
    assert not (tmp_path / "i" / "chroma").exists()
    assert size_of(tmp_path / "i") < before


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_a_relative_path_is_of_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("here", "there"):
        (tmp_path / place / "docs").mkdir(parents=True)
        (tmp_path / place / "docs" / "a.md").write_text(f"It is {place}.\n")
        monkeypatch.chdir(tmp_path / place)
        with DocumentIndex("index", embedder=HashEmbedder()) as index:
            index.update("docs")
            assert [p.text for p in index.retriever().retrieve("It is where?", 5)] == [f"It is {place}."]
    shutil.rmtree(tmp_path / "here")
    with DocumentIndex("index", embedder=HashEmbedder()) as index:
        assert [p.text for p in index.retriever().retrieve("It is where?", 5)] == ["It is there."]
