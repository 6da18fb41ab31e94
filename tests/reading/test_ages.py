"""Prices and rules for ages: a question's age chooses among them."""

from __future__ import annotations

import pytest

from shared_core.reading.ages import age_asked, charges_for_age, decides_for_age, is_for_others
from shared_core.reading.bands import find_for_age
from shared_core.reading.values import any_another, lack_number, values_of
from shared_core.types import Passage
from tests.reading.asking import chance, quotes


@pytest.mark.parametrize(
    ("question", "age"),
    [
        ("What does my 10 year old pay?", 10),
        ("Is it free for my two-year-old?", 2),
        ("May I join at age 70?", 70),
        ("May a ſix-year-old join?", 6),
        ("Can a 13 yr old come alone?", 13),
        ("I'm 70, how often do I take it?", 70),
        ("What do I pay if I am 16?", 16),
        ("My son is four, may he swim?", 4),
        ("She's 12 and can swim, so may she row?", 12),
        ("My gran turns 80, is it free?", 80),
        ("Can I retire at 60?", 60),
        ("I'm 5 feet tall, may I ride?", None),
        ("I'm 70% sure, is it free?", None),
        ("My boy's 4 toys are lost, where are they?", None),
        ("She is 2 weeks late, what now?", None),
        ("He is 5 and a half feet tall, may he ride?", None),
        ("I'm 21st in line, when do I get in?", None),
        ("Can a 13 year old come with a 5 year old?", None),
        ("How old must I be?", None),
        ("What happened 10 years ago?", None),
    ],
)
def test_the_age_of_a_question(question: str, age: int | None) -> None:
    assert age_asked(question) == age
    assert not [v for v in values_of(question) if age is not None and v.number]


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("Adults (18+): £8", True),
        ("Children (5-17): £4", False),
        ("Children under 5 are free", True),
        ("Children up to 12 years: £3", False),
        ("Kids 10 and under: £2", False),
        ("Seniors 65 and over: £5", True),
        ("Youths over 10: £6", False),
        ("Children from 12 to 15: £6", True),
        ("Adults and children from 12 years: two sprays", True),
        ("Children from the age of 8: £6", False),
        ("The children's hut dates from 12 years ago.", False),
        ("Children 3--9 years: £1", True),
        ("The children's farm is open 9-5.", True),  # hours are taken for ages only beside words for them
        ("Open 9am-5pm for all ages.", False),
        ("Parking is £4.", False),
    ],
)
def test_what_is_for_other_ages(text: str, others: bool) -> None:
    assert is_for_others("What does my 10 year old pay?", text) is others


PRICES = Passage("p", "# Prices\n\n- Adults (16+): £9\n- Children (4–15): £5\n- Under 4s: free\n", "Farm park")


@pytest.mark.parametrize(("age", "price"), [("2 year old", "free"), ("ten-year-old", "£5"), ("17 year old", "£9")])
def test_a_price_for_the_age_asked_about_comes_first(age: str, price: str) -> None:
    assert price in quotes(f"How much does a {age} pay at the farm park?", PRICES)[0]


TICKETS = Passage(
    "t",
    "Ticket: Adult; Ferry: £9; Ferry and fort: £14\nTicket: Senior (over 60); Ferry: £7; Ferry and fort: £11\n"
    "Ticket: Child 4–15; Ferry: £5; Ferry and fort: £7\nTicket: Under 4; Ferry: Free; Ferry and fort: £1",
    "Ferry tickets",
)
DOSES = Passage(
    "d", "Adults and children over 10: two capsules a day.\nAdults over 75: one capsule every other day.", "Capsules"
)


@pytest.mark.parametrize(
    ("question", "passage", "line"),
    [
        ("How much is the ferry for a 9 year old?", TICKETS, "Ticket: Child 4–15"),
        ("How much for a 3 year old without the fort?", TICKETS, "Ticket: Under 4"),
        ("I'm 64, what do I pay for the ferry?", TICKETS, "Ticket: Senior (over 60)"),
        ("I'm 80, how many capsules do I take?", DOSES, "Adults over 75"),
        ("My son is 12, how many capsules does he need?", DOSES, "Adults and children over 10"),
    ],
)
def test_the_line_for_the_narrowest_range_is_chosen(question: str, passage: Passage, line: str) -> None:
    assert quotes(question, passage)[0].startswith(line)
    assert chance(question, passage) > 0.5


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("How much is the ferry for a 30 year old?", TICKETS),  # no range has it
        ("How much is the ferry?", TICKETS),
        ("Can my 9 year old take the ferry?", TICKETS),
        ("How deep is the harbour for a 9 year old boat?", TICKETS),
        ("My son is 10, what is the refund?", Passage("d", "1–7 days: none\n8–14 days: half\nAdults: all", "Refund")),
        ("My son is 10, what does the refund cost?", Passage("d", "1–7: none\n8–14: half", "Refund")),
        ("I'm 80, how many capsules do I take?", Passage("d", "Over 75: one\nOver 75: two", "Capsules")),
    ],
)
def test_no_line_is_chosen_by_age(question: str, passage: Passage) -> None:
    assert find_for_age(question, [passage]) is None


