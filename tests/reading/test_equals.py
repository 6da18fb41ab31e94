"""Quantities and dates of a claim, written as the evidence writes equal ones."""

from __future__ import annotations

import pytest

from shared_core.reading.critic import CriticSupportScorer
from shared_core.reading.equals import as_evidence_writes


@pytest.mark.parametrize(("claim", "evidence", "written"), [
    ("Keep it for 21 days.", "It is lent for three weeks.", "Keep it for three weeks."),
    ("We meet at 16:30.", "Start: 4.30 pm in the hall.", "We meet at 4.30 pm."),
    ("Check it after twelve months.", "It is to be checked in a year.", "Check it after a year."),
    ("It serves eight people.", "Serves 8.", "It serves 8 people."),
    ("It costs 45 euros.", "The fee is €45 a head.", "It costs €45."),
    ("It costs €45.", "The fee is 45 euros a head.", "It costs 45 euros."),
    ("She was born on 5/17/1903.", "Ann Moor (17 May 1903 – 1950).", "She was born on 17 May 1903."),
    ("Half of the price is paid back.", "8 to 30 days: 50 %", "50 % of the price is paid back."),
    *((same, evidence, same) for same, evidence in (
        ("Keep it for 21 days.", "It is lent for 20 days and three people."),  # nothing equal
        ("It takes over 5 hours.", "It takes 7 hours."),  # a bound that holds, which is another quantity
        ("Keep it for 7 days.", "Room 7 is closed."),  # a number without the unit
        ("It lasts twelve months.", "It costs £12 a year."),  # a rate, which is no period
        ("One of the two docks burned.", "1 crane and two docks."),
        ("It opened in 1902.", "It opened in 1902 with 19 rooms."),
        ("The third of May", "3 rooms"),
    )),
])  # fmt: skip
def test_equal_quantities_are_written_alike(claim: str, evidence: str, written: str) -> None:
    assert as_evidence_writes(claim, evidence) == written


def test_the_critic_reads_equal_quantities_as_equal() -> None:
    evidence = "The society meets in the library. Tools are lent for two weeks at most. The next meeting is at 7 pm."
    right, wrong, time = CriticSupportScorer().score(
        [(evidence, f"Tools are lent for {n} days at most.") for n in (14, 16)]
        + [(evidence, "The next meeting is at 19:00.")]
    )
    assert min(right or 0, time or 0) > 0.5 > (wrong or 0)
