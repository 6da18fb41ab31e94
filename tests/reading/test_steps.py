"""Questions of several steps are split by their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.reading.steps import MOST, first_steps

SPLIT = [
    ("When was the founder of the museum born?", "Who is the founder of the museum?", "When was Ada Lind born?"),
    ("Where did Edsel Ford's father die?", "Who is Edsel Ford's father?", "Where did Ada Lind die?"),
    ("What is the chair's phone number?", "Who is the chair?", "What is Ada Lind's phone number?"),
    ("What is the phone number of our treasurer?", "Who is our treasurer?", "What is the phone number of Ada Lind?"),
    ("Who is Ada's mother-in-law?", "Who is Ada's spouse?", "Who is Bo Lind's mother?"),
    (
        "Who is the paternal grandmother of Otto, Duke Of Bar?",
        "Who is the father of Otto, Duke Of Bar?",
        "Who is the mother of Ada Lind?",
    ),
    (
        "What river flows through the city Kevin Durant played for?",
        "What is the city Kevin Durant played for?",
        "What river flows through Ada Lind?",
    ),
    (
        "When did the country where Clonbrook is located, join the league?",
        "What is the country where Clonbrook is located?",
        "When did Ada Lind, join the league?",
    ),
    ("Who leads the team that owns Atlas?", "What is the team that owns Atlas?", "Who leads Ada Lind?"),
    ("When does the team that owns Atlas meet?", "What is the team that owns Atlas?", "When does Ada Lind meet?"),
    ("When did the wife of Tom Rowe make soup?", "Who is the wife of Tom Rowe?", "When did Ada Lind make soup?"),
    (
        "What is the date of birth of Simon Fraser, 14th Lord Lovat's father?",
        "Who is Simon Fraser, 14th Lord Lovat's father?",
        "What is the date of birth of Ada Lind?",
    ),
    (
        "Who is the child of the director of film Land Of My Fathers (Film)?",
        "Who is the director of film Land Of My Fathers (Film)?",
        "Who is the child of Ada Lind?",
    ),
]


@pytest.mark.parametrize(("question", "first", "then"), SPLIT, ids=[question for question, *_ in SPLIT])
def test_a_phrase_that_names_something_by_its_relation_is_asked_about_first(
    question: str, first: str, then: str
) -> None:
    steps = first_steps(question)
    assert first in [step.question for step in steps]
    answer = "Bo Lind" if "Bo Lind" in then else "Ada Lind"
    assert then in [step.then(answer) for step in steps if step.question == first]


@pytest.mark.parametrize(
    "question",
    [
        "Who founded the museum?",
        "Who is the founder of the museum?",
        "Who was the governor of California in 1895?",
        "What is the capital of France?",
        "What is the population of France?",
        "How many campuses does the University of California have?",
        "Which film has the director who died first, Low Water or High Tide?",
        "Fresno is the capital of what state?",
        "What is the name of the group that founded the colony?",
        "What is the title of the person who runs the house?",
        "Which archaeologist proposed the idea that the forest was empty?",
        "How do I set the timeout?",
        "Wo wurde der Gründer des Museums geboren?",
        "???",
    ],
)
def test_a_question_of_one_step_is_left_whole(question: str) -> None:
    assert first_steps(question) == ()


def test_only_the_innermost_phrase_is_asked_about() -> None:
    steps = first_steps("Where was the architect of the hall where the fair will be held born?")
    assert all(step.phrase.startswith("the hall") for step in steps)
    (step,) = (step for step in steps if step.question == "What is the hall where the fair will be held?")
    (second,) = first_steps(step.then("Larkfield Hall") or "")
    assert second.question == "Who is the architect of Larkfield Hall?"


@pytest.mark.parametrize("answer", ["the founder", "founder of the museum", "she", "his sister", "someone", "x" * 90])
def test_what_names_nobody_cannot_stand_for_a_person(answer: str) -> None:
    (step,) = first_steps("When was the founder of the museum born?")
    assert step.then(answer) is None


def test_a_thing_may_have_no_capital() -> None:
    step = first_steps("How tall is the hall where the choir sings?")[0]
    assert step.then("the small hall") == "How tall is the small hall?"


def test_a_possessive_answer_loses_its_ending() -> None:
    (step,) = first_steps("When was the founder of the museum born?")
    assert step.then("Ada Lind's") == "When was Ada Lind born?"


WORDS = st.sampled_from(
    [
        "who", "what", "where", "did", "is", "the", "of", "founder", "father's", "Ada", "Lind", "city", "that", "born",
        "museum", "in", "'s", ",", "(", ")", "or", "which", "paternal", "grandmother",
    ]
)  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=40).map(" ".join)))
def test_any_text_is_split_into_parts_of_itself(text: str) -> None:
    steps = first_steps(text)
    assert len(steps) <= MOST
    for step in steps:
        assert step.phrase
        assert step.phrase.lower() in step.question.lower()
        assert step.then("Bo Ek") == f"{step.before}Bo Ek{step.after}"


def test_a_long_text_is_no_question() -> None:
    for text in ("the founder of " * 4000, "Ada's father's " * 4000, "the city where A was born " * 3000):
        assert first_steps(f"Where is {text}?") == ()
