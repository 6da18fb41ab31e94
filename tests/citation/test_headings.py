"""Headings state nothing, and the numbers of headings and list items count nothing."""

from __future__ import annotations

import pytest

from shared_core.citation import compare_claim, split_sentences
from shared_core.citation.headings import is_heading, mark_end

TEXT = """# Club rules

LONG MEADOW ALLOTMENTS

8. Rule changes

8.2 Hens. Up to 6 hens are allowed on a full plot.

EXIT STATUS
       0      all labels were queued

Leaving

Berth holders may give up their berth with two months' notice.

1. Paris
2. Rome

Entry is free.

- Ann Moor: chair
- Ben Hart: clerk
"""


def test_headings_are_told_from_what_states_something() -> None:
    found = [TEXT[a:b] for a, b in split_sentences(TEXT) if is_heading(TEXT, a, b)]
    assert found == ["# Club rules", "LONG MEADOW ALLOTMENTS", "8. Rule changes", "8.2 Hens.", "EXIT STATUS", "Leaving"]


def test_a_heading_with_nothing_below_it_is_a_line_like_others() -> None:
    assert not is_heading("Opening hours", 0, 13)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("# A", True),
        ("## Life (1779–1851) [1]", True),
        ("Life\n====", True),
        ("#tag was used.", False),
        ("A.", False),
        ("# The server bans clients that ask more than twice.", False),
    ],
)
def test_headings_of_markdown(text: str, heading: bool) -> None:
    assert is_heading(text, 0, len(text)) is heading


@pytest.mark.parametrize("text", ["2.4 m wide", "12 eggs", "In 1871", "(or 3)", "3,5 Liter"])
def test_a_number_of_a_sentence_is_no_mark(text: str) -> None:
    assert mark_end(text) == 0


@pytest.mark.parametrize("heading", ["8. Rules", "8) Rules", "3. Rules", "## 8 Rules", "§ 8 Rules", "8.2 Rules"])
def test_the_number_of_a_heading_bears_out_no_number_of_the_claim(heading: str) -> None:
    evidence = f"{heading}\n\nUp to 6 hens are allowed on a full plot, none on a half plot."
    assert [m.held for m in compare_claim("Up to 8 hens are allowed on a full plot.", evidence).mismatches] == ["6"]
    assert compare_claim("Up to 6 hens are allowed on a full plot.", evidence).agrees


def test_a_date_that_begins_a_sentence_stays_one() -> None:
    found = compare_claim("Das Haus wurde am 3. Mai 1887 eröffnet.", "3. Mai 1887 wurde das Haus eröffnet.")
    assert not {"number", "date"} & {m.kind for m in found.mismatches}


def test_one_limit_is_not_another_but_may_be_a_rounding_of_it() -> None:
    assert not compare_claim("Up to 8 guests may stay.", "Up to 6 guests may stay.").agrees
    assert compare_claim("Under 900,000 people live there.", "Fewer than 887,000 people live there.").agrees


@pytest.mark.parametrize("line", ["**Ilona:** Do we pay for that?", "Ilona: Do we pay?", "_Q:_ Is it free?"])
def test_a_speakers_question_is_no_heading(line: str) -> None:
    assert not is_heading(f"{line}\n\nDora: No. It has a warranty of three years, which covers it.", 0, len(line))
