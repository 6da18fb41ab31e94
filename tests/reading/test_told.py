"""Questions for a reason, a purpose, a difference: a sentence that only names the thing does not answer them."""

from __future__ import annotations

import pytest

from shared_core.reading.spans import gives_no_span, times_only_price
from shared_core.reading.sums import costs_something, frees_members, names_no_sum, refers_to_tariff, tells_only_change
from shared_core.reading.told import (
    asks_reason,
    dates_another_act,
    forbids_only,
    gives_reason,
    measures_only,
    names_no_holder,
    names_only_asked,
    tells_what_is_asked,
)
from shared_core.types import Passage
from tests.reading.asking import chance, quotes

FIELDS = Passage(
    "fields",
    "Each mooring has custom fields. Once the data type of a field is set, it cannot be changed. "
    "Fields are listed in the order in which they were made.",
    "Moorings",
)
REASONED = Passage(
    "fields",
    "Each mooring has custom fields. Once the data type of a field is set, it cannot be changed, because the values "
    "that are stored already would not fit. Fields are listed in the order in which they were made.",
    "Moorings",
)


@pytest.mark.parametrize("question", ["Why can't I change the data type of a field?", "How come the type is fixed?"])
def test_what_only_repeats_the_question_is_much_less_sure_than_a_reason(question: str) -> None:
    assert asks_reason(question)
    assert chance(question, FIELDS) < 0.5
    assert chance(question, REASONED) > chance(question, FIELDS) + 0.3


def test_other_questions_are_as_sure_without_a_reason() -> None:
    assert chance("Can the data type of a field be changed?", FIELDS) > 0.6


def test_the_sentence_with_the_reason_comes_before_the_one_that_repeats_the_question() -> None:
    text = (
        "The ferry does not sail in fog. It carries cars and horses. In fog the keeper rings a bell every minute. "
        "Sailing in fog was forbidden because of the wreck of 1902."
    )
    assert "1902" in quotes("Why does the ferry not sail in fog?", text)[0]


def test_a_heading_that_asks_why_makes_its_text_the_reason() -> None:
    section = {"section": "Questions > Why is the bridge closed on Sundays?", "source": "faq.md"}
    faq = Passage("faq", "The keeper is in church. Bring your own lamp.", "Bridge", section)
    plain = Passage("faq", "The keeper is in church. Bring your own lamp.", "Bridge", {**section, "section": "Sundays"})
    question = "Why is the bridge closed on Sundays?"
    assert chance(question, faq) > chance(question, plain)


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("It is closed because of the flood.", True),
        ("Keep both apart to avoid confusion.", True),
        ("As the frame had been weakened, it was cut in two.", True),
        ("They walked out in protest against the toll.", True),
        ("The log is kept for compliance reasons.", True),
        ("It uses /var/tmp, which makes jobs faster.", True),
        ("Trying to save coal, he sailed at night.", True),
        ("The key is optional, so it may be left out.", True),
        ("Defaults to 8000.", False),
        ("The module is not yet able to handle expiry.", False),
        ("The range has a maximum of 10,000.", False),
        ("Such files need to keep their name.", False),
        ("This method is not recommended.", False),
    ],
)
def test_words_that_give_a_reason(text: str, gives: bool) -> None:
    assert gives_reason(text) is gives


@pytest.mark.parametrize("question", ["Who asked for it?", "Is it reasonable to wait?", "What does it cost?"])
def test_questions_for_something_else(question: str) -> None:
    assert not asks_reason(question)


