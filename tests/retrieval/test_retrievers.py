"""One contract for all retrievers that passages are added to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hashing_embedder import HashingEmbedder

from shared_core.errors import InputError, PassageError, QuestionError
from shared_core.retrieval import BM25Retriever, ChromaRetriever, DenseRetriever, HybridRetriever, Retriever
from shared_core.types import Passage

CORPUS = [
    Passage("a", "Mira Dorn built the bridge. It stands to this day in the old town. Boats pass under it.", "Bridges"),
    Passage(
        "ü/c 1", "東京タワーは東京にある。富士山は日本一高い。", "東京", {"n": 2, "f": 2.0, "t": True, "none": None}
    ),
    Passage("e", "", "", {"empty": "", "inf": float("inf"), "none": None}),
    Passage("z", "line one\n\n  line two\t\x00 end ", " spaced "),
]
BOATS, FUJI = "Boats pass under it.", "富士山は日本一高い。"
MAKERS: dict[str, Callable[[Path, pytest.FixtureRequest], Any]] = {
    "rank_bm25": lambda folder, request: BM25Retriever(backend="rank_bm25"),
    "bm25s": lambda folder, request: BM25Retriever(backend="bm25s"),
    "dense": lambda folder, request: DenseRetriever(embedder=HashingEmbedder()),
    "hybrid": lambda folder, request: HybridRetriever(embedder=HashingEmbedder()),
    "chroma in memory": lambda folder, request: ChromaRetriever(embedder=HashingEmbedder()),
    "chroma in a folder": lambda folder, request: ChromaRetriever(path=folder / "i", embedder=HashingEmbedder()),
    "chroma's server": lambda folder, request: ChromaRetriever(
        url=request.getfixturevalue("server"), embedder=HashingEmbedder()
    ),
}


@pytest.fixture(params=MAKERS)
def retriever(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param.startswith("chroma"):
        pytest.importorskip("chromadb")
    return MAKERS[request.param](tmp_path, request)


def test_adding_finding_replacing_and_deleting(retriever: Any) -> None:
    assert isinstance(retriever, Retriever)
    by_cosine = isinstance(retriever, DenseRetriever | ChromaRetriever)
    retriever.add([*CORPUS, CORPUS[0].with_score(3.0)])  # the same passage twice counts once
    assert set(retriever.ids()) == {p.id for p in CORPUS}
    assert len(retriever) == 4
    assert retriever.get(["z", "nobody", "ü/c 1", "a", "e"]) == [CORPUS[3], CORPUS[1], CORPUS[0], CORPUS[2]]
    assert retriever.retrieve(BOATS, k=1)[0].with_score(None) == CORPUS[0]
    assert retriever.retrieve(FUJI, k=50)[0].id == "ü/c 1"
    if by_cosine:
        assert len(retriever.retrieve("boats", k=50)) == 4
    assert retriever.retrieve("  ") == []
    assert [p.id for p in retriever.retrieve("東京", 1, where={"t": True, "n": {"$lt": 3}})] == ["ü/c 1"]
    assert retriever.retrieve("東京", where={"none": "x"}) == []
    many = retriever.retrieve_many(["boats", "", "富士山"], 2)
    assert many == [retriever.retrieve("boats", 2), [], retriever.retrieve("富士山", 2)]
    retriever.add([Passage("a", "Only this now.", metadata={"k": "v"}), Passage("ü/c 1", "短い", metadata={"n": 3})])
    assert retriever.get(["a"]) == [Passage("a", "Only this now.", metadata={"k": "v"})]
    assert retriever.retrieve("短い", where={"t": True}) == []
    assert retriever.retrieve("短い", where={"n": 3})[0].text == "短い"
    if by_cosine:
        assert all((p.score or 0) < 0.9 for p in retriever.retrieve(BOATS))
    retriever.delete(["a", "nobody"])
    assert set(retriever.ids()) == {"ü/c 1", "e", "z"}
    retriever.delete(retriever.ids())
    assert len(retriever) == 0
    assert retriever.retrieve("boats") == []


def test_filters_are_applied_before_k(retriever: Any) -> None:
    retriever.add([Passage(f"p{i}", "a bridge " * (9 - i), metadata={"year": 1700 + i}) for i in range(8)])
    assert [p.id for p in retriever.retrieve("bridge", 1, where={"year": {"$gt": 1706}})] == ["p7"]


@pytest.mark.parametrize("k", [0, -1, True, 2.5])
def test_a_k_that_is_no_number_of_passages_is_refused(retriever: Any, k: Any) -> None:
    with pytest.raises(InputError):
        retriever.retrieve("boats", k)


@pytest.mark.parametrize("bad", [
    [Passage("n", "one"), Passage("n", "two")], [Passage("n", "x", metadata={"": 1})],
    [Passage("n", "x", metadata={"tags": ["a"]})], [Passage("n", "lone \ud800 surrogate")],  # type: ignore[dict-item]
    ["text"], Passage("n", "not in a list"),
])  # fmt: skip
@pytest.mark.parametrize("retriever", ["bm25s", "hybrid", "chroma in memory"], indirect=True)
def test_bad_passages_are_refused_and_nothing_is_added(retriever: Any, bad: Any) -> None:
    retriever.add(CORPUS)
    with pytest.raises(PassageError):
        retriever.add(bad)
    assert set(retriever.ids()) == {p.id for p in CORPUS}


@pytest.mark.parametrize("retriever", ["bm25s", "dense", "hybrid", "chroma in memory"], indirect=True)
def test_a_question_that_is_no_text_and_ids_that_are_no_list_are_refused(retriever: Any) -> None:
    with pytest.raises(QuestionError):
        retriever.retrieve(None)
    with pytest.raises(InputError):
        retriever.delete("a")
