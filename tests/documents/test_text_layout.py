"""Headings and tables of plain text that only its layout shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.documents.loaders.text import load_text
from shared_core.documents.loaders.text_layout import find_capital_headings, find_numbered_sections, name_rows

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


def test_rows_set_with_spaces_have_the_names_of_their_columns() -> None:
    assert "Income: Rents; 2023: £4,386.00; 2022: £4,212.00\nIncome: Plant sale; 2023: £518.75; 2022: -" in (
        load_text(MINUTES).text
    )


def test_the_first_column_needs_no_name() -> None:
    fees = "            Ducks   Foxes\nFull day      £72     £62\nMorning       £41     £35\n"
    assert name_rows(fees) == "Full day; Ducks: £72; Foxes: £62\nMorning; Ducks: £41; Foxes: £35\n"


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


@given(st.text("aA1.  \t\n-:£é", max_size=300))
def test_headings_are_where_they_say(text: str) -> None:
    found = load_text(text)
    for heading in found.headings:
        assert 0 <= heading.start <= heading.end <= len(found.text)
