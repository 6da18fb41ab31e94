"""Where a sentence says something else than the question asks, and what that does to answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Passage
from shared_core.reading.conflicts import (
    OPPOSITE,
    can_conflict,
    find_conflicts,
    gives_opposite,
    is_said_by_another,
    lacks_negation,
)
from shared_core.reading.disagreements import Said
from tests.reading.asking import chance

CLUB = Passage(
    "club",
    "The large hall closes at 22:00. Members may bring two guests. The northern gate was built in 1911 by Ada Brandt. "
    "The committee has seven members. The club does not sell food on weekdays.",
    "Rowing club of Tarn",
)


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("When does the small hall close?", "The large hall closes at 22:00."),
        ("Who built the southern gate?", "The northern gate was built by Ada Brandt."),
        ("What is the largest lake?", "Its smallest lake is Lake Arn."),
        ("What is the minimum load?", "The maximum load is 5 kg."),
        ("Who was his mother?", "His father was a smith."),
        ("How much leave do part-time staff get?", "Full-time staff have 28 days of leave."),
        ("What is the monthly fee?", "The annual fee is 50 euros."),
        ("What is the daily rate for the boat?", "Item: boat; Weekly rate: £185"),
        ("When does it open at the weekend?", "On weekdays it opens at 9."),
    ],
)
def test_the_opposite_of_a_word_of_the_question(question: str, quote: str) -> None:
    assert can_conflict(question)
    assert gives_opposite(question, quote)


@pytest.mark.parametrize(
    ("question", "quote", "conflicts"),
    [
        ("How wide is Lake Suhr?", "Lake Suhr is 61 metres deep.", True),
        ("What is the height of the tower?", "The tower has a length of 12 m.", True),
        ("How wide is Lake Suhr?", "It is 61 metres deep and 2 km wide.", False),
        ("How high is Mount Orm?", "It rises to 740 metres above a lake 61 m deep; elevation 740 m.", False),
        ("How long did she wait?", "She waited for 3 days in a wide hall.", False),
    ],
)
def test_another_dimension_than_the_one_asked_for(question: str, quote: str, conflicts: bool) -> None:
    assert can_conflict(question) or not conflicts
    assert (OPPOSITE in find_conflicts(question, quote, "")) == conflicts


@pytest.mark.parametrize(
    ("question", "quote", "conflicts"),
    [
        ("Who is the vice chair?", "Present: Ann Lee (chair)", True),
        ("Who is the vice-chair?", "Ann Lee (chair), Bo Day (vice chair)", False),
        ("Who is the deputy mayor?", "The mayor is Ann Lee; the deputy is Bo Day.", False),
        ("Who is the current director?", "Its first director was Eva Lind.", True),
        ("Who is the current director?", "Eva Lind, the director since 2010, was its first curator.", False),
        ("How many hives may they keep?", "They asked to keep two hives.", True),
        ("How many hives may they keep?", "They asked to keep two hives; one was allowed.", False),
        ("How many requests a minute are allowed?", "A key allows 60 requests a minute.", False),
        ("How many hives did they ask for?", "They asked to keep two hives.", False),
        ("May I keep hives?", "They asked to keep two hives.", True),
        ("How many hives were there in May?", "They asked to keep two hives.", False),
        ("Who proposed what was agreed?", "Ruth proposed a second tank.", False),
    ],
)
def test_another_rank_or_what_was_only_wished(question: str, quote: str, conflicts: bool) -> None:
    assert can_conflict(question) or not conflicts
    assert (OPPOSITE in find_conflicts(question, quote, "")) == conflicts


def test_what_the_manual_of_another_product_says_is_no_answer() -> None:
    manual = Passage("p", "The guarantee lasts three years. Descale it every two months.", "Brewer BK-40 kettle")
    asked = "How long is the guarantee on the {}?"
    assert (
        chance(asked.format("BK-60"), manual, expected=0.75)
        < 0.5
        < chance(asked.format("BK-40"), manual, expected=0.75)
    )


@pytest.mark.parametrize(
    ("quote", "conflicts"),
    [
        ("Ticket: T-2; Opened: 2024-01-09; Priority: low; Status: closed", True),
        ("Ticket: T-2; Opened: 9 January 2024; Status: closed", True),
        ("Ticket: T-2; Opened: 2024-01-09; Closed: 2024-02-01", False),
        ("Ticket: T-2; Opened: 2024-01-09; Closed: ", False),
        ("Ticket: T-2; Opened: 2024-01-09; Notes: closed on 1 February", False),
        ("Ticket: T-2; Open: 2024-01-09 to 2024-02-01; Status: closed", False),
        ("Ticket: T-2; Status: closed; Owner: Ann Reed", False),
    ],
)
def test_a_record_that_dates_only_the_opposite_of_what_is_asked(quote: str, conflicts: bool) -> None:
    assert (OPPOSITE in find_conflicts("When was ticket T-2 closed?", quote, "")) == conflicts


@pytest.mark.parametrize(
    ("question", "quote", "above"),
    [
        ("When does the small hall close?", "It opens at 8 and closes at 22:00.", ""),
        ("When did the war begin?", "The war ended in 1918.", ""),  # spans tell both
        ("How long are the server logs kept?", "Server logs are deleted after 14 days.", ""),
        ("What happened before the war?", "After the peace of 1870 trade grew.", ""),
        ("What is in the north and the south?", "There are hills in the north.", ""),
        ("When does the small hall close?", "The large door closes at 8.", "Small hall"),
        ("Who came?", "Her father came.", ""),
        ("Why is the floor dirty?", "Floor is not clean: empty the tank.", ""),
        ("Which gates are not open?", "The northern gate is closed.", ""),
    ],
)
def test_no_opposite(question: str, quote: str, above: str) -> None:
    assert not gives_opposite(question, quote, above)


@pytest.mark.parametrize(
    ("question", "quote", "lacks"),
    [
        ("Who did not vote?", "All farmers voted.", True),
        ("Which doors don't open?", "Both doors open inwards.", True),
        ("Who did not vote?", "Farmers were excluded, but others voted.", False),
        ("Which species can't fly?", "Penguins are flightless birds.", False),
        ("What is not possible?", "It is impossible to turn.", False),
        ("Who voted?", "All farmers voted.", False),
        ("Which notes are kept?", "Notes are kept.", False),
        ("What if I don't pay in cash?", "By any other means a fee of £2 is due.", False),
        ("Who couldn't attend?", "Apologies: Ann Lee", False),
        ("What shouldn't I do before the test?", "Stop eating twelve hours before it.", False),
        ("Which bus doesn't run on Sundays?", "The bus stop is at the church.", True),
    ],
)
def test_a_negated_question_needs_a_negation(question: str, quote: str, lacks: bool) -> None:
    assert lacks_negation(question, quote) is lacks


@pytest.mark.parametrize(
    ("question", "conflicts"),
    [
        ("the lamp blinks, should I plug it in?", False),
        ("Should I plug it in?", False),
        ("When should I plug it in?", True),
        ("How do I plug it in?", True),
    ],
)
def test_the_reverse_answers_yes_or_no_behind_a_clause_too(question: str, conflicts: bool) -> None:
    assert (OPPOSITE in find_conflicts(question, "Unplug the lamp at once.", "")) == conflicts


VOCABULARY = "not never open closed 2019 May HX-60 large small un in less fly XL VX LI . ?"


@given(st.lists(st.sampled_from(VOCABULARY.split()), max_size=12).map(" ".join))
def test_a_question_does_not_conflict_with_itself(text: str) -> None:
    assert not find_conflicts(text, text, "")


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=20))
def test_what_asks_for_nothing_exact_conflicts_with_nothing(question: str, quote: str, above: str) -> None:
    if not can_conflict(question):
        assert not find_conflicts(question, quote, above)


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        ("When does the large hall close?", "When does the small hall close?"),
        ("Who built the northern gate?", "Who built the southern gate?"),
        ("How many guests may members bring?", "How many guests may members not bring?"),
    ],
)
def test_the_opposite_is_less_probable(asked: str, instead: str) -> None:
    assert chance(asked, CLUB, expected=0.75) > 0.5 > chance(instead, CLUB, expected=0.75)


def test_an_answer_that_stands_otherwise_in_its_sentence_has_no_place() -> None:
    assert list(Said("The lamp was lit in 1871.", "lit  in 1871").place) == []
    assert Said("The lamp was lit in 1871.", "1871").place == range(20, 24)


CHAT = "[13:40] Jonas Weber: I think the new map is ugly.\n[13:41] Sofia Lindqvist: I like it. Elena dislikes it."


@pytest.mark.parametrize(("question", "sentence", "another"), [
    ("What does Elena think of the new map?", "[13:40] Jonas Weber: I think the new map is ugly.", True),
    ("What does Jonas think of the new map?", "[13:40] Jonas Weber: I think the new map is ugly.", False),
    ("What does Jonas think of the new map?", "Elena dislikes it.", True),
    ("What does Elena think of the new map?", "Elena dislikes it.", False),
    ("What is Elena's opinion of the map?", "[13:40] Jonas Weber: I think the new map is ugly.", True),
    ("Who thinks that the new map is ugly?", "[13:40] Jonas Weber: I think the new map is ugly.", False),
])  # fmt: skip
def test_what_somebody_said_is_no_other_persons_entry_in_a_chat(question: str, sentence: str, another: bool) -> None:
    start = CHAT.index(sentence)
    assert is_said_by_another(question, CHAT, start, start + len(sentence)) == another


def test_labels_of_fields_are_no_speakers() -> None:
    text = "Name: Elena\nOpinion: It is ugly."
    assert not is_said_by_another("What is Elena's opinion?", text, text.index("Opinion"), len(text))


@pytest.mark.parametrize(("question", "quote", "otherwise"), [
    ("How many days of unpaid leave are there?", "There are 5 days of paid leave.", True),
    ("Which rooms are for smokers?", "Non-smokers have rooms 1 to 9.", True),
    ("What is taxable?", "Gifts are taxable or not: cash is, vouchers are non-taxable.", False),
    ("What is not acceptable?", "Unacceptable is shouting.", False),
    ("Is the leave paid?", "The leave is unpaid.", False),
    ("Which tea has less sugar?", "Mint, unless it is sweetened.", False),
    ("What is the club like?", "Unlike others it is small.", False),
    ("Until when is the union open?", "The till of the ion is open until nine.", False),
])  # fmt: skip
def test_a_word_with_a_prefix_is_another(question: str, quote: str, otherwise: bool) -> None:
    assert (OPPOSITE in find_conflicts(question, quote, "")) == otherwise


@pytest.mark.parametrize(
    ("question", "quote", "conflicts"),
    [
        ("What time did the market finish?", "See you tomorrow, starting at 8am!", True),
        ("When does the fair end?", "The fair begins at noon.", True),
        ("What time does the service finish?", "Service: Young Church; Time: 9.15am", True),
        ("When does the fair open?", "The fair closes at 5 pm.", True),
        ("What time does the market finish?", "The market is from 8am to 1pm.", False),
        ("What time does the shop close?", "Open until 6 pm.", False),
        ("When does the fair open?", "At 9 am.", False),
        ("When does the large hall close?", "The small hall is open until 6 pm.", True),
        ("What time does the shop shut on Fridays?", "It is open from 9 am to 6 pm on Fridays.", False),
        ("When will the shop shut?", "It opens at 9 am.", True),
        ("When is the pool shut?", "The pool is open in May.", True),
        ("What time does the coach leave the farm?", "We hope to be back at school by 4 pm.", True),
        ("When does the ferry depart?", "It arrives in Sund at 10.40.", True),
        ("What time will we get home?", "We set off at 8.15 am.", True),
        ("When does the train arrive?", "The train departs at 9.05.", True),
        ("When does the last bus leave?", "The last bus back from Sund is at 5 pm.", False),
        ("When does the last bus leave?", "The bus goes home at 5 pm.", False),
        ("What time will we get home?", "We should be at the gate by 4 pm.", False),
        ("When does the train arrive?", "It leaves at 9.05 and gets in at 10.", False),
        ("When do we have to leave?", "Return the keys by 10 am, then leave.", False),
    ],
)
def test_the_time_of_the_other_end_is_opposite(question: str, quote: str, conflicts: bool) -> None:
    assert (OPPOSITE in find_conflicts(question, quote, "")) is conflicts
