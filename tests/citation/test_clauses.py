"""Claims that differ from their evidence by the clause: left out, not asserted, said of another, of how many."""

from __future__ import annotations

import pytest

from shared_core.citation import compare_claim

BADGES = "Guests are not insured by the club; members are."
FILMS = "Films count towards the limit, audio books do not."
ROOMS = "Rooms 5 and 6 may be heated, 7 and 8 should not be."


@pytest.mark.parametrize(("evidence", "true", "turned"), [
    (BADGES, "Members are insured.", "Members are not insured."),
    (BADGES, "Guests are not insured.", "Guests are insured."),
    (FILMS, "Audio books aren't counted towards the limit, whereas films are.", "Audio books count towards the limit."),
    (FILMS, "Films count towards the limit, but audio books do not.", "Films do not count towards the limit."),
    (ROOMS, "Rooms 7 and 8 should not be heated.", "Rooms 5 and 6 should not be heated."),
    ("The hall is open on Sundays. The bar is not.", "The bar is not open on Sundays.", "The bar is open on Sundays."),
    ("Maps and globes cannot be lent.", "Globes cannot be lent.", "Globes can be lent, but maps cannot."),
    ("You may renew a loan twice. Films cannot be renewed.", "Films cannot be renewed.",
     "All loans, including films, can be renewed."),
])  # fmt: skip
def test_a_clause_without_its_verb_says_it_too(evidence: str, true: str, turned: str) -> None:
    assert not compare_claim(true, evidence).mismatches
    assert compare_claim(turned, evidence).refuted


@pytest.mark.parametrize("said", [
    "It is false that dogs are allowed on the beach.",
    "Some wrongly believe that dogs are allowed on the beach.",
    "Myth: Dogs are allowed on the beach.",
    "If the council agrees, dogs are allowed on the beach.",
    "Dogs are allowed on the beach if the council agrees.",
    "Until 2019, dogs were allowed on the beach.",
    "Are dogs allowed on the beach? We do not know.",
    "Are dogs allowed on the beach? No, never.",
    "Mr Hill demanded that dogs be allowed on the beach.",
    "It is unclear whether dogs are allowed on the beach.",
])  # fmt: skip
def test_what_is_not_asserted_bears_nothing_out(said: str) -> None:
    assert compare_claim("Dogs are allowed on the beach.", said).mismatches


@pytest.mark.parametrize(("claim", "evidence"), [
    ("Dogs are allowed on the beach.", "Are dogs allowed on the beach? Yes, all year."),
    ("The mill was burnt by the army.", "It is unclear whether the mill was burnt by the army. A diary says the "
     "mill was burnt by the army."),
    ("The mill was sold.", "The mill was sold. The council proposes that visitors book online."),
    ("He opened the door.", "He asked for help and opened the door."),
    ("Rents fell by 4% in May.", "The survey suggests that rents fell by 4% in May."),
    ("He opened the shop on time.", "He never failed to open the shop on time."),
    ("The tax applies to boats.", "Whether you rent or own, the tax applies to boats."),
    ("If the council agrees, dogs are allowed.", "If the council agrees, dogs are allowed on the beach."),
    ("He was offered the chair in 1911.", "He was offered the chair in 1911 but declined it."),
    ("You can pay by card.", "Can I pay by card? No problem, all cards are accepted."),
    ("You can pay by card.", "Can I pay by card? Yes, though it is not clear for how long."),
    ("The tower has 12 floors.", "The proposed tower has 12 floors."),
    ("The club was established in 1904.", "The club, which may be the oldest, was founded in 1904."),
    ("In May the doors are always locked at six.", "In May the doors are locked at six."),
    ("The mill was sold in 1920.", "The board agreed to sell the mill, and it was sold in 1920."),
    ("She was invited to join the club.", "She was invited to join the club and declined to pay the fee."),
])  # fmt: skip
def test_what_is_said_as_a_fact_stays_one(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).mismatches


@pytest.mark.parametrize(("claim", "evidence"), [
    ("He was professor of law from 1911.", "He was offered the chair as professor of law in 1911 but declined it."),
    ("The owner named two bidders.", "The owner spoke with two bidders but declined to name them."),
    ("Alder Mills closed its plant.", "Alder Mills to close plant\nAlder Mills plans to close its plant by May."),
    ("The leak certainly comes from the old valve.", "The leak probably comes from the old valve."),
    ("The fire was caused by a cigarette, the police established.", "The police suspect that a cigarette caused the "
     "fire."),
    ("The board approved the request for two hives.", "The request for two hives was postponed by the board."),
    ("The critics praised her last play.", "The critics criticised her last play."),
    ("The field is required and must be unique.", "The name is required; the field is optional and must be unique."),
])  # fmt: skip
def test_what_was_not_done_or_is_not_sure_is_refuted(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).refuted


TRADES = "Klara became a chemist, and Ida took over the studio in 1932."
WATER = "Lead has decreased by 6 mg, whereas hardness is unchanged."
SEATS = "Seats are free online and cost 60p at the desk."
ATLAS = "The atlas came out in 1913 and was criticised by Tolnay for its gaps, while Solberg praised it."


