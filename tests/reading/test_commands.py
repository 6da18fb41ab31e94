"""What a command does: the line below NAME in its manual, not how it is called or what it takes."""

from __future__ import annotations

from shared_core.types import Passage
from tests.reading.asking import chance, first


def test_what_a_command_does_is_said_by_the_name_line_of_its_manual() -> None:
    name = Passage("n", "NAME\n\nwinch-haul - haul in the rope of a drum", "winch-haul(1)", {"section": "NAME"})
    call = Passage(
        "c", "winch haul\n\nwinch [common options] haul [options] DRUM [ROPE...]", "haul", {"section": "winch haul"}
    )
    for question in ("What does winch haul do?", "What is winch-haul?", "What does the winch-haul command do?"):
        text, sure = first(question, name, call)
        assert text == "winch-haul - haul in the rope of a drum"
        assert sure > 0.6
    several = Passage("n", "NAME\n\nhaul, winch heave - pull in a rope", "haul(1)", {"section": "NAME"})
    assert chance("What does winch heave do?", several) > 0.6
    assert chance("What does winch lower do?", several) < 0.5


def test_how_a_command_is_called_does_not_tell_what_it_does() -> None:
    text = "winch haul\n\nwinch [common options] haul [options] DRUM [ROPE...]"
    for more in ("", "\n\npositional arguments", "\n\nDRUM\tdrum to haul"):
        assert chance("What does winch haul do?", Passage("c", text + more, "haul", {"section": "winch haul"})) < 0.65


def test_a_definition_with_capitals_or_brackets_is_no_call() -> None:
    for said in ("the long rope [of hemp] that NASA uses", "a hook for BIG ropes [and small ones]", "hook for ropes"):
        passage = Passage("g", f"Gaff\n\n{said}", "Glossary", {"section": "Gaff"})
        assert chance("What is a gaff?", passage) > 0.5, said
