"""Answers below headings that ask the same question."""

from __future__ import annotations

import pytest

from shared_core import Passage, SelfReflectEngine
from shared_core.reading.faq import asks_same, find_faq
from shared_core.retrieval import HybridRetriever
from tests.reading.asking import first, read

LOOM = "Looms > Questions > "


def page(name: str, heading: str, body: str, section: str = "", title: str = "Looms") -> Passage:
    return Passage(name, f"## {heading}\n\n{body}", title, {"section": section or LOOM + heading, "source": "looms.md"})


PASSAGES = [
    page(
        "restart",
        "Can I delete the pattern and weave again?",
        "Deleting a pattern seldom helps. The threads keep their places, and so does the fault.\n\n"
        "There are two exceptions:\n\n* You have never oiled the loom.\n* You are content to lose the rug.",
    ),
    page("who", "Who is involved in weaving a rug?", "Three people are:\n\n- the weaver\n- the dyer\n- the shearer"),
    page("speed", "How fast is the loom?", "The loom does 40 rows an hour. With two weavers it does 70."),
    page(
        "oil",
        "…oil the loom?",
        "Some suggestions:\n\n```shell\n# All joints\noil --all\n# One joint\noil --joint 3\n```",
        "Looms > How do I... > …oil the loom?",
    ),
    page("limit", "How do I raise the thread limit to get wide rugs to work?", "Turn the brass screw by one notch."),
    page("refers", "How do I sell a rug?", "See [Selling](selling.md)."),
    page("next", "How do I dye wool?", "## How do I dye silk?\n\nHeat it with onion skins for an hour."),
    Passage(
        "plain", "Q: Do you repair shuttles?\nA: Yes, on Fridays. Bring the bobbin too.\n\nQ: Do you sell wool?\n\nNo."
    ),
]


def test_the_paragraph_below_the_same_question_is_quoted_whole() -> None:
    text, sure = first("Can I delete the pattern and weave again?", *PASSAGES)
    assert text == "Deleting a pattern seldom helps. The threads keep their places, and so does the fault."
    assert sure > 0.8


def test_a_list_comes_with_the_line_that_leads_it_in_or_alone() -> None:
    assert first("Who is involved in weaving rugs?", *PASSAGES)[0].endswith("- the weaver\n- the dyer\n- the shearer")


def test_code_comes_whole_and_a_heading_may_go_on_from_the_one_above() -> None:
    text, _ = first("How do I oil the loom?", *PASSAGES)
    assert text == "# All joints\noil --all\n# One joint\noil --joint 3"


def test_a_heading_may_add_what_for() -> None:
    assert first("How do I raise the thread limit?", *PASSAGES)[0] == "Turn the brass screw by one notch."


def test_questions_and_answers_without_headings() -> None:
    assert first("Do you repair shuttles?", *PASSAGES)[0] == "A: Yes, on Fridays. Bring the bobbin too."


@pytest.mark.parametrize(
    "question",
    [
        "When can I delete the pattern and weave again?",
        "Can I delete the rug and weave again?",
        "Can I not delete the pattern and weave again?",
        "How many looms are there?",
        "How slow is the loom?",
        "How do I dye wool?",  # the next heading comes at once
    ],
)
def test_another_question_is_not_the_same(question: str) -> None:
    assert find_faq(question, PASSAGES) == {}


def test_what_only_refers_elsewhere_is_no_surer() -> None:
    assert first("How do I sell a rug?", *PASSAGES)[1] < 0.5


def test_long_paragraphs_are_cut_behind_a_sentence() -> None:
    body = "The beam is made of oak. " + "It bears the weight of every rug that was ever woven on it. " * 20
    text, _ = first("What is the beam made of?", page("beam", "What is the beam made of?", body))
    assert text.startswith("The beam is made of oak.")
    assert text.endswith(".")
    assert len(text) <= 700


def test_verbs_of_one_act_are_the_same() -> None:
    assert find_faq("Can I remove the pattern and weave again?", PASSAGES).keys() == {0}
    assert asks_same("How do I switch off the loom?", "How do I turn off the loom?")
    assert not asks_same("How do I switch off the loom?", "How do I turn on the loom?")


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("Can I cancel before the trial ends?", "Can I cancel after the trial ends?"),
        ("How do I migrate from MySQL to Postgres?", "How do I migrate from Postgres to MySQL?"),
        ("Can Ann pay Bo?", "Can Bo pay Ann?"),
        ("How do I export to CSV?", "How do I export from CSV?"),
        ("Is it over the limit?", "Is it under the limit?"),
        ("Who hired Ann?", "Who did Ann hire?"),
        ("Do most users pay?", "Do users pay?"),
    ],
)
def test_the_same_words_in_other_relations_are_another_question(question: str, heading: str) -> None:
    assert not asks_same(question, heading)
    assert not asks_same(heading, question)
    assert asks_same(question, question)


def test_an_abbreviation_beside_its_meaning_changes_nothing() -> None:
    assert asks_same("Who wrote the RDF (rug data format)?", "Who wrote the rug data format?")
    assert asks_same("Who wrote the rug data format (RDF)?", "Who wrote the rug data format?")


def test_no_rest_of_a_paragraph_is_searched_for() -> None:
    result = read("How fast is the loom?", PASSAGES[2])
    assert result.readings[0].quote.text == "The loom does 40 rows an hour. With two weavers it does 70."
    assert (result.rest, result.parts) == ("", 1)


def test_the_engine_shows_it() -> None:
    answer = SelfReflectEngine(HybridRetriever(PASSAGES)).answer("Can I delete the pattern and weave again?")
    assert answer.kept_claims[0].text.startswith("Deleting a pattern seldom helps.")
