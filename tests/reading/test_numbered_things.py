"""Which of several numbered things a sentence is about."""

from __future__ import annotations

import pytest

from shared_core.reading.numbered import is_of_another_number
from shared_core.types import Passage


def judge(question: str, text: str, sentence: str, section: str = "", title: str = "") -> bool:
    start = text.index(sentence)
    passage = Passage("p", text, title=title, metadata={"section": section})
    return is_of_another_number(question, passage, start, start + len(sentence))


MEMBERS = "The network had 6687 members."


@pytest.mark.parametrize(
    ("question", "text", "section", "another"),
    [
        ("How many members had the network of Study 2?", MEMBERS, "Design > Study 1", True),
        ("How many members had the network of Study 1?", MEMBERS, "Design > Study 1", False),
        ("How many members had the network of Study 2?", MEMBERS, "Design > Studies 1 and 2", False),
        ("How many members had the network in phase 3?", MEMBERS, "Phases 2 to 4", False),
        ("How many members had the network in phase 5?", MEMBERS, "Phases 2 to 4", True),
        ("How many members had the network of study 2?", MEMBERS, "Design", False),
        ("How many members had the network of study 2?", f"For Study 1, we asked users. {MEMBERS}", "", True),
        ("How many members had the network of study 1?", f"For Study 1, we asked users. {MEMBERS}", "Study 2", False),
        ("How many members had the network of study 2?", f"As in Study 1, users were asked. {MEMBERS}", "", False),
        ("Has the network of study 2 more members than that of study 1?", MEMBERS, "Study 1", False),
        ("How many members had the network of study 2?", f"Study 2 came later. {MEMBERS}", "Study 1", False),
        ("How many members had the network in the past 5 years?", MEMBERS, "The past 3 years", False),
        ("How many members had the network by June 3?", MEMBERS, "Report of June 5", False),
        ("How many members had the network at age 7?", MEMBERS, "Age 5 and above", False),
        ("How many members had the network on day 2?", f"Day 1: first users\n{MEMBERS}", "", True),
        ("How many members had the network on day 2?", f"**Day 1**\n\n{MEMBERS}", "", True),
        ("How many members had the network on day 1?", f"**Day 1**\n\n{MEMBERS}", "Day 2", False),
        ("How many members had the network on day 2?", f"## Day 1\n\nRain.\n\n## Users\n\n{MEMBERS}", "", False),
        ("How many members had the network on day 2?", f"## Day 1\n\nRain.\n\n### Users\n\n{MEMBERS}", "", True),
    ],
)  # fmt: skip
def test_the_number_named_last_counts(question: str, text: str, section: str, another: bool) -> None:
    assert judge(question, text, MEMBERS, section) is another


def test_a_row_names_its_own_number() -> None:
    row = "Phase: 2; Cost: €40"
    assert not judge("What does phase 2 cost?", row, row, "Phase 1 and after")
    assert not judge("What does phase 2 cost?", row, row, "Phase 1")
    assert judge("What does phase 3 cost?", "Cost: €40", "Cost: €40", title="Phase 1")
