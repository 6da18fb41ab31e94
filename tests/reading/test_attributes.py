"""Questions for properties in the words of tables and labels."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared_core.reading.attributes import is_property, read_attributes
from shared_core.retrieval.tokenizer import ALIKE
from shared_core.types import Passage
from tests.reading.asking import chance, quotes, read

SPECIFICATIONS = Passage(
    "p",
    "Capacity per day; Nordlys 12: 12 l; Nordlys 20: 20 l\nTank; Nordlys 12: 2.5 l; Nordlys 20: 4 l\n"
    "Noise; Nordlys 12: 38 dB; Nordlys 20: 44 dB\nWeight; Nordlys 12: 9.8 kg; Nordlys 20: 13.4 kg\n\n"
    "Warranty: two years from the day of purchase.",
    "Nordlys dehumidifier",
    {"section": "Specifications"},
)


@pytest.mark.parametrize(
    ("question", "text", "noun"),
    [
        ("How heavy is the lamp?", "Lamp\nWeight: 4 kg", "weight"),
        ("How heavy is it?", "Lamp\nWeight  4 kg", "weight"),
        ("How loud is the pump?", "Pump\n- **Noise level:** 40 dB", "noise level"),
        ("How tall is the tower?", "Tower: Ostrand; Height: 40 m", "height"),
        ("How expensive are the tickets?", "Tickets\nPrice\t4", "price"),
        ("How long is the guarantee?", "Warranty: 2 years", "warranty"),
        ("How long is the power cord?", "Rated power: 1450 W\nCable length: 1.1 m", "length of the power cable"),
        ("How many vacation days do I get?", "You have 27 days of annual leave.", "annual leave days"),
        ("Where can I leave the stroller?", "Prams stay outside.", "pram"),
        ("Where does the rubbish go?", "Garbage is taken to Quarry Road.", "garbage"),
        ("Do you repair flat tyres?", "Punctures: £9", "punctures"),
        ("Where do I leave my backpack?", "Rucksacks go in the lockers.", "my rucksack"),
        ("When must I hand the key back?", "Keys are to be returned. Return them by noon.", "must i return the key"),
        ("What is the latest you can go in?", "Last admission: 4 pm", "the last admission"),
        ("Can I get out of the contract?", "You may terminate it in writing.", "i terminate the contract"),
        ("Can I use it as a hotspot?", "Tethering costs extra.", "tethering"),
        ("Is my boss paid more?", "Managers are paid monthly.", "my manager"),
    ],
)
def test_a_property_is_asked_for_by_the_name_that_it_has(question: str, text: str, noun: str) -> None:
    assert noun in read_attributes(question, [text]).lower()


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How heavy is the lamp?", "The lamp weighs 4 kg."),
        ("How heavy is the lamp?", "Pump\nWeight: 4 kg"),
        ("How heavy is the lamp?", "Lamp\nWeight matters to the crew."),
        ("How long is the lamp?", "Lamp\nCable length: 4 m"),
        ("How long are the pools?", "Our pools are 20 m long.\nMeet: A; Pool length: 25 m\nMeet: B; Pool length: 50 m"),
        ("Where is my mum?", "Wait a moment."),
        ("Is Stroller Lane open?", "Stroller Lane is closed to prams."),
        ("How heavy does the lamp get?", "Lamp\nWeight: 4 kg"),
        ("How long is the guarantee?", "The guarantee is two years, and the warranty five."),
        ("How long did it take?", "Length: 4 m"),
        ("Who is the manager?", "The boss is Ann."),
        ("Where does Chap live?", "A man lives here."),
        ("Can I give the key back?", "Give your key back, or return to the desk."),
        ("Can I give the key back?", "The key is yours."),
        ("Where is the film shown?", "A hall of filming."),
    ],
)
def test_other_questions_stay(question: str, text: str) -> None:
    assert read_attributes(question, [text]) == question


def test_names_are_those_of_the_list_and_no_name_is_its_own() -> None:
    assert all(name == name.casefold().strip() and name not in others for name, others in ALIKE.items())


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=3))
@example("How faſt is the ſtaff lift?", ["Speed: 1", "elevator, perſonnel"])
def test_any_text_is_read(question: str, texts: list[str]) -> None:
    assert isinstance(read_attributes(question, texts), str)


@pytest.mark.parametrize(
    ("question", "short"), [("How heavy is the Nordlys 20?", "13.4 kg"), ("How loud is the Nordlys 12?", "38 dB")]
)
def test_the_cell_of_the_property_is_answered(question: str, short: str) -> None:
    first = read(question, SPECIFICATIONS).readings[0]
    assert first.short_answer is not None
    assert first.short_answer.text == short
    assert chance(question, SPECIFICATIONS) > 0.7


def test_the_property_of_another_thing_is_not_answered() -> None:
    assert chance("How heavy is the Nordlys 30?", SPECIFICATIONS) < 0.5


def test_the_property_of_a_thing_is_sure_if_a_label_has_both() -> None:
    kettle = Passage("k", "Rated power: 1450 W\nCable length: 1.1 m\nWeight: 2 kg", "Kettle 4")
    two = Passage("k", f"{kettle.text}\nHose length: 2 m", "Kettle 4")
    asked = "What is the length of the power cable?"
    assert is_property(asked, "Cable length: 1.1 m", kettle.text)
    assert not is_property(asked, "Hose length: 2 m", two.text)
    assert not is_property("What is the length of the hose?", "Cable length: 1.1 m", kettle.text)
    assert quotes("How long is the power cord?", kettle)[0] == "Cable length: 1.1 m"
