from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hashing_embedder import HashingEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shared_core.errors import RetrievalError
from shared_core.retrieval import DenseRetriever
from shared_core.retrieval.base import PassageVectors
from shared_core.retrieval.embedding import MAX_COST, windows
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
        assert passage.score == pytest.approx(float((embedder.embed(windows(passage)) @ query).max()), abs=0.01)
    scores = [p.score or 0 for p in found]
    assert scores == sorted(scores, reverse=True)


def test_an_embedder_that_errs_is_named() -> None:
    class Broken(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.full((1, 4), np.nan, np.float32)

    with pytest.raises(RetrievalError, match="not finite"):
        DenseRetriever([CORPUS[1]], embedder=Broken("broken"))


class InContext(HashingEmbedder):
    """Knows what stands around a sentence: a word of the passage before is in its vector."""

    def embed_passages(self, passages: Sequence[Passage]) -> list[PassageVectors]:
        out = []
        for p in passages:
            vectors = self.embed([f"{p.title} {sentence}" for sentence in p.text.split(".") if sentence] or [p.id])
            out.append(PassageVectors(vectors, (), self.embed([p.text])[0]))
        return out


def test_an_embedder_that_knows_passages_is_given_passages() -> None:
    corpus = [Passage("a", "It sank. It was raised.", "Ferry"), Passage("b", "It sank. It burnt.", "Crane"), CORPUS[2]]
    retriever = DenseRetriever(corpus, embedder=InContext())
    assert retriever.retrieve("crane it sank", 1)[0].id == "b"
    assert retriever.retrieve("crane it sank", 1)[0].score == pytest.approx(1, abs=1e-5)


def test_an_embedder_that_forgets_a_passage_is_named() -> None:
    class Forgetful(InContext):
        def embed_passages(self, passages: Sequence[Passage]) -> list[PassageVectors]:
            return super().embed_passages(passages)[1:]

    with pytest.raises(RetrievalError, match="forgetful"):
        DenseRetriever(CORPUS, embedder=Forgetful("forgetful"))


def test_vectors_of_another_length_are_refused() -> None:
    embedder = HashingEmbedder()
    retriever = DenseRetriever(CORPUS, embedder=embedder)
    embedder.dimension = 32
    with pytest.raises(RetrievalError, match="another dimension"):
        retriever.add([Passage("x", "More.")])
    assert retriever.ids() == [p.id for p in CORPUS]


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