@pytest.mark.parametrize(
    ("question", "tells", "does_not"),
    [
        (
            "What is the reel key used for?",
            "The reel key keeps the line from running out.",
            "Hooks can be bought at the harbour office.",
        ),
        ("What is the purpose of the reel key?", "It keeps the line from running out.", "Keys are kept by the porter."),
        (
            "What is the difference between brass lamps and tin lamps?",
            "Brass lamps are lit at dusk, tin ones only in fog.",
            "Lamps such as brass and tin lamps are kept in the shed.",
        ),
        (
            "What's the difference between G codes and P codes?",
            "A G code is of the guild and ends in a digit, a P code of the port.",
            "You are not limited to G and P codes.",
        ),
        (
            "What is the difference between a pilot and a mate?",
            "Unlike the mate, a pilot leaves the ship outside the harbour.",
            "The mate signs the log.",
        ),
    ],
)
def test_a_purpose_or_a_difference_is_told_of_what_is_asked_about(question: str, tells: str, does_not: str) -> None:
    assert tells_what_is_asked(question, tells, "Lamps")
    assert not tells_what_is_asked(question, does_not, "Lamps")


def test_the_heading_may_name_what_a_sentence_tells_of() -> None:
    question = "What is reel_key for?"
    assert tells_what_is_asked(question, "Keeps the line from running out.", "Settings > reel_key")
    assert not tells_what_is_asked(question, "Keeps the line from running out.", "Settings > hook_key")


@pytest.mark.parametrize(
    "question", ["What is the fee for a mooring?", "What is there for children?", "Who is it for?"]
)
def test_other_forms_are_not_judged(question: str) -> None:
    assert tells_what_is_asked(question, "Nothing.", "")


@pytest.mark.parametrize(
    ("question", "tells", "does_not"),
    [
        ("How long are the backups kept?", "They stay until they are replaced.", "The backups are kept in the vault."),
        ("How often is the pump oiled?", "It is oiled weekly.", "The pump is oiled by the mate."),
        ("At what time does the crew meet?", "The crew meets at noon.", "The crew meets in the chart room."),
        ("On which day is the yard shut?", "It is shut on Fridays.", "The yard is shut to visitors."),
        ("What day does the choir sing?", "It sings weekly on Wed at 7.", "It sings from 7 to 9 pm in room 12."),
        ("Which days is the slip open?", "From 3/6 until 9/6.", "The slip is open 8.30-17 and has 2 cranes."),
        ("What day of the week is bingo?", "Bingo is played daily.", "Bingo starts at half past seven."),
        ("What day does the sale start?", "On the 14th, at 9.", "It starts at 9 and ends at 10:30."),
        ("What date does the lease end?", "It ends in May.", "The lease ends when either side gives notice."),
        ("In what year did the pier burn down?", "It burnt down in 1887.", "The pier burnt down after a storm."),
        ("How old is the ferry?", "It was built in 1904.", "The ferry belongs to the town."),
        ("What is the hull number?", "It is HX.", "The hull is painted with its letters."),
        ("Which bus number stops at the pier?", "Number 9 does.", "The pier is close to the bus routes."),
        ("What time does the fair begin?", "It begins at 9.", "The fair returns on 4 April and on First Fridays."),
        ("What time does the 34 bus leave?", "The 34 bus leaves at 9.", "The 34 bus stops every two hours, only here."),
        ("What time does ferry 2 sail?", "Ferry 2 sails at 2.", "Ferry 2 takes 40 minutes to the fort."),
        ("When does the slip close?", "It closes at dusk.", "The slip is closed in August."),
        ("When do you open on Sunday?", "We are closed on Sundays.", "We are closed in May."),
        ("When does the bar shut on a Friday?", "Fridays: 6 to 11.", "It shuts for a month each year."),
        ("What time should I come?", "Come half an hour before low water.", "Each hour a ferry leaves."),
        (
            "Where and at what time does it meet?",
            "At 7.30 in the hall.",
            "The annual meeting is in the hall in May 2024.",
        ),
    ],
)
def test_a_time_or_a_number_is_told_by_numbers_or_words_for_times(question: str, tells: str, does_not: str) -> None:
    assert tells_what_is_asked(question, tells, "Harbour")
    assert not tells_what_is_asked(question, does_not, "Harbour")


