"""Names in questions: those that no passage has, and documents that treat the same of another bearer."""

from __future__ import annotations

import pytest

from shared_core import Passage
from shared_core.reading.names import absent_names, find_others
from tests.reading.asking import chance, quotes

VIEWER = "The Telemetry Viewer app can be used on your Android smartphone to view your telemetry over Bluetooth."


def town(name: str, text: str, file: str = "") -> Passage:
    return Passage(f"{name}#{text[:9]}", text, f"By-laws of the Town of {name}", {"source": file or f"{name}.pdf"})


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What did the Belgian king say?", "The king of Belgium spoke."),
        ("What was the Brittish biopic called?", "It is a British film."),
        ("Who signed it in July 2023?", "It was signed on 2023-07-04."),
        ("How Do I Install The Winch?", "Bolt it to a beam."),
        ("What does SSO cost?", "Single sign-on is free."),
        ("Are my IDs kept?", "Each identifier is kept."),
        ("What is `winch` in English?", "A winch lifts loads."),
    ],
)
def test_names_in_another_form_are_not_absent(question: str, text: str) -> None:
    assert absent_names(question, [text]) == []


def test_an_answer_for_another_name_is_less_likely() -> None:
    asked = "Which {} app can show my telemetry over Bluetooth?"
    assert absent_names(asked.format("iPhone"), [VIEWER]) == ["iPhone"]
    manual = Passage("p", VIEWER, "Bluetooth")
    assert chance(asked.format("iPhone"), manual) < chance(asked.format("Android"), manual) - 0.2


def test_a_text_that_nothing_names_need_not_name_what_it_is_about() -> None:
    """A review, for one."""
    review = "The rooms were clean and the service was quick and friendly."
    asked = "How was the service at the Norfolk?"
    assert absent_names(asked, [review]) == ["Norfolk"]
    assert chance(asked, review) > chance(asked, Passage("p", review, "Hotels of Arle")) + 0.1


def test_the_document_of_another_town_does_not_answer() -> None:
    quorum = "Thirty voters shall constitute a quorum at any Town Meeting."
    other = "The Moderator of the Town Meeting in Montague is elected each year."
    passages = town("Brookfield", quorum), town("Montague", other)
    asked = "How many voters make a quorum at a town meeting in {}?"
    assert quotes(asked.format("Brookfield"), *passages)[0] == quorum
    assert chance(asked.format("Brookfield"), *passages) > 0.5 > chance(asked.format("Montague"), *passages)


@pytest.mark.parametrize(
    "other",
    [
        town("Sund", "The fee in Sund is 5 pounds, and 4 pounds in Arle."),  # has the name asked for
        town("Sund", "The fee is 5 pounds.", "towns/Sund.pdf"),  # of another folder
        town("Sund", "The fee is 5 pounds.", "Sund.html"),  # of another format
        Passage("fees#0", "The fee is 5 pounds, as all fees are.", "Fees", {"source": "fees.pdf"}),  # of no name
        Passage("note", "The fee is 5 pounds.", "Sund"),  # of no file
    ],
)
def test_other_documents_may_answer(other: Passage) -> None:
    arle = town("Arle", "The mayor of Arle is elected.")
    assert find_others("What is the fee in Arle?", [arle, town("Sund", "The fee is 5 pounds."), other]) == {1}


def test_words_that_are_no_names_tell_no_documents_apart() -> None:
    passages = [
        Passage("a", "The cache is filled, and caching pays.", "Caching", {"source": "caching.html"}),
        Passage("b", "A filter changes what is sent. Filters are many.", "Filter", {"source": "filter.html"}),
    ]
    assert find_others("What does caching change?", passages) == set()
