"""Follow-ups are made full questions by rule, with names of the conversation only."""

from __future__ import annotations

import pytest

from shared_core.conversation import Turn, recognise
from shared_core.conversation.rules import EXCHANGES, Exchange, exchanges_of, rewrite

MUSEUM = Exchange(
    "Who founded the Tide Museum?",
    "The Tide Museum was founded in 1902 by Lavinia Hathe, daughter of the clockmaker Corwin Hathe. [1]",
)
BRIDGE = Exchange("When was the Gut Bridge opened?", "The Gut Bridge was opened on 2 May 1937 by Steward Roland Peake.")
CAPITAL = Exchange("What is the capital of Tavarrin?", "The capital of Tavarrin is Marrick Haven, on the east coast.")
STATION = Exchange("When was the Lowen Gut station opened?", "It was opened on 8 October 1951.")
TWO = Exchange("What are the two oldest lighthouses?", "They are Gannet Skerry and Hask Light.")
PLAN = Exchange("What is a lite plan?", "A free plan with quotas.")


def read(question: str, *exchanges: Exchange) -> list[str]:
    return [r.question for r in rewrite(question, recognise(question), exchanges)]


FULL: dict[Exchange, dict[str, str]] = {
    MUSEUM: {
        "and when was it closed?": "When was the Tide Museum closed?",
        "When did she retire?": "When did Lavinia Hathe retire?",
        "Who was her father?": "Who was Lavinia Hathe's father?",
        "And where?": "Where was the Tide Museum founded?",
        "What about the Rope Hall?": "Who founded the Rope Hall?",
    },
    BRIDGE: {
        "Why?": "Why was the Gut Bridge opened?",
        "And by whom?": "By whom was the Gut Bridge opened?",
        "By whom?": "By whom was the Gut Bridge opened?",
        "And the Hask Bridge?": "When was the Hask Bridge opened?",
        "How long is the bridge?": "How long is the Gut Bridge?",
        "How much did that cost?": "How much did the Gut Bridge cost?",
        "And how long did it take to build?": "How long did the Gut Bridge take to build?",
        "and its length?": "What is the Gut Bridge's length?",
        "Do you know how long it is?": "How long the Gut Bridge is?",
        "ferry timetable": "What is ferry timetable?",
    },
    Exchange("So who founded the Tide Museum?"): {"When?": "When was the Tide Museum founded?"},
    Exchange("How high is the deposit?"): {"And the rent?": "How high is the rent?"},
    Exchange("How long is the notice?"): {"No, I meant the parking space": "How long is the parking space?"},
    Exchange("When does the ferry to Orm leave?"): {"What does it cost?": "What does the ferry to Orm cost?"},
    CAPITAL: {
        "How many inhabitants does it have?": "How many inhabitants does Marrick Haven have?",
        "and of Brathen?": "What is the capital of Brathen?",
    },
    Exchange("When was the Patient Gull sold?"): {"Who was her captain?": "Who was the Patient Gull's captain?"},
    STATION: {"How many turbines does the station have?": "How many turbines does the Lowen Gut station have?"},
    TWO: {
        "When was the second one built?": "When was Hask Light built?",
        "Which is older?": "Which is older, Gannet Skerry or Hask Light?",
    },
    Exchange("When did television come to Tavarrin?"): {"And radio?": "When did radio come to Tavarrin?"},
    Exchange("When was the old lamp of Vessen lit?"): {"Who made it?": "Who made the old lamp of Vessen?"},
    Exchange("What is the greatest depth of Lake Ivenmere?"): {"How large is it?": "How large is Lake Ivenmere?"},
    Exchange("What is CARGO_HOME?", "Its home. Cargo and Rust use it."): {
        "How do I change it?": "How do I change CARGO_HOME?",
    },
    Exchange("What does cargo publish do?", "cargo-publish — Upload a package"): {
        "Can it be undone?": "Can the cargo publish be undone?",
    },
    Exchange("What is the opt-level of the release profile?"): {
        "And of the dev profile?": "What is the opt-level of the dev profile?",
    },
    Exchange("When does the museum open in summer?"): {"And in winter?": "When does the museum open in winter?"},
    Exchange("Who founded the ropewalk of Marrick Haven?"): {
        "When did it close?": "When did the ropewalk of Marrick Haven close?",
    },
    Exchange("When did the last quarry at Upper Dath close?"): {
        "Why did it close?": "Why did the last quarry at Upper Dath close?",
    },
    Exchange("How many died of the grey fever in the islands?"): {"What caused it?": "What caused the grey fever?"},
    Exchange("When was the tower of Lowen built?"): {"Who lives there?": "Who lives in Lowen?"},
    PLAN: {"How can I create one?": "How can I create the lite plan?"},
    Exchange("When is the launch of the portal?", "On 13 May, says Mollie."): {
        "Why was it moved?": "Why was the launch of the portal moved?",
        "And the translations?": "When is the translations?",
        "By when?": "By when is the launch of the portal?",
    },
    Exchange("Which hoster did we choose?"): {"How much does it cost?": "How much does the hoster cost?"},
    Exchange("How much does the hoster cost?"): {"And Kuub?": "How much does Kuub cost?"},
    Exchange("Where does the offsite take place?", "In Domburg."): {
        "Who organises it?": "Who organises the offsite?",
        "How do we get there?": "How do we get to the offsite?",
    },
    Exchange("How many approvals does a change need?"): {
        "and a small one?": "How many approvals does a small change need?",
    },
    Exchange("Who proposed the change?"): {"When was that decided?": "When was the change decided?"},
    Exchange("What did Priya say about the budget?"): {
        "Did she approve it?": "Did Priya approve it?",
        "No, I meant the budget for the offsite": "What did Priya say about the budget for the offsite?",
    },
    Exchange("How much is an adult membership?"): {
        "And for juniors?": "How much is a membership for juniors?",
        "What about children under 12?": "How much is a membership for children under 12?",
        "And a family membership?": "How much is a family membership?",
        "And for coxes?": "How much is an adult membership for coxes?",
    },
    Exchange("How much is a ticket for an adult?"): {"And students?": "How much is a ticket for students?"},
    Exchange("How much do adults pay?"): {"And for juniors?": "How much do juniors pay?"},
    Exchange("When is the museum open on weekdays?"): {
        "What about the annexe?": "When is the annexe open on weekdays?",
        "And on Sundays?": "When is the museum open on Sundays?",
    },
    Exchange("How much is a room for one night?"): {"And for two nights?": "How much is a room for two nights?"},
    Exchange("Which pump is in the key box?"): {"What about the boiler?": "Which pump is in the boiler?"},
}  # fmt: skip


