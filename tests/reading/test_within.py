"""An amount in a question, read as the range that a sentence has it in."""

from __future__ import annotations

import pytest

from shared_core.reading import ExtractiveReader
from shared_core.reading.base import Read
from shared_core.reading.within import read_ranges
from shared_core.types import Passage


@pytest.mark.parametrize(
    ("question", "text", "read"),
    [
        ("Is a kite of 3 kg weighed?", "Kites over 2 kg are weighed.", "Is a kite of over 2 kg weighed?"),
        ("Is a 3 kg kite weighed?", "Kites over 2000 g are weighed.", "Is a over 2000 g kite weighed?"),
        ("Is a kite of 3 kg weighed?", "Kites heavier than 2 kg are weighed.", "Is a kite heavier than 2 kg weighed?"),
        ("Do the fans run at 40 °C?", "Above 35 °C the fans run.", "Do the fans run above 35 °C?"),
        ("Do the fans run at -5 °C?", "Fans run in rooms colder than 0 °C.", "Do the fans run colder than 0 °C?"),
        ("Can I set fans to -5 °C?", "Fans can be set from -8 to -2 °C.", "Can I set fans to from -8 to -2 °C?"),
        ("What if I am 20 minutes late?", "If you are more than 15 minutes late, ring.",
         "What if I am more than 15 minutes late?"),
        ("Is a stay of 9 nights cheaper?", "Stays of 7 nights or longer are cheaper.",
         "Is a stay of 7 nights or longer cheaper?"),
        ("Can a firm with 9 staff join?", "We are open to firms with fewer than 50 staff.",
         "Can a firm with fewer than 50 staff join?"),
        ("May I pause for 2 months?", "You may pause for up to 3 months.", "May I pause for up to 3 months?"),
        ("Do 14 people get a guide?", "Groups of 12 or more people get a guide.", "Do 12 or more people get a guide?"),
        ("Can I cancel 9 days before?", "You can cancel up to 7 days before.", "Can I cancel up to 7 days before?"),
        ("Does the lift carry 200 kg?", "The lift carries up to 250 kg.", "Does the lift carry up to 250 kg?"),
        ("Are dishes of €20 taxed?", "## Dishes over €15\n\nTax is added.", "Are dishes of over €15 taxed?"),
        ("Must a child of 90 cm be held?", "Children under 100 cm must be held.",
         "Must a child of under 100 cm be held?"),
    ],
)  # fmt: skip
def test_an_amount_is_read_as_its_range(question: str, text: str, read: str) -> None:
    assert read_ranges(question, [text, "The shop opens at 9."]) == read


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Is a kite of 1 kg weighed?", "Kites over 2 kg are weighed."),  # not in it
        ("Is a kite of 2 kg weighed?", "Kites over 2 kg are weighed."),  # the end is not in it
        ("Is a drone of 3 kg weighed?", "Kites over 2 kg are weighed."),  # another thing
        ("Does the kite weigh 3 kg?", "The kite weighs over 2 kg."),  # one value, nobody knows which
        ("Did the repair take 5 hours?", "The repair took more than 4 hours and was paid."),
        ("Do 500 people work there?", "The mill employs more than 300 people."),
        ("Did 350 people come?", "Over 300 people came to the fair."),
        ("Can I cancel 3 days before?", "You can cancel up to 7 days before."),  # seven days at least
        ("Can I return it 10 days before the trip?", "Trips longer than 7 days are insured."),
        ("Is a kite of over 3 kg weighed?", "Kites over 2 kg are weighed."),  # asks for a range
        ("Is a kite of 3 kg weighed in 2 minutes?", "Kites over 2 kg are weighed."),
        ("Is a kite of 3 kg weighed?", "Kites over 2 kg are weighed. Kites of 3 kg are not weighed."),  # has it itself
        ("Is a kite of 3 kg weighed?", "Kites over 2 kg are weighed. Kites under 4 kg are weighed."),  # in two of them
        ("Can hot water be set to 70 °C?", "Heating is set from 30 to 80 °C. Hot water is set from 35 to 60 °C."),
        ("Who led the club in 1990?", "Clubs with more than 1000 members vote."),
        ("Did the mill open 20 years ago?", "Mills older than 15 years are listed."),
        ("Can it rain for 5 days?", "The rain can last for up to 9 days."),
        ("Is a kite of 3 kg weighed?", "Kites " + "and kites " * 120 + "over 2 kg are weighed."),  # no sentence
        ("Is a 9 year old allowed?", "Visits of more than 5 years are allowed."),
    ],
)
def test_a_question_stays_as_it_is(question: str, text: str) -> None:
    assert read_ranges(question, [text]) == question


def test_the_rule_for_a_range_answers_for_its_values() -> None:
    text = (
        "Bags over 23 kg are carried in the van. Bags of up to 8 kg go below the seat. "
        "Below 4 °C the van's heating is on. The van weighs over 900 kg."
    )
    van = Passage("van", text, title="Coach to Suhr", metadata={"source": "coach.md"})
    asked = {
        "Where is a bag of 27 kg carried?": "Bags over 23 kg are carried in the van.",
        "Does a bag of 5 kg go below the seat?": "Bags of up to 8 kg go below the seat.",
        "Is the heating on at 1 °C?": "Below 4 °C the van's heating is on.",
        "Where is a bag of 15 kg carried?": "",
        "Does the van weigh 1200 kg?": "",
        "Is the heating on at 9 °C?": "",
    }
    results = ExtractiveReader().read([Read(question, [van]) for question in asked])
    for (question, quote), result in zip(asked.items(), results, strict=True):
        assert not isinstance(result, Exception)
        (best, *_) = result.readings
        shown = best.quote.text if (best.probability or 0) > 0.5 else ""
        assert shown == quote, question
