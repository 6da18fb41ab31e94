"""Weekdays and opening hours in the passages' words."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
from shared_core.reading.days import (
    ask_closed,
    excludes_day,
    read_days,
    read_holidays,
    read_months,
    says_hours,
    says_whether_open,
)
from shared_core.reading.values import values_of
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage

LIBRARY = "The library is open Mon–Fri: 9am–6pm, Sat: 10am–4pm."


@pytest.mark.parametrize(
    ("question", "text", "read"),
    [
        ("When does the library open on Wednesday?", LIBRARY, "Mon–Fri"),
        ("When does the library open on Wednesdays?", LIBRARY, "Mon–Fri"),
        ("When does the library close on Saturday?", LIBRARY, "Sat"),
        ("When does the library close on Friday?", LIBRARY, "Mon–Fri"),
        ("When does the library close on Monday?", LIBRARY, "Mon–Fri"),
        ("When does the library open on weekdays?", LIBRARY, "Mon–Fri"),
        ("When does it open on Tuesday?", "Open Monday to Friday 9 to 6.", "Monday to Friday"),
        ("When does it open on Tuesday?", "Open Mondays through Fridays, 9 to 6.", "Mondays through Fridays"),
        ("When does it open on Tuesday?", "Weekdays 9-5, weekends 10-4", "Weekdays"),
        ("When does it open on Sunday?", "Weekdays 9-5, weekends 10-4", "weekends"),
        ("When does it open on Sunday?", "Fri-Mon: 9-5", "Fri-Mon"),
        ("When does it open on Thursday?", "Mo-Fr 9-17", "Mo-Fr"),
        ("When does it open at the weekend?", "Saturdays and Sundays: 10 to 4", "Saturdays and Sundays"),
    ],
)
def test_a_weekday_is_read_as_the_passage_writes_it(question: str, text: str, read: str) -> None:
    assert read in read_days(question, [text])


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When does the library open on Sunday?", LIBRARY),
        ("When does the library open on Wednesday?", f"{LIBRARY} Wednesday: closed."),
        ("Who spoke on Wednesday, 5 May?", LIBRARY),
        ("Who spoke on Wednesday 5 May?", LIBRARY),
        ("Until when is it open on the first Thursday of the month?", LIBRARY),
        ("Is it open from Tuesday to Wednesday?", LIBRARY),
        ("Who sat in the sun on Sunday?", "They sat in the Sun, and it was warm."),
        ("When is Sunday's service?", "Sat-Sun: 9am"),
        ("When does it open on Tuesday?", "Mon/Wed: 9am"),
        ("What is Ash Wednesday?", "Nothing is said of it."),
    ],
)
def test_other_days_stay(question: str, text: str) -> None:
    assert read_days(question, [text]) == question


def test_the_passage_that_speaks_of_the_question_decides() -> None:
    texts = ["The council met on Wednesday. The mayor spoke.", LIBRARY]
    assert "Mon–Fri" in read_days("When does the library open on Wednesday?", texts)


@pytest.mark.parametrize(
    ("question", "text", "read"),
    [
        ("When is the museum open in July?", "Museum: April–October 10–17", "April–October"),
        ("When is the museum open in July?", "Museum: Apr-Oct 10–17", "Apr-Oct"),
        ("When is the museum open in January?", "Museum: November to March 11–16", "November to March"),
        ("When is the museum open in May?", "Museum: April–October 10–17", "April–October"),
        ("When is the museum open in November?", "Museum: April–October 10–17", ""),
        ("When is the museum open in July?", "Museum: 1 April to 30 September 10–17", "1 April to 30 September"),
        ("Is there a ferry in July?", "Ferry: May–October; Ferry to the fort: June–August", "June–August"),
        ("Is there a ferry in winter?", "Ferry: 1 November to 31 March, daily", "in 1 November to 31 March?"),
        ("Is there a ferry in the summer?", "Ferry: May, weekends; June–August, daily", "in June–August?"),
        ("Is there a ferry in winter?", "Ferry: April–October", ""),
        ("Is there a ferry in winter?", "Ferry: November–March. Winter timetable: none.", ""),
        ("Is there a ferry in winter?", "Auckland, New Zealand. Ferry: November–March", ""),
        ("What grows in winter?", "Ferry: November–March", ""),
        ("Who came in the winter of 1963?", "Ferry: November–March", ""),
        ("How much was in the bank in February?", "Bank: 1 November to 31 March", ""),
        ("When is the museum open in July?", "Museum: April–October 10–17; closed in July", ""),
        ("What happened on 4 July?", "Museum: April–October 10–17", ""),
        ("What happened in July 1997?", "Museum: April–October 10–17", ""),
        ("May I come in?", "Museum: April–October 10–17", ""),
    ],
)
def test_a_month_is_read_as_the_range_that_covers_it(question: str, text: str, read: str) -> None:
    found = read_months(question, [text])
    assert read in found if read else found == question


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=3))
@example("Is it open on ſunday in ſeptember?", ["Open Thurſday to ſaturday, ſundays, ſep-Nov"])  # as old prints have it
@example("Frıday, at Chriſtmas", ["Frıdays to Sat"])
def test_any_text_is_read(question: str, texts: list[str]) -> None:
    for read_with in (read_days, read_months, read_holidays, ask_closed):
        assert read_with(question, texts) is not None
    assert values_of(question) is not None


@pytest.mark.parametrize(
    ("question", "changed"),
    [
        ("Is the shop open on Sundays?", True),
        ("Are you open on Sunday?", True),
        ("Is the shop open on Monday?", False),
        ("Is the shop open?", False),
        ("When is the shop open on Sunday?", False),
    ],
)
def test_open_or_closed_is_asked_where_a_sentence_says_closed(question: str, changed: bool) -> None:
    assert ("or closed" in ask_closed(question, ["Open Monday to Friday. Closed on Sundays."])) is changed


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When does the library open on Wednesday?", "9am"),
        ("When does the library open on Saturday?", "10am"),
        ("Is the library open on Sunday?", "closed"),
        ("When does the library open at Easter?", ""),
    ],
)
def test_hours_are_answered(question: str, answer: str) -> None:
    text = "Millbrook Library\n\nOpening hours:\n\n- Mon–Fri: 9am–6pm\n- Sat: 10am–4pm\n- Sunday: closed\n"
    found = SelfReflectEngine(BM25Retriever([Passage("1", text, "Millbrook Library")])).answer(question)
    shown = "\n".join(claim.text for claim in found.claims if claim.status == "kept")
    assert answer in shown
    assert bool(shown) is bool(answer)


@pytest.mark.parametrize(
    ("question", "text", "read"),
    [
        ("Is the museum open on Christmas Day?", "Closed on 24, 25 and 31 December.", "on 24, 25 and 31 December?"),
        ("Are you open at Christmas?", "Closed Dec 24-26.", "at Dec 24-26?"),
        ("Are you open on New Year’s Day?", "Closed January 1 and July 4.", "on January 1?"),
        ("Are you open on New Year’s Day?", "Closed from 22 December to 4 January.", "on 22 December to 4 January?"),
        ("Is it open on Boxing Day?", "Winter: 1 November to 31 March. Closed 24 Dec–2 Jan.", "on 24 Dec–2 Jan?"),
        ("Is it open on Boxing Day?", "Closed from 24th to 27th of December", "on 24th to 27th of December?"),
        ("Is it open on Halloween, too?", "Closed 31 Oct 2025", "on 31 Oct, too?"),
    ],
)
def test_a_holiday_is_read_as_its_date(question: str, text: str, read: str) -> None:
    assert read_holidays(question, ["Parking is free.", text]).endswith(read)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When is the Christmas party?", "The party is on 25 December."),
        ("Is it open on Christmas Day?", "At Christmas we close on 24 and 26 December, on 25 December at noon."),
        ("Is it open on Christmas Day?", "Closed on 24 and 31 December."),
        ("Is it open on Christmas Day?", "Closed on 25 January."),
        ("Is it open on Christmas Day or on Boxing Day?", "Closed on 25 December."),
    ],
)
def test_other_holidays_stay(question: str, text: str) -> None:
    assert read_holidays(question, [text]) == question


HOURS = "Season: 1 to 31 October; Fort: 10:00–16:30, Wednesday to Sunday; Tea room: Closed"


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("Is the fort open on Tuesdays in October?", True),
        ("Is the fort open on a Friday in October?", True),
        ("Is the tea room open on Sundays in October?", True),
        ("Is the fort open on Tuesdays in May?", False),
        ("Is the chapel open on Tuesdays in October?", False),
        ("Is the fort open on Tuesdays?", False),  # other seasons may differ
    ],
)
def test_a_row_of_a_season_says_whether_something_is_open(question: str, says: bool) -> None:
    assert says_whether_open(question, HOURS, "Visits", HOURS) is says


@pytest.mark.parametrize(
    ("question", "text", "excludes"),
    [
        ("Can I call the clinic on a Sunday?", "The clinic takes calls Monday to Friday, and on Saturday to 1.", True),
        ("Do you deliver parcels on Saturdays?", "Parcels are delivered Monday to Friday.", True),
        ("Can I call the clinic on a Sunday?", "Bins are emptied Monday to Friday.", False),
        ("Can I call the clinic on a Sunday?", "The clinic takes calls on Mondays.", False),
        ("Can I call the clinic on a Friday?", "The clinic takes calls Monday to Friday.", False),
        ("When can I call the clinic on a Sunday?", "The clinic takes calls Monday to Friday.", False),
    ],
)
def test_several_days_exclude_another(question: str, text: str, excludes: bool) -> None:
    assert excludes_day(question, text) is excludes


@pytest.mark.parametrize(
    ("question", "sentence", "says"),
    [
        ("When does the pool close on Saturday?", "The pool is open from Friday to Sunday, 10-17.", True),
        ("What are your hours on Saturday?", "We are open at 10 on Saturdays.", True),
        ("When does the pool close on Saturday?", "The pool is open on Saturdays.", False),
        ("When does the pool close on Saturday?", "The sauna is open on Saturdays from 10 to 12.", False),
        ("When does the sauna close on Saturday?", "The pool is open on Saturdays from 10 to 12.", False),
        ("When does the pool close on Monday?", "The pool is open on Saturdays from 10 to 12.", False),
        ("Who is there on Saturday?", "The pool is open on Saturdays from 10 to 12.", False),
    ],
)
def test_a_sentence_says_the_hours_of_the_day_asked_for(question: str, sentence: str, says: bool) -> None:
    assert says_hours(question, sentence, "Pool", sentence) is says
