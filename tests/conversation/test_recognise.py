"""Follow-ups are recognised from words alone."""

from __future__ import annotations

import pytest

from shared_core.conversation import recognise

KINDS = {
    "reference": [
        "When did she retire?", "Who made it?",
        "and when was it closed?", "and the second one?", "How many people live there?",
        "Who designed that bridge?", "Which is longer?", "How can I create one?", "Does this need a restart?",
        "Thanks a lot. How high is it?", "Who was Steward then?", "is this song famous in Asia as well?",
        "And how long did it take to build?", "How much does it cost to enter?", "How much does it cost to get in?",
        "What did it cost to build?",
    ],
    "ellipsis": ["Why?", "And in 1904?", "What about the Gut Bridge?", "tell me more", "and the ferry?", "By whom?",
                 "and its length?", "In winter?", "by when?", "And with whom?"],
    "about_answer": [
        "Are you sure?", "summarise what you said", "Can you summarise that in German?", "that's wrong", "Really?",
        "Explain it in simple words", "What are your sources?", "You said 1902. Are you sure?", "How do you know that?",
        "what do you mean?", "Can you repeat that?", "Is that right?", "Say that again shorter",
        "say it again, but shorter please", "Make it shorter.",
    ],
    "nothing": ["yes", "yes please", "ok", "I see.", "thank you, that was helpful", "never mind", "Hello!"],
    "full": [
        "Who founded the Tide Museum?", "When did Lavinia Hathe retire and where did she live?",
        "Is it true that the Gut Bridge was built in 1937?", "How long does it take to cross the Narrow Sound?",
        "Is there a ferry to Ellisk?", "What is the default of max_connections?",
        "Summarise the history of the Tide Board.", "Did the Moot say that the bridge was too dear?",
        "What did it cost to build the Gut Bridge?",
    ],
    "open": ["When was the station closed?", "the man that built the bridge", "What is the lite plan?",
             "I'd like to visit the museum. When does it open?", "If I borrow money, can I treat it as equity?",
             "What is this manual about?", "Is it possible to change the password?",
             "How long does it take to change the password?", "What does it mean to abdicate?",
             "What does it take to win?"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "question"), [(kind, q) for kind, found in KINDS.items() for q in found])
def test_kinds(kind: str, question: str) -> None:
    assert recognise(question).kind == kind


def test_the_place_of_the_referring_word_is_that_in_the_question() -> None:
    question = "  Thanks. When did she retire?"
    found = recognise(question)
    assert question[found.start : found.end] == found.word == "she"


@pytest.mark.parametrize("odd", ["?", "…", "🙂", "a" * 50_000, "it " * 20_000, "\n", "他什么时候退休的？"])
def test_odd_texts_do_not_fail(odd: str) -> None:
    assert recognise(odd).kind
