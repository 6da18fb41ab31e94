"""A claim takes no value from another row than it names, nor from another of several numbered things."""

from __future__ import annotations

import pytest

from shared_core.citation import compare_claim
from shared_core.citation.facts.rows import blocks_of

FIELDS = """Model: Brook 20; Power: 250 W; Weight: 4.1 kg; Price: €89
Model: Brook 30; Power: 400 W; Weight: 5.3 kg; Price: €129
Model: Brook 50; Power: 750 W; Weight: 7.9 kg; Price: €199"""
BARS = """| Model | Power | Weight | Price |
|---|---|---|---|
| Brook 20 | 250 W | 4.1 kg | €89 |
| Brook 30 | 400 W | 5.3 kg | €129 |
| Brook 50 | 750 W | 7.9 kg | €199 |"""
COLUMNS = """Model      Power    Weight    Price
Brook 20   250 W    4.1 kg    €89
Brook 30   400 W    5.3 kg    €129
Brook 50   750 W    7.9 kg    €199"""
LIST = "- Alice Moreau: treasurer\n- Ben Hart: secretary\n- Cora Lind: chair"
CODES = """Code: E1; Meaning: Motor overheated; Remedy: Let the pump cool
Code: E2; Meaning: Dry running; Remedy: Check the water level
Code: E3; Meaning: Impeller blocked; Remedy: Remove the filter and clean the impeller"""


@pytest.mark.parametrize("table", [FIELDS, BARS, COLUMNS])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("The Brook 50 weighs 5.3 kg.", "The Brook 50 weighs 7.9 kg."),
        ("The Brook 30 costs €199.", "The Brook 30 costs €129."),
        ("The pump that costs €129 weighs 7.9 kg.", "The pump that costs €129 weighs 5.3 kg."),
        (
            "The Brook 30 costs €199, and the Brook 50 costs €129.",
            "The Brook 30 costs €129, and the Brook 50 costs €199.",
        ),
    ],
)
def test_a_value_of_another_row_contradicts(table: str, wrong: str, right: str) -> None:
    assert "role" in [m.kind for m in compare_claim(wrong, table).mismatches if m.refuted]
    assert compare_claim(right, table).agrees


@pytest.mark.parametrize(
    ("evidence", "wrong", "right"),
    [
        (LIST, "Cora Lind is the secretary.", "Cora Lind is the chair."),
        (LIST, "The treasurer is Ben Hart.", "The treasurer is Alice Moreau."),
        (LIST, "Ben Hart is chair and Cora Lind secretary.", "Ben Hart is secretary and Cora Lind chair."),
        (CODES, "E1 means dry running.", "E2 means dry running."),
        (CODES, "If E2 is shown, clean the impeller.", "If E3 is shown, clean the impeller."),
    ],
)
def test_so_does_what_a_list_says_of_somebody_else(evidence: str, wrong: str, right: str) -> None:
    assert compare_claim(wrong, evidence).refuted
    assert not compare_claim(right, evidence).refuted


@pytest.mark.parametrize(
    ("evidence", "claim"),
    [
        (LIST, "Cora Lind is not the secretary."),
        (LIST, "Ben Hart and Cora Lind are officers."),
        (f"{LIST}\n\nThe secretary resigned, and Cora Lind took over.", "Cora Lind took over as secretary."),
        (FIELDS, "The Brook 50 weighs more than 5.3 kg."),
        (FIELDS, "The Brook 30 and the Brook 50 cost €129 and €199."),
    ],
)
def test_what_several_rows_or_the_prose_say_together_is_no_mismatch(evidence: str, claim: str) -> None:
    assert "role" not in [m.kind for m in compare_claim(claim, evidence).mismatches]


def test_a_row_about_something_else_contradicts_nothing() -> None:
    row = "Service: Storage ashore; Price: £1 a day; Remarks: first 14 days free for annual berth holders"
    assert not compare_claim("Berth holders may give up their berth with two months' notice.", row).refuted


