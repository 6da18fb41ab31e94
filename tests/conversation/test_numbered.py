"""The number, version or letter of a name belongs to it: Windows 10 is not Windows 11."""

from __future__ import annotations

import pytest

from shared_core import Answer, Citation, Claim, Passage, SelfReflectEngine, Span
from shared_core.conversation import Asked, Turn, recognise
from shared_core.conversation.missing import is_about
from shared_core.conversation.phrases import phrases_of
from shared_core.conversation.rules import Exchange, rewrite
from shared_core.retrieval import BM25Retriever


@pytest.mark.parametrize(("text", "names"), [
    ("When was Windows 11 released?", ["Windows 11"]),
    ("Windows 11 was released in 2021.", ["Windows 11"]),
    ("Is the iPhone 15 Pro waterproof?", ["iPhone 15 Pro"]),
    ("What is new in Python 3.12?", ["Python 3.12"]),
    ("What is Flat 12's rent?", ["Flat 12"]),
    ("what is the rent of flat no. 12?", ["flat no. 12"]),
    ("What does error 7 mean?", ["error 7"]),
    ("Does kiln 3 work?", ["kiln 3"]),
    ("Is hepatitis B contagious?", ["hepatitis B"]),
    ("what is vitamin d good for?", ["vitamin d"]),
    ("Does room B of flat 12 have a bath?", ["room B", "flat 12"]),
    ("What does section 12(b) say?", ["section 12(b)"]),
    ("Who owns 12 Harbour Street?", ["12 Harbour Street"]),
    ("Who won the 2023 Tide Festival?", ["2023 Tide Festival"]),
    ("Who commanded Apollo 11?", ["Apollo 11"]),
])  # fmt: skip
def test_the_number_of_a_name_belongs_to_it(text: str, names: list[str]) -> None:
    assert [p.text for p in phrases_of(text)] == names
    assert not any(p.is_person for p in phrases_of(text))


@pytest.mark.parametrize(("text", "names"), [
    ("The Gut Bridge was opened on 2 May 1937 by Roland Peake.", ["Gut Bridge", "Roland Peake"]),
    ("Does the bus run 3 times a day?", []),
    ("Does it cost 5 euros?", []),
    ("Can employees get 30 days?", []),
    ("In 1904 it was opened. Only 3 remained. About 40 left.", []),
    ("Call 112 in an emergency.", []),
    ("Did rent rise in Oslo 5 times?", ["Oslo"]),
    ("Is the population of Oslo 700,000?", ["Oslo"]),
    ("Did Ada Brandt win 3 medals?", ["Ada Brandt"]),
    ("What can I do?", []),
    ("1. Log into the Tide Portal\n2. Wait", ["Tide Portal"]),
    ("Does it hinder T cells, usually 14 of them?", ["T"]),
])  # fmt: skip
def test_an_amount_or_a_date_belongs_to_no_name(text: str, names: list[str]) -> None:
    assert [p.text for p in phrases_of(text)] == names


def read(question: str, *exchanges: Exchange) -> list[str]:
    return [r.question for r in rewrite(question, recognise(question), exchanges)]


WINDOWS = Exchange("When was Windows 11 released?", "Windows 11 was released in 2021. [1]")
FESTIVAL = Exchange("How much did the 2023 Tide Festival cost?")
POOL = Exchange("When is the pool open?", "From 9:00 to 17:00.")
FULL = {
    WINDOWS: {
        "When does support for it end?": "When does support for Windows 11 end?",
        "What about Windows 10?": "When was Windows 10 released?",
        "And 10?": "When was Windows 10 released?",
        "and for Windows 10?": "When was Windows 10 released?",
        "What about the Nova 7?": "When was the Nova 7 released?",
        "And in Norway?": "When was Windows 11 released in Norway?",
    },
    Exchange("How heavy is the AquaLift 300?"): {
        "And its price?": "What is the AquaLift 300's price?",
        "What about the 500?": "How heavy is the AquaLift 500?",
    },
    Exchange("When was Python 3.12 released?"): {"And version 3.11?": "When was Python 3.11 released?"},
    Exchange("How is hepatitis B spread?"): {
        "Is it dangerous?": "Is hepatitis B dangerous?",
        "And hepatitis A?": "How is hepatitis A spread?",
    },
    Exchange("How much does plan B cost?"): {
        "What does it include?": "What does plan B include?",
        "And C?": "How much does plan C cost?",
    },
    Exchange("Does Mara live in flat 14?"): {"And in flat 12?": "Does Mara live in flat 12?"},
    Exchange("What is flat 12's rent?"): {"And the deposit?": "What is flat 12's deposit?"},
    Exchange("What is the rent of flat 12?"): {"And the deposit?": "What is the deposit of flat 12?"},
    Exchange("Who owns 12 Harbour Street?"): {
        "When was it built?": "When was 12 Harbour Street built?",
        "And number 14?": "Who owns 14 Harbour Street?",
    },
    FESTIVAL: {"And in 2024?": "How much did the 2024 Tide Festival cost?"},
    Exchange("How many users did Windows 11 have in 2022?"): {
        "And in 2023?": "How many users did Windows 11 have in 2023?",
        "And Windows 10?": "How many users did Windows 10 have in 2022?",
    },
    Exchange("Which Windows is the newest?", "Windows 11 is the newest Windows."): {
        "When was it released?": "When was Windows 11 released?",
    },
    Exchange("Which models are sold?", "The Nova 5 and the Nova 7."): {
        "How heavy is the second one?": "How heavy is the Nova 7?",
    },
    POOL: {"What about Thursday?": "When is the pool open on Thursday?"},
    Exchange("When is the pool open on Thursday?"): {
        "And on Saturday?": "When is the pool open on Saturday?",
        "And Saturday?": "When is the pool open on Saturday?",
    },
}  # fmt: skip


