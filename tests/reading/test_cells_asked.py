"""Questions for a cell of a table: sure where its row and its column have every word of them, and only there."""

from __future__ import annotations

import pytest

from shared_core.types import Passage
from tests.reading.asking import chance, quotes, read

LAMPS = (
    "Lamp: Norrhaven; Range in miles: 14; Oil 2011: 1,140; Oil 2012: 1,210; Keeper: Ida Holm\n"
    "Lamp: Ostrand; Range in miles: 9; Oil 2011: 620; Oil 2012: 640; Keeper: Jon Falk\n"
    "Lamp: Saltmere; Range in miles: 11; Oil 2011: 505; Oil 2012: –; Keeper: Ann Berg"
)
RATIOS = Passage(
    "p",
    "Austria; 1996: 59; 1993: 54\nGermany; 1996: 45; 1993: 45\nSpain; 1996: 32; 1993: 22",
    "Retailing",
    {"section": "Table 7.4: Five firm national concentration ratios (%)"},
)


@pytest.mark.parametrize(
    ("passage", "question", "row"),
    [
        (LAMPS, "What is the range in miles of Ostrand?", "Lamp: Ostrand;"),
        (LAMPS, "What was Norrhaven's oil 2012?", "Lamp: Norrhaven;"),
        (LAMPS, "keeper of Saltmere", "Lamp: Saltmere;"),
        (LAMPS, "Who was the keeper of Ostrand?", "Lamp: Ostrand;"),
        (LAMPS, "How many miles is the range of Ostrand?", "Lamp: Ostrand;"),
        (RATIOS, "What was the five firm concentration ratio of Germany in 1996?", "Germany;"),
        (RATIOS, "What is the concentration ratio for Spain in 1993?", "Spain;"),
    ],
)
def test_a_cell_that_a_question_names_is_sure(passage: Passage | str, question: str, row: str) -> None:
    assert quotes(question, passage)[0].startswith(row)
    assert chance(question, passage) > 0.7


@pytest.mark.parametrize(
    ("passage", "question"),
    [
        (LAMPS, "What is the range in miles of Kelp Point?"),  # no such row
        (LAMPS, "What was Norrhaven's oil 2015?"),  # no such column
        (LAMPS, "What was the oil 2012 of Saltmere?"),  # an empty cell
        (LAMPS, "What is the price of oil 2012 at Norrhaven?"),  # something else of it
        (RATIOS, "What was the five firm concentration ratio of Norway in 1996?"),
        (RATIOS, "What was the three firm concentration ratio of Germany in 1996?"),
        (RATIOS, "What was the five firm concentration ratio of Germany in 1999?"),
    ],
)
def test_a_question_with_a_word_that_is_not_in_the_table_is_not(passage: Passage | str, question: str) -> None:
    assert chance(question, passage) < 0.5


@pytest.mark.parametrize("question", ["Which lamp has more oil 2012 than Ostrand?", "Which keeper is not at Ostrand?"])
def test_a_comparison_does_not_ask_for_the_cell_it_names(question: str) -> None:
    plain = "Which keeper is at Ostrand?"
    assert chance(question, LAMPS) < chance(plain, LAMPS)


def test_a_cell_of_another_kind_than_asked_is_not_sure() -> None:
    built = "Lamp: Norrhaven; Built: 1804; Keeper: Ida Holm\nLamp: Ostrand; Built: 1811; Keeper: Jon Falk"
    assert chance("Who built Norrhaven?", built) < chance("When was Norrhaven built?", built)


def test_a_name_with_a_hyphen_chooses_its_row() -> None:
    hosts = (
        "Host: lamp-b.vessen.org; Engine: Arle 7742 64-Core Engine\n"
        "Host: lamp-ai.vessen.org; Engine: Holm Platinum 8358"
    )
    assert [quotes(f"what engine is in {name}?", hosts)[0].split(".")[0] for name in ("lamp-ai", "lamp-b")] == [
        "Host: lamp-ai", "Host: lamp-b",
    ]  # fmt: skip


@pytest.mark.parametrize("grade", ["A", "a", "must", "the"])
def test_a_cell_that_looks_like_the_beginning_of_something_is_an_answer(grade: str) -> None:
    rows = f"Lamp: Norrhaven; Grade: none\nLamp: Ostrand; Grade: {grade}"
    assert quotes("What is the grade of Ostrand?", rows)[0] == f"Lamp: Ostrand; Grade: {grade}"


