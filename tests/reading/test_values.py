"""Exact values of questions: which texts hold them, which give another, and what that does to answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Passage
from shared_core.reading.editions import dates_other_year
from shared_core.reading.values import absent_values, any_another, gives_another, gives_date, holds, values_of
from tests.reading.asking import chance, first, quotes

DESK = Passage(
    "desk",
    "The service desk is open from 8:00 to 17:00 on Mondays. On Saturdays it opens at 9:00 and closes at 12:30. "
    "The HX-60 weighs 11.2 kg and costs 290 euros. Version 2.1 added dark mode. Version 2.3 added export to PDF. "
    "In March 1,200 visitors came to the workshop. In 2019 the company moved to Lund. "
    "Port 8080 is used for the web interface.",
)
TABLE = Passage(
    "table",
    "| Day | Opens | Closes |\n| --- | --- | --- |\n| Monday | 8:00 | 17:00 |\n| Saturday | 9:00 | 12:30 |\n",
    "Opening hours of the service desk",
)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When is it open on Sunday?", "Open Mon to Fri 8-17, Sat–Sun 9-12."),
        ("When is it open on Tuesdays?", "Monday to Friday from 8."),
        ("Who teaches Year 5?", "Years 3 to 6 are taught by Mr Orr."),
        ("Who teaches Year 5?", "Years 3, 5 and 6: Mr Orr"),
        ("Where is room 104?", "Rooms 101-110 are upstairs."),
        ("Who meets in group 2?", "Group 1 to group 3 meet here."),
        ("May dogs come in May?", "No dogs from 1 March to 31 July."),
        ("Can we row in July?", "Rowing: 1 April – 30 September"),
        ("Is it open on 20 August?", "Open from June 1 until August 31."),
        ("Is it open on 12 October?", "Open 1–14 October."),
        ("Is it open in January?", "Closed between 20 November and 3 February."),
        ("Is it open on 2 January 2025?", "Closed 22 December 2024 to 4 January 2025."),
        ("When is it open on Tuesdays?", "It is open daily."),
        ("Who was president in 1947?", "He served as president from 1946 to 1952."),
        ("Who played in 2012?", "The 2011–12 season was won by Lund."),
        ("What happened in the 1980s?", "The ban followed in 1985."),
        ("Which TLS has Node 20.x?", "Node.js v20 has TLS 1.2."),
        ("Which TLS has Node 20.x?", "### Releases 18.x and 20.x"),
        ("What does level AAA require?", "At AAA, seven to one."),
        ("What do I need for a B+?", "Percent: 89-87%; Grade: B+"),
        ("How is an A- given?", "A-: 90 to 92 points"),
        ("Who teaches Year 5T?", "Years 5R and 5T are taught by Mr Orr."),
        ("Who lives in flat 3B?", "Flats 3A to 3D are let."),
        ("Who may use block B?", "Blocks A-D are for members."),
        ("Which 30 hour event is it?", "A thirty-hour event raises money."),
        ("When did season 13 begin?", "The thirteenth season began late."),
        ("Who sang at Super Bowl 51?", "She sang as part of Super Bowl LI."),
        ("Why are MP3s popular?", "MP3 files are small."),
        ("What does the HX 60 weigh? And the HX-60?", "The HX60 is light."),
        ("How many of the 1200 came?", "There were 1,200 visitors."),
        ("Who lives on the third floor?", "On floor 3 lives Berg."),
        ("Who lives on the 3rd floor?", "The third floor is Berg's."),
        ("Who came on 2 March 2019?", "On 2019-03-02 two came."),
    ],
)
def test_other_spellings_of_a_value_hold_it(question: str, text: str) -> None:
    values = values_of(question)
    assert values
    assert all(holds(v, text) and not gives_another(v, text) for v in values)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When is it open on Sunday?", "Open from 8 on Mondays."),
        ("Who was president in 1957?", "He served as president from 1946 to 1952."),
        ("What did version 2.2 add?", "Version 2.1 added dark mode."),
        ("Who teaches Year 5?", "Years 3, 4 and 6 are taught by Mr Orr."),
        ("Who teaches Year 7?", "Years 3 to 6 are taught by Mr Orr."),
        ("What does figure 5 show?", "Figure 3-6 shows the pump."),
        ("May dogs come in October?", "No dogs from 1 March to 31 July."),
        ("Is it open on 10 April?", "Open from 15 April to 30 September."),
        ("Is it open on 20 October?", "Open 1–14 October."),
        ("Who was born in May?", "Ada Ash (9 April 1901 – 2 June 1977)"),
        ("Is it open on 2 January 2026?", "Closed 22 December 2024 to 4 January 2025."),
        ("What is port 9090 for?", "Port 8080 serves pages."),
        ("What do I need for a B+?", "Percent: 86-83%; Grade: B"),
        ("What do I need for a B+?", "82-80%  B-"),
        ("Which TLS has Node 20.x?", "Node 18.x has TLS 1.2."),
        ("What does level AAA require?", "Level AA requires four to one."),
        ("What do class B shares cost?", "Shares of class A cost 5; those of class C nothing."),
        ("What will Class 5T do?", "Class 5R spends three days on the farm."),
        ("Who lives in flat 3B?", "Flat 3C is let to Ida Berg."),
        ("What does seat 12A cost?", "Seats 12D and 12E cost £5."),
        ("When does bus 5A leave?", "Bus 5B leaves at 9."),
        ("What does GET /cards list?", "`GET /accounts` lists accounts."),
        ("What does PUT /cards do?", "`POST /cards` makes one, `PUT /accounts` another."),
        ("When was rope 1.13 released?", "* Changes in release 1.3.13 (2009-09-30)"),
        ("What is in setup.py?", "conf.py holds the settings of the docs."),
        ("What does error E7 mean?", "E2: motor too hot"),
        ("Who came in April?", "In March two came."),
        ("When is it open on Tuesdays?", "Open on Monday and Friday."),
        ("When is it open on Sunday?", "Closed on Mondays, open on other weekdays."),
        ("When does it leave on Sundays?", "It leaves at 8:15 on weekdays."),
        ("When does it leave on Tuesdays?", "It leaves at 8:15, Sat–Sun only."),
    ],
)
def test_another_value_of_the_kind(question: str, text: str) -> None:
    assert any_another(values_of(question), text, "")
    assert absent_values(values_of(question), [text])


def test_another_ordinal_is_another_value_but_none_is_not_absent() -> None:
    values = values_of("How many are on the third floor?")
    text = "There are 14 on the second floor and 3 on the ground floor."
    assert any_another(values, text, "")
    assert not absent_values(values, [text])  # "the third" is often told otherwise


@pytest.mark.parametrize(("question", "text"), [
    ("What is port 9090 for?", "It has 2 doors."), ("Who came in 2019?", "Nobody came."), ("Who may enter?", "In May."),
    ("What does level AAA require?", "Levels vary."), ("When does bus 5A leave?", "Bus 5 leaves at 9."),
    ("Which bus leaves at 9?", "Bus 5A leaves at 9."), ("What does the USA require?", "Level AA."),
])  # fmt: skip
def test_nothing_of_the_kind_is_not_another(question: str, text: str) -> None:
    assert not any_another(values_of(question), text, "")


def test_another_number_behind_the_same_word_is_another_whatever_the_date() -> None:
    assert any_another(values_of("When is quiz 12?"), "Wed 12/1: Quiz 10 at 8 am", "")
    assert not any_another(values_of("When is quiz 12?"), "Wed 12/1: Quiz 10 is back, quiz 12 begins", "")


def test_a_month_in_a_heading_names_none_of_its_days() -> None:
    fair = "- Sat 7 June: plant sale"
    assert any_another(values_of("What is on on 21 June?"), fair, "What's on > June")
    assert not any_another(values_of("What is on on 21 June?"), fair, "Programme of 21 June")
    assert not any_another(values_of("What is on in June?"), fair, "What's on")


def test_headings_may_name_the_value() -> None:
    changed = values_of("What changed in 1.95?")
    assert any_another(changed, "Fixes are in.", "Version 1.41.0 (2020-01-30) > Compiler")
    assert any_another(changed, "Fixes are in.", "Notes\n[1.41.0] - 2020-01-30")
    assert not any_another(changed, "Fixes are in.", "Version 1.95 (2026-04-16) > Compiler")
    assert not any_another(changed, "Fixes of 1.95 are in.", "Version 1.41.0 (2020-01-30)")
    assert not any_another(changed, "Fixes are in.", "3.1 Changes")
    assert not any_another(values_of("Who won in 2010?"), "After losing in 2009, Lund won.", "Season 2010")


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_text_that_holds_a_value_gives_no_other(question: str, text: str) -> None:
    for value in values_of(question):
        assert not (holds(value, text) and gives_another(value, text))
        assert value.text in question


@given(st.integers(1000, 2100))
def test_a_question_holds_its_own_year(year: int) -> None:
    question = f"Who came in {year}?"
    assert all(holds(v, question) for v in values_of(question))


NEAR_MISSES = [
    "What does the HX-90 weigh?", "When does the service desk open on Sundays?", "What did version 2.2 add?",
    "How many visitors came in April?", "Where did the company move in 2021?", "What is port 9090 used for?",
]  # fmt: skip


@pytest.mark.parametrize("question", NEAR_MISSES)
def test_a_question_about_another_value_is_improbable(question: str) -> None:
    assert chance(question, DESK, expected=0.75) < 0.5


@pytest.mark.parametrize(("question", "words"), [
    ("What does the HX-60 weigh?", "11.2 kg"), ("When does the service desk open on Saturday?", "9:00"),
    ("What did version 2.3 add?", "PDF"), ("How many visitors came in March?", "1,200"),
    ("Where did the company move in 2019?", "Lund"), ("What is port 8080 used for?", "web interface"),
])  # fmt: skip
def test_the_sentence_with_the_value_is_quoted(question: str, words: str) -> None:
    text, sure = first(question, DESK, expected=0.75)
    assert words in text
    assert sure > 0.3


def test_the_head_of_a_table_is_no_answer() -> None:
    assert not any("Opens" in quote for quote in quotes("When does the service desk open on Sunday?", TABLE))


@pytest.mark.parametrize("rule", ["-" * 800 + " x", "- " * 400 + "x", "| --" * 400 + "x", " " * 800 + "x", "-----"])
def test_lines_like_the_rule_of_a_table_are_read_at_once(rule: str) -> None:
    found = quotes("When was the lamp lit?", f"The lamp was lit in 1874.\n{rule}\nIt burns oil.")
    assert found[0].startswith("The lamp was lit in 1874.")


@pytest.mark.parametrize("text", ["1 " * 10_000, "May " * 20_000, "in May " * 20_000, "XIV " * 8_000])
def test_long_text_of_nothing_but_values_takes_time_in_its_length_only(text: str) -> None:
    values = values_of("What opened at gate 42 in May 2019?")  # quadratic: several minutes
    assert absent_values(values, [text])
    assert not any_another(values, text, "")


def test_a_file_is_named_by_where_a_passage_is_from() -> None:
    text = "The harbour was built in 1911 by Ada Brandt."
    named, other = (
        chance("Who built the harbour, by notes.md?", Passage("p", text, metadata={"source": file}), expected=0.75)
        for file in ("docs/notes.md", "docs/other.md")
    )
    assert named > 2 * other


CHANGES = "## [2.3.0] - 2024-05-14\n### Added\n- Retries.\n\n## [2.3.1] - 2024-06-02\n### Fixed\n- A crash."


@pytest.mark.parametrize("question", ["When was version 2.3.0 released?", "when did 2.3.0 come out"])
def test_the_heading_of_a_version_dates_it(question: str) -> None:
    text, sure = first(question, Passage("p", CHANGES, "Changelog"))
    assert text == "## [2.3.0] - 2024-05-14"
    assert sure > 0.5


@pytest.mark.parametrize("question", ["What was added in 2.3.0?", "When was 2.3 released?", "When was 2.4.0 released?"])
def test_no_other_heading_is_an_answer(question: str) -> None:
    assert not gives_date(question, "## [2.3.0] - 2024-05-14")


@pytest.mark.parametrize(
    ("question", "quote", "section", "conflict"),
    [
        ("Who plays on Saturday night?", "19:30 The Rusty Anchors", "Festival > Friday", True),
        ("Who plays on Saturday night?", "19:30 The Rusty Anchors", "Festival > Friday, 3 July", True),
        ("Who plays on Saturday night?", "21:00 Marisol", "Festival > Saturday", False),
        ("Who plays on Saturday night?", "On Saturday it closes at ten.", "Festival > Friday", False),
        ("Who plays on Saturday night?", "19:30 The Rusty Anchors", "Festival > Friday Club", False),
        ("Who plays on Saturday night?", "19:30 The Rusty Anchors", "Friday > Bands", False),
        ("Who plays at night?", "19:30 The Rusty Anchors", "Festival > Friday", False),
    ],
)
def test_what_stands_below_another_day_is_of_another_day(
    question: str, quote: str, section: str, conflict: bool
) -> None:
    assert any_another(values_of(question), quote, f"Festival 2026\n{section}") is conflict


@pytest.mark.parametrize(
    ("question", "text", "above", "other"),
    [
        ("When is the summer fair in 2026?", "The fair is on Saturday 12 June.", "News of May 2025", True),
        ("When is the regatta 2023?", "It starts at noon on 2 July.", "Regatta > Regatta 2022", True),
        ("When does term begin in 2028?", "Term begins on 3 September.", "Term dates 2026-2027", True),
        ("When is the play in 2027?", "The play is on 14 January.", "News of December 2025", True),
        ("When is the summer fair in 2025?", "The fair is on Saturday 12 June.", "News of May 2025", False),
        ("When is the play in January 2026?", "The play is on 14 January.", "News of December 2025", False),
        ("When is the play in 2026?", "The play is on 14 January.", "Parish letter\nAutumn 2025", False),
        ("When was the play in 2024?", "The play was on 14 December.", "News of January 2025", False),
        ("When does term begin in 2027?", "Term begins on 3 September.", "Term dates 2026/27", False),
        ("When is the regatta in 2026?", "It starts on 2 July.", "Saltby Sailing Club 1921", False),
        ("When is the regatta in 2026?", "It starts on 2 July.", "Saltby Sailing Club, founded 2019", False),
        ("When is the open day in 2026?", "It is on 2 July.", "Vision 2030", False),
        ("When is the open day in 2026?", "It is on the first Sunday of July every year.", "News 2025", False),
        ("When is the open day in 2026?", "It is on 2 July 2026.", "News 2025", False),
        ("When is the open day in 2026?", "It lasts two hours.", "News 2025", False),
        ("When is the open day?", "It is on 2 July.", "News 2025", False),
    ],
)
def test_a_date_below_the_name_of_another_year_is_of_that_year(
    question: str, text: str, above: str, other: bool
) -> None:
    assert dates_other_year(question, text, above) == other


def test_the_date_of_the_year_before_is_not_given_for_this_one() -> None:
    fair = "The summer fair will be on Saturday 12 June at 2 pm on the green."
    for title, sure in (("News of May 2025", False), ("News of May 2026", True)):
        assert (chance("When is the summer fair in 2026?", Passage("p", fair, title)) > 0.5) == sure