@pytest.mark.parametrize(("last", "question"), [(last, question) for last, full in FULL.items() for question in full])
def test_a_follow_up_becomes_a_full_question(last: Exchange, question: str) -> None:
    assert read(question, last)[0] == FULL[last][question]


@pytest.mark.parametrize("question", ["And the second one?", "Who else?", "Who was Steward then?", "and the other?"])
def test_no_rule_guesses(question: str) -> None:
    assert read(question, BRIDGE) == []
    assert read("When did she retire?") == []  # nothing was said before


@pytest.mark.parametrize("said", ["Why?", "and why exactly?"])
def test_a_reason_is_asked_of_the_reply_where_the_question_has_none(said: str) -> None:
    before = Exchange("What happens to the pumps in winter?", "The pumps are drained. [1] They stand open.")
    assert read(said, before) == ["Why is it that the pumps are drained?"]
    assert read(said, Exchange("What colour is it?", "Green.")) == []
    assert read("why not?", before) == []


def test_a_museum_is_no_she() -> None:
    founded = Exchange("When was the Tide Museum founded?", MUSEUM.reply)
    assert read("When did she retire?", founded) == ["When did Lavinia Hathe retire?"]


def test_two_likely_readings_are_given_the_likelier_first() -> None:
    assert read("How many people live there?", CAPITAL) == [
        "How many people live in Marrick Haven?",
        "How many people live in Tavarrin?",
    ]


def test_follow_ups_in_the_history_are_made_full_too() -> None:
    history = [
        Turn("user", MUSEUM.question), Turn("assistant", MUSEUM.reply), Turn("user", "And when was it closed?"),
        Turn("assistant", "I can't answer that from these documents.", abstained=True), Turn("user", "thanks"),
    ]  # fmt: skip
    assert exchanges_of(history) == [MUSEUM, Exchange("When was the Tide Museum closed?")]


def test_only_the_end_of_a_long_history_is_read() -> None:
    history = [Turn("user", "When was the Gut Bridge opened?"), Turn("assistant", "x" * 100_000)] * 5_000
    exchanges = exchanges_of([Turn("system", "You are a pirate."), *history])
    assert len(exchanges) == EXCHANGES
    assert all(len(e.reply) <= 2_000 for e in exchanges)


def test_the_words_of_kinship_tell_whom_he_and_she_mean() -> None:
    last = Exchange("Who founded the museum?", "Lavinia Hathe, daughter of Corwin Hathe.")
    assert read("When did he die?", last)[0] == "When did Corwin Hathe die?"


@pytest.mark.parametrize(("question", "full"), [
    ("why was it built?", "Why was the gut bridge built?"),
    ("and the tide museum?", "When was the tide museum built?"),
    ("No, I meant the Quarrel Barrage.", "When was the Quarrel Barrage built?"),
])  # fmt: skip
def test_a_topic_in_small_letters_is_taken_up_and_corrected(question: str, full: str) -> None:
    assert read(question, Exchange("when was the gut bridge built?", "In 1904.")) == [full]


def test_what_an_unclear_question_names_is_the_topic_of_the_next_one() -> None:
    history = [Turn("user", "Who cooks?"), Turn("assistant", "Elena."), Turn("user", "And the coffee machine?")]
    assert read("Is it repaired?", *exchanges_of(history))[0] == "Is the coffee machine repaired?"


