from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.retrieval import BM25Retriever, Tokenizer
from shared_core.types import Passage

WORDS = ["river", "rivers", "bridge", "the", "Thale", "東京", "tower", "1,841", "café", "was"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
corpora = st.lists(texts, max_size=30).map(lambda ts: [Passage(f"p{i}", t) for i, t in enumerate(ts)])

SMALL = [
    Passage("a", "Mira Dorn built the bridge over the river.", "Bridges", {"year": 1841, "lang": "en"}),
    Passage("b", "The museum keeps letters and maps.", "Museum", {"year": 1900}),
    Passage("c", "A bridge of stone, a bridge of wood, a bridge of rope.", "Crossing", {"year": 1700, "lang": "en"}),
]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(corpora, texts, st.integers(1, 40), st.floats(0.01, 3), st.floats(0, 1))
def test_both_libraries_give_the_same_scores_and_ranking(
    corpus: list[Passage], query: str, k: int, k1: float, b: float
) -> None:
    slow = BM25Retriever(corpus, backend="rank_bm25", k1=k1, b=b).retrieve(query, k)
    fast = BM25Retriever(corpus, backend="bm25s", k1=k1, b=b).retrieve(query, k)
    assert [p.id for p in slow] == [p.id for p in fast]
    assert [p.score for p in slow] == pytest.approx([p.score for p in fast], abs=1e-9)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(corpora, texts, st.integers(1, 40))
def test_results_are_sorted_and_matched_and_the_first_k_of_more(corpus: list[Passage], query: str, k: int) -> None:
    retriever = BM25Retriever(corpus, backend="bm25s")
    found = retriever.retrieve(query, k)
    scores = [p.score or 0.0 for p in found]
    assert len(found) <= min(k, len(corpus))
    assert all(s > 0 for s in scores)
    assert scores == sorted(scores, reverse=True)
    assert [p.id for p in found] == [p.id for p in retriever.retrieve(query, len(corpus) + 5)][:k]
    words = set(Tokenizer()(query))
    assert all(words & set(Tokenizer()(p.text)) for p in found)


def test_score_is_the_formula() -> None:
    corpus = [Passage("a", "apple apple pear"), Passage("b", "pear plum"), Passage("c", "plum")]
    (found,) = BM25Retriever(corpus, language="none", k1=1.2, b=0.75).retrieve("apple")
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 2.2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 3 / 2))
    assert found.score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Are flat tyres covered?", "Punctures and rust"),
        ("How long am I tied in?", "The minimum term is a year."),
        ("Can I bring it back?", "It may be returned."),
        ("Where is the cash machine?", "There is an ATM in the hall."),
        ("the latest you can get in", "Last admission: 4 pm"),
    ],
)
def test_a_passage_is_found_by_another_name(query: str, text: str) -> None:
    corpus = [Passage("a", "Lamps and chairs"), Passage("b", text), Passage("c", "A last word on admissions")]
    assert BM25Retriever(corpus).retrieve(query)[0].id == "b"
    assert not BM25Retriever(corpus, language="none").retrieve(query.split()[-1])


def test_another_name_counts_less_than_the_one_asked_for() -> None:
    corpus = [Passage("a", "the lift and stairs"), Passage("b", "the elevator and stairs"), Passage("c", "stairs")]
    assert [p.id for p in BM25Retriever(corpus).retrieve("elevator")] == ["b", "a"]


def test_words_side_by_side_count_more() -> None:
    corpus = [Passage("apart", "stone and wood for the bridge"), Passage("together", "wood for the stone bridge")]
    assert BM25Retriever(corpus, phrases=0).retrieve("stone bridge")[0].id == "apart"  # a tie, in order of adding
    assert BM25Retriever(corpus).retrieve("stone bridge")[0].id == "together"


