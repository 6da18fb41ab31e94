"""Headings and tables of plain text that only its layout shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.documents.chunking import chunk_document
from shared_core.documents.loaders.text import (
    find_capital_headings,
    find_numbered_sections,
    find_papers,
    load_text,
    name_rows,
)
from tests.documents.reading import read

MINUTES = """ARLE GARDEN CLUB
Minutes of the meeting of 9 March

1. Welcome

The Chair welcomed everybody.

2. Accounts

     Income                2023        2022
     Rents            £4,386.00   £4,212.00
     Plant sale         £518.75           -

3. Hens
Up to 6 hens are allowed.
"""


def test_numbered_lines_with_text_below_head_sections() -> None:
    found = load_text(MINUTES)
    assert [h.label for h in found.headings] == ["1. Welcome", "2. Accounts", "3. Hens"]
    assert [found.text[h.start : h.end].strip() for h in found.headings] == [h.label for h in found.headings]
    assert found.title == "ARLE GARDEN CLUB – Minutes of the meeting of 9 March"


@pytest.mark.parametrize(
    "text",
    [
        "1. Open the tap\n\n2. Wait a minute\n\n3. Close the tap\n",  # a list
        "1. Open\n2. Wait\n3. Close\n",
        "1. Welcome\n\nText.\n\n3. Hens\n\nText.\n\n4. Rats\n\nText.\n",  # one is missing
        "1. Welcome\n\nText.\n\n2. Hens\n\nText.\n",  # too few
        "1. The Chair welcomed everybody.\n\nText.\n\n2. No.\n\nText.\n\n3. Yes.\n\nText.\n",
    ],
)
def test_lists_and_sentences_head_nothing(text: str) -> None:
    assert find_numbered_sections(text) == []


def test_lines_in_capitals_head_sections_where_the_rest_is_not() -> None:
    text = "ABOUT US\n\nWe fix teeth.\n\nMONEY\nIt is free.\n\nTREATMENT (NHS)\n\nAsk us.\n"
    assert [h.label for h in find_capital_headings(text)] == ["ABOUT US", "MONEY", "TREATMENT (NHS)"]
    assert find_capital_headings(text.upper()) == []


def test_parts_with_a_colon_head_sections_and_fields_do_not() -> None:
    text = "PART 1: TOOLS\n\nBring a rake.\n\nPART 2: TIMES\nAt nine.\n\nPART 3: WAGES\n\nNone at all.\n"
    assert [h.label for h in find_capital_headings(text)] == ["PART 1: TOOLS", "PART 2: TIMES", "PART 3: WAGES"]
    assert (
        find_capital_headings("NAME: IDA HOLM\n\nA keeper.\n\nTOWN: OSTRAND\n\nBy the sea.\n\nAGE: OLD\n\nOh.\n") == []
    )


def test_numbered_headings_may_break_off() -> None:
    text = "1. Parts\n\n1.1 Rake\n\nOak.\n\n2. If it breaks ...\n\n2.1 The head\n\nGlue it.\n\n3. And if not…\n\nOh.\n"
    assert [h.label for h in load_text(text).headings] == [
        "1. Parts",
        "1.1 Rake",
        "2. If it breaks ...",
        "2.1 The head",
        "3. And if not…",
    ]


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("Moor Choir\nMinutes of the committee held on 6 May 2024 in the hall, while it was raining in", 0),
        ("Moor Voices\nInterview 9: Ada Pym\nRecorded on 14 March 2019\nInterviewer: Bo Lund", 2),
        ("Report on the hens\nAuthor: Ida Holm\nDate: 3 May", 1),
        ("Moor Choir\nRules for the hall\nOf the committee\nOn the first floor", 0),
        ("Milk\nEggs\nFlour\nBread\nSalt", 0),
        ("Server: ida\nPort: 80\nUser: bo", 0),
    ],
)
def test_the_lines_above_fields_and_dates_are_the_title(head: str, title: int) -> None:
    assert load_text(f"{head}\n\nIt was so.\n").title == " – ".join(head.splitlines()[:title])


def test_rows_set_with_spaces_have_the_names_of_their_columns() -> None:
    assert "Income: Rents; 2023: £4,386.00; 2022: £4,212.00\nIncome: Plant sale; 2023: £518.75; 2022: -" in (
        load_text(MINUTES).text
    )


def test_the_first_column_needs_no_name() -> None:
    fees = "            Ducks   Foxes\nFull day      £72     £62\nMorning       £41     £35\n"
    assert name_rows(fees) == "Full day; Ducks: £72; Foxes: £62\nMorning; Ducks: £41; Foxes: £35\n"


def test_values_with_units_are_values() -> None:
    oven = (
        "Dish      Heat     Time      Note\nBread     220 °C   45 min    Crisp\nPie       180 °C   1 h 10    Golden\n"
    )
    assert name_rows(oven).splitlines()[1] == "Dish: Pie; Heat: 180 °C; Time: 1 h 10; Note: Golden"


@pytest.mark.parametrize(
    "text",
    [
        "Mon-Thu   9-5\nFri       9-3\nSat       closed\n",  # no names
        "-a      all       1\n-b      both      2\n-c      none      3\n",
        "Name    Fee     Day\nA rather long first line of prose  that  ends\nFoxes   £3      Mon\n",
        "One     two     three\nfour    five    six\nseven   eight   nine\n",  # no values
    ],
)
def test_what_is_no_table_stays_as_it_is(text: str) -> None:
    assert name_rows(text) == text


_WORD = st.text("abcdefgh", min_size=3, max_size=8)


@given(st.lists(_WORD, min_size=3, max_size=3, unique=True), st.lists(st.integers(1, 999), min_size=4, max_size=4))
def test_every_cell_of_a_table_is_kept(names: list[str], values: list[int]) -> None:
    rows = [["alpha", *map(str, values[:2])], ["beta", *map(str, values[2:])]]
    lines = ["".join(cell.ljust(12) for cell in row).rstrip() for row in [names, *rows]]
    written = name_rows("\n".join(lines) + "\n").splitlines()
    assert written == ["; ".join(f"{n}: {c}" for n, c in zip(names, row)) for row in rows]


ABOUT = "We counted them on nine days of May, from the pier and from the boat of the harbour master. " * 2


def test_papers_in_one_file_have_their_own_titles() -> None:
    one = "Eels in the harbour: a count\n\nI. Holm, B. Lund"
    two = "What do the gulls of the pier eat?\n\nJon Falk, Ann B. Berg & M. Oe"
    document = read(f"{one}\n\n{ABOUT}\n\n{two}\n\n{ABOUT}\n", "papers.txt")
    passages = chunk_document(document)
    assert [p.title for p in passages] == ["Eels in the harbour: a count", "What do the gulls of the pier eat?"]
    assert passages[0].text.endswith("master.")
    assert passages[1].text.startswith("What do the gulls of the pier eat?")


@pytest.mark.parametrize(
    "text",
    [
        f"Eels in the harbour: a count\n\nI. Holm, B. Lund\n\n{ABOUT}",  # one
        f"{ABOUT}\n\nEels in the harbour: a count\n\nI. Holm\n\n{ABOUT}\n\nGulls of the harbour\n\nB. Lund\n\n{ABOUT}",
        f"Dear all, here is the count\n\nThe eels first\n\n{ABOUT}\n\nThe gulls come second\n\nAnd now they\n\n{ABOUT}",
    ],
)
def test_other_texts_are_no_papers(text: str) -> None:
    assert find_papers(text) == ()


@given(st.text("aA1.  \t\n-:£é", max_size=300))
def test_headings_are_where_they_say(text: str) -> None:
    found = load_text(text)
    for heading in found.headings:
        assert 0 <= heading.start <= heading.end <= len(found.text)