@pytest.mark.parametrize(("evidence", "true", "turned"), [
    (TRADES, "Klara became a chemist.", "Ida became a chemist."),
    (TRADES, "Ida took over the studio in 1932.", "Klara took over the studio."),
    (WATER, "Hardness is unchanged.", "Lead is unchanged."),
    (SEATS, "Seats cost 60p at the desk and are free online.", "Seats are free at the desk and cost 60p online."),
    (ATLAS, "Solberg praised the atlas.", "Solberg criticised the atlas for its gaps."),
    ("Its speaker blamed the club for the damage.", "Its speaker blamed the club.", "The club blamed the owner."),
    ("Bake it at 180 °C (160 °C fan) for 35 minutes.", "In a fan oven, bake it at 160 °C.", "In a fan oven, 180 °C."),
])  # fmt: skip
def test_what_another_clause_says_of_another_thing(evidence: str, true: str, turned: str) -> None:
    assert not compare_claim(true, evidence).mismatches
    assert compare_claim(turned, evidence).refuted


@pytest.mark.parametrize(("claim", "evidence"), [
    ("The dryer stops when it is full.", "When it is full, the dryer stops and the lamp flashes."),
    ("The lamp flashes when it is full.", "When it is full, the dryer stops and the lamp flashes."),
    ("Jonas Breivik said the yard had made a profit.", "Its speaker, Jonas Breivik, said the yard had made a profit."),
    ("Bob came second and was praised.", "Ana won the race and Bob came second, and both were praised."),
    ("The mill was rebuilt by Otto Marn.", "The mill burned down and was rebuilt by Otto Marn, who lived in Skell."),
    ("The museum opened in 1950.", "He opened the museum in 1950 and a branch in 1960."),
    ("The storm damaged the roof.", "A fire damaged the storm shelter and the roof."),
    ("The rent is 40 euros.", "The rent is 40 euros. The truth is, nobody pays."),
    ("Bert moved to Skell.", "Anna sold the house and Bert, who had lived there, moved to Skell."),
    ("The stand has a green lamp and a red lamp.", "The stand has a red lamp and a green lamp."),
])  # fmt: skip
def test_clauses_of_one_thing_are_taken_together(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).mismatches


@pytest.mark.parametrize(("claim", "evidence"), [
    ("The bus stops here every Monday.", "The bus stops here every second Monday."),
    ("The filter is cleaned daily.", "The filter is cleaned every other day."),
    ("Both cranes were damaged.", "One of the two cranes was damaged."),
    ("The board agreed unanimously to the sale.", "The board agreed to the sale by five votes to two."),
    ("Parts of the plan may be copied.", "The plan may only be copied in full."),
    ("All children stay free.", "Every adult pays 8 euros, children under six stay free."),
    ("Take one 20 mg capsule in the morning.", "Take half a 20 mg capsule in the morning."),
    ("The weight is given in kilograms.", "The weight is given in grams."),
    ("Wool can be dried whatever the label says.", "Wool may only be dried if the label permits it."),
    ("Rinsing it monthly is enough even if you dry fur.", "It is rinsed monthly, or every week if you dry fur."),
    ("The shed may be painted in any colour.", "The shed must be painted in a neutral colour."),
    ("Guests always pay on arrival.", "Guests usually pay on arrival."),
    ("The pump starts before you open the valve.", "The pump starts once you have opened the valve."),
    ("Stir in the eggs before the dough has cooled.", "Let the dough cool, and only then stir in the eggs."),
    ("The note is due within five weeks.", "The note is due within five working days."),
])  # fmt: skip
def test_how_often_how_many_and_when(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).refuted


@pytest.mark.parametrize(("claim", "evidence", "context"), [
    ("The bus stops here every second Monday.", "The bus stops here every other Monday.", ""),
    ("All children under six stay free.", "Every adult pays 8 euros, children under six stay free.", ""),
    ("The pump starts after you have opened the valve.", "The pump starts once you have opened the valve.", ""),
    ("The pump starts once a day.", "The pump starts once a day.", ""),
    ("The note is due within 5 working days.", "The note is due within five working days.", ""),
    ("Up to 190 euros per night.", "Rooms cost up to €140 a night, or €190 in Paris and Orm.", "How much in Paris?"),
    ("Seats have to be booked no later than ten days before the show.", "Book seats at least ten days in advance.", ""),
    ("Each late film costs 15 pence.", "Adults may borrow up to 15 items. We charge 15p for each late film.", ""),
    ("The pool is closed on Mondays.", "The pool is open daily except Monday.", ""),
    ("Booking costs nothing online.", "Bookings are free online.", ""),
    ("No alarm is ever triggered by a test.", "Tests never trigger an alarm.", ""),
    ("It isn't a health risk.", "The iron is not harmful to health.", ""),
    ("The season lasts from 15.06. until 31.08.", "The season runs from 15 June to 31 August.", ""),
])  # fmt: skip
def test_the_same_in_other_words_is_no_mismatch(claim: str, evidence: str, context: str) -> None:
    assert not compare_claim(claim, evidence, context).mismatches


