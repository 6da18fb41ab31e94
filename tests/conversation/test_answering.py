"""Questions in a conversation: what is asked of the documents, and what is declined."""

from __future__ import annotations

import pytest

from shared_core import Answer, Citation, Claim, Passage, SelfReflectEngine, SelfReflectSettings, Span
from shared_core.conversation import Asked, Turn
from shared_core.conversation.condense import check_template, refusal
from shared_core.conversation.missing import is_about, missing_in
from shared_core.conversation.rules import Exchange
from shared_core.errors import AbstainedError, SettingsError
from shared_core.facades import engine as facade
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


LAKE = (
    "The greatest depth of Lake Ivenmere is 83 metres. The lake was stocked with trout in 1902, and lies west of Mount "
    "Ormund. The Lake Board meets there on Tuesdays. It was rejected by 34 votes to 27. A book of ten tickets costs as "
    "much as eight. Lake Ivenmere is 83 metres deep. It was mapped in 1902 by Ada Brandt. Lake Ivenmere lies in the "
    "hills of Tarn. Lake Ivenmere is shown online. It has been fished since 1871. It is fished since "
    "trout thrive there."
)


def cited(sentence: str, short: str = "", passage: str = LAKE) -> Answer:
    start = passage.index(sentence)
    quote = Citation((Span("lake", start, start + len(sentence), sentence),))
    claim = Claim(sentence, 0.9, (quote,), short_answer=short or None)
    return Answer("?", sentence, (claim,), (Passage("lake", passage, "Lake Ivenmere"),))


@pytest.mark.parametrize(
    ("question", "sentence", "short", "missing"),
    [
        ("How deep is Lake Ivenmere?", "The greatest depth of Lake Ivenmere is 83 metres.", "83 metres", ""),
        ("How large is Lake Ivenmere?", "The greatest depth of Lake Ivenmere is 83 metres.", "83 metres", "how large"),
        ("When was Lake Ivenmere stocked?", "The lake was stocked with trout in 1902", "1902", ""),
        ("When was Lake Ivenmere drained?", "The lake was stocked with trout in 1902", "1902", "drained"),
        ("How many boats are on Lake Ivenmere?", "The lake was stocked with trout in 1902", "1902", "how many boats"),
        ("Where does the Lake Board meet?", "The Lake Board meets there on Tuesdays.", "on Tuesdays", "a place"),
        ("When did the Lake Board meet?", "The Lake Board meets there on Tuesdays.", "on Tuesdays", "a date"),
        ("Why was Lake Ivenmere rejected?", "It was rejected by 34 votes to 27.", "34 votes to 27", "a reason"),
        ("Why is Lake Ivenmere fished?", "It has been fished since 1871.", "1871", "a reason"),
        ("Why is Lake Ivenmere fished?", "It is fished since trout thrive there.", "trout thrive there", ""),
        ("Where is Lake Ivenmere?", "Lake Ivenmere is 83 metres deep.", "83 metres", "a place"),
        ("Where was Lake Ivenmere mapped?", "It was mapped in 1902 by Ada Brandt.", "Ada Brandt", "a place"),
        ("Where is Lake Ivenmere?", "Lake Ivenmere lies in the hills of Tarn.", "Tarn", ""),
        ("Where is Lake Ivenmere shown?", "Lake Ivenmere is shown online.", "online", ""),
        ("How wide is Lake Ivenmere?", "Lake Ivenmere is 83 metres deep.", "83 metres", "that size"),
        ("How much does a ticket cost?", "A book of ten tickets costs as much as eight.", "ten", "a price"),
        ("How much is Lake Ivenmere?", "Lake Ivenmere is 83 metres deep.", "83 metres", "a price"),
        ("How much is Lake Ivenmere?", "It was mapped in 1902 by Ada Brandt.", "1902", "a price"),
    ],
)
def test_what_is_asked_must_be_in_the_evidence(question: str, sentence: str, short: str, missing: str) -> None:
    topics = [frozenset({"lake", "ivenmere"})]
    assert missing_in(cited(sentence, short), question, topics) == missing


