from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hashing_embedder import HashingEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError, PassageError, RetrievalError
from shared_core.retrieval import BM25Retriever, DenseRetriever, HybridRetriever
from shared_core.types import Passage


class Fixed:
    """A retriever with a list of its own; no filter, no add."""

    def __init__(self, ranking: dict[str, float | None]) -> None:
        self.ranking = ranking

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        return [Passage(i, i, score=s) for i, s in self.ranking.items()][:k]


CORPUS = [
    Passage("a", "Mira Dorn built the bridge.", metadata={"n": 1}),
    Passage("b", "The museum keeps letters.", metadata={"n": 2}),
    Passage("c", "Stone bridges cross rivers.", metadata={"n": 3}),
]


def test_reciprocal_ranks_are_the_formula() -> None:
    fused = HybridRetriever(
        retrievers=[Fixed({"x": None, "y": None}), Fixed({"y": None, "z": None})], fusion="rrf", weights=(1, 2)
    ).retrieve("q")
    assert {p.id: p.score for p in fused} == pytest.approx({"y": 1 / 62 + 2 / 61, "z": 2 / 62, "x": 1 / 61})
    assert [p.id for p in fused] == ["y", "z", "x"]


def test_scores_are_scaled_by_what_the_list_leaves_out() -> None:
    first, second = Fixed({"x": 4.0, "y": 2.0}), Fixed({"y": 0.9, "z": 0.6, "x": 0.5})
    # Neither list is full: an absent passage has score 0 there.
    fused = {p.id: p.score for p in HybridRetriever(retrievers=[first, second]).retrieve("q")}
    assert fused == pytest.approx({"x": (1 + 5 / 9) / 2, "y": (0.5 + 1) / 2, "z": (6 / 9) / 2})
    # Both are full at depth 2: the last of a list counts 0.
    fused = {p.id: p.score for p in HybridRetriever(retrievers=[first, second], depth=2).retrieve("q", k=2)}
    assert fused == pytest.approx({"x": 0.5, "y": 0.5})


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.dictionaries(st.sampled_from("uvwxyz"), st.floats(-1, 50)), min_size=1, max_size=3),
    st.integers(1, 8),
    st.sampled_from(["scores", "rrf"]),
)
def test_fusion_is_sorted_bounded_and_complete(lists: list[dict[str, float | None]], k: int, fusion: str) -> None:
    ordered = [dict(sorted(r.items(), key=lambda item: -(item[1] or 0))) for r in lists]
    found = HybridRetriever(retrievers=[Fixed(r) for r in ordered], fusion=fusion).retrieve("q", k)  # type: ignore[arg-type]
    scores = [p.score or 0.0 for p in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= s <= 1 + 1e-9 for s in scores)
    assert len(found) == min(k, len({i for r in lists for i in r}))


def test_passages_are_added_to_the_default_two() -> None:
    assert HybridRetriever(CORPUS, embedder=HashingEmbedder()).ids() == ["a", "b", "c"]


def test_one_retriever_keeps_its_order() -> None:
    lexical = BM25Retriever(CORPUS)
    found = HybridRetriever([lexical]).retrieve("bridge over rivers")
    assert [p.id for p in found] == [p.id for p in lexical.retrieve("bridge over rivers")]


def test_copies_of_one_text_leave_room_for_others() -> None:
    copies = [Passage(f"copy{i}", "The ferry sails at nine from the pier.") for i in range(8)]
    others = [Passage("other", "The ferry sails to the island at noon."), Passage("far", "A ferry is a ship.")]
    hybrid = HybridRetriever([*copies, *others], embedder=HashingEmbedder())
    found = hybrid.retrieve("When does the ferry sail from the pier?", k=4)
    assert {p.id for p in found[2:]} == {"other", "far"}
    assert len({p.text for p in found[:2]}) == 1
    many = hybrid.retrieve("When does the ferry sail from the pier?", k=9)
    assert len(many) == 9  # with nothing else there, copies are found
    assert [p.score for p in many] == sorted((p.score or 0 for p in many), reverse=True)


def test_nothing_is_added_to_one_retriever_only() -> None:
    lexical = BM25Retriever()
    with pytest.raises(InputError, match="Fixed"):
        HybridRetriever(retrievers=[lexical, Fixed({})]).add(CORPUS)
    with pytest.raises(PassageError):
        HybridRetriever(retrievers=[lexical, DenseRetriever(embedder=HashingEmbedder())]).add(
            [Passage("a", "one"), Passage("a", "two")]
        )
    assert len(lexical) == 0


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="filter"):
        HybridRetriever(retrievers=[Fixed({"x": 1.0})]).retrieve("q", where={"n": 1})
    with pytest.raises(RetrievalError, match="without a score") as caught:
        HybridRetriever(retrievers=[Fixed({"x": None})]).retrieve("q")
    assert "rrf" in caught.value.hint
    bad: tuple[dict[str, Any], ...] = (
        {"fusion": "sum"}, {"weights": (1,)}, {"weights": (0, 0)}, {"weights": (1, float("nan"))}, {"depth": 0},
        {"retrievers": []}, {"retrievers": [object()]}, {"retrievers": [Fixed({})], "embedder": HashingEmbedder()},
    )  # fmt: skip
    for options in bad:
        with pytest.raises(InputError):
            HybridRetriever(**options)


def test_the_entry_of_an_option_is_found_though_examples_name_it_more_often() -> None:
    def option(page: str, name: str, text: str) -> Passage:
        return Passage(f"{page} {name}", f"{name}\n{text}", f"winch-{page}(1)", {"section": f"OPTIONS > {name}"})

    examples = [Passage(f"e{i}", f"winch rope --onto drum{i} --onto drum. Onto the drum, rope {i}!") for i in range(9)]
    entries = [option("rope", "-o, --onto <drum>", "Where to wind."), option("boat", "--onto <quay>", "Where to moor.")]
    retriever = HybridRetriever(retrievers=[BM25Retriever([*examples, *entries])])
    found = retriever.retrieve("What does winch rope --onto do?", k=4)
    assert [p.id for p in found][-1] == "rope -o, --onto <drum>"
    assert len(found) == 4
    scores = [p.score or 0.0 for p in found]
    assert scores == sorted(scores, reverse=True)
    assert "rope -o, --onto <drum>" not in [p.id for p in retriever.retrieve("winch rope onto drum", k=4)]
