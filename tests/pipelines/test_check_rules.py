"""What is decided after the judges: rows of tables, "yes" and "no", contradictions, lookalikes, code, long answers."""

from __future__ import annotations

import asyncio
from functools import lru_cache

import pytest

from shared_core.errors import InputError
from shared_core.facades.checker import SelfReflectChecker
from shared_core.pipelines.check_code import unknown_address
from shared_core.types import Answer, Passage
from tests.fakes import WordCritic

BERTHS = (
    "# Berths\n\n| Berth | Summer | Winter | Power |\n|---|---|---|---|\n| Inner quay | 12 € | 7 € | included |\n"
    "| Outer quay | 9 € | 5 € | 2 € |\n| Buoy | 6 € | 4 € | none |"
)


@lru_cache
def the_checker() -> SelfReflectChecker:
    return SelfReflectChecker()


def checked(answer: str, *texts: str | Passage, question: str = "") -> Answer:
    return the_checker().check(answer, question, passages=list(texts))


def verdicts(answer: Answer) -> list[str | None]:
    return [c.verdict for c in answer.claims]


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "verdict"), [
    ("| Outer quay | 9 € | 5 € |", "supported"), ("| Outer quay | 5 € | 9 € |", "contradicted"),
    ("| Inner quay | 9 € | 7 € |", "contradicted"), ("| **Buoy** | €6 | €4 |", "supported"),
])  # fmt: skip
def test_a_row_is_compared_cell_by_cell(row: str, verdict: str) -> None:
    assert verdicts(checked(f"| Berth | Summer | Winter |\n|---|---|---|\n{row}", BERTHS)) == [verdict]


@pytest.mark.parametrize(("cells", "verdict"), [("12 € | 6 €", "supported"), ("6 € | 12 €", "contradicted")])
def test_a_table_may_be_turned(cells: str, verdict: str) -> None:
    table = f"| | Inner quay | Buoy |\n|---|---|---|\n| Summer | {cells} |"
    assert verdicts(checked(table, BERTHS)) == [verdict]


# --- yes and no ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "passing"), [
    ("Yes. Guests are not allowed in the sauna.", False), ("Yes, guests are not allowed in the sauna.", False),
    ("No, guests are not allowed in the sauna.", True), ("No. Guests are not allowed in the sauna.", True),
])  # fmt: skip
def test_the_opening_has_to_agree(answer: str, passing: bool) -> None:
    found = checked(answer, "Guests are not allowed in the sauna.", question="Can guests use the sauna?")
    assert found.metadata["passing"] == passing
    assert verdicts(found) == ["supported" if passing else "contradicted"]


# --- passages that contradict each other ---------------------------------------------------------------------------

CLUB = "The club house closes at 10 pm every day."


@pytest.mark.parametrize("claim", [CLUB, "The club house closes at 10 pm.", "At 10 pm the club house closes."])
@pytest.mark.parametrize("texts", [
    (CLUB, CLUB.replace("10", "11")), (f"{CLUB} {CLUB.replace('10', '11')}",),
], ids=["two", "one"])  # fmt: skip
def test_a_claim_that_passages_support_and_contradict_is_disputed(claim: str, texts: tuple[str, ...]) -> None:
    found = checked(claim, *texts)
    assert verdicts(found) == ["contradicted"]
    assert found.metadata["disputed"] == [[0, len(claim)]]
    assert "11 pm" in found.claims[0].citations[0].quote


@pytest.mark.parametrize("texts", [
    ("The club house closes at 10 pm on weekdays.", "The club house closes at 11 pm on Saturdays."),
    ("The club house closes at 10 pm on weekdays. The club house closes at 11 pm on Saturdays.",),
    (Passage("a", "The club house closes at 10 pm.", "Upper house"), Passage("b", "The club house closes at 11 pm.",
                                                                             "Lower house")),
    ("# Upper club\n\nThe club house closes at 10 pm.\n\n# Lower club\n\nThe club house closes at 11 pm.",),
    ("The club house closes at 10 pm. Another club house closes at 11 pm.",),
])  # fmt: skip
def test_what_holds_of_another_day_or_thing_disputes_nothing(texts: tuple[str | Passage, ...]) -> None:
    found = checked("The club house closes at 10 pm.", *texts)
    assert verdicts(found) == ["supported"]
    assert found.metadata["disputed"] == []


def test_steps_do_not_contradict_each_other() -> None:
    text = "Heat the mixture to 80 °C. Then heat the mixture to 95 °C. The dough rested for 20 minutes."
    assert verdicts(checked("Heat the mixture to 80 °C.", text)) == ["supported"]


# --- lookalikes, code ----------------------------------------------------------------------------------------------


def test_a_word_of_two_scripts_is_unknown_and_another_digit_is_read() -> None:
    found = checked("The club house does n\u043et close at 10 pm every day.", CLUB)
    assert verdicts(found) == ["unknown"]
    assert verdicts(checked("The club house closes at ⑩ pm every day.", CLUB)) == ["supported"]
    assert verdicts(checked("The club house closes at ⑪ pm every day.", CLUB)) == ["contradicted"]


ORDERS = "`GET /v2/orders/{id}` returns an order. `POST /v2/orders` makes one."


@pytest.mark.parametrize(("line", "known"), [
    ("curl https://api.orm.org/v2/orders/77", True), ("requests.get(f'/v2/orders/{number}')", True),
    ("GET /v2/orders/<id>", True), ("fetch(`/v2/orders/${id}`)", True), ("import requests", True),
    ("open('/etc/hosts')", True), ("x = a / b", True), ("curl https://api.orm.org/v3/orders/77", False),
    ("requests.delete('/v2/order/7')", False), ("POST /v2/orders/7/close", False),
])  # fmt: skip
def test_addresses_in_code(line: str, known: bool) -> None:
    assert (unknown_address(line, ORDERS) == "") == known
    assert unknown_address(line, "Orders are made by telephone.") == ""


def test_code_with_an_unknown_address_is_no_longer_unchecked() -> None:
    answer = "`GET /v2/orders/{id}` returns an order.\n```sh\ncurl https://a.org/v3/orders/7\necho done\n```"
    found = checked(answer, ORDERS)
    assert verdicts(found) == ["supported", "unsupported"]
    assert found.claims[1].text == "curl https://a.org/v3/orders/7"
    assert not any(a <= (found.claims[1].start or 0) < b for a, b in found.metadata["unchecked"])
    assert checked(answer.replace("v3", "v2"), ORDERS).metadata["passing"]


# --- long answers --------------------------------------------------------------------------------------------------


def test_an_answer_that_is_too_long_is_refused() -> None:
    checker = SelfReflectChecker(critic=WordCritic(), max_answer=100)
    with pytest.raises(InputError, match="101 characters, and at most 100 are checked"):
        checker.check("a" * 101, passages=[CLUB])


def test_checking_leaves_the_event_loop_free() -> None:
    answer = "\n".join(f"- The tower of hall {n} was built in {1000 + n} by Ann Moor." for n in range(180))
    checker = SelfReflectChecker(critic=WordCritic())
    rounds = 0

    async def main() -> Answer:
        nonlocal rounds
        checking = asyncio.create_task(checker.acheck(answer, passages=["The tower of the town is old."]))
        while not checking.done():
            await asyncio.sleep(0.001)
            rounds += 1
        return await checking

    assert len(asyncio.run(main()).claims) == 180
    assert rounds > 5  # once or twice where the loop waits; how often it goes round depends on the machine