def test_title_is_searched_and_words_are_stemmed() -> None:
    retriever = BM25Retriever(SMALL)
    assert retriever.retrieve("crossings")[0].id == "c"
    assert retriever.retrieve("building bridges")[0].text.startswith(("Mira", "A bridge"))
    assert [p.id for p in retriever.retrieve("MUSEUMS?")] == ["b"]


@pytest.mark.parametrize("query", ["", "  \n", "the of and", "zebra", "?!"])
def test_what_matches_nothing_finds_nothing(query: str) -> None:
    assert BM25Retriever(SMALL).retrieve(query) == []


@pytest.mark.parametrize("backend", ["rank_bm25", "bm25s"])
def test_passages_without_words_do_no_harm(backend: str) -> None:
    retriever = BM25Retriever([Passage("x", ""), Passage("y", "...")], backend=backend)  # type: ignore[arg-type]
    assert retriever.retrieve("anything") == []
    retriever.add([Passage("z", "anything")])
    assert [p.id for p in retriever.retrieve("anything")] == ["z"]


@pytest.mark.parametrize("options", [
    {"k1": 0}, {"k1": math.nan}, {"b": 1.1}, {"phrases": -1}, {"backend": "lucene"}, {"language": "klingon"},
])  # fmt: skip
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        BM25Retriever(**options)


def test_threads_may_search_while_another_adds() -> None:
    retriever = BM25Retriever(SMALL)
    errors: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(60):
                assert retriever.retrieve("bridge")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(60):
        retriever.add([Passage(f"n{i}", f"bridge number {i}")])
    for thread in threads:
        thread.join()
    assert not errors
    assert len(retriever) == 63


@pytest.mark.parametrize(("text", "query"), [
    ("東京タワーは東京都港区にある。", "東京都"), ("北京是中华人民共和国的首都。", "首都"), ("水", "水"),
    ("दिल्ली भारत की राजधानी है।", "भारत राजधानी"), ("القاهرة عاصمة مصر", "عاصمة"),
    ("กรุงเทพเป็นเมืองหลวงของประเทศไทย", "เมืองหลวง"), ("서울은 대한민국의 수도이다", "대한민국"),
    ("Москва — столица России", "столица"), ("Ｆｕｌｌｗｉｄｔｈ letters", "fullwidth"), ("Beyoncé sang", "beyonce"),
    ("The U.S. Army", "US army"), ("It cost $5,500,000.", "5500000"), ("the queen’s speech", "queen"),
])  # fmt: skip
def test_words_of_any_script_are_found(text: str, query: str) -> None:
    corpus = [Passage("other", "Nothing of the kind, 猫, кошка, بيت."), Passage("it", text)]
    assert [p.id for p in BM25Retriever(corpus).retrieve(query)] == ["it"]


def test_stemming_follows_the_language() -> None:
    corpus = [Passage("a", "Die Häuser stehen am Fluss."), Passage("b", "Ein Boot.")]
    assert [p.id for p in BM25Retriever(corpus, language="german").retrieve("Haus")] == ["a"]
    assert BM25Retriever(corpus, language="none").retrieve("Haus") == []


@settings(deadline=None, derandomize=True)
@given(st.text(max_size=60))
def test_tokenizing_takes_any_text(text: str) -> None:
    words = Tokenizer("none")(text)
    assert all(words)
    assert Tokenizer("none")(text.upper().lower()) == Tokenizer("none")(text.upper().lower())


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Who do we play on 9 February 2026?", "Mon 09-Feb-2026"),
        ("Who do we play on February 16?", "2026-02-16"),
        ("When is the shop open on Saturdays?", "SAT"),
    ],
)
def test_days_are_found_as_tables_write_them(question: str, first: str) -> None:
    rows = [
        "Mon 02-Mar-2026; Hull (Home)",
        "Mon 09-Feb-2026; York (Away)",
        "2026-02-16; Leeds (Home)",
        "SAT, SUN: closed",
    ]
    retriever = BM25Retriever(Passage(str(i), row) for i, row in enumerate(rows))
    assert retriever.retrieve(question, k=1)[0].text.startswith(first)