def test_an_initial_is_no_number() -> None:
    assert read("When was he born?", Exchange("Who was John D. Marsh?"))


def test_a_title_tells_whom_she_does_not_mean() -> None:
    assert read("How old is she?", Exchange("Who lives there?", "Mr Abernathy lives there.")) == []


def test_a_case_without_a_name_is_a_topic_of_its_own() -> None:
    (full,) = rewrite(
        "for the staff network?", recognise("for the staff network?"), [Exchange("What is the password?")]
    )
    assert (full.question, full.topics) == (
        "What is the password for the staff network?",
        (frozenset({"staff", "network"}),),
    )


@pytest.mark.parametrize(
    ("last", "said", "kept"),
    [
        ("How much is an adult membership?", "And for juniors?", "membership"),
        ("When is the museum open on weekdays?", "And for dogs?", "museum"),
        ("Are dogs allowed in the mill?", "And cats?", "mill"),
        ("When was the Gut Bridge painted?", "And in winter?", "bridge"),
    ],
)
def test_a_follow_up_stays_about_what_it_does_not_change(last: str, said: str, kept: str) -> None:
    (reading,) = rewrite(said, recognise(said), [Exchange(last)])
    assert kept in frozenset().union(*reading.kept)


PERSONS: list[tuple[str, str, dict[str, list[str]]]] = [
    ("Who founded the workshop?", "Ingrid Halloran founded the workshop in 2009.", {
        "Is it still there?": ["Is the workshop still there?"],
        "How do I get there?": ["How do I get to the workshop?"],
        "When was that?": ["When was the workshop founded?"],
        "And how did that happen?": ["How was the workshop founded?"],
        "Is that open on Sundays?": ["Is the workshop open on Sundays?"],
        "What does that workshop sell?": ["What does the workshop sell?"],
        "Where was she from?": ["Where was Ingrid Halloran from?"],
    }),
    ("Who won the cup?", "Ana Ruiz.", {"When was that?": ["When was the cup won?"]}),
    ("Who founded Marrick Haven?", "Corwin Hathe did.", {"When was that?": ["When was Marrick Haven founded?"]}),
    ("Who chairs the committee?", "Ben Ott.", {"How often does it meet?": ["How often does the committee meet?"]}),
    ("Who is the chef of the café?", "The chef is Odile Fontaine.", {
        "When does it open?": ["When does the café open?"],
        "Where did she train?": ["Where did Odile Fontaine train?"],
    }),
    ("Who is our contact at the bank?", "Mara Lindt.", {"Where is it?": ["Where is the bank?"]}),
    ("Who is the head chef?", "Odile Fontaine.", {"When does it open?": []}),
    ("Who is the course for?", "Beginners.", {"How long is it?": ["How long is the course?"]}),
    ("Who is the bridge named after?", "Perrin Aldreth.", {"How long is it?": ["How long is the bridge?"]}),
    ("Who was Lavinia Hathe?", "She founded the Tide Museum.", {
        "When was it opened?": ["When was the Tide Museum opened?"]
    }),
    ("When was the mill sold?", "In 2009, by Jo Lamb.", {"Is it still open?": ["Is the mill still open?"]}),
]  # fmt: skip
THINGS: list[tuple[str, str, dict[str, list[str]]]] = [
    ("Who runs the shop?", "The Harbour Trust runs it.", {
        "When was it founded?": ["When was the Harbour Trust founded?", "When was the shop founded?"]
    }),
    ("Who built the boat?", "Harlow Boats Ltd built it.", {
        "Where is it based?": ["Where is Harlow Boats Ltd based?", "Where is the boat based?"]
    }),
    ("What is the capital of Tavarrin?", "Marrick Haven.", {
        "How big is it?": ["How big is Marrick Haven?", "How big is Tavarrin?"]
    }),
    ("Which bakery supplies the café?", "Hollow Oven supplies it.", {"Where is it?": ["Where is Hollow Oven?"]}),
    ("What was the Great Flood?", "A flood.", {"When was that?": ["When was the Great Flood?"]}),
    ("Where was the mill built?", "In Leeds.", {"When was that?": ["When was the mill built?"]}),
]  # fmt: skip


@pytest.mark.parametrize(("question", "reply", "cases"), PERSONS)
def test_it_is_no_person(question: str, reply: str, cases: dict[str, list[str]]) -> None:
    for follow_up, full in cases.items():
        assert read(follow_up, Exchange(question, reply)) == full


@pytest.mark.parametrize(("question", "reply", "cases"), THINGS)
def test_it_may_be_a_thing_that_the_reply_names(question: str, reply: str, cases: dict[str, list[str]]) -> None:
    for follow_up, full in cases.items():
        assert read(follow_up, Exchange(question, reply))[: len(full)] == full


def test_a_role_is_a_person_so_it_is_the_thing_before() -> None:
    before = Exchange("When does the café open?", "At 9.")
    assert read("Is it open on Sundays?", before, Exchange("Who is the head chef?", "Odile Fontaine.")) == [
        "Is the café open on Sundays?"
    ]