def test_a_heading_may_tell_the_time_and_a_list_may_follow() -> None:
    assert tells_what_is_asked("What time is the service?", "The choir sings.", "Parish > Service, 10.30")
    assert not tells_what_is_asked("What time is the service?", "The choir sings.", "Two parishes > 3. Service")
    assert tells_what_is_asked("On what date did the board choose?", "The board chose a seal.", "Minutes > 4 May 1990")
    assert tells_what_is_asked("How often is it oiled?", "The pump is oiled by this table:", "Pump")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Which option limits how long a request may run?", "The option is named --timeout."),
        ("What year group is she in?", "She is in the upper school."),
        ("Which number plate holders are there?", "There is a frame of brass."),
        ("What day of the month is the rent due?", "The rent is due by the 5 of each."),
        ("What day pass is there for two?", "The pair pass is 12."),
        ("What day does it start?", "From tomorrow."),
        ("What day is the hike?", "Day: 3; Plan: hike to the tarn"),
        ("When does the slip close?", "It closes for the winter in October."),
        ("When does the slip close for repairs?", "The slip is closed in August."),
        ("When will the slip close?", "The slip will be closed in August."),
    ],
)
def test_times_and_numbers_that_are_not_asked_for(question: str, text: str) -> None:
    assert tells_what_is_asked(question, text, "")


@pytest.mark.parametrize(
    ("question", "text", "tells"),
    [
        ("When is the camp?", "The camp is *not* 21–23 October as printed.", False),
        ("When is the camp?", "The camp is not on Monday.", False),
        ("When is the camp?", "The camp is not on 21 May but on 3 June.", True),
        ("When may I leave?", "You may not leave before 9 May.", True),
        ("How long is the camp?", "It is not 3 days but a week.", True),
    ],
)
def test_a_date_that_is_only_denied_is_not_told(question: str, text: str, tells: bool) -> None:
    assert tells_what_is_asked(question, text, "Camp") is tells


@pytest.mark.parametrize(
    ("question", "sentence", "only"),
    [
        ("Who takes over from Ravi?", "- Ravi is stepping down in autumn.", True),
        ("Who is replacing Ravi?", "Ravi left in May.", True),
        ("Who takes over from Ravi?", "Ravi hands over to Hedda.", False),
        ("Who takes over from Ravi?", "The front desk takes over from Ravi.", False),
        ("Who is Ravi?", "Ravi runs the front desk.", False),
        ("When does Ravi leave?", "Ravi leaves in May.", False),
    ],
)
def test_who_does_something_is_not_told_by_the_name_that_the_question_has(
    question: str, sentence: str, only: bool
) -> None:
    assert names_only_asked(question, sentence) is only


