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


@pytest.mark.parametrize(
    ("question", "one", "other", "answers"),
    [
        (
            "When did the Orlan bridge open?",
            "The Orlan bridge, opened in 1934, is the work of the engineer Paul Hennig.",
            "The Orlan bridge was designed by Maria Teller and opened in 1931.",
            ("1934", "1931"),
        ),
        (
            "When did the Orlan bridge open?",
            "The Orlan bridge opened in 1931 after six years of work.",
            "The Orlan bridge was opened to traffic on 4 July 1934.",
            ("1931", "4 July 1934"),
        ),
        (
            "What does parking cost residents?",
            "Parking costs residents €20.",
            "Parking is free for residents.",
            ("€20", "free"),
        ),
        (
            "How high is the Vell tower?",
            "The Vell tower is 61 metres high and was built of brick.",
            "The Vell tower, 58 metres high, is open on Sundays.",
            ("61 metres", "58 metres"),
        ),
        (
            "What colour will the hall be painted?",
            "The committee decided to paint the hall green.",
            "Minutes of 7 June: The committee decided to paint the hall yellow, not green as decided in May.",
            ("green", "yellow"),
        ),
    ],
)
def test_sentences_in_other_words_contradict_each_other(
    question: str, one: str, other: str, answers: tuple[str, str]
) -> None:
    a, b = Passage("a", one), Passage("b", other)
    assert find_contradiction([quote(a, 0.8, answers[0]), quote(b, 0.2, answers[1])], [a, b], question)
    assert find_contradiction([quote(b, 0.8, answers[1]), quote(a, 0.2, answers[0])], [a, b], question)


@pytest.mark.parametrize(
    ("question", "one", "other", "answers"),
    [
        (
            "When did the Orlan bridge open?",
            "The Orlan bridge opened in 1931.",
            "The café on the Orlan bridge opened in 1934.",
            ("1931", "1934"),
        ),
        (
            "When was the church restored?",
            "The church was restored in 1880.",
            "The church tower was restored in 1954.",
            ("1880", "1954"),
        ),
        ("When did Carl Voss die?", "Carl Voss died in 1907.", "The wife of Carl Voss died in 1911.", ("1907", "1911")),
        (
            "How many live in Marn?",
            "In 2010, 4,100 people live in Marn.",
            "In 2020, 4,600 people live in Marn.",
            ("4,100", "4,600"),
        ),
        ("What is the fee?", "The fee is €9.", "The fee for students is €5.", ("€9", "€5")),
        ("What does a ticket cost?", "A ticket costs €8.", "For students, a ticket costs €5.", ("€8", "€5")),
        ("What does a ticket cost?", "A ticket costs €8.", "A ticket costs €6 online.", ("€8", "€6")),
        ("What is the fine?", "The fine is £60.", "The fine is £30 if it is paid within two weeks.", ("£60", "£30")),
        ("How much is a room?", "A single room costs €60.", "A double room costs €95.", ("€60", "€95")),
        ("What does parking cost?", "Parking costs €2 an hour.", "Parking costs €10 a day.", ("€2", "€10")),
        (
            "What is the maximum load?",
            "The maximum load of the lift is 300 kg.",
            "The maximum load of the crane is 200 kg.",
            ("300 kg", "200 kg"),
        ),
        (
            "How long is the bridge?",
            "The bridge is 412 metres long.",
            "The bridge is about 400 metres long.",
            ("412 metres", "400 metres"),
        ),
        (
            "until when does it run",
            "The cable car runs from 9:00 to 17:00.",
            "The cable car runs from 8:30 to 17:00.",
            ("9:00 to 17:00", "8:30 to 17:00"),
        ),
        (
            "When does the pool open?",
            "The pool opens at 8:00 on weekdays.",
            "On Sundays the pool opens at 10:00.",
            ("8:00", "10:00"),
        ),
    ],
)
def test_a_part_or_a_case_contradicts_nothing(question: str, one: str, other: str, answers: tuple[str, str]) -> None:
    a, b = Passage("a", one), Passage("b", other)
    assert not find_contradiction([quote(a, 0.6, answers[0]), quote(b, 0.4, answers[1])], [a, b], question)
    assert not find_contradiction([quote(b, 0.6, answers[1]), quote(a, 0.4, answers[0])], [a, b], question)


def test_two_shops_of_a_kind_do_not_contradict_each_other() -> None:
    north = Passage("n", "The shop opens at 9:00 and closes at 18:00.", "North shop")
    south = Passage("s", "The shop opens at 10:00 and closes at 20:00.", "South shop")
    quotes = [quote(north, 0.6, "9:00"), quote(south, 0.4, "10:00")]
    assert not find_contradiction(quotes, [north, south], "When does the shop open?")


def test_what_is_said_of_another_version_contradicts_nothing() -> None:
    a = Passage("a", "Changes in release 1.12 (2022-04-07) [stable]")
    b = Passage("b", "Changes in release 1.3.13 (2009-09-30) [stable]")
    quotes = [quote(a, 0.9, "2022-04-07"), quote(b, 0.2, "2009-09-30")]
    assert not find_contradiction(quotes, [a, b], "When was gzip 1.12 released?")
    dear, cheap = Passage("d", "The fee is €45."), Passage("c", "The fee is €40.")
    assert find_contradiction([quote(cheap, 0.6, "€40"), quote(dear, 0.4, "€45")], [dear, cheap], "Is the fee €40?")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=9))
def test_no_text_makes_the_comparison_fail(one: str, other: str, short: str) -> None:
    a, b = Passage("a", f"The dam opened in 1911. {one}"), Passage("b", f"{other} the dam opened in 1921.")
    quotes = [quote(a, 0.6, short or "1911"), quote(b, 0.5, "1921")]
    find_contradiction(quotes, [a, b], f"When was the dam opened? {short}")


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


@pytest.mark.parametrize("heading", ["On Mon, 12 May 2025, Jon wrote:", "From: Jon Sent: Monday, 12 May 2025 10:00"])
def test_what_a_mail_says_comes_before_the_older_mail_that_it_repeats(heading: str) -> None:
    new = Passage("new", "The pumps will be delivered on 3 June.", metadata={"source": "a.eml"})
    old = Passage("old", "The pumps will be delivered on 27 May.", metadata={"source": "a.eml", "section": heading})
    asked = "When will the pumps be delivered?"
    quotes = [quote(old, 0.8, "27 May"), quote(new, 0.3, "3 June")]
    claims, pair = add_contradiction(quotes, quotes, [old, new], asked)
    assert [c.text for c in claims] == [new.text, old.text]
    assert pair == (0, 1)
    assert claims[0].support == 0.8  # the newer one takes the place of the older one
    elsewhere = Passage("new", new.text, metadata={"source": "b.eml"})  # no mail that repeats it
    claims, _ = add_contradiction(quotes, quotes, [old, elsewhere], asked)
    assert [c.text for c in claims] == [old.text, new.text]