PLANS = (
    "Feature: Price per month; Basic: €4; Pro: €9; Team: €15 per user\n"
    "Feature: Maximum file size; Basic: 2 GB; Pro: 10 GB; Team: 50 GB\n"
    "Feature: Single sign-on; Basic: no; Pro: no; Team: yes"
)


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("What is the maximum file size in Pro?", "10 GB"),
        ("What is the maximum file size in the team plan?", "50 GB"),
        ("How much is the Team plan per month?", "€15 per user"),
        ("Which plan has single sign-on?", "Team"),
        ("Does the Pro plan have single sign-on?", "no"),
    ],
)
def test_the_short_answer_is_in_the_column_asked_for(question: str, short: str | None) -> None:
    first = read(question, PLANS).readings[0]
    assert (first.short_answer.text if first.short_answer else None) == short


def test_a_heading_tells_rows_that_begin_alike_apart() -> None:
    rows = "{}\nDay: Monday; Opens: {}\nDay: Tuesday; Opens: {}"
    pool = Passage("1", rows.format("Pool", "9:00", "9:30"), "Centre", {"source": "a", "section": "Hours > Pool"})
    gym = Passage("2", rows.format("Gym", "8:15", "7:45"), "Centre", {"source": "a", "section": "Hours > Gym"})
    assert quotes("When does the gym open on Monday?", pool, gym)[0] == "Day: Monday; Opens: 8:15"
    assert quotes("When does the pool open on Monday?", pool, gym)[0] == "Day: Monday; Opens: 9:00"


def test_tables_of_sibling_sections_that_share_one_column_are_two() -> None:
    texts = {
        "Hours": "Month: May; Pool: 9–12, not on 14 May; Sauna: 10–12\nMonth: June; Pool: 8–20; Sauna: 10–20",
        "Tickets": "Ticket: Child; Pool: £3; Locker: £1\nTicket: Adult; Pool: £6; Locker: £1",
    }
    pool = [Passage(name, text, "Pool", {"source": "pool.html", "section": name}) for name, text in texts.items()]
    assert any(quote.startswith("Ticket: Adult") for quote in quotes("How much is the pool on 14 May?", *pool))
    assert not any(quote.startswith("Ticket: Adult") for quote in quotes("How much is the pool for a child?", *pool))


def test_of_lines_with_times_the_one_with_the_event_counts() -> None:
    text = (
        "# Timetable\n\n## Monday\n\n- 11:30–13:00 — Arrival and registration\n- 13:00–13:30 — Opening remarks\n"
        "- 13:30–15:00 — Lecture 1: Human and machine vision\n- 15:00–15:30 — Coffee break\n"
    )
    passage = Passage("p", text, "Summer school", {"section": "Timetable > Monday"})
    assert "Opening remarks" in quotes("When are the opening remarks on Monday?", passage)[0]
    assert "Coffee" in quotes("When is the coffee break?", passage)[0]


def test_the_name_of_the_place_tells_no_dishes_apart() -> None:
    text = "\xa0\xa0T1. Plum tart $14.50\n\xa0\xa0T2. Ham tart $15.50\n\xa0\xa0T7. Anna's Special $17.50"
    passage = Passage("m", text, "Menu", {"source": "annas-tart/menu.md", "section": "Tarts"})
    assert quotes("How much is the plum tart at Anna's Tart Express?", passage)[0].strip() == "T1. Plum tart $14.50"
    assert quotes("How much is Anna's Special?", passage)[0].strip() == "T7. Anna's Special $17.50"


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("How much is the steak and ale pie?", "- Steak and ale pie £14.75"),
        ("What is the price of the soup?", "- Soup of the day with bread £5.50"),
        ("How much is the lemon tart?", "- Lemon tart £6.50"),
    ],
)
def test_of_lines_with_prices_the_one_with_the_dish_counts(question: str, line: str) -> None:
    starters = (
        "# The Copper Kettle\n\n## Starters\n\n- Soup of the day with bread £5.50\n- Garlic mushrooms (v) £6.25\n"
    )
    mains = "## Mains\n\n- Fish and chips £13.95\n- Mushroom risotto (v) £12.50\n- Steak and ale pie £14.75\n"
    desserts = "## Desserts\n\n- Sticky toffee pudding £6.00\n- Lemon tart £6.50\n"
    passages = [
        Passage(
            str(i), text, "The Copper Kettle", {"source": "menu.md", "section": text.split("## ")[1].split("\n")[0]}
        )
        for i, text in enumerate((starters, mains, desserts))
    ]
    assert quotes(question, *passages)[0] == line
