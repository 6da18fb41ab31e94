"""Questions which of two is first or is more are read as two questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.reading.comparisons import comparison


@pytest.mark.parametrize(
    ("question", "asked", "answers", "chosen"),
    [
        ("Who was born first, Ada or Bo?", "When was {} born?", ("3 May 1841", "1839"), "Bo"),
        ("Did Ada or Bo die later?", "When did {} die?", ("in 1901", "10 June 1899"), "Ada"),
        ("Who was born later out of Ada and Bo?", "When was {} born?", ("May 1841", "12 June 1841"), "Bo"),
        ("Who is younger, Ada or Bo?", "When was {} born?", ("1841", "1839"), "Ada"),
        ("Which film came out first, Ada or Bo?", "When did {} come out?", ("1999", "2004"), "Ada"),
        ("Which of the clubs was founded earlier, Ada or Bo?", "When was {} founded?", ("1999", "2004"), "Ada"),
        ("Which opens earlier, Ada or Bo?", "When does {} open?", ("9:30", "8 am"), "Bo"),
        ("Which train leaves later: Ada or Bo?", "When does {} leave?", ("9:30 pm", "14:05"), "Ada"),
        ("Which is cheaper, Ada or Bo?", "How much does {} cost?", ("£9.50", "£4"), "Bo"),
        ("Which ticket costs more, Ada or Bo?", "How much does {} cost?", ("9.50 pounds", "4 pounds"), "Ada"),
        ("Is Ada or Bo taller?", "How tall is {}?", ("1,204 m", "980 m"), "Ada"),
        ("Which is longer, Ada or Bo?", "How long is {}?", ("900 m", "1.2 km"), "Bo"),
        ("Who was born first, Ada or Bo?", "When was {} born?", ("at a market in 1921", "June 1920"), "Bo"),
        ("Which is smaller, Ada or Bo?", "How large is {}?", ("2 million acres", "900,000 acres"), "Bo"),
        ("Who has more goals, Ada or Bo?", "How many goals does {} have?", ("12", "7"), "Ada"),
    ],
)
def test_the_two_are_asked_about_and_their_values_compared(
    question: str, asked: str, answers: tuple[str, str], chosen: str
) -> None:
    found = comparison(question)
    assert found is not None
    assert found.questions == (asked.format("Ada"), asked.format("Bo"))
    number = found.choose(*answers)
    assert number is not None
    assert found.names[number] == chosen
    assert found.choose(*reversed(answers)) == 1 - number


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Who was born first, Ada or Bo?", ("1841", "1841")),
        ("Who was born first, Ada or Bo?", ("1841", "3 May 1841")),  # either may be earlier
        ("Who was born first, Ada or Bo?", ("in Leeds", "1841")),
        ("Which opens earlier, Ada or Bo?", ("1904", "9:30")),
        ("Which is taller, Ada or Bo?", ("12 m", "30 kg")),
        ("Which is cheaper, Ada or Bo?", ("£4", "$3")),
        ("Which is cheaper, Ada or Bo?", ("free", "4 pounds")),
    ],
)
def test_what_cannot_be_compared_chooses_none(question: str, answers: tuple[str, str]) -> None:
    found = comparison(question)
    assert found is not None
    assert found.choose(*answers) is None


@pytest.mark.parametrize(
    "question",
    [
        "Which film has the director who died first, Low Water or High Tide?",
        "Which film is better, Low Water or High Tide?",
        "Which came first?",
        "Who was born first, Ada or Bo or Cy?",
        "Is it open on Monday or Tuesday?",
        "What is the price, or is it free?",
        "Who founded the club?",
        "Who lived longer, Ada or Bo?",
    ],
)
def test_other_questions_are_left_alone(question: str) -> None:
    assert comparison(question) is None


@given(st.text(max_size=120), st.text(max_size=40), st.text(max_size=40))
def test_any_text_can_be_asked(text: str, one: str, other: str) -> None:
    for question in (text, f"Who was born first, {one} or {other}?", f"Which is longer, {one} or {other}?"):
        found = comparison(question)
        if found is not None:
            forward, backward = found.choose(one, other), found.choose(other, one)
            assert backward == (None if forward is None else 1 - forward)
