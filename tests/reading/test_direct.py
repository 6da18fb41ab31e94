"""Sentences that answer by their form: the hours of a day, an office and its holder."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.reading.days import find_hours
from shared_core.reading.direct import answers_by_form
from shared_core.reading.values import lack_number, values_of
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage
from tests.reading.asking import chance, quotes

LIBRARY = Passage(
    "p",
    "## Operating hours\n\n- Monday - Thursday: 9:00 AM - 8:00 PM\n- Friday & Saturday: 9 AM – 6 PM\n- Sunday: closed",
    "Town library",
    {"source": "rules/hours.md", "section": "Operating hours"},
)
PEOPLE = Passage("p", "County Councillor\tKen Crofton\nDistrict Councillor\tLinda Haysey\nMayor\tvacant", "Who we are")


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("What are the library's opening hours on Sunday?", "- Sunday: closed"),
        ("When does the library open on Saturday?", "- Friday & Saturday: 9 AM – 6 PM"),
        ("Until when is the town library open on Tuesday?", "- Monday - Thursday: 9:00 AM - 8:00 PM"),
    ],
)
def test_the_hours_of_the_day_asked_for_are_sure(question: str, line: str) -> None:
    assert answers_by_form(question, line, LIBRARY)
    assert quotes(question, LIBRARY)[0] == line
    assert chance(question, LIBRARY) > 0.5


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("When does the pool open on Sunday?", "- Sunday: closed"),
        ("When does the library open on Monday?", "- Sunday: closed"),
        ("Who works in the library on Sunday?", "- Sunday: closed"),
        ("When does the library open on Sunday?", "On Sunday there is a talk at 9 AM."),
    ],
)
def test_other_hours_are_not(question: str, line: str) -> None:
    assert not answers_by_form(question, line, LIBRARY)


ZOO = Passage(
    "z", "The zoo is open daily except Tuesday. The reptile house is open Wednesday to Sunday.", "Bramley Zoo"
)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Is the zoo open on Tuesdays?", 0),
        ("Is the zoo open on a Monday?", 0),
        ("Are you open on Sundays?", 0),
        ("Is the reptile house open on Mondays?", 1),
        ("Does the reptile house open on Mondays?", 1),
    ],
)
def test_days_on_which_it_is_open_say_whether_it_is_on_another(question: str, sentence: int) -> None:
    lines = [line.strip(".") + "." for line in ZOO.text.split(". ")]
    assert [answers_by_form(question, line, ZOO) for line in lines] == [sentence == 0, sentence == 1]


def test_whether_it_is_open_on_a_day_is_answered_by_the_others() -> None:
    hall = Passage("h", "The hall is open Tuesday to Sunday from 10 to 5. Talks are free.", "Opening")
    assert quotes("Is the hall open on Mondays?", hall)[0] == "The hall is open Tuesday to Sunday from 10 to 5."
    assert chance("Is the hall open on Mondays?", hall) > 0.5
    assert chance("Is the pool open on Mondays?", hall) < 0.5
    told = Passage("t", f"{hall.text} On Mondays it opens for schools.", "Opening")
    assert not answers_by_form("Is the hall open on Mondays?", hall.text[:48], told)


def test_the_closed_day_is_read_though_its_lines_say_nothing_else() -> None:
    hours = Passage(
        "h",
        "Phone: 555 0142\n\nHours:\nMON - FRI: 11:00 AM - 8:00 PM\nSAT, SUN: CLOSED\n\nAddress: 3 Mill Road",
        "Location",
        {"source": "annas-tarts/location.md"},
    )
    others = [
        Passage(f"o{i}", f"{day} was busy at the market, where we sold plum cakes until noon.", "News")
        for i, day in enumerate(("Saturday", "Sunday", "Monday", "Friday", "Thursday", "Easter"))
    ]
    assert quotes("Is Anna's Tarts open on Saturdays?", *others, hours)[0] == "SAT, SUN: CLOSED"
    assert find_hours("Is Anna's Tarts open on Saturdays?", [*others, hours]) == {6}
    settings = SelfReflectSettings(top_k=1)  # its passage is kept though others have more of the question
    answer = SelfReflectEngine(BM25Retriever([*others, hours]), settings=settings).answer(
        "Is Anna's Tarts open on Saturdays?"
    )
    assert [p.id for p in answer.passages] == ["h"]
    assert answer.text.startswith("SAT, SUN: CLOSED")


def test_a_name_heads_what_is_asked_only_with_the_office() -> None:
    text = "## Anna Smith\n\nRole: Treasurer\n\nAnna repairs the boats and looks after the lamps."
    person = Passage("p", text, "Boat club", {"section": "Anna Smith"})
    assert quotes("Who is the treasurer?", person)[0] == "## Anna Smith"
    assert "## Anna Smith" not in quotes("Who is the coach?", person)


def test_the_holder_of_an_office_is_sure() -> None:
    assert quotes("Who is our county councillor?", PEOPLE)[0] == "County Councillor\tKen Crofton"
    assert chance("Who is our county councillor?", PEOPLE) > 0.7
    assert not answers_by_form("Who is the mayor?", "Mayor\tvacant", PEOPLE)
    assert not answers_by_form("Who is the deputy county councillor?", "County Councillor\tKen Crofton", PEOPLE)


def test_a_cell_yet_to_be_decided_is_no_answer() -> None:
    rows = "Session: 1; Dates: 4 July; Fee: 40\nSession: 2; Dates: TBD; Fee: 40"
    assert chance("On which dates is session 2?", rows) < chance("On which dates is session 1?", rows)
    assert chance("On which dates is session 2?", rows) < 0.5


def test_passages_without_the_number_asked_for_come_later() -> None:
    texts = ["There is no formal meeting time.", "- Monday, July 11, at 8 am Report 7", "We met on 7 May."]
    assert lack_number(values_of("When is report 7 due?"), texts) == {0, 2}
    assert lack_number(values_of("When is report 9 due?"), texts) == set()
