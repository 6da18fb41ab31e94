"""Tentative queries: which words are kept, when to retrieve, and what NaN does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import uncertainty as u
from shared_core.errors import InputError

TOKENS = ["The", " Vel", "mora", " bridge", " was", " built", " by", " Mira", " Dorn", "."]
SURE = [0.99] * len(TOKENS)


def test_words_and_their_tokens() -> None:
    words = u.words_of(["The", " Vel", "mora", " a b", "\n\nx", ""])
    assert [(w.text, w.tokens) for w in words] == [
        ("The", (0,)), ("Velmora", (1, 2)), ("a", (3,)), ("b", (3,)), ("x", (4,)),
    ]  # fmt: skip
    assert u.words_of([]) == ()


@given(st.lists(st.text(alphabet="ab \n.", max_size=4), max_size=8))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_words_spell_the_text(tokens: list[str]) -> None:
    assert [w.text for w in u.words_of(tokens)] == "".join(tokens).split()


def test_uncertain_words_leave_the_query() -> None:
    assert u.seakr_query("Who?", TOKENS, SURE) == "Velmora bridge built Mira Dorn"
    unsure = list(SURE)
    unsure[2] = 0.5  # one token of "Velmora"
    unsure[7] = unsure[8] = 0.3
    assert u.seakr_query("Who?", TOKENS, unsure) == "bridge built"
    assert u.seakr_query("Who was Mira?", TOKENS, unsure) == "bridge built Mira"
    assert u.seakr_query("Who?", TOKENS, unsure, previous_step="It was Dorn.") == "bridge built Dorn"
    assert u.seakr_query("Who?", TOKENS, [math.nan] * len(TOKENS)) == "Who?"
    assert u.seakr_query("Who?", TOKENS, [0.9] * len(TOKENS), max_tokens=3) == "Velmora bridge"
    assert u.seakr_query("Who?", [], []) == "Who?"
    assert u.seakr_query("Who?", ["It", " is", " the"], [1, 1, 1]) == "Who?"


def test_published_defect_only_the_last_sentence() -> None:
    tokens = ["Orm", " has", " rivers", ".", " Thale", " is", " long", "."]
    assert u.seakr_query("Which?", tokens, [1.0] * 8) == "Orm rivers. Thale long"


@pytest.mark.parametrize(("tokens", "query"), [
    (["It", " is", " C", "++", "."], "C++"), (["He", " wrote", " C", "#", "!"], "wrote C#"), (["$", "5", "."], "$5"),
    (["-", "5", " degrees", ","], "-5 degrees"), (['"Orm', '"', "."], "Orm"), ([" (Orm", ")."], "Orm"),
])  # fmt: skip
def test_marks_of_a_sentence_are_left_out_and_those_of_a_word_stay(tokens: list[str], query: str) -> None:
    assert u.seakr_query("?", tokens, [1.0] * len(tokens)) == query


def test_known_words_are_whole_words_unless_published() -> None:
    words = u.words_of(["art", " cap"])
    assert u.certain_words(words, [0.1, 0.1], known=["party capital"]) == ()
    assert len(u.certain_words(words, [0.1, 0.1], known=["party capital"], published=True)) == 2
    assert len(u.certain_words(words, [0.1, 0.1], known=["Art, cap!"])) == 2


def test_content_words() -> None:
    assert not any(map(u.is_content_word, ["the", "The", "of", "—", "who's", "Who’s", ""]))
    assert all(map(u.is_content_word, ["river", "WHO", "US", "May", "1841", "Ärzte", "X"]))


@pytest.mark.parametrize(("p", "triggered"), [([0.9, 0.81], False), ([0.9, 0.8], True), ([], True), ([math.nan], True)])
def test_flare_trigger(p: list[float], triggered: bool) -> None:
    assert u.flare_triggered(p) is triggered


def test_masked_query() -> None:
    p = [0.9, 0.2, 0.9, 0.9, math.nan, 0.9, 0.9, 0.9, 0.9, 0.9]
    assert u.masked_query(TOKENS, p) == "The mora bridge built by Mira Dorn."
    assert u.masked_query(TOKENS, [0.1] * 10) == ""


def test_dragin_query_and_trigger() -> None:
    words = ["The", "river", "Thale", "rises", "in", "Orm."]
    assert u.dragin_query(words, [0.9, 0.1, 0.5, 0.05, 0.9, 0.3], limit=3) == "river Thale Orm"
    assert u.dragin_query(words, [math.nan] * 6) == ""
    trigger = u.dragin_trigger([1, 1, 1, 3], [0, 0, 1, 2], [2, 2], threshold=1.0)
    assert trigger is not None
    assert (trigger.sentence, trigger.word) == (1, 1)
    assert u.dragin_trigger([1, 1], [0.1, 0.1], [2], threshold=1.0) is None
    unknown = u.dragin_trigger([1, math.nan], [0.1, 0.1], [2], threshold=1.0)
    assert unknown is not None
    assert unknown.word == 0


def test_refusals() -> None:
    for call in (
        lambda: u.seakr_query("q", ["a"], []),
        lambda: u.masked_query(["a"], [0.1, 0.2]),
        lambda: u.masked_query(["a"], [-0.5]),
        lambda: u.certain_words(u.words_of(["a", " b"]), [0.5]),
        lambda: u.dragin_query(["a"], []),
        lambda: u.dragin_trigger([1], [1], [2], 1.0),
        lambda: u.word_attention(np.ones((2, 3, 4)), []),
    ):
        with pytest.raises(InputError):
            call()


def test_reasoning_between_rationales_and_knowledge() -> None:
    assert u.rationale_uncertainty([-5.25, -5.38, -3.56]) == pytest.approx(-4.73, abs=0.005)  # paper, Table 9
    assert u.rationale_uncertainty([]) == u.rationale_uncertainty([-5.0, math.nan]) == math.inf
    assert u.choose_answer("A", -6.0, "B", -5.0) == ("A", "rationales")
    assert u.choose_answer("A", -4.0, "B", -4.0) == ("B", "knowledge")
    for known in (5.0, math.inf):
        assert u.choose_answer("A", math.nan, "B", known) == ("B", "knowledge")
    assert u.choose_answer("A", 1.0, "  ", -9.0) == ("A", "rationales")


@pytest.mark.parametrize("said", ["unknown", "The context does not say.", "not stated", "I cannot answer that."])
@pytest.mark.parametrize("answer", ["1911", "no", "Yes"])
def test_an_answer_that_declines_loses_however_sure_it_is(said: str, answer: str) -> None:
    assert u.choose_answer(said, -9.0, answer, 1.0) == (answer, "knowledge")
    assert u.choose_answer(answer, 1.0, said, -9.0) == (answer, "rationales")


def test_words_left_out_by_name() -> None:
    tokens = ["Thus", " the", " answer", " is", " Orm", "."]
    assert u.seakr_query("Q?", tokens, [1.0] * 6) == "answer Orm"
    assert u.seakr_query("Q?", tokens, [1.0] * 6, ignored={"thus", "answer", "is", "so"}) == "Orm"
    assert u.answer_lead("It is so. So the answer is: Orm.") == (10, 28)
    assert u.answer_lead("It is Orm.") is None