@pytest.mark.parametrize(
    ("question", "text", "decides"),
    [
        ("May my 10-year-old take it?", "Children under 12 must not take these tablets.", True),
        ("Can my 12-year-old son join the night swim?", "Night swim (over 16s only)", True),
        ("Is a 17-year-old allowed to use the sauna?", "Only adults (18+) may use the sauna.", True),
        ("Is the pool free for my two-year-old?", "The pool is free for children under 5", True),
        ("Is the pool free for my two-year-old?", "The pool is free for seniors 65 and over", False),
        ("Can my 3-year-old try the climbing wall?", "The climbing wall is for children from 6 to 14.", True),
        ("Is the slide safe for a 2 year old?", "The slide is suitable for ages 5 to 10.", True),
        ("Can my 12-year-old join the raffle?", "Night swim (over 16s only)", False),
        ("What does my 10-year-old pay to swim?", "Night swim (over 16s only)", False),
        ("Can my son join the night swim?", "Night swim (over 16s only)", False),
        ("Can my 12-year-old join the night swim?", "The night swim begins at ten.", False),
    ],
)
def test_a_rule_for_ages_decides_whether_an_age_may(question: str, text: str, decides: bool) -> None:
    assert decides_for_age(question, text) is decides


def test_the_rule_for_ages_is_quoted_though_it_excludes_the_age() -> None:
    programme = Passage("p", "18:00 Raffle\n20:00 Night swim (over 16s only)\n21:00 Folk songs", "Harbour day")
    asked = "Can my 12-year-old take part in the night swim?"
    assert quotes(asked, programme)[0] == "20:00 Night swim (over 16s only)"
    assert chance(asked, programme) > 0.5


@pytest.mark.parametrize(
    ("question", "text", "charges"),
    [
        ("Do we need to buy a zoo ticket for our two year old?", "Children under 3 enter free", True),
        ("Is the zoo free for my 70-year-old?", "Seniors (65+): £4", True),
        ("Is the zoo free for my 10-year-old?", "Children under 3 enter free", False),
        ("Is the museum free for my 2-year-old?", "Children under 3 enter free", False),
        ("Is the zoo fun for my 2-year-old?", "Children under 3 enter free", False),
        ("Is the zoo free for my 2-year-old?", "Children under 3 may pet the goats", False),
        ("How much for a 10 year old?", "Ticket: Child 5–15; Zoo: £4.50", True),
        ("What does a 12-year-old pay at the zoo?", "Ticket: Child 5–15; Zoo: £4.50", True),
        ("How much for a 17 year old?", "Ticket: Child 5–15; Zoo: £4.50", False),
        ("How much does a 10 year old camel cost?", "Ticket: Child 5–15; Zoo: £4.50", False),
        ("How much can a 10 year old learn?", "Ticket: Child 5–15; Zoo: £4.50", False),
    ],
)
def test_what_people_of_an_age_pay(question: str, text: str, charges: bool) -> None:
    assert charges_for_age(question, text, "Ostrand Zoo, fees") is charges


@pytest.mark.parametrize(
    ("question", "age"),
    [
        ("Who won the under 15s trophy?", 15),
        ("When do the Under 9's practise?", 9),
        ("When does the under-11 squad row?", 11),
        ("Who keeps goal for the U13s?", 13),
        ("12U softball times", 12),
        ("Is there an under 7s side?", 7),
        ("Can under 15s swim alone?", None),
        ("How much do under 12s pay?", None),
        ("Must my under 5s be strapped in?", None),
        ("Who finished in under 15s?", None),
        ("What takes under 10 minutes?", None),
        ("Are the U9s or the U10s first?", None),
    ],
)
def test_the_group_of_a_question_is_no_limit_of_age(question: str, age: int | None) -> None:
    assert next((v.group for v in values_of(question) if v.group), None) == age


@pytest.mark.parametrize(
    ("question", "text", "above", "other"),
    [
        ("Who won the under 15s trophy?", "Under 16's – winners: Saltby Rovers", "", True),
        ("Who won the U15 trophy?", "U16s: Saltby Rovers", "", True),
        ("Who won the under 13's trophy?", "Under 14's: Saltby Rovers", "Trophies", True),
        ("Where do the U13s blue play?", "Home games are at Mill Lane.", "Pitches\nU12s Blue", True),
        ("Where do the under 13s play?", "Home games are at Mill Lane.", "Pitches\nUnder 12s > Blue", True),
        ("Who won the under-15s trophy?", "U15: Saltby Rovers", "", False),
        ("Where do the under 13s play?", "Home games are at Mill Lane.", "Pitches\nU13s", False),
        ("Where do the under 13s play?", "Home games are at Mill Lane.", "Pitches\nU11s to U14s", False),
        ("How long do the under 14s play?", "Under 13 and Under 14: 35 minutes each way", "", False),
        ("Who won the U14 trophy?", "13s and 14's: Saltby Rovers", "", False),
        ("What may under 15s bring?", "Under 16s bring a lunch.", "", False),
        ("When do the under 15s row?", "Children under 16 row on Sundays at 10.", "", False),
        ("When do the under 15s row?", "Under 16s must wear a life jacket.", "", False),
    ],
)
def test_a_team_of_another_age_is_another(question: str, text: str, above: str, other: bool) -> None:
    assert any_another([v for v in values_of(question) if v.group], text, above) == other


def test_the_winner_of_the_group_asked_for_is_quoted_and_no_other() -> None:
    finals = "The Under 14's final was won by Saltby Rovers.\n\nThe Under 16's final was won by Marsh End Albion."
    assert chance("Who won the under 15s final?", Passage("p", finals, "Finals day")) < 0.5
    assert quotes("Who won the U16 final?", Passage("p", finals, "Finals day"))[0].startswith("The Under 16")
    assert chance("Who won the U16 final?", Passage("p", finals, "Finals day")) > 0.5


def test_the_passage_of_the_group_asked_for_comes_first() -> None:
    values = values_of("How long do the under 14s play?")
    assert lack_number(values, ["Under 12: 30", "Halves must be equal. Under 13 and Under 14: 35", "A half"]) == {0, 2}
