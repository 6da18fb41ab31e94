"""Questions in a conversation: what is asked of the documents, and what is declined."""

from __future__ import annotations

import pytest

from shared_core import Answer, Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.conversation import Asked, Turn
from shared_core.conversation.condense import check_template, refusal
from shared_core.conversation.rules import Exchange
from shared_core.errors import AbstainedError, SettingsError
from shared_core.lm import ScriptedLM
from shared_core.retrieval import BM25Retriever

SHELF = BM25Retriever(
    [
        Passage("museum", "The Tide Museum was founded in 1902 by Lavinia Hathe. The Tide Museum was closed in 1941."),
        Passage(
            "mill", "The Old Mill was founded by Rufus Crail. The mill was closed in 1833. Its clerk retired in 1799."
        ),
        Passage("board", "Senna Brode of the Tide Board retired in 1940. She was a mathematician."),
    ]
)
FOUNDED = (
    Turn("user", "Who founded the Tide Museum?"),
    Turn("assistant", "The Tide Museum was founded in 1902 by Lavinia Hathe. [1]"),
)


def ask(question: str, *history: Turn, lm: ScriptedLM | None = None, **more: object) -> Answer:
    engine = SelfReflectEngine(SHELF, lm)
    return engine.answer(Asked(question, history=history or FOUNDED, **more))  # type: ignore[arg-type]


def test_a_follow_up_is_answered_about_its_topic() -> None:
    answer = ask("And when was it closed?")
    assert (answer.abstained, answer.question) == (False, "And when was it closed?")
    assert answer.text == "The Tide Museum was closed in 1941. [1]"
    assert answer.metadata["condensed_question"] == "When was the Tide Museum closed?"
    assert [d.kind for d in answer.trace[:2]] == ["history", "condense"]


def test_nothing_is_shown_about_somebody_else() -> None:
    assert ask("When did she retire?").abstained
    assert ask("When did its clerk retire?").abstained


@pytest.mark.parametrize(
    ("said", "reason"),
    [("Are you sure?", "asks about the answer"), ("summarise what you said", "asks about the answer"),
     ("yes", "nothing asked"), ("and the second one?", "follow-up unclear")],
)  # fmt: skip
def test_what_documents_cannot_answer_is_declined_with_its_reason(said: str, reason: str) -> None:
    answer = ask(said)
    assert (answer.abstained, answer.reason, answer.passages) == (True, reason, ())
    assert "Nearest" not in answer.text
    engine = SelfReflectEngine(SHELF, settings=SelfReflectSettings(on_abstain="raise"))
    with pytest.raises(AbstainedError):
        engine.answer(Asked(said, history=FOUNDED))


def test_a_full_question_is_asked_as_it_is() -> None:
    answer = ask("Who founded the Old Mill?")
    assert "Rufus Crail" in answer.text
    assert "condensed_question" not in answer.metadata


def test_an_answer_that_may_be_about_something_else_is_not_calibrated() -> None:
    about = ask("When was the mill closed?", *FOUNDED)
    assert about.text == "The mill was closed in 1833. [1]"
    assert not about.calibrated
    assert ask("When was the museum closed?", *FOUNDED).calibrated


def test_a_follow_up_to_an_abstention_keeps_its_topic() -> None:
    nothing = Turn(
        "assistant", "I can't answer that. Nearest: “The Old Mill was founded by Rufus Crail.”", abstained=True
    )
    answer = ask("And when was it closed?", Turn("user", "Who owns the Tide Museum?"), nothing)
    assert answer.metadata["condensed_question"] == "When was the Tide Museum closed?"


def test_another_persons_text_as_system_message_is_no_topic() -> None:
    system = Turn("system", "The user asks about the Old Mill.")
    assert (
        ask("And when was it closed?", *FOUNDED, system).metadata["condensed_question"].startswith("When was the Tide")
    )


# --- condensing ----------------------------------------------------------------------------------------------------

LAST = [Exchange("Who founded the Tide Museum?", "Lavinia Hathe.")]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("When was the Tide Museum closed?", ""),
        ("When was the Old Mill closed?", "adds Old, Mill"),
        ("When was the Tide Museum closed in 1833?", "adds 1833"),
        ("The Tide Museum was closed in 1941.", "not a full question"),
        ("When was it closed?", "not a full question"),
        ("Who is Lavinia Hathe?", "does not keep"),
        ("", "empty"),
        ("When " + "was the museum " * 30 + "closed?", "too long"),
    ],
)
def test_what_a_model_wrote_is_checked(written: str, problem: str) -> None:
    found = refusal(written, "and when was it closed?", LAST)
    assert (problem in found) if problem else not found


def test_a_model_condenses_and_the_rule_takes_over_where_it_invents() -> None:
    invents = ScriptedLM(lambda request: "When was the Old Mill closed?")
    answer = ask("And when was it closed?", lm=invents)
    assert answer.metadata["condensed_question"] == "When was the Tide Museum closed?"
    assert answer.metadata["condensed_by"] == "rule"
    assert any(d.outcome == "rewriting not used" for d in answer.trace)
    rewrites = ScriptedLM(lambda request: "Rewritten question: In which year was the Tide Museum closed?")
    answer = ask("And in which year was it closed?", lm=rewrites)
    assert answer.metadata["condensed_question"] == "In which year was the Tide Museum closed?"
    assert answer.metadata["condensed_by"] == "model"


def test_a_question_condensed_elsewhere_is_checked_too() -> None:
    answer = ask("And when was it closed?", condensed="When was the Old Mill closed?")
    assert answer.metadata["condensed_by"] == "rule"


def test_templates_need_their_fields() -> None:
    assert check_template("{chat_history}\n{question}")
    for bad in ("{question} {other}", "no field", "{question"):
        with pytest.raises(SettingsError):
            check_template(bad)