LISTS = "There are branches in York and Leeds."
HOURS = "The library is open Tuesday to Saturday from 10:00 to 18:00."
KIOSK = "The kiosk does not sell meat, but sells bread."
LOAN = "Helmet and gloves are included in the loan. Fuel is not included."
WORKSHOP = "The workshop was founded in 2009 by Ilse Brandt, a retired boatbuilder from Korsund."


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("There is a branch in Leeds.", LISTS),
        ("It was repaired in 1998.", "It was repaired in 1974 and 1998."),
        ("Meetings are held in March.", "Meetings are held in January, March and June."),
        ("The shop is closed on Mondays.", "The shop is closed on Sundays and Mondays."),
        ("Keln was settled in 1920.", "Mora was settled in 1910 and Keln in 1920."),
        ("The library closes at 18:00.", HOURS),
        ("The library doesn't open on Mondays.", HOURS),
        ("The pool closes at 8 pm.", "The pool is open until 8 pm."),
        ("The pool is open until 8 pm.", "The pool closes at 8 pm."),
        ("The fee is refundable until 1 June.", "The fee is not refundable after 1 June."),
        ("Dogs are allowed on a lead.", "Dogs are not allowed off the lead."),
        ("The kiosk sells bread.", KIOSK),
        ("Fuel is not included in the loan.", LOAN),
        ("Helmets are included in the loan.", LOAN),
        ("Der Schnitzkurs kostet 60 Euro.", "Der Kurs kostet 60 Euro."),
        ("Der Beitrag beträgt 45 Euro für Erwachsene.", "Membership is 45 euros for adults and 20 for students."),
        ("The workshop was founded in 2009.", WORKSHOP),
        ("It was founded by a retired boatbuilder.", WORKSHOP),
        ("The café does not serve lunch on Mondays.", "The café serves lunch daily, except on Mondays."),
        ("Guide dogs are allowed.", "No dogs are allowed except guide dogs."),
        ("The office is closed on Saturdays.", "The office is open on weekdays only."),
        ("You may not smoke in the buildings.", "Smoking is prohibited in all buildings."),
        ("Harlow won 3–1.", "The team lost 3–1 to Harlow."),
        ("The hut sleeps eight.", "Up to 8 people can sleep in the hut."),
        ("It does not run on Linux.", "The software runs on Windows and macOS but not on Linux."),
        ("Non-members may attend.", "Only members may vote, but anyone may attend."),
        ("Non-members may not vote.", "Only members may vote, but anyone may attend."),
        ("Cars up to 3.5 tonnes pay €10.", "Cars over 3.5 tonnes pay €20, others €10."),
        ("The ferry runs from April to October.", "The ferry does not run in winter (November to March)."),
        ("The Anna was built in Kiel.", "The ship was built in 1920 in Kiel and was named the Anna."),
    ],
)
def test_what_the_evidence_says_in_other_words_is_no_contradiction(claim: str, evidence: str) -> None:
    assert not [m for m in compare_claim(claim, evidence).mismatches if m.refuted]


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("She died in Skell.", "She was born in Skell and died in Paris."),
        ("The Alder goes in June.", "The Alder goes in May, and the Birch goes in June."),
        ("The library closes at 10:00.", HOURS),
        ("The library is closed from 10:00 to 18:00.", HOURS),
        ("The library opens on Mondays.", HOURS),
        ("The library doesn't open on Fridays.", HOURS),
        ("The pool closes at 9 pm.", "The pool is open until 8 pm."),
        ("The fee is refundable after 1 June.", "The fee is not refundable after 1 June."),
        ("Dogs are allowed off the lead.", "Dogs are not allowed off the lead."),
        ("The kiosk sells meat.", KIOSK),
        ("Fuel is included in the loan.", LOAN),
        ("Korsund was founded in 2009 by a retired boatbuilder.", WORKSHOP),
        ("Ilse Brandt was founded in 2009 by Ilse Brandt.", WORKSHOP),
        ("Members are elected by the board.", "The board is elected by the members."),
        ("The café serves lunch on Mondays.", "The café serves lunch daily, except on Mondays."),
        ("Guide dogs are not allowed.", "No dogs are allowed except guide dogs."),
        ("The office is open on Saturdays.", "The office is open on weekdays only."),
        ("The team won 3–1.", "The team lost 3–1 to Harlow."),
        ("The hut sleeps nine.", "Up to 8 people can sleep in the hut."),
        ("It runs on Linux.", "The software runs on Windows and macOS but not on Linux."),
        ("Non-members may vote.", "Only members may vote, but anyone may attend."),
        ("Cars up to 3.5 tonnes pay €20.", "Cars over 3.5 tonnes pay €20, others €10."),
        ("The ferry runs in December.", "The ferry does not run in winter (November to March)."),
    ],
)
def test_what_the_evidence_says_of_something_else_is_one(claim: str, evidence: str) -> None:
    assert [m for m in compare_claim(claim, evidence).mismatches if m.refuted]
