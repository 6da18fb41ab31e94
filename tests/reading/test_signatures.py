"""What a function does is neither its signature nor what describes a parameter of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.reading.signatures import is_signature, parameter_at
from shared_core.types import Passage
from tests.reading.asking import first, quotes


def described(heading: str, text: str) -> Passage:
    return Passage(
        heading, f"{heading}\n\n{text}", "Libwinch", {"section": f"Reference > {heading}", "source": "w.pdf"}
    )


PAGES = (
    described(
        "winch create drum",
        "int winch_create_drum (winch node const names, const\t[Function]\nchar * source_name, winch node * drum)\n\n"
        "names: pointer to the node that winch_parse returned.\nsource name: the name of the new drum, of names.\n"
        "drum: pointer to the drum created.\n\nMakes a drum with a rope of its own.\n\n"
        "Returns: WINCH_OK if the drum was made, WINCH_NOT_FOUND if source_name is not known.",
    ),
    described(
        "winch strerror",
        "const char * winch_strerror (int error)\t[Function]\n\nerror: is an error returned by a winch function.\n\n"
        "Gives the words for an error.\n\nReturns: a string that describes it.",
    ),
)


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("What does winch_create_drum do?", "Makes a drum with a rope of its own."),
        ("What does winch_strerror do?", "Gives the words for an error."),
        ("What does winch_strerror return?", "Returns: a string that describes it."),
        ("What is the drum argument of winch_create_drum?", "drum: pointer to the drum created."),
        ("What does the source_name parameter of winch_create_drum hold?", "source name: the name of the new drum"),
    ],
)
def test_what_a_function_does_and_takes(question: str, quote: str) -> None:
    text, sure = first(question, *PAGES)
    assert text.startswith(quote)
    assert sure > 0.5


def test_how_a_function_is_called_is_its_signature() -> None:
    for question in ("How do I call winch_strerror?", "What is the signature of winch_strerror?"):
        assert any("winch_strerror (int error)" in quote for quote in quotes(question, *PAGES)), question


def test_lines_that_only_look_like_parameters_stay() -> None:
    notice = Passage(
        "n", "Notice: the winch (a drum) must rest at night.\n\nCall set_rest(hours) to let it rest.", "Rest"
    )
    assert any("Notice" in quote for quote in quotes("When must the winch rest?", notice))
    assert any("Notice" in quote for quote in quotes("What does set_rest do?", notice))


@given(text=st.text("ab_: (),*\n", max_size=60), start=st.integers(0, 60), end=st.integers(0, 60))
def test_any_place_of_any_text_may_be_a_parameter(text: str, start: int, end: int) -> None:
    is_signature(text[start:end])
    assert not parameter_at(text, start, end) or ":" in text[start:end] or "-" in text[start:end]