@pytest.mark.parametrize(
    ("question", "sentence", "answers"),
    [
        ("How many people fit in lift 2?", "Lift 2 (goods, 1,000 kg)", False),
        ("How many people fit in lift 2?", "Lift 2 is for 12.", True),
        ("How many people fit in lift 2?", "People up to 100 kg", True),
        ("How many hours are included?", "Two hours are.", True),
        ("How many eggs do I need?", "A dozen.", True),
        ("When was lift 2 installed?", "Last inspection: 9 January 2024", False),
        ("When was lift 2 last inspected?", "Last inspection: 9 January 2024", True),
        ("When was lift 2 installed?", "Installed: 9 January 2024", True),
        ("How much did the museum pay for the orrery?", "It was bought in 1926.", False),
        ("How much did the museum pay for the orrery?", "It was bought for 900 pounds in 1926.", True),
        ("How much is the fine for bins put out early?", "Put them out by 6.30 am.", False),
        ("How much is the entrance fee?", "After 4 pm it is free.", True),
        ("How much is the entrance fee?", "Adults 12, children 6.", True),
        ("How much flour do I need?", "Take 500 g.", True),
        ("How much did she earn?", "She gutted twenty tons in a good week.", False),
        ("How much did she earn?", "She earned ten pounds, two shillings.", True),
        ("How much did they donate?", "They gave 300 in 1999.", True),
        (
            "How much is the rent?",
            "In May the council shall raise the rent by £20 for flats and £30 for houses.",
            False,
        ),
        ("How much is the rent?", "The rent rises by £20 to £620.", True),
        ("How much is the rent?", "The rent rises from £600 to £620.", True),
        ("How much will the rent go up?", "The rent rises by £20.", True),
        ("How much did the new pump cost?", "Its service will cost £90 a year more.", False),
        ("How much is a mooring?", "Members get £9 off.", False),
        ("How much do members save?", "Members get £9 off.", True),
        ("How much is the power?", "Power is £5 a night extra.", True),
        ("How much is a ticket?", "Tickets are £9, with a discount of £2 for members.", True),
        ("How much is a ticket?", "It is £12, or £10 off-peak.", True),
        ("How much do I pay?", "If it is £50 or more, ring us.", True),
        ("What does it cost to become a Friend?", "Holders of a Friends card enter free of charge.", False),
        ("What does it cost to become a member?", "Membership is free for students.", True),
        ("What does it cost to be a member?", "Members pay £5.", True),
        ("What does it cost to visit?", "Members enter free.", True),
        ("What is the fine for late entries?", "A fine as set out in the table of fees is due for each.", False),
        ("What is the penalty for late entries?", "A penalty will be levied according to rule 7.", False),
        ("What is the penalty for late entries?", "Under rule 7 the penalty is two points.", True),
        ("What is the penalty for late entries?", "Disqualification, in accordance with rule 7.", True),
        ("What is the fine for late entries?", "A fine of £5 is due in accordance with the schedule.", True),
        ("Who sets the fines?", "Fines are set in accordance with the schedule.", True),
    ],
)
def test_amounts_and_dates_of_something_else_are_no_answer(question: str, sentence: str, answers: bool) -> None:
    otherwise = (measures_only, dates_another_act, names_no_sum, refers_to_tariff, tells_only_change, frees_members)
    assert answers is not any(judge(question, sentence) for judge in otherwise)


@pytest.mark.parametrize(
    ("question", "sentence", "tells"),
    [
        ("What time is the fair?", "The boat will be here by the time of the next fair in May.", False),
        ("What time is the fair?", "See you next time at the fair.", False),
        ("What time is the fair?", "It opens at tea time.", True),
        ("What's the phone number of the ferry?", "600 crowns one way (adult)", False),
        ("What's the phone number of the ferry?", "Arle Pier 4099, NY-28", False),
        ("What's the phone number of the ferry?", "Ferry office: (0428) 83-21", True),
        ("What is the telephone number?", "Ring +44 20 7946 0018.", True),
    ],
)
def test_times_of_day_and_numbers_of_telephones(question: str, sentence: str, tells: bool) -> None:
    assert tells_what_is_asked(question, sentence, "") is tells


@pytest.mark.parametrize(
    ("question", "sentence", "nobody"),
    [
        ("Who is the treasurer?", "You have to report each month to the Treasurer.", True),
        ("Who is the fire chief of Arle?", "The department waits for a fire chief.", True),
        ("Who is the fire chief?", "Fire chief Rory Blaze is on leave.", False),
        ("Who is the treasurer?", "I am the treasurer.", False),
        ("Who is the treasurer?", "The secretary acts as our treasurer.", False),
        ("Who is responsible for the lamp?", "The keeper is responsible for the lamp.", False),
        ("Who pays the treasurer?", "The members pay the treasurer.", False),
    ],
)
def test_an_office_without_a_name_does_not_say_who_holds_it(question: str, sentence: str, nobody: bool) -> None:
    assert names_no_holder(question, sentence) is nobody


