"""Claims that follow from their evidence by a date, a number or an exception, and those that only look so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared_core.citation import compare_claim
from shared_core.facades.checker import SelfReflectChecker
from shared_core.reading.base import Verdict


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The road is closed on 6 May.", "The road is closed from 4 to 11 May."),
        ("The office is shut on 27 December.", "The office is shut between 24 December and 2 January."),
        ("The stall is open in July.", "The stall is open from March to October."),
        ("The display can be seen on 15 June 2024.", "The display can be seen from 2 May to 30 June 2024."),
        ("The kitchen is open at 11 am.", "The kitchen is open from 8 am to 2 pm."),
        ("The heating is on at noon.", "The heating is on from 6:00 to 22:00."),
        ("An order of €75 is delivered free.", "Orders over €60 are delivered free."),
        ("A three-year-old travels free.", "Children under 5 travel free."),
        ("The gates are shut at 4 m.", "If the water rises above 3 m, the gates are shut."),
        ("A payment made at 6 pm is booked the next day.", "Payments made after 5 pm are booked the next day."),
        ("A dog of 6 kg travels free.", "Dogs over 10 kg pay €5, others travel free."),
        ("Guide and boat cost £42 in total.", "The tour costs £30 for the guide and £12 for the boat."),
        ("She scored 21 goals altogether.", "She scored 12 goals in autumn and 9 in spring."),
        ("He was treasurer for four years.", "He was treasurer from 2001 to 2005."),
        ("The talk lasts an hour and a half.", "The talk starts at 14:00 and ends at 15:30."),
        ("A quarter of the members did not vote yes.", "Three quarters of the members voted yes."),
        ("Dinner is not included.", "All meals are included apart from dinner."),
        ("Class 3B has no teacher.", "Every class has a teacher except 3B."),
        ("Non-members cannot borrow films.", "Only members can borrow films."),
        ("The Brio is lighter than the Alto.", "The Alto weighs 2.1 kg, the Brio weighs 1.8 kg."),
    ],
)
def test_what_follows_from_the_evidence_is_implied(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).implied


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The road is closed on 6 May.", "The road is closed from 4 to 11 May but open on 6 May."),
        ("The road is closed on 6 May.", "The road is closed from 4 to 11 May except on 6 May."),
        ("The road is open on 6 May.", "The road is closed from 4 to 11 May, open otherwise."),
        ("The road closes on 5 May.", "The road is closed from 4 to 11 May."),
        ("The exam is on 4 May.", "The exam takes place between 3 and 9 May."),
        ("The bar is open at 10 am.", "The café is open from 8 am to 2 pm and the bar from 5 pm to 11 pm."),
        ("Heavy lorries are allowed at 10 am.", "From 8 am to 6 pm heavy lorries are banned and others are allowed."),
        ("An order of €80 costs €4.", "Orders over €50 are delivered free; smaller ones cost €4."),
        ("An order of €80 is delivered free.", "Some orders over €50 are delivered free."),
        ("Shipping takes 4 days.", "Shipping takes up to 10 days."),
        ("A 20-year-old volunteer needs consent.", "Volunteers must be at least 16; those under 18 need consent."),
        ("A student with 50 points repeats the year.", "Students with under 60 points repeat the year, unless ill."),
        ("A payment at 6 pm is booked the next day.", "Payments after 5 pm may be booked the next day."),
        ("A dog of 12 kg travels free.", "Dogs over 10 kg pay €5, others travel free."),
        ("Anna scored 21 points in total.", "Anna scored 12 points and Ben 9."),
        ("The tour costs £42.", "The tour costs £30 for adults and £12 for children."),
        ("The fee is £72 in total.", "The fee rose from £30 to £42."),
        ("There were 21 adults in total.", "There were 12 adults and 9 children."),
        ("He won 21 matches in total.", "He won 12 matches and lost 9."),
        ("Ben can cover for Ann on 6 May.", "Ann can cover for Ben from 4 to 11 May."),
        ("Deliveries take place on 12 June.", "Deliveries take place between 3 and 9 June."),
        ("40% of the women did not smoke.", "60% of the men smoked."),
        ("Members may not vote.", "Only members may vote."),
        ("Lunch is not included.", "All meals are included apart from dinner."),
        ("The Alto is more expensive than the Brio.", "The Alto costs €20 less than the Brio, which costs €90."),
    ],
)
def test_what_does_not_follow_is_not_implied(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).implied


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The kitchen has phone number 55210.", "Phone numbers: office 55210, kitchen 55214."),
        ("Children may enter without an adult.", "Children may enter with an adult."),
        ("All floors have sprinklers.", "The upper floors have sprinklers."),
        ("Every branch offers currency exchange.", "Our city branches offer currency exchange."),
        ("The leak started in the attic.", "The leak probably started in the attic."),
        ("She will move to Rome.", "She hopes to move to Rome."),
        ("A warm bath lowers the pulse.", "A warm bath may lower the pulse."),
        ("The library was rebuilt after the fire.", "The library is to be rebuilt after the fire."),
        ("The town has raised the fee.", "The town is considering raising the fee."),
        ("The club bought two boats.", "The club intends to buy two boats."),
        ("Tourists can borrow films.", "Only members can borrow films."),
        ("Class 3B has a teacher.", "Every class has a teacher except 3B."),
        ("Pets are allowed in the dining room.", "Pets are allowed everywhere but in the dining room."),
        ("The dam broke because the road was flooded.", "The road was flooded because the dam broke."),
        ("The school was enlarged in 1890.", "The school was built in 1890 and enlarged in 1923."),
        ("Karl has been a member since 2011.", "Karl has been a member since 2004, Ines since 2011."),
        ("The Nova is cheaper than the Vela.", "The Vela costs €40, the Nova €55."),
        ("The voucher is not valid for books.", "The voucher is valid for books only."),
        ("The voucher is not valid.", "The voucher is valid for books only."),
        ("Because of Moor, Hart left the club for Orm.", "Because of Moor, Orm left the club for Hart."),
    ],
)
def test_claims_that_say_more_than_the_evidence_are_found(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).agrees


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Children pay 3 per person.", "Tickets (per person): adults 8, children 3."),
        ("The lamp comes without a plug.", "The lamp comes with a bulb, without a plug."),
        ("You can enter with a ticket.", "No entry without a ticket."),
        ("He returned in 1920, after the war.", "The war ended in 1918, and he came home in 1920."),
        ("The drought led to the failure of the crops.", "The crops failed because of the drought."),
        ("A burst pipe caused the flood.", "The flood was caused by a burst pipe."),
        ("The road was flooded because the dam broke.", "Because the dam broke, the road was flooded."),
        ("All rooms on the upper floor have balconies.", "All of the rooms on the upper floor have balconies."),
        ("The leak probably began in the attic.", "The leak probably started in the attic."),
        ("She left on Monday.", "She likely left. She left on Monday."),
        ("Ida voted.", "Everyone but Tom voted."),
        ("Tom did not vote.", "Everyone but Tom voted."),
        ("Room 11 does not have a kettle.", "Every room has a kettle except rooms 4 and 11."),
        ("Staff who are trained may operate the saw.", "Only trained staff may operate the saw."),
        ("The house was moved to the left.", "The house is to the left of the church. It was moved to the left."),
        ("A. Moor won in 2004.", "It seems that A. Moor, who won in 2004, is ill."),
        ("It grew by 3% last year.", "The company expects to grow. It grew by 3% last year."),
        ("The voucher is not valid for toys.", "The voucher is valid for books only."),
        ("The grant covers at most half of the costs.", "A grant may only cover up to half of the costs."),
        ("You cannot smoke in the garden.", "You can smoke only on the terrace."),
        ("The mill was sold in 1920.", "The board planned to sell the mill, and it was sold in 1920."),
    ],
)
def test_claims_that_say_no_more_agree(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).agrees


def test_a_claim_that_follows_is_supported_and_what_may_be_so_is_not_contradicted() -> None:
    checker = SelfReflectChecker()
    held = ["Parcels heavier than 10 kg cost extra. Shipping takes up to 10 days."]
    assert checker.check("A parcel of 12 kg costs extra.", passages=held).claims[0].verdict == "supported"
    assert checker.check("Shipping takes 4 days.", passages=held).claims[0].verdict != "supported"


@pytest.mark.parametrize(("refuted", "verdict"), [(0.6, "unsupported"), (0.8, "contradicted")])
def test_a_judge_s_doubt_alone_contradicts_only_where_it_is_sure(refuted: float, verdict: str) -> None:
    class Doubtful:
        name = "doubtful"

        def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
            return [0.1] * len(pairs)

        def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict | None]:
            return [Verdict(0.1, refuted)] * len(pairs)

    checked = SelfReflectChecker(judge=Doubtful()).check("The pier is long.", passages=["The pier has a café."])
    assert checked.claims[0].verdict == verdict
