"""What a command does: the line below NAME in its manual, not how it is called or what it takes."""

from __future__ import annotations

from shared_core.types import Passage
from tests.reading.asking import chance, first, quotes


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


def page(command: str, heading: str, text: str) -> Passage:
    section = f"{command} @2.1.0" + (f" > {heading}" if heading else "")
    return Passage(f"{command}/{heading}", text, command, {"section": section, "source": f"{command}.html"})


HAUL = page("winch-haul", "", "winch-haul @2.1.0\n\nPull in the rope of a drum")
CHECKED = page(
    "winch-checked-haul", "Description", "Description\n\nThis command runs winch haul followed by winch test."
)
OMIT = page(
    "winch-haul",
    "Options > omit",
    "omit\n\n- Default: 'wet' if the RAIN variable is set to 'yes'; otherwise, empty.\n- Type: \"wet\" or \"dry\""
    " (can be set multiple times)\n\nKinds of ropes to leave on the quay.\n\n"
    "If a kind appears in both the --include and --omit lists, then it will be included.",
)
OLD = page("winch", "Options > tarred", "tarred\n\n- DEPRECATED: Use --omit=tarred to exclude ropes that are tarred.")


def test_what_a_command_does_is_said_below_its_name_and_version() -> None:
    text, sure = first("What does winch haul do?", CHECKED, HAUL)
    assert text == "Pull in the rope of a drum"
    assert sure > 0.5


def test_this_command_is_the_one_of_its_page() -> None:
    assert not any("This command" in quote for quote in quotes("What does winch haul do?", CHECKED, HAUL))
    assert "This command" in first("What does winch checked-haul do?", CHECKED, HAUL)[0]
    assert "This command" in first("Which command runs winch haul and then winch test?", CHECKED, HAUL)[0]


def test_an_option_is_explained_below_its_name_without_dashes() -> None:
    for question in ("What does the --omit option do?", "What does --omit do?", "What does the omit option do?"):
        text, sure = first(question, OLD, OMIT)
        assert text == "Kinds of ropes to leave on the quay.", question
        assert sure > 0.5


def test_a_default_that_two_pages_state_alike_is_found() -> None:
    text = "wet-level\n\n- Default: null\n- Type: null, 'low', or 'high'\n\nThe level of wetness at which to stop."
    stated = [page(command, "Options > wet-level", text) for command in ("winch-haul", "winch-lower")]
    text, sure = first("What is the default value of wet-level?", *stated)
    assert text == "- Default: null"
    assert sure > 0.5
