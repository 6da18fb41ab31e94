"""Prices and rules for ages: a question's age chooses among them."""

from __future__ import annotations

import pytest

from shared_core.reading.ages import age_asked, charges_for_age, decides_for_age, is_for_others
from shared_core.reading.values import values_of
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


@pytest.mark.parametrize(
    ("question", "text", "decides"),
    [
        ("May my 10-year-old take it?", "Children under 12 must not take these tablets.", True),
        ("Can my 12-year-old son join the night swim?", "Night swim (over 16s only)", True),
        ("Is a 17-year-old allowed to use the sauna?", "Only adults (18+) may use the sauna.", True),
        ("Is the pool free for my two-year-old?", "The pool is free for children under 5", True),
        ("Is the pool free for my two-year-old?", "The pool is free for seniors 65 and over", False),
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
    ],
)
def test_what_people_of_an_age_pay(question: str, text: str, charges: bool) -> None:
    assert charges_for_age(question, text, "Ostrand Zoo, fees") is charges
