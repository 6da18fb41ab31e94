"""Questions for the name of what does something: the entry that defines it, below that name."""

from __future__ import annotations

import pytest

from shared_core.types import Passage
from tests.reading.asking import chance, quotes, read


def entry(name: str, text: str, above: str = "Winch manual > Commands") -> Passage:
    return Passage(name, f"{name}\n\n{text}", "Winch manual", {"section": f"{above} > {name}", "source": "winch.rst"})


ENTRIES = (
    entry("SIGWIND", "The winch will stop its drums, reload the rope table from its first file, and start them."),
    entry("SIGTERM", "The winch and all its drums will be shut down. This may take several seconds."),
    entry("haul", "Hauls in the rope of one drum until the mark is seen."),
    entry("striprope", "Removes the mud between knots."),
    entry("ROPE_LOGGED", "Default: False\n\nEnables the log of the rope.", "Winch manual > Settings"),
    entry("ROPE_LIMIT", "Default: 40\n\nThe greatest length of rope on a drum, in metres.", "Winch manual > Settings"),
    Passage("news", "The winch is made in Corrow. Its rope is new, its drums are green.", "News", {"source": "n"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "begin"),
    [
        ("Which signal makes the winch reload its rope table?", "The winch will stop"),
        ("What command hauls in the rope of one drum?", "Hauls in"),
        ("Which setting enables the log of the rope in Corrow?", "Enables the log"),
    ],
)
def test_the_entry_that_does_what_is_asked_is_sure(question: str, begin: str) -> None:
    assert begin in quotes(question, *ENTRIES)[0]
    assert chance(question, *ENTRIES) > 0.6


def test_the_quote_begins_at_the_name_which_is_the_short_answer() -> None:
    first = read("Which setting enables the log of the rope?", *ENTRIES).readings[0]
    assert first.quote.text == "ROPE_LOGGED\n\nDefault: False\n\nEnables the log of the rope."
    assert first.short_answer is not None
    assert first.short_answer.text == "ROPE_LOGGED"
    far = entry("ROPE_LOGGED", f"{'It is used at sea. ' * 20}\n\nEnables the log of the rope.")
    assert quotes("Which setting enables the log of the rope?", far)[0] == "Enables the log of the rope."


@pytest.mark.parametrize(
    "question",
    [
        "Which signal makes the winch play music?",
        "Which command removes knots?",  # it removes what is between them
        "Which setting enables the lamp of the drum?",
        "Which setting limits the number of captains?",
    ],
)
def test_what_no_entry_does_has_no_name(question: str) -> None:
    assert chance(question, *ENTRIES) < 0.5


def test_a_field_is_no_name() -> None:
    found = quotes("Which setting sets the greatest length of rope?", *ENTRIES)
    assert not [quote for quote in found if quote.startswith("Default")]


def test_of_two_entries_neither_is_surer() -> None:
    question = "Which command hauls in the rope?"
    haul, heave = entry("haul", "Hauls in the rope of one drum."), entry("heave", "Hauls in the rope of all drums.")
    assert chance(question, haul, heave) < 0.5 < chance(question, haul)
