"""The question that a model wrote is taken out of what it wrote around it."""

from __future__ import annotations

import pytest

from shared_core import Passage, SelfReflectEngine
from shared_core.conversation import Asked, Turn
from shared_core.conversation.condense import refusal
from shared_core.conversation.rewriting import read_rewriting
from shared_core.conversation.rules import Exchange
from shared_core.lm import ScriptedLM
from shared_core.retrieval import BM25Retriever

FULL = "When does support for Windows 11 end?"
WRITTEN = [
    FULL,
    f"Sure! Here is the rewritten question: {FULL}",
    f"Here is the rewritten question:\n{FULL}",
    f"Here's the standalone question:\n\n> {FULL}",
    f"Certainly, here you go: {FULL}",
    f"I would rewrite it as follows: {FULL}",
    f"Rewritten question: {FULL}",
    f"**Standalone question:** {FULL}",
    f"## Rewritten question\n{FULL}",
    f"**{FULL}**",
    f"“{FULL}”",
    f"« {FULL} »",
    f"1. {FULL}",
    f"{FULL}\n{FULL}",
    f"Original question: When does support for it end?\nRewritten question: {FULL}",
    f'Sure.\n\nRewritten question: "{FULL}"\n\nLet me know if you need anything else!',
    f'{FULL}\n(I replaced "it" with Windows 11.)',
    f"{FULL}\n\nWould you like me to answer it?",
    f'{{"question": "{FULL}"}}',
    f'```json\n{{\n  "rewritten_question": "{FULL}"\n}}\n```',
    f'{{"original_question": "When does it end?", "standalone_question": "{FULL}"}}',
    f"<question>{FULL}</question>",
    f"<think>Of what? Of Windows 11.</think>\n\n{FULL}",
    f"It is Windows 11, is it not?</think>{FULL}",
]
NO_QUESTION = [
    "",
    "?",
    f"<think>{FULL}",
    f"{FULL} It ends in 2031.",
    f"{FULL}\nAnswer: 2031.",
    f"Answer: 2031. Question: {FULL}",
    f"It ends in 2031. {FULL}",
    f"{FULL}\nWhen was Windows 11 released?",
    f"1. {FULL}\n2. Who made it?",
    f'{{"question": "{FULL}", "answer": "2031"}}',
]


@pytest.mark.parametrize("reply", WRITTEN)
def test_the_question_is_taken_out_of_talk_and_marks(reply: str) -> None:
    assert read_rewriting(reply) == FULL


@pytest.mark.parametrize("reply", NO_QUESTION)
def test_nothing_is_taken_where_there_are_several_questions_or_an_answer(reply: str) -> None:
    assert read_rewriting(reply) == ""


@pytest.mark.parametrize("question", [
    "When was the Tide Museum closed", "Tell me more about the Tide Museum.", "Who is Dr. Anna Kowalska?",
    "What does St. Mary's cost?", "What is Dune: Part Two about?",
])  # fmt: skip
def test_a_question_alone_stays_as_it_is(question: str) -> None:
    assert read_rewriting(question) == question


def test_a_rewriting_must_keep_the_number() -> None:
    last = [Exchange("When was Windows 11 released?", "In 2021.")]
    follow_up = "When does support for it end?"
    assert refusal(FULL, follow_up, last) == ""
    assert "leaves out the number of Windows 11" in refusal("When does support for Windows end?", follow_up, last)
    assert "adds 10" in refusal("When does support for Windows 10 end?", follow_up, last)


@pytest.mark.parametrize("reply", [WRITTEN[1], WRITTEN[2], WRITTEN[7], WRITTEN[18]])
def test_a_chatty_model_condenses(reply: str) -> None:
    shelf = BM25Retriever([Passage("w", "Support for Windows 11 ends in 2031.")])
    model = ScriptedLM(lambda request: reply if "Last question" in request.prompt.text else "")
    history = (Turn("user", "When was Windows 11 released?"), Turn("assistant", "In 2021."))
    answer = SelfReflectEngine(shelf, model).answer(Asked("When does support for it end?", history=history))
    assert (answer.metadata["condensed_question"], answer.metadata["condensed_by"]) == (FULL, "model")


FOUNDED = [Exchange("Who founded the workshop?", "Ingrid Halloran founded the workshop.")]
IGNORED = [
    ("Why?", "Who founded the workshop?", "does not ask why"),
    ("How come?", "Who founded the workshop?", "does not ask why"),
    ("Where was she from?", "Who founded the workshop?", "does not ask where"),
    ("When was that?", "Who founded the workshop?", "does not ask when"),
    ("And since when?", "Who founded the workshop?", "does not ask when"),
    ("Who was it?", "Where was the workshop founded?", "does not ask who"),
    ("How much is it?", "How long is the workshop?", "does not ask how much"),
    ("And how many are there?", "Where is the workshop?", "does not ask how many"),
    ("How is it now?", "Is the workshop founded?", "does not ask how"),
    ("Do you know when it was?", "Who founded the workshop?", "does not ask when"),
    ("Is it?", "Who founded the workshop?", "repeats"),
    ("Was she there?", "Who founded the workshop?", "repeats"),
    ("Is the workshop theirs?", "Who founded the workshop?", "repeats"),
]
KEPT = [
    ("Why?", "For what reason was the workshop founded?"),
    ("Why?", "Why was the workshop founded?"),
    ("When was that?", "In what year was the workshop founded?"),
    ("When is it open?", "What time is the workshop open?"),
    ("Where was she from?", "Which city was Ingrid Halloran from?"),
    ("Who is it?", "What is the name of the workshop?"),
    ("How much is it?", "What is the price of the workshop?"),
    ("How long is it?", "How many hours is the workshop?"),
    ("How big is it?", "How large is the workshop?"),
    ("What about Ingrid?", "When was Ingrid Halloran there?"),
    ("How about her?", "Where was Ingrid Halloran?"),
    ("When it rains, is it closed?", "Is the workshop closed if it rains?"),
    ("Who founded it again?", "Who founded the workshop again?"),
    ("Who founded the workshop?", "Who founded the workshop?"),
]


@pytest.mark.parametrize(("follow_up", "written", "why"), IGNORED)
def test_a_rewriting_that_ignores_the_follow_up_is_refused(follow_up: str, written: str, why: str) -> None:
    assert why in refusal(written, follow_up, FOUNDED)


@pytest.mark.parametrize(("follow_up", "written"), KEPT)
def test_a_question_may_be_asked_in_other_words(follow_up: str, written: str) -> None:
    assert refusal(written, follow_up, FOUNDED) == ""


def test_a_thing_spoken_of_before_may_be_asked_of_again() -> None:
    asked = [Exchange("What does Alpha cost?", "£5."), Exchange("What does Beta cost?", "£7.")]
    assert refusal("What does Alpha cost?", "And Alpha again?", asked) == ""


@pytest.mark.parametrize("question", ["Why?", "Where was she from?"])
def test_where_the_model_repeats_the_last_question_the_rule_decides(question: str) -> None:
    shelf = BM25Retriever([Passage("w", "Ingrid Halloran, from Stromness, founded the workshop as there was none.")])
    model = ScriptedLM(lambda request: FOUNDED[0].question if "Last question" in request.prompt.text else "")
    history = (Turn("user", FOUNDED[0].question), Turn("assistant", FOUNDED[0].reply))
    answer = SelfReflectEngine(shelf, model).answer(Asked(question, history=history))
    assert answer.metadata.get("condensed_question") != FOUNDED[0].question
    assert answer.metadata.get("condensed_by") in (None, "rule")
