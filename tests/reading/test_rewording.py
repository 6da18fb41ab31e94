"""Questions in the passages' words: slips are corrected, abbreviations spelt out, names and other words never."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
from shared_core.reading.definitions import term_asked
from shared_core.reading.rewording import ask_default, reword
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage
from tests.reading.asking import read

KNOWN = {
    "should", "something", "which", "spaghetti", "influenza", "stations", "system", "johnson", "analyze", "tomato",
    "pasta", "need", "money", "much", "patch", "send", "branch", "lake", "role", "host", "viral", "infections",
}  # fmt: skip


def _read(question: str, *texts: str) -> str:
    return reword(
        question, [Passage(str(i), text) for i, text in enumerate(texts)], lambda word: 0 if word in KNOWN else None
    )


@pytest.mark.parametrize(
    ("question", "text", "corrected"),
    [
        ("how much spagetti do I need?", "Much is needed:\n- Spaghetti, 400 g", "how much spaghetti do I need?"),
        ("which branch shoud I use", "Use the main branch.", "which branch should I use"),
        ("hand in somthing late.", "Late work is accepted.", "hand in something late."),
        ("can the lake cause infleunza", "The lake can cause influenza.", "can the lake cause influenza"),
        ("can I analyse it", "You can analyze it.", "can I analyze it"),
        (
            "how much does the spagetti dinner cost",
            "Our spaghetti dinners: each costs 9.",
            "how much does the spaghetti dinner cost",
        ),
        ("what hapens if I lose it", "Lost cards are replaced.", "what happens if I lose it"),
        ("is a permit requred", "You need no permit.", "is a permit required"),
        ("can I buy tomatto pasta", "12 TOMATO PASTA 9.00", "can I buy tomato pasta"),
    ],
)
def test_a_slip_is_corrected(question: str, text: str, corrected: str) -> None:
    assert _read(question, text) == corrected


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("what does systemd do", "What does the system do?"),  # another word, not another form
        ("who was jonson", "The man who was here was Johnson."),  # a name
        ("who was jonson", "THE MAN WHO WAS HERE: JOHNSON, BO"),  # a name in capitals
        ("who owns the hapenz shop", "The shop is Bo's."),  # too far away
        ("Who was Spagetti?", "Who was fond of spaghetti?"),  # with a capital
        ("role of statins in host resilience to viral infections", "The stations were closed."),  # about another thing
        ("how much spagetti", "How much spagetti? Spaghetti, spaghetti!"),  # written so in the documents
        ("what is in spagetti.yaml", "What is in the file is spaghetti."),  # a file's name
        ("how much spaghetti", "How much spagetti is there?"),  # a known word
    ],
)
def test_other_words_stay(question: str, text: str) -> None:
    assert _read(question, text) == question


@pytest.mark.parametrize(
    ("question", "texts", "spelt_out"),
    [
        (
            "how big was the DNR grant?",
            ["The Department of Natural Resources gave $4,500."],
            "how big was the DNR (Department of Natural Resources) grant?",
        ),
        (
            "Who leads the board of the homeowners association?",
            ["The homeowners association (“HOA”) has a board.", "The HOA is led by Ms Renn."],
            "Who leads the board of the homeowners association (HOA)?",
        ),
        (
            "Who founded the WHS?",
            ["The World Heritage Site (WHS) is old.", "The World Heritage Site was founded by Renn."],
            "Who founded the WHS (World Heritage Site)?",
        ),
    ],
)
def test_an_abbreviation_and_its_name_are_read_together(question: str, texts: list[str], spelt_out: str) -> None:
    assert _read(question, *texts) == spelt_out


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("how big was the DNR grant?", ["The DNR gave $4,500. The Department of Natural Resources is rich."]),
        ("how big was the DNR grant?", ["Department of Natural Resources", "Dean Nora Renn"]),  # which of them?
        ("how big was the CA grant?", ["Chris Adams gave it."]),  # two letters stand for too much
        ("what does make do?", ["The Department of Natural Resources (DNR) is rich.", "The DNR is poor."]),
        ("the (DNR) grant", ["The Department of Natural Resources gave it."]),  # explained by the question
    ],
)
def test_an_abbreviation_stays_where_nothing_is_gained_or_sure(question: str, texts: list[str]) -> None:
    assert _read(question, *texts) == question


@given(st.text(alphabet="abcdeS (DNR)-.?\n", max_size=60), st.lists(st.text(alphabet="abDNRde \n(.)-", max_size=80)))
def test_any_text_is_read_and_keeps_its_first_letters(question: str, texts: list[str]) -> None:
    reworded = _read(question, *texts)
    assert re.findall(r"\d+", reworded) == re.findall(r"\d+", question)
    assert reworded[:1] == question[:1]


RECIPE = Passage(
    "pasta",
    "For the tomato pasta you need a large pot, and water for the sauce.\n- Spaghetti, 400 g\n- Olive oil, 2 spoons",
)


def test_the_reader_says_how_it_read_a_question() -> None:
    slip, clean = (f"how much {word} do I need for the tomato pasta" for word in ("spagetti", "spaghetti"))
    found = [read(question, RECIPE) for question in (slip, clean)]
    assert [r.read_as for r in found] == [clean, ""]
    assert found[0].readings[0].probability == pytest.approx(found[1].readings[0].probability)


def test_an_answer_says_how_its_question_was_read() -> None:
    answer = SelfReflectEngine(BM25Retriever([RECIPE])).answer("how much spagetti do I need for the tomato pasta")
    assert answer.question == "how much spagetti do I need for the tomato pasta"
    assert answer.metadata["read_as"] == "how much spaghetti do I need for the tomato pasta"
    assert any("read as" in d.reason for d in answer.trace if d.kind == "read")


def test_a_blob_of_letters_is_no_misspelt_word() -> None:
    tracemalloc.start()
    try:
        blob = "x" * 20_000
        assert _read(f"what is {blob}", "It is spaghetti.") == f"what is {blob}"
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("question", "read_as"),
    [
        ("Which port is used when none is given?", "Which port is used by default?"),
        ("Which port is used if nothing has been configured?", "Which port is used by default?"),
        ("How long does it wait, unless I say otherwise?", "How long does it wait by default?"),
        ("Which port is open out of the box?", "Which port is open by default?"),
        ("Which port is used if PORT is not set?", "Which port is used if PORT is not set?"),
        ("What happens if no port is given?", "What happens if no port is given?"),
        ("Who pays if the rent was not paid?", "Who pays if the rent was not paid?"),
    ],
)
def test_a_question_for_a_default_may_call_it_otherwise(question: str, read_as: str) -> None:
    assert _read(question, "The port is 80 by default.") == read_as
    assert _read(question, "The port is 80.") == question


@pytest.mark.parametrize(
    "question", ["What is a {}relay?", "What counts as a {}relay?", "Which port {}is it?", "Which port is it{}?"]
)
def test_work_grows_with_the_length_of_a_question_only(question: str) -> None:
    filled = question.format(" " * 200_000)
    assert term_asked(filled) == term_asked(question.format(""))
    assert ask_default(filled) == filled
