"""Documents that contradict each other are shown as such, whichever of them is surer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Answer, Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import SelfReflectError
from shared_core.pipelines.extractive import add_contradiction, find_contradiction
from shared_core.reading.base import Read, Reading, ReadResult
from shared_core.types import Citation, Claim
from tests.fakes import Shelf

QUESTION = "When was the Lenz Dam completed?"
OLD = Passage("old", "The Lenz Dam was completed in 1911.", "Dams")
NEW = Passage("new", "The Lenz Dam, in the Orla valley, was completed in 1921.", "Dams")
OTHER = Passage("other", "The Vell Dam was completed in 1931.", "Dams")


def quote(passage: Passage, support: float, short: str = "") -> Claim:
    short = short or passage.text.rstrip(".").rsplit(" ", 1)[-1]
    return Claim(passage.text, support, (Citation((passage.span(0, len(passage.text)),)),), short_answer=short)


class Said:
    """A reader with given probabilities for each passage."""

    name = "said"

    def __init__(self, **sure: float) -> None:
        self.sure = sure

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        return [self._one(r) for r in requests]

    def _one(self, request: Read) -> ReadResult:
        passages = sorted(request.passages, key=lambda p: -self.sure[p.id])
        readings = [
            Reading(p.span(0, len(p.text)), self.sure[p.id], self.sure[p.id], p.span(len(p.text) - 5, len(p.text) - 1))
            for p in passages
        ]
        return ReadResult(tuple(readings), max(self.sure.values()))


def ask(rho: float, **sure: float) -> Answer:
    passages = [p for p in (OLD, NEW, OTHER) if p.id in sure]
    return SelfReflectEngine(
        Shelf(tuple(passages)), settings=SelfReflectSettings(target_accuracy=rho), reader=Said(**sure)
    ).answer(QUESTION)


def test_values_of_another_subject_by_its_heading_are_no_contradiction() -> None:
    cookies = Passage("c", "Preheat the oven to 175 °C.", "Recipes", {"section": "Oatmeal cookies"})
    pizza = Passage("p", "Preheat the oven to 230 °C.", "Recipes", {"section": "Pizza"})
    sure = [quote(cookies, 0.6, "175 °C"), quote(pizza, 0.5, "230 °C")]
    assert find_contradiction(sure, [cookies, pizza], "Which oven temperature do the recipes need?")
    assert not find_contradiction(sure, [cookies, pizza], "How hot must the oven be for oatmeal cookies?")
    again = Passage("a", pizza.text, "Recipes", {"section": "Oatmeal cookies, again"})
    assert find_contradiction(
        [sure[0], quote(again, 0.5, "230 °C")], [cookies, again], "How hot must the oven be for oatmeal cookies?"
    )


def test_two_as_sure_as_each_other_are_the_reason_to_abstain_and_both_are_shown() -> None:
    answer = ask(0.5, old=0.6, new=0.6)
    assert answer.reason == "documents contradict each other"
    assert OLD.text in answer.text
    assert NEW.text in answer.text


def test_the_surer_one_is_shown_with_the_other_marked() -> None:
    answer = ask(0.5, old=0.95, new=0.4)
    assert answer.text == f"{OLD.text} [1] {NEW.text} [2] (contradicts the answer before)"
    assert [c.status for c in answer.claims] == ["kept", "flagged"]
    assert all(answer.text[c.start : c.end] == c.text for c in answer.claims)
    assert answer.confidence is not None
    assert answer.confidence < 0.95


def test_what_is_said_of_something_else_contradicts_nothing() -> None:
    assert find_contradiction([quote(OLD, 0.9), quote(OTHER, 0.8)], [OLD, OTHER], QUESTION) is None
    answer = ask(0.5, old=0.9, other=0.3)
    assert answer.text == f"{OLD.text} [1]"


@pytest.mark.parametrize(
    ("one", "other", "answers"),
    [
        ("The support line opens at 8 am on Mondays.", "Our support line opens at 9 am on Mondays.", ("8 am", "9 am")),
        ("The museum was founded by Rufus Hathe.", "The museum was founded by Ina Borg.", ("Rufus Hathe", "Ina Borg")),
        ("Children are admitted free.", "Children are not admitted free.", ("free", "free")),
    ],
)  # fmt: skip
def test_sentences_that_differ_in_their_answers_only_contradict_each_other(
    one: str, other: str, answers: tuple[str, str]
) -> None:
    a, b = Passage("a", one), Passage("b", other)
    first = quote(a, 0.5, answers[0])
    assert find_contradiction([first, quote(b, 0.4, answers[1])], [a, b], "What holds?")
    assert not find_contradiction([first, quote(b, 0.01, answers[1])], [a, b], "What holds?")  # it answers nothing


def test_another_thing_of_the_kind_contradicts_nothing() -> None:
    a, b = Passage("a", "The lamp was lit in 1871."), Passage("b", "A second lamp was lit in 1899.")
    assert not find_contradiction([quote(a, 0.5), quote(b, 0.4)], [a, b], "When was the lamp lit?")


def test_a_years_figures_do_not_contradict_another_years() -> None:
    a, b = Passage("a", "In 1911 the mine made 30 tonnes."), Passage("b", "In 1912 the mine made 45 tonnes.")
    asked = "How much did the mine make in 1911?"
    assert not find_contradiction([quote(a, 0.5, "30 tonnes"), quote(b, 0.4, "45 tonnes")], [a, b], asked)


@given(st.floats(0, 1), st.floats(0, 1))
def test_at_most_one_of_two_contradicting_claims_is_right(a: float, b: float) -> None:
    claims, pair = add_contradiction(
        [quote(OLD, a), quote(NEW, b)], [quote(OLD, a), quote(NEW, b)], [OLD, NEW], QUESTION
    )
    supports = [c.support or 0.0 for c in claims]
    assert all(0 <= p <= 1 for p in supports)
    if pair is not None:
        assert sum(supports) <= 1 + 1e-9
        assert supports[0] >= supports[1]
