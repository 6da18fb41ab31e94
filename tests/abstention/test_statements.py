"""Written answers are cut into what they state, at offsets that hold; what is left out is said."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.abstention.statements import Statement, cut_statements
from shared_core.errors import InputError


def only(answer: str) -> Statement:
    (statement,) = cut_statements(answer).found
    return statement


HEADING = "# The lamp on the northern tower was first lit in the year 1871"


@pytest.mark.parametrize(("answer", "statements"), [
    ("The lamp was lit in 1871. It burned oil.", ["The lamp was lit in 1871.", "It burned oil."]),
    ("The lamp was lit.\n~~~\nThe lamp was lit in 1900.\n```\nIt burned oil.", ["The lamp was lit."]),  # an open block
    (HEADING, [HEADING[2:]]),
    *((answer, [answer]) for answer in (
        "The lamp burned two oils for all of its years: whale and palm.",
        "I don't know that the lamp was lit in 1900.",
    )),
    *((answer, []) for answer in (
        "", " \n", "…", "```\nx = 1\n```", "- \n- ", "Sure! I don't know. I hope this helps!",
    )),
])  # fmt: skip
def test_what_an_answer_states(answer: str, statements: list[str]) -> None:
    assert [s.text for s in cut_statements(answer).found] == statements


@pytest.mark.parametrize("answer", [
    "The lamp was lit in 1871. [1]", "The lamp was lit in 1871.[1][2]", "[1] The lamp was lit in 1871.",
    "The lamp was lit in 1871. [1, 2] (unsupported)", "The lamp was lit in 1871. 【3†source】",
    "The lamp was lit in 1871. [1](http://x.org/lamps)", "- The lamp was lit in 1871.",
    "  2) The lamp was lit in 1871. [^1]", "> The lamp was lit in 1871.", "- [x] The lamp was lit in 1871.",
])  # fmt: skip
def test_marks_around_a_statement_are_no_part_of_it(answer: str) -> None:
    assert only(answer).text == "The lamp was lit in 1871."


def test_marks_and_markdown_within_it_are_not_judged() -> None:
    found = only("The **lamp** [1] was _lit_ in [1871](http://x.org/a 'b') by `Mira`.")
    assert found.plain == "The lamp was lit in 1871 by Mira."
    assert (
        only("The [lamp](http://x.org) was\nlit in snake_case_1871 [2].").plain
        == "The lamp was lit in snake_case_1871."
    )


def test_code_headings_questions_and_sources_are_left_out_and_said() -> None:
    answer = (
        "# The lamp\n\nThe lamp was lit.\n\n```sh\necho The lamp was lit in 1900.\n```\n"
        "Do you want more?\n\nSources:\n[1] lamps.md, page 3\n- ships.txt\n\nIt burned oil.\n\n[2]: http://x.org/y"
    )
    cut = cut_statements(answer)
    assert [s.text for s in cut.found] == ["The lamp was lit.", "It burned oil."]
    left_out = "|".join(answer[a:b] for a, b in cut.left_out)
    for piece in (
        "# The lamp",
        "echo The lamp was lit in 1900.",
        "Do you want more?",
        "lamps.md",
        "ships.txt",
        "x.org",
    ):
        assert piece in left_out


def test_list_items_that_state_nothing_alone_are_understood_by_the_line_above() -> None:
    found = cut_statements(
        "The ship:\n- Salt\n- sailed under Captain Ila Venn\n- Ila Venn was her captain.\n\nCoal."
    ).found
    assert [(s.text, s.context, s.fragment) for s in found] == [
        ("Salt", "The ship:", True),
        ("sailed under Captain Ila Venn", "The ship:", True),
        ("Ila Venn was her captain.", "", False),
        ("Coal.", "", True),
    ]


def test_rows_of_a_table_are_understood_by_its_head() -> None:
    found = cut_statements(
        "| year | oil |\n|---|---|\n| 1871 | whale |\n\n| | May |\n|---|---|\n| Rent | **£5** |"
    ).found
    assert [(s.plain, s.context) for s in found] == [("year: 1871; oil: whale", ""), ("Rent; May: £5", "")]
    assert found[1].cells == (("", "Rent"), ("May", "£5"))
    (bare,) = cut_statements("| 1871 | whale |").found  # without a head
    assert (bare.plain, bare.cells) == ("1871, whale", ())


def test_a_statement_that_leans_on_the_one_before_it_says_so() -> None:
    first, second = cut_statements("Ila Venn sailed the Marrow. She carried salt.").found
    assert (first.context, second.context, second.fragment) == ("", "Ila Venn sailed the Marrow.", False)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="must be text"):
        cut_statements(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "statements"), [
    ("## Guided tours are free\n\nWe open at nine.", ["Guided tours are free", "We open at nine."]),
    ("**Parking costs £4**\n\nWe open at nine.", ["Parking costs £4", "We open at nine."]),
    ("# Free parking for all guests", ["Free parking for all guests"]),
    ("Did you know that tours are free?", ["tours are free."]),
    ("We open at nine, and isn't it nice that tours are free?", ["We open at nine, tours are free."]),
    ("Tours are free, aren't they?", ["Tours are free."]),
    ("References:\n1. Tours are free on Mondays.\n2. [Prices](http://x.org)", ["Tours are free on Mondays."]),
    ("```text\nTours are free on Mondays.\n```", ["Tours are free on Mondays."]),
])  # fmt: skip
def test_what_only_looks_like_a_heading_question_source_or_code_is_a_statement(
    answer: str, statements: list[str]
) -> None:
    assert [s.plain for s in cut_statements(answer).found] == statements


@pytest.mark.parametrize("answer", [
    "## What is included", "## Why it is safe", "**Things you can do**", "## Items that are included", "## Prices",
    "## The data we have", "## Top 10 tips", "## Step 2: Close it", "## Are dogs allowed", "**The will of the people**",
    "Do you want to know when we open?", "Is it true that tours are free?", "Would you like me to check that it opens?",
    "You are asking about Mondays?", "In which year is it due?", "Anything else that is unclear?",
    "Sources:\n- Ann Moor (2020): Why sleep is good\n- Handbook, p. 4\n- \"The tide is high\", Orm\n- prices.pdf",
    "```python\nprint('Tours are free.')\n```", "```\n$ lamp --lit\nThe lamp is lit.\n```",
    "```sh\necho Tours are free on Mondays.\n```", "```\nlamp.lit = True\n```",
])  # fmt: skip
def test_headings_questions_sources_and_code_stay_left_out(answer: str) -> None:
    assert cut_statements(answer).found == ()


def test_yes_and_no_before_a_sentence_are_remembered() -> None:
    found = cut_statements("Yes. Tours are free on Mondays. No, the hall is not heated. No, never. No dogs live here.")
    assert [(s.plain, s.opening) for s in found.found] == [
        ("Tours are free on Mondays.", "yes"),
        ("No, the hall is not heated.", "no"),
        ("No, never.", "no"),
        ("No dogs live here.", ""),
    ]


def test_digits_that_only_look_otherwise_are_plain_ones_for_the_judge() -> None:
    found = cut_statements("① Open from ⑤ to ９ or Ⅴ, with 10⁵ lamps, by Charles Ⅴ.").found
    assert [s.plain for s in found] == ["Open from 5 to 9 or 5, with 10⁵ lamps, by Charles V."]


def test_a_sentence_too_long_for_a_judge_is_cut() -> None:
    answer = "The lamp was lit, " + "and the hall was heated, " * 400 + "and we left."
    found = cut_statements(answer).found
    assert len(found) > 5
    assert max(len(s.text) for s in found) <= 1500
    assert "".join("".join(s.text for s in found).split()) == "".join(answer.split())


PIECES = st.sampled_from(
    [
        "The lamp was lit in 1871", ". ", "\n", "\n\n", "- ", "1. ", "## ", "[1]", " [2, 3]", "【4†s】", "```", "~~~",
        "| a | b |", "|---|---|", "**", "It burned oil", "?", ":", "Sources:", "> ", "日本語。", "é", "\u2028", "\t",
        "(unsupported)", "\r\n", "J. R. R. Tolkien", "🙂", "\x00", "<b>", "](", "…",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=200))
def test_every_range_is_exact_and_nothing_is_lost(answer: str) -> None:
    cut = cut_statements(answer)
    ends = [0]
    for s in cut.found:
        assert answer[s.start : s.end] == s.text
        assert s.text == s.text.strip()
        assert s.plain
        assert "\n" not in s.plain
        assert ends[-1] <= s.start < s.end
        ends.append(s.end)
    rest = list(answer)
    for a, b in [*((s.start, s.end) for s in cut.found), *cut.left_out]:
        assert 0 <= a < b <= len(answer)
        rest[a:b] = " " * (b - a)
    marks = re.sub(r"\[[^\]]*\](?:\([^)]*\))?|【[^】]*】|\(unsupported\)", " ", "".join(rest))
    assert all(len(label) <= 5 for label in re.findall(r"\w+", marks))  # of list items


@pytest.mark.parametrize("text", [
    "You're welcome!", "You’re very welcome.", "Let me know if you need anything else.", "No problem. Have a nice day!",
    "I'm glad that was useful.", "Happy to help with that!", "Glad I could help.",
    "Feel free to ask if you have more questions about the lamp.", "Please don't hesitate to reach out.",
])  # fmt: skip
def test_courtesies_state_nothing(text: str) -> None:
    assert not cut_statements(text).found


@pytest.mark.parametrize("text", [
    "Feel free to bring your dog to the museum.", "You are welcome to camp by the lake.",
    "Let the dough rest for an hour.", "Please reach out to the harbour master by radio.", "It helps against scurvy.",
    "No problem was found in the pump.", "The staff are happy to help with luggage.", "Have a doctor look at it.",
    "Feel free to ask the guard if you lose your ticket.",
])  # fmt: skip
def test_what_only_begins_like_a_courtesy_is_a_statement(text: str) -> None:
    assert cut_statements(text).found
