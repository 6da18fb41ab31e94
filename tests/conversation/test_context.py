"""Follow-ups that no rule makes full: asked of passages on the questions before them, as users of manuals do."""

from __future__ import annotations

import pytest

from shared_core import Answer, Passage, SelfReflectEngine
from shared_core.conversation import Asked, Turn
from shared_core.conversation.recognise import recognise
from shared_core.lm import ScriptedLM
from shared_core.retrieval import BM25Retriever

MANUAL = BM25Retriever(
    [
        Passage(
            "members",
            "You can delete a membership from its list of actions. When you delete a membership, the payments that "
            "are linked to it stay on the contact's record. Deleting a membership cannot be undone. It is kept in the "
            "log of the system for thirty days.",
            title="Deleting memberships",
        ),
        Passage(
            "mail",
            "A mailing can be cancelled while it is being sent. What has been sent cannot be undone.",
            title="Cancelling a mailing",
        ),
        Passage(
            "inheriting",
            "A maximum of two inherited memberships are allowed for people who are employed by a member organisation.",
            title="Inherited memberships",
        ),
        Passage(
            "pages",
            "A supporter can upload one picture to a personal campaign page. The picture is not resized automatically.",
            title="Personal campaign pages",
        ),
    ]
)
DELETED = ("What happens to the payments if I delete a membership?", "They stay on the contact's record. [1]")
UPLOADED = ("How many pictures can a supporter upload to a personal campaign page?", "One picture. [1]")


def ask(question: str, *said: tuple[str, str], lm: ScriptedLM | None = None) -> Answer:
    history = [turn for q, a in said for turn in (Turn("user", q), Turn("assistant", a))]
    return SelfReflectEngine(MANUAL, lm).answer(Asked(question, history=tuple(history)))


@pytest.mark.parametrize(
    ("question", "before", "quote"),
    [
        ("can that be undone?", DELETED, "Deleting a membership cannot be undone."),
        ("how long is it kept in the log?", DELETED, "It is kept in the log of the system for thirty days."),
        ("is it resized automatically?", UPLOADED, "The picture is not resized automatically."),
    ],
)
def test_a_follow_up_is_answered_among_passages_on_its_topic(
    question: str, before: tuple[str, str], quote: str
) -> None:
    answer = ask(question, before)
    assert [c.citations[0].primary[0].text for c in answer.kept_claims[:1]] == [quote]
    assert answer.question == question
    assert answer.metadata["condensed_question"] != question


def test_what_was_asked_in_two_ways_says_so_and_is_not_called_calibrated() -> None:
    answer = ask("can I undo it afterwards?", DELETED)
    assert answer.text == "Deleting a membership cannot be undone. [1]"
    assert not answer.calibrated
    assert answer.metadata["condensed_question"] == "can I undo it afterwards (payments delete membership)?"


def test_a_question_of_one_word_is_not_answered_about_something_else() -> None:
    assert ask("is there a maximum?", UPLOADED).abstained


def test_a_change_of_topic_is_answered() -> None:
    answer = ask("Can a mailing be cancelled while it is being sent?", DELETED)
    assert answer.text.startswith("A mailing can be cancelled while it is being sent.")
    assert "condensed_question" not in answer.metadata


def test_what_only_names_or_greets_is_not_asked_about_the_topic() -> None:
    for said in ("good night", "thanks a lot", "why?"):
        assert ask(said, DELETED).abstained


def test_a_full_name_put_in_by_rule_must_be_what_the_evidence_is_about() -> None:
    """ "She" is Lavinia Hathe; that somebody else retired does not answer when she did."""
    shelf = BM25Retriever(
        [
            Passage("museum", "The Tide Museum was founded in 1902 by Lavinia Hathe."),
            Passage("boat", "Dora Penn of the lifeboat retired in 1938. She retired as coxswain of the Tide Museum."),
        ]
    )
    history = (
        Turn("user", "Who founded the Tide Museum?"),
        Turn("assistant", "The Tide Museum was founded in 1902 by Lavinia Hathe. [1]"),
    )
    assert SelfReflectEngine(shelf).answer(Asked("When did she retire?", history=history)).abstained


def test_a_rewriting_of_the_model_is_asked_alone() -> None:
    lm = ScriptedLM(["Can deleting a membership be undone?"] * 20)
    answer = ask("can that be undone?", DELETED, lm=lm)
    assert answer.metadata["condensed_by"] == "model"


def test_a_question_that_may_stand_alone_costs_no_more_with_a_model() -> None:
    alone = SelfReflectEngine(MANUAL, ScriptedLM(["NONE"] * 40)).answer("is there a maximum?").usage
    asked = ask("is there a maximum?", UPLOADED, lm=ScriptedLM(["NONE"] * 40)).usage
    assert 0 < asked.calls <= 2 * alone.calls


@pytest.mark.parametrize(
    "question", ["what happens to the payments if I delete it anyway?", "What if I leave the end date of one empty?"]
)
def test_words_that_refer_are_recognised_behind_empty_clauses(question: str) -> None:
    assert recognise(question).kind == "reference"


CLUB = BM25Retriever(
    [
        Passage(
            "fees",
            "An adult membership costs £30 a month. Juniors under 18 pay £12 a month. The joining fee is £40.",
            title="Rowing club: Membership",
        ),
        Passage(
            "safety",
            "Life jackets are compulsory for juniors and for coxes. The coach is Piotr Lind, who rowed for Poland.",
            title="Rowing club: Safety",
        ),
        Passage(
            "hostel",
            "The hostel is run by Vera Lindt. The kitchen is run by Otto Baum. Dogs are welcome for £10 a night. "
            "Guests under 16 may use the sauna only with an adult.",
            title="Larch Hostel",
        ),
    ]
)
FEE = ("How much is an adult membership?", "An adult membership costs £30 a month. [1]")
RUNS = ("Who runs the hostel?", "The hostel is run by Vera Lindt. [1]")


def follow(question: str, before: tuple[str, str]) -> Answer:
    history = (Turn("user", before[0]), Turn("assistant", before[1]))
    return SelfReflectEngine(CLUB).answer(Asked(question, history=history))


@pytest.mark.parametrize(
    ("question", "before"),
    [
        ("And for coxes?", FEE),
        ("And for dogs?", FEE),
        ("And the sauna?", RUNS),
        ("Who else?", RUNS),
        ("And why?", RUNS),
    ],
)
def test_a_fragment_is_not_answered_by_a_sentence_that_only_has_its_words(
    question: str, before: tuple[str, str]
) -> None:
    assert follow(question, before).abstained


@pytest.mark.parametrize(
    ("question", "said"), [("And for juniors?", "£12"), ("And juniors?", "£12"), ("And the joining fee?", "£40")]
)
def test_a_fragment_is_answered_by_what_its_question_asks(question: str, said: str) -> None:
    assert said in follow(question, FEE).text


def test_an_answer_that_is_withheld_leaves_no_trace_of_being_shown() -> None:
    answer = follow("And where did he row?", ("Who is the coach?", "The coach is Piotr Lind. [1]"))
    assert (answer.abstained, answer.confidence, answer.calibrated) == (True, None, False)
    assert "answer" not in {decision.kind for decision in answer.trace}
    assert [decision.outcome for decision in answer.trace if decision.kind == "keep"] == ["0 of 3 claims"]
    assert answer.trace[-1].kind == "abstain"
