"""A claim against its evidence, fact by fact: what contradicts it is found, what only says it otherwise is not."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core.citation import compare_claim

LAKE = (
    "Lake Ivenmere is 83 metres deep and was surveyed on 11 July 1933 by Lavinia Hathe. The river is navigable as far "
    "as Millrace, but it is not open to motor boats. Twelve keepers lived there, and 1,067 ships passed in the first "
    "year. Ida Holm defeated Ansel Brandt in the regatta of 1911."
)
AGREES = [
    "Lake Ivenmere is 83 metres deep.", "The lake's depth is eighty-three metres.", "The lake is 272 ft deep.",
    "The lake is about 80 metres deep.", "The lake is over 80 metres deep.", "It was surveyed on July 11, 1933.",
    "It was surveyed on 1933-07-11.", "It was surveyed in July 1933.", "Hathe surveyed it in 1933.",
    "Dr. Lavinia Hathe surveyed Lake Ivenmere.", "There were 12 keepers.", "1067 ships passed in the 1st year.",
    "1 067 ships passed.", "The river isn't open to motor boats.", "Ansel Brandt was defeated by Ida Holm.",
    "In the regatta of 1911, Ida Holm defeated Ansel Brandt.", "Twelve keepers lived there.",
]  # fmt: skip
REFUTED = [
    ("Lake Ivenmere is 88 metres deep.", "number"), ("Lake Ivenmere is eighty-four metres deep.", "number"),
    ("Lake Ivenmere is 83 feet deep.", "unit"), ("It was surveyed on 11 May 1933 by Lavinia Hathe.", "date"),
    ("Lake Ivenmere was surveyed by Rufus Hathe.", "name"), ("It was surveyed on 11 July 1933 by Ida Holm.", "name"),
    ("The river is not navigable as far as Millrace.", "negation"),
    ("The river is navigable as far as Millrace, but it is open to motor boats.", "negation"),
    ("Ansel Brandt defeated Ida Holm in the regatta of 1911.", "role"),
    ("Twelve keepers lived there, and 1,076 ships passed in the first year.", "number"),
    ("Thirteen keepers lived there.", "number"),
]  # fmt: skip


@pytest.mark.parametrize("claim", AGREES)
def test_the_same_fact_in_other_words_is_no_mismatch(claim: str) -> None:
    assert compare_claim(claim, LAKE).mismatches == ()


@pytest.mark.parametrize(("claim", "kind"), REFUTED)
def test_a_changed_fact_is_refuted(claim: str, kind: str) -> None:
    found = compare_claim(claim, LAKE)
    assert found.refuted
    assert kind in {m.kind for m in found.mismatches if m.refuted}


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ("The lake froze in 1847.", "number"),
        ("The lake was dammed by Corvin Ashgrove.", "name"),
        ("Lake Ivenmere is 83 metres deep, and its water powered two famous paper mills nearby.", "addition"),
    ],
)
def test_what_the_evidence_does_not_say_is_missing_not_refuted(claim: str, kind: str) -> None:
    found = compare_claim(claim, LAKE)
    assert not found.agrees
    assert not found.refuted
    assert kind in {m.kind for m in found.mismatches}


def test_title_and_question_name_what_is_spoken_of() -> None:
    claim = "The Tide Museum was founded in 1887."
    assert not compare_claim(claim, "It was founded in 1887.").agrees
    assert compare_claim(claim, "It was founded in 1887.", context="The Tide Museum").agrees
    assert compare_claim(f"When was the Tide Museum founded? {claim}", "It was founded in 1887.").agrees
    assert compare_claim("Route 66 was opened in 1926.", "It was opened in 1926.", context="Route 66").agrees


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("There are 33 lighthouses.", "There are 12 lighthouses in the north and 21 in the south."),
        ("She lived for 67 years.", "She was born in 1844 and died in 1911."),
        ("The fee is 1.2 million euros.", "The fee is €1,234,567."),
        ("The depth is 83 m.", "Depth (m) | 83"),
        ("The FEC regulates it.", "The Federal Election Commission regulates it."),
        ("The Norwegian king came.", "The king of Norway came."),
        ("LeBron James has earned most.", "James has earned the most money."),
        ("The city has 1.5 million inhabitants.", "The city has 1,500,000 inhabitants."),
        ("It opened in the 1990s.", "It opened on 4 May 1994."),
        ("It was built in the nineteenth century.", "It was built in 1871."),
        ("The three lakes cover 60 ha.", "Lake A covers 10 ha, lake B 20 ha and lake C 30 ha."),
        ("Three people founded it.", "It was founded by Ann, Bob and Carl."),
        ("Half of the members left.", "50% of the members left."),
        ("From 1990 to 1995 she led it.", "She led it for five years, 1990–95."),
        ("He was 67 when he died.", "He was born in 1844 and died in 1911."),
        ("More than a dozen ships sank.", "Fifteen ships sank."),
        ("The United Nations was founded in 1945.", "The UN was founded in 1945."),
        ("Bob Smith led it.", "Robert Smith led it."),
        ("World War Two ended in 1945.", "World War II ended in 1945."),
        ("The 44th president spoke.", "The forty-fourth president spoke."),
        ("The meeting is on 5/1/2024.", "The meeting is on 5 January 2024."),
        ("The meeting is on Jan. 5.", "The meeting is on 5 January 2024."),
        ("The file may be up to 2 GB.", "The file may be at most 2048 MB."),
        ("Water boils at 100 °C.", "Water boils at 212 °F."),
        ("Version 2.1 added it.", "It was added in version 2.1.0."),
        ("Kinetic energy is the energy of motion.", "The energy of motion is kinetic energy."),
        ("It is open on Wednesdays.", "It is open Monday to Friday."),
        ("It opens at 9 on Sundays.", "It opens at 9 daily."),
        ("It opens at 9 on Mondays.", "It opens at 9 on weekdays."),
        ("Die Stadt hat zwölf Brücken.", "Die Stadt hat 12 Brücken."),
        ("No, frost damage is not covered.", "It does not cover damage by frost."),
        ("The T200 has no heater.", "Some models have a heater; the T200 has none."),
        ("Cats are not allowed in the garden.", "Dogs are allowed in the garden; cats are not."),
        ("Guests are not admitted without a badge.", "Guests are admitted only with a badge."),
        ("If no resident objects, guests may stay overnight.", "Guests may stay overnight unless a resident objects."),
        ("Staff must wear boots.", "In May wear boots and gloves."),
        ("Store the paint below 30 °C.", "Do not store the paint above 30 °C."),
        ("The paint must be stored at 30 °C or below.", "Do not store the paint above 30 °C."),
        ("The lift carries no more than 8 people.", "The lift carries at most 8 people."),
        ("The lift cannot carry more than 8 people.", "The lift carries at most 8 people."),
        ("Trips of eight hours or more are paid.", "Trips are paid if they last at least eight hours."),
        ("Trips fell by five points.", "Trips fell by 5 percentage points."),
        ("It fell by 8 percentage points.", "It fell from 82% to 74%."),
        ("Gas has no definite volume and no definite shape.", "Gas has no definite shape nor volume."),
        ("Old readers aren't supported any more.", "Old readers are no longer supported."),
        ("Speakers may join by video, but members may not.",
         "Speakers could join by video, while members could not join by video."),
        ("Projects with a lockfile can use it.", "It is not used for any project without a lockfile."),
        ("Name all ideas that are not your own.", "You must also name, each time, all ideas that are not your own."),
        ("It opens from 9 to 5.30.", "Opening hours: it opens 9:00 - 17:30."),
        ("In the south, sales were 10 million, compared with 12 million in the north.",
         "Sales were 12 million in the north, compared with 10 million in the south."),
        ("Files are not compressed if compression makes them larger.",
         "If compression makes files larger, they are stored."),
        ("It no longer crashes on empty input.", "Fixed a crash on empty input."),
        ("They waited half a year.", "They waited 6 months."), ("It lasts an hour and a half.", "It lasts 90 minutes."),
        ("Half a million people came.", "500,000 people came."), ("Wait two and a half days.", "Wait 60 hours."),
        ("Bake it for about half an hour.", "Bake it in the oven for 25–35 minutes."),
        ("Bake it at 350°F.", "Bake it at 180C/350F/Gas 4."), ("Bake it at 180 °C.", "Bake it at 180ºC."),
        ("It brought in £3.2m.", "It brought in 3.2 million pounds."),
        ("The School of Navigation was opened in 1805.",
         "The School of Navigation is old. It was opened in 1805 beside the Customs House."),
    ],
)  # fmt: skip
def test_arithmetic_rounding_headers_initials_denials_and_bounds(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).agrees


@pytest.mark.parametrize(
    ("claim", "evidence", "exchanged"),
    [
        ("She was elected in 1817 and served until 1809.", "She was elected in 1809 and served until 1817.", True),
        ("3 lunes a person and 2 skips a car.", "3 skips a person and 2 lunes a car.", True),
        ("It costs 8 euros for adults and 5 for children.", "It costs 5 euros for adults and 8 for children.", True),
        ("Orrin led it from 1915 and joined in 1904.", "Orrin joined in 1904 and led it from 1915.", False),
        ("In 1904 she joined, in 1915 she led it.", "She joined in 1904, led it in 1915 and left in 1948.", False),
        ("Children pay 5 euros and adults 8 euros.", "It costs 8 euros for adults and 5 euros for children.", False),
        ("Lake A is 12 m deep and 3 km long.", "Lake A is 3 km long and 12 m deep.", False),
        ("It cost 870,000 lunes and is 1.3 km long.", "The bridge, 1.3 km long, cost 870,000 lunes.", False),
    ],
)
def test_numbers_that_change_places(claim: str, evidence: str, exchanged: bool) -> None:
    assert any(m.kind == "number" and m.refuted for m in compare_claim(claim, evidence).mismatches) == exchanged


def test_a_count_is_no_other_year() -> None:
    found = compare_claim("Lunn was Steward from 1809.", "Steward Lunn is on the note of fifty lunes from the mint.")
    assert not found.refuted


@pytest.mark.parametrize("claim", ["Three stations", "There are three stations."])
def test_the_numbers_of_a_date_count_nothing(claim: str) -> None:
    found = compare_claim(claim, "The Board was created on 12 May 1921 to build stations.")
    assert not found.refuted
    assert not found.agrees
    assert compare_claim("It opened on 13 May.", "It opened on 12 May.").refuted
    assert compare_claim("Three stations", "Twelve stations").refuted


def test_the_same_subject_without_a_name() -> None:
    assert compare_claim("The lamp was lit in 1871.", "The lamp was lit in 1950.").same_subject
    assert not compare_claim("The lamp was lit in 1871.", "A second lamp was lit in 1950.").same_subject
    assert not compare_claim("The lamp was lit in 1871.", "The electric lamp was lit in 1950.").same_subject
    census = compare_claim("The census of 1811 counted 23,704 people.", "The census of 2011 counted 96,430 people.")
    assert census.refuted
    assert not census.same_subject


def test_weekdays_are_compared_with_groups_of_them() -> None:
    (wrong,) = compare_claim("It leaves at 8:15 on Sundays.", "It leaves at 8:15 on weekdays.").mismatches
    assert (wrong.kind, wrong.claimed, wrong.held) == ("date", "Sundays", "weekdays")


@pytest.mark.parametrize(
    ("true", "changed", "evidence"),
    [
        ("Der Turm wurde 1911 gebaut.", "Der Turm wurde 1912 gebaut.", "Der Turm wurde im Jahr 1911 gebaut."),
        ("Die Brücke ist 3,5 km lang.", "Die Brücke ist 3,8 km lang.", "Die Brücke ist 3.500 m lang."),
        ("Der See ist tief.", "Der See ist nicht tief.", "Der See ist sehr tief."),
        ("La torre fue construida en marzo de 1911.", "La torre fue construida en mayo de 1911.",
         "La torre fue construida el 3 de marzo de 1911."),
        ("Le pont a été ouvert par Jean Moulin.", "Le pont a été ouvert par Paul Moulin.",
         "Le pont a été ouvert par Jean Moulin en 1911."),
        ("这座塔建于1911年。", "这座塔建于1912年。", "这座塔建于1911年5月。"),
    ],
)  # fmt: skip
def test_other_languages_by_words_and_numbers(true: str, changed: str, evidence: str) -> None:
    assert compare_claim(true, evidence).agrees
    assert not compare_claim(changed, evidence).agrees


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("It opened in the 1980s.", "It opened on 4 May 1994."),
        ("It opened in 1994.", "It opened in the 1990s."),
        ("It was built in the 18th century.", "It was built in 1871."),
        ("At least 5,000 people died.", "4,893 people died."),
        ("Vessen is the capital of Orm.", "The capital of Vessen is Orm."),
        ("Version 2.2 added it.", "It was added in version 2.1."),
        ("Die Stadt hat elf Brücken.", "Die Stadt hat 12 Brücken."),
        ("The meeting is on 5/2/2024.", "The meeting is on 5 January 2024."),
        ("No, guests are admitted.", "Guests are not admitted."),
        ("No, guests are not admitted.", "Guests are admitted."),
        ("The T200 has a heater.", "Some models have a heater; the T200 has none."),
        ("Cats are allowed in the garden.", "Dogs are allowed in the garden; cats are not."),
        ("Guests are not admitted with a badge.", "Guests are admitted only with a badge."),
        ("Run the pump without a filter.", "Do not run the pump without a filter."),
        ("Store the paint above 30 °C.", "Do not store the paint above 30 °C."),
        ("Do not store the paint below 30 °C.", "Do not store the paint above 30 °C."),
        ("The lift carries 8 people or more.", "The lift carries at most 8 people."),
        ("The lift carries no less than 8 people.", "The lift carries at most 8 people."),
        ("Sales grew by 12 percentage points.", "Sales grew by 12 percent."),
        ("Trips fell by 5%.", "Trips fell by 5 percentage points."),
        ("It fell by 8%.", "It fell from 82% to 74%."),
        ("The syrup does not contain milk.", "Take it if you are ill, unless you are old (the syrup contains milk)."),
        ("Old readers are supported.", "Old readers are no longer supported."),
        ("They waited half a year.", "They waited 9 months."),
        ("Bake it at 160 °C.", "Bake it at 180C."),
        ("Bake it for about 50 minutes.", "Bake it in the oven for 25–35 minutes."),
    ],
)
def test_periods_bounds_denials_and_roles_that_differ(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).agrees


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Arsenal is the most successful London club.",
         "The most successful London club, they have won 13 League titles, a record 13 FA Cups and two League Cups."),
        ("He lived without getting tired.", "He lived an active life."),
        ("There are over 200 lamps in the air.", "Of the air in a lamp, there is talk for a 20-year time."),
        ("Visits are only recorded in the Skell Hall.", "Orm Trust in Skell records visits in the Skell Hall."),
        ("It fixed a bug by which a crafted name could overwrite a file.",
         "A crafted name can no longer overwrite a file."),
        ("The zoo has 19 apes.", "The zoo has one of the oldest groups of apes."),
        ("Jo is 45 years old.", "Jo, 45, is driving. The couple raise four other children, years apart, with Jo."),
        ("Barbara Stanwyck was an actress and won three Emmy Awards.",
         "Barbara Stanwyck (born July 16, 1907) was an American actress, model and dancer."),
        ("The rent is €1,180 each month.", "The monthly rent is €1,180."),
    ],
)  # fmt: skip
def test_other_words_in_a_paraphrase_contradict_nothing(claim: str, evidence: str) -> None:
    assert not compare_claim(claim, evidence).refuted


@settings(deadline=None)
@given(st.text(max_size=200))
def test_a_text_agrees_with_itself(text: str) -> None:
    assert compare_claim(text, text).agrees


@settings(deadline=None)
@given(st.text(max_size=120), st.text(max_size=120), st.text(max_size=40))
@example("One thırd of it, on ſundays.", "Half a fıfth of it, Fri to ſaturday.", "")
def test_nothing_is_raised_for_any_text(claim: str, evidence: str, context: str) -> None:
    for mismatch in compare_claim(claim, evidence, context).mismatches:
        assert mismatch.claimed
        assert str(mismatch)


def test_endless_sentences_are_compared_without_aligning_them() -> None:
    long = "the lamp of Orm was lit " * 700  # no full stop anywhere
    assert compare_claim(f"{long} in 1871", f"{long} in 1871").agrees
    assert not compare_claim("The lamp was lit in 1999.", f"{long} in 1871").agrees


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("$5 and " * 250, "5 $ and " * 250),  # took eight seconds, with the third power of its length
        ("It cost $5 in May.", "5 $ and " * 3000),
        ("Fred sold Ann to Bob and " * 150, "Fred sold Ann to Bob and " * 150),
        (" ".join(map(str, range(500))), " ".join(map(str, range(500)))),
    ],
)
def test_claims_of_nothing_but_numbers_or_names_are_compared(claim: str, evidence: str) -> None:
    assert compare_claim(claim, evidence).agrees is ("May" not in claim)


@pytest.mark.parametrize("value", ['"none"', "`none`"])
def test_a_value_in_quotes_denies_nothing(value: str) -> None:
    field = f"The name of the owner, or {value}."
    assert not any(m.kind == "negation" for m in compare_claim("The name of the owner.", field).mismatches)
    assert any(
        m.kind == "negation" for m in compare_claim("The form has an owner.", "The form has no owner.").mismatches
    )


def test_the_rest_of_a_whole_is_no_unknown_number() -> None:
    """ "Seven plots have not yet paid" was kept back where the minutes have "61 of the 68"."""
    held = "Rents of 61 of the 68 plots have been received."
    assert compare_claim("Seven plots have not yet paid, since rents of 61 of the 68 were received.", held).agrees
    assert compare_claim("The rents of 7 plots are outstanding.", held).agrees
    assert not compare_claim("Seven plots have paid their rent.", held).agrees
    assert not compare_claim("Eight plots have not paid.", held).agrees
    assert compare_claim("Rents of 7 of the 68 plots have been received.", held).refuted
    assert not compare_claim("7 plots have not paid.", "61 of the 68 plots have not paid.").agrees
