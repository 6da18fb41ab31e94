"""Documents that contradict each other are shown as such, whichever of them is surer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Answer, Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import SelfReflectError
from shared_core.pipelines.contradictions import add_contradiction, find_contradiction
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


def test_a_sentence_about_another_thing_is_no_contradiction() -> None:
    museum = Passage("museum", "The Tide Museum was closed in 1941.")
    mill = Passage("mill", "The Old Mill was founded by Rufus Crail. The mill was closed in 1833.")
    later = Claim("The mill was closed in 1833.", 0.3, (Citation((mill.span(41, 69),)),), short_answer="1833")
    assert mill.text[41:69] == later.text
    assert find_contradiction([quote(museum, 0.9), later], [museum, mill], "When was the Tide Museum closed?") is None
    other = Passage("other", "The Tide Museum was closed in 1833.")
    assert find_contradiction(
        [quote(museum, 0.9), quote(other, 0.3)], [museum, other], "When was the Tide Museum closed?"
    )


def test_rows_of_records_beside_each_other_do_not_contradict_each_other() -> None:
    """Each is of its own person, pool or plan, of which the question names one by what only its record has."""

    def row(number: str, name: str, *lines: str) -> Passage:
        return Passage(number, "\n".join((name, *lines)), "Hall", {"source": "a", "section": f"Committee > {name}"})

    anna = row("1", "Anna Smith", "Role: Treasurer", "Phone: 555 0123")
    ben = row("2", "Ben Jones", "Role: Secretary", "Phone: 555 0177")
    claims = [
        Claim(p.text[-15:], sure, (Citation((p.span(len(p.text) - 15, len(p.text)),)),), short_answer=p.text[-8:])
        for p, sure in ((ben, 0.7), (anna, 0.3))
    ]
    assert find_contradiction(claims, [anna, ben], "What is the phone number of the secretary?") is None
    gym, pool = row("3", "Gym", "Monday: 8:15 – 18:30"), row("4", "Pool", "Monday: 9:00 – 17:00")
    hours = [quote(gym, 0.8, "8:15"), quote(pool, 0.3, "9:00")]
    assert find_contradiction(hours, [gym, pool], "When does the gym open on Monday?") is None


def under(heading: str, text: str, source: str = "camp.md", title: str = "Camp") -> Passage:
    return Passage(f"{source} {heading}", text, title, {"source": source, "section": f"{title} > {heading}"})


@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        (
            "What is the maximum pressure of boiler B7?",
            under("Boiler B7", "Maximum pressure: 6.5 bar."),
            under("Boiler B2", "Maximum pressure: 3.2 bar."),
        ),
        ("When is check-in?", under("Check-in", "Between 14:00 and 20:00."), under("Check-out", "Before 11:00.")),
        (
            "When is it open?",
            under("Summer", "Daily from 9:00 to 20:00."),
            under("Winter", "Daily from 11:00 to 17:00."),
        ),
        (
            "Who is the landlord's lawyer?",
            under("Notice", "The landlord may end the tenancy with six months' written notice."),
            under("Deposit", "The landlord returns the deposit within 30 days after the end of the tenancy."),
        ),
        (
            "How is notice given?",
            under("Tenant", "The tenant may end the tenancy with three months' written notice."),
            under("Landlord", "The landlord may end the tenancy with six months' written notice."),
        ),
    ],
)
@pytest.mark.parametrize("short", [True, False])
def test_sections_of_one_document_speak_each_of_its_own(
    question: str, one: Passage, other: Passage, short: bool
) -> None:
    answers = [
        re.findall(r"\d.*\d|(?:three|six) months", p.text)[0] if short else p.text.rstrip(".") for p in (one, other)
    ]
    for sure, less in ((0.8, 0.2), (0.6, 0.5), (0.15, 0.14)):
        quotes = [quote(one, sure, answers[0]), quote(other, less, answers[1])]
        assert find_contradiction(quotes, [one, other], question) is None


def test_two_sections_of_one_document_may_contradict_each_other() -> None:
    for text in ("The monthly rent is €1,280.", "The monthly rent is €1,280 and is due on the third of each month."):
        rent, annex = under("Rent", "The monthly rent is €1,180."), under("Annex", text)
        quotes = [quote(rent, 0.7, "€1,180"), quote(annex, 0.4, "€1,280")]
        assert find_contradiction(quotes, [rent, annex], "What is the monthly rent?")


def test_check_out_of_another_document_is_not_check_in() -> None:
    one, other = under("Check-in", "Between 14:00 and 20:00."), under("Check-out", "Before 11:00.", "hotel.md")
    quotes = [quote(one, 0.8, "14:00"), quote(other, 0.3, "11:00")]
    assert find_contradiction(quotes, [one, other], "When is check-in?") is None
    again = under("Check-in", "Before 11:00.", "hotel.md")
    assert find_contradiction([quotes[0], quote(again, 0.3, "11:00")], [one, again], "When is check-in?")


def test_what_is_denied_for_another_place_denies_nothing() -> None:
    parties = Passage("p", "# Rental Contract, Flat 12", metadata={"source": "contract.md"})
    pets = Passage("c", "Dogs are allowed.", metadata={"source": "contract.md"})
    asked = "Are dogs allowed in the flat?"
    for place, found in (("on the grounds", False), ("in the bedroom of the flat", True)):
        rule = Passage("f", f"Dogs are not allowed {place}.", metadata={"source": "rules.md"})
        quotes = [quote(pets, 0.6, pets.text), quote(rule, 0.3, rule.text)]
        assert (find_contradiction(quotes, [pets, rule, parties], asked) is not None) is found


def test_what_hardly_answers_contradicts_only_what_is_said_of_the_same_thing() -> None:
    one, other = (
        Passage("a", "The museum was founded by Rufus Hathe."),
        Passage("b", "The museum was founded by Ina Borg."),
    )
    for less, found in ((0.15, False), (0.25, True)):
        quotes = [quote(one, 0.9, "Rufus Hathe"), quote(other, less, "Ina Borg")]
        assert (find_contradiction(quotes, [one, other], "Who founded the museum?") is not None) is found


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


def test_what_is_not_sure_enough_by_itself_is_not_lost_to_a_contradiction() -> None:
    for rho, reason in ((0.5, "support below target"), (0.4, "documents contradict each other")):
        answer = ask(rho, old=0.45, new=0.44)
        assert answer.reason == reason
        assert ("contradict" in answer.text) is (rho == 0.4)


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


CASES = Path(__file__).with_name("contradictions.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("case", [line for line in CASES if not line.startswith("#")])
def test_which_sentences_contradict_each_other(case: str) -> None:
    expected, question, *texts, one_answer, other_answer = case.split(" | ")
    a, b = (Passage(name, text) for name, text in zip("ab", texts, strict=True))
    for sure, less in ((0.8, 0.2), (0.6, 0.4)):
        for one, other in ((sure, less), (less, sure)):
            found = find_contradiction([quote(a, one, one_answer), quote(b, other, other_answer)], [a, b], question)
            assert (found is not None) == (expected == "yes"), (one, other)
    hardly_an_answer = quote(b, 0.01, other_answer)
    assert find_contradiction([quote(a, 0.5, one_answer), hardly_an_answer], [a, b], question) is None


def test_two_shops_of_a_kind_do_not_contradict_each_other() -> None:
    north = Passage("n", "The shop opens at 9:00 and closes at 18:00.", "North shop")
    south = Passage("s", "The shop opens at 10:00 and closes at 20:00.", "South shop")
    quotes = [quote(north, 0.6, "9:00"), quote(south, 0.4, "10:00")]
    assert not find_contradiction(quotes, [north, south], "When does the shop open?")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=9))
def test_no_text_makes_the_comparison_fail(one: str, other: str, short: str) -> None:
    a, b = Passage("a", f"The dam opened in 1911. {one}"), Passage("b", f"{other} the dam opened in 1921.")
    quotes = [quote(a, 0.6, short or "1911"), quote(b, 0.5, "1921")]
    find_contradiction(quotes, [a, b], f"When was the dam opened? {short}")


@given(st.floats(0, 1), st.floats(0, 1))
def test_at_most_one_of_two_contradicting_claims_is_right(a: float, b: float) -> None:
    claims, pair, _ = add_contradiction(
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
    claims, pair, _ = add_contradiction(quotes, quotes, [old, new], asked)
    assert [c.text for c in claims] == [new.text, old.text]
    assert pair == (0, 1)
    assert claims[0].support == 0.8  # the newer one takes the place of the older one
    elsewhere = Passage("new", new.text, metadata={"source": "b.eml"})  # no mail that repeats it
    claims, *_ = add_contradiction(quotes, quotes, [old, elsewhere], asked)
    assert [c.text for c in claims] == [old.text, new.text]


def test_what_was_changed_comes_before_what_it_was() -> None:
    old = Passage("old", "After talking to marketing we will launch the portal on 15 April 2024.")
    new = Passage("new", "Because of a review we have to move the launch of the portal to 13 May 2024.")
    asked = "When is the launch of the portal?"
    quotes = [quote(old, 0.8, "15 April 2024"), quote(new, 0.3, "13 May 2024")]
    claims, pair, _ = add_contradiction(quotes[:1], quotes, [old, new], asked)
    assert [c.text for c in claims] == [new.text, old.text]
    assert (pair, claims[0].support) == ((0, 1), 0.8)


EDITIONS = [
    (("Fees 2023", "a.md"), ("Fees 2025", "b.md")),
    (("Fees", "2023/fees.md"), ("Fees", "2025/fees.md")),
    (("Minutes of 12 March 2024", ""), ("Minutes of 9 April 2025", "")),
    (("Guide, version 2.9", ""), ("Guide, version 2.10", "")),
    (("Fees", "fees-2024-12-31.pdf"), ("Fees", "fees-2025-01-02.pdf")),
    (("Fees", "/work 2020/fees_2023.md"), ("Fees", "/work 2020/fees_2024.md")),
]


@pytest.mark.parametrize(("before", "after"), EDITIONS)
@pytest.mark.parametrize("supports", [(0.6, 0.3), (0.3, 0.6)])
def test_what_a_newer_edition_says_comes_before_an_older_one(
    before: tuple[str, str], after: tuple[str, str], supports: tuple[float, float]
) -> None:
    old = Passage("old", "A key to the walk costs nine crowns.", before[0], {"source": before[1]})
    new = Passage("new", "A key to the walk costs twelve crowns.", after[0], {"source": after[1]})
    quotes = [quote(old, supports[0], "nine crowns"), quote(new, supports[1], "twelve crowns")]
    claims, pair, _ = add_contradiction(quotes[:1], quotes, [old, new], "What does a key to the walk cost?")
    assert ([c.text for c in claims], pair) == ([new.text, old.text], (0, 1))
    assert 0.6 <= (claims[0].support or 0.0) < 0.9  # that one of the two is right
    for asked in ("What did a key to the walk cost?", "What does a key to the walk cost in 2023?"):
        surest = max(add_contradiction(quotes, quotes, [old, new], asked)[0], key=lambda claim: claim.support or 0.0)
        assert surest.text == (old if supports[0] > supports[1] else new).text  # the reader's choice


def test_the_newest_of_several_editions_counts() -> None:
    passages = [
        Passage(str(year), f"A key to the walk costs {cost} crowns.", f"Fees {year}")
        for year, cost in ((2023, "nine"), (2025, "twelve"), (2024, "ten"))
    ]
    quotes = [quote(p, sure, f"{p.text.split()[-2]} crowns") for p, sure in zip(passages, (0.5, 0.2, 0.3), strict=True)]
    claims, *_ = add_contradiction(quotes[:1], quotes, passages, "What does a key to the walk cost?")
    assert claims[0].text == passages[1].text


def test_other_documents_are_no_editions() -> None:
    for names in (("Fees 2023", "Wages 2025"), ("Fees 2023", "Fees"), ("Fees v2", "Fees 2025"), ("Fees", "Fees"),
                  ("The Key (1923 film)", "The Key (1958 film)")):  # fmt: skip
        old = Passage("old", "A key to the walk costs nine crowns.", names[0])
        new = Passage("new", "A key to the walk costs twelve crowns.", names[1])
        quotes = [quote(old, 0.6, "nine crowns"), quote(new, 0.3, "twelve crowns")]
        claims, *_ = add_contradiction(quotes, quotes, [old, new], "What does a key to the walk cost?")
        assert claims[0].text == old.text


@pytest.mark.parametrize(
    ("before", "after", "asked", "shown"),
    [
        ("is 30", "is raised to 40 euros for visitors", "is", 1),  # a change for others changes nothing
        ("was 30", "is now 40 euros", "was", 2),
    ],
)
def test_what_was_asked_about_is_not_changed(before: str, after: str, asked: str, shown: int) -> None:
    old = Passage("old", f"The fee of the course {before} euros.")
    new = Passage("new", f"The fee of the course {after}.")
    quotes = [quote(old, 0.8, "30 euros"), quote(new, 0.3, "40 euros")]
    claims, pair, _ = add_contradiction(quotes[:1], quotes, [old, new], f"What {asked} the fee of the course?")
    assert (claims[0].text, len(claims), pair is None) == (old.text, shown, shown == 1)


def test_two_days_of_one_year_are_different_dates() -> None:
    one, other = (Passage(d, f"The hall opens on {d} May 2024.") for d in ("3", "9"))
    quotes = [quote(one, 0.8, "3 May 2024"), quote(other, 0.6, "9 May 2024")]
    assert add_contradiction(quotes[:1], quotes, [one, other], "When does the hall open?")[1] == (0, 1)
