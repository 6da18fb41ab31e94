"""The "yes" or "no" of an answer, against the sentence behind it."""

from __future__ import annotations

import pytest

from shared_core.abstention.polarity import opening_of, turns_opening


def turned(question: str, answer: str) -> bool:
    return turns_opening(question, *opening_of(answer))


@pytest.mark.parametrize(("question", "answer"), [
    ("Can I bring my bike onto the ferry?", "Yes, bikes are not allowed on the ferry."),
    ("Can I bring my bike?", "Yes, you can't."),
    ("May guests use the sauna?", "Yes. Guests may not use the sauna."),
    ("Are interns paid by the town?", "Yes, interns are not paid by the town."),
    ("Are interns paid by the town?", "Yes, they are not."),
    ("Is the hall heated?", "No. The hall is heated."),
    ("Can I bring my bike?", "No, you can."),
])  # fmt: skip
def test_an_opening_that_the_sentence_turns_round(question: str, answer: str) -> None:
    assert turned(question, answer)


@pytest.mark.parametrize(("question", "answer"), [
    ("Can I bring my bike onto the ferry?", "No, bikes are not allowed on the ferry."),
    ("Do you mind if I smoke?", "Yes, smoking is not allowed."),
    ("Isn't the pool open on Mondays?", "Yes, it is not open on Mondays."),
    ("Is it forbidden to bring dogs?", "Yes, dogs are not allowed."),
    ("Is the pool closed on Mondays?", "Yes, it is not open on Mondays."),
    ("Can I swim for free?", "Yes, you do not have to pay."),
    ("Can I use it without a battery?", "Yes, it does not need a battery."),
    ("Can I cancel?", "Yes, but not within 24 hours."),
    ("Is the hall heated?", "Yes, the hall is heated, but the foyer is not."),
    ("Can children swim?", "Yes, children who cannot swim may use the small pool."),
    ("Are interns paid by the town?", "No, contractors are paid by the town."),
    ("Is breakfast included?", "No. Breakfast is included in the dear rooms."),
    ("When does it open?", "Yes, it does not open on Mondays."),
    ("", "Yes, it does not open on Mondays."),
])  # fmt: skip
def test_openings_that_agree_or_may_be_meant_either_way(question: str, answer: str) -> None:
    assert not turned(question, answer)
