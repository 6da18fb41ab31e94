"""One contract for all places of an index's vectors: its own file, embedded Chroma, a real Chroma server."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from file_vectors import execute
from hashing_embedder import HashingEmbedder

from shared_core.documents import DocumentIndex, IndexSettings
from shared_core.errors import IndexCorruptedError, InputError, MissingDependencyError, SettingsError, StoreError
from shared_core.retrieval import ChromaRetriever
from shared_core.types import Passage

pytest.importorskip("chromadb")

QUERY = "which boat has number 305"


@pytest.fixture(params=["index", "chroma", "server"])
def place(request: pytest.FixtureRequest) -> str:
    """The setting ``vectors``, of each place."""
    return vectors_at(request.param, request)


def vectors_at(name: str, request: pytest.FixtureRequest) -> str:
    return f"chroma:{request.getfixturevalue('server')}" if name == "server" else name


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for i in range(8):
        text = "\n\n".join(f"Boat {i} has number {i * 100 + j}. " + "It is moored. " * 20 for j in range(6))
        (folder / f"d{i}.txt").write_text(text)
    (folder / "odd.jsonl").write_text('{"text": "A \\u0000 and \\ud800.", "year": 1841, "chroma:x": 1, "none": null}')
    return folder


def open_at(folder: Path, place: str | None = None, **options: Any) -> DocumentIndex:
    settings = None if place is None else IndexSettings(vectors=place)
    return DocumentIndex(folder, embedder=options.pop("embedder", HashingEmbedder()), settings=settings, **options)


def make(folder: Path, docs: Path, place: str) -> None:
    with open_at(folder, place) as index:
        index.update(docs)


def dense_ids(folder: Path, place: str | None = None) -> list[str]:
    """Ids of all passages that dense search finds, by an index opened anew."""
    with open_at(folder, place) as index:
        return sorted(p.id for p in index.retriever().retrievers[1].retrieve("anything", 10_000))


def passage_ids(folder: Path) -> list[str]:
    with open_at(folder) as index:
        return sorted(p.id for p in index.passages())


# --- the contract -----------------------------------------------------------------------------------------------


def test_round_trip(tmp_path: Path, docs: Path, place: str) -> None:
    make(tmp_path / "i", docs, place)
    (docs / "d3.txt").unlink()
    (docs / "d4.txt").write_text("Nothing but a buoy.")
    with open_at(tmp_path / "i") as index:
        report = index.update(docs)
        assert (report.deleted, report.changed) == (("d3.txt",), ("d4.txt",))
        retriever = index.retriever()
        assert retriever.retrieve("a buoy", 1)[0].text == "Nothing but a buoy."
        assert retriever.retrieve("and", 5, where={"year": {"$lt": 1900}})[0].metadata["source"] == "odd.jsonl"
        by_id = {p.id: p for p in index.passages()}
        for found in retriever.retrieve(QUERY, 20):  # both retrievers hold the same passages
            assert by_id[found.id].with_score(found.score) == found
    assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")


def test_every_place_gives_the_same_ranking(tmp_path: Path, docs: Path, place: str) -> None:
    make(tmp_path / "own", docs, "index")
    make(tmp_path / "i", docs, place)
    with open_at(tmp_path / "own") as own, open_at(tmp_path / "i") as index:
        for query in (QUERY, "moored", "a \x00"):
            expected = [(p.id, p.score) for p in own.retriever().retrieve(query, 10)]
            assert [(p.id, p.score) for p in index.retriever().retrieve(query, 10)] == expected


def test_vectors_are_where_the_index_remembers(tmp_path: Path, docs: Path, place: str) -> None:
    make(tmp_path / "i", docs, place)
    assert (tmp_path / "i" / "chroma").exists() == (place == "chroma")
    assert execute(tmp_path / "i", "SELECT count(*) > 0 FROM vectors") == [(place == "index",)]
    embedder = HashingEmbedder()
    with open_at(tmp_path / "i", embedder=embedder) as index:
        assert index.update(docs).changed == ()
        assert embedder.batches == []
        assert index.retriever().retrieve(QUERY, 3)[0].text.startswith("Boat 3")


def test_an_index_is_bound_to_its_embedder(tmp_path: Path, docs: Path, place: str) -> None:
    make(tmp_path / "i", docs / "d1.txt", place)
    with (
        open_at(tmp_path / "i", embedder=HashingEmbedder("other")) as index,
        pytest.raises(StoreError, match="hashing-64"),
    ):
        index.retriever()


def test_an_update_that_failed_is_completed_by_the_next_reader(tmp_path: Path, docs: Path, place: str) -> None:
    class Failing(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            raise StoreError("No more.")

    with open_at(tmp_path / "i", place) as index:
        index.update(docs / "d1.txt")
    with open_at(tmp_path / "i", embedder=Failing()) as index, pytest.raises(StoreError, match="No more"):
        index.update(docs)
    assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")


def test_killed_while_vectors_are_written(tmp_path: Path, docs: Path, place: str) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import chromadb, shared_core.documents.store as store\n"
        "from hashing_embedder import HashingEmbedder\n"
        "store.BATCH = 4\n"
        f"settings = store.IndexSettings(vectors={place!r})\n"
        "print('ready', flush=True)\n"
        f"store.DocumentIndex({str(tmp_path / 'i')!r}, embedder=HashingEmbedder(), settings=settings).update("
        f"{str(docs)!r})\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.kill()
    child.wait(timeout=30)
    child.stdout.close()
    make(tmp_path / "i", docs, place)
    assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")
    assert len(passage_ids(tmp_path / "i")) > 8


@pytest.mark.parametrize(("one", "other"), [("index", "chroma"), ("chroma", "server"), ("server", "index")])
def test_vectors_move_when_the_setting_changes(
    one: str, other: str, tmp_path: Path, docs: Path, request: pytest.FixtureRequest
) -> None:
    for name in (one, other, one):  # and back, in the same process
        make(tmp_path / "i", docs, vectors_at(name, request))
        assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")
        assert (tmp_path / "i" / "chroma").exists() == (name == "chroma")
        assert execute(tmp_path / "i", "SELECT count(*) > 0 FROM vectors") == [(name == "index",)]
        if "server" in (one, other):
            ((identity,),) = execute(tmp_path / "i", "SELECT value FROM meta WHERE key = 'identity'")
            kept = collections(request.getfixturevalue("server"))
            assert (f"selfreflect-{identity}" in kept) == (name == "server")


def collections(url: str) -> set[str]:
    from shared_core.retrieval.chroma_client import connect

    return {c.name for c in connect(None, url, create=False).list_collections()}


def test_a_retriever_reaches_another_process(tmp_path: Path, docs: Path, place: str) -> None:
    make(tmp_path / "i", docs, place)
    with open_at(tmp_path / "i") as index:
        retriever = index.retriever()
        copy = pickle.loads(pickle.dumps(retriever))
        assert copy.retrieve(QUERY, 5) == retriever.retrieve(QUERY, 5)


def test_two_indexes_do_not_meet(tmp_path: Path, docs: Path, place: str) -> None:
    for n in (1, 2):
        make(tmp_path / f"i{n}", docs / f"d{n}.txt", place)
    assert {i.partition("#")[0] for i in dense_ids(tmp_path / "i1")} == {"d1.txt"}


# --- what is so in one place only -------------------------------------------------------------------------------


def test_damaged_vectors_of_the_index(tmp_path: Path, docs: Path) -> None:
    make(tmp_path / "i", docs, "index")
    execute(tmp_path / "i", "UPDATE vectors SET data = x'0011' WHERE row = 3")
    with open_at(tmp_path / "i") as index, pytest.raises(IndexCorruptedError):
        index.retriever().retrieve("boat")


def test_a_damaged_embedded_chroma_can_be_computed_anew(tmp_path: Path, docs: Path) -> None:
    make(tmp_path / "i", docs, "index")
    (tmp_path / "i" / "chroma").mkdir()
    database = tmp_path / "i" / "chroma" / "chroma.sqlite3"
    database.write_bytes(b"garbage" * 2000)
    with open_at(tmp_path / "i", "chroma") as index, pytest.raises(IndexCorruptedError) as caught:
        index.update(docs)
    assert "texts are kept" in caught.value.hint
    assert database.read_bytes() == b"garbage" * 2000
    with open_at(tmp_path / "i", "index") as index:
        index.update(docs)
    assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")


def test_embedded_chroma_is_readable_by_its_owner_only(tmp_path: Path, docs: Path) -> None:
    (tmp_path / "i").mkdir(mode=0o755)
    make(tmp_path / "i", docs, "chroma")
    assert (tmp_path / "i" / "chroma").stat().st_mode & 0o777 == 0o700


def test_a_server_that_is_down_is_not_damage(tmp_path: Path, docs: Path) -> None:
    with open_at(tmp_path / "i", "chroma:http://127.0.0.1:9") as index:
        with pytest.raises(StoreError) as caught:
            index.update(docs)
        assert not isinstance(caught.value, IndexCorruptedError)
        assert len(index.sources()) == 9  # what was read is kept
    with open_at(tmp_path / "i", "index") as index:  # and the index can leave it
        index.update(docs)
    assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")


def test_passages_of_others_in_a_named_collection_are_left_alone(server: str, tmp_path: Path, docs: Path) -> None:
    shared = ChromaRetriever("boats", url=server, embedder=HashingEmbedder())
    shared.add([Passage("mine", "Not from a file.")])
    with open_at(tmp_path / "i", f"chroma:{server}", collection="boats") as index:
        index.update(docs)
    (docs / "d3.txt").unlink()
    with open_at(tmp_path / "i") as index:  # it remembers the collection
        index.update(docs)
        assert set(shared.ids()) == {"mine", *passage_ids(tmp_path / "i")}
    make(tmp_path / "i", docs, "index")
    assert "mine" in shared.ids()


def test_a_relative_path_is_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name / "docs").mkdir(parents=True)
        (tmp_path / name / "docs" / "a.md").write_text(f"It is {name}.\n")
        monkeypatch.chdir(tmp_path / name)
        with open_at(Path("index"), "chroma") as index:
            index.update("docs")
            assert index.retriever().retrieve("It is", 1)[0].text == f"It is {name}."


def test_only_chroma_needs_chromadb(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chromadb", None)
    make(tmp_path / "i", docs, "index")
    assert dense_ids(tmp_path / "i") == passage_ids(tmp_path / "i")
    with open_at(tmp_path / "i", "chroma") as index, pytest.raises(MissingDependencyError) as caught:
        index.update(docs)
    assert "selfreflect-rag[chroma]" in caught.value.hint


# --- the setting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["chrom", "chroma:", "chroma:localhost:8000", "http://127.0.0.1:8000", ""])
def test_a_place_that_does_not_exist_is_refused(place: str) -> None:
    with pytest.raises(SettingsError, match="must be index, chroma"):
        IndexSettings(vectors=place)


def test_vectors_of_an_index_in_memory(docs: Path) -> None:
    first, second = (open_at(None, "index") for _ in range(2))  # type: ignore[arg-type]
    first.update(docs / "d1.txt")
    second.update(docs / "d2.txt")
    assert {p.metadata["source"] for p in first.retriever().retrieve("boat number", 50)} == {"d1.txt"}
    with pytest.raises(InputError, match="folder"):
        open_at(None, "chroma")  # type: ignore[arg-type]


def test_the_old_argument_warns_and_works(tmp_path: Path, docs: Path, server: str) -> None:
    with pytest.warns(DeprecationWarning, match="vectors='chroma:http"):
        index = DocumentIndex(tmp_path / "i", chroma_url=server, embedder=HashingEmbedder())
    with index:
        index.update(docs)
    assert not (tmp_path / "i" / "chroma").exists()
    assert dense_ids(tmp_path / "i", f"chroma:{server}") == passage_ids(tmp_path / "i")
