"""The answer is read off a reply however it is introduced, formatted or followed by more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.uncertainty import final_answer, is_answer

ANSWERS = ("83", "42.5 km", "Mara Venn", "J. R. Moss", "12 metres", "yes", "the Old Rhine", "19 January 1877", "1,600")
LEADS = (
    "the answer is ", "The answer is: ", "So the final answer is ", "Thus, the correct answer is ", "Answer: ",
    "**Answer:** ", "Final answer: ", "The answer to the question is ", "The short answer would be ",
    "Based on the passages, the answer is ", "According to passage 2, the answer is ", "So the answer is that ",
)  # fmt: skip
TAILS = ("", ".", ". So the answer is something else.", ".\nIt was measured twice.", ". It lies in 1933.", "\n\n")
WRAPS = ("{}", "**{}**", '"{}"', "<answer>{}</answer>", "\\boxed{{{}}}", "`{}`")


@given(*map(st.sampled_from, (ANSWERS, LEADS, TAILS, WRAPS)), st.sampled_from(("", "The lake lies deep. ")))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_however_it_is_said(answer: str, lead: str, tail: str, wrap: str, before: str) -> None:
    stated = "answer:" in lead.replace("*", "").lower() and "is" not in lead and "So the answer is" in tail
    # After a label steps may come: what is stated after it is the answer.
    assert final_answer(before + lead + wrap.format(answer) + tail) == ("something else" if stated else answer)


@given(*map(st.sampled_from, (ANSWERS, ("", *LEADS), TAILS)))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_a_reply_that_repeats_the_lead(answer: str, lead: str, tail: str) -> None:
    """Prompts end in "So the answer is", and models say it once more."""
    assert final_answer(f"the answer is {lead}{answer}{tail}") == answer


def test_steps_behind_a_label_end_in_the_answer() -> None:
    steps = "Answer: Fidelio was composed by Beethoven. He was born in Bonn. So the answer is Bonn."
    assert final_answer(steps) == "Bonn"


@pytest.mark.parametrize(("text", "answer"), [
    ("The answer is 83. So the answer is 83.", "83"), ("Answer:\nParis", "Paris"),
    ("The answer is:\n1. Mara Venn", "Mara Venn"), ("Paris is the correct answer.", "Paris"),
    ("What is the answer?", None), ("x is the answers", None), ("He gave an answer: none.", None),
    ("In answer to this, the harbour is deep.", None), ("the answer is", None), ("The answer isn't given.", None),
])  # fmt: skip
def test_forms_by_themselves(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


def test_the_published_reading_wants_the_word_answer() -> None:
    assert final_answer("Why? X is the answers to it.", published=True) is None


@pytest.mark.parametrize(
    "text", ["unknown", "Unknown.", "not stated in the passages", "It is not known", "Not specified.", "UNKNOWN"]
)
def test_saying_that_nothing_is_known_is_no_answer(text: str) -> None:
    assert not is_answer(text)


@pytest.mark.parametrize("text", ["the Unknown Soldier", "no", "not before 1871", "Notting Hill"])
def test_answers_that_look_like_it(text: str) -> None:
    assert is_answer(text)
