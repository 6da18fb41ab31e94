"""Claims that turn their evidence round without a new number or name: opposites, converses, parts, lists of numbers."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core.citation import compare_claim

MUSEUM = (
    "The Tide Museum was founded in 1911 by Lavinia Hathe. It holds 1,200 objects, 340 of them ship models. The museum "
    "stands on the north quay of Ellisk. Admission costs 8 euros for adults and 3 euros for children. It is closed on "
    "Mondays. In 1934 Otto Marn sold the lighthouse to the museum. At least 40 volunteers work there. Visitor numbers "
    "rose from 18,000 in 2019 to 27,000 in 2023. The library opened on 4 July 1976."
)
DAM = (
    "The eastern bank carries the power station. The reservoir was filled in the autumn of 1958. Its water level falls "
    "in summer and rises in winter. Her pupil Jon Aas lent the company 2 million crowns. Fishing is permitted from May "
    "to September, swimming is prohibited. The ferry costs 4 crowns for cyclists and 12 crowns for cars. Some of the "
    "workers' houses are listed. The north tower was removed in 1983 and the south tower was restored in 1994."
)
HALL = "The roadway was widened in 1974. Nineteen operators were on duty in the hall, of whom sixteen were women."
MORRA = (
    "Support for Windows 8 was dropped; macOS 12 is still supported. The cache is enabled by default. Three of the "
    "nine plug-ins were rewritten by Tess Ruano. Log files older than 14 days are deleted. The scheduler starts jobs "
    "before the backup, not after it. The free plan allows 5 projects, the team plan 50. Memory use rose from 180 MB "
    "to 195 MB."
)

FENWICK = (
    "Oda Fenwick was born in Skell in 1889 and died in Paris in 1962. She studied medicine before she turned to "
    "painting. She married Paul Renn in 1920 and left him in 1927. She gave 60 drawings to the museum in Skell and 25 "
    "to the academy in Vienna. The museum pays no tax on the collection. The lower floor is closed until March. The "
    "Harbour measures 3 by 5 metres and hangs in the town hall of Skell."
)


BOARD = (
    "The board approved the budget for 2025. Piet Vries voted against it. Ana Rocha voted for the merger and Lucy "
    "Okafor voted against it. Mr Bell spoke in favour of the move. She argued against the levy."
)


@pytest.mark.parametrize(("turned", "true"), [
    ("Piet Vries voted for it.", "Piet Vries voted against it."),
    ("Piet Vries voted in favour of the budget.", "Piet Vries voted against the budget."),
    ("Ana Rocha voted against the merger.", "Ana Rocha voted for the merger."),
    ("Lucy Okafor voted for the merger.", "Lucy Okafor voted against the merger."),
    ("Mr Bell spoke against the move.", "Mr Bell spoke for the move."),
    ("She argued for the levy.", "She argued against the levy."),
    ("The board rejected the budget.", "The board approved the budget."),
])  # fmt: skip
def test_who_took_the_other_side_is_refuted(turned: str, true: str) -> None:
    assert compare_claim(turned, BOARD).refuted
    assert not compare_claim(true, BOARD).mismatches


def test_for_is_no_side_where_it_says_how_long_or_of_another_matter() -> None:
    assert not compare_claim("Mr Bell spoke for an hour.", "Mr Bell spoke against the move.").refuted
    assert not compare_claim("Ana voted for the tax.", "Ana voted against the merger.").refuted
    assert not compare_claim("Ana voted for it.", "Ana voted for it in May. Ana voted against it in June.").refuted


TURNED: dict[str, list[str]] = {
    HALL: ["The roadway was narrowed in 1974.", "Of nineteen operators, sixteen were men."],
    FENWICK: [
        "Oda Fenwick died in Skell in 1962.", "She turned to painting before she studied medicine.",
        "She left Paul Renn in 1920.", "She gave 60 drawings to the academy in Vienna.",
        "The museum pays tax on the collection.", "The upper floor is closed until March.",
        "The Harbour hangs in the town hall of Vienna.",
    ],
    MUSEUM: [
        "The museum is open on Mondays.", "The museum stands on the south quay of Ellisk.",
        "Visitor numbers fell from 27,000 to 18,000.", "The library was closed on 4 July 1976.",
        "The museum sold the lighthouse to Otto Marn.", "Otto Marn bought the lighthouse from the museum.",
        "At most 40 volunteers work there.", "Children pay 8 euros.", "18,000 people visited the museum in 2023.",
        "All objects are ship models.", "The museum holds 1,200 ship models.",
    ],
    DAM: [
        "The western bank carries the power station.", "The reservoir was filled in the spring of 1958.",
        "The water level rises in summer.", "The company lent Jon Aas 2 million crowns.",
        "Jon Aas borrowed 2 million crowns from the company.", "Swimming is permitted.",
        "Fishing is prohibited from May to September.", "The ferry costs 12 crowns for cyclists.",
        "All of the workers' houses are listed.", "The south tower was removed in 1983.",
    ],
    MORRA: [
        "Support for macOS 12 was dropped.", "The cache is disabled by default.",
        "Nine plug-ins were rewritten by Tess Ruano.", "Log files older than 14 days are kept.",
        "The scheduler starts jobs after the backup.", "The team plan allows 5 projects.",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "claim"), [(text, claim) for text in TURNED for claim in TURNED[text]])
def test_what_is_turned_round_is_refuted(evidence: str, claim: str) -> None:
    assert compare_claim(claim, evidence).refuted


SAME: dict[str, list[str]] = {
    FENWICK: [
        "Oda Fenwick died in Paris in 1962.", "She left Paul Renn in 1927.",
        "The museum in Skell received 60 drawings.", "The museum does not pay tax on the collection.",
        "The lower floor is not open until March.", "The Harbour is 3 metres by 5 metres.",
    ],
    "Nickelback is a rock band formed in 1995 in Hanna, Alberta, Canada.": ["They were formed in Canada."],
    MUSEUM: [
        "The museum is closed on Mondays.", "The museum is not open on Mondays.",
        "The museum bought the lighthouse from Otto Marn in 1934.", "Otto Marn sold the lighthouse to the museum.",
        "Adults pay 8 euros.", "Children pay 3 euros.", "27,000 people visited the museum in 2023.",
        "Visitor numbers rose by 9,000.", "More than 30 volunteers work there.", "The museum holds 340 ship models.",
    ],
    DAM: [
        "The water level rises in winter.", "The water level falls in summer.",
        "The company borrowed 2 million crowns from Jon Aas.", "Cars pay 12 crowns on the ferry.",
        "Swimming is not allowed.", "The south tower was restored in 1994.", "Some houses of the workers are listed.",
    ],
    MORRA: [
        "The cache is on by default.", "The team plan allows 50 projects.", "The free plan allows five projects.",
        "Jobs start before the backup.", "Memory use rose by 15 MB.",
    ],
    "Oxygen and nitrogen make up most of the atmosphere.": ["The atmosphere is mostly nitrogen and oxygen."],
    "A brown and white dog swims in a pool.": ["A brown dog swims."],
    "The South African steel maker plans a mill on the west coast.": ["The South African maker plans a mill."],
    "The rescuers are firefighters with a California-based FEMA team.": ["A FEMA team is based in California."],
    "3 million served in the war, 1.5 million of whom fought.": ["1.5 million who served in the war fought."],
    "Gold, silver, and copper are noble metals. Others leave out copper.": ["Gold is a noble metal."],
    (
        "Norman Ernest Borlaug (born 1914) was a scientist. Known as the “Father of the Green Revolution,” "
        "Borlaug helped lay the groundwork for advances."
    ): [
        "Norman Borlaug is called the father of the green revolution.",
    ],
    "Tours in the garden start in the morning.": ["Tours in the morning start in the garden."],
    "The barn stands beside the mill.": ["The mill stands beside the barn."],
    "Bring pears and apples.": ["Bring apples and pears."],
    "The winner is the captain.": ["The captain is the winner."],
    "Helm Ltd was bought by Arno AG in 1990.": ["Arno AG bought Helm Ltd in 1990."],
    "Members vote before guests speak.": ["Guests speak after members vote."],
    "Brenk is larger than Tolm.": ["Tolm is smaller than Brenk."],
    "Said Orm Rail president Jo Marn: We are pleased.": ["Jo Marn is the president of Orm Rail."],
    "Orm Rail has had great support from the Skell Society.": ["The Skell Society supports Orm Rail."],
    "Orm consists of Brenk, Tolm, Skell, and West Ellisk.": ["Orm consists of West Ellisk, Tolm, Skell, and Brenk."],
    "Burlow Council met. The Evening Post reports that the council voted Monday to close Mill Bridge.": [
        "The Burlow Council voted on Monday to close Mill Bridge.",
    ],
    "Ida Holm was born in Orm, the daughter of the Skell-born actor Otto Holm.": ["Clara Holm's father was an actor."],
    "RESULTS: Uptake was significantly higher in patients with an OH level < 50 compared to patients with > 75.": [
        "Patients with an OH level below 50 had higher uptake than those above 75.",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "claim"), [(text, claim) for text in SAME for claim in SAME[text]])
def test_what_says_the_same_or_the_same_from_the_other_side_is_not(evidence: str, claim: str) -> None:
    assert not compare_claim(claim, evidence).refuted


@given(st.sampled_from([(text, s) for text in (MUSEUM, DAM, MORRA, FENWICK) for s in text.split(". ")]))
def test_no_sentence_contradicts_the_text_that_it_is_in(pair: tuple[str, str]) -> None:
    text, sentence = pair
    assert not compare_claim(sentence, text).mismatches


@pytest.mark.parametrize(("evidence", "claim"), [
    ("The council gave the museum a grant.", "The museum gave the council a grant."),
    ("The tenant must give the landlord two months' notice.", "The landlord must give the tenant two months' notice."),
    ("The river flows from the lake into the sea.", "The river flows from the sea into the lake."),
    ("Keep the raw fish above the salad leaves.", "Keep the salad leaves above the raw fish."),
    ("Helm Ltd was bought by Arno AG in 1990.", "Helm Ltd bought Arno AG in 1990."),
    ("The inspector trained the keeper.", "The inspector was trained by the keeper."),
])  # fmt: skip
def test_things_that_changed_places_are_refuted_once(evidence: str, claim: str) -> None:
    assert [m.kind for m in compare_claim(claim, evidence).mismatches] == ["role"]


POLICY = (
    "A longer hose may be fitted. The maker plans to replace the hinge in 2025. The council will open the pool in May. "
    "The firmware is updated by the partner, not by the owner. Travel by car is allowed only with written approval. "
    "Guests may stay overnight unless a resident objects. Hotels are paid up to 140 euros per night. Reports are due "
    "within 30 days. The drain lies below the outlet. He thinks the cable is too short. Critics believe that the fan "
    "may cause noise. Anna Petrov bought the Lumo in March 2023. Flights within Europe must be booked in economy class."
)


@pytest.mark.parametrize("claim", [
    "A longer hose must be fitted.", "A longer hose has to be fitted.", "The maker replaced the hinge in 2025.",
    "The hinge was replaced in 2025.", "The council opened the pool in May.",
    "The firmware is updated by the owner, not by the partner.", "Guests may stay overnight if a resident objects.",
    "Hotels are paid up to 140 euros per week.", "Reports are due after 30 days.", "The drain lies above the outlet.",
    "He thinks the cable is too long.", "Critics deny that the fan may cause noise.", "A shorter hose may be fitted.",
    "Anna Petrov sold the Lumo in March 2023.", "Flights outside Europe must be booked in economy class.",
])  # fmt: skip
def test_may_plans_conditions_rates_and_places_that_are_turned_are_refuted(claim: str) -> None:
    assert compare_claim(claim, POLICY).refuted


@pytest.mark.parametrize("claim", ["Travel by car is allowed.", "Guests may stay overnight."])
def test_an_exception_left_out_is_missing_not_refuted(claim: str) -> None:
    (left_out,) = compare_claim(claim, POLICY).mismatches
    assert (left_out.kind, left_out.refuted) == ("exception", False)
    assert "but" not in str(left_out)


@pytest.mark.parametrize(("claim", "evidence"), [
    ("If a longer hose is fitted, check it.", "A longer hose may be fitted."),
    ("Guests must book the lift.", "Guests may use the lift, but they must book it."),
    ("The hinge will be replaced in 2025.", POLICY), ("The pool is to be opened in May.", POLICY),
    ("The pool was opened.", "The council planned to open the pool. It was opened in May."),
    ("The firmware is not updated by the owner, but by the partner.", POLICY),
    ("Travel by car is allowed with written approval.", POLICY), ("Travel by car needs approval.", POLICY),
    ("Guests may stay overnight, except where a resident objects.", POLICY),
    ("Her book was printed in Berlin.", "Her book was printed only in 1920, in Berlin."),
    ("Hotels are paid up to 140 euros a night.", POLICY), ("Hotels are paid up to €140 per day.", POLICY),
    ("It costs 5 euros per day per person.", "It costs 5 euros per person per day."),
    ("The harbour lies below the tower.", "The tower stands above the harbour."),
    ("Anna bought the lamp from the seller.", "The seller sold the lamp to Anna."),
])  # fmt: skip
def test_may_plans_conditions_and_rates_that_hold_are_not(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).agrees


@pytest.mark.parametrize(("evidence", "wrong", "right"), [
    ("The battery lasts up to 140 hours.", "The battery lasts 140 hours.", "The battery can last 140 hours."),
    ("It opens from 10 am to 5 pm.", "It opens from 10 pm to 5 am.", "It opens from 10:00 to 17:00."),
    ("Before opening the lid, cut the power.", "After opening the lid, cut the power.",
     "Cut the power before you open the lid."),
    ("Turnout was higher than in 2019.", "Turnout was higher in 2019.", "In 2019 turnout was lower."),
    ("Most buyers disliked the short cable; a few praised the case.", "Most buyers praised the case.",
     "Some praised the case."),
    ("Only Clara received the medal.", "Josephine received the medal.", "Josephine did not receive the medal."),
    ("The line could open in spring.", "The line will open in spring.", "The line might open in spring."),
    ("Breakfast is included in all rooms except the studio.", "Breakfast is included in all rooms.",
     "Breakfast is included, except in the studio."),
    ("The cover is comfortable to wear.", "The cover is uncomfortable to wear.", "The cover is comfortable."),
    ("The sound is excellent, but the cable is poor.", "The cable is excellent.", "The cable is poor."),
    ("The margin was 39.8%, compared with 40.3% the year before.", "The margin rose from 39.8% to 40.3%.",
     "The margin fell from 40.3% to 39.8%."),
    ("Sales were 12 million, up from 10 million.", "Sales fell to 12 million.", "Sales rose to 12 million."),
    ("Costs were 8 euros, compared with 9 euros last year, while debt rose.", "Costs rose to 8 euros.",
     "Debt rose while costs were 8 euros."),
    ("Brown almost doubled the lead in the last minute.", "Brown doubled the lead in the last minute.",
     "Brown nearly doubled the lead in the last minute."),
    ("Nearly all keepers signed it.", "All keepers signed it.", "Almost all keepers signed it."),
    ("Melt the butter over a low heat.", "Melt the butter over a high heat.", "Melt the butter over low heat."),
    ("You may need to take the drops less often.", "You may need to take the drops more often.",
     "The drops may need to be taken less often."),
    ("Stiffness fell, but no effect on pain was seen after six weeks.", "The drops reduced pain after six weeks.",
     "The drops had no effect on pain after six weeks."),
    ("A portion of Mill Street was closed in March.", "The whole of Mill Street was closed in March.",
     "Part of Mill Street was closed in March."),
    ("The syrup suits children of 2 to 11 years who weigh more than 30 kg.",
     "The syrup suits all children of 2 to 11 years.", "The syrup suits all children who weigh more than 30 kg."),
    ("The Ormers were defeated at Skell and the Tolmers took the castle.", "The Ormers defeated the Tolmers at Skell.",
     "The Ormers were defeated by the Tolmers at Skell."),
    ("The shop was opened in May.", "The shop opened the market in May.", "The shop opened in May."),
    ("Member Holm goes to the October meeting, and Member Brandt goes to the November meeting.",
     "Member Brandt goes to the October meeting.", "Member Brandt goes to the November meeting."),
    ("It has agreements with Helm in Orm and Arno in Skell.", "Helm in Skell and Arno in Orm signed agreements.",
     "Arno in Skell and Helm in Orm have agreements."),
    ("It returned 50 million through repurchases and dividends.", "It returned 50 million through dividends alone.",
     "It returned 50 million through dividends and repurchases."),
    ("Within 30 days after the tenancy ends, the landlord shall return the deposit.",
     "The landlord has 30 days after the tenancy begins to return the deposit.",
     "The landlord has 30 days after the tenancy ends to return the deposit."),
    ("Region: North; Sales: 120\nRegion: South; Sales: 95", "Sales in the South were 120.",
     "Sales in the North were 120."),
    ("Smoking is associated with fractures.", "Smoking causes fractures.", "Smoking and fractures are associated."),
    ("It covers defects for two years, but it does not cover damage.", "It covers damage for two years.",
     "Defects are covered for two years."),
])  # fmt: skip
def test_a_claim_that_says_more_or_another_thing_does_not_agree(evidence: str, wrong: str, right: str) -> None:
    assert not compare_claim(wrong, evidence).agrees
    assert compare_claim(right, evidence).agrees


_ANY = st.lists(st.sampled_from([
    "up", "to", "140", "at", "most", "not", "only", "all", "before", "than", "is", "neither", "no", "62%", "may", "if",
    "unless", "except", "of", ",", ".", "A", "B",
]), min_size=1, max_size=8).map(" ".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(_ANY, _ANY)
@example("140", "The hall holds up to 140 guests.")  # an answer of one word
def test_any_words_can_be_compared(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).cap(1.0) in (0.05, 0.35, 1.0)


@pytest.mark.parametrize("claim", ["word " * 20_000, "Mira Dorn " * 500])
def test_a_long_claim_without_an_end_is_compared_soon(claim: str) -> None:
    assert compare_claim(claim, "The lamp was lit in 1871.") is not None  # quadratic or more: many minutes