def test_prose_with_colons_is_no_table() -> None:
    assert blocks_of("Note: the lamp was lit in 1871.\n\nIt burned whale oil; Venn paid for it.") == ()


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The waiting list for pontoon A is long.", "The waiting list for pontoon B is long."),
        ("The waiting list for team A is long.", "The waiting list for team B is long. Team A has none."),
        ("Lift 1 also goes to the basement.", "Lift 2 (goods) also goes to the basement. Lift 1 carries six people."),
        ("Rule 14 was changed in March.", "Rule 15 was changed in March. There are 14 rules."),
    ],
)
def test_another_letter_or_number_behind_a_noun_names_another_thing(claim: str, evidence: str) -> None:
    found = compare_claim(claim, evidence)
    assert "name" in [m.kind for m in found.mismatches]
    assert not found.same_subject


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Lift 1 holds six and lift 2 holds nine people.", "Lift 1 holds six people. Lift 2 holds nine people."),
        ("Pontoon C has electricity.", "Pontoons A to D have electricity."),
        ("Lift 1 also goes to the basement.", "Lift 1 carries six people. It also goes to the basement."),
        ("The book I read was long.", "The book that I read was long, and team B lost."),
        ("John Kerr wrote it in May.", "John F. Kerr wrote it in May."),
        ("It lasted 24 months.", "It lasted 24 months, and the second one lasted 12."),
    ],
)
def test_lists_ranges_pronouns_and_initials_name_no_other(claim: str, evidence: str) -> None:
    assert "name" not in [m.kind for m in compare_claim(claim, evidence).mismatches]


PUMPS = "Sound level at 3 m; Norvik Basic: 41 dB; Norvik Plus: 36 dB"
FEES = "Region: South; Delivery: 4 weeks; Installation Basic: €1,950; Installation Plus: €2,450"
RATES = "Boat: Kayak; Day rate: £30; Week rate: £120\nBoat: Dinghy; Day rate: £55; Week rate: £210"


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Installing the Norvik Plus in the South costs €1,950.", FEES),
        ("The Basic is quieter, with 36 dB compared with 41 dB for the Plus.", PUMPS),
        ("A dinghy has a week rate of £55.", RATES),
        ("The DW600 makes 47 dB.", "Noise: DW450 47 dB, DW600 42 dB"),
    ],
)
def test_the_number_of_another_column_is_refuted(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).refuted


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Installing the Norvik Plus in the South costs €2,450.", FEES),
        ("In the South, delivery of the Plus takes 4 weeks.", FEES),
        ("The Plus is quieter, with 36 dB compared with 41 dB for the Basic.", PUMPS),
        ("At 36 dB, the Plus is quieter than the Basic (41 dB).", PUMPS),
        ("A dinghy costs £55 a day and £210 a week.", RATES),
        ("A kayak has a day rate of £30.", RATES),
        ("The DW600 makes 42 dB.", "Noise: DW450 47 dB, DW600 42 dB"),
        # Columns that are attributes of one thing: "without installation" names none of two alike.
        ("It costs €4,290 without installation.", "Model: A1; Price: €4,290; Installation: €1,800"),
        ("You pay £200 on top of the rent.", "Flat: 2B; Deposit: £200; Rent: £650"),
    ],
)
def test_the_number_of_its_own_column_is_not(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).refuted


AGES = "Adult (18+): £8; Youth (5-17): £4; Under 5: free"
DOSES = "Adults and children over 12: one 20 mg tablet a day. Children from 6 to 11: one 10 mg tablet a day."
FEES = "- Juniors (under 18): £25 a year\n- Members from 18 years: £60 a year, from age 70 £40"


@pytest.mark.parametrize(
    ("claim", "question", "evidence", "refuted"),
    [
        ("Your 10-year-old pays £8.", "What does my 10-year-old pay?", AGES, True),
        ("Your 10-year-old pays £4.", "What does my 10-year-old pay?", AGES, False),
        ("One 20 mg tablet once a day.", "How much does an eight-year-old take?", DOSES, True),
        ("One 10 mg tablet once a day.", "How much does an eight-year-old take?", DOSES, False),
        ("One 20 mg tablet once a day.", "How much does my son take? He is 14.", DOSES, False),
        ("It is £25 a year.", "What is the fee at age 40?", FEES, True),
        # no age, a range of its own, an age of none of the lines, a number that is for everyone
        ("It is £8.", "How much is it?", AGES, False),
        ("Those over 17 pay £8.", "What does my 10-year-old pay?", AGES, False),
        ("One 10 mg tablet.", "What does my 3-year-old take?", DOSES, False),
        ("The deposit is £8.", "What does my 10-year-old pay?", f"{AGES}\nA deposit of £8 is due.", False),
        ("It takes 20 minutes.", "Can my 8-year-old swim?", "Children: 5 to 10 laps take 20 minutes.", False),
    ],
)
def test_a_number_for_other_ages_is_refuted(claim: str, question: str, evidence: str, refuted: bool) -> None:
    found = compare_claim(claim, evidence, question).mismatches
    assert any(m.kind == "role" and m.refuted for m in found) == refuted
