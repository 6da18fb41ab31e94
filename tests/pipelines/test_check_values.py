"""Checks of structured answers: each value with its name."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core import SelfReflectChecker
from shared_core.errors import InputError
from shared_core.pipelines.check_values import word_values

QUESTION = "Price of adult membership?"
EVIDENCE = ["An adult membership costs £30 a month.", "The club was founded by Ila Venn in 1951."]


def fields(values: dict[str, Any], question: str = QUESTION) -> dict[str, Any]:
    found: dict[str, Any] = SelfReflectChecker().check_values(values, question, EVIDENCE).metadata["fields"]
    return found


@pytest.mark.parametrize("right", ["£30", 30, 30.0])
def test_a_value_is_supported_where_the_passages_state_it(right: Any) -> None:
    assert fields({"price": right}) == {"price": "supported"}
    assert fields({"price": "£20"})["price"] != "supported"
    assert fields({"founder": "Ila Venn"}, "") == {"founder": "supported"}
    assert fields({"founder": "Bob Hill"}, "")["founder"] != "supported"


async def test_the_answer_states_the_values_and_has_its_claims_at_their_places() -> None:
    values = {"price": "£30", "about": {"founded": [1951], "text": "An adult membership costs £30 a month. It is red."}}
    checked = SelfReflectChecker().check_values(values, QUESTION, EVIDENCE)
    assert len(checked.claims) == 4
    assert all(checked.text[c.start : c.end] == c.text for c in checked.claims)
    assert set(checked.metadata["fields"]) == {"price", "about.founded.0", "about.text"}
    assert checked.metadata["fields"]["about.text"] != "supported"  # as its worst claim
    assert (checked.question, checked.metadata["passing"]) == (QUESTION, False)
    assert await SelfReflectChecker().acheck_values(values, QUESTION, EVIDENCE) == checked


def test_what_states_nothing_is_left_out() -> None:
    abstention = "NO ANSWER: No passage of the documents matches the question."
    assert fields({"price": None, "name": " ", "items": [], "note": abstention}) == {}


def test_names_are_read_as_words() -> None:
    values = {"plans": [{"refundDays": 14, "in-stock": True, "URL": "a.org"}]}
    assert [(w.path, w.asked) for w in word_values(values)] == [
        ("plans.0.refundDays", "plans refund days: 14"),
        ("plans.0.in-stock", "plans in stock: yes"),
        ("plans.0.URL", "plans URL: a.org"),
    ]


def test_what_cannot_be_checked_is_refused() -> None:
    checker: Any = SelfReflectChecker()
    with pytest.raises(InputError, match="mapping"):
        checker.check_values(["£30"], passages=EVIDENCE)
    with pytest.raises(InputError, match="nothing to check the answer against"):
        checker.check_values({"price": "£30"})
