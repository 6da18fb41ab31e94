"""Sentences about another thing or party than the question."""

from __future__ import annotations

import pytest

from shared_core.reading.subjects import is_of_another
from tests.reading.asking import chance, quotes

LEASE = """Council tax, electricity and broadband are paid by the tenant. Water is included in the rent.
The tenant may end the tenancy with one month's written notice. The landlord must give two months' notice."""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Is gas included in the rent?", "Water is included in the rent."),
        ("Is the pool open on Sundays?", "The gym is open on Sundays."),
        ("How much notice do I have to give?", "The landlord must give two months' notice."),
        ("Can I end the contract early?", "The supplier may end the contract at any time."),
        ("What does a stall cost?", "The hire costs us £120."),
        ("How much is the boat trip?", "The bus tour is £14."),
        ("How much notice do I have to give?", "The landlord may enter only after giving 7 days' notice."),
        ("How much deposit do I leave for the mower?", "Mower for hire: £4 per half day."),
    ],
)
def test_sentences_of_another(question: str, sentence: str) -> None:
    assert is_of_another(question, sentence, "Rules")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Is water included in the rent?", "Water is included in the rent."),
        ("Are dogs allowed in the garden?", "Pets are allowed in the garden."),
        ("Is the pool open on Sundays?", "It is open on Sundays."),
        ("Is the pool open on Sundays?", "The gym is closed in May."),
        ("How much notice does the landlord have to give?", "The landlord must give two months' notice."),
        ("When do I get my deposit back?", "The landlord must return the deposit within ten days."),
        ("What does a stall cost?", "A stall costs £15."),
        ("What does a ticket cost?", "Admission is £5."),
        ("How much is it?", "The bus tour is £14."),
        ("How much deposit do I pay?", "A deposit of £20 is taken."),
        ("What is the fine?", "It is set by the court."),
        ("Who pays for water?", "Water is paid by the landlord."),
    ],
)
def test_sentences_that_may_answer(question: str, sentence: str) -> None:
    assert not is_of_another(question, sentence, "Rules", sentence)


def test_what_is_done_with_other_things_is_of_another_where_the_passage_has_the_thing() -> None:
    sentence = LEASE.split(". ")[0] + "."
    assert is_of_another("Who pays for water?", sentence, "Lease", LEASE)
    assert not is_of_another("Who pays for parking?", sentence, "Lease", LEASE)


def test_the_reader_puts_the_other_party_and_the_other_thing_last() -> None:
    assert "one month" in quotes("How much notice do I have to give?", LEASE)[0]
    assert chance("Is gas included in the rent?", LEASE) < 0.5
    assert chance("Is water included in the rent?", LEASE) > 0.5


def test_a_few_words_in_bold_before_a_sentence_are_a_heading() -> None:
    minutes = "5. **Charging points.** The proposal to install six was rejected.\n\n**Never lend the key.**"
    assert "5. **Charging points.**" not in quotes("Were charging points approved?", minutes)
    assert "**Never lend the key.**" in quotes("Can I lend the key?", minutes)