@pytest.mark.parametrize(("last", "question"), [(last, question) for last, full in FULL.items() for question in full])
def test_a_follow_up_keeps_the_number_or_changes_it(last: Exchange, question: str) -> None:
    assert read(question, last) == [FULL[last][question]]


ROW = "Model: AquaLift 500; Weight: 7.9 kg; Power: 750 W; Price: €199 [1]"
TABLE = "| Model | Weight | Power |\n|---|---|---|\n| AquaLift 500 | 7.9 kg | 750 W |"


@pytest.mark.parametrize("reply", [ROW, TABLE])
def test_the_name_of_a_column_is_no_topic(reply: str) -> None:
    assert read("And how heavy is it?", Exchange("What is the price of the AquaLift 500?", reply)) == [
        "How heavy is the AquaLift 500?"
    ]
    assert "Power" not in " ".join(read("How much does it cost?", Exchange("Which pump is the strongest?", reply)))


def test_what_cannot_stand_in_a_place_is_not_put_there() -> None:
    assert read("What about pets?", Exchange("Who is the landlord?", "Harrow Estates Ltd.")) == []
    assert read("And the chair?", Exchange("Who is the treasurer?")) == ["Who is the chair?"]


# --- evidence ------------------------------------------------------------------------------------------------------


def about(topic: str, passage: str, sentence: str) -> bool:
    start = passage.index(sentence)
    claim = Claim(sentence, 0.9, (Citation((Span("p", start, start + len(sentence), sentence),)),))
    return is_about(Answer("?", sentence, (claim,), (Passage("p", passage),)), [frozenset(topic.split())])


NOVAS = "The Nova 5 costs €90. Its battery lasts 8 hours. The Nova 7 costs €140. The battery lasts 12 hours."


@pytest.mark.parametrize(("topic", "passage", "sentence", "right"), [
    ("nova 7", NOVAS, "The Nova 5 costs €90.", False),
    ("nova 5", NOVAS, "The Nova 5 costs €90.", True),
    ("nova 5", NOVAS, "Its battery lasts 8 hours.", True),
    ("nova 5", NOVAS, "The battery lasts 12 hours.", False),
    ("nova 7", NOVAS, "The battery lasts 12 hours.", True),
    ("windows 11", "Windows 10 has 11 editions. Support ends in 2025.", "Support ends in 2025.", False),
    ("windows 11", "Windows 10 and 11 end in 2031.", "Windows 10 and 11 end in 2031.", True),
    ("windows 11", "Windows ends in 2031.", "Windows ends in 2031.", False),
    ("tide festival 2024", "The Rope Festival 2024 cost €9.", "The Rope Festival 2024 cost €9.", False),
    ("nova 7", "The Nova 7 Pro costs €190.", "The Nova 7 Pro costs €190.", False),
    ("nova 7 pro", "The Nova 7 Pro costs €190.", "The Nova 7 Pro costs €190.", True),
    ("hepatitis a", "Hepatitis B is a disease of the liver.", "Hepatitis B is a disease of the liver.", False),
    ("hepatitis a", "Hepatitis A is a disease.", "Hepatitis A is a disease.", True),
    ("12 harbour street", "14 Harbour Street has 12 rooms.", "14 Harbour Street has 12 rooms.", False),
])  # fmt: skip
def test_evidence_must_have_the_number_of_the_topic(topic: str, passage: str, sentence: str, right: bool) -> None:
    assert about(topic, passage, sentence) is right


SHELF = [
    ["Windows 10 was released in 2015. Support for Windows 10 ends in 2025.",
     "Windows 11 was released in 2021. Support for Windows 11 ends in 2031."],
    ["Chapter 3 describes the harbour. It was written by Ada Brandt.",
     "Chapter 5 describes the lighthouse. It was written by Tom Beck."],
]  # fmt: skip


@pytest.mark.parametrize(("shelf", "first", "then", "right", "wrong"), [
    (SHELF[0], "When was Windows 11 released?", "When does support for it end?", "2031", "2025"),
    (SHELF[0], "When was Windows 10 released?", "When does support for it end?", "2025", "2031"),
    (SHELF[1], "What does chapter 5 describe?", "Who wrote it?", "Tom Beck", "Ada Brandt"),
])  # fmt: skip
def test_nothing_is_shown_about_another_number(shelf: list[str], first: str, then: str, right: str, wrong: str) -> None:
    engine = SelfReflectEngine(BM25Retriever([Passage(f"p{i}", text) for i, text in enumerate(shelf)]))
    said = engine.answer(first)
    answer = engine.answer(Asked(then, history=(Turn("user", first), Turn("assistant", said.text))))
    assert right in answer.text
    assert wrong not in answer.text
    assert not any(wrong in claim.text for claim in answer.kept_claims)