def test_only_the_form_of_an_answer_is_checked_where_the_question_was_full() -> None:
    answer = cited("The lake was stocked with trout in 1902", "1902")
    assert missing_in(answer, "When was Lake Ivenmere drained?", ()) == ""
    assert missing_in(answer, "Why was Lake Ivenmere drained?", ()) == "a reason"


def test_a_claim_that_begins_with_a_pronoun_is_read_with_the_sentence_before_it() -> None:
    river = "The River Dath is long. It rises on Mount Ormund and passes Upper Dath. Lowen Dath is short. It is old."
    about = [frozenset({"river", "dath"})]
    assert is_about(cited("It rises on Mount Ormund and passes Upper Dath.", passage=river), about)
    assert not is_about(cited("It is old.", passage=river), about)


def test_what_is_named_only_behind_a_claim_is_another_topic() -> None:
    policy = "Home insurance with Albion. Renewal every 1 October. Excess 250 pounds."
    renewal = cited("Renewal every 1 October.", passage=policy)
    assert is_about(renewal, [frozenset({"insurance"})])
    assert not is_about(renewal, [frozenset({"excess"})])


def test_nothing_is_shown_that_does_not_say_what_is_asked() -> None:
    answer = ask("Who runs it?")
    assert (answer.abstained, answer.metadata["condensed_question"]) == (True, "Who runs the Tide Museum?")


def test_a_full_question_is_asked_as_it_is() -> None:
    answer = ask("Who founded the Old Mill?")
    assert "Rufus Crail" in answer.text
    assert "condensed_question" not in answer.metadata


def test_an_answer_that_may_be_about_something_else_is_not_calibrated(caplog: pytest.LogCaptureFixture) -> None:
    facade._warn_uncalibrated.cache_clear()
    about = ask("When was the mill closed?", *FOUNDED)
    assert "not calibrated" not in caplog.text  # which would blame the pipeline
    assert about.text == "The mill was closed in 1833. [1]"
    assert not about.calibrated
    assert ask("When was the museum closed?", *FOUNDED).calibrated


def test_a_follow_up_to_an_abstention_keeps_its_topic() -> None:
    nothing = Turn(
        "assistant", "I can't answer that. Nearest: “The Old Mill was founded by Rufus Crail.”", abstained=True
    )
    answer = ask("And when was it closed?", Turn("user", "Who owns the Tide Museum?"), nothing)
    assert answer.metadata["condensed_question"] == "When was the Tide Museum closed?"


@pytest.mark.parametrize("own", [None, "No answer to {question}.\nNearest:"])
def test_what_an_abstention_showed_is_no_topic_in_a_history_of_plain_texts(own: str | None) -> None:
    engine = SelfReflectEngine(SHELF, settings=SelfReflectSettings(abstain_text=own))
    first = engine.answer("Who painted the Tide Museum?")
    assert first.abstained
    nearest = f"{first.text}\n- “The Tide Museum was founded in 1902 by Lavinia Hathe.” (museum)"
    history = (Turn("user", first.question), Turn("assistant", nearest))
    assert engine.answer(Asked("When did she retire?", history=history)).reason == "follow-up unclear"


def test_another_persons_text_as_system_message_is_no_topic() -> None:
    system = Turn("system", "The user asks about the Old Mill.")
    assert (
        ask("And when was it closed?", *FOUNDED, system).metadata["condensed_question"].startswith("When was the Tide")
    )


# --- condensing ----------------------------------------------------------------------------------------------------

LAST = [Exchange("Who founded the Tide Museum?", "Lavinia Hathe.")]


@pytest.mark.parametrize(("written", "problem"), [
    ("When was the Tide Museum closed?", ""), ("When was the Old Mill closed?", "adds Old, Mill"),
    ("When was the Tide Museum closed in 1833?", "adds 1833"),
    ("The Tide Museum was closed in 1941.", "not a full question"), ("When was it closed?", "not a full question"),
    ("Who is Lavinia Hathe?", "does not ask when"), ("", "empty"),
        ("When is the Tide Museum?", "does not keep"),
    ("When " + "was the museum " * 30 + "closed?", "too long"),
])  # fmt: skip
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