@pytest.mark.parametrize(
    ("question", "sentence", "none"),
    [
        ("How much is the ferry there and back?", "* 16:30 - Ferry to Arle", True),
        ("How much is the ferry?", "The ferry is 9 crowns at 16:30.", False),
        ("How much is the usual dose?", "Take 5 ml.", False),
        ("How much is left?", "It ends at 16:30.", False),
        ("How much is the ferry?", "It is free after 16:30.", False),
    ],
)
def test_a_time_of_day_is_no_sum(question: str, sentence: str, none: bool) -> None:
    assert names_no_sum(question, sentence) is none


@pytest.mark.parametrize(
    ("question", "sentence", "cost"),
    [
        ("How much does the chief get paid?", "The cost of full gear is about $4,000.", True),
        ("How much do keepers earn?", "A new lamp costs £90.", True),
        ("How much do keepers earn?", "Keepers earn £90 a week, which costs the board much.", False),
        ("How much will a lamp cost?", "A new lamp costs £90.", False),
    ],
)
def test_what_something_costs_is_not_what_someone_is_paid(question: str, sentence: str, cost: bool) -> None:
    assert costs_something(question, sentence) is cost


@pytest.mark.parametrize(
    ("question", "sentence", "forbids"),
    [
        ("Where can I park?", "Please do not park on the grass.", True),
        ("Where does the tar go?", "Never pour tar into the harbour.", True),
        ("Where can I park?", "Do not park on the grass; use the field behind the hall.", False),
        ("Where can I park?", "Do not park anywhere except behind the hall.", False),
        ("Where can I park?", "Parking on the grass is not allowed.", False),
        ("Can I park on the grass?", "Do not park on the grass.", False),
        ("Where must we not park?", "Do not park on the grass.", False),
    ],
)
def test_where_something_must_not_be_is_not_where_it_goes(question: str, sentence: str, forbids: bool) -> None:
    assert forbids_only(question, sentence) is forbids


@pytest.mark.parametrize(
    ("question", "sentence", "none"),
    [
        ("How long does it take to bleed the boiler?", "The boiler is bled every three months.", True),
        (
            "How long will the paint take to dry?",
            "The shed is painted twice a year and shut until 4 pm on that day.",
            True,
        ),
        ("How long does the torch work with one cell?", "Charge the torch every six months.", True),
        ("How long is the boat trip?", "The boat sails every other Sunday at a fare of £9 a day.", True),
        ("How long does it take until the glue holds?", "Use the glue within two weeks.", True),
        ("How long does the mooring take?", "It costs 6 euros a night.", True),
        ("How long does it take to bleed the boiler?", "Every three months, for an hour.", False),
        ("How long will it take?", "It will take until 4 pm.", False),
        ("How long does the tour take?", "Tours are every day from 2 to 4 pm.", False),
        ("How long is the licence valid?", "It has to be renewed every five years.", False),
        ("How long is the chair in office?", "The chair is elected every two years.", False),
        ("How long does the filter last?", "Clean it every week.", False),
        ("How long does it take to get the money back?", "The sum is paid within ten days.", False),
        ("How long do I have to return it?", "Return it within ten days.", False),
        ("How long is the course?", "Each week there are two hours.", False),
        ("How often is the boiler bled?", "Every three months.", False),
        ("How long does it take to bleed the boiler?", "It takes an hour every month.", False),
    ],
)
def test_how_often_and_until_when_is_not_how_long(question: str, sentence: str, none: bool) -> None:
    assert gives_no_span(question, sentence, "") is none


@pytest.mark.parametrize(
    ("question", "sentence", "only"),
    [
        ("When can I borrow the tent?", "The tent costs £5 a night.", True),
        ("When is the pool heated?", "Heating the pool is 12 euros per hour.", True),
        ("When can I borrow the tent?", "From May on, for £5 a night.", False),
        ("When can I borrow the tent?", "If it is free, for £5 a night.", False),
        ("When is the rent due?", "£600 a month, on the first.", False),
        ("What does the tent cost?", "The tent costs £5 a night.", False),
    ],
)
def test_the_unit_of_a_price_does_not_say_when(question: str, sentence: str, only: bool) -> None:
    assert times_only_price(question, sentence) is only
