"""Whether one may bring a thing, and the labelled line below the name of what it is of, are sure by their form."""

from __future__ import annotations

import pytest

from shared_core.reading.labelled import is_labelled_below
from shared_core.reading.permits import permits
from shared_core.types import Passage
from tests.reading.asking import first


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Can I bring my dog?", "Dogs are welcome, but keep them away from the stage."),
        ("May we have a barbecue?", "Barbecues are not allowed."),
        ("Can I wear my own boots?", "Boots are never permitted."),
        ("Are drones allowed?", "Drones are strictly prohibited above the harbour."),
        ("Can I bring a tent on the island?", "All tents are forbidden on the island."),
    ],
)
def test_what_says_so_of_the_very_thing_permits_it_or_not(question: str, sentence: str) -> None:
    assert permits(question, sentence, "Rules of the island")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Can I bring my dog?", "Guide dogs are allowed."),
        ("Can I bring my dog?", "Dogs are a nuisance."),
        ("Can I bring my dog on the ferry?", "Dogs are welcome in the garden."),
        ("Can I bring my dog for half price?", "Dogs are welcome."),
        ("Where can I take my dog?", "Dogs are welcome."),
        ("Can I keep my dog food here?", "Dogs are welcome."),
    ],
)
def test_what_is_of_another_thing_place_or_question_does_not(question: str, sentence: str) -> None:
    assert not permits(question, sentence, "Rules of the garden")


STAFF = """• Ida Berg
  – Room: 12
  – Office hours: Monday 9 am
• Jo Wu
  – Room: 14
  – Office hours: Friday 2 pm

Head keeper: Ann Lee (evenings)

* Telephone: 55 12
* Office: Lamp house

Ferry: Sund to Arle

* Depart: 8.15
* Price: 9 crowns
"""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When are Jo Wu's office hours?", "– Office hours: Friday 2 pm"),
        ("What is Ida Berg's room?", "– Room: 12"),
        ("Where is Ann Lee's office?", "* Office: Lamp house"),
        ("What's the fare of the ferry from Sund to Arle?", "* Price: 9 crowns"),
    ],
)
def test_a_line_with_the_label_asked_for_below_the_name_asked_for(question: str, sentence: str) -> None:
    assert is_labelled_below(question, sentence, STAFF, "Staff")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When are Jo Wu's office hours?", "– Office hours: Monday 9 am"),
        ("When are Bo Day's office hours?", "– Office hours: Friday 2 pm"),
        ("What are Jo Wu's fees?", "– Room: 14"),
        ("Where is Ann Lee's office in Arle?", "* Office: Lamp house"),
        ("What's the fare of the ferry from Sund to Tarn?", "* Price: 9 crowns"),
        ("When is the ferry from Sund to Arle back?", "* Depart: 8.15"),
    ],
)
def test_other_labels_and_names_are_not_asked_for(question: str, sentence: str) -> None:
    assert not is_labelled_below(question, sentence, STAFF, "Staff")


def test_both_are_shown() -> None:
    staff = Passage("p", STAFF, "Lamp house", {"section": "Staff", "source": "staff.md"})
    quote, chance = first("When are Jo Wu's office hours?", staff)
    assert (quote, chance > 0.5) == ("– Office hours: Friday 2 pm", True)
    dogs = "Dogs are welcome, but the sound may hurt their ears. Bring your own mug and a lamp."
    rules = Passage("q", dogs, "Fair", {"section": "Things to know", "source": "fair.md"})
    quote, chance = first("Can I bring my dog?", rules)
    assert quote.startswith("Dogs are welcome")
    assert chance > 0.5


def test_the_passage_that_alone_has_a_word_of_the_question_is_read() -> None:
    told = "Bring your own mug. Bring a lamp and some rope, and come early. Bring what you like to the dance."
    others = [Passage(f"p{i}", f"Camp {i}. {told}", "Fair", {"source": f"{i}.md"}) for i in range(9)]
    dogs = Passage("dogs", "Dogs are welcome, but keep them away from the stage.", "Fair", {"source": "dogs.md"})
    assert first("Can I bring my dog?", *others[:4], dogs, *others[4:])[0].startswith("Dogs")
