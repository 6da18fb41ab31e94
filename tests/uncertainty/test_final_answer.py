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


@pytest.mark.parametrize(("text", "answer"), [
    ("The answer is 83. So the answer is 83.", "83"), ("Answer:\nParis", "Paris"),
    ("The answer is:\n1. Mara Venn", "Mara Venn"), ("Paris is the correct answer.", "Paris"),
    ("What is the answer?", None), ("x is the answers", None), ("He gave an answer: none.", None),
    ("In answer to this, the harbour is deep.", None), ("the answer is", None), ("The answer isn't given.", None),
    ("Answer: Fidelio was composed by Beethoven. He was born in Bonn. So the answer is Bonn.", "Bonn"),
    ("So the answer is: Paris.", "Paris"), ("The answer is Paris, France.", "Paris, France"),
    ("the answer is Paris", "Paris"), ("Therefore THE ANSWER IS 42.5 km.", "42.5 km"), ("", None),
    ("It is big. Paris is the answer.", "Paris"), ("Paris is the answer.", "Paris"), ("The answer is.", None),
    ("The answer is Dr. Smith.", "Dr. Smith"), ("The answer is John Q. Public. So", "John Q. Public"),
    ("The answer is J. R. Moss. Yes.", "J. R. Moss"), ("The answer is J. Smith.", "J. Smith"),
    ("The answer is the U.S. Senate. It sat.", "the U.S. Senate"), ("The answer is Acme Co. Ltd.", "Acme Co. Ltd."),
    ("The answer is St. John's. Yes.", "St. John's"), ("The answer is 5 p.m. on Friday.", "5 p.m. on Friday"),
    ("The answer is in Washington, D.C.", "in Washington, D.C."), ("John F. Kennedy is the answer.", "John F. Kennedy"),
    ('The answer is "Paris." He said so.', "Paris"), ("So the answer is A. Later the answer is B.", "A"),
    ("No conclusion here.", None), ("the answer is : New York\nCity.", "New York"),
    ('The answer is "unknown".', "unknown"),
])  # fmt: skip
def test_forms_by_themselves(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(("text", "answer"), [
    ("So the answer is no, they lie in two countries.", "no"), ("The answer is No, Orm is older.", "No"),
    ("The answer is: No.", "No"), ("So the answer is Yes, both were founded in the 1990s.", "Yes"),
    ("So the answer is yes because the two rivers meet.", "yes"), ("The answer is no; one is a lake.", "no"),
    ("The answer is **Yes** – as is said in [1].", "Yes"), ("The answer is No. The bridge is longer.", "No"),
    ("Answer: Yes, 12 of them.", "Yes"), ("the answer is yes", "yes"), ("So the answer is Yes!", "Yes"),
    # these begin alike and are no yes or no
    ("So the answer is No. 5.", "No. 5"), ("The answer is Yes, Prime Minister.", "Yes, Prime Minister"),
    ("The answer is No, No, Nanette.", "No, No, Nanette"), ("The answer is no later than 1911.", "no later than 1911"),
    ("The answer is No Name on the Bullet.", "No Name on the Bullet"), ("The answer is no-fly zones.", "no-fly zones"),
    ("The answer is No, the Sea of Sand.", "No"), ("The answer is Yes, the Lord of the Isles.", "Yes"),
    ("The answer is Norway, which joined in 1949.", "Norway, which joined in 1949"),
])  # fmt: skip
def test_a_yes_or_no_ends_where_its_reason_begins(text: str, answer: str) -> None:
    assert final_answer(text) == answer
    assert is_answer(answer)


@pytest.mark.parametrize(("text", "answer"), [
    ("Why? Who! Paris is the answer.", "paris"), ("The answer is Paris! Then, he left.", "paris! then"),
    ("The answer is it? No, it is Rome.", "it? no"), ("Why? X is the answers to it.", None),
    ("So the answer is Yahoo! Inc.", "yahoo! inc"), ("The answer is 42!", None), ("the answer is: : x.", ": x"),
    ("He left. Paris  is the answer", "paris"), ("He left. Paris\nis the answer", "paris"),
])  # fmt: skip
def test_the_published_reading_ends_at_a_comma_or_full_stop_only(text: str, answer: str | None) -> None:
    assert final_answer(text, published=True) == answer


@pytest.mark.parametrize(("said", "texts"), [
    (False, ["unknown", "Unknown.", "not stated in the passages", "It is not known", "Not specified.", "UNKNOWN"]),
    (False, ["The context does not say.", "None of the passages mentions her.", "I don't know.", "No answer."]),
    (False, ["It cannot be determined from the passages.", "cannot be inferred", "There is no information about him."]),
    (False, ["The text names two rivers. So the answer is unknown.", "So the answer is that the text does not say."]),
    (True, ["the Unknown Soldier", "no", "not before 1871", "Notting Hill"]),
    (True, ["No, the passages do not mention a third bridge.", "The report does not name him, but Mara Venn", "none"]),
    (True, ["It is unknown who lit it. The keeper was Mara Venn. So the answer is Mara Venn.", "Its age can be read."]),
    (True, ["The documents do not say when. It was opened in 1911. The answer is 1911.", "nobody", "0"]),
])  # fmt: skip
def test_saying_that_nothing_is_known_is_no_answer(said: bool, texts: list[str]) -> None:
    assert [is_answer(text) for text in texts] == [said] * len(texts)
